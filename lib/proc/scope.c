/* lib/proc/scope.c: processes that are started one by one and may signal each other, but nobody
 * else (confine.h: scopes). Security S06, M11.
 *
 * Landlock's bounds of signals hold between domains, and a domain is inherited, never joined. So
 * each scope has a process of its own, the keeper, that has entered the domain and does nothing but
 * clone: what it clones are our children (CLONE_PARENT), each of which adds its own bounds for
 * files and ports. The keeper is at the mercy of those it keeps: stopped, it is sent on its way;
 * dead, another one takes its place, with a new domain. Its code makes system calls only, as that
 * of child.c: it is a copy of a process that may have had threads. Loop thread only. */
#include "lib/proc/proc_priv.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    STACK_BYTES = 64 * 1024,
    REQUEST_BYTES = 8 << 20,
    KEEPER_FD = 3,
    ROUND_MS = 5,
    ROUNDS_MAX = 1000,
    STOPS_MAX = 20,
    TRIES = 2,
    FD_ERROR = 0,
    FD_GATE,
    FD_STDIN,
    FD_EXEC = FD_STDIN + 3,
    FD_TTY,
    FD_RULES,
    FD_MOUNTS,
    FD_COUNT,
    FD_MEMORY,
    FDS_MAX
};

/* The start of a child as it lies in the memory that both sides map. Pointers are counted from its
 * first byte until the keeper has moved them; those into the program itself are the same on both
 * sides. */
struct request {
    int32_t pid;            /* by the kernel, at the clone; 0: there is no child */
    int32_t slots[FDS_MAX]; /* which of the descriptors that came; -1: none */
    int32_t fd_count;       /* how many those are, without that of the request */
    size_t argc, envc, path_count;
    char **paths;
    struct abx__proc_start start;
    struct abx_proc_spec spec;
    struct abx__confine_child confine;
};

struct abx_confine_scope {
    struct abx_list node;  /* of those that have a keeper, the least recently used first */
    _Atomic unsigned refs; /* confinements are counted from any thread */
    struct abx_confine_group *group; /* NULL: none */
    size_t running;                  /* our children */
    pid_t pid;                       /* 0: no keeper yet */
    int pidfd, socket_fd;
};
static struct abx_list kept = {&kept, &kept};
static size_t kept_count;

/* ---- the keeper ---- */

/* Where it works: made before its birth. */
struct keeper {
    int socket_fd, ruleset_fd;
    pid_t parent;
    char *stack; /* of its children, up to its end */
};

CHILD_CODE _Noreturn static void keeper_die(void)
{
    for (;;)
        syscall(SYS_exit_group, 1);
}

CHILD_CODE static void keeper_enter(const struct keeper *k)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != k->parent || null < 0 || setpgid(0, 0) < 0)
        keeper_die();
    prctl(PR_SET_NAME, "abx-scope", 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, k->ruleset_fd, 0) < 0 &&
        (errno != EPERM || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
         syscall(SYS_landlock_restrict_self, k->ruleset_fd, 0) < 0))
        keeper_die();
    int high = fcntl(k->socket_fd, F_DUPFD_CLOEXEC, KEEPER_FD + 1);
    if (high < 0)
        keeper_die();
    for (int fd = 0; fd < KEEPER_FD; fd++)
        if (dup2(null, fd) < 0)
            keeper_die();
    if (dup3(high, KEEPER_FD, O_CLOEXEC) < 0 || close_range(KEEPER_FD + 1, ~0u, 0) < 0)
        keeper_die();
}

CHILD_CODE static void move_pointers(char *base, char **items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i] = base + (size_t)items[i];
}

CHILD_CODE static int slot_fd(const struct request *r, const int *fds, int slot)
{
    return r->slots[slot] < 0 ? -1 : fds[r->slots[slot]];
}

CHILD_CODE static void make_ready(struct request *r, const int *fds)
{
    char *base = (char *)r;
    struct abx_proc_spec *spec = &r->spec;
    r->paths = (char **)(void *)(base + (size_t)r->paths);
    move_pointers(base, r->paths, r->path_count);
    spec->argv = (char **)(void *)(base + (size_t)spec->argv);
    move_pointers(base, (char **)(uintptr_t)spec->argv, r->argc);
    spec->envp = (char **)(void *)(base + (size_t)spec->envp);
    move_pointers(base, (char **)(uintptr_t)spec->envp, r->envc);
    if (spec->cwd != NULL)
        spec->cwd = base + (size_t)spec->cwd;
    if (spec->groups != NULL)
        spec->groups = (const gid_t *)(void *)(base + (size_t)spec->groups);
    for (int i = 0; i < 3; i++)
        spec->stdio[i] = slot_fd(r, fds, FD_STDIN + i);
    spec->exec_fd = slot_fd(r, fds, FD_EXEC);
    spec->tty_fd = slot_fd(r, fds, FD_TTY);
    r->confine.ruleset_fd = slot_fd(r, fds, FD_RULES);
    r->confine.mounts_fd = slot_fd(r, fds, FD_MOUNTS);
    r->confine.group.count_fd = slot_fd(r, fds, FD_COUNT);
    r->confine.group.memory_fd = slot_fd(r, fds, FD_MEMORY);
    r->start.error_fd = slot_fd(r, fds, FD_ERROR);
    r->start.gate_fd = slot_fd(r, fds, FD_GATE);
    r->start.spec = spec;
    r->start.paths = r->paths;
    r->start.confine = &r->confine;
}

CHILD_CODE static int start_one(const struct keeper *k, const int *fds, int count, size_t bytes)
{
    /* The first descriptor is the request itself. */
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (map == MAP_FAILED)
        return -errno;
    struct request *r = map;
    int result = -EMFILE; /* fewer than were sent: there is no room for them */
    if (r->fd_count == count - 1) {
        make_ready(r, fds + 1);
        int pid = clone(abx__proc_child, k->stack, CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD,
                        &r->start, &r->pid);
        result = pid < 0 ? -errno : 0;
    }
    munmap(map, bytes);
    return result;
}

/* One request; the number of descriptors that came with it, or -1 at the end. */
CHILD_CODE static int receive(size_t *ret_bytes, int *fds)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * (FDS_MAX + 1))];
    } control;
    struct iovec part = {ret_bytes, sizeof(*ret_bytes)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    long n;
    do
        n = syscall(SYS_recvmsg, KEEPER_FD, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != (long)sizeof(*ret_bytes) || m.msg_controllen < sizeof(control.head))
        return -1;
    int count = (int)((control.head.cmsg_len - CMSG_LEN(0)) / sizeof(int));
    const int *came = (const int *)(const void *)(control.bytes + CMSG_LEN(0));
    for (int i = 0; i < count; i++)
        fds[i] = came[i];
    return count;
}

CHILD_CODE static int keeper_main(void *arg)
{
    struct keeper k = *(const struct keeper *)arg;
    int fds[FDS_MAX + 1];
    size_t bytes;
    keeper_enter(&k);
    for (;;) {
        int count = receive(&bytes, fds);
        if (count < 1)
            keeper_die();
        int32_t result = start_one(&k, fds, count, bytes);
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (write(KEEPER_FD, &result, sizeof(result)) != (ssize_t)sizeof(result))
            keeper_die();
    }
}

/* ---- our side ---- */

struct abx_confine_scope *abx_confine_scope_new(struct abx_confine_group *group)
{
    struct abx_confine_scope *s = calloc(1, sizeof(*s));
    if (s != NULL)
        *s = (struct abx_confine_scope){
            .refs = 1, .group = abx_confine_group_ref(group), .pidfd = -1, .socket_fd = -1};
    return s;
}

static void end_keeper(struct abx_confine_scope *s)
{
    if (s->pid == 0)
        return;
    (void)pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0);
    abx_proc_wait(s->pid, NULL);
    abx_fd_close(&s->pidfd);
    abx_fd_close(&s->socket_fd);
    s->pid = 0;
    abx_list_remove(&s->node);
    kept_count--;
}

void abx__scope_count(struct abx_confine_scope *s, bool is_started)
{
    if (s != NULL && is_started)
        s->running++;
    else if (s != NULL)
        s->running--;
}

/* With another keeper, in another domain, it could not signal those. */
static bool is_idle(const struct abx_confine_scope *s)
{
    return s->running == 0 && (s->group == NULL || abx__confine_group_is_idle(s->group));
}

int abx__scope_reserve(struct abx_confine_scope *s)
{
    struct abx_confine_scope *other;
    if (s->pid != 0 || kept_count < ABX_CONFINE_GROUPS_MAX)
        return 0;
    abx_list_foreach(other, &kept, struct abx_confine_scope, node)
    {
        if (is_idle(other)) {
            end_keeper(other);
            return 0;
        }
    }
    return -EUSERS;
}

struct abx_confine_scope *abx_confine_scope_ref(struct abx_confine_scope *s)
{
    if (s != NULL)
        s->refs++;
    return s;
}

void abx_confine_scope_unref(struct abx_confine_scope *s)
{
    if (s == NULL || --s->refs > 0)
        return;
    end_keeper(s);
    abx_confine_group_unref(s->group);
    free(s);
}

unsigned abx_confine_scope_refs(const struct abx_confine_scope *s)
{
    return s->refs;
}

static int start_keeper(struct abx_confine_scope *s)
{
    int ends[2];
    ABX_AUTO_FD rules = abx__confine_scope_rules();
    if (rules < 0)
        return rules;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    ABX_AUTO_FD ours = ends[0];
    ABX_AUTO_FD theirs = ends[1];
    char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED)
        return -errno;
    struct keeper k = {theirs, rules, getpid(), stacks + STACK_BYTES};
    sigset_t old;
    /* It keeps them blocked: whoever it keeps may send it anything. */
    abx__proc_block_signals(&old);
    pid_t pid = clone(keeper_main, stacks + 2 * STACK_BYTES, SIGCHLD | CLONE_PIDFD, &k, &s->pidfd);
    int saved = errno;
    abx__proc_restore_signals(&old);
    munmap(stacks, 2 * STACK_BYTES);
    if (pid < 0)
        return -saved;
    s->pid = pid;
    s->socket_fd = abx_fd_take(&ours);
    abx_list_push(&kept, &s->node);
    kept_count++;
    return 0;
}

/* ---- a request ---- */

struct writer {
    struct abx_buf out;
    int fds[FDS_MAX + 1]; /* the first is the request */
    size_t fd_count;
};

static void align(struct abx_buf *out)
{
    while (out->len % sizeof(void *) != 0)
        abx_buf_put_byte(out, '\0');
}

/* The text; where it lies, as a pointer from the first byte. */
static char *put_text(struct writer *w, const char *text)
{
    size_t at = w->out.len;
    abx_buf_put(&w->out, text, strlen(text) + 1);
    return (char *)(uintptr_t)at;
}

/* A list that NULL ends, behind its texts. */
static char **put_list(struct writer *w, char *const *items, size_t *ret_count)
{
    size_t n = 0;
    while (items != NULL && items[n] != NULL)
        n++;
    *ret_count = n;
    char **moved = calloc(n + 1, sizeof(*moved));
    if (moved == NULL) {
        w->out.failed = true;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        moved[i] = put_text(w, items[i]);
    align(&w->out);
    size_t at = w->out.len;
    abx_buf_put(&w->out, moved, (n + 1) * sizeof(*moved));
    free(moved);
    return (char **)(uintptr_t)at;
}

static void put_fd(struct writer *w, struct request *r, int slot, int fd)
{
    /* Of everything but the standard streams 0 means none, as -1 does. */
    bool is_there = fd > 0 || (fd == 0 && slot >= FD_STDIN && slot < FD_EXEC);
    r->slots[slot] = is_there ? (int32_t)w->fd_count - 1 : -1;
    if (is_there)
        w->fds[w->fd_count++] = fd;
}

static void put_fds(struct writer *w, struct request *r, const struct abx__proc_start *start)
{
    const struct abx_proc_spec *spec = start->spec;
    w->fd_count = 1;
    put_fd(w, r, FD_ERROR, start->error_fd);
    put_fd(w, r, FD_GATE, start->gate_fd);
    for (int i = 0; i < 3; i++)
        put_fd(w, r, FD_STDIN + i, spec->stdio[i]);
    put_fd(w, r, FD_EXEC, spec->exec_fd);
    put_fd(w, r, FD_TTY, spec->tty_fd);
    put_fd(w, r, FD_RULES, start->confine->ruleset_fd);
    put_fd(w, r, FD_MOUNTS, start->confine->mounts_fd);
    put_fd(w, r, FD_COUNT, start->confine->group.count_fd);
    put_fd(w, r, FD_MEMORY, start->confine->group.memory_fd);
    r->fd_count = (int32_t)w->fd_count - 1;
}

static int put_request(struct writer *w, const struct abx__proc_start *start)
{
    struct request r = {.start = *start, .spec = *start->spec, .confine = *start->confine};
    abx_buf_init(&w->out, REQUEST_BYTES);
    abx_buf_put(&w->out, &r, sizeof(r));
    r.paths = put_list(w, start->paths, &r.path_count);
    r.spec.argv = put_list(w, start->spec->argv, &r.argc);
    r.spec.envp = put_list(w, start->spec->envp, &r.envc);
    r.spec.cwd = start->spec->cwd ? put_text(w, start->spec->cwd) : NULL;
    r.spec.path = r.spec.search_path = NULL;
    r.spec.confine = NULL;
    align(&w->out);
    r.spec.groups = start->spec->group_count ? (const gid_t *)(uintptr_t)w->out.len : NULL;
    if (start->spec->group_count)
        abx_buf_put(&w->out, start->spec->groups, start->spec->group_count * sizeof(gid_t));
    put_fds(w, &r, start);
    if (w->out.failed)
        return -E2BIG;
    memcpy(w->out.ptr, &r, sizeof(r));
    return 0;
}

static int send_request(int socket_fd, const struct writer *w)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * (FDS_MAX + 1))];
    } control = {.bytes = {0}};
    size_t bytes = w->out.len, size = w->fd_count * sizeof(int);
    struct iovec part = {&bytes, sizeof(bytes)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_SPACE(size)};
    control.head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
    memcpy(control.bytes + CMSG_LEN(0), w->fds, size);
    if (sendmsg(socket_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return 0;
    return errno == ENOMEM || errno == ENOBUFS || errno == ETOOMANYREFS ? -errno : -EPIPE;
}

static int await_answer(const struct abx_confine_scope *s)
{
    int32_t result;
    int stops = 0;
    for (int round = 0; round < ROUNDS_MAX && stops < STOPS_MAX; round++) {
        struct pollfd p = {.fd = s->socket_fd, .events = POLLIN};
        siginfo_t info = {0};
        if (poll(&p, 1, ROUND_MS) > 0)
            return recv(s->socket_fd, &result, sizeof(result), MSG_DONTWAIT) ==
                           (ssize_t)sizeof(result)
                       ? result
                       : -EPIPE;
        if (waitid(P_PIDFD, (id_t)s->pidfd, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid == 0)
            continue;
        stops++;
        (void)pidfd_send_signal(s->pidfd, SIGCONT, NULL, 0);
    }
    return -EPIPE;
}

/* What a keeper left behind that died before it answered. It stands at its gate. */
static void drop_child(int fd)
{
    int32_t pid = 0;
    if (pread(fd, &pid, sizeof(pid), offsetof(struct request, pid)) != (ssize_t)sizeof(pid) ||
        pid <= 0)
        return;
    kill(pid, SIGKILL); /* a child of ours that nobody has reaped: the number is its own */
    abx_proc_wait(pid, NULL);
}

static pid_t ask(struct abx_confine_scope *s, struct writer *w)
{
    int32_t pid = 0;
    ABX_AUTO_FD fd = memfd_create("abx-start", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = abx_fd_write_all(fd, w->out.ptr, w->out.len);
    w->fds[0] = fd;
    if (r == 0 && s->pid == 0) {
        r = abx__scope_reserve(s);
        if (r == 0)
            r = start_keeper(s);
    }
    if (r < 0)
        return r;
    abx_list_remove(&s->node); /* used just now */
    abx_list_push(&kept, &s->node);
    r = send_request(s->socket_fd, w);
    if (r == 0)
        r = await_answer(s);
    if (r == 0 &&
        (pread(fd, &pid, sizeof(pid), offsetof(struct request, pid)) != (ssize_t)sizeof(pid) ||
         pid <= 0))
        r = -EPIPE;
    if (r == 0)
        return pid;
    if (r == -EPIPE) { /* the keeper is gone, or may as well be */
        end_keeper(s);
        drop_child(fd);
    }
    return r;
}

pid_t abx__scope_clone(struct abx_confine_scope *s, const struct abx__proc_start *start,
                       int *ret_pidfd)
{
    struct writer w = {.fd_count = 0};
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) < 0)
        return -errno;
    ABX_AUTO_FD read_end = gate[0];
    ABX_AUTO_FD write_end = gate[1];
    struct abx__proc_start gated = *start;
    gated.gate_fd = read_end;
    pid_t pid = put_request(&w, &gated);
    for (int i = 0; pid == 0 && i < TRIES; i++) {
        pid = ask(s, &w);
        if (pid == -EPIPE && i + 1 < TRIES)
            pid = 0;
    }
    abx_buf_done(&w.out);
    if (pid <= 0)
        return pid == 0 ? -EPIPE : pid;
    *ret_pidfd = pidfd_open(pid, 0);
    int saved = errno;
    if (*ret_pidfd >= 0 && abx_fd_write_all(write_end, "", 1) == 0)
        return pid;
    abx_fd_close(ret_pidfd);
    kill(pid, SIGKILL);
    abx_proc_wait(pid, NULL);
    return -saved;
}
