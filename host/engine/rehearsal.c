/* host/engine/rehearsal.c: a build's end: start and ready once, in a sandbox that is thrown away
 * (decisions.md). Loop thread.
 *
 * Here the engine also learns which variables the policy in the image takes tokens from, so that a
 * create need not look. */
#include "host/engine/job_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { POLICY_MAX = 256 * 1024, SLACK_S = 60, TOKEN_BYTES = 32 };
static const char default_ready[] = "sleep 20";

/* The policy. */

struct token {
    struct abx_str token_env;
};
static const struct abx_json_field token_fields[] = {
    {"token_env", ABX_JSON_STR, offsetof(struct token, token_env), 0}, {0}};
struct policy {
    struct abx_json_array tokens;
};
static const struct abx_json_field auth_fields[] = {{"tokens", ABX_JSON_ARRAY,
                                                     offsetof(struct policy, tokens), 0,
                                                     token_fields, sizeof(struct token)},
                                                    {0}};
static const struct abx_json_field policy_fields[] = {
    {"auth", ABX_JSON_OBJECT, 0, 0, auth_fields, sizeof(struct policy)}, {0}};

static bool is_variable(struct abx_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
                  (i != 0 && c >= '0' && c <= '9');
        if (!ok)
            return false;
    }
    return name.len != 0 && name.len <= ABX__TOKEN_ENV_MAX;
}

static bool is_known(const struct abx__blueprint *bp, struct abx_str name)
{
    for (size_t i = 0; i < bp->token_env_count; i++) {
        if (abx_str_is(name, bp->token_env[i]))
            return true;
    }
    return false;
}

static void take_tokens(struct abx__job *j, const struct policy *p)
{
    struct abx__blueprint *bp = j->bp;
    const struct token *tokens = p->tokens.items;
    for (size_t i = 0; i < p->tokens.count; i++) {
        struct abx_str name = tokens[i].token_env;
        if (name.len == 0 || is_known(bp, name))
            continue;
        if (!is_variable(name) || bp->token_env_count == ABX__TOKEN_ENVS) {
            abx__job_log(j, ABX__WARN, "[finalize] server policy: no token is made for '%.*s'",
                         (int)(name.len < 64 ? name.len : 64), name.ptr);
            continue;
        }
        if (abx_str_to_c(name, bp->token_env[bp->token_env_count], sizeof(bp->token_env[0])) == 0)
            bp->token_env_count++;
    }
}

static void boot(struct abx__job *j);

static void on_policy(struct abx__fetch *f, struct abx_str text, const struct abx_error *err)
{
    struct abx__job *j = f->owner;
    struct policy p = {0};
    struct abx_error why = {0};
    struct abx_arena arena;
    abx_arena_init(&arena, (size_t)4 * POLICY_MAX);
    j->bp->token_env_count = 0;
    if (err == NULL && abx_json_decode_text(text, false, policy_fields, &p, &arena, &why) == 0)
        take_tokens(j, &p);
    else if (err == NULL || err->code != ABX_NOT_FOUND)
        abx__job_log(j, ABX__WARN, "[finalize] server policy not read: %s",
                     err == NULL ? why.msg : err->msg);
    abx_arena_done(&arena);
    boot(j);
}

/* Start and ready. */

static void on_line(void *arg, bool is_ready, bool is_stderr, struct abx_str line)
{
    abx__job_log_line(arg, is_ready ? "[finalize] [ready]" : "[finalize] [start]", is_stderr, line);
}

static void on_booted(void *arg, const struct abx_error *err, struct abx_str tail)
{
    struct abx__job *j = arg;
    if (err != NULL)
        abx__job_fail(j, err, tail);
    else
        abx__job_finish(j);
}

static void write_tokens(const struct abx__blueprint *bp, struct abx_buf *b)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, b);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < bp->token_env_count; i++) {
        unsigned char secret[TOKEN_BYTES];
        char text[2 * TOKEN_BYTES + 1];
        if (abx_image_env(bp->image, bp->token_env[i]) != NULL)
            continue;
        randombytes_buf(secret, sizeof(secret));
        abx_hex_encode(secret, sizeof(secret), text);
        abx_json_kv_c(&w, bp->token_env[i], text);
    }
    abx_json_end_object(&w);
}

static void boot(struct abx__job *j)
{
    ABX_AUTO_BUF envs = {.max = 65536};
    struct abx_error err = {0};
    write_tokens(j->bp, &envs);
    struct abx__sandbox *sb = abx__sandbox_find_any(j->engine, abx_str(j->sandbox_id));
    struct abx__boot_spec spec = {.sandbox = sb,
                                  .start = j->bp->start,
                                  .ready = j->bp->ready[0] == '\0' ? default_ready : j->bp->ready,
                                  .start_envs = abx_buf_str(&envs),
                                  .limit_ms = ABX__REHEARSAL_MS,
                                  .on_line = on_line,
                                  .done = on_booted,
                                  .arg = j};
    if (sb == NULL)
        abx_err_set(&err, ABX_INTERNAL, "the sandbox of the rehearsal ended by itself");
    else if (abx_buf_failed(&envs))
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory for the rehearsal");
    else
        j->boot = abx__boot_start(&spec, &err);
    if (j->boot == NULL)
        abx__job_fail(j, &err, (struct abx_str){0});
}

static void on_made(struct abx__wait *w, struct abx__sandbox *sb, const struct abx_error *err)
{
    struct abx__job *j = ABX_CONTAINER_OF(w, struct abx__job, wait);
    struct abx_error failure = {0};
    if (err != NULL) {
        abx__job_fail(j, err, w->detail);
        return;
    }
    memcpy(j->sandbox_id, sb->id, sizeof(j->sandbox_id));
    j->policy = (struct abx__fetch){.fn = on_policy, .owner = j};
    if (abx__fetch_start(&j->policy, sb, ABX_SERVER_POLICY_PATH, POLICY_MAX, &failure) < 0)
        abx__job_fail(j, &failure, (struct abx_str){0});
}

static void make_sandbox(struct abx__job *j)
{
    struct abx_error err = {0};
    struct abx__blueprint *bp = abx__blueprint_copy(j->bp);
    struct abx__create p = {.take_blueprint = bp,
                            .timeout_s = ABX__REHEARSAL_MS / 1000 + SLACK_S,
                            .is_secure = true,
                            .is_hidden = true};
    if (bp == NULL) {
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory for the rehearsal");
        abx__job_fail(j, &err, (struct abx_str){0});
        return;
    }
    snprintf(bp->template_id, sizeof(bp->template_id), "%s", j->template_id);
    bp->cpu = j->cpu;
    bp->memory_mb = j->memory_mb;
    j->wait.fn = on_made;
    if (abx__sandbox_create(j->engine, &p, &j->wait, &err) < 0)
        abx__job_fail(j, &err, (struct abx_str){0});
}

static int take_image(struct abx__job *j, struct abx_error *err)
{
    struct abx_image *image = abx_image_copy(abx_build_image(j->builder));
    if (image == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the build");
    abx_image_free(j->bp->image);
    j->bp->image = image;
    return 0;
}

void abx__job_rehearse(struct abx__job *j)
{
    struct abx_error err = {0};
    if (take_image(j, &err) < 0) {
        abx__job_fail(j, &err, (struct abx_str){0});
        return;
    }
    abx_build_close(ABX_TAKE(j->builder));
    abx__job_set_phase(j, ABX__REHEARSING);
    if (j->bp->start[0] == '\0' && j->bp->ready[0] == '\0') {
        abx__job_finish(j);
        return;
    }
    abx__job_log(j, ABX__INFO, "[finalize] rehearsal of start and ready");
    make_sandbox(j);
}

void abx__job_rehearsal_close(struct abx__job *j)
{
    abx_list_remove(&j->wait.node); /* a creation that nobody waits for is undone */
    abx__fetch_done(&j->policy);
    abx__boot_close(ABX_TAKE(j->boot));
    struct abx__sandbox *sb = abx__sandbox_find_any(j->engine, abx_str(j->sandbox_id));
    if (sb != NULL)
        abx__sandbox_kill(sb, NULL);
    j->sandbox_id[0] = '\0';
}
