/* lib/proc/confine.h: what the kernel holds a child to: Landlock (files, ports, signals), seccomp,
 * resource limits, no privileges.
 *
 * A confinement is compiled once, by the parent; abx_proc_spawn() applies it between fork and exec
 * by system calls alone, and everything that the program starts inherits it. After
 * abx_confine_new() only abx_confine_renew() changes it, on the loop thread, where starts are made
 * too; what any thread may ask is constant. Which layer a kernel has is asked once. Security
 * S04-S07, S10. */
#pragma once
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { /* layers, as bits */
       ABX_CONFINE_FILES = 1,
       ABX_CONFINE_SIGNALS = 2, /* signals and abstract unix sockets */
       ABX_CONFINE_NETWORK = 4, /* TCP ports, and by seccomp what Landlock does not look at */
       ABX_CONFINE_SECCOMP = 8,
       ABX_CONFINE_LAYERS = 4 /* how many there are */
};
const char *abx_confine_layer_name(unsigned layer); /* "files", "signals", "network", "seccomp" */
/** The layers that this kernel has. */
unsigned abx_confine_supported(void);
/** Version of Landlock; 0: none. */
int abx_confine_abi(void);

enum abx_confine_access {
    ABX_CONFINE_READ,   /* read, list, execute */
    ABX_CONFINE_WRITE,  /* that, and write, make, remove, rename within */
    ABX_CONFINE_DEVICE, /* read, write, ioctl */
    ABX_CONFINE_CHANGE, /* read, list, write into what is there; make and remove nothing */
    ABX_CONFINE_REMOVE  /* remove folders, nothing else */
};
struct abx_confine_root {
    /* O_PATH; a folder with all beneath it, or a single file. Must outlive the confinement, or its
     * renewal. */
    int fd;
    enum abx_confine_access access;
};
struct abx_confine_ports {
    const uint16_t *items;
    size_t count;
    bool is_limited; /* else every port */
};
enum { ABX_CONFINE_LIMITS_MAX = 8 };
struct abx_confine_limit {
    int resource; /* RLIMIT_* */
    uint64_t value;
};
/* Processes of one scope signal each other and reach each other's abstract sockets, whichever of
 * its confinements they run under; nobody else, and nobody outside does them (layer
 * ABX_CONFINE_SIGNALS). Without a scope each process is one of its own, with what it starts.
 * Counted from any thread; its keeper, a process, is started with the first that needs it. */
struct abx_confine_scope;
struct abx_confine_group;
/** @group: counted, where its processes live; NULL: nowhere in particular. NULL without memory. */
struct abx_confine_scope *abx_confine_scope_new(struct abx_confine_group *group);
/** Both accept NULL; with the last reference its keeper goes, not what runs in it. That one goes on
 * the loop thread. */
struct abx_confine_scope *abx_confine_scope_ref(struct abx_confine_scope *s);
void abx_confine_scope_unref(struct abx_confine_scope *s);

/* A cgroup for what one caller starts: it bounds how many processes that are and their memory, and
 * ends them all. Its folder is made with the first start in it. At most ABX_CONFINE_GROUPS_MAX
 * folders, and as many keepers of scopes, are there at a time: that of somebody of whom nothing
 * runs makes room, the least recently used first. */
enum { ABX_CONFINE_GROUPS_MAX = 256 };
/** One reference in *ret; -errno: this process may make none (no hierarchy for pids, or not ours).
 * Its folder goes with the last reference, unless somebody lives in it. Loop thread. */
int abx_confine_group_new(struct abx_confine_group **ret);
/** Counted from any thread, the last reference goes on the loop thread; both accept NULL. */
struct abx_confine_group *abx_confine_group_ref(struct abx_confine_group *g);
void abx_confine_group_unref(struct abx_confine_group *g);
/** How many there are. One who holds the only one can let it go where it wants. */
unsigned abx_confine_group_refs(const struct abx_confine_group *g);
unsigned abx_confine_scope_refs(const struct abx_confine_scope *s);
struct abx_confine_bounds { /* 0: none */
    uint64_t processes, memory_bytes;
};
/** 0 or -errno: -EOPNOTSUPP memory can not be bounded; -EBUSY it is over the new bound already, and
 * what it uses can not be taken back. */
int abx_confine_group_bound(struct abx_confine_group *g, const struct abx_confine_bounds *bounds);
/** Groups of this process can bound memory. Known from the first one on. */
bool abx_confine_bounds_memory(void);
/** How many of its processes the kernel has ended at the bound of memory, since its folder is
 * there. NULL: 0. Loop thread. */
uint64_t abx_confine_group_oom_kills(const struct abx_confine_group *g);
/** SIGKILL to all, and nobody new comes in from among them. How many are left after half a second.
 *  The bound is 0 from then on. */
size_t abx_confine_group_kill(struct abx_confine_group *g);
/** The folders of all groups of this process and those they stand in, borrowed; how many there are.
 * For one who confines itself and goes on to make and remove groups. */
size_t abx_confine_group_folders(int ret_own_fds[2], int ret_parent_fds[2]);

struct abx_confine_spec {
    unsigned layers; /* to apply; those that the kernel lacks are left out */
    /* Up to two lists, so that the system's can be shared. Copied; the descriptors are not. */
    const struct abx_confine_root *roots, *more_roots;
    size_t root_count, more_root_count;
    struct abx_confine_ports connect, bind; /* with ABX_CONFINE_NETWORK */
    bool no_udp, no_unix; /* the second: nor System V's IPC, nor POSIX's message queues */
    /* Chromium may make its own sandbox: user namespaces, and of processes and networks in them,
     * and chroot; no others. What it mounts, which sockets it has: as everybody (security S19). */
    bool is_chromium;
    bool keeps_privileges;   /* sudo works: no no_new_privs, no seccomp, capabilities stay */
    bool keeps_capabilities; /* those of this process stay, and no program brings any */
    struct abx_confine_scope *scope; /* counted; NULL: each start is its own */
    struct abx_confine_group *group; /* counted; NULL: that of this process */
    int mounts_fd; /* of abx_confine_hide(), copied; 0 or -1: those of this process */
    struct abx_confine_limit limits[ABX_CONFINE_LIMITS_MAX]; /* core is always 0 */
    size_t limit_count;
};
struct abx_confine; /* opaque */
/** One reference in *ret. */
int abx_confine_new(const struct abx_confine_spec *spec, const struct abx_confine **ret,
                    struct abx_error *err);
/** Counted from any thread; both accept NULL. */
const struct abx_confine *abx_confine_ref(const struct abx_confine *c);
void abx_confine_unref(const struct abx_confine *c);
/** Puts @more in the place of the second list of roots of each of @all: from now on that is what it
 * grants to whom it is applied; what runs keeps what it had. All or none of them. 0, or -errno.
 * Loop thread. */
int abx_confine_renew(const struct abx_confine *const *all, size_t count,
                      const struct abx_confine_root *more, size_t more_count);
/** Makes room for a start under it: 0, or -EUSERS: of every group something runs; or -errno. A
 * start does so itself. Loop thread. */
int abx_confine_reserve(const struct abx_confine *c);
/** Of the spec, borrowed; NULL: none. */
struct abx_confine_group *abx_confine_group_of(const struct abx_confine *c);
/** The layers that a child gets. */
unsigned abx_confine_layers(const struct abx_confine *c);

/** A mount namespace as this process has, but for @paths: an empty file or folder that nobody may
 * open covers each of them (absolute, no links). For abx_confine_spec.mounts_fd. A CLOEXEC
 * descriptor, or -errno; -EPERM: without CAP_SYS_ADMIN, or this process may not mount
 * (abx_confine_self()). The cover lies on the file that is there now. Blocks. */
int abx_confine_hide(const char *const *paths, size_t count);
/** Holds this process itself, and with it all that it starts, to the files of @roots, by Landlock:
 *  without a way back, and from then on it mounts nothing (security S26). 0, or -errno: -EOPNOTSUPP
 * on a kernel without it, -EBUSY when there are other threads already, which would stay free. */
int abx_confine_self(const struct abx_confine_root *roots, size_t count);
/** Holds this process, which has no other threads, to all of @spec but scope, group and mounts: as
 * a child that is started under it. For a program that goes on to execute another one. */
int abx_confine_enter(const struct abx_confine_spec *spec, struct abx_error *err);
