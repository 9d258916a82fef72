/* host/engine/engine_priv.h: the network side as a whole: what its parts share. Loop thread. */
#pragma once
#include "host/engine/engine.h"
#include "host/runtime/runtime.h"
#include "host/store/store.h"
#include "lib/base/list.h"
#include "lib/base/map.h"
#include "lib/http/proxy.h"

enum {
    ABX__SANDBOXES_MAX = 1000, /* S67: kernel.pid_max 32,768 and the descriptor budget */
    ABX__FDS_PER_SANDBOX = 16, /* what admission control counts for one */
};

/* Failures of one address in the second that began at window_ms. */
struct abx__rate {
    unsigned char address[16]; /* IPv6, or IPv4 in its first four bytes */
    int64_t window_ms;
    uint32_t used;
};
enum { ABX__RATES = 64 }; /* addresses remembered; the longest idle one makes room */

enum { ABX__RESERVED = 16 };
struct abx__reserve {
    char ids[ABX__RESERVED][ABX_STORE_ID_LEN + 1];
    size_t count;
    struct abx_timer timer;
};

struct abx__engine {
    struct abx_loop loop;
    struct abx_store *store;
    struct abx_runtime *rt;
    struct abx_http_server *server;
    struct abx_http_pool *pool;
    struct abx_isolation isolation;
    struct abx__reserve reserve; /* reserve.c */
    struct abx_map sandboxes;    /* id -> struct abx__sandbox, of every state but dead */
    int sandboxes_fd;            /* STATE/sandboxes, O_PATH */
    int files_fd;                /* a folder of the network side: uploaded files */
    size_t sinks;                /* bodies being received into it */
    unsigned char link_key[32];
    struct abx__builds *builds; /* builds.c */
    size_t imports;             /* of images, under way; exports too while they read layers */
    size_t exports;             /* of images, under way */
    bool wants_sweep;           /* of layers, as soon as it may be */
    bool is_sweeping;           /* layers are being removed: builds and imports wait */
    size_t max_sandboxes;
    size_t starting; /* sandboxes of an earlier engine not yet adopted or removed */
    void (*started)(struct abx__engine *e);    /* the last of them is settled */
    void (*on_started)(struct abx__engine *e); /* of abx__engine_recover() */
    bool no_host_template, any_ip;             /* any_ip: listens on a wildcard address */
    bool stopping, is_lost, collecting;
    char listen_host[64]; /* the literal given by --listen, "" for the loopback pair */
    uint16_t port;
    char url[96], domain[64];
    struct abx__rate bad_signatures[ABX__RATES];
    struct abx_list gc_waiters; /* struct abx__wait.node: who asked for the collection under way */
    void *user;                 /* of engine.c */
};

void abx__reserve_open(struct abx__engine *e);
void abx__reserve_close(struct abx__engine *e);
/** Refills soon, if it is worth it. */
void abx__reserve_plan(struct abx__engine *e);
/** An id whose intent is on the disk. */
int abx__reserve_take(struct abx__engine *e, char ret_id[ABX_STORE_ID_LEN + 1],
                      struct abx_error *err);
/** One that was taken and with which nothing was made. */
void abx__reserve_give_back(struct abx__engine *e, const char id[ABX_STORE_ID_LEN + 1]);
/** A random id without an intent. */
void abx__reserve_mint(char out[ABX_STORE_ID_LEN + 1]);

/** Opens the store, the pool, the server and the attached runtime's bookkeeping. The fields
 *  sandboxes_fd (taken), files_fd, isolation, port, url, domain and rt are the caller's. */
int abx__engine_open(struct abx__engine *e, const char *db_path, struct abx_error *err);
/** Adopts or removes what an earlier engine left, then calls @started once. */
int abx__engine_recover(struct abx__engine *e, void (*started)(struct abx__engine *e),
                        struct abx_error *err);
struct abx__wait;
/** Removes what a crash left and no sandbox of ours owns; @w hears of the end. Joins a collection
 *  that is under way. */
int abx__engine_collect(struct abx__engine *e, struct abx__wait *w, struct abx_error *err);
/** Events of the runtime side; arg is the engine. */
void abx__engine_on_sandbox_exit(void *arg, const char *id, const struct abx_proc_status *st);
/** Lets exchanges end (@now: cuts them), closes server and pool; sandboxes stay. */
void abx__engine_close(struct abx__engine *e, bool now);
/** Frees the rest once the loop has run out. */
void abx__engine_done(struct abx__engine *e);
