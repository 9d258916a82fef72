/* lib/proc/proc_test.c: children, roles, reaping. */
#include "lib/proc/proc.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/proc/confine.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 20000 };

static char *const test_env[] = {(char[]){"PATH=/usr/bin:/bin"}, (char[]){"LC_ALL=C"}, NULL};

struct run { /* one child and what became of it */
    struct abx_loop loop;
    struct abx_timer guard;
    struct abx_proc *proc;
    struct abx_proc_status st;
    int exits, wanted;
    bool timed_out;
};

static void on_guard(struct abx_timer *t)
{
    struct run *r = t->owner;
    r->timed_out = true;
    abx_loop_stop(&r->loop);
}

static void run_init(struct run *r)
{
    struct abx_error err;
    *r = (struct run){.wanted = 1};
    assert_int_equal(abx_loop_init(&r->loop, &err), 0);
    abx_timer_init(&r->guard, &r->loop, on_guard, r);
    abx_timer_start(&r->guard, GUARD_MS, 0);
}

static void run_done(struct run *r)
{
    abx_proc_close(r->proc);
    abx_timer_close(&r->guard, NULL);
    abx_loop_run(&r->loop);
    abx_loop_done(&r->loop);
}

static void on_exit_count(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct run *r = arg;
    assert_false(abx_proc_is_running(p));
    r->st = *st;
    if (++r->exits == r->wanted)
        abx_loop_stop(&r->loop);
}

static void run_wait(struct run *r)
{
    abx_loop_run(&r->loop);
    r->loop.stopping = false;
    assert_false(r->timed_out);
}

static struct abx_proc_spec spec_of(char *const *argv)
{
    return (struct abx_proc_spec){.path = argv[0],
                                  .search_path = "/usr/bin:/bin",
                                  .argv = argv,
                                  .envp = test_env,
                                  .stdio = {-1, -1, -1},
                                  .oom_score_adj = INT_MIN};
}

/* Runs a shell text to its end with its standard output in *ret_out. */
static void run_shell(struct run *r, struct abx_proc_spec *spec, const char *text,
                      char ret_out[4096])
{
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)text, NULL};
    struct abx_error err;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spec->path = "sh";
    spec->search_path = "/nowhere:/usr/bin:/bin";
    spec->argv = argv;
    spec->envp = test_env;
    spec->stdio[1] = ends[1];
    assert_int_equal(abx_proc_spawn(&r->loop, spec, on_exit_count, r, &r->proc, &err), 0);
    close(ends[1]);
    ssize_t n = abx_fd_read_all(ends[0], ret_out, 4095);
    assert_true(n >= 0);
    ret_out[n] = '\0';
    close(ends[0]);
    run_wait(r);
}

TEST(spawn_reports_exit_code_and_output)
{
    struct run r;
    char out[4096];
    run_init(&r);
    struct abx_proc_spec spec = spec_of(test_env);
    run_shell(&r, &spec, "echo hi; exit 7", out);
    assert_string_equal(out, "hi\n");
    assert_true(r.st.exited);
    assert_int_equal(r.st.exit_code, 7);
    run_done(&r);
}

TEST(spawn_reports_a_signal)
{
    struct run r;
    char out[4096], text[64];
    run_init(&r);
    struct abx_proc_spec spec = spec_of(test_env);
    run_shell(&r, &spec, "kill -TERM $$", out);
    assert_false(r.st.exited);
    assert_int_equal(r.st.signum, SIGTERM);
    abx_proc_status_text(&r.st, text);
    assert_string_equal(text, "signal: terminated");
    run_done(&r);
}

TEST(status_texts)
{
    static const struct {
        struct abx_proc_status st;
        const char *text;
    } rows[] = {
        {{.exited = true}, "exit status 0"},
        {{.exited = true, .exit_code = 7}, "exit status 7"},
        {{.signum = SIGKILL}, "signal: killed"},
        {{.signum = SIGSEGV, .core_dumped = true}, "signal: segmentation fault (core dumped)"},
        {{.signum = SIGHUP}, "signal: hangup"},
        {{.signum = 40}, "signal: signal 40"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char text[64];
        abx_proc_status_text(&rows[i].st, text);
        assert_string_equal(text, rows[i].text);
    }
}

TEST(spawn_errors_name_the_step)
{
    char script[] = "/tmp/abx-proc-XXXXXX";
    int fd = mkstemp(script); /* not executable */
    assert_true(fd >= 0);
    close(fd);
    const struct {
        const char *path, *search, *cwd;
        enum abx_code code;
        int sys;
        const char *text;
    } rows[] = {
        {"no-such-program", "/usr/bin:/bin", NULL, ABX_NOT_FOUND, ENOENT, "no-such-program"},
        {"/no/such", NULL, NULL, ABX_NOT_FOUND, ENOENT, "/no/such"},
        {script, NULL, NULL, ABX_INVALID_ARGUMENT, EACCES, script},
        {"true", "/usr/bin:/bin", "/no/dir", ABX_INVALID_ARGUMENT, ENOENT, "cwd /no/dir"},
        {"true", "/usr/bin:/bin", script, ABX_INVALID_ARGUMENT, ENOTDIR, "cwd"},
    };
    struct run r;
    run_init(&r);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char *argv[] = {(char[]){"x"}, NULL};
        struct abx_proc_spec spec = spec_of(argv);
        spec.path = rows[i].path;
        spec.search_path = rows[i].search;
        spec.cwd = rows[i].cwd;
        struct abx_error err;
        struct abx_proc *p = NULL;
        assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &p, &err), -1);
        assert_null(p);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(err.sys, rows[i].sys);
        assert_non_null(strstr(err.msg, rows[i].text));
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* the failed children are reaped */
    unlink(script);
    run_done(&r);
}

TEST(spawn_gives_a_clean_start)
{
    struct run r;
    char out[4096];
    run_init(&r);
    int leak = open("/dev/null", O_RDONLY); /* not CLOEXEC on purpose */
    assert_true(leak > 3);
    signal(SIGUSR1, SIG_IGN);
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &block, &old);
    struct abx_proc_spec spec = spec_of(test_env);
    spec.umask = 077;
    spec.cwd = "/usr";
    spec.new_session = true;
    run_shell(&r, &spec,
              "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t\\n'; umask; pwd;"
              "ls /proc/self/fd | tr '\\n' ' '; test $(ps -o sid= -p $$) -eq $$ && echo leader",
              out);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    signal(SIGUSR1, SIG_DFL);
    close(leak);
    assert_string_equal(
        out, "SigBlk:0000000000000000SigIgn:00000000000000000077\n/usr\n0 1 2 3 leader\n");
    run_done(&r);
}

/* Every way in which the three descriptors and the script's can collide with their targets. */
TEST(spawn_places_colliding_descriptors)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 0, 0}, {2, 2, 1}};
    for (size_t i = 0; i < ABX_COUNTOF(orders); i++) {
        int files[3], saved[3], script = memfd_create("script", 0);
        struct run r;
        run_init(&r);
        assert_int_equal(write(script, "script", 6), 6);
        for (int n = 0; n < 3; n++) {
            files[n] = memfd_create("stream", MFD_CLOEXEC);
            assert_int_equal(write(files[n], (char[]){(char)('a' + n)}, 1), 1);
            saved[n] = fcntl(n, F_DUPFD_CLOEXEC, 50);
        }
        for (int n = 0; n < 3; n++)
            dup2(files[n], n); /* the sources are now 0, 1, 2 themselves */
        struct abx_proc_spec spec = spec_of(test_env);
        for (int n = 0; n < 3; n++)
            spec.stdio[n] = orders[i][n];
        spec.exec_fd = script;
        char *argv[] = {
            (char[]){"sh"}, (char[]){"-c"},
            (char[]){"exec 9>$O; for n in 0 1 2; do (head -c1 /proc/$$/fd/$n >&9); done;"
                     "(cat /proc/$$/fd/3 >&9)"},
            NULL};
        char name[] = "/tmp/abx-proc-XXXXXX", env_out[64], got[32] = "", want[32];
        close(mkstemp(name));
        snprintf(env_out, sizeof(env_out), "O=%s", name);
        char *env[] = {test_env[0], env_out, NULL};
        spec.path = "/bin/sh";
        spec.argv = argv;
        spec.envp = env;
        struct abx_error err;
        int ok = abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &r.proc, &err);
        for (int n = 0; n < 3; n++)
            dup2(saved[n], n);
        assert_int_equal(ok, 0);
        run_wait(&r);
        int fd = open(name, O_RDONLY);
        assert_true(abx_fd_read_all(fd, got, sizeof(got) - 1) >= 0);
        close(fd);
        unlink(name);
        snprintf(want, sizeof(want), "%c%c%cscript", 'a' + orders[i][0], 'a' + orders[i][1],
                 'a' + orders[i][2]);
        assert_string_equal(got, want);
        for (int n = 0; n < 3; n++) {
            close(files[n]);
            close(saved[n]);
        }
        close(script);
        run_done(&r);
    }
}

TEST(spawn_switches_ids)
{
    if (geteuid() != 0)
        skip();
    struct run r;
    char out[4096];
    run_init(&r);
    static const gid_t groups[] = {1234, 1235};
    struct abx_proc_spec spec = spec_of(test_env);
    spec.set_ids = true;
    spec.uid = 1234;
    spec.gid = 1234;
    spec.groups = groups;
    spec.group_count = 2;
    spec.cwd = "/tmp";
    run_shell(&r, &spec, "id -u; id -g; id -G; grep CapEff /proc/self/status", out);
    assert_string_equal(out, "1234\n1234\n1234 1235\nCapEff:\t0000000000000000\n");
    run_done(&r);
}

/* S84, also where nothing else is confined; what bounds the sets is gone too, and stays. */
TEST(s84_spawn_leaves_no_privileges)
{
    static const char show[] = "grep -E '^(Cap|NoNewPrivs)' /proc/self/status";
    static const char *const none =
        "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
        "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n";
    struct abx_error err = {0};
    if (geteuid() != 0)
        skip();
    for (int i = 0; i < 3; i++) { /* by itself, by a confinement of no layer, the ids as they are */
        struct run r;
        char out[4096];
        const struct abx_confine *confine = NULL;
        run_init(&r);
        struct abx_proc_spec spec = spec_of(test_env);
        spec.set_ids = i < 2;
        spec.uid = spec.gid = 1234;
        spec.no_privileges = i != 1;
        if (i == 1)
            assert_int_equal(abx_confine_new(&(struct abx_confine_spec){0}, &confine, &err), 0);
        spec.confine = confine;
        run_shell(&r, &spec, show, out);
        assert_string_equal(out, none);
        abx_confine_unref(confine);
        run_done(&r);
    }
}

TEST(s84_spawn_keeps_what_programs_may_gain)
{
    if (geteuid() != 0)
        skip();
    struct run r;
    char out[4096], own[4096];
    struct abx_proc_spec spec = spec_of(test_env);
    run_init(&r);
    run_shell(&r, &spec, "grep CapBnd /proc/self/status", own);
    abx_proc_close(r.proc);
    r.exits = 0;
    spec.set_ids = true;
    spec.uid = spec.gid = 1234;
    run_shell(&r, &spec, "grep CapBnd /proc/self/status", out);
    assert_string_equal(out, own);
    run_done(&r);
}

TEST(capabilities_are_asked_for_by_number)
{
    assert_false(abx_proc_has_capability(-1));
    assert_false(abx_proc_has_capability(64));
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t effective = 0;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "CapEff:\t", 8) == 0)
            effective = strtoull(line + 8, NULL, 16);
    fclose(f);
    for (int i = 0; i < 41; i++)
        assert_int_equal(abx_proc_has_capability(i), (effective >> i & 1) != 0);
}

enum { STOPPED_UID = 1777666555, STOPPER_MS = 10000, STOPPED_CHILDREN = 20 };

/* kill -STOP -1, as a user of the sandbox may. */
static int stop_all(void *arg)
{
    (void)arg;
    if (setresuid(STOPPED_UID, STOPPED_UID, STOPPED_UID) < 0)
        return 1;
    for (int64_t end = abx_time_mono_ms() + STOPPER_MS; abx_time_mono_ms() < end;)
        kill(-1, SIGSTOP);
    kill(-1, SIGCONT);
    return 0;
}

/* Its user may stop a child once the ids are switched, before the exec: that must not stop us. */
TEST(spawn_is_not_held_up_by_a_stopped_child)
{
    if (geteuid() != 0)
        skip();
    struct run r;
    struct abx_proc *procs[STOPPED_CHILDREN] = {0};
    int stopper_pidfd;
    run_init(&r);
    r.wanted = 0;
    pid_t stopper = abx_proc_fork_role("stopper", stop_all, NULL, NULL, 0, &stopper_pidfd);
    assert_true(stopper > 0);
    int64_t began = abx_time_mono_ms();
    char *argv[] = {(char[]){"sleep"}, (char[]){"600"}, NULL};
    for (int i = 0; i < STOPPED_CHILDREN; i++) {
        struct abx_proc_spec spec = spec_of(argv);
        struct abx_error err;
        spec.set_ids = true;
        spec.uid = spec.gid = STOPPED_UID;
        spec.cwd = "/";
        if (abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &procs[i], &err) < 0)
            assert_int_equal(err.sys, EAGAIN);
        else
            r.wanted++;
    }
    assert_true(abx_time_mono_ms() - began < STOPPER_MS / 2);
    assert_int_equal(pidfd_send_signal(stopper_pidfd, SIGKILL, NULL, 0), 0);
    assert_int_equal(abx_proc_wait(stopper, NULL), 0);
    close(stopper_pidfd);
    for (int i = 0; i < STOPPED_CHILDREN; i++)
        if (procs[i] != NULL)
            assert_int_equal(abx_proc_signal(procs[i], SIGKILL), 0);
    if (r.wanted > 0)
        run_wait(&r);
    for (int i = 0; i < STOPPED_CHILDREN; i++)
        abx_proc_close(procs[i]);
    run_done(&r);
}

TEST(spawn_signals_the_whole_group)
{
    struct run r;
    run_init(&r);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"},
                    (char[]){"sleep 600 & sleep 600 & echo up; wait"}, NULL};
    struct abx_proc_spec spec = spec_of(argv);
    spec.stdio[1] = ends[1];
    spec.new_session = true;
    struct abx_error err;
    assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &r.proc, &err), 0);
    close(ends[1]);
    char up[3];
    assert_int_equal(abx_fd_read_all(ends[0], up, 3), 3);
    assert_int_equal(abx_proc_signal_group(r.proc, 65), -EINVAL);
    assert_int_equal(abx_proc_signal_group(r.proc, SIGKILL), 0);
    assert_int_equal(abx_fd_read_all(ends[0], up, 1), 0); /* EOF: the sleeps are dead too */
    close(ends[0]);
    run_wait(&r);
    assert_int_equal(r.st.signum, SIGKILL);
    assert_int_equal(abx_proc_signal_group(r.proc, SIGKILL), -ESRCH);
    assert_int_equal(abx_proc_signal(r.proc, SIGKILL), -ESRCH);
    run_done(&r);
}

TEST(spawn_gives_a_terminal)
{
    struct run r;
    run_init(&r);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int tty = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(tty >= 0);
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"},
                    (char[]){"test -t 0 && test -t 1 && test -t 2 && : </dev/tty && exit 9"}, NULL};
    struct abx_proc_spec spec = spec_of(argv);
    spec.tty_fd = tty;
    struct abx_error err;
    assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &r.proc, &err), 0);
    run_wait(&r);
    assert_int_equal(r.st.exit_code, 9);
    close(tty);
    close(master);
    run_done(&r);
}

static void on_exit_code(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct run *r = arg;
    assert_int_equal(st->exit_code, 7);
    abx_proc_close(p); /* from inside its own callback */
    if (++r->exits == r->wanted)
        abx_loop_stop(&r->loop);
}

TEST(two_hundred_at_once_keep_their_codes)
{
    struct run r;
    run_init(&r);
    r.wanted = 200;
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"exit 7"}, NULL};
    struct abx_proc_spec spec = spec_of(argv);
    struct abx_error err;
    for (int i = 0; i < r.wanted; i++) {
        struct abx_proc *p;
        assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_code, &r, &p, &err), 0);
    }
    run_wait(&r);
    assert_int_equal(r.exits, 200);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    run_done(&r);
}

static void on_exit_never(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    (void)p, (void)st, (void)arg;
    fail_msg("the object was closed");
}

TEST(closed_while_running_is_reaped_later)
{
    struct run r;
    char out[4096];
    run_init(&r);
    char *argv[] = {(char[]){"sleep"}, (char[]){"0.05"}, NULL};
    struct abx_proc_spec spec = spec_of(argv);
    struct abx_proc *p;
    struct abx_error err;
    assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_never, &r, &p, &err), 0);
    abx_proc_close(p);
    abx_proc_close(p);
    struct abx_proc_spec other = spec_of(test_env);
    run_shell(&r, &other, "sleep 0.5", out);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    run_done(&r);
}

struct role_case {
    int sock;
    int closed;
    const char *argument, *area;
};

static int role_main(void *arg)
{
    struct role_case *c = arg;
    char comm[17] = "", line[160] = "";
    prctl(PR_GET_NAME, comm);
    int fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t n = read(fd, line, sizeof(line) - 1);
    snprintf(line + (n < 0 ? 0 : strlen(line)), sizeof(line) - strlen(line), " %s %d %s %s", comm,
             fcntl(c->closed, F_GETFD) < 0, c->argument, c->area);
    n = write(c->sock, line, strlen(line));
    return n > 0 ? 5 : 6;
}

TEST(disowned_is_left_alone)
{
    struct run r;
    struct abx_error err;
    char *argv[] = {(char[]){"sleep"}, (char[]){"60"}, NULL};
    run_init(&r);
    struct abx_proc_spec spec = spec_of(argv);
    struct abx_proc *p;
    assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &p, &err), 0);
    pid_t pid = abx_proc_pid(p);
    abx_proc_disown(p);
    run_done(&r); /* its descriptor and memory are gone with the loop */
    assert_int_equal(kill(pid, SIGKILL), 0);
    struct abx_proc_status st;
    assert_int_equal(abx_proc_wait(pid, &st), 0); /* nobody reaped it before */
    assert_int_equal(st.signum, SIGKILL);
}

TEST(fork_role_renames_and_closes)
{
    int pair[2], pidfd = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct role_case c = {.sock = pair[1], .closed = open("/dev/null", O_RDONLY)};
    const int keep[] = {pair[1], STDERR_FILENO};
    static char area[] = "a-rather-long-program-name\0--option";
    char *args[] = {area, area + strlen(area) + 1, NULL};
    abx_proc_init_title(2, args);
    assert_string_equal(args[0], "a-rather-long-program-name"); /* copies, which stay */
    assert_string_equal(args[1], "--option");
    assert_true(args[1] < area || args[1] >= area + sizeof(area));
    c.argument = args[1];
    c.area = area;
    pid_t pid = abx_proc_fork_role("envd", role_main, &c, keep, 2, &pidfd);
    assert_true(pid > 0 && pidfd >= 0);
    assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
    struct abx_proc_status st;
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, 5);
    char line[256] = "";
    assert_true(read(pair[0], line, sizeof(line) - 1) > 0);
    assert_non_null(strstr(line, " envd 1 --option envd"));
    assert_string_equal(area, "a-rather-long-program-name"); /* the parent keeps its name */
    close(pair[0]);
    close(pair[1]);
    close(pidfd);
    close(c.closed);
}

static int role_pid_one(void *arg)
{
    (void)arg;
    return getpid() == 1 ? 11 : 12;
}

TEST(clone_role_makes_a_pid_one)
{
    if (geteuid() != 0)
        skip();
    struct abx_proc_role role = {
        .name = "init", .fn = role_pid_one, .namespaces = CLONE_NEWPID | CLONE_NEWNS};
    struct abx_proc_status st;
    pid_t pid = abx_proc_clone_role(&role, NULL);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    assert_int_equal(st.exit_code, 11);
}

static int role_exit(void *arg)
{
    return *(int *)arg;
}

TEST(reap_any_peeks_then_reaps)
{
    assert_int_equal(abx_proc_peek_any(), -ECHILD);
    assert_int_equal(abx_proc_reap_any(NULL), -ECHILD);
    int code = 3;
    pid_t pid = abx_proc_fork_role("x", role_exit, &code, NULL, 0, NULL), seen = 0;
    assert_true(pid > 0);
    for (int i = 0; i < GUARD_MS && seen == 0; i++) {
        seen = abx_proc_peek_any();
        usleep(1000);
    }
    assert_int_equal(seen, pid);
    struct abx_proc_status st;
    assert_int_equal(abx_proc_reap_any(&st), pid);
    assert_int_equal(st.exit_code, 3);
    assert_int_equal(abx_proc_reap_any(&st), -ECHILD);
}

/* 0: this kernel does not tell (before Linux 6.12). */
static uint64_t slice_of(pid_t pid)
{
    struct {
        uint32_t size, policy;
        uint64_t flags, priorities, runtime, deadline, period;
    } a = {0};
    assert_int_equal(syscall(SYS_sched_getattr, pid, &a, sizeof(a), 0), 0);
    return a.runtime;
}

/* Last: this process goes on with short slices. */
TEST(short_slices_are_not_the_programs)
{
    struct run r;
    struct abx_error err;
    uint64_t usual = slice_of(0);
    run_init(&r);
    abx_proc_prefer_latency();
    uint64_t hurried = slice_of(0);
    char *argv[] = {(char[]){"sleep"}, (char[]){"60"}, NULL};
    struct abx_proc_spec spec = spec_of(argv);
    assert_int_equal(abx_proc_spawn(&r.loop, &spec, on_exit_count, &r, &r.proc, &err), 0);
    uint64_t program = slice_of(abx_proc_pid(r.proc));
    assert_int_equal(abx_proc_signal(r.proc, SIGKILL), 0);
    run_wait(&r);
    run_done(&r);
    assert_int_equal(program, usual);
    assert_true(usual == 0 ? hurried == 0 : hurried < usual);
}
