/* lib/proc/proc_priv.h: what the files of lib/proc share. */
#pragma once
/* A sanitizer's bookkeeping does not know the stack of a child: AddressSanitizer's at no-return
 * calls, ThreadSanitizer's at every call, which an exec in the parent's address space never
 * balances. */
#if defined(__SANITIZE_ADDRESS__)
#define CHILD_CODE __attribute__((no_sanitize("address")))
#elif defined(__SANITIZE_THREAD__)
#define CHILD_CODE __attribute__((no_sanitize("thread")))
#else
#define CHILD_CODE
#endif
#include "lib/proc/confine.h"
#include "lib/proc/proc.h"

#include <linux/filter.h>
#include <sched.h>
#include <signal.h>

/* clone() for a child in our address space. ThreadSanitizer's own takes each child for one with
 * memory of its own and ends in it what it has begun for the parent: the parent's thread, where it
 * ends that again, would then report nothing more and have no signal handled. */
#if defined(__SANITIZE_THREAD__)
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define abx__clone_vm __clone
#else
#define abx__clone_vm clone
#endif

/** Blocks every signal of this thread; *ret_old is what to restore. */
void abx__proc_block_signals(sigset_t *ret_old);
void abx__proc_restore_signals(const sigset_t *old);
/** In a child: every signal to its default action, none blocked. System calls only. */
void abx__proc_reset_signals(void);
/** Sets comm, and argv[0] when abx_proc_init_title() ran. */
void abx__proc_set_title(const char *name);
void abx__proc_status_from(const siginfo_t *info, struct abx_proc_status *ret);

/* Where a child failed before its exec; the row index of the texts in spawn.c. */
enum abx__proc_stage {
    ABX__STAGE_SESSION,
    ABX__STAGE_STDIO,
    ABX__STAGE_TTY,
    ABX__STAGE_GROUP,
    ABX__STAGE_MOUNTS,
    ABX__STAGE_GROUPS,
    ABX__STAGE_GID,
    ABX__STAGE_UID,
    ABX__STAGE_CWD,
    ABX__STAGE_LIMITS,
    ABX__STAGE_PRIVILEGES,
    ABX__STAGE_LANDLOCK,
    ABX__STAGE_SECCOMP,
    ABX__STAGE_CLOSE,
    ABX__STAGE_EXEC,
    ABX__STAGE__COUNT
};
struct abx__proc_failure { /* as written to the pipe */
    int32_t stage;
    int32_t errnum;
};
enum abx__filter {
    ABX__FILTER_BASE,
    ABX__FILTER_CHROMIUM, /* in its place */
    ABX__FILTER_NETWORK,
    ABX__FILTER_NO_UDP,
    ABX__FILTER_NO_UNIX,
    ABX__FILTER_NO_LISTEN,
    ABX__FILTERS
};
struct abx__group_fds { /* writing "0" to one joins; -1: nothing to join */
    int count_fd, memory_fd;
};
struct abx__confine_child { /* what the child applies, by system calls alone */
    int ruleset_fd;         /* -1: none */
    struct abx__group_fds group;
    int mounts_fd; /* -1: those of the parent */
    const struct sock_fprog *filters[ABX__FILTERS];
    size_t filter_count, limit_count;
    struct abx_confine_limit limits[ABX_CONFINE_LIMITS_MAX];
    bool keeps_privileges, keeps_capabilities;
};
/** The domain of a scope, to be entered by its keeper: a descriptor or -errno. */
int abx__confine_scope_rules(void);
/** NULL: every child is a scope of its own. */
struct abx_confine_scope *abx__confine_scope(const struct abx_confine *c);
/** @tty_fd: the slave that the child may open again; 0 or -1: none. *ret_own_fd: to be closed after
 *  the clone, or -1. 0 or -errno. */
int abx__confine_prepare(const struct abx_confine *c, int tty_fd, struct abx__confine_child *ret,
                         int *ret_own_fd);
/** In the child, before the ids change: -1 with errno. */
int abx__confine_limit(const struct abx__confine_child *c);
/** Makes the group, if it is not there. 0, or -errno; -EUSERS: there is no room. */
int abx__confine_group_enter(struct abx_confine_group *g, struct abx__group_fds *ret);
/** Nobody lives in it. */
bool abx__confine_group_is_idle(const struct abx_confine_group *g);
/** In the child, before anything else is given up: -1 with errno. */
int abx__confine_join(int fd);
/** Makes room for a keeper of @s: 0, or -EUSERS. */
int abx__scope_reserve(struct abx_confine_scope *s);
/** A child that was cloned in @s and has not been reaped yet. NULL: nothing. */
void abx__scope_count(struct abx_confine_scope *s, bool is_started);
/** In the child, before the ids change and before it goes to its folder: -1 with errno. */
int abx__confine_enter_mounts(int mounts_fd);
/** In the child, the last steps before the exec: 0, or the stage that failed, with errno. */
int abx__confine_apply(const struct abx__confine_child *c);
/** In the child, while it may: no capability can be had back. -1 with errno. */
int abx__privileges_bound(void);
/** In the child, for good: every other set is empty, and no program brings anything. -1 with errno.
 */
int abx__privileges_drop(void);

struct abx__proc_start { /* everything a child needs, prepared by the parent */
    const struct abx_proc_spec *spec;
    char *const *paths; /* candidates to exec, in order; NULL ends */
    int error_fd;       /* CLOEXEC */
    int gate_fd;        /* a byte from it lets the child go on; 0 or -1: no gate */
    pid_t parent;
    const struct abx__confine_child *confine; /* NULL: not confined */
};
/** A child that has become its program runs as long at a time as others do. */
void abx__proc_usual_slice(pid_t pid);
/** Becomes the program of @start or reports why not. May share its memory with the parent. */
int abx__proc_child(void *start);
/** As a clone of @start by this process, but in the domain of the scope. The pid of our child and
 * its pidfd, or -errno. */
pid_t abx__scope_clone(struct abx_confine_scope *s, const struct abx__proc_start *start,
                       int *ret_pidfd);
