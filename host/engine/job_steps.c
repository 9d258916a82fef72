/* host/engine/job_steps.c: a build's base and its steps, one after the other. Loop thread.
 *
 * What a step has made is in the store before the next one starts, so that a build which the
 * engine's death interrupts goes on there. A step that another job is just running is waited for:
 * then its layer is there. */
#include "host/engine/job_priv.h"

#include "host/image/base.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

static void fail_no_memory(struct abx__job *j)
{
    struct abx_error err = {0};
    abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory for the build");
    abx__job_fail(j, &err, (struct abx_str){0});
}

/* The base. */

/* What clients call the base image of the platform they were written for. */
static const char *const base_names[] = {"e2bdev/base", "e2bdev/base:latest"};

static bool is_base_name(struct abx_str from)
{
    for (size_t i = 0; i < ABX_COUNTOF(base_names); i++) {
        if (abx_str_is(from, base_names[i]))
            return true;
    }
    return false;
}

/* The image that @from names; base[] of the blueprint says what it stands in for. */
static int find_image(struct abx__job *j, struct abx_str from, struct abx_error *err)
{
    const char *name = NULL;
    struct abx_str tag = {0};
    char tag_text[ABX_STORE_NAME_MAX + 1] = ABX_BASE_IMAGE_TAG;
    if (abx_base_match(from, &name, &tag)) {
        if (abx_str_to_c(tag, tag_text, sizeof(tag_text)) < 0)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "the tag is too long");
    } else if (is_base_name(from)) {
        name = "base";
    }
    struct abx_str shown = abx_str_sub(from, 0, 64);
    struct abx_str want = name == NULL ? from : abx_str(name);
    if (abx__blueprint_image(j->engine, want, &j->bp, err) < 0) {
        if (err->code == ABX_NOT_FOUND && name != NULL)
            abx_err_set(err, ABX_NOT_FOUND,
                        "image '%s' is not on this machine: make it with `abx image build %s`",
                        name, name);
        else if (err->code == ABX_NOT_FOUND)
            abx_err_set(err, ABX_NOT_FOUND,
                        "image '%.*s' is not on this machine, and this engine pulls from no"
                        " registry: `abx image import %.*s FILE` takes it from an archive, or"
                        " build from e2bdev/base",
                        ABX_STR_FMT(shown), ABX_STR_FMT(shown));
        return -1;
    }
    if (name != NULL)
        abx_base_describe(name, tag_text, j->bp->base);
    else
        snprintf(j->bp->base, sizeof(j->bp->base), "base: image %.*s",
                 (int)(from.len < 128 ? from.len : 128), from.ptr);
    j->prelude = name != NULL ? 0 : ABX__JOB_PRELUDE;
    if (name != NULL && (abx_image_set_user(j->bp->image, ABX_USER_NAME) < 0 ||
                         abx_image_set_workdir(j->bp->image, ABX_USER_HOME) < 0))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the base");
    return 0;
}

static int find_parent(struct abx__job *j, struct abx_error *err)
{
    struct abx_str from = j->plan.from_template;
    if (abx__blueprint_find(j->engine, from, &j->bp, err) < 0)
        return -1;
    if (j->bp->image == NULL)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "template 'host' is this machine's own folders: nothing can be built on"
                           " it");
    return 0;
}

static int apply_plan(struct abx__job *j, struct abx_error *err)
{
    if (j->plan.start.len != 0 || j->plan.ready.len != 0) {
        if (abx__blueprint_set(&j->bp->start, j->plan.start, err) < 0 ||
            abx__blueprint_set(&j->bp->ready, j->plan.ready, err) < 0)
            return -1;
    }
    if (j->plan.envd_inject.len != 0 &&
        abx_str_to_c(j->plan.envd_inject, j->bp->envd_inject, sizeof(j->bp->envd_inject)) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "envdInject is too long");
    if (j->plan.has_hidepid)
        j->bp->proc_hidepid = j->plan.proc_hidepid;
    j->bp->token_env_count = 0;
    return 0;
}

static void on_output(void *arg, enum abx_build_stream stream, struct abx_str text);
static void on_step(void *arg, const struct abx_step_result *r, const struct abx_error *err);

static int open_builder(struct abx__job *j, struct abx_error *err)
{
    struct abx_build_options o = {.memory_mb = j->memory_mb,
                                  .cpu_count = j->cpu,
                                  .events = {.on_output = on_output, .on_step = on_step, .arg = j}};
    return abx_build_open(&j->engine->loop, j->engine->rt, j->bp->image, &o, &j->builder, err);
}

static void say_base(struct abx__job *j)
{
    if (j->is_resumed) {
        abx__job_log(j, ABX__INFO, "resumed after the engine ended: %u of %zu steps were done",
                     (unsigned)j->steps_done, j->plan.steps.count);
        return;
    }
    struct abx_digest digest;
    char hex[2 * sizeof(digest) + 1];
    abx_image_digest(j->bp->image, &digest);
    abx_hex_encode(digest.bytes, sizeof(digest.bytes), hex);
    hex[12] = '\0';
    abx__job_log(j, ABX__INFO, "%s", j->bp->base[0] == '\0' ? "base: template" : j->bp->base);
    abx__job_log(j, ABX__INFO, "network: RUN has loopback only");
    if (j->plan.from_image.len != 0)
        abx__job_log(j, ABX__INFO, "[base] FROM %.*s [%s]", ABX_STR_FMT(j->plan.from_image), hex);
    else
        abx__job_log(j, ABX__INFO, "[base] FROM template %.*s [%s]",
                     ABX_STR_FMT(j->plan.from_template), hex);
}

static void next_step(struct abx__job *j);

static void on_next(struct abx_defer *d)
{
    struct abx__job *j = d->owner;
    if (j->phase == ABX__STEPPING)
        next_step(j);
}

static void later(struct abx__job *j)
{
    abx_defer_start(&j->next, &j->engine->loop, on_next, j);
}

static void start_key(struct abx__job *j)
{
    struct abx_digest digest;
    abx_image_digest(j->bp->image, &digest);
    crypto_hash_sha256(j->done_key, digest.bytes, sizeof(digest.bytes));
}

void abx__job_begin(struct abx__job *j)
{
    struct abx_error err = {0};
    abx__job_set_phase(j, ABX__STEPPING);
    if (j->bp == NULL) {
        int r = j->plan.from_template.len != 0 ? find_parent(j, &err)
                                               : find_image(j, j->plan.from_image, &err);
        if (r < 0 || apply_plan(j, &err) < 0) {
            abx__job_fail(j, &err, (struct abx_str){0});
            return;
        }
    }
    if (open_builder(j, &err) < 0) {
        abx__job_fail(j, &err, (struct abx_str){0});
        return;
    }
    say_base(j);
    start_key(j);
    later(j);
}

/* One step. */

static void prelude_step(const struct abx__job *j, struct abx_step *s)
{
    *s = (struct abx_step){.take_archive_fd = -1};
    s->type = j->prelude == ABX__JOB_PRELUDE ? ABX_STEP_USER : ABX_STEP_WORKDIR;
    s->name = j->prelude == ABX__JOB_PRELUDE ? ABX_USER_NAME : ABX_USER_HOME;
}

static int open_archive(struct abx__job *j, const struct abx__plan_step *p, struct abx_step *s,
                        struct abx_error *err)
{
    char name[ABX_STORE_HASH_LEN + 16], digest[ABX_STORE_HASH_LEN + 1];
    if (abx_store_upload_use(j->engine->store, p->files_hash, digest, err) < 0)
        return -1;
    snprintf(name, sizeof(name), "upload.%.*s", ABX_STR_FMT(p->files_hash));
    s->take_archive_fd = openat(j->engine->files_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (s->take_archive_fd < 0)
        return abx_err_set(err, ABX_NOT_FOUND, "the uploaded files are gone: build again");
    if (abx_hex_decode(abx_str(digest), s->archive_digest.bytes, sizeof(s->archive_digest)) < 0)
        return abx_err_set(err, ABX_DATA_LOSS, "database: an upload row is not one of ours");
    return 0;
}

static void hash_text(crypto_hash_sha256_state *h, struct abx_str text)
{
    uint64_t len = text.len;
    crypto_hash_sha256_update(h, (const unsigned char *)&len, sizeof(len));
    crypto_hash_sha256_update(h, (const unsigned char *)text.ptr, text.len);
}

/* What the step will make, as far as two jobs of this engine may do the same. */
static void step_key(struct abx__job *j, const struct abx__plan_step *p, const struct abx_step *s)
{
    crypto_hash_sha256_state h;
    const struct abx_str *args = p == NULL ? NULL : p->args.items;
    crypto_hash_sha256_init(&h);
    crypto_hash_sha256_update(&h, j->done_key, sizeof(j->done_key));
    hash_text(&h, p == NULL ? abx_str(s->name) : p->type);
    for (size_t i = 0; p != NULL && i < p->args.count; i++)
        hash_text(&h, args[i]);
    crypto_hash_sha256_update(&h, s->archive_digest.bytes, sizeof(s->archive_digest.bytes));
    unsigned char is_new = s->no_cache; /* then its layer is nobody else's */
    crypto_hash_sha256_update(&h, &is_new, sizeof(is_new));
    crypto_hash_sha256_final(&h, j->key);
}

static void say_step(struct abx__job *j, const char *before)
{
    char text[256];
    if (j->prelude != 0)
        return;
    abx__plan_describe(abx__plan_step(&j->plan, j->steps_done), text);
    abx__job_log(j, ABX__INFO, "%s[builder %u/%zu] %s", before, (unsigned)j->steps_done + 1,
                 j->plan.steps.count, text);
}

static void run_step(struct abx__job *j)
{
    const struct abx__plan_step *p =
        j->prelude != 0 ? NULL : abx__plan_step(&j->plan, j->steps_done);
    struct abx_step s = {.take_archive_fd = -1};
    struct abx_error err = {0};
    abx_arena_done(&j->step_arena);
    if (p == NULL) {
        prelude_step(j, &s);
    } else if (abx__plan_fill(p, &j->step_arena, &s) < 0) {
        fail_no_memory(j);
        return;
    }
    if (p != NULL && abx__plan_is_copy(p) && open_archive(j, p, &s, &err) < 0) {
        if (s.take_archive_fd >= 0)
            close(s.take_archive_fd);
        abx__job_fail(j, &err, (struct abx_str){0});
        return;
    }
    s.no_cache = j->plan.force || (p != NULL && p->force);
    step_key(j, p, &s);
    struct abx__job *runner = s.no_cache ? NULL : abx__builds_runner(j);
    j->is_waiting = runner != NULL;
    if (j->is_waiting) {
        if (s.take_archive_fd >= 0)
            close(s.take_archive_fd);
        if (j->joined[0] == '\0')
            say_step(j, "");
        abx__job_join(j, runner);
        return; /* poked when that step is over */
    }
    j->joined[0] = '\0';
    abx__tail_clear(&j->tail);
    j->is_running_step = true;
    say_step(j, "");
    j->step_log = j->log_next;
    abx_build_step(j->builder, &s);
}

static void next_step(struct abx__job *j)
{
    if (j->is_running_step)
        return;
    if (j->prelude != 0 || j->steps_done < j->plan.steps.count)
        run_step(j);
    else
        abx__job_rehearse(j);
}

void abx__job_poke(struct abx__job *j)
{
    if (j->is_waiting)
        later(j);
}

/* Its events. */

static void on_line(void *arg, struct abx_str line)
{
    struct abx__job *j = arg;
    abx__job_output(j, j->is_stderr, line);
    abx__job_share_line(j, line);
}

static void on_output(void *arg, enum abx_build_stream stream, struct abx_str text)
{
    struct abx__job *j = arg;
    j->is_stderr = stream == ABX_BUILD_STDERR;
    abx__lines_feed(&j->lines[j->is_stderr ? 1 : 0], text, on_line, j);
}

static int note_progress(struct abx__job *j, struct abx_error *err)
{
    ABX_AUTO_BUF state = {.max = ABX__BLUEPRINT_JSON_MAX};
    struct abx_image *image = abx_image_copy(abx_build_image(j->builder));
    if (image == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the build");
    abx_image_free(j->bp->image);
    j->bp->image = image;
    abx__blueprint_encode(j->bp, &state);
    if (abx_buf_failed(&state))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "the image's configuration is too large");
    return abx_store_build_progress(j->engine->store, j->id, j->steps_done, abx_buf_str(&state),
                                    err);
}

void abx__job_fail_step(struct abx__job *j, const struct abx_error *err)
{
    ABX_AUTO_BUF tail = {.max = ABX__TAIL_TEXT_MAX * 2};
    abx__tail_write(&j->tail, &tail);
    abx__job_fail(j, err, abx_buf_str(&tail));
}

static void on_step(void *arg, const struct abx_step_result *r, const struct abx_error *err)
{
    struct abx__job *j = arg;
    struct abx_error failure = {0};
    for (int i = 0; i < 2; i++) {
        j->is_stderr = i == 1;
        abx__lines_end(&j->lines[i], on_line, j);
    }
    if (err == NULL && r->cached)
        say_step(j, "CACHED ");
    j->is_running_step = false;
    if (err != NULL)
        abx__job_share_failure(j, err);
    abx__builds_poke(j->engine);
    if (err != NULL) {
        abx__job_fail_step(j, err);
        return;
    }
    memcpy(j->done_key, j->key, sizeof(j->done_key));
    if (j->prelude != 0) {
        j->prelude--;
        later(j);
        return;
    }
    j->steps_done++;
    if (note_progress(j, &failure) < 0) {
        abx__job_fail(j, &failure, (struct abx_str){0});
        return;
    }
    later(j);
}
