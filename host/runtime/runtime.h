/* host/runtime/runtime.h: the network side's handle on the runtime side (security S66).
 *
 * The runtime side is a process of its own, forked before the network side opens anything: it alone
 * makes and destroys sandboxes (and has the rights for it), takes a closed set of typed requests
 * over a socketpair, checks every field again and parses nothing else. Requests about one sandbox
 * are serial, about different ones concurrent. When the network side dies it sees EOF and exits;
 * the sandboxes live on under their shims and are adopted by the next engine. Loop thread only. */
#pragma once
#include "lib/base/str.h"
#include "lib/loop/loop.h"
#include "lib/proc/proc.h"

enum {
    ABX_SANDBOX_ID_LEN = 21,
    ABX_NONCE_LEN = 16,
    ABX_DIGEST_LEN = 32,
    ABX_LAYERS_MAX = 127,             /* of one image (S53) */
    ABX_LAYERS_KEPT_MAX = 4096,       /* of one abx_runtime_layers_gc() */
    ABX_IMPORT_CONFIG_MAX = 64 * 1024 /* an image's own configuration */
};

/* In every sandbox: what its Python imports as agent_sandbox.server. */
#define ABX_SERVER_PYTHON "/.fce2b/python"

/* A layer's name: STATE/layers/HEX. */
struct abx_digest {
    unsigned char bytes[ABX_DIGEST_LEN];
};

/* What this machine gives, found once at start; the words are those of `abx engine doctor`. */
struct abx_isolation {
    char driver[8];      /* "ns" */
    char ids[16];        /* "private" (root), "subuid", "shared-uid" */
    char limits[24];     /* "cgroup-v2", "cgroup-v1", "per-process" */
    char disk[16];       /* "none" until quotas are built */
    char network[16];    /* "loopback" */
    char filesystem[16]; /* "overlay" */
    bool rootful;
};

struct abx_unpack_job;
struct abx_unpack_result;
/** Unpacks one archive, in the confined worker (host/runtime/unpack.h). */
typedef void abx_unpack_fn(const struct abx_unpack_job *job, struct abx_unpack_result *ret);

struct abx_runtime_options {
    const char *state_dir;  /* absolute; exists */
    const char *guest_path; /* abx-guest to lay over each sandbox */
    const char *guest_libs; /* folder of libraries for a sanitized guest, or NULL */
    const char *shim_path;
    const char *ids_folder; /* of the machine's locks of id ranges; NULL: /run/abx */
    abx_unpack_fn *unpack;  /* host/image/unpack.h; NULL: imports and COPY are refused */
    uid_t network_uid;      /* rootful: who may connect to the gateway sockets */
    gid_t network_gid;
};

struct abx_sandbox_spec {
    char id[ABX_SANDBOX_ID_LEN + 1]; /* "i" + 20 of [a-z0-9] */
    unsigned char nonce[ABX_NONCE_LEN];
    char template_name[64]; /* "host", or "image" for a sandbox of the layers below */
    uint32_t memory_mb, cpu_count, pids_max;
    bool host_opt;  /* bind /opt too */
    bool hide_pids; /* /proc shows a process only what it may trace (M18) */
    bool is_step;   /* PID 1 is the role `step`: see abx_runtime_step() */
    uint32_t layer_count;
    struct abx_digest layers[ABX_LAYERS_MAX]; /* topmost first */
};
struct abx_sandbox_info {
    char id[ABX_SANDBOX_ID_LEN + 1];
    pid_t shim_pid, init_pid;
    uint64_t shim_start_time; /* field 22 of /proc/PID/stat: a recycled pid is told apart */
};

struct abx_runtime;
struct abx_runtime_events {
    /** A sandbox's PID 1 or its shim ended; its resources are freed by abx_runtime_destroy(). */
    void (*on_sandbox_exit)(void *arg, const char *id, const struct abx_proc_status *st);
    /** The runtime side is gone: the engine can not go on. */
    void (*on_lost)(void *arg);
    void *arg;
};

/** Forks the runtime side. Call before the loop has other descriptors; afterwards, when rootful,
 * the caller drops to network_uid. Waits for the runtime side's report. */
int abx_runtime_start(const struct abx_runtime_options *o, struct abx_isolation *ret_isolation,
                      int *ret_sock, pid_t *ret_pid, struct abx_error *err);
/** Attaches the socket of abx_runtime_start() (taken) to a loop. */
int abx_runtime_attach(struct abx_loop *l, int take_sock, const struct abx_runtime_events *ev,
                       struct abx_runtime **ret, struct abx_error *err);
void abx_runtime_close(struct abx_runtime *rt);

typedef void abx_runtime_created_fn(void *arg, const struct abx_sandbox_info *info,
                                    const struct abx_error *err);         /* info NULL on error */
typedef void abx_runtime_done_fn(void *arg, const struct abx_error *err); /* err NULL: ok */

/** Makes a sandbox: on success its gateway listens at STATE/sandboxes/ID/run/gateway.sock (locked
 *  until /init). On failure nothing of it is left. */
void abx_runtime_create(struct abx_runtime *rt, const struct abx_sandbox_spec *spec,
                        abx_runtime_created_fn *done, void *arg);
/** Finds a living sandbox of an earlier engine by its shim socket, nonce and start time. NOT_FOUND
 *  when it is dead. */
void abx_runtime_adopt(struct abx_runtime *rt, const struct abx_sandbox_info *known,
                       const unsigned char nonce[ABX_NONCE_LEN], abx_runtime_created_fn *done,
                       void *arg);
/** Kills if alive and removes every trace (mounts, cgroups, folder). Idempotent. */
void abx_runtime_destroy(struct abx_runtime *rt, const char *id, abx_runtime_done_fn *done,
                         void *arg);
/** Removes what lies under the state folder and carries our names but is not in @keep_ids. */
void abx_runtime_gc(struct abx_runtime *rt, const char *const *keep_ids, size_t keep_count,
                    abx_runtime_done_fn *done, void *arg);

/* ---- layers and builds ---- */
enum abx_import_kind { ABX_IMPORT_ROOTFS = 1, ABX_IMPORT_OCI };
struct abx_layer_info {
    struct abx_digest digest;
    uint64_t bytes, entries; /* of what was unpacked */
};
struct abx_import_result {
    uint32_t layer_count;
    struct abx_layer_info layers[ABX_LAYERS_MAX]; /* topmost first */
    struct abx_str config; /* borrowed JSON of the image, hostile; may be empty */
};
typedef void abx_runtime_imported_fn(void *arg, const struct abx_import_result *r,
                                     const struct abx_error *err); /* r NULL on error */
typedef void abx_runtime_found_fn(void *arg, uint32_t missing, const struct abx_error *err);

/** Unpacks the archive read from @take_fd into layers, in a confined worker (S53). */
void abx_runtime_import(struct abx_runtime *rt, enum abx_import_kind kind, int take_fd,
                        abx_runtime_imported_fn *done, void *arg);
/** Writes a layer as the tar of an OCI layer to @take_fd, an empty file, in a confined worker; the
 *  result's one layer is that tar. @layer NULL: the runtime layer, without the server. The caller
 *  sees to it that no gc removes the layer meanwhile. */
void abx_runtime_export(struct abx_runtime *rt, const struct abx_digest *layer, int take_fd,
                        abx_runtime_imported_fn *done, void *arg);
/** Looks which of the @count layers are there: @missing is how many are not. */
void abx_runtime_layers_find(struct abx_runtime *rt, const struct abx_digest *layers, size_t count,
                             abx_runtime_found_fn *done, void *arg);
/** Removes all layers but @keep and those of living sandboxes, and half-done ones. */
void abx_runtime_layers_gc(struct abx_runtime *rt, const struct abx_digest *keep, size_t count,
                           abx_runtime_done_fn *done, void *arg);
/** Makes a sandbox on the spec's layers whose PID 1 executes one build step: it gets @take_line (a
 *  stream socket) as descriptor 3. @take_archive >= 0 (COPY): the archive is checked and normalised
 *  by a confined worker, which writes it to @take_feed (the other end of the line, or -1). */
void abx_runtime_step(struct abx_runtime *rt, const struct abx_sandbox_spec *spec, int take_line,
                      int take_archive, int take_feed, abx_runtime_created_fn *done, void *arg);
/** Ends the step's sandbox and makes what it wrote the layer @digest, by rename; an existing layer
 *  of that name stays. Nothing else is left of the sandbox, also on failure. */
void abx_runtime_seal(struct abx_runtime *rt, const char *id, const struct abx_digest *digest,
                      abx_runtime_done_fn *done, void *arg);
