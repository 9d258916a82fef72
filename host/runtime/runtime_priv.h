/* host/runtime/runtime_priv.h: the runtime side's own parts, and its messages (security S66). */
#pragma once
#include "host/runtime/runtime.h"
#include "host/runtime/shim_proto.h"
#include "lib/base/buf.h"
#include "lib/base/list.h"
#include "lib/base/map.h"

enum {
    ABX__RT_MAGIC = 0x61627834,
    ABX__RT_TEXT = 256,
    ABX__RT_KEEP_MAX = 4096,   /* ids of one gc request */
    ABX__RT_BOXES_MAX = 4096,  /* sandboxes of one engine */
    ABX__RT_PENDING_MAX = 1024 /* requests without an answer */
};

/* ---- messages over the socketpair: one request or reply per SEQPACKET message ---- */
enum abx__rt_verb {
    ABX__RT_CREATE = 1, /* of a step: with its line, or line, archive and feed */
    ABX__RT_ADOPT,
    ABX__RT_DESTROY,
    ABX__RT_GC,
    ABX__RT_SEAL,
    ABX__RT_IMPORT, /* with the archive */
    ABX__RT_EXPORT, /* with the file to write */
    ABX__RT_FIND,
    ABX__RT_LAYERS_GC,
    ABX__RT_VERB__COUNT
};
enum abx__export_kind { ABX__EXPORT_LAYER = 1, ABX__EXPORT_RUNTIME };
struct abx__rt_request {
    uint32_t magic, verb;
    uint64_t tag;
    struct abx_sandbox_spec spec;  /* CREATE; ADOPT and DESTROY use the id, ADOPT the nonce */
    struct abx_sandbox_info known; /* ADOPT */
    uint32_t keep_count;  /* GC: so many ids of ABX_SANDBOX_ID_LEN bytes follow; FIND and LAYERS_GC:
                             so many digests */
    uint32_t import_kind; /* IMPORT: enum abx_import_kind; EXPORT: enum abx__export_kind */
    struct abx_digest digest; /* SEAL, EXPORT of a layer: its name */
};
enum abx__rt_kind { ABX__RT_READY = 1, ABX__RT_MAP_ME, ABX__RT_DONE, ABX__RT_EXIT };
struct abx__rt_reply {
    uint32_t magic, kind;
    uint64_t tag;
    struct abx_sandbox_info info;   /* DONE of create and adopt; EXIT: the id */
    struct abx_proc_status status;  /* EXIT */
    struct abx_isolation isolation; /* READY */
    struct abx_error err;           /* code 0: success */
    uint32_t count;                 /* FIND: missing layers; IMPORT: layers */
    uint32_t config_bytes;          /* IMPORT: of the text behind the layers */
};
/* A reply to IMPORT and EXPORT: the layers and the configuration follow. */
enum {
    ABX__RT_FDS_MAX = 3,
    ABX__RT_REPLY_MAX = sizeof(struct abx__rt_reply) +
                        ABX_LAYERS_MAX * sizeof(struct abx_layer_info) + ABX_IMPORT_CONFIG_MAX
};

/** "i" and 20 of [a-z0-9], terminated. */
bool abx__id_is_valid(const char id[ABX_SANDBOX_ID_LEN + 1]);

/* ---- ids (S51, S55, S58) ---- */
enum abx__ids_level { ABX__IDS_PRIVATE, ABX__IDS_SUBUID, ABX__IDS_SHARED, ABX__IDS__COUNT };
struct abx__ids {
    enum abx__ids_level level;
    uint32_t storage_base; /* owner of a layer's root files, in our user namespace */
};
enum {
    ABX__IDS_RANGE = 65536,
    ABX__IDS_STORAGE = 0x70000000, /* rootful: S; then creators, then private ranges */
    ABX__IDS_CREATORS = 0x70010000,
    ABX__IDS_PRIVATE_BASE = 0x70020000,
    ABX__IDS_SLOTS = 4060
};
extern const char *const abx__ids_names[ABX__IDS__COUNT];
/** Makes the runtime side's own namespaces: mounts always, users when not root. Without root asks
 *  the parent over @sock to write the maps. */
int abx__ids_enter(int sock, struct abx__ids *ret, struct abx_error *err);
/** The parent's part of it: newuidmap and newgidmap of @pid, where the caller has a range. */
int abx__ids_map_child(int sock, pid_t pid, struct abx_error *err);
/** Gives (@dir_fd, @name) to the sandbox's @uid and @gid, as they lie on disk. 0 or -errno. */
int abx__ids_chown(const struct abx__ids *ids, int dir_fd, const char *name, uint32_t uid,
                   uint32_t gid);

/* ---- layers ---- */
struct abx__layers {
    char name[24]; /* folder below STATE/runtime */
    int top_fd, host_fd, step_fd;
    bool is_link[8]; /* of abx__host_dirs: a symbolic link on this machine */
    bool exists[8];
};
extern const char *const abx__host_dirs[]; /* "/bin", ...; NULL at the end */
struct abx__layer_spec {
    const char *guest_path, *guest_libs;
    int runtime_fd; /* STATE/runtime */
    const struct abx__ids *ids;
};
/** Makes the runtime layer and the host template's layer anew, in a folder of their own. */
int abx__layers_make(const struct abx__layer_spec *spec, struct abx__layers *ret,
                     struct abx_error *err);
void abx__layers_done(struct abx__layers *l);
/** The template's etc, homes and mount points. */
int abx__layer_host(const struct abx__layer_spec *spec, int dir_fd, struct abx__layers *l,
                    struct abx_error *err);

/* ---- cgroups ---- */
enum abx__cgroup_kind {
    ABX__CG_MEMORY,
    ABX__CG_PIDS,
    ABX__CG_CPU,
    ABX__CG_FREEZER,
    ABX__CG_UNIFIED,
    ABX__CG__COUNT
};
struct abx__cgroups {
    char parents[ABX__CG__COUNT][192]; /* TOP/abx-HASH; "" where there is none */
    char own[192];                     /* of v2 the TOP that the engine was in; "": another one */
    const char *level;                 /* of struct abx_isolation */
};
struct abx__limits {
    uint32_t memory_mb, cpu_count, pids_max;
};
/** Finds what this machine has. @state_dir names our folder. */
void abx__cgroups_find(const char *state_dir, bool rootful, struct abx__cgroups *ret);
/** The same, by the text of mountinfo and the v2 cgroup of this process; @own NULL: none. */
void abx__cgroups_read(struct abx_str mounts, const char *own, const char *state_dir, bool rootful,
                       struct abx__cgroups *ret);
/** Makes our own folder in each hierarchy; close() removes it if no sandbox is in it. The
 *  sandboxes' folders in it are made by their shims: the kernel's lock is held for long in a join.
 */
int abx__cgroups_open(const struct abx__cgroups *cg, struct abx_error *err);
void abx__cgroups_close(const struct abx__cgroups *cg);
struct abx__knob {
    char path[320], text[48]; /* path "": nothing to write */
    bool is_optional;
};
/** The knob number @index of @slot for the limits @l; false beyond the last. */
bool abx__cgroups_knob(const struct abx__cgroups *cg, size_t index, uint32_t slot,
                       const struct abx__limits *l, struct abx__knob *ret);
/** The cgroup's path; false where there is no such hierarchy. */
bool abx__cgroups_folder(const struct abx__cgroups *cg, enum abx__cgroup_kind kind, uint32_t slot,
                         char out[256]);
/** Kills what is still in it (v2). */
void abx__cgroups_kill(const struct abx__cgroups *cg, uint32_t slot);
/** Removes the folders. -EBUSY while something is in them. */
int abx__cgroups_remove(const struct abx__cgroups *cg, uint32_t slot);
/** Calls @fn for each slot that has a folder; several times when it has several. */
void abx__cgroups_each(const struct abx__cgroups *cg, void (*fn)(void *arg, uint32_t slot),
                       void *arg);

/* ---- one sandbox ---- */
struct abx__worker;
struct abx__box; /* box.c */
struct abx__box_record;
/** Appends the operation records of a sandbox or step. */
struct abx__ops_spec {
    const struct abx__worker *w;
    const struct abx_sandbox_spec *spec;
    uint32_t slot;
    bool is_rooted; /* its root was made ahead */
};
/** Appends the records of the first message: id maps and cgroups of @slot, and the stage; in the
 *  root of a sandbox like @known where that is not NULL. */
void abx__ops_prepare(const struct abx__worker *w, uint32_t slot,
                      const struct abx_sandbox_spec *known, struct abx_buf *out);
void abx__ops_sandbox(const struct abx__ops_spec *o, struct abx_buf *out);

/** @line_fd: of a step, taken; -1 for a sandbox. */
void abx__box_create(struct abx__worker *w, const struct abx__rt_request *req, int take_line_fd);
/** Ends a step's sandbox and makes its upper the layer. */
void abx__box_seal(struct abx__worker *w, const struct abx__rt_request *req);
void abx__box_adopt(struct abx__worker *w, const struct abx__rt_request *req);
void abx__box_destroy(struct abx__worker *w, const char *id, uint64_t tag);

/** The engine is gone: what is being made is undone, what is ending ends, the rest stays as it is
 *  under its shim and is only forgotten here. */
void abx__box_let_go(struct abx__box *b);

/* ---- the folders of the sandboxes, made ahead of need too ---- */
struct abx__folder {
    struct abx_list node; /* of the spare ones */
    char name[24];        /* until it is claimed */
    bool is_step;         /* has no gateway and an empty upper */
    int dir, run, fs, extra, record, hostname, hosts;
    int gateway, listen, log; /* bound sockets, console.log */
};
#define ABX__FOLDER_NONE                                                                           \
    {                                                                                              \
        .dir = -1, .run = -1, .fs = -1, .extra = -1, .record = -1, .hostname = -1, .hosts = -1,    \
        .gateway = -1, .listen = -1, .log = -1                                                     \
    }
#define ABX__FOLDER_FDS(f)                                                                         \
    {                                                                                              \
        &(f)->dir, &(f)->run, &(f)->fs, &(f)->extra, &(f)->record, &(f)->hostname, &(f)->hosts,    \
            &(f)->gateway, &(f)->listen, &(f)->log                                                 \
    }
/** Makes one. Any thread. 0 or -errno. */
int abx__folder_make(const struct abx__worker *w, bool is_step, struct abx__folder *ret);
/** Writes what is the sandbox's into it and gives it the sandbox's name. -EEXIST: there is one. */
int abx__folder_claim(const struct abx__worker *w, struct abx__folder *f,
                      const struct abx_sandbox_spec *spec, uint32_t slot);
/** Closes its descriptors. */
void abx__folder_done(struct abx__folder *f);
/** Removes one that was not claimed. */
void abx__folder_drop(const struct abx__worker *w, struct abx__folder *f);
/** A spare one, or one made now. */
int abx__folder_take(struct abx__worker *w, bool is_step, struct abx__folder *ret);
/** Makes spare ones on the pool until there are @count. */
void abx__folders_fill(struct abx__worker *w, int count);
void abx__folders_close(struct abx__worker *w);
/** Removes what an earlier engine left. */
void abx__folders_sweep(const struct abx__worker *w);

/* ---- from a spec to a sandbox ---- */
/* The lower layers of a root: O_PATH descriptors, the first `shared` are the engine's. */
struct abx__lowers {
    int fds[ABX_LAYERS_MAX + 2];
    uint32_t count, shared;
};
/** On failure there is nothing to close. */
int abx__lowers_open(const struct abx__worker *w, const struct abx_sandbox_spec *spec,
                     struct abx__lowers *ret, struct abx_error *err);
void abx__lowers_close(struct abx__lowers *l);

struct abx__started {
    pid_t shim_pid;
    int control_fd;
    uint32_t slot;
    bool is_rooted; /* waits in the root that it was given, whose folder is this */
    struct abx__folder folder;
};
/** Makes the folder the sandbox's, and hands @shim the request. On failure the caller ends the shim
 *  and removes the folder, unless it is ALREADY_EXISTS. */
int abx__box_start(struct abx__worker *w, const struct abx_sandbox_spec *spec,
                   struct abx__started *shim, int line_fd, struct abx_error *err);

/* ---- the layer store: STATE/layers ---- */
/** Opens the folder and removes what an earlier engine did not finish. */
int abx__store_open(struct abx__worker *w, struct abx_error *err);
bool abx__store_has(const struct abx__worker *w, const struct abx_digest *d);
/** A descriptor (O_PATH) of the layer's root, or -errno. */
int abx__store_layer(const struct abx__worker *w, const struct abx_digest *d);
/** Makes a folder for what is not a layer yet: ".new-" and random digits, the storage root's. */
int abx__store_scratch(const struct abx__worker *w, char ret_name[32], int *ret_fd);
struct abx__new_layer {
    struct abx_layer_info info;
    const struct abx_digest *parents; /* topmost first */
    uint32_t parent_count;
};
/** Makes (@dir_fd, @name) the layer, by rename; one that is there already stays. Pool thread. */
int abx__store_add(const struct abx__worker *w, int dir_fd, const char *name,
                   const struct abx__new_layer *l);
/** The layer of a sandbox's upper; @folder is its folder below STATE/sandboxes. Pool thread. */
int abx__store_seal(const struct abx__worker *w, const char *id, const struct abx_digest *d);
void abx__store_gc(struct abx__worker *w, const struct abx__rt_request *req, const char *keep);
/** Calls @fn for each sandbox that has a folder with a readable record. */
void abx__records_each(const struct abx__worker *w,
                       void (*fn)(void *arg, const struct abx__box_record *r), void *arg);

/* ---- confined workers (S53) ---- */
/** Forks the process that makes them; before the loop is there. */
int abx__unpacker_start(struct abx__worker *w, struct abx_error *err);
/** Imports the archive; the answer comes later. */
void abx__unpacker_import(struct abx__worker *w, const struct abx__rt_request *req, int take_fd);
/** Writes a layer to @take_fd; the answer, like an import's, comes later. */
void abx__unpacker_export(struct abx__worker *w, const struct abx__rt_request *req, int take_fd);
/** Feeds a COPY step: both descriptors are taken. */
int abx__unpacker_copy(struct abx__worker *w, int take_archive, int take_feed,
                       struct abx_error *err);
/** No more workers; those that run are killed. */
void abx__unpacker_stop(struct abx__worker *w);
/** FAILED_PRECONDITION with the lines to add where there is one id only (S58). */
int abx__unpacker_needs_range(const struct abx__worker *w, struct abx_error *err);

/* ---- shims ahead of need ---- */
/** Before the others. */
void abx__pool_init(struct abx__worker *w);
/** A prepared shim for @spec, from the pool or made now; with a root for it if there is one. The
 *  caller owns its control socket and its slot, and gives the folder to abx__box_start(). */
int abx__pool_take(struct abx__worker *w, const struct abx_sandbox_spec *spec,
                   struct abx__started *ret, struct abx_error *err);
/** Ends those that have a root of an image: layers are about to go. */
void abx__pool_forget_layers(struct abx__worker *w);
/** Fills the pool from the loop: at once when little is left in it, else when no sandbox was made
 *  for a while, so that it does not compete with those that are being made. */
void abx__pool_fill(struct abx__worker *w);
/** Ends what is in it. */
void abx__pool_close(struct abx__worker *w);
bool abx__slot_is_taken(const struct abx__worker *w, uint32_t slot);
void abx__slot_mark(struct abx__worker *w, uint32_t slot, bool taken);
#define ABX__SLOTS_FOLDER "/run/abx"
/** Locks @slot against every engine of the machine for as long as the descriptor is open, here or
 *  where it was inherited: the descriptor, -EBUSY when it is taken, else -errno. */
int abx__slot_lock(const char *folder, uint32_t slot);
/** Removes the file and the folder of the locks if nobody holds one. */
void abx__slots_tidy(const char *folder);
/** Removes the cgroups of @slot, where nothing of ours is any more, as soon as they are empty, then
 *  frees it. A gc waits for that. */
void abx__slot_end_gc(struct abx__worker *w, uint32_t slot);
/** Closes the socket of @s, which is how it is told to end, and waits for that from the loop; it is
 *  killed after 5 s. Then its cgroups go, the folder whose root it was given unless that was
 *  claimed, and its slot. */
void abx__shim_end(struct abx__worker *w, struct abx__started *s);
/** Kills a shim that is our child, if it still runs; its PID 1 dies with it. */
void abx__child_kill(pid_t pid);
/** Stops watching for the ends of the shims: the loop is about to stop. */
void abx__children_let_go(void);
/* What a sandbox's folder says of it (file "shim"): enough to end it without the database. */
struct abx__box_record {
    uint32_t slot;
    unsigned char nonce[ABX_NONCE_LEN];
    char layers[24];
    uint32_t digest_count;
    struct abx_digest digests[ABX_LAYERS_MAX]; /* of an image, topmost first */
};
int abx__record_read(int dir_fd, struct abx__box_record *ret);

/* ---- the runtime side as a whole ---- */
struct abx__worker {
    struct abx_loop loop;
    struct abx_poll poll;
    int sock;
    struct abx_runtime_options options;
    struct abx__ids ids;
    struct abx__layers layers;
    struct abx__cgroups cgroups;
    int state_fd, sandboxes_fd, runtime_fd, layers_fd;
    int unpacker_sock; /* the process that makes workers; -1: none */
    pid_t unpacker_pid;
    uid_t caller_uid;                            /* whose engine this is */
    struct abx_list imports;                     /* unpacker.c */
    struct abx_map boxes;                        /* id -> struct abx__box */
    unsigned char slots[ABX__IDS_SLOTS / 8 + 1]; /* taken ones */
    uint32_t next_slot;
    struct abx_list warm;          /* pool.c */
    struct abx_list folders;       /* folder.c */
    int plain_count, rooted_count; /* of `warm`: without and with a root */
    int folder_count, folders_making, ending_count, import_count;
    /* What roots are made for: a sandbox like the last two, if these were alike; else the one
     * before. Only the layers and host_opt of these are looked at. */
    struct abx_sandbox_spec last, likely;
    struct abx_defer fill;
    struct abx_timer fill_later;
    bool closing;    /* the network side is gone */
    uint64_t gc_tag; /* of the running gc; 0: none */
    uint32_t gc_left;
};
/** Answers a request. @info may be NULL; @err NULL: success. */
void abx__worker_reply(struct abx__worker *w, uint64_t tag, const struct abx_sandbox_info *info,
                       const struct abx_error *err);
void abx__worker_exited(struct abx__worker *w, const char *id, const struct abx_proc_status *st);
/** A destroy that gc asked for (tag 0) is over. */
void abx__worker_gc_step(struct abx__worker *w);
/** Once the engine is gone: stops waiting for the shims when nothing else is left to do. */
void abx__worker_may_end(struct abx__worker *w);
void abx__worker_on_request(struct abx_poll *p, unsigned events);
/** The network side is gone: what is being made is undone, the sandboxes live on. */
void abx__worker_close_down(struct abx__worker *w);
/** Sends a reply with what follows it. */
void abx__worker_send(struct abx__worker *w, const void *message, size_t len);
int abx__worker_main(void *arg);
struct abx__worker_start {
    const struct abx_runtime_options *options;
    int sock;
};
/** Marks the slots of all sandboxes that have a folder. */
void abx__slots_scan(struct abx__worker *w);
/** Removes the layers that neither this start nor a sandbox's folder names. */
void abx__gc_layers(const struct abx__worker *w);
/** @keep: keep_count ids of ABX_SANDBOX_ID_LEN bytes. */
void abx__gc_start(struct abx__worker *w, const struct abx__rt_request *req, const char *keep);
