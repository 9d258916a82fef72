/* host/engine/sandbox_priv.h: one sandbox: its states and what may be done to it (engine.md 2).
 *
 * Operations on one sandbox are serial: what comes while it is being made or killed waits in
 * `waiters` for the end of that. Only a running sandbox is ever shown or routed to. */
#pragma once
#include "host/engine/blueprint_priv.h"
#include "lib/base/list.h"
#include "lib/json/json.h"

enum abx__state {
    ABX__CREATING,
    ABX__RUNNING,
    ABX__KILLING,
    ABX__DEAD, /* never shown: the object is about to be freed */
    ABX__STATE_COUNT
};
const char *abx__state_name(enum abx__state s);
/** Whether the table allows @from -> @to. */
bool abx__state_may(enum abx__state from, enum abx__state to);

/* What it used at a moment (metrics.c). */
enum { ABX__SAMPLES_MAX = 360 };
struct abx__sample {
    int64_t at_ns, mem_used, mem_cache, disk_used, disk_total;
    double cpu_used_pct;
};
struct abx__samples {
    struct abx__sample rows[ABX__SAMPLES_MAX]; /* a ring */
    uint64_t taken;
    int64_t last_ms; /* monotonic */
};

struct abx__sandbox {
    struct abx__engine *engine;
    enum abx__state state; /* set by set_state() only */
    char id[ABX_SANDBOX_ID_LEN + 1];
    unsigned char nonce[ABX_NONCE_LEN];
    char template_name[64]; /* the template's id */
    char alias[ABX_STORE_NAME_MAX + 1];
    char build_id[ABX_STORE_BUILD_LEN + 1];
    uint32_t cpu, memory_mb;
    struct abx__blueprint *blueprint;            /* NULL for one of an earlier engine */
    struct abx__boot *boot;                      /* while start and ready run */
    struct abx_str server_tokens;                /* JSON object; len 0: none */
    struct abx_buf detail;                       /* of the failure: the last lines of output */
    bool is_hidden;                              /* a build's own: never shown, never adopted */
    char token[ABX_STORE_TOKEN_LEN + 1];         /* "" when not secured */
    char traffic_token[ABX_STORE_TOKEN_LEN + 1]; /* of ports but envd's; "" when they are public */
    struct abx_arena arena;                      /* metadata and envs */
    struct abx_json_map metadata;
    struct abx_str metadata_text, envs_text; /* JSON objects; envs with the platform's own */
    uint32_t timeout_s;
    int64_t started_ns, end_ms; /* wall clock */
    int64_t deadline_ms;        /* the same end by CLOCK_BOOTTIME: no clock setting moves it */
    struct abx_sandbox_info info;
    struct abx_timer timer; /* running: the timeout; else: the next attempt */
    struct abx_http_call *init_call;
    size_t init_bytes;
    int init_status;          /* of the answer being read */
    int64_t init_deadline_ms; /* monotonic */
    uint32_t attempt;
    struct abx_error failure; /* what the waiters will hear; code 0: success */
    struct abx_list waiters;  /* struct abx__wait.node */
    uint32_t edge_conns;
    bool is_recovered;            /* counts in engine->starting */
    bool is_doomed;               /* recovered, to be destroyed */
    struct abx__samples *samples; /* NULL: nobody has asked */
};

/* Somebody who waits for the end of a creation or a kill. The owner removes `node` when it goes. */
struct abx__wait {
    struct abx_list node;
    /** @sb is running (creation) or gone (NULL: kill, or err). */
    void (*fn)(struct abx__wait *w, struct abx__sandbox *sb, const struct abx_error *err);
    struct abx_str detail; /* during fn: more than fits into err; may be empty */
};

struct abx__create {
    struct abx__blueprint *take_blueprint; /* also on failure */
    uint32_t timeout_s;
    bool is_secure;
    bool is_private; /* its ports, envd's aside, need a token of their own; only when secure */
    bool is_hidden;  /* provisioned only: start and ready are the caller's; dies with the engine */
    const struct abx_json_map *metadata, *envs;
};

/** Makes a sandbox; @w hears of the end. When nobody waits any more it is undone. Errors:
 *  RESOURCE_EXHAUSTED the quota, INVALID_ARGUMENT metadata and envs too large. */
int abx__sandbox_create(struct abx__engine *e, const struct abx__create *p, struct abx__wait *w,
                        struct abx_error *err);
/** Remembers a row of an earlier engine; abx__sandbox_settle() then adopts it, or destroys it when
 *  an intent was left or it turns out to be dead. */
int abx__sandbox_recover(struct abx__engine *e, const struct abx_store_sandbox *row,
                         bool has_intent, struct abx_error *err);
void abx__sandbox_settle(struct abx__sandbox *sb);
/** The running sandbox of that id, or NULL. */
struct abx__sandbox *abx__sandbox_find(struct abx__engine *e, struct abx_str id);
/** As find, in any state. */
struct abx__sandbox *abx__sandbox_find_any(struct abx__engine *e, struct abx_str id);
/** Kills and removes; @w (may be NULL) hears of the end. Joins a kill that is under way. */
void abx__sandbox_kill(struct abx__sandbox *sb, struct abx__wait *w);
/** The timeout becomes @end_ms (wall); @extend_only: unless it is later already. */
int abx__sandbox_set_end(struct abx__sandbox *sb, int64_t end_ms, bool extend_only,
                         struct abx_error *err);
/** PID 1 or the shim is gone. */
void abx__sandbox_exited(struct abx__sandbox *sb, const struct abx_proc_status *st);
/** Frees without touching what runs: the engine ends. */
void abx__sandbox_forget(struct abx__sandbox *sb);

/** Connects to the gateway's socket of sandbox @target; for the client pool. */
void abx__gateway_connect(void *arg, struct abx_str target, struct abx_http_call *call);
/** Sends POST /init; the result comes to abx__sandbox_inited(). */
int abx__provision(struct abx__sandbox *sb, struct abx_error *err);
/** @err NULL: provisioned. @may_retry: the gateway was not ready. */
void abx__sandbox_inited(struct abx__sandbox *sb, const struct abx_error *err, bool may_retry);
