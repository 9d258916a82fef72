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
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
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
        {"read", "%s/rw/f", ALLOWED},       {"write", "%s/rw/f", ALLOWED},
        {"write", "%s/rw/new", ALLOWED},    {"truncate", "%s/rw/f", ALLOWED},
        {"read", "%s/ro/f", ALLOWED},       {"write", "%s/ro/f", DENIED},
        {"write", "%s/ro/new", DENIED},     {"truncate", "%s/ro/f", DENIED},
        {"unlink", "%s/ro/f", DENIED},      {"read", "%s/out/f", DENIED},
        {"write", "%s/out/f", DENIED},      {"read", "/etc/shadow", DENIED},
        {"read", "%s/rw/../out/f", DENIED}, {"mknod", "%s/rw/device", DENIED},
        {"write", "/dev/null", ALLOWED},    {"read", "/usr/bin/env", ALLOWED},
        {"write", "/usr/bin/env", DENIED},
    };
    struct place p;
    place_init(&p);
    confine(&p, (struct abx_confine_spec){.layers = ABX_CONFINE_FILES});
    check_rows(&p, rows, ABX_COUNTOF(rows));
    place_done(&p);
}

TEST(what_may_be_changed_may_not_be_made_or_removed)
{
    static const struct row rows[] = {
        {"read", "%s/out/f", ALLOWED},    {"list", "%s/out", ALLOWED},
        {"write", "%s/out/f", ALLOWED},   {"write", "%s/out/new", DENIED},
        {"unlink", "%s/out/f", DENIED},   {"rename", "%s/out/f", DENIED},
        {"truncate", "%s/out/f", DENIED},
    };
    struct place p;
    char path[PATH_MAX];
    place_init(&p);
    snprintf(path, sizeof(path), "%s/out", p.dir);
    add_root(&p, path, ABX_CONFINE_CHANGE);
    confine(&p, (struct abx_confine_spec){.layers = ABX_CONFINE_FILES});
    check_rows(&p, rows, ABX_COUNTOF(rows));
    place_done(&p);
}

/* M1, M8: with every call that names another process. */
TEST(m01_confined_processes_reach_no_other_process)
{
    static const char *const names[] = {"environ",       "memory",  "signal",      "ptrace-seize",
                                        "ptrace-attach", "vm-read", "pidfd-getfd", "prlimit"};
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

static int attempt_as_user(struct place *p, const char *name, const char *arg)
{
    char *argv[] = {p->attack, (char[]){"--user"}, (char *)(uintptr_t)name, (char *)(uintptr_t)arg,
                    NULL};
    return run(p, argv, 0);
}

/* S19: what its own sandbox takes, and nothing that this gives it beside. */
TEST(s19_chromium_makes_user_namespaces_and_mounts_nothing_in_them)
{
    static const struct row rows[] = {
        {"unshare-user", "", ALLOWED}, {"clone-user", "", ALLOWED}, {"unshare-mount", "", DENIED},
        {"clone3-user", "", DENIED},   {"setns", "", DENIED},       {"mount", "%s/rw", DENIED},
        {"io-uring", "", DENIED},      {"bpf", "", DENIED},         {"userfaultfd", "", DENIED},
        {"add-key", "", DENIED},       {"tiocsti", "", DENIED},     {"open-by-handle", "", DENIED},
        {"capability", "", DENIED},    {"core", "", DENIED},        {"new-privileges", "", DENIED},
    };
    static const char *const denied_in_them[] = {"unshare-mount", "mount", "umount", "setns",
                                                 "raw-socket",    "vsock", "bpf",    "tcp"};
    struct place p;
    char shadow[] = "/etc/shadow";
    place_init(&p);
    if (attempt(&p, "unshare-user", "") != ALLOWED) {
        place_done(&p);
        skip(); /* nobody makes user namespaces here */
    }
    confine(&p, (struct abx_confine_spec){
                    .layers = ALL, .is_chromium = true, .connect = {.is_limited = true}});
    check_rows(&p, rows, ABX_COUNTOF(rows));
    assert_int_equal(attempt_as_user(&p, "chroot", "/"), ALLOWED);
    assert_int_equal(attempt_as_user(&p, "read", shadow), DENIED);
    for (size_t i = 0; i < ABX_COUNTOF(denied_in_them); i++)
        if (attempt_as_user(&p, denied_in_them[i], "/proc") != DENIED)
            fail_msg("%s is allowed in a user namespace", denied_in_them[i]);
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
    confine(&p, (struct abx_confine_spec){
                    .layers = ALL, .connect = {ports, 1, true}, .bind = {binds, 1, true}});
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

/* What is shared by a number, or by a name that is no file. */
struct shared {
    const char *attack;
    int number;
    char id[32];
};

static void share(struct shared rows[4])
{
    static const char *const attacks[] = {"shared-memory", "message", "semaphore", "message-queue"};
    int ids[] = {shmget(IPC_PRIVATE, 4096, 0600), msgget(IPC_PRIVATE, 0600),
                 semget(IPC_PRIVATE, 1, 0600)};
    for (int i = 0; i < 4; i++)
        rows[i].attack = attacks[i];
    for (int i = 0; i < 3; i++) {
        rows[i].number = ids[i];
        snprintf(rows[i].id, sizeof(rows[i].id), "%d", ids[i]);
    }
    snprintf(rows[3].id, sizeof(rows[3].id), "/abx-confine-%d", getpid());
    mqd_t queue = mq_open(rows[3].id, O_RDWR | O_CREAT | O_CLOEXEC, 0600, NULL);
    assert_true(ids[0] >= 0 && ids[1] >= 0 && ids[2] >= 0 && queue >= 0);
    mq_close(queue);
}

static void share_no_more(const struct shared rows[4])
{
    shmctl(rows[0].number, IPC_RMID, NULL);
    msgctl(rows[1].number, IPC_RMID, NULL);
    semctl(rows[2].number, 0, IPC_RMID);
    mq_unlink(rows[3].id);
}

TEST(memory_and_queues_of_others_are_out_of_reach_without_unix_sockets)
{
    struct place p;
    struct shared rows[4];
    bool seen[4], denied[4];
    place_init(&p);
    share(rows);
    for (int i = 0; i < 4; i++)
        seen[i] = attempt(&p, rows[i].attack, rows[i].id) == ALLOWED;
    confine(&p, (struct abx_confine_spec){.layers = ABX_CONFINE_NETWORK, .no_unix = true});
    for (int i = 0; i < 4; i++)
        denied[i] = attempt(&p, rows[i].attack, rows[i].id) == DENIED;
    share_no_more(rows);
    for (int i = 0; i < 4; i++)
        if (!seen[i] || !denied[i])
            fail_msg("%s: allowed to all %d, denied %d", rows[i].attack, seen[i], denied[i]);
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

/* ---- S08: hidden files ---- */

static void hide(struct place *p, const char *const *names, size_t count)
{
    char paths[4][PATH_MAX];
    const char *list[4];
    assert_true(count <= ABX_COUNTOF(paths));
    for (size_t i = 0; i < count; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", p->dir, names[i]);
        list[i] = paths[i];
    }
    int fd = abx_confine_hide(list, count);
    if (fd < 0)
        fail_msg("hide: %s", strerrordesc_np(-fd));
    confine(p, (struct abx_confine_spec){.layers = ALL, .mounts_fd = fd});
    close(fd);
}

/* What lies beneath a root and is denied by its name: by no way in, also not by root's. */
TEST(s08_hidden_files_can_not_be_opened)
{
    static const char *const hidden[] = {"rw/f", "ro"};
    static const struct row rows[] = {
        {"read", "%s/rw/f", DENIED},       {"write", "%s/rw/f", DENIED},
        {"truncate", "%s/rw/f", DENIED},   {"unlink", "%s/rw/f", DENIED},
        {"rename", "%s/rw/f", DENIED},     {"link", "%s/rw/f", DENIED},
        {"umount", "%s/rw/f", DENIED},     {"read", "%s/ro/f", DENIED},
        {"list", "%s/ro", DENIED},         {"write", "%s/ro/new", DENIED},
        {"umount", "%s/ro", DENIED},       {"mount", "%s/rw", DENIED},
        {"unshare-mount", "", DENIED},     {"setns-mounts", "1", DENIED},
        {"read", "%s/rw/../ro/f", DENIED}, {"write", "%s/rw/new", ALLOWED},
        {"read", "%s/rw/new", ALLOWED},    {"read", "/proc/self/stat", ALLOWED},
    };
    struct place p;
    if (geteuid() != 0)
        skip();
    place_init(&p);
    hide(&p, hidden, ABX_COUNTOF(hidden));
    check_rows(&p, rows, ABX_COUNTOF(rows));
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/ro/f", p.dir); /* nothing of it shows outside */
    assert_int_equal(access(path, R_OK), 0);
    snprintf(path, sizeof(path), "%s/rw/f", p.dir);
    assert_int_equal(access(path, R_OK), 0);
    place_done(&p);
}

TEST(s08_what_is_not_there_or_a_link_can_not_be_hidden)
{
    struct place p;
    char path[PATH_MAX];
    const char *list[] = {path};
    if (geteuid() != 0)
        skip();
    place_init(&p);
    snprintf(path, sizeof(path), "%s/none", p.dir);
    assert_int_equal(abx_confine_hide(list, 1), -ENOENT);
    assert_int_equal(symlink("rw", path), 0);
    assert_int_equal(abx_confine_hide(list, 1), -ELOOP);
    place_done(&p);
}

/* ---- M11: processes of one scope ---- */

struct scoped {
    struct abx_confine_scope *scope;
    const struct abx_confine *one, *two, *other; /* the first two share it */
};

static void scoped_init(struct place *p, struct scoped *s)
{
    s->scope = abx_confine_scope_new(NULL);
    struct abx_confine_scope *another = abx_confine_scope_new(NULL);
    assert_non_null(s->scope);
    assert_non_null(another);
    confine(p, (struct abx_confine_spec){.layers = ALL, .scope = s->scope});
    s->one = p->confine;
    confine(p, (struct abx_confine_spec){.layers = ALL, .scope = s->scope, .no_udp = true});
    s->two = p->confine;
    confine(p, (struct abx_confine_spec){.layers = ALL, .scope = another});
    s->other = p->confine;
    abx_confine_scope_unref(another);
}

static void scoped_done(struct place *p, struct scoped *s)
{
    p->confine = NULL;
    abx_confine_unref(s->one);
    abx_confine_unref(s->two);
    abx_confine_unref(s->other);
    abx_confine_scope_unref(s->scope);
    place_done(p);
}

static struct abx_proc *start_sleeper(struct place *p, const struct abx_confine *c)
{
    char *argv[] = {(char[]){"/bin/sleep"}, (char[]){"60"}, NULL};
    struct abx_error err = {0};
    struct abx_proc *child = NULL;
    struct abx_proc_spec spec = {.path = argv[0],
                                 .argv = argv,
                                 .envp = no_env,
                                 .stdio = {-1, -1, 2},
                                 .oom_score_adj = INT_MIN,
                                 .new_session = true,
                                 .confine = c};
    if (abx_proc_spawn(&p->loop, &spec, on_exit_stop, p, &child, &err) < 0)
        fail_msg("%s", err.msg);
    return child;
}

static void end_sleeper(struct place *p, struct abx_proc *sleeper)
{
    assert_int_equal(abx_proc_signal(sleeper, SIGKILL), 0);
    abx_loop_run(&p->loop);
    p->loop.stopping = false;
    abx_proc_close(sleeper);
    assert_false(p->timed_out);
}

static int by(struct place *p, const struct abx_confine *c, const char *name, const char *arg)
{
    p->confine = c;
    return attempt(p, name, arg);
}

TEST(m11_processes_of_one_scope_signal_each_other_and_nobody_else)
{
    struct place p;
    struct scoped s;
    char pid[32], self[32];
    place_init(&p);
    scoped_init(&p, &s);
    struct abx_proc *sleeper = start_sleeper(&p, s.one);
    snprintf(pid, sizeof(pid), "%d", abx_proc_pid(sleeper));
    snprintf(self, sizeof(self), "%d", getpid());
    assert_int_equal(by(&p, s.one, "signal", pid), ALLOWED);
    assert_int_equal(by(&p, s.two, "signal", pid), ALLOWED);
    assert_int_equal(by(&p, s.other, "signal", pid), DENIED);
    assert_int_equal(by(&p, s.two, "signal", self), DENIED);
    /* to look into another call is more than to end it */
    assert_int_equal(by(&p, s.two, "ptrace-seize", pid), DENIED);
    assert_int_equal(by(&p, s.two, "environ", pid), DENIED);
    assert_int_equal(by(&p, s.two, "vm-read", pid), DENIED);
    /* each has its own bounds in there */
    assert_int_equal(by(&p, s.one, "udp", "9"), ALLOWED);
    assert_int_equal(by(&p, s.two, "udp", "9"), DENIED);
    assert_int_equal(by(&p, s.two, "read", "/etc/shadow"), DENIED);
    assert_int_equal(by(&p, s.two, "new-privileges", ""), DENIED);
    end_sleeper(&p, sleeper);
    scoped_done(&p, &s);
}

static int shell(struct place *p, const char *text)
{
    char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char *)(uintptr_t)text, NULL};
    return run(p, argv, 0);
}

/* Whoever is kept can stop or kill the keeper; the next start goes on all the same. */
TEST(m11_a_keeper_that_is_stopped_or_killed_holds_nobody_up)
{
    struct place p;
    struct scoped s;
    char pid[32];
    place_init(&p);
    scoped_init(&p, &s);
    p.confine = s.one;
    assert_int_equal(shell(&p, "kill -STOP -1; exit 7"), 7);
    assert_int_equal(shell(&p, "exit 3"), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(shell(&p, "kill -KILL -1; exit 7"), 7);
        assert_int_equal(shell(&p, "exit 3"), 3);
    }
    assert_int_equal(shell(&p, "kill -TERM -1; kill -QUIT -1; kill -INT -1; exit 7"), 7);
    struct abx_proc *sleeper = start_sleeper(&p, s.one);
    snprintf(pid, sizeof(pid), "%d", abx_proc_pid(sleeper));
    assert_int_equal(by(&p, s.two, "signal", pid), ALLOWED);
    end_sleeper(&p, sleeper);
    scoped_done(&p, &s);
}

/* Errors, streams, folders, terminals and variables come through the keeper as they do without one.
 */
TEST(m11_a_start_in_a_scope_is_a_start)
{
    struct place p;
    struct scoped s;
    struct abx_error err = {0};
    struct abx_proc *child;
    place_init(&p);
    scoped_init(&p, &s);
    p.confine = s.one;
    assert_int_equal(
        shell(&p, "test \"$PATH\" = /usr/bin:/bin && test -c /dev/stdin && test -f rw/f"), 0);
    char *none[] = {(char[]){"/bin/none-such"}, NULL};
    struct abx_proc_spec spec = {.path = none[0],
                                 .argv = none,
                                 .envp = no_env,
                                 .stdio = {-1, -1, -1},
                                 .oom_score_adj = INT_MIN,
                                 .confine = s.one};
    assert_int_equal(abx_proc_spawn(&p.loop, &spec, NULL, NULL, &child, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    spec.path = none[0] = (char[]){"/bin/true"};
    spec.cwd = "/none-such";
    assert_int_equal(abx_proc_spawn(&p.loop, &spec, NULL, NULL, &child, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0;
    char name[64];
    assert_int_equal(ioctl(master, TIOCSPTLCK, &unlock), 0);
    assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    char *own[] = {p.attack, (char[]){"write"}, name, NULL};
    assert_int_equal(run(&p, own, slave), ALLOWED);
    close(slave);
    close(master);
    scoped_done(&p, &s);
}

/* ---- S26: this process itself ---- */

static int confine_itself(void *arg)
{
    struct place *p = arg;
    char path[PATH_MAX];
    if (abx_confine_self(p->roots, p->root_count) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/rw/f", p->dir);
    int inside = open(path, O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/ro/f", p->dir);
    int readable = open(path, O_RDONLY | O_CLOEXEC), writable = open(path, O_WRONLY | O_CLOEXEC);
    bool is_right = inside >= 0 && readable >= 0 && writable < 0 && errno == EACCES;
    snprintf(path, sizeof(path), "%s/out/f", p->dir);
    is_right = is_right && open(path, O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES;
    const char *list[] = {p->dir};
    _exit(is_right && abx_confine_hide(list, 1) == -EPERM ? 0
                                                          : 2); /* nobody's leaks are looked for */
}

TEST(s26_a_process_confines_itself_for_good)
{
    struct place p;
    struct abx_proc_status st;
    place_init(&p);
    int keep[ROOTS];
    for (size_t i = 0; i < p.root_count; i++)
        keep[i] = p.roots[i].fd;
    pid_t pid = abx_proc_fork_role("confined", confine_itself, &p, keep, p.root_count, NULL);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, 0);
    place_done(&p);
}

static void *wait_for_end(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

TEST(s26_with_other_threads_nothing_is_confined)
{
    struct place p;
    pthread_t thread;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    place_init(&p);
    pthread_mutex_lock(&lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &lock), 0);
    assert_int_equal(abx_confine_self(p.roots, p.root_count), -EBUSY);
    pthread_mutex_unlock(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    place_done(&p);
}

struct entering {
    struct place *place;
    const char *name, *arg;
};

static int enter_and_try(void *arg)
{
    const struct entering *e = arg;
    struct abx_error err;
    struct abx_confine_spec spec = {.layers = ALL,
                                    .roots = e->place->roots,
                                    .root_count = e->place->root_count,
                                    .connect = {.is_limited = true}};
    char *argv[] = {e->place->attack, (char *)(uintptr_t)e->name, (char *)(uintptr_t)e->arg, NULL};
    if (abx_confine_enter(&spec, &err) == 0)
        execve(argv[0], argv, no_env);
    _exit(1);
}

static int try_entered(struct place *p, const char *name, const char *arg)
{
    struct entering e = {p, name, arg};
    struct abx_proc_status st;
    int keep[ROOTS];
    for (size_t i = 0; i < p->root_count; i++)
        keep[i] = p->roots[i].fd;
    pid_t pid = abx_proc_fork_role("entering", enter_and_try, &e, keep, p->root_count, NULL);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    return st.exited ? st.exit_code : 128 + st.signum;
}

TEST(s19_what_a_process_enters_holds_the_program_that_it_becomes)
{
    struct place p;
    char path[PATH_MAX], port[16], self[16];
    place_init(&p);
    snprintf(port, sizeof(port), "%d", p.port);
    snprintf(self, sizeof(self), "%d", getpid());
    snprintf(path, sizeof(path), "%s/rw/f", p.dir);
    assert_int_equal(try_entered(&p, "write", path), ALLOWED);
    snprintf(path, sizeof(path), "%s/out/f", p.dir);
    assert_int_equal(try_entered(&p, "read", path), DENIED);
    assert_int_equal(try_entered(&p, "tcp", port), DENIED);
    assert_int_equal(try_entered(&p, "environ", self), DENIED);
    assert_int_equal(try_entered(&p, "signal", self), DENIED);
    assert_int_equal(try_entered(&p, "unshare-user", ""), DENIED);
    assert_int_equal(try_entered(&p, "new-privileges", ""), DENIED);
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

/* A file that took the place of one that was granted: until it is granted itself. */
TEST(s06_what_a_confinement_grants_of_the_system_is_renewed)
{
    struct place p;
    struct abx_error err;
    struct abx_confine_root file = {-1, ABX_CONFINE_READ}, bad = {-1, ABX_CONFINE_READ};
    char path[PATH_MAX], next[PATH_MAX];
    place_init(&p);
    snprintf(path, sizeof(path), "%s/out/f", p.dir);
    snprintf(next, sizeof(next), "%s/out/next", p.dir);
    write_text(&p, "out/next");
    file.fd = open(path, O_PATH | O_CLOEXEC);
    struct abx_confine_spec spec = {.layers = ALL,
                                    .roots = p.roots,
                                    .root_count = p.root_count,
                                    .more_roots = &file,
                                    .more_root_count = 1};
    assert_int_equal(abx_confine_new(&spec, &p.confine, &err), 0);
    assert_int_equal(attempt(&p, "read", path), ALLOWED);
    assert_int_equal(rename(next, path), 0);
    assert_int_equal(attempt(&p, "read", path), DENIED);

    const struct abx_confine *other, *both[2] = {p.confine, NULL};
    spec.more_root_count = 0;
    assert_int_equal(abx_confine_new(&spec, &other, &err), 0);
    both[1] = other;
    close(file.fd);
    file.fd = open(path, O_PATH | O_CLOEXEC);
    assert_int_equal(abx_confine_renew(both, 2, &bad, 1), -EBADF);
    assert_int_equal(attempt(&p, "read", path), DENIED);
    assert_int_equal(abx_confine_renew(both, 2, &file, 1), 0);
    for (size_t i = 0; i < 2; i++) {
        p.confine = both[i];
        assert_int_equal(attempt(&p, "read", path), ALLOWED);
        snprintf(next, sizeof(next), "%s/rw/f", p.dir);
        assert_int_equal(attempt(&p, "write", next), ALLOWED);
        assert_int_equal(attempt(&p, "write", path), DENIED);
    }
    assert_int_equal(abx_confine_renew(both, 2, NULL, 0), 0);
    assert_int_equal(attempt(&p, "read", path), DENIED);
    abx_confine_unref(both[0]);
    close(file.fd);
    place_done(&p);
}

TEST(renewing_reports_every_failed_allocation)
{
    struct abx_error err;
    const struct abx_confine_spec spec = {.layers = ALL};
    const struct abx_confine *all[2];
    for (size_t i = 0; i < ABX_COUNTOF(all); i++)
        assert_int_equal(abx_confine_new(&spec, &all[i], &err), 0);
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        int r = abx_confine_renew(all, ABX_COUNTOF(all), NULL, 0);
        assert_int_equal(r, abx_alloc_failed() ? -ENOMEM : 0);
    }
    for (size_t i = 0; i < ABX_COUNTOF(all); i++)
        abx_confine_unref(all[i]);
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
