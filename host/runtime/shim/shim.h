/* host/runtime/shim/shim.h: parts of abx-shim. Static, no libraries but libc; one thread. */
#pragma once
#include "host/runtime/shim_proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The trees of a sandbox: its own folder, the extra one, the layers. */
enum { SHIM_TREE_FS, SHIM_TREE_EXTRA, SHIM_TREE_LOWER0, SHIM_TREES_MAX = 2 + ABX_SHIM_LOWERS_MAX };

struct shim_records {
    const unsigned char *bytes;
    size_t len;
};
/* What is known of the sandbox. Static memory, made once; PID 1 has its own copy. */
struct shim_start {
    struct abx_shim_prepare prepare;
    unsigned char prepare_ops[ABX_SHIM_PREPARE_MAX];
    struct abx_shim_request head;
    unsigned char ops[ABX_SHIM_OPS_MAX];
    int fds[ABX_SHIM_FD_MAX];
    uint32_t lower_count;             /* of whichever message made the root */
    bool has_extra, is_rooted;        /* is_rooted: by the first one */
    int idmap_fd;                     /* -1: none */
    int tree_fds[SHIM_TREES_MAX];     /* detached mounts */
    int join_fds[ABX_SHIM_JOINS_MAX]; /* files that PID 1 writes itself into */
    size_t join_count;
    int into_fd;  /* the cgroup that PID 1 is born in; -1: ours */
    int sync_fd;  /* PID 1's end of the line to the shim, until the exec */
    int stage_fd; /* PID 1's: where the mounts of the first message are */
    int log_fd;   /* write end of PID 1's stdout and stderr */
};
struct shim_failure {
    int32_t error;
    char step[128];
};

/* One decoded record; texts are "" when absent. */
struct shim_op {
    enum abx_shim_op_kind kind;
    unsigned flags, mode;
    const char *a, *b;
};
/** Decodes the record at *pos and moves on. 1, 0 at the end, -EINVAL for a malformed one. */
int shim_op_next(const struct shim_records *r, size_t *pos, struct shim_op *ret);
/** How many trees the root is made of. */
static inline size_t shim_tree_count(const struct shim_start *st)
{
    return SHIM_TREE_LOWER0 + st->lower_count;
}
/** The records of the first message. */
static inline struct shim_records shim_stage_records(const struct shim_start *st)
{
    return (struct shim_records){st->prepare_ops, st->prepare.op_bytes};
}
/** The records of the second message. */
static inline struct shim_records shim_records(const struct shim_start *st)
{
    return (struct shim_records){st->ops, st->head.op_bytes};
}
/** Writes "step a" into @f with -@neg_errno. Returns @neg_errno. */
int shim_fail(struct shim_failure *f, int neg_errno, const char *step, const char *a);

/* One byte messages on the line between the shim and PID 1, in this order. */
enum shim_sync {
    SHIM_SYNC_MAPPED = 'm', /* to PID 1: its ids are mapped */
    SHIM_SYNC_STAGED = 's', /* from PID 1: it waits for the second message */
    SHIM_SYNC_GO = 'g'      /* to PID 1, behind the second message: its limits hold, exec */
};
/** Waits for @what on the line. 0 or -EPIPE. */
int shim_await(int sync_fd, enum shim_sync what);
/** In PID 1, once its ids are mapped: executes the records of the first message. Returns -errno
 *  with *f filled when something failed. */
int shim_stage(struct shim_start *st, struct shim_failure *f);
/** In PID 1: executes the records of the second message and execs. As above. */
int shim_child(const struct shim_start *st, struct shim_failure *f);
/** Operations on mounts, by PID 1. 0 or -errno. @root: descriptor of the new root. */
int shim_mount_op(const struct shim_start *st, int root, const struct shim_op *op);
/** Makes the mounts private and the stage; *ret_stage gets a descriptor of it. */
int shim_mount_stage(int *ret_stage);
/** Makes the overlay from the detached trees; *ret_root gets a descriptor of it. */
int shim_mount_root(const struct shim_start *st, const char *options, int *ret_root);
/** Makes @root the root of the namespace, detaches the old one and checks mountinfo: every mount
 *  must come from one of the @records. */
int shim_mount_pivot(struct shim_records records, int root);

/** Makes the idmap that the first message asks for. 0 or -errno. */
int shim_idmap(struct shim_start *st);
/** Clones the trees, idmapped if asked. 0 or -errno. */
int shim_trees(struct shim_start *st);
/** Makes the cgroups of the first message and opens what leads into them. Returns -errno with *f
 *  filled when something failed. */
int shim_cgroups_open(struct shim_start *st, struct shim_failure *f);
/** In PID 1, first of all: enters them. As above. */
int shim_cgroups_enter(struct shim_start *st, struct shim_failure *f);
void shim_cgroups_close(struct shim_start *st);
/** Clones PID 1 into its namespaces, as creator_uid if asked. In the child returns 0. */
int shim_clone(const struct shim_start *st, int *ret_pidfd);

/* System calls that musl's headers do not wrap. -errno on failure. */
int sys_open_tree(int dir, const char *path, unsigned flags);
int sys_move_mount(int from, int to);
int sys_mount_attr(int fd, const char *path, unsigned flags, uint64_t set, int userns_fd);
int sys_open_in_root(int root, const char *path, uint64_t flags);
int sys_pivot_root(void);
int sys_pidfd_signal(int pidfd, int signum);
int sys_write_file(const char *path, const char *text);
int sys_set_caps(uint64_t permitted);
/** Decimal text. (No stdio here: it would double the program.) */
void sys_number(char out[12], uint32_t value);
/** The parts (NULL at the end) one behind the other; false when they do not fit in @cap. */
bool sys_join(char *out, size_t cap, const char *const *parts);
/** "" or the path /proc/PID/NAME in @out. */
void sys_proc_path(char out[64], pid_t pid, const char *name);
