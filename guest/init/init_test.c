/* guest/init/init_test.c: PID 1 over real processes: reaping, restarts, signals, provisioning. */
#include "guest/init/init_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 60000, ORPHANS = 1000, REPORT_MAX = 200 };

/* The services under test talk to the test through one datagram socket, named by the options. */
struct probe {
    int ours, theirs;
    pid_t init;
    struct abx_init_options options;
    uint32_t namespaces;
};

__attribute__((format(printf, 2, 3))) static void report(int sock, const char *fmt, ...)
{
    char text[REPORT_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (send(sock, text, (size_t)n, 0) < 0)
        _exit(99);
}

/* The next report; fails the test when none comes. */
static void expect_report(struct probe *p, char ret[REPORT_MAX])
{
    struct pollfd fd = {p->ours, POLLIN, 0};
    assert_int_equal(poll(&fd, 1, GUARD_MS), 1);
    ssize_t n = recv(p->ours, ret, REPORT_MAX - 1, 0);
    assert_true(n > 0);
    ret[n] = '\0';
}

static int run_init(void *arg)
{
    struct probe *p = arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
    /* /proc of this PID namespace, so that services can look around */
    if (p->namespaces & CLONE_NEWNS) {
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
        mount("proc", "/proc", "proc", 0, NULL);
    }
    return abx_init_run(&p->options);
}

static void probe_start(struct probe *p, const struct abx_init_service *services, size_t count)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    p->ours = pair[0];
    p->theirs = pair[1];
    p->options.services = services;
    p->options.service_count = count;
    p->options.engine_fd = pair[1]; /* any descriptor that services get: here the report socket */
    p->options.tcp_fd = -1;
    p->options.arg = p;
    const int keep[] = {pair[1]};
    struct abx_proc_role role = {.name = "init",
                                 .fn = run_init,
                                 .arg = p,
                                 .keep_fds = keep,
                                 .keep_count = 1,
                                 .namespaces = p->namespaces};
    p->init = abx_proc_clone_role(&role, NULL);
    assert_true(p->init > 0);
    abx_fd_close(&p->theirs);
}

static void probe_stop(struct probe *p, int signum)
{
    struct abx_proc_status st;
    kill(p->init, signum);
    assert_int_equal(abx_proc_wait(p->init, &st), 0);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, 143);
    abx_fd_close(&p->ours);
}

/* Waits for any signal but CONT, which comes with each stop; the number. */
static int wait_signal(void)
{
    sigset_t all;
    int got = 0;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    while (sigwait(&all, &got) != 0 || got == SIGCONT)
        ;
    return got;
}

static int wait_forever(void)
{
    while (poll(NULL, 0, -1) <= 0)
        ;
    return 0;
}

/* These two leave by _exit: 1,500 leak checks would be most of the test's time. */
static int leaf(void *arg)
{
    (void)arg;
    _exit(0);
}

/* Forks a child that forks and leaves: the grandchild is an orphan of PID 1. */
static int middle(void *arg)
{
    int kept_fd = *(int *)arg;
    bool ok = abx_proc_fork_role("leaf", leaf, NULL, NULL, 0, NULL) > 0 &&
              abx_proc_fork_role("leaf2", leaf, NULL, &kept_fd, 1, NULL) > 0;
    _exit(ok ? 0 : 1);
}

/* Zombies whose parent is our own: PID 1. */
static int count_zombies(void)
{
    int zombies = 0;
    for (int pid = 1; pid < 32768; pid++) {
        char name[64], *text = NULL;
        snprintf(name, sizeof(name), "/proc/%d/stat", pid);
        if (abx_fd_read_file(AT_FDCWD, name, 4096, &text, NULL) < 0)
            continue;
        const char *end = strrchr(text, ')');
        int parent = 0;
        char process_state = 0;
        if (end != NULL && sscanf(end, ") %c %d", &process_state, &parent) == 2)
            zombies += process_state == 'Z' && parent == getppid();
        free(text);
    }
    return zombies;
}

static int service_orphans(const struct abx_init_context *c)
{
    int bad = 0, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < ORPHANS / 2; i++) {
        struct abx_proc_status st;
        pid_t pid = abx_proc_fork_role("middle", middle, &null, &null, 1, NULL);
        if (pid < 0 || abx_proc_wait(pid, &st) < 0 || !st.exited || st.exit_code != 0)
            bad++; /* its own child's status must not be stolen */
    }
    int zombies = count_zombies();
    for (int i = 0; i < 200 && zombies > 0; i++) {
        usleep(10000);
        zombies = count_zombies();
    }
    report(c->engine_fd, "bad=%d zombies=%d", bad, zombies);
    return wait_signal() == SIGTERM ? 0 : 1;
}

TEST(a_thousand_orphans_leave_no_zombie)
{
    static const struct abx_init_service services[] = {
        {.name = "orphans", .run = service_orphans, .needs = ABX_INIT_LISTENERS}};
    /* as PID 1 where that is allowed, else as a subreaper */
    struct probe p = {.namespaces = geteuid() == 0 ? CLONE_NEWPID | CLONE_NEWNS : 0};
    char text[REPORT_MAX];
    probe_start(&p, services, 1);
    expect_report(&p, text);
    assert_string_equal(text, "bad=0 zombies=0");
    probe_stop(&p, SIGTERM);
}

TEST(backoff_doubles_and_is_forgotten)
{
    static const uint32_t want[] = {100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000};
    uint32_t backoff = 0;
    for (size_t i = 0; i < ABX_COUNTOF(want); i++)
        assert_int_equal(abx__service_delay(&backoff, 10), want[i]);
    for (int i = 0; i < 100000; i++) /* without limit: there is always a next time */
        assert_int_equal(abx__service_delay(&backoff, 29999), 10000);
    assert_int_equal(abx__service_delay(&backoff, 30000), 100);
    assert_int_equal(abx__service_delay(&backoff, 10), 200);
}

static int service_crash(const struct abx_init_context *c)
{
    uint32_t restarts = atomic_load(&c->page->services[0].restarts);
    report(c->engine_fd, "%u %lld", restarts, (long long)abx_time_mono_ms());
    if (restarts < 3)
        raise(SIGKILL);
    return wait_signal() == SIGTERM ? 0 : 1;
}

TEST(a_dead_service_comes_back_later_each_time)
{
    static const struct abx_init_service services[] = {
        {.name = "crash", .run = service_crash, .needs = ABX_INIT_LISTENERS}};
    struct probe p = {0};
    char text[REPORT_MAX];
    long long at[4];
    probe_start(&p, services, 1);
    for (unsigned i = 0; i < 4; i++) {
        unsigned restarts;
        expect_report(&p, text);
        assert_int_equal(sscanf(text, "%u %lld", &restarts, &at[i]), 2);
        assert_int_equal(restarts, i);
    }
    assert_true(at[1] - at[0] >= 100);
    assert_true(at[2] - at[1] >= 200);
    assert_true(at[3] - at[2] >= 400);
    probe_stop(&p, SIGINT);
}

static int service_first(const struct abx_init_context *c)
{
    report(c->engine_fd, "up first");
    int sig;
    while ((sig = wait_signal()) != SIGTERM)
        report(c->engine_fd, "first got %d", sig);
    report(c->engine_fd, "down first");
    return 0;
}

static int service_second(const struct abx_init_context *c)
{
    report(c->engine_fd, "up second");
    wait_signal();
    report(c->engine_fd, "down second");
    return 0;
}

TEST(signals_are_passed_and_stops_go_in_reverse)
{
    static const struct abx_init_service services[] = {
        {.name = "first", .run = service_first, .needs = ABX_INIT_LISTENERS, .gets_signals = true},
        {.name = "second", .run = service_second, .needs = ABX_INIT_LISTENERS}};
    static const int passed[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH};
    struct probe p = {0};
    char text[REPORT_MAX], want[REPORT_MAX];
    probe_start(&p, services, 2);
    expect_report(&p, text);
    expect_report(&p, text);
    usleep(50000); /* both block their signals right after the report */
    for (size_t i = 0; i < ABX_COUNTOF(passed); i++) {
        kill(p.init, passed[i]);
        expect_report(&p, text);
        snprintf(want, sizeof(want), "first got %d", passed[i]);
        assert_string_equal(text, want);
    }
    kill(p.init, SIGQUIT);
    expect_report(&p, text);
    assert_string_equal(text, "down second");
    expect_report(&p, text);
    assert_string_equal(text, "down first");
    probe_stop(&p, SIGTERM);
}

static int service_stubborn(const struct abx_init_context *c)
{
    signal(SIGTERM, SIG_IGN);
    report(c->engine_fd, "up");
    return wait_forever();
}

TEST(a_stubborn_service_is_killed_at_the_limit)
{
    static const struct abx_init_service services[] = {
        {.name = "stubborn", .run = service_stubborn, .needs = ABX_INIT_LISTENERS}};
    struct probe p = {.options = {.stop_ms = 200}};
    char text[REPORT_MAX];
    probe_start(&p, services, 1);
    expect_report(&p, text);
    int64_t before = abx_time_mono_ms();
    probe_stop(&p, SIGTERM);
    assert_true(abx_time_mono_ms() - before >= 200);
}

static const char state_text[] = "{\"token\":\"secret\"}";

static int send_state(int init_fd, int seals, size_t len)
{
    ABX_AUTO_FD memfd = memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char text[ABX_STATE_HASH];
    memset(text, len == 1 ? 0 : 'h', sizeof(text));
    if (write(memfd, state_text, sizeof(state_text)) < 0 || fcntl(memfd, F_ADD_SEALS, seals) < 0)
        return -1;
    return abx_fd_send(init_fd, text, len, &memfd, 1) < 0 ? -1 : 0;
}

/* First life: provisions, then dies. Second: reports what it was given. */
static int service_provisioned(const struct abx_init_context *c)
{
    enum { ALL = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    unsigned char hash[ABX_STATE_HASH] = "";
    if (c->provision_fd < 0) {
        bool refused = send_state(c->init_fd, F_SEAL_WRITE, ABX_STATE_HASH) == 0; /* not sealed */
        bool sent = send_state(c->init_fd, ALL, ABX_STATE_HASH) == 0;
        memset(hash, 'h', sizeof(hash));
        bool kept = abx_state_page_wait(c->page, hash, GUARD_MS);
        hash[0] = 'x';
        bool other = abx_state_page_wait(c->page, hash, 20);
        report(c->engine_fd, "refused=%d sent=%d kept=%d other=%d count=%u", refused, sent, kept,
               other, atomic_load(&c->page->provisions));
        raise(SIGKILL);
    }
    char got[sizeof(state_text)] = "";
    ssize_t n = pread(c->provision_fd, got, sizeof(got), 0);
    bool has = abx_state_page_token(c->page, hash);
    bool writable = pwrite(c->provision_fd, "x", 1, 0) == 1;
    report(c->engine_fd, "%s n=%zd token=%d hash=%c writable=%d", got, n, has, hash[31], writable);
    send_state(c->init_fd, ALL, 1); /* a new state without a token */
    bool kept = abx_state_page_wait(c->page, NULL, GUARD_MS);
    report(c->engine_fd, "kept=%d token=%d", kept, abx_state_page_token(c->page, hash));
    return wait_signal() == SIGTERM ? 0 : 1;
}

TEST(provisioning_survives_a_killed_envd)
{
    static const struct abx_init_service services[] = {
        {.name = "envd",
         .run = service_provisioned,
         .needs = ABX_INIT_LISTENERS | ABX_INIT_PROVISION | ABX_INIT_CHANNEL_IN}};
    struct probe p = {0};
    char text[REPORT_MAX];
    probe_start(&p, services, 1);
    expect_report(&p, text);
    assert_string_equal(text, "refused=1 sent=1 kept=1 other=0 count=1");
    expect_report(&p, text);
    assert_string_equal(text, "{\"token\":\"secret\"} n=19 token=1 hash=h writable=0");
    expect_report(&p, text);
    assert_string_equal(text, "kept=1 token=0");
    probe_stop(&p, SIGTERM);
}

static int service_sender(const struct abx_init_context *c)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return 1;
    abx_fd_send(c->channel_fd, "c", 1, &pair[1], 1);
    close(pair[1]);
    char hello[6] = "";
    abx_fd_read_all(pair[0], hello, 5);
    report(c->engine_fd, "gateway read %s", hello);
    return wait_signal() == SIGTERM ? 0 : 1;
}

/* Dies once before it looks at the channel: the connection must wait for the next one. */
static int service_adopter(const struct abx_init_context *c)
{
    usleep(20000);
    if (atomic_load(&c->page->services[1].restarts) == 0)
        raise(SIGKILL);
    char byte;
    int fd = -1;
    size_t count = 1;
    struct pollfd ready = {c->channel_fd, POLLIN, 0};
    if (poll(&ready, 1, GUARD_MS) != 1 || abx_fd_recv(c->channel_fd, &byte, 1, &fd, &count) != 1)
        return 1;
    if (abx_fd_write_all(fd, "hello", 5) < 0)
        return 1;
    close(fd);
    return wait_signal() == SIGTERM ? 0 : 1;
}

TEST(the_channel_outlives_both_ends)
{
    static const struct abx_init_service services[] = {
        {.name = "gateway",
         .run = service_sender,
         .needs = ABX_INIT_LISTENERS | ABX_INIT_CHANNEL_OUT},
        {.name = "envd", .run = service_adopter, .needs = ABX_INIT_CHANNEL_IN}};
    struct probe p = {0};
    char text[REPORT_MAX];
    probe_start(&p, services, 2);
    expect_report(&p, text);
    assert_string_equal(text, "gateway read hello");
    probe_stop(&p, SIGTERM);
}

static int member(void *arg)
{
    (void)arg;
    return wait_forever();
}

/* A leader that dies with its parent, with one more member in its group. */
static int leader(void *arg)
{
    setpgid(0, 0);
    int *out = arg;
    pid_t pid = abx_proc_fork_role("member", member, NULL, NULL, 0, NULL);
    report(*out, "member %d", (int)pid);
    return wait_forever();
}

static int service_parent(const struct abx_init_context *c)
{
    int sock = c->engine_fd;
    if (atomic_load(&c->page->services[0].restarts) == 0) {
        pid_t pid = abx_proc_fork_role("leader", leader, &sock, &sock, 1, NULL);
        usleep(100000); /* until the leader has its group and member */
        kill(pid, SIGKILL);
        raise(SIGKILL); /* its zombie child falls to PID 1 */
    }
    return wait_signal() == SIGTERM ? 0 : 1;
}

TEST(what_a_dead_envd_left_running_dies)
{
    static const struct abx_init_service services[] = {{.name = "envd",
                                                        .run = service_parent,
                                                        .needs = ABX_INIT_LISTENERS,
                                                        .kills_children = true}};
    struct probe p = {0}; /* no PID namespace: the member's pid is one of ours */
    char text[REPORT_MAX];
    int pid = 0;
    probe_start(&p, services, 1);
    expect_report(&p, text);
    assert_int_equal(sscanf(text, "member %d", &pid), 1);
    int r = 0;
    for (int i = 0; i < GUARD_MS && (r = kill(pid, 0)) == 0; i++)
        usleep(1000);
    assert_int_equal(r, -1);
    probe_stop(&p, SIGTERM);
}

/* prepare and listen */
struct tree {
    char root[32];
    int fd;
};
static void tree_make(struct tree *t)
{
    snprintf(t->root, sizeof(t->root), "/tmp/abx-init-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    t->fd = open(t->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(t->fd, "etc", 0755), 0);
    assert_int_equal(mkdirat(t->fd, "etc/profile.d", 0755), 0);
}
static void tree_write(struct tree *t, const char *name, const char *text)
{
    int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}
static void tree_expect(struct tree *t, const char *name, const char *want)
{
    char *text = NULL;
    assert_int_equal(abx_fd_read_file(t->fd, name, 65536, &text, NULL), 0);
    assert_string_equal(text, want);
    free(text);
}
static void tree_remove(struct tree *t)
{
    close(t->fd);
    abx_fd_remove_tree(AT_FDCWD, t->root);
}

TEST(prepare_makes_the_user_once)
{
    if (geteuid() != 0)
        skip();
    struct tree t;
    struct stat st;
    tree_make(&t);
    tree_write(&t, "etc/passwd", "root:x:0:0::/root:/bin/sh\nuser2:x:7:7::/:/bin/sh"); /* no \n */
    tree_write(&t, "etc/group", "root:x:0:\n");
    struct abx_error why = {0};
    assert_true(abx_init_prepare(t.root, &why));
    assert_true(abx_init_prepare(t.root, &why));
    assert_string_equal(why.msg, "");
    tree_expect(&t, "etc/passwd",
                "root:x:0:0::/root:/bin/sh\nuser2:x:7:7::/:/bin/sh\n"
                "user:x:1000:1000::/home/user:/bin/sh\n");
    tree_expect(&t, "etc/group", "root:x:0:\nuser:x:1000:\n");
    assert_int_equal(fstatat(t.fd, "home/user", &st, 0), 0);
    assert_int_equal(st.st_uid, ABX_USER_ID);
    assert_int_equal(fstatat(t.fd, "etc/profile.d/fce2b.sh", &st, 0), 0);
    tree_remove(&t);
}

TEST(prepare_runs_on_where_accounts_can_not_be_written)
{
    struct tree t;
    tree_make(&t);
    struct abx_error why = {0};
    assert_false(abx_init_prepare(t.root, &why)); /* no passwd at all: a single static binary */
    assert_string_equal(why.msg, "/etc/passwd: No such file or directory");
    tree_write(&t, "real", "root:x:0:0::/root:/bin/sh\n");
    assert_int_equal(symlinkat("../real", t.fd, "etc/passwd"), 0);
    tree_write(&t, "etc/group", "root:x:0:\n");
    assert_false(abx_init_prepare(t.root, &why)); /* a link is not followed */
    assert_non_null(strstr(why.msg, "/etc/passwd: "));
    tree_expect(&t, "real", "root:x:0:0::/root:/bin/sh\n");
    tree_remove(&t);
}

TEST(prepare_sets_path_once)
{
    struct tree t;
    tree_make(&t);
    char *saved = strdup(getenv("PATH"));
    setenv("PATH", "/bin", 1);
    struct abx_error why = {0};
    abx_init_prepare(t.root, &why);
    abx_init_prepare(t.root, &why);
    assert_string_equal(getenv("PATH"), "/.fce2b:/bin");
    unsetenv("PATH");
    abx_init_prepare(t.root, &why);
    assert_string_equal(getenv("PATH"), ABX_SANDBOX_PATH);
    setenv("PATH", saved, 1);
    free(saved);
    tree_remove(&t);
}

TEST(listen_takes_only_addresses)
{
    static const struct {
        const char *text;
        int result; /* 0: a socket */
    } rows[] = {
        {"127.0.0.1:0", 0},           {":0", 0},
        {"localhost:0", -EINVAL},     {"127.0.0.1", -EINVAL},
        {"127.0.0.1:70000", -EINVAL}, {"[::1:0", -EINVAL},
        {"1.2.3.4.5:0", -EINVAL},     {"", -EINVAL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int fd = abx_init_listen(rows[i].text);
        assert_int_equal(fd < 0 ? fd : 0, rows[i].result);
        abx_fd_close(&fd);
    }
    int fd = abx_init_listen("127.0.0.1:0");
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    char text[64];
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(a.sin_port));
    assert_int_equal(abx_init_listen(text), -EADDRINUSE);
    close(fd);
}
