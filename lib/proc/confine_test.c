/* lib/proc/confine_test.c: what the kernel refuses to a confined child, and what it still allows.
 * The attempts are those of tests/server/attack.c, each also from a grandchild. */
#include "lib/proc/confine.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/proc/proc.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 20000, DENIED = 0, ALLOWED = 42, ROOTS = 16 };
enum { ALL = ABX_CONFINE_FILES | ABX_CONFINE_SIGNALS | ABX_CONFINE_NETWORK | ABX_CONFINE_SECCOMP };

static char *const no_env[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};

static const char *const system_folders[] = {"/usr", "/bin", "/lib", "/lib64", "/proc"};

/* A folder with rw/f, ro/f and secret; the program attack beside them. */
struct place {
    struct abx_loop loop;
    struct abx_timer guard;
    char dir[64], attack[PATH_MAX];
    struct abx_confine_root roots[ROOTS];
    size_t root_count;
    const struct abx_confine *confine;
    struct abx_proc_status st;
    int port, listener, other_port, other_listener;
    bool timed_out;
};

static void on_guard(struct abx_timer *t)
{
    struct place *p = t->owner;
    p->timed_out = true;
    abx_loop_stop(&p->loop);
}

static void add_root(struct place *p, const char *path, enum abx_confine_access access)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    assert_true(p->root_count < ROOTS);
    p->roots[p->root_count++] = (struct abx_confine_root){fd, access};
}

static void write_text(const struct place *p, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "text", 4), 4);
    close(fd);
}

static int listen_somewhere(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void place_init(struct place *p)
{
    struct abx_error err;
    char path[PATH_MAX];
    *p = (struct place){.dir = "/tmp/abx-confine-XXXXXX"};
    if ((abx_confine_supported() & ALL) != ALL)
        skip();
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->attack, sizeof(p->attack), "%s/tests/attack", getenv("ABX_BUILD"));
    for (const char *const *name = (const char *const[]){"rw", "ro", "out", NULL}; *name; name++) {
        snprintf(path, sizeof(path), "%s/%s", p->dir, *name);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    write_text(p, "rw/f");
    write_text(p, "ro/f");
    write_text(p, "out/f");
    snprintf(path, sizeof(path), "%s/rw", p->dir);
    add_root(p, path, ABX_CONFINE_WRITE);
    snprintf(path, sizeof(path), "%s/ro", p->dir);
    add_root(p, path, ABX_CONFINE_READ);
    for (size_t i = 0; i < ABX_COUNTOF(system_folders); i++)
        add_root(p, system_folders[i], ABX_CONFINE_READ);
    add_root(p, p->attack, ABX_CONFINE_READ);
    add_root(p, "/dev/ptmx", ABX_CONFINE_DEVICE);
    add_root(p, "/dev/null", ABX_CONFINE_DEVICE);
    p->listener = listen_somewhere(&p->port);
    p->other_listener = listen_somewhere(&p->other_port);
    assert_int_equal(abx_loop_init(&p->loop, &err), 0);
    abx_timer_init(&p->guard, &p->loop, on_guard, p);
    abx_timer_start(&p->guard, GUARD_MS, 0);
}

static void place_done(struct place *p)
{
    abx_timer_close(&p->guard, NULL);
    abx_loop_run(&p->loop);
    abx_loop_done(&p->loop);
    for (size_t i = 0; i < p->root_count; i++)
        close(p->roots[i].fd);
    close(p->listener);
    close(p->other_listener);
    abx_confine_unref(p->confine);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, p->dir), 0);
}

static void confine(struct place *p, struct abx_confine_spec spec)
{
    struct abx_error err;
    spec.roots = p->roots;
    spec.root_count = p->root_count;
    assert_int_equal(abx_confine_new(&spec, &p->confine, &err), 0);
}

static void on_exit_stop(struct abx_proc *child, const struct abx_proc_status *st, void *arg)
{
    struct place *p = arg;
    (void)child;
    p->st = *st;
    abx_loop_stop(&p->loop);
}

/* The status of the child: exit code, or 128 and the signal. */
static int run(struct place *p, char *const *argv, int tty_fd)
{
    struct abx_error err = {0};
    struct abx_proc *child;
    struct abx_proc_spec spec = {.path = argv[0],
                                 .argv = argv,
                                 .envp = no_env,
                                 .cwd = p->dir,
                                 .stdio = {-1, -1, 2},
                                 .tty_fd = tty_fd,
                                 .oom_score_adj = INT_MIN,
                                 .new_session = true,
                                 .confine = p->confine};
    if (abx_proc_spawn(&p->loop, &spec, on_exit_stop, p, &child, &err) < 0) {
        print_message("%s\n", err.msg);
        return -1;
    }
    abx_loop_run(&p->loop);
    p->loop.stopping = false;
    abx_proc_close(child);
    assert_false(p->timed_out);
    return p->st.exited ? p->st.exit_code : 128 + p->st.signum;
}

static int attempt(struct place *p, const char *name, const char *arg)
{
    char *argv[] = {p->attack, (char *)(uintptr_t)name, (char *)(uintptr_t)arg, NULL};
    char *child[] = {p->attack, (char[]){"--child"}, argv[1], argv[2], NULL};
    int own = run(p, argv, 0), childs = run(p, child, 0);
    if (own != childs)
        fail_msg("%s %s: %d, from a grandchild %d", name, arg, own, childs);
    return own;
}

struct row {
    const char *name, *arg; /* %s: the folder of the place */
    int want;
};

static void check_rows(struct place *p, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char arg[PATH_MAX];
        int n = strncmp(rows[i].arg, "%s", 2) == 0
                    ? snprintf(arg, sizeof(arg), "%s%s", p->dir, rows[i].arg + 2)
                    : snprintf(arg, sizeof(arg), "%s", rows[i].arg);
        assert_true(n < (int)sizeof(arg));
        int got = attempt(p, rows[i].name, arg);
        if (got != rows[i].want)
            fail_msg("%s %s: %d, not %d", rows[i].name, arg, got, rows[i].want);
    }
}

TEST(confined_files_are_those_of_the_roots)
{
    static const struct row rows[] = {
        {"read", "%s/rw/f", ALLOWED},        {"write", "%s/rw/f", ALLOWED},
        {"write", "%s/rw/new", ALLOWED},     {"truncate", "%s/rw/f", ALLOWED},
        {"read", "%s/ro/f", ALLOWED},        {"write", "%s/ro/f", DENIED},
        {"write", "%s/ro/new", DENIED},      {"truncate", "%s/ro/f", DENIED},
        {"unlink", "%s/ro/f", DENIED},       {"read", "%s/out/f", DENIED},
        {"write", "%s/out/f", DENIED},       {"read", "/etc/shadow", DENIED},
        {"read", "%s/rw/../out/f", DENIED},  {"mknod", "%s/rw/device", DENIED},
        {"write", "/dev/null", ALLOWED},     {"read", "/usr/bin/env", ALLOWED},
        {"write", "/usr/bin/env", DENIED},
    };
    struct place p;
    place_init(&p);
    confine(&p, (struct abx_confine_spec){.layers = ABX_CONFINE_FILES});
    check_rows(&p, rows, ABX_COUNTOF(rows));
    place_done(&p);
}

/* M1, M8: with every call that names another process. */
TEST(m01_confined_processes_reach_no_other_process)
{
    static const char *const names[] = {"environ",      "memory",        "signal",      "ptrace-seize",
                                        "ptrace-attach", "vm-read",       "pidfd-getfd", "prlimit"};
    struct place p;
    char self[32];
    place_init(&p);
    confine(&p, (struct abx_confine_spec){.layers = ALL});
    snprintf(self, sizeof(self), "%d", getpid());
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (attempt(&p, names[i], self) != DENIED)
            fail_msg("%s is allowed", names[i]);
    assert_int_equal(attempt(&p, "priority-user", ""), DENIED);
    place_done(&p);
}

static volatile sig_atomic_t urgent;

static void on_urgent(int signum)
{
    (void)signum;
    urgent++;
}

/* kill(-1) says nothing of whom it reached: this process would have been. */
TEST(signals_to_everybody_reach_nobody_else)
{
    struct place p;
    place_init(&p);
    struct sigaction action = {.sa_handler = on_urgent}, old;
    assert_int_equal(sigaction(SIGURG, &action, &old), 0);
    attempt(&p, "signal-all", "");
    assert_true(urgent > 0);
    urgent = 0;
    confine(&p, (struct abx_confine_spec){.layers = ALL});
    attempt(&p, "signal-all", "");
    assert_int_equal(urgent, 0);
    assert_int_equal(sigaction(SIGURG, &old, NULL), 0);
    place_done(&p);
}

/* M12, M13, S06. */
TEST(m12_confined_processes_make_no_namespace_and_gain_nothing)
{
    static const struct row rows[] = {
        {"unshare-user", "", DENIED}, {"unshare-mount", "", DENIED}, {"clone-user", "", DENIED},
        {"clone3-user", "", DENIED},  {"setns", "", DENIED},         {"mount", "%s/rw", DENIED},
        {"chroot", "/", DENIED},      {"io-uring", "", DENIED},      {"bpf", "", DENIED},
        {"userfaultfd", "", DENIED},  {"add-key", "", DENIED},       {"open-by-handle", "", DENIED},
        {"tiocsti", "", DENIED},      {"capability", "", DENIED},    {"new-privileges", "", DENIED},
        {"core", "", DENIED},
    };
    struct place p;
    place_init(&p);
    confine(&p, (struct abx_confine_spec){.layers = ALL});
    check_rows(&p, rows, ABX_COUNTOF(rows));
    place_done(&p);
}

/* M3, M4, M13: what Landlock alone lets through. */
TEST(m03_m04_confined_connects_go_to_listed_ports_only)
{
    static const char *const others[] = {"tcp", "tcp6", "mptcp", "fast-open", "fast-open-message",
                                         "bind"};
    static const struct row rows[] = {{"vsock", "", DENIED},
                                      {"vsock-high", "", DENIED},
                                      {"raw-socket", "", DENIED},
                                      {"udp", "9", ALLOWED},
                                      {"listen", "", ALLOWED}};
    struct place p;
    char port[16], other[16];
    place_init(&p);
    uint16_t ports[] = {(uint16_t)p.port}, binds[] = {0};
    confine(&p, (struct abx_confine_spec){.layers = ALL,
                                          .connect = {ports, 1, true},
                                          .bind = {binds, 1, true}});
    snprintf(port, sizeof(port), "%d", p.port);
    snprintf(other, sizeof(other), "%d", p.other_port);
    assert_int_equal(attempt(&p, "tcp", port), ALLOWED);
    assert_int_equal(attempt(&p, "bind", "0"), ALLOWED);
    for (size_t i = 0; i < ABX_COUNTOF(others); i++)
        if (attempt(&p, others[i], other) != DENIED)
            fail_msg("%s is allowed", others[i]);
    assert_int_equal(attempt(&p, "mptcp", port), DENIED);
    check_rows(&p, rows, ABX_COUNTOF(rows));
    place_done(&p);
}

/* M5, M6. */
TEST(m05_m06_no_listening_no_datagrams_no_unix_sockets)
{
    static const struct row rows[] = {{"listen", "", DENIED},
                                      {"bind", "0", DENIED},
                                      {"udp", "9", DENIED},
                                      {"unix-path", "%s/rw/socket", DENIED},
                                      {"tcp", "9", DENIED}};
    struct place p;
    place_init(&p);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/rw/socket", p.dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 4), 0);
    confine(&p, (struct abx_confine_spec){.layers = ALL,
                                          .connect = {.is_limited = true},
                                          .bind = {.is_limited = true},
                                          .no_udp = true,
                                          .no_unix = true});
    check_rows(&p, rows, ABX_COUNTOF(rows));
    close(fd);
    place_done(&p);
}

TEST(abstract_sockets_of_others_are_out_of_reach)
{
    struct place p;
    char name[64];
    place_init(&p);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(name, sizeof(name), "abx-confine-test-%d", getpid());
    memcpy(at.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(attempt(&p, "unix-abstract", name), ALLOWED);
    confine(&p, (struct abx_confine_spec){.layers = ABX_CONFINE_SIGNALS});
    assert_int_equal(attempt(&p, "unix-abstract", name), DENIED);
    close(fd);
    place_done(&p);
}

/* M9: its own terminal may be opened by name, the one of another session not. */
TEST(m09_a_confined_terminal_is_the_only_one)
{
    struct place p;
    char name[64], other_name[64];
    place_init(&p);
    confine(&p, (struct abx_confine_spec){.layers = ALL});
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0;
    int other = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_int_equal(ioctl(master, TIOCSPTLCK, &unlock), 0);
    assert_int_equal(ioctl(other, TIOCSPTLCK, &unlock), 0);
    assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
    assert_int_equal(ptsname_r(other, other_name, sizeof(other_name)), 0);
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    char *own[] = {p.attack, (char[]){"write"}, name, NULL};
    char *foreign[] = {p.attack, (char[]){"write"}, other_name, NULL};
    assert_int_equal(run(&p, own, slave), ALLOWED);
    assert_int_equal(run(&p, foreign, slave), DENIED);
    close(slave);
    close(master);
    close(other);
    place_done(&p);
}

TEST(limits_are_lowered_and_never_raised)
{
    struct place p;
    place_init(&p);
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    confine(&p, (struct abx_confine_spec){
                    .layers = ALL, .limits = {{RLIMIT_NOFILE, 77}}, .limit_count = 1});
    char *few[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"test $(ulimit -Hn) = 77"}, NULL};
    assert_int_equal(run(&p, few, 0), 0);
    abx_confine_unref(p.confine);
    confine(&p, (struct abx_confine_spec){
                    .layers = ALL, .limits = {{RLIMIT_NOFILE, UINT64_MAX / 2}}, .limit_count = 1});
    char *many[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, NULL, NULL};
    char text[64];
    snprintf(text, sizeof(text), "test $(ulimit -Hn) = %llu", (unsigned long long)now.rlim_max);
    many[2] = text;
    assert_int_equal(run(&p, many, 0), 0);
    place_done(&p);
}

/* Without a layer asked for, nothing but the privileges goes. */
TEST(layers_that_are_not_asked_for_are_not_applied)
{
    static const struct row rows[] = {{"read", "%s/out/f", ALLOWED}, {"capability", "", DENIED}};
    struct place p;
    place_init(&p);
    confine(&p, (struct abx_confine_spec){0});
    assert_int_equal(abx_confine_layers(p.confine), 0);
    check_rows(&p, rows, ABX_COUNTOF(rows));
    place_done(&p);
}

TEST(layers_have_names)
{
    assert_string_equal(abx_confine_layer_name(ABX_CONFINE_FILES), "files");
    assert_string_equal(abx_confine_layer_name(ABX_CONFINE_SIGNALS), "signals");
    assert_string_equal(abx_confine_layer_name(ABX_CONFINE_NETWORK), "network");
    assert_string_equal(abx_confine_layer_name(ABX_CONFINE_SECCOMP), "seccomp");
    assert_null(abx_confine_layer_name(1U << ABX_CONFINE_LAYERS));
}

TEST(making_one_reports_every_failed_allocation)
{
    struct abx_error err;
    uint16_t ports[] = {80};
    struct abx_confine_spec spec = {
        .layers = ALL, .connect = {ports, 1, true}, .bind = {ports, 1, true}};
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        const struct abx_confine *c = NULL;
        int r = abx_confine_new(&spec, &c, &err);
        assert_int_equal(r, abx_alloc_failed() ? -1 : 0);
        abx_confine_unref(c);
    }
}
