/* host/runtime/shim/main.c: abx-shim, the parent of one sandbox's PID 1 (security S65).
 *
 * Started by the runtime side with a control socket as descriptor 0. Makes the sandbox, then keeps
 * the pidfd and the exit status and serves shim.sock, until it is told to go or the sandbox's
 * folder is removed. Own session; needs nobody: the engine may die and another may come. */
#include "host/runtime/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHECK_FOLDER_MS = 1000, CAP_KILL_BIT = 1 << 5, STILL = 1 };

static struct shim_start start; /* static: no heap in this program */
static struct {
    struct abx_shim_reply status;
    int pidfd, log_read;
    uint32_t log_bytes;
    int clients[ABX_SHIM_CLIENTS]; /* 0: the creator; -1: free */
    bool gone;
} shim = {.pidfd = -1, .log_read = -1, .clients = {0, -1, -1, -1}};

/* One message into two parts, with up to ABX_SHIM_FD_MAX descriptors. Its length, 0 at EOF. */
static int receive(int sock, const struct iovec parts[2], int *fds, size_t *ret_fd_count)
{
    union {
        char bytes[CMSG_SPACE(ABX_SHIM_FD_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov[2] = {parts[0], parts[1]};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = 2,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    size_t got =
        c != NULL && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || got > ABX_SHIM_FD_MAX)
        return -EINVAL;
    if (got > 0)
        memcpy(fds, CMSG_DATA(c), got * sizeof(int));
    *ret_fd_count = got;
    return (int)n;
}

static int send_parts(int sock, const struct iovec parts[2], const int *fds, size_t fd_count)
{
    union {
        char bytes[CMSG_SPACE(ABX_SHIM_FD_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov[2] = {parts[0], parts[1]};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = 2,
                         .msg_control = control.bytes,
                         .msg_controllen = (socklen_t)CMSG_SPACE(fd_count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = (socklen_t)CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int receive_prepare(void)
{
    struct iovec parts[] = {{&start.prepare, sizeof(start.prepare)},
                            {start.prepare_ops, sizeof(start.prepare_ops)}};
    size_t fd_count = 0;
    int fds[ABX_SHIM_FD_MAX];
    int n = receive(0, parts, fds, &fd_count);
    uint32_t lowers = start.prepare.lower_count;
    if (n < (int)sizeof(start.prepare) || start.prepare.magic != ABX_SHIM_MAGIC ||
        start.prepare.op_bytes != (size_t)n - sizeof(start.prepare) ||
        lowers > ABX_SHIM_LOWERS_MAX || fd_count != (lowers > 0 ? SHIM_TREE_LOWER0 + lowers : 0))
        return -EINVAL;
    start.lower_count = lowers;
    start.is_rooted = lowers > 0;
    start.has_extra = start.prepare.flags & ABX_SHIM_HAS_EXTRA;
    memcpy(start.fds + ABX_SHIM_FD_FS, fds, fd_count * sizeof(int));
    return 0;
}

/* The layers that the second message must name: none where the root was made by the first. */
static bool are_layers_right(void)
{
    uint32_t n = start.head.lower_count;
    return start.is_rooted ? n == 0 : n > 0 && n <= ABX_SHIM_LOWERS_MAX;
}

/* 1, or 0 when the engine has gone. @fixed: descriptors besides one for each lower layer. */
static int receive_request(int sock, int *fds, size_t fixed)
{
    struct iovec parts[] = {{&start.head, sizeof(start.head)}, {start.ops, sizeof(start.ops)}};
    size_t fd_count = 0;
    int n = receive(sock, parts, fds, &fd_count);
    if (n <= 0)
        return n;
    if (n < (int)sizeof(start.head) || start.head.magic != ABX_SHIM_MAGIC ||
        start.head.op_bytes != (size_t)n - sizeof(start.head) || !are_layers_right() ||
        fd_count != fixed + start.head.lower_count)
        return -EINVAL;
    if (!start.is_rooted) {
        start.lower_count = start.head.lower_count;
        start.has_extra = start.head.flags & ABX_SHIM_HAS_EXTRA;
    }
    return 1;
}

static void send_status(int sock)
{
    (void)send(sock, &shim.status, sizeof(shim.status), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int set_limits(struct shim_failure *f)
{
    struct shim_records records = shim_records(&start);
    struct shim_op op;
    size_t pos = 0;
    while (shim_op_next(&records, &pos, &op) > 0) {
        int r = op.kind == ABX_SHIM_LIMIT ? sys_write_file(op.a, op.b) : 0;
        if (r < 0 && !(op.flags & ABX_SHIM_OPTIONAL))
            return shim_fail(f, r, "limit", op.a);
    }
    return 0;
}

/* Writes the maps of ids of PID 1. */
static int map_ids(pid_t pid, struct shim_failure *f)
{
    struct shim_records records = shim_stage_records(&start);
    struct shim_op op;
    size_t pos = 0;
    int more;
    char path[64];
    while ((more = shim_op_next(&records, &pos, &op)) > 0) {
        int r = 0;
        if (op.kind == ABX_SHIM_MAP_UID || op.kind == ABX_SHIM_MAP_GID) {
            sys_proc_path(path, pid, op.kind == ABX_SHIM_MAP_UID ? "uid_map" : "gid_map");
            r = sys_write_file(path, op.a);
        }
        if (r < 0)
            return shim_fail(f, r, "map ids", op.a);
    }
    return more < 0 ? shim_fail(f, more, "operations", "") : 0;
}

/* PID 1 makes its stage and waits for the second message, which comes with the trees and the
 * socket. */
static _Noreturn void child_main(int sync)
{
    static const char staged = SHIM_SYNC_STAGED;
    struct shim_failure f = {0};
    int fds[ABX_SHIM_FD_MAX] = {0};
    start.sync_fd = sync;
    /* A shim that dies leaves nothing. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int r = shim_cgroups_enter(&start, &f);
    if (r == 0 && shim_await(sync, SHIM_SYNC_MAPPED) < 0)
        _exit(1);
    if (r == 0 && shim_stage(&start, &f) == 0) {
        size_t fixed = 1 + (start.is_rooted ? 0 : SHIM_TREE_LOWER0);
        if (write(sync, &staged, 1) != 1 || receive_request(sync, fds, fixed) != 1)
            _exit(1);
        start.fds[ABX_SHIM_FD_GATEWAY] = fds[0];
        if (!start.is_rooted)
            memcpy(start.tree_fds, fds + 1, shim_tree_count(&start) * sizeof(int));
        (void)shim_child(&start, &f);
    }
    (void)write(sync, &f, sizeof(f));
    _exit(1);
}

static void close_trees(void)
{
    for (int i = ABX_SHIM_FD_FS; i < ABX_SHIM_FD_MAX; i++) {
        if (start.fds[i] > 0)
            close(start.fds[i]);
        start.fds[i] = 0;
    }
    for (int i = 0; i < SHIM_TREES_MAX; i++) {
        if (start.tree_fds[i] > 0)
            close(start.tree_fds[i]);
        start.tree_fds[i] = 0;
    }
}

/* Makes PID 1 in its namespaces, with its ids mapped. *ret_sync: the line to it. */
static int make(int *ret_sync, struct shim_failure *f)
{
    int sync[2], log[2], r = shim_idmap(&start);
    if (r < 0)
        return shim_fail(f, r, "idmap", "");
    r = start.is_rooted ? shim_trees(&start) : 0;
    if (r < 0)
        return shim_fail(f, r, "idmapped layers", "");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0 ||
        pipe2(log, O_CLOEXEC) < 0)
        return shim_fail(f, -errno, "socketpair", "");
    start.log_fd = log[1];
    r = shim_cgroups_open(&start, f);
    if (r < 0)
        return r;
    int pid = shim_clone(&start, &shim.pidfd);
    if (pid < 0)
        return shim_fail(f, pid, "clone3 into new namespaces", "");
    if (pid == 0) {
        close(sync[0]);
        child_main(sync[1]);
    }
    close(sync[1]);
    close(log[1]);
    close_trees(); /* PID 1 has them */
    shim_cgroups_close(&start);
    shim.log_read = log[0];
    shim.status.init_pid = pid;
    *ret_sync = sync[0];
    char path[64];
    r = map_ids(pid, f);
    sys_proc_path(path, pid, "oom_score_adj");
    (void)sys_write_file(path, "100"); /* rather the sandbox than the engine */
    return r;
}

/* Only what KILL needs stays, and nothing of it can be read or traced. */
static int settle(void)
{
    signal(SIGHUP, SIG_IGN);
    close_trees();
    close(start.fds[ABX_SHIM_FD_GATEWAY]);
    if (start.idmap_fd >= 0)
        close(start.idmap_fd);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    return sys_set_caps(CAP_KILL_BIT);
}

/* What PID 1 failed at, or that it is gone. */
static int child_failed(int sync, struct shim_failure *f)
{
    ssize_t n = read(sync, f, sizeof(*f));
    return n == (ssize_t)sizeof(*f) ? -f->error : shim_fail(f, -EIO, "wait for PID 1", "");
}

/* Lets PID 1 make its stage. 0 when it is staged. */
static int stage(int sync, struct shim_failure *f)
{
    static const char mapped = SHIM_SYNC_MAPPED;
    char got;
    if (write(sync, &mapped, 1) != 1 && errno != EPIPE)
        return shim_fail(f, -errno, "stage PID 1", "");
    if (recv(sync, &got, 1, MSG_PEEK | MSG_TRUNC) == 1 && shim_await(sync, SHIM_SYNC_STAGED) == 0)
        return 0;
    return child_failed(sync, f);
}

/* Hands PID 1 the second message. 1, or 0 when the engine has gone. */
static int hand_over(int sync, struct shim_failure *f)
{
    int r = receive_request(0, start.fds, ABX_SHIM_FD_LOWER0);
    if (r <= 0)
        return r < 0 ? shim_fail(f, r, "request", "") : 0;
    if (listen(start.fds[ABX_SHIM_FD_LISTEN], ABX_SHIM_CLIENTS) < 0)
        return shim_fail(f, -errno, "listen", "");
    r = start.is_rooted ? 0 : shim_trees(&start);
    if (r < 0)
        return shim_fail(f, r, "idmapped layers", "");
    size_t trees = start.is_rooted ? 0 : shim_tree_count(&start);
    int fds[1 + SHIM_TREES_MAX] = {start.fds[ABX_SHIM_FD_GATEWAY]};
    memcpy(fds + 1, start.tree_fds, trees * sizeof(int));
    struct iovec parts[] = {{&start.head, sizeof(start.head)}, {start.ops, start.head.op_bytes}};
    r = send_parts(sync, parts, fds, 1 + trees);
    return r < 0 ? shim_fail(f, r, "start PID 1", "") : 1;
}

/* Lets PID 1 run; it makes its root while its limits are set. 1: it has exec'd, 0: nobody wants
 * it. */
static int launch(int sync, struct shim_failure *f)
{
    static const char go = SHIM_SYNC_GO;
    int r = stage(sync, f);
    if (r < 0)
        return r;
    r = hand_over(sync, f);
    if (r <= 0)
        return r;
    r = set_limits(f);
    if (r == 0)
        r = settle();
    if (r < 0)
        return f->error != 0 ? r : shim_fail(f, r, "drop rights", "");
    if (write(sync, &go, 1) != 1 && errno != EPIPE)
        return shim_fail(f, -errno, "run PID 1", "");
    char end;
    ssize_t n = recv(sync, &end, 1, MSG_PEEK);
    r = n == 0 ? 1 : child_failed(sync, f); /* 0 also when it was killed: its status tells then */
    close(sync);
    return r;
}

static void reap(void)
{
    int w;
    pid_t pid;
    while ((pid = waitpid(-1, &w, WNOHANG)) > 0) {
        if (pid != shim.status.init_pid)
            continue;
        shim.status.state = ABX_SHIM_EXITED;
        shim.status.exit_code = WIFEXITED(w) ? WEXITSTATUS(w) : 0;
        shim.status.signum = WIFSIGNALED(w) ? WTERMSIG(w) : 0;
        shim.status.core_dumped = WIFSIGNALED(w) && WCOREDUMP(w);
        close(shim.pidfd);
        shim.pidfd = -1;
        for (int i = 0; i < ABX_SHIM_CLIENTS; i++)
            if (shim.clients[i] >= 0)
                send_status(shim.clients[i]);
    }
}

/* The first megabyte of what PID 1 and its daemons print is kept; the rest is drained. */
static void drain_log(void)
{
    char text[4096];
    ssize_t n = read(shim.log_read, text, sizeof(text));
    if (n <= 0) {
        close(shim.log_read);
        shim.log_read = -1;
        return;
    }
    if (shim.log_bytes + (uint32_t)n > ABX_SHIM_LOG_MAX)
        return;
    ssize_t w = write(start.fds[ABX_SHIM_FD_LOG], text, (size_t)n);
    shim.log_bytes += w > 0 ? (uint32_t)w : 0;
}

static bool knows_nonce(const unsigned char nonce[ABX_SHIM_NONCE])
{
    unsigned diff = 0;
    for (int i = 0; i < ABX_SHIM_NONCE; i++)
        diff |= (unsigned)(nonce[i] ^ start.head.nonce[i]);
    return diff == 0;
}

static void client_message(int i)
{
    struct abx_shim_command cmd;
    ssize_t n = recv(shim.clients[i], &cmd, sizeof(cmd), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof(cmd) || cmd.magic != ABX_SHIM_MAGIC || !knows_nonce(cmd.nonce)) {
        close(shim.clients[i]);
        shim.clients[i] = -1;
        return;
    }
    if (cmd.verb == ABX_SHIM_KILL && shim.pidfd >= 0)
        (void)sys_pidfd_signal(shim.pidfd, SIGKILL);
    if (cmd.verb == ABX_SHIM_TERM && shim.pidfd >= 0)
        (void)sys_pidfd_signal(shim.pidfd, SIGTERM);
    if (cmd.verb == ABX_SHIM_GO && shim.status.state == ABX_SHIM_EXITED)
        shim.gone = true;
    send_status(shim.clients[i]);
}

static void accept_client(void)
{
    int s = accept4(start.fds[ABX_SHIM_FD_LISTEN], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0)
        return;
    struct {
        pid_t pid;
        uid_t uid;
        gid_t gid;
    } peer;
    socklen_t len = sizeof(peer);
    bool ok = getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
              (peer.uid == 0 || peer.uid == start.head.peer_uid);
    for (int i = 0; ok && i < ABX_SHIM_CLIENTS; i++) {
        if (shim.clients[i] < 0) {
            shim.clients[i] = s;
            return;
        }
    }
    close(s);
}

static void serve_once(void)
{
    enum { LISTEN, INIT, LOG, FIRST_CLIENT };
    struct pollfd p[FIRST_CLIENT + ABX_SHIM_CLIENTS] = {
        [LISTEN] = {start.fds[ABX_SHIM_FD_LISTEN], POLLIN, 0},
        [INIT] = {shim.pidfd, POLLIN, 0},
        [LOG] = {shim.log_read, POLLIN, 0}};
    for (int i = 0; i < ABX_SHIM_CLIENTS; i++)
        p[FIRST_CLIENT + i] = (struct pollfd){shim.clients[i], POLLIN, 0};
    bool ended = shim.status.state == ABX_SHIM_EXITED;
    int n = poll(p, FIRST_CLIENT + ABX_SHIM_CLIENTS, ended ? CHECK_FOLDER_MS : -1);
    struct stat st;
    if (n == 0 && fstat(start.fds[ABX_SHIM_FD_FOLDER], &st) == 0 && st.st_nlink == 0)
        shim.gone = true;
    if (n <= 0)
        return;
    if (p[LOG].revents)
        drain_log();
    if (p[INIT].revents)
        reap();
    if (p[LISTEN].revents)
        accept_client();
    for (int i = 0; i < ABX_SHIM_CLIENTS; i++)
        if (p[FIRST_CLIENT + i].revents && shim.clients[i] >= 0)
            client_message(i);
}

static void end_child(void)
{
    if (shim.pidfd < 0)
        return;
    (void)sys_pidfd_signal(shim.pidfd, SIGKILL);
    (void)waitpid(shim.status.init_pid, NULL, 0);
}

int main(void)
{
    struct shim_failure f = {0};
    int sync = -1;
    shim.status = (struct abx_shim_reply){.magic = ABX_SHIM_MAGIC, .shim_pid = getpid()};
    (void)setsid();
    (void)umask(077);
    signal(SIGPIPE, SIG_IGN);
    int r = receive_prepare();
    if (r < 0)
        (void)shim_fail(&f, r, "request", "");
    if (r == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        r = shim_fail(&f, -errno, "subreaper", "");
    if (r == 0)
        r = make(&sync, &f);
    if (r == 0)
        r = launch(sync, &f);
    if (r == 0) {
        end_child();
        return 0;
    }
    if (r < 0) {
        end_child();
        shim.status.state = ABX_SHIM_FAILED;
        shim.status.error = f.error;
        memcpy(shim.status.step, f.step, sizeof(f.step));
        send_status(0);
        return 1;
    }
    shim.status.state = ABX_SHIM_RUNNING;
    send_status(0);
    while (!shim.gone)
        serve_once();
    return 0;
}
