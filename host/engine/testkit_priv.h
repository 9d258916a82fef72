/* host/engine/testkit_priv.h: for the tests of this folder: an engine on a loop of the test's own,
 * over a runtime side that makes folders and gateways instead of sandboxes, and a raw client.
 *
 * The functions of runtime.h are defined here, so the linker takes none of host/runtime. A made
 * sandbox is the folder STATE/sandboxes/ID with run/gateway.sock; it "lives" while that exists. */
#pragma once
#include "host/engine/api_priv.h"
#include "host/engine/builds_priv.h"
#include "host/engine/edge_priv.h"
#include "host/engine/testkit_export_priv.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/wire/envelope.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KIT_GUESTS = 40, KIT_PENDING = 64, KIT_HANG_MS = 20000, KIT_STEPS = 64 };
static const char kit_key[] = "e2b_00112233445566778899aabbccddeeff00112233";

enum kit_op { KIT_CREATE, KIT_ADOPT, KIT_DESTROY, KIT_GC, KIT_LAYERS };
struct kit_request {
    enum kit_op op;
    char id[32];
    abx_runtime_created_fn *created;
    abx_runtime_done_fn *done;
    void *arg;
};
struct kit_guest {
    char id[32];
    struct abx_http_server *server;
};

static struct kit {
    struct abx__engine e;
    char dir[64];
    int listener_port;
    bool is_started, is_open;
    /* the runtime side */
    struct kit_request pending[KIT_PENDING];
    size_t pending_count;
    struct kit_guest guests[KIT_GUESTS];
    bool hold;         /* requests stay pending */
    int fail_creates;  /* that many creations fail */
    int fail_errno;    /* with this, if not 0 */
    int fail_destroys; /* that many removals fail */
    int refuse_init;   /* that many /init are answered init_status */
    int init_status;
    size_t init_text_bytes;       /* of the body of a refusal */
    bool is_init_silent;          /* /init is never answered */
    int counts[5];                /* by kit_op */
    char init_body[4096];         /* of the last /init */
    struct abx_http_req *hanging; /* of /hang or /late */
    int hang_aborts;
    size_t kept;       /* ids that the last gc was told to keep */
    unsigned gc_count; /* collections since the start, the one at start included */
    /* builds */
    struct abx_build *builds[KIT_STEPS]; /* with a step at work */
    size_t build_count;
    char steps[KIT_STEPS][256]; /* what was done, as "RUN x", oldest first */
    size_t step_count;
    bool hold_steps;
    unsigned char made[KIT_STEPS][32]; /* layers: a step whose layer is there is cached */
    size_t made_count;
    size_t swept, layers_kept; /* calls of the sweep, and what the last was told to keep */
    char imported[64];         /* the first bytes of the last import */
    /* commands in a sandbox */
    char commands[16][256];  /* of Start, oldest first */
    char command_envs[1024]; /* of the first that brought some */
    size_t command_count;
    int ready_failures;    /* that many "ready" fail */
    bool is_start_failing; /* every other ends with 3 after a line */
    struct abx_http_req *starts[8];
    size_t start_count;
    const char *policy;  /* what /files gives; NULL: 404 */
    const char *metrics; /* what /metrics gives; NULL: never an answer */
    int metrics_count;
    /* the client */
    struct abx_http_parser parser;
    struct abx_buf body;
    char head[8192]; /* of the last answer, one "name: value\n" per field */
    bool was_reset;
} kit;

/* Commands: "ready" ends at once, everything else runs until its client goes. */

static inline void kit_put_event(struct abx_http_req *req, uint8_t flags, const char *json)
{
    unsigned char head[ABX_ENVELOPE_HEAD];
    abx_envelope_head(flags, (uint32_t)strlen(json), head);
    abx_http_write2(req, head, sizeof(head), json, strlen(json));
}

static inline void kit_on_start_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    abx_buf_done(req->data);
    for (size_t i = 0; i < kit.start_count; i++) {
        if (kit.starts[i] == req)
            kit.starts[i] = NULL;
    }
}

static inline void kit_note_command(const char *json)
{
    const char *at = strstr(json, "\"-c\",\""), *envs = strstr(json, "\"envs\":");
    const char *end = at == NULL ? NULL : strchr(at + 6, '"');
    assert_non_null(end);
    assert_true(kit.command_count < 16);
    snprintf(kit.commands[kit.command_count++], 256, "%.*s", (int)(end - at - 6), at + 6);
    if (envs != NULL && kit.command_envs[0] == '\0')
        snprintf(kit.command_envs, sizeof(kit.command_envs), "%s", envs);
}

static inline void kit_on_start_end(struct abx_http_req *req)
{
    struct abx_buf *b = req->data;
    static const struct abx_http_extra type[] = {{"Content-Type", {"application/connect+json", 24}},
                                                 {0}};
    if (abx_buf_failed(b)) { /* memory was made to fail */
        abx_http_abort(req);
        return;
    }
    assert_true(b->len > ABX_ENVELOPE_HEAD);
    kit_note_command(b->ptr + ABX_ENVELOPE_HEAD);
    const char *command = kit.commands[kit.command_count - 1];
    bool is_ready = strstr(command, "ready") != NULL;
    abx_http_begin(req, 200, type, ABX_HTTP_CHUNKED);
    kit_put_event(req, 0, "{\"event\":{\"start\":{\"pid\":7}}}");
    if (!is_ready && !kit.is_start_failing) {
        assert_true(kit.start_count < 8);
        kit.starts[kit.start_count++] = req;
        return;
    }
    bool fails = is_ready ? kit.ready_failures > 0 : kit.is_start_failing;
    kit.ready_failures -= is_ready && fails ? 1 : 0;
    kit_put_event(req, 0, "{\"event\":{\"data\":{\"stdout\":\"bm90IHlldAo=\"}}}"); /* not yet */
    kit_put_event(req, 0,
                  fails ? "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true}}}"
                        : "{\"event\":{\"end\":{\"exited\":true}}}");
    kit_put_event(req, ABX_ENVELOPE_END, "{}");
    abx_http_end(req);
}

/* The gateway of a sandbox: /init, /health, /hang and /late; everything else is told back. */

struct kit_init {
    struct abx_buf body;
};

static inline void kit_on_init_body(struct abx_http_req *req, const char *data, size_t len)
{
    abx_buf_put(req->data, data, len);
}

static inline void kit_on_init_end(struct abx_http_req *req)
{
    struct abx_buf *b = req->data;
    snprintf(kit.init_body, sizeof(kit.init_body), "%.*s", (int)b->len, b->ptr);
    int status = 204;
    if (kit.refuse_init > 0) {
        kit.refuse_init--;
        status = kit.init_status;
    }
    if (status == 204) {
        abx_http_answer(req, status, NULL, (struct abx_str){0});
        return;
    }
    char *text = calloc(kit.init_text_bytes + 1, 1);
    assert_non_null(text);
    memset(text, 'x', kit.init_text_bytes);
    abx_http_answer(req, status, NULL, abx_str(text));
    free(text);
}

static inline void kit_on_init_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    abx_buf_done(req->data);
}

static inline void kit_on_hang_close(struct abx_http_req *req, bool aborted)
{
    (void)req;
    kit.hanging = NULL;
    kit.hang_aborts += aborted ? 1 : 0;
}

static inline void kit_tell_back(struct abx_http_req *req)
{
    ABX_AUTO_BUF b = {.max = 65536};
    abx_buf_putf(&b, "%.*s %.*s\n", ABX_STR_FMT(req->head->method), ABX_STR_FMT(req->head->target));
    for (size_t i = 0; i < req->head->header_count; i++)
        abx_buf_putf(&b, "%.*s: %.*s\n", ABX_STR_FMT(req->head->headers[i].name),
                     ABX_STR_FMT(req->head->headers[i].value));
    abx_http_answer(req, 200, NULL, abx_buf_str(&b));
}

static inline void kit_gateway(struct abx_http_req *req)
{
    if (abx_str_is(req->path, "/init") && kit.is_init_silent) {
        kit.hanging = req;
        req->on_close = kit_on_hang_close;
    } else if (abx_str_is(req->path, "/init")) {
        struct abx_buf *b = abx_arena_alloc(req->arena, sizeof(*b));
        if (b == NULL) {
            abx_http_abort(req);
            return;
        }
        abx_buf_init(b, sizeof(kit.init_body) - 1);
        req->data = b;
        req->on_body = kit_on_init_body;
        req->on_body_end = kit_on_init_end;
        req->on_close = kit_on_init_close;
    } else if (abx_str_is(req->path, "/process.Process/Start")) {
        struct abx_buf *b = abx_arena_alloc(req->arena, sizeof(*b));
        if (b == NULL) {
            abx_http_abort(req);
            return;
        }
        abx_buf_init(b, 65536);
        req->data = b;
        req->on_body = kit_on_init_body;
        req->on_body_end = kit_on_start_end;
        req->on_close = kit_on_start_close;
    } else if (abx_str_find(req->query, ABX_STR("server-policy.json")) >= 0) {
        abx_http_answer(req, kit.policy == NULL ? 404 : 200, NULL, abx_str(kit.policy));
    } else if (abx_str_is(req->path, "/metrics") && kit.metrics) {
        kit.metrics_count++;
        abx_http_answer(req, 200, NULL, abx_str(kit.metrics));
    } else if (abx_str_is(req->path, "/late") || abx_str_is(req->path, "/metrics")) {
        kit.hanging = req;
        req->on_close = kit_on_hang_close;
    } else if (abx_str_is(req->path, "/hang")) {
        kit.hanging = req;
        req->on_close = kit_on_hang_close;
        abx_http_begin(req, 200, NULL, ABX_HTTP_CHUNKED);
        abx_http_write(req, "begun", 5);
    } else if (abx_str_is(req->path, "/health")) {
        abx_http_answer(req, 204, NULL, (struct abx_str){0});
    } else {
        kit_tell_back(req);
    }
}

static inline struct kit_guest *kit_guest(const char *id)
{
    for (size_t i = 0; i < KIT_GUESTS; i++) {
        if (strcmp(kit.guests[i].id, id) == 0)
            return &kit.guests[i];
    }
    return NULL;
}

/* False without memory: nothing of it is left. */
static inline bool kit_open_gateway(const char *id)
{
    struct kit_guest *g = kit_guest("");
    struct abx_http_server_options so = {.on_request = kit_gateway};
    struct abx_error err = {0};
    char path[160];
    assert_non_null(g);
    snprintf(path, sizeof(path), "%s/sandboxes/%s/run", kit.dir, id);
    assert_int_equal(abx_fd_mkdir_p(path, 0700), 0);
    int dir = open(path, O_PATH | O_CLOEXEC);
    assert_true(dir >= 0);
    unlinkat(dir, "gateway.sock", 0);
    int fd =
        abx_fd_listen_unix(dir, "gateway.sock", SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 64);
    close(dir);
    assert_true(fd >= 0);
    if (abx_http_server_open(&kit.e.loop, &so, &g->server, &err) < 0) {
        close(fd);
        return false;
    }
    snprintf(g->id, sizeof(g->id), "%s", id);
    return abx_http_server_listen(g->server, fd, 0, &err) == 0;
}

static inline void kit_close_gateway(struct kit_guest *g)
{
    if (g->server != NULL)
        abx_http_server_close(g->server, true, NULL, NULL);
    *g = (struct kit_guest){0};
}

static inline bool kit_lives(const char *id)
{
    char path[160];
    struct stat st;
    snprintf(path, sizeof(path), "%s/sandboxes/%s", kit.dir, id);
    return stat(path, &st) == 0;
}

/* What the runtime side's gc does: folders of sandboxes that are not kept go. */
static inline void kit_sweep(const char *const *keep, size_t keep_count)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/sandboxes", kit.dir);
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(dup(fd));
    const struct dirent *e;
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        bool kept = !abx_store_id_is_valid(abx_str(e->d_name));
        for (size_t i = 0; i < keep_count; i++)
            kept = kept || strcmp(keep[i], e->d_name) == 0;
        if (!kept)
            (void)abx_fd_remove_tree(fd, e->d_name);
    }
    closedir(dir);
}

static inline void kit_remove(const char *id)
{
    char path[160];
    struct kit_guest *g = kit_guest(id);
    if (g != NULL && id[0] != '\0')
        kit_close_gateway(g);
    snprintf(path, sizeof(path), "%s/sandboxes/%s", kit.dir, id);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, path), 0);
}

static inline void kit_do(const struct kit_request *r)
{
    struct abx_error err = {0};
    struct abx_sandbox_info info = {.shim_pid = 1000, .init_pid = 1001, .shim_start_time = 5};
    snprintf(info.id, sizeof(info.id), "%.21s", r->id);
    switch (r->op) {
    case KIT_CREATE:
        if (kit.fail_creates > 0) {
            kit.fail_creates--;
            if (kit.fail_errno != 0)
                abx_err_sys(&err, -kit.fail_errno, "cgroup");
            else
                abx_err_set(&err, ABX_UNAVAILABLE, "no namespaces today");
            r->created(r->arg, NULL, &err);
            break;
        }
        if (kit_open_gateway(r->id)) {
            r->created(r->arg, &info, NULL);
            break;
        }
        kit_remove(r->id);
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory for a gateway");
        r->created(r->arg, NULL, &err);
        break;
    case KIT_ADOPT:
        if (!kit_lives(r->id)) {
            abx_err_set(&err, ABX_NOT_FOUND, "the shim is gone");
            r->created(r->arg, NULL, &err);
            break;
        }
        assert_true(kit_open_gateway(r->id));
        r->created(r->arg, &info, NULL);
        break;
    case KIT_DESTROY:
        if (kit.fail_destroys > 0) {
            kit.fail_destroys--;
            abx_err_set(&err, ABX_INTERNAL, "busy");
            r->done(r->arg, &err);
            break;
        }
        kit_remove(r->id);
        r->done(r->arg, NULL);
        break;
    case KIT_GC:
    case KIT_LAYERS:
        r->done(r->arg, NULL);
        break;
    }
}

static inline void kit_push(struct kit_request r)
{
    kit.counts[r.op]++;
    assert_true(kit.pending_count < KIT_PENDING);
    kit.pending[kit.pending_count++] = r;
}

void abx_runtime_create(struct abx_runtime *rt, const struct abx_sandbox_spec *spec,
                        abx_runtime_created_fn *done, void *arg)
{
    struct kit_request r = {.op = KIT_CREATE, .created = done, .arg = arg};
    (void)rt;
    snprintf(r.id, sizeof(r.id), "%s", spec->id);
    kit_push(r);
}
void abx_runtime_adopt(struct abx_runtime *rt, const struct abx_sandbox_info *known,
                       const unsigned char nonce[ABX_NONCE_LEN], abx_runtime_created_fn *done,
                       void *arg)
{
    struct kit_request r = {.op = KIT_ADOPT, .created = done, .arg = arg};
    (void)rt;
    (void)nonce;
    snprintf(r.id, sizeof(r.id), "%s", known->id);
    kit_push(r);
}
void abx_runtime_destroy(struct abx_runtime *rt, const char *id, abx_runtime_done_fn *done,
                         void *arg)
{
    struct kit_request r = {.op = KIT_DESTROY, .done = done, .arg = arg};
    (void)rt;
    snprintf(r.id, sizeof(r.id), "%s", id);
    kit_push(r);
}
void abx_runtime_gc(struct abx_runtime *rt, const char *const *keep_ids, size_t keep_count,
                    abx_runtime_done_fn *done, void *arg)
{
    (void)rt;
    kit.kept = keep_count;
    kit.gc_count++;
    kit_sweep(keep_ids, keep_count);
    kit_push((struct kit_request){.op = KIT_GC, .done = done, .arg = arg});
}
void abx_runtime_close(struct abx_runtime *rt)
{
    (void)rt;
    kit.pending_count = 0;
}
int abx_runtime_start(const struct abx_runtime_options *o, struct abx_isolation *ret_isolation,
                      int *ret_sock, pid_t *ret_pid, struct abx_error *err)
{
    (void)o;
    (void)ret_isolation;
    (void)ret_sock;
    (void)ret_pid;
    return abx_err_set(err, ABX_UNIMPLEMENTED, "a test double");
}
int abx_runtime_attach(struct abx_loop *l, int take_sock, const struct abx_runtime_events *ev,
                       struct abx_runtime **ret, struct abx_error *err)
{
    (void)l;
    (void)ev;
    (void)ret;
    close(take_sock);
    return abx_err_set(err, ABX_UNIMPLEMENTED, "a test double");
}

/* The builder: a step makes a layer named after the layers below and what it does. "exit N" fails
 * with N after two lines; "many" writes 120 lines. */

struct abx_build {
    struct abx_image *image;
    struct abx_build_options o;
    struct abx_step step;
    char text[256];
    bool is_busy;
};

static inline void kit_text(const struct abx_step *s, char out[256])
{
    char digest[9] = "";
    switch (s->type) {
    case ABX_STEP_RUN:
        snprintf(out, 256, "RUN %s", s->command);
        break;
    case ABX_STEP_COPY:
        abx_hex_encode(s->archive_digest.bytes, 4, digest);
        snprintf(out, 256, "COPY %s %s %s", s->src, s->dest, digest);
        break;
    case ABX_STEP_ENV:
        snprintf(out, 256, "ENV %s=%s", s->pairs[0], s->pairs[1]);
        break;
    case ABX_STEP_WORKDIR:
        snprintf(out, 256, "WORKDIR %s", s->name);
        break;
    case ABX_STEP_USER:
        snprintf(out, 256, "USER %s%s", s->name, s->sudo ? " sudo" : "");
        break;
    case ABX_STEP__COUNT:
        break;
    }
}

int abx_build_open(struct abx_loop *l, struct abx_runtime *rt, const struct abx_image *base,
                   const struct abx_build_options *o, struct abx_build **ret, struct abx_error *err)
{
    struct abx_build *b = calloc(1, sizeof(*b));
    (void)l;
    (void)rt;
    if (b == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a build");
    b->o = *o;
    b->image = abx_image_copy(base);
    if (b->image == NULL) {
        free(b);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a build");
    }
    *ret = b;
    return 0;
}

void abx_build_step(struct abx_build *b, const struct abx_step *step)
{
    assert_false(b->is_busy);
    assert_true(kit.build_count < KIT_STEPS);
    b->step = *step;
    b->is_busy = true;
    kit_text(step, b->text);
    if (step->take_archive_fd >= 0)
        close(step->take_archive_fd);
    if (step->type == ABX_STEP_ENV)
        abx_image_set_env(b->image, abx_str(step->pairs[0]), abx_str(step->pairs[1]));
    else if (step->type == ABX_STEP_WORKDIR)
        abx_image_set_workdir(b->image, step->name);
    else if (step->type == ABX_STEP_USER)
        abx_image_set_user(b->image, step->name);
    kit.builds[kit.build_count++] = b;
}

const struct abx_image *abx_build_image(const struct abx_build *b)
{
    return b->image;
}

void abx_build_close(struct abx_build *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < kit.build_count; i++) {
        if (kit.builds[i] == b)
            kit.builds[i] = NULL;
    }
    abx_image_free(b->image);
    free(b);
}

static inline bool kit_was_made(const unsigned char name[32])
{
    for (size_t i = 0; i < kit.made_count; i++) {
        if (memcmp(kit.made[i], name, 32) == 0)
            return true;
    }
    return false;
}

static inline void kit_output(struct abx_build *b, const char *text)
{
    b->o.events.on_output(b->o.events.arg, ABX_BUILD_STDOUT, abx_str(text));
}

static inline void kit_end_step(struct abx_build *b)
{
    struct abx_step_result r = {.has_layer = b->step.type != ABX_STEP_ENV};
    struct abx_error err = {0};
    struct abx_digest below;
    char all[256 + 64 + 1];
    b->is_busy = false;
    assert_true(kit.step_count < KIT_STEPS);
    snprintf(kit.steps[kit.step_count++], 256, "%s", b->text);
    if (strstr(b->text, "RUN exit ") == b->text) {
        kit_output(b, "first line\nlast ");
        kit_output(b, "line");
        r.exit_code = b->text[9] - '0';
        abx_err_set(&err, ABX_ABORTED, "failed to run command '%s': exit status %d", b->text + 4,
                    r.exit_code);
        b->o.events.on_step(b->o.events.arg, &r, &err);
        return;
    }
    for (int i = 0; strcmp(b->text, "RUN many") == 0 && i < 120; i++) {
        char line[32];
        snprintf(line, sizeof(line), "line %d\n", i);
        kit_output(b, line);
    }
    abx_image_digest(b->image, &below);
    abx_hex_encode(below.bytes, 32, all);
    snprintf(all + 64, sizeof(all) - 64, "%s", b->text);
    crypto_hash_sha256(r.layer.bytes, (const unsigned char *)all, strlen(all));
    r.cached = kit_was_made(r.layer.bytes) && !b->step.no_cache;
    if (r.has_layer) {
        memmove(b->image->layers + 1, b->image->layers,
                b->image->layer_count * sizeof(b->image->layers[0]));
        b->image->layers[0] = r.layer;
        b->image->layer_count++;
        if (!r.cached && kit.made_count < KIT_STEPS)
            memcpy(kit.made[kit.made_count++], r.layer.bytes, 32);
    }
    b->o.events.on_step(b->o.events.arg, &r, NULL);
}

struct kit_import {
    struct abx_work work;
    abx_image_imported_fn *done;
    void *arg;
};

static inline void kit_import_run(struct abx_work *w)
{
    (void)w;
}

static inline void kit_import_done(struct abx_work *w)
{
    struct kit_import *im = w->owner;
    struct abx_error err = {0};
    struct abx_image *image = NULL;
    if (strncmp(kit.imported, "bad", 3) == 0)
        abx_err_set(&err, ABX_INVALID_ARGUMENT, "not a tar");
    else
        image = abx_image_new();
    if (image != NULL) {
        memset(image->layers[0].bytes, 7, 32);
        image->layer_count = 1;
    }
    im->done(im->arg, image, image == NULL ? &err : NULL);
    free(im);
}

void abx_image_load(struct abx_loop *l, struct abx_runtime *rt, enum abx_import_kind kind,
                    int take_fd, abx_image_imported_fn *done, void *arg)
{
    struct abx_error err = {0};
    struct kit_import *im = calloc(1, sizeof(*im));
    (void)rt;
    (void)kind;
    assert_non_null(im);
    memset(kit.imported, 0, sizeof(kit.imported));
    assert_true(read(take_fd, kit.imported, sizeof(kit.imported) - 1) >= 0);
    close(take_fd);
    im->done = done;
    im->arg = arg;
    assert_int_equal(abx_work_start(&im->work, l, kit_import_run, kit_import_done, im, &err), 0);
}

void abx_runtime_layers_gc(struct abx_runtime *rt, const struct abx_digest *keep, size_t count,
                           abx_runtime_done_fn *done, void *arg)
{
    (void)rt;
    (void)keep;
    kit.swept++;
    kit.layers_kept = count;
    kit_push((struct kit_request){.op = KIT_LAYERS, .done = done, .arg = arg});
}

/* Turns. */

static inline void kit_turn(void)
{
    uv_run(&kit.e.loop.uv, UV_RUN_NOWAIT);
    while (!kit.hold && kit.pending_count > 0) {
        struct kit_request r = kit.pending[0];
        kit.pending_count--;
        memmove(kit.pending, kit.pending + 1, kit.pending_count * sizeof(r));
        kit_do(&r);
    }
    while (!kit.hold_steps && kit.build_count > 0) {
        struct abx_build *b = kit.builds[0];
        kit.build_count--;
        memmove(kit.builds, kit.builds + 1, kit.build_count * sizeof(b));
        if (b != NULL)
            kit_end_step(b);
    }
}

#define KIT_UNTIL(condition)                                                                       \
    do {                                                                                           \
        int64_t end_ = abx_time_mono_ms() + KIT_HANG_MS;                                           \
        while (!(condition)) {                                                                     \
            assert_true(abx_time_mono_ms() < end_);                                                \
            kit_turn();                                                                            \
        }                                                                                          \
    } while (0)

static inline void kit_on_started(struct abx__engine *e)
{
    (void)e;
    kit.is_started = true;
}

static inline int kit_listen(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    kit.listener_port = ntohs(a.sin_port);
    return fd;
}

/* Starts an engine on kit.dir. */
static inline void kit_start(void)
{
    struct abx_error err = {0};
    char path[128];
    kit.e = (struct abx__engine){.max_sandboxes = KIT_GUESTS};
    kit.is_started = false;
    kit.e.isolation = (struct abx_isolation){.driver = "ns",
                                             .ids = "private",
                                             .limits = "cgroup-v1",
                                             .disk = "none",
                                             .network = "loopback",
                                             .filesystem = "overlay"};
    snprintf(path, sizeof(path), "%s/sandboxes", kit.dir);
    assert_int_equal(abx_fd_mkdir_p(path, 0700), 0);
    kit.e.sandboxes_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(kit.e.sandboxes_fd >= 0);
    assert_int_equal(abx_loop_init(&kit.e.loop, &err), 0);
    kit.e.files_fd = open(kit.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(kit.e.files_fd >= 0);
    snprintf(path, sizeof(path), "%s/abx.db", kit.dir);
    if (abx__engine_open(&kit.e, path, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(abx_store_key_put(kit.e.store, "default", abx_str(kit_key), &err), 0);
    if (abx__engine_recover(&kit.e, kit_on_started, &err) < 0)
        fail_msg("%s", err.msg);
    KIT_UNTIL(kit.is_started);
    int fd = kit_listen();
    kit.e.port = (uint16_t)kit.listener_port;
    snprintf(kit.e.domain, sizeof(kit.e.domain), "abx.localhost:%d", kit.listener_port);
    snprintf(kit.e.url, sizeof(kit.e.url), "http://127.0.0.1:%d", kit.listener_port);
    assert_int_equal(abx_http_server_listen(kit.e.server, fd, 0, &err), 0);
}

static inline void kit_setup(void)
{
    memset(&kit, 0, sizeof(kit));
    snprintf(kit.dir, sizeof(kit.dir), "/tmp/abx-engine-XXXXXX");
    assert_non_null(mkdtemp(kit.dir));
    abx_buf_init(&kit.body, 16 * 1024 * 1024);
    abx_http_parser_init(&kit.parser, true);
    kit_start();
}

/* Ends the engine; what it made stays. */
static inline void kit_stop(void)
{
    abx__engine_close(&kit.e, true);
    for (size_t i = 0; i < KIT_GUESTS; i++)
        kit_close_gateway(&kit.guests[i]);
    int64_t end = abx_time_mono_ms() + KIT_HANG_MS;
    while (uv_run(&kit.e.loop.uv, UV_RUN_NOWAIT) != 0)
        assert_true(abx_time_mono_ms() < end);
    abx__engine_done(&kit.e);
    abx_loop_done(&kit.e.loop);
    close(kit.e.sandboxes_fd);
    close(kit.e.files_fd);
    kit.pending_count = 0;
    kit.build_count = 0;
}

static inline void kit_teardown(void)
{
    kit_stop();
    abx_http_parser_done(&kit.parser);
    abx_buf_done(&kit.body);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, kit.dir), 0);
}

/* The client. */

static inline int kit_connect(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)kit.listener_port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(abx_fd_set_nonblock(fd, true), 0);
    return fd;
}

static inline void kit_send(int fd, const char *data, size_t len)
{
    int64_t end = abx_time_mono_ms() + KIT_HANG_MS;
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        assert_true(abx_time_mono_ms() < end);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* the peer refused: its answer says why */
        assert_true(n >= 0 || errno == EAGAIN);
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        kit_turn();
    }
}

static inline void kit_note_head(void)
{
    size_t at = 0;
    kit.head[0] = '\0';
    for (size_t i = 0; i < kit.parser.head.header_count && at < sizeof(kit.head); i++)
        at += (size_t)snprintf(kit.head + at, sizeof(kit.head) - at, "%.*s: %.*s\n",
                               ABX_STR_FMT(kit.parser.head.headers[i].name),
                               ABX_STR_FMT(kit.parser.head.headers[i].value));
}

/* Feeds what came; true when the answer is complete. */
static inline bool kit_feed(struct abx_str in)
{
    struct abx_error err = {0};
    struct abx_str part;
    for (;;) {
        switch (abx_http_parse(&kit.parser, &in, &part, &err)) {
        case ABX_HTTP_NEED_MORE:
            return false;
        case ABX_HTTP_HEAD:
            kit_note_head();
            break;
        case ABX_HTTP_BODY:
            abx_buf_put_str(&kit.body, part);
            break;
        case ABX_HTTP_END:
            return true;
        case ABX_HTTP_ERROR:
            fail_msg("answer: %s", err.msg);
        }
    }
}

/* Reads one answer: its status, 0 when the connection ended without (see was_reset). */
static inline int kit_read(int fd)
{
    char chunk[65536];
    int64_t end = abx_time_mono_ms() + KIT_HANG_MS;
    abx_http_parser_reset(&kit.parser, false);
    abx_buf_clear(&kit.body);
    kit.was_reset = false;
    for (;;) {
        assert_true(abx_time_mono_ms() < end);
        kit_turn();
        ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0) {
            kit.was_reset = n < 0;
            return 0;
        }
        if (kit_feed(abx_str_n(chunk, (size_t)n)))
            return kit.parser.head.status;
    }
}

/* One request of raw bytes on a connection of its own. */
static inline int kit_raw(const char *text)
{
    int fd = kit_connect();
    kit_send(fd, text, strlen(text));
    int status = kit_read(fd);
    close(fd);
    for (int i = 0; i < 20; i++)
        kit_turn();
    return status;
}

/* @headers: "A: b\r\n" lines, Host among them unless NULL (then localhost and the key). */
static inline int kit_ask(const char *method, const char *target, const char *headers,
                          const char *body)
{
    ABX_AUTO_BUF b = {.max = 4 * 1024 * 1024};
    abx_buf_putf(&b, "%s %s HTTP/1.1\r\n", method, target);
    if (headers == NULL)
        abx_buf_putf(&b, "Host: localhost:%d\r\nX-API-KEY: %s\r\n", kit.listener_port, kit_key);
    else
        abx_buf_put_c(&b, headers);
    if (body != NULL)
        abx_buf_putf(&b, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    abx_buf_put_c(&b, "\r\n");
    abx_buf_put_c(&b, body == NULL ? "" : body);
    assert_false(abx_buf_failed(&b));
    return kit_raw(b.ptr);
}

static inline bool kit_said(const char *text)
{
    return kit.body.len != 0 && strstr(kit.body.ptr, text) != NULL;
}

static inline bool kit_head_has(const char *line)
{
    return strstr(kit.head, line) != NULL;
}

/* The string value of a member of the last answer, wherever it stands. */
static inline void kit_member(const char *name, char *out, size_t cap)
{
    char key[64];
    snprintf(key, sizeof(key), "\"%s\":\"", name);
    const char *at = kit.body.len == 0 ? NULL : strstr(kit.body.ptr, key);
    if (at == NULL)
        fail_msg("no %s in %s", name, kit.body.len == 0 ? "" : kit.body.ptr);
    at += strlen(key);
    const char *end = strchr(at, '"');
    assert_non_null(end);
    assert_int_equal(abx_str_to_c(abx_str_n(at, (size_t)(end - at)), out, cap), 0);
}

/* Creates a sandbox: its id and token. */
static inline void kit_create(const char *body, char id[32], char token[80])
{
    int status = kit_ask("POST", "/v2/sandboxes", NULL, body);
    if (status != 201)
        fail_msg("%d %s", status, kit.body.len == 0 ? "" : kit.body.ptr);
    kit_member("sandboxID", id, 32);
    kit_member("envdAccessToken", token, 80);
}
