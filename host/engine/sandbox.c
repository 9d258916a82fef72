/* host/engine/sandbox.c: the life of a sandbox: made, provisioned, timed, killed, re-adopted.
 *
 * Loop thread. Each step that has effects outside is noted in the store before it and settled after
 * it (S65); the runtime side does the work. A kill marks first, cuts the edge then, so that a
 * client whose stream is reset already finds 502 at /health (control-plane 14.13). */
#include "host/engine/boot_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/banned.h"

enum {
    TEXT_MAX = 256 * 1024,    /* metadata and envs of one sandbox */
    INIT_DEADLINE_MS = 15000, /* from made to provisioned */
    INIT_RETRY_MAX_MS = 200,  /* the pauses grow from 10 ms to this */
    TIMEOUT_SLICE_MS = 30000,
    DESTROY_ATTEMPTS = 4,   /* then the next start has another go */
    DESTROY_RETRY_MS = 250, /* times the attempt */
    BOOT_LIMIT_MS = 50000,  /* start and ready: the SDKs give up at 60 s */
    SERVER_TOKEN_BYTES = 32,
};

static const struct {
    const char *name;
    unsigned next; /* set of legal successors */
} states[] = {
    [ABX__CREATING] = {"creating", 1u << ABX__RUNNING | 1u << ABX__KILLING | 1u << ABX__DEAD},
    [ABX__RUNNING] = {"running", 1u << ABX__KILLING},
    [ABX__KILLING] = {"killing", 1u << ABX__DEAD},
    [ABX__DEAD] = {"dead", 0},
};
_Static_assert(ABX_COUNTOF(states) == ABX__STATE_COUNT, "one row per state");

const char *abx__state_name(enum abx__state s)
{
    return states[s].name;
}

bool abx__state_may(enum abx__state from, enum abx__state to)
{
    return (states[from].next & 1u << to) != 0;
}

static void set_state(struct abx__sandbox *sb, enum abx__state to)
{
    ABX_ASSERT(abx__state_may(sb->state, to));
    abx_log(ABX_LOG_INFO, "sandbox id=%s state=%s->%s", sb->id, states[sb->state].name,
            states[to].name);
    sb->state = to;
}

struct abx__sandbox *abx__sandbox_find_any(struct abx__engine *e, struct abx_str id)
{
    return abx_map_get(&e->sandboxes, id);
}

struct abx__sandbox *abx__sandbox_find(struct abx__engine *e, struct abx_str id)
{
    struct abx__sandbox *sb = abx__sandbox_find_any(e, id);
    return sb != NULL && sb->state == ABX__RUNNING && !sb->is_hidden ? sb : NULL;
}

/* A waiter may kill the sandbox, or go away and take others with it: nothing of @sb is touched
 * after the first was told. */
static void tell_waiters(struct abx__sandbox *sb, struct abx__sandbox *shown)
{
    struct abx_error err = sb->failure;
    ABX_AUTO_BUF detail = sb->detail;
    struct abx_list told;
    sb->detail = (struct abx_buf){.max = detail.max};
    abx_list_init(&told);
    while (!abx_list_empty(&sb->waiters)) {
        struct abx_list *node = sb->waiters.next;
        abx_list_remove(node);
        abx_list_push(&told, node);
    }
    while (!abx_list_empty(&told)) {
        struct abx__wait *w = ABX_CONTAINER_OF(told.next, struct abx__wait, node);
        abx_list_remove(&w->node);
        w->detail = abx_buf_str(&detail);
        w->fn(w, err.code == ABX_OK ? shown : NULL, err.code == ABX_OK ? NULL : &err);
    }
}

static void on_timer_closed(void *owner)
{
    struct abx__sandbox *sb = owner;
    sodium_memzero(sb->token, sizeof(sb->token));
    sodium_memzero(sb->traffic_token, sizeof(sb->traffic_token));
    abx__blueprint_free(sb->blueprint);
    abx_buf_done(&sb->detail);
    abx_arena_done(&sb->arena);
    free(sb->samples);
    free(sb);
}

void abx__sandbox_forget(struct abx__sandbox *sb)
{
    if (sb->init_call != NULL)
        abx_http_call_cancel(ABX_TAKE(sb->init_call));
    abx__boot_close(ABX_TAKE(sb->boot));
    abx_map_remove(&sb->engine->sandboxes, abx_str(sb->id));
    abx_timer_close(&sb->timer, on_timer_closed);
}

/* One sandbox of an earlier engine is settled; the last one opens the door. */
static void recovered(struct abx__sandbox *sb)
{
    struct abx__engine *e = sb->engine;
    if (!sb->is_recovered)
        return;
    sb->is_recovered = false;
    if (--e->starting == 0 && e->started != NULL)
        e->started(e);
}

static void destroy_start(struct abx__sandbox *sb);

static void settle_dead(struct abx__sandbox *sb)
{
    struct abx_error err = {0};
    if (abx_store_destroy_commit(sb->engine->store, sb->id, &err) < 0)
        abx_log(ABX_LOG_ERROR, "sandbox removed but not forgotten id=%s error=\"%s\"", sb->id,
                err.msg);
    set_state(sb, ABX__DEAD);
    abx_map_remove(&sb->engine->sandboxes, abx_str(sb->id));
    recovered(sb);
    tell_waiters(sb, NULL); /* those of a dead one can do nothing to it */
    abx__sandbox_forget(sb);
}

static void on_destroyed(void *arg, const struct abx_error *err)
{
    struct abx__sandbox *sb = arg;
    if (sb->engine->stopping)
        return; /* the intent stays for the next start */
    if (err == NULL) {
        settle_dead(sb);
        return;
    }
    sb->attempt++;
    abx_log(ABX_LOG_ERROR, "sandbox not removed id=%s attempt=%u error=\"%s\"", sb->id,
            (unsigned)sb->attempt, err->msg);
    if (sb->attempt < DESTROY_ATTEMPTS) {
        abx_timer_start(&sb->timer, (uint64_t)sb->attempt * DESTROY_RETRY_MS, 0);
        return;
    }
    /* It stays, hidden, with its intent: the next start tries again. */
    if (sb->failure.code == ABX_OK)
        abx_err_set(&sb->failure, ABX_INTERNAL, "sandbox %s could not be removed: %s", sb->id,
                    err->msg);
    recovered(sb);
    tell_waiters(sb, NULL);
}

static void destroy_start(struct abx__sandbox *sb)
{
    abx_runtime_destroy(sb->engine->rt, sb->id, on_destroyed, sb);
}

/* Marks, notes the intent, cuts the edge, then has it destroyed. */
static void begin_destroy(struct abx__sandbox *sb)
{
    struct abx__engine *e = sb->engine;
    struct abx_error err = {0};
    set_state(sb, ABX__KILLING);
    abx_timer_stop(&sb->timer);
    sb->attempt = 0;
    if (abx_store_destroy_begin(e->store, sb->id, states[ABX__KILLING].name, &err) < 0)
        abx_log(ABX_LOG_ERROR, "kill not noted id=%s error=\"%s\"", sb->id, err.msg);
    if (sb->init_call != NULL)
        abx_http_call_cancel(ABX_TAKE(sb->init_call));
    abx__boot_close(ABX_TAKE(sb->boot));
    abx_http_proxy_cut(e->pool, abx_str(sb->id));
    abx_http_pool_forget(e->pool, abx_str(sb->id));
    destroy_start(sb);
}

void abx__sandbox_kill(struct abx__sandbox *sb, struct abx__wait *w)
{
    if (w != NULL)
        abx_list_push(&sb->waiters, &w->node);
    if (sb->state == ABX__RUNNING)
        begin_destroy(sb);
}

static void fail_create(struct abx__sandbox *sb, const struct abx_error *err)
{
    sb->failure = *err;
    abx_err_wrap(&sb->failure, "create");
    /* A system call that failed here is no fault of the caller, whatever its errno is called. */
    int status = abx_code_http(err->code);
    bool is_told = err->code == ABX_RESOURCE_EXHAUSTED || err->code == ABX_CANCELED;
    if (err->sys != 0 && status < 500 && !is_told)
        sb->failure.code = ABX_INTERNAL;
    abx_log(err->code == ABX_CANCELED ? ABX_LOG_INFO : ABX_LOG_ERROR,
            "create failed id=%s error=\"%s\"", sb->id, err->msg);
    begin_destroy(sb);
}

/* Runs on while the machine is suspended, and is never set back. */
static int64_t boot_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The loop's timers stand still in suspend: no wait is longer than a slice. */
static void wait_for_deadline(struct abx__sandbox *sb)
{
    int64_t left = sb->deadline_ms - boot_ms();
    left = left < 0 ? 0 : left;
    abx_timer_start(&sb->timer, (uint64_t)(left < TIMEOUT_SLICE_MS ? left : TIMEOUT_SLICE_MS), 0);
}

static void arm_timeout(struct abx__sandbox *sb)
{
    sb->deadline_ms = boot_ms() + sb->end_ms - abx_time_wall_ms();
    wait_for_deadline(sb);
}

/* Sends /init; the timer guards the answer from here on. */
static void provision(struct abx__sandbox *sb)
{
    struct abx_error err = {0};
    int64_t left = sb->init_deadline_ms - abx_time_mono_ms();
    if (abx__provision(sb, &err) < 0)
        fail_create(sb, &err);
    else
        abx_timer_start(&sb->timer, left > 0 ? (uint64_t)left : 0, 0);
}

/* While creating: the pause before another /init is over, or its answer did not come. */
static void on_creating_timer(struct abx__sandbox *sb)
{
    struct abx_error err = {0};
    if (sb->init_call == NULL) {
        provision(sb);
        return;
    }
    abx_err_set(&err, ABX_DEADLINE_EXCEEDED, "/init: no answer within %d s",
                INIT_DEADLINE_MS / 1000);
    fail_create(sb, &err);
}

static void on_timer(struct abx_timer *t)
{
    struct abx__sandbox *sb = t->owner;
    switch (sb->state) {
    case ABX__CREATING:
        on_creating_timer(sb);
        break;
    case ABX__RUNNING:
        if (boot_ms() < sb->deadline_ms) {
            wait_for_deadline(sb);
            break;
        }
        abx_log(ABX_LOG_INFO, "sandbox timed out id=%s", sb->id);
        begin_destroy(sb);
        break;
    case ABX__KILLING:
        destroy_start(sb);
        break;
    case ABX__DEAD:
    case ABX__STATE_COUNT:
        break;
    }
}

int abx__sandbox_set_end(struct abx__sandbox *sb, int64_t end_ms, bool extend_only,
                         struct abx_error *err)
{
    if (extend_only && end_ms <= sb->end_ms)
        return 0;
    if (abx_store_set_end(sb->engine->store, sb->id, end_ms, err) < 0)
        return -1;
    sb->end_ms = end_ms;
    arm_timeout(sb);
    return 0;
}

void abx__sandbox_exited(struct abx__sandbox *sb, const struct abx_proc_status *st)
{
    char text[64];
    struct abx_error err = {0};
    abx_proc_status_text(st, text);
    abx_log(ABX_LOG_WARN, "sandbox ended by itself id=%s status=\"%s\"", sb->id, text);
    if (sb->state == ABX__RUNNING) {
        begin_destroy(sb);
    } else if (sb->state == ABX__CREATING && !sb->is_recovered && sb->info.shim_pid != 0) {
        abx_err_set(&err, ABX_INTERNAL, "the sandbox ended while starting: %s", text);
        fail_create(sb, &err);
    }
}

/* Creating. */

static struct abx_store_sandbox row_of(const struct abx__sandbox *sb)
{
    struct abx_store_sandbox row = {
        .metadata = sb->metadata_text,
        .envs = sb->envs_text,
        .started_ns = sb->started_ns,
        .end_ms = sb->end_ms,
        .shim_pid = sb->info.shim_pid,
        .init_pid = sb->info.init_pid,
        .shim_start = sb->info.shim_start_time,
        .server_tokens = sb->server_tokens,
    };
    memcpy(row.alias, sb->alias, sizeof(sb->alias));
    memcpy(row.build_id, sb->build_id, sizeof(row.build_id));
    memcpy(row.id, sb->id, sizeof(row.id));
    memcpy(row.nonce, sb->nonce, sizeof(row.nonce));
    memcpy(row.token, sb->token, sizeof(row.token));
    memcpy(row.traffic_token, sb->traffic_token, sizeof(row.traffic_token));
    memcpy(row.template_name, sb->template_name, sizeof(row.template_name));
    snprintf(row.state, sizeof(row.state), "%s", states[sb->state].name);
    return row;
}

static void set_running(struct abx__sandbox *sb)
{
    struct abx_error err = {0};
    sb->started_ns = abx_time_wall_ns() / 1000 * 1000; /* clients see microseconds */
    sb->end_ms = sb->started_ns / 1000000 + (int64_t)sb->timeout_s * 1000;
    struct abx_store_sandbox row = row_of(sb);
    snprintf(row.state, sizeof(row.state), "%s", states[ABX__RUNNING].name);
    if (abx_store_create_commit(sb->engine->store, &row, &err) < 0) {
        fail_create(sb, &err);
        return;
    }
    set_state(sb, ABX__RUNNING);
    arm_timeout(sb);
    if (abx_list_empty(&sb->waiters)) /* the caller has gone: undone */
        begin_destroy(sb);
    else
        tell_waiters(sb, sb);
}

/* A build's own: its intent stays, so that no later engine adopts it. */
static void set_hidden_running(struct abx__sandbox *sb)
{
    sb->end_ms = abx_time_wall_ms() + (int64_t)sb->timeout_s * 1000;
    set_state(sb, ABX__RUNNING);
    arm_timeout(sb);
    if (abx_list_empty(&sb->waiters))
        begin_destroy(sb);
    else
        tell_waiters(sb, sb);
}

static void on_booted(void *arg, const struct abx_error *err, struct abx_str tail)
{
    struct abx__sandbox *sb = arg;
    abx__boot_close(ABX_TAKE(sb->boot));
    if (err == NULL) {
        set_running(sb);
        return;
    }
    abx_buf_put_str(&sb->detail, tail);
    fail_create(sb, err);
}

/* Provisioned: what the template starts is started, then it runs. */
static void boot(struct abx__sandbox *sb)
{
    struct abx_error err = {0};
    const struct abx__blueprint *bp = sb->blueprint;
    abx_timer_stop(&sb->timer);
    if (sb->is_hidden) {
        set_hidden_running(sb);
        return;
    }
    if (bp->start[0] == '\0' && bp->ready[0] == '\0') {
        set_running(sb);
        return;
    }
    struct abx__boot_spec spec = {.sandbox = sb,
                                  .start = bp->start,
                                  .ready = bp->ready,
                                  .start_envs = sb->server_tokens,
                                  .limit_ms = BOOT_LIMIT_MS,
                                  .done = on_booted,
                                  .arg = sb};
    sb->boot = abx__boot_start(&spec, &err);
    if (sb->boot == NULL)
        fail_create(sb, &err);
}

void abx__sandbox_inited(struct abx__sandbox *sb, const struct abx_error *err, bool may_retry)
{
    if (err == NULL) {
        boot(sb);
        return;
    }
    if (!may_retry || abx_time_mono_ms() >= sb->init_deadline_ms || abx_list_empty(&sb->waiters)) {
        fail_create(sb, err);
        return;
    }
    uint32_t pause = 10u << (sb->attempt < 5 ? sb->attempt : 5);
    sb->attempt++;
    abx_timer_start(&sb->timer, pause < INIT_RETRY_MAX_MS ? pause : INIT_RETRY_MAX_MS, 0);
}

static void on_made(void *arg, const struct abx_sandbox_info *info, const struct abx_error *err)
{
    struct abx__sandbox *sb = arg;
    struct abx_error failure = {0};
    if (sb->engine->stopping)
        return;
    if (err != NULL) {
        fail_create(sb, err); /* destroy is idempotent and settles the store */
        return;
    }
    sb->info = *info;
    sb->init_deadline_ms = abx_time_mono_ms() + INIT_DEADLINE_MS;
    if (abx_list_empty(&sb->waiters)) {
        abx_err_set(&failure, ABX_CANCELED, "the caller has gone");
        fail_create(sb, &failure);
    } else {
        provision(sb);
    }
}

static void mint_token(char out[ABX_STORE_TOKEN_LEN + 1])
{
    unsigned char secret[ABX_STORE_TOKEN_LEN / 2];
    randombytes_buf(secret, sizeof(secret));
    abx_hex_encode(secret, sizeof(secret), out);
    sodium_memzero(secret, sizeof(secret));
}

static void mint_secrets(struct abx__sandbox *sb, const struct abx__create *p)
{
    randombytes_buf(sb->nonce, sizeof(sb->nonce));
    if (p->is_secure)
        mint_token(sb->token);
    if (p->is_private)
        mint_token(sb->traffic_token);
}

/* Names that a caller can not set (envd.md 2.2). */
static const char *const reserved_envs[] = {"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID",
                                            "E2B_EVENTS_ADDRESS"};

static bool is_reserved_env(struct abx_str name)
{
    for (size_t i = 0; i < ABX_COUNTOF(reserved_envs); i++) {
        if (abx_str_is(name, reserved_envs[i]))
            return true;
    }
    return false;
}

static bool has_key(const struct abx_json_map *m, struct abx_str key)
{
    for (size_t i = 0; m != NULL && i < m->count; i++) {
        if (abx_str_eq(m->pairs[i].key, key))
            return true;
    }
    return false;
}

/* Of the image, where the caller says nothing else. */
static void write_image_envs(struct abx_json_writer *w, const struct abx_image *image,
                             const struct abx_json_map *m)
{
    for (size_t i = 0; image != NULL && i < image->env.count; i++) {
        struct abx_str value = abx_str(image->env.items[i]), name;
        if (!abx_str_split(&value, '=', &name) || is_reserved_env(name) || has_key(m, name))
            continue;
        abx_json_key(w, name);
        abx_json_str(w, value);
    }
}

/* Where `python3 -m agent_sandbox.server` finds the engine's own (published-client.md C27). */
static void write_python_path(struct abx_json_writer *w, const struct abx_image *image,
                              const struct abx_json_map *m)
{
    static const char name[] = "PYTHONPATH";
    if (!has_key(m, abx_str(name)) && (image == NULL || abx_image_env(image, name) == NULL))
        abx_json_kv_c(w, name, ABX_SERVER_PYTHON);
}

/* A random one for each variable of the template's policy that the caller left unset. */
static int mint_server_tokens(struct abx__sandbox *sb, const struct abx_json_map *envs,
                              struct abx_error *err)
{
    const struct abx__blueprint *bp = sb->blueprint;
    ABX_AUTO_BUF b = {.max = TEXT_MAX};
    struct abx_json_writer w;
    size_t count = 0;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < bp->token_env_count; i++) {
        unsigned char secret[SERVER_TOKEN_BYTES];
        char text[2 * SERVER_TOKEN_BYTES + 1];
        if (has_key(envs, abx_str(bp->token_env[i])) ||
            (bp->image != NULL && abx_image_env(bp->image, bp->token_env[i]) != NULL))
            continue;
        randombytes_buf(secret, sizeof(secret));
        abx_hex_encode(secret, sizeof(secret), text);
        abx_json_kv_c(&w, bp->token_env[i], text);
        count++;
    }
    abx_json_end_object(&w);
    if (count != 0)
        sb->server_tokens = abx_arena_str(&sb->arena, abx_buf_str(&b));
    bool ok = !abx_buf_failed(&b) && (count == 0 || sb->server_tokens.ptr != NULL);
    if (b.ptr != NULL)
        sodium_memzero(b.ptr, b.len);
    return ok ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for server tokens");
}

static void write_pairs(struct abx_json_writer *w, const struct abx_json_map *m, bool are_envs)
{
    for (size_t i = 0; m != NULL && i < m->count; i++) {
        if (are_envs && is_reserved_env(m->pairs[i].key))
            continue;
        abx_json_key(w, m->pairs[i].key);
        abx_json_str(w, m->pairs[i].value);
    }
}

static struct abx_str map_text(struct abx__sandbox *sb, const struct abx_json_map *m, bool are_envs)
{
    ABX_AUTO_BUF b = {.max = TEXT_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    if (are_envs)
        write_image_envs(&w, sb->blueprint->image, m);
    write_pairs(&w, m, are_envs);
    if (are_envs) {
        abx_json_kv_c(&w, "E2B_SANDBOX", "true");
        abx_json_kv_c(&w, "E2B_SANDBOX_ID", sb->id);
        abx_json_kv_c(&w, "E2B_TEMPLATE_ID", sb->template_name);
        write_python_path(&w, sb->blueprint->image, m);
    }
    abx_json_end_object(&w);
    if (abx_buf_failed(&b))
        return (struct abx_str){0};
    return abx_arena_str(&sb->arena, abx_buf_str(&b));
}

struct metadata_doc {
    struct abx_json_map metadata;
};
static const struct abx_json_field metadata_fields[] = {
    {"metadata", ABX_JSON_MAP, offsetof(struct metadata_doc, metadata), ABX_JSON_REQUIRED}, {0}};

static int load_metadata(struct abx__sandbox *sb, struct abx_error *err)
{
    ABX_AUTO_BUF b = {.max = TEXT_MAX + 64};
    struct metadata_doc doc = {0};
    abx_buf_put_c(&b, "{\"metadata\":");
    abx_buf_put_str(&b, sb->metadata_text);
    abx_buf_put_byte(&b, '}');
    if (abx_buf_failed(&b))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "metadata is too large");
    if (abx_json_decode_text(abx_buf_str(&b), false, metadata_fields, &doc, &sb->arena, err) < 0)
        return abx_err_wrap(err, "metadata");
    sb->metadata = doc.metadata;
    return 0;
}

static struct abx__sandbox *sandbox_new(struct abx__engine *e, struct abx_error *err)
{
    struct abx__sandbox *sb = calloc(1, sizeof(*sb));
    if (sb == NULL) {
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a sandbox");
        return NULL;
    }
    sb->engine = e;
    abx_arena_init(&sb->arena, (size_t)4 * TEXT_MAX);
    abx_buf_init(&sb->detail, (size_t)2 * ABX__TAIL_TEXT_MAX);
    sb->cpu = ABX_SANDBOX_CPUS;
    sb->memory_mb = ABX_SANDBOX_MEMORY_MB;
    abx_list_init(&sb->waiters);
    abx_timer_init(&sb->timer, &e->loop, on_timer, sb);
    return sb;
}

static int fill_new(struct abx__sandbox *sb, const struct abx__create *p, struct abx_error *err)
{
    const struct abx__blueprint *bp = sb->blueprint;
    if (p->is_hidden)
        abx__reserve_mint(sb->id);
    else if (abx__reserve_take(sb->engine, sb->id, err) < 0)
        return -1;
    mint_secrets(sb, p);
    memcpy(sb->template_name, bp->template_id, sizeof(sb->template_name));
    memcpy(sb->alias, bp->alias, sizeof(sb->alias));
    memcpy(sb->build_id, bp->build_id, sizeof(sb->build_id));
    sb->cpu = bp->cpu;
    sb->memory_mb = bp->memory_mb;
    sb->is_hidden = p->is_hidden;
    sb->timeout_s = p->timeout_s;
    sb->started_ns = abx_time_wall_ns();
    sb->end_ms = sb->started_ns / 1000000 + (int64_t)p->timeout_s * 1000;
    sb->metadata_text = map_text(sb, p->metadata, false);
    sb->envs_text = map_text(sb, p->envs, true);
    if (sb->metadata_text.ptr == NULL || sb->envs_text.ptr == NULL)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "metadata and envVars: more than %d bytes each", TEXT_MAX);
    if (load_metadata(sb, err) < 0 || mint_server_tokens(sb, p->envs, err) < 0)
        return -1;
    if (abx_map_set(&sb->engine->sandboxes, abx_str(sb->id), sb, NULL) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a sandbox");
    if (!p->is_hidden) /* its intent is there already */
        return 0;
    struct abx_store_sandbox row = row_of(sb);
    return abx_store_create_begin(sb->engine->store, &row, err);
}

static void fill_spec(const struct abx__sandbox *sb, struct abx_sandbox_spec *spec)
{
    memcpy(spec->id, sb->id, sizeof(spec->id));
    memcpy(spec->nonce, sb->nonce, sizeof(spec->nonce));
    spec->memory_mb = sb->memory_mb;
    spec->cpu_count = sb->cpu;
    spec->pids_max = ABX_SANDBOX_PIDS;
    spec->hide_pids = sb->blueprint->proc_hidepid;
    if (sb->blueprint->image == NULL)
        memcpy(spec->template_name, "host", 5);
    else
        abx_image_to_spec(sb->blueprint->image, spec);
}

int abx__sandbox_create(struct abx__engine *e, const struct abx__create *p, struct abx__wait *w,
                        struct abx_error *err)
{
    struct abx__sandbox *sb = NULL;
    if (e->sandboxes.count >= e->max_sandboxes)
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                    "you have reached the maximum number of concurrent E2B sandboxes (%zu)."
                    " Kill one of them first",
                    e->max_sandboxes);
    else
        sb = sandbox_new(e, err);
    if (sb == NULL) {
        abx__blueprint_free(p->take_blueprint);
        return -1;
    }
    sb->blueprint = p->take_blueprint;
    struct abx_sandbox_spec *spec = calloc(1, sizeof(*spec)); /* of many layers: not small */
    if (spec == NULL)
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a sandbox");
    if (spec == NULL || fill_new(sb, p, err) < 0) {
        free(spec);
        if (!p->is_hidden && sb->id[0] != '\0')
            abx__reserve_give_back(e, sb->id);
        abx__sandbox_forget(sb);
        return -1;
    }
    fill_spec(sb, spec);
    abx_list_push(&sb->waiters, &w->node);
    abx_runtime_create(e->rt, spec, on_made, sb);
    free(spec);
    return 0;
}

/* Recovering. */

static void on_adopted(void *arg, const struct abx_sandbox_info *info, const struct abx_error *err)
{
    struct abx__sandbox *sb = arg;
    if (sb->engine->stopping)
        return;
    if (err != NULL) {
        abx_log(ABX_LOG_WARN, "sandbox not adopted id=%s error=\"%s\"", sb->id, err->msg);
        begin_destroy(sb);
        return;
    }
    sb->info = *info;
    set_state(sb, ABX__RUNNING);
    arm_timeout(sb);
    recovered(sb);
}

/* A row of an older schema has none. */
static void recall_alias(struct abx__sandbox *sb, const char *alias)
{
    const char *text = alias[0] == '\0' ? sb->template_name : alias;
    snprintf(sb->alias, sizeof(sb->alias), "%.*s", ABX_STORE_NAME_MAX, text);
}

static void take_size(void *arg, const struct abx_store_build *b)
{
    struct abx__sandbox *sb = arg;
    sb->cpu = b->cpu;
    sb->memory_mb = b->memory_mb;
}

/* As its build says; one without a build has the defaults. */
static void recall_size(struct abx__sandbox *sb)
{
    struct abx_error err = {0};
    if (sb->build_id[0] != '\0' &&
        abx_store_build_get(sb->engine->store, "", abx_str(sb->build_id), take_size, sb, &err) < 0)
        abx_log(ABX_LOG_WARN, "sandbox without its build id=%s error=\"%s\"", sb->id, err.msg);
}

static int fill_row(struct abx__sandbox *sb, const struct abx_store_sandbox *row,
                    struct abx_error *err)
{
    memcpy(sb->id, row->id, sizeof(sb->id));
    memcpy(sb->nonce, row->nonce, sizeof(sb->nonce));
    memcpy(sb->token, row->token, sizeof(sb->token));
    memcpy(sb->traffic_token, row->traffic_token, sizeof(sb->traffic_token));
    memcpy(sb->template_name, row->template_name, sizeof(sb->template_name));
    memcpy(sb->build_id, row->build_id, sizeof(sb->build_id));
    recall_alias(sb, row->alias);
    recall_size(sb);
    sb->started_ns = row->started_ns;
    sb->end_ms = row->end_ms;
    sb->metadata_text = abx_arena_str(&sb->arena, row->metadata);
    sb->envs_text = abx_arena_str(&sb->arena, row->envs);
    if (row->server_tokens.len != 0)
        sb->server_tokens = abx_arena_str(&sb->arena, row->server_tokens);
    memcpy(sb->info.id, row->id, sizeof(sb->info.id));
    sb->info.shim_pid = (pid_t)row->shim_pid;
    sb->info.init_pid = (pid_t)row->init_pid;
    sb->info.shim_start_time = row->shim_start;
    if (sb->metadata_text.ptr == NULL || sb->envs_text.ptr == NULL ||
        abx_map_set(&sb->engine->sandboxes, abx_str(sb->id), sb, NULL) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for sandbox %s", sb->id);
    return load_metadata(sb, err);
}

int abx__sandbox_recover(struct abx__engine *e, const struct abx_store_sandbox *row,
                         bool has_intent, struct abx_error *err)
{
    struct abx__sandbox *sb = sandbox_new(e, err);
    if (sb == NULL)
        return -1;
    if (fill_row(sb, row, err) < 0) {
        abx__sandbox_forget(sb);
        return -1;
    }
    sb->is_recovered = true;
    sb->is_doomed = has_intent || strcmp(row->state, states[ABX__RUNNING].name) != 0;
    e->starting++;
    return 0;
}

void abx__sandbox_settle(struct abx__sandbox *sb)
{
    if (sb->is_doomed)
        begin_destroy(sb);
    else
        abx_runtime_adopt(sb->engine->rt, &sb->info, sb->nonce, on_adopted, sb);
}
