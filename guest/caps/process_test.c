/* guest/caps/process_test.c: real children: start, environment, end rule, signals. */
#include "guest/caps/process_rig_priv.h"

#include "lib/base/banned.h"

TEST(process_end_content_by_the_table)
{
    static const struct {
        const char *text, *out, *err, *status;
        int code;
        bool exited;
    } rows[] = {
        {"exit 0", "", "", "exit status 0", 0, true},
        {"exit 7", "", "", "exit status 7", 7, true},
        {"printf x", "x", "", "exit status 0", 0, true},
        {"echo o; echo e >&2; exit 255", "o\n", "e\n", "exit status 255", 255, true},
        {"kill -9 $$", "", "", "signal: killed", -1, false},
        {"kill -15 $$", "", "", "signal: terminated", -1, false},
        {"kill -1 $$", "", "", "signal: hangup", -1, false},
    };
    set_up();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct watcher w;
        run_shell(rows[i].text, &w);
        assert_text(&w.out[0], rows[i].out);
        assert_text(&w.out[1], rows[i].err);
        assert_string_equal(w.end.status, rows[i].status);
        assert_int_equal(w.end.exit_code, rows[i].code);
        assert_int_equal(w.end.exited, rows[i].exited);
        assert_false(w.end.by_deadline);
        watcher_done(&w);
    }
    tear_down();
}

TEST(process_missing_or_forbidden_executable_starts_and_ends)
{
    static const struct {
        const char *cmd;
        int code;
        const char *err;
    } rows[] = {
        {"no-such-program", 127, "/bin/sh: 1: exec: no-such-program: not found\n"},
        {"/no/such/program", 127, "/bin/sh: 1: exec: /no/such/program: not found\n"},
        {"/etc/passwd", 126, "/bin/sh: 1: exec: /etc/passwd: Permission denied\n"},
        {"/tmp", 126, "/bin/sh: 1: exec: /tmp: Permission denied\n"},
    };
    set_up();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_process_spec spec = {
            .cmd = abx_str(rows[i].cmd), .cwd = ABX_STR("/"), .user = &self, .deadline_ms = 50};
        struct watcher w;
        run_spec(&spec, &w);
        assert_text(&w.out[1], rows[i].err);
        assert_int_equal(w.end.exit_code, rows[i].code);
        assert_true(w.end.exited);
        struct abx_process *p = abx_process_sub_process(w.sub);
        assert_true(abx_process_pid(p) > 4194304);
        assert_ptr_equal(abx_procs_by_pid(table, abx_process_pid(p)), p);
        assert_int_equal(abx_process_signal(p, SIGTERM, NULL), -1);
        watcher_done(&w);
    }
    tear_down();
}

TEST(process_start_refusals_name_the_reason)
{
    set_up();
    struct abx_str nul = ABX_STR("a\0b");
    char big[200000];
    memset(big, 'x', sizeof(big));
    struct abx_str args[2] = {abx_str_n(big, sizeof(big)), ABX_STR("y")};
    struct abx_env_pair bad_env = {ABX_STR("A=B"), ABX_STR("x")};
    const struct {
        struct abx_process_spec spec;
        const char *msg;
    } rows[] = {
        {{.cmd = ABX_STR("true"), .cwd = ABX_STR("/nope")}, "cwd '/nope' does not exist"},
        {{.cmd = ABX_STR("true"), .args = args + 1, .arg_count = 1, .cwd = ABX_STR("/etc/passwd")},
         "error starting process 'true y': cwd /etc/passwd: Not a directory"},
        {{.cmd = ABX_STR(""), .cwd = ABX_STR("/")}, "error starting process '': command is empty"},
        {{.cmd = ABX_STR("true"), .args = &nul, .arg_count = 1, .cwd = ABX_STR("/")},
         "error starting process 'true a': argument 1 holds a NUL byte"},
        {{.cmd = ABX_STR("true"), .envs = &bad_env, .env_count = 1, .cwd = ABX_STR("/")},
         "error starting process 'true': environment variable name 'A=B' is invalid"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_process_spec spec = rows[i].spec;
        spec.user = &self;
        struct abx_process *p = NULL;
        struct abx_error err = {0};
        assert_int_equal(abx_process_start(table, &spec, &p, &err), -1);
        assert_string_equal(err.msg, rows[i].msg);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
        assert_null(p);
    }
    struct abx_process_spec spec = {
        .cmd = ABX_STR("echo"), .args = args, .arg_count = 1, .cwd = ABX_STR("/"), .user = &self};
    struct abx_error err = {0};
    assert_int_equal(abx_process_start(table, &spec, &(struct abx_process *){NULL}, &err), -1);
    assert_non_null(strstr(err.msg, "argument 1 has 200000 bytes, the system takes 131071"));
    assert_int_equal(abx_procs_live_count(table), 0);
    tear_down();
}

TEST(process_environment_is_composed_by_layers)
{
    set_up();
    struct abx_str args[2];
    struct abx_process_spec spec = shell("env | sort | grep -v -e ^PWD= -e ^_= -e ^SHLVL=", args);
    struct abx_env_pair globals[] = {{ABX_STR("G"), ABX_STR("global")},
                                     {ABX_STR("A"), ABX_STR("under")}};
    struct abx_env_pair envs[] = {{ABX_STR("A"), ABX_STR("first")},
                                  {ABX_STR("A"), ABX_STR("a=b c")},
                                  {ABX_STR("PAGER"), ABX_STR("less")},
                                  {ABX_STR("E"), ABX_STR("")}};
    spec.globals = globals;
    spec.global_count = ABX_COUNTOF(globals);
    spec.envs = envs;
    spec.env_count = ABX_COUNTOF(envs);
    setenv("ABX_TEST_LEAK", "1", 1);
    struct watcher w;
    run_spec(&spec, &w);
    char want[1024];
    snprintf(want, sizeof(want),
             "A=a=b c\nE=\nG=global\nGIT_PAGER=cat\nHOME=%s\nLOGNAME=%s\nPAGER=less\n"
             "PATH=/usr/bin:/bin\nUSER=%s\n",
             self.home, self.name, self.name);
    assert_text(&w.out[0], want);
    watcher_done(&w);
    tear_down();
}

/* T20 */
TEST(t20_script_over_128_kib_runs_with_its_arguments)
{
    set_up();
    static char script[210000];
    size_t len = (size_t)snprintf(script, sizeof(script), "cat <<'E' | wc -c\n");
    memset(script + len, 'x', 200 * 1024);
    len += 200 * 1024;
    snprintf(script + len, sizeof(script) - len, "\nE\necho $0 $1; exit 3\n");
    static const char *const shells[][2] = {
        {"/bin/bash", "-c"}, {"/bin/bash", "-lc"}, {"sh", "-c"}};
    /* A login shell would read the profile of who runs the tests: it may wait for a lock. */
    const struct abx_env_pair home[] = {{ABX_STR("HOME"), ABX_STR("/")}};
    for (size_t i = 0; i < ABX_COUNTOF(shells); i++) {
        struct abx_str args[] = {abx_str(shells[i][1]), abx_str(script), ABX_STR("name"),
                                 ABX_STR("one")};
        struct abx_process_spec spec = {.cmd = abx_str(shells[i][0]),
                                        .args = args,
                                        .arg_count = ABX_COUNTOF(args),
                                        .envs = home,
                                        .env_count = ABX_COUNTOF(home),
                                        .cwd = ABX_STR("/"),
                                        .user = &self};
        struct watcher w;
        run_spec(&spec, &w);
        assert_text(&w.out[0], "204801\nname one\n");
        assert_int_equal(w.end.exit_code, 3);
        watcher_done(&w);
    }
    tear_down();
}

/* T18 */
TEST(t18_no_stdin_is_dev_null)
{
    set_up();
    struct watcher w;
    run_shell("readlink /proc/self/fd/0; cat; echo done", &w);
    assert_text(&w.out[0], "/dev/null\ndone\n");
    watcher_done(&w);
    tear_down();
}

/* Answers each chunk with a line, so that the child writes the next one only after it was read. */
static bool answer_data(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                        struct abx_str data)
{
    abx_process_write(abx_process_sub_process(s), false, ABX_STR("\n"), NULL, NULL, NULL);
    return on_data(s, kind, offset, data);
}

/* T29 */
TEST(t29_stdout_and_stderr_come_as_they_are_written)
{
    static const struct abx_process_sub_ops answering = {answer_data, on_gap, on_end};
    set_up();
    struct abx_str args[2];
    struct abx_process_spec spec =
        shell("for i in 1 2 3; do echo o$i; read x; echo e$i >&2; read x; done", args);
    spec.has_stdin = true;
    struct abx_process *p = start(&spec);
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    abx_process_unsubscribe(w.sub);
    assert_int_equal(abx_process_subscribe(p, 0, &answering, &w, &w.sub, NULL), 0);
    run_loop();
    assert_true(w.ended);
    assert_text(&w.order, "oeoeoe");
    assert_text(&w.out[1], "e1\ne2\ne3\n");
    watcher_done(&w);
    tear_down();
}

/* T30 */
TEST(t30_tail_comes_before_the_end_every_time)
{
    set_up();
    for (int i = 0; i < 300; i++) {
        struct watcher w;
        run_shell("printf x", &w);
        assert_text(&w.out[0], "x");
        watcher_done(&w);
    }
    tear_down();
}

TEST(t30_grandchild_with_the_pipes_delays_the_end_by_half_a_second)
{
    set_up();
    int64_t from = abx_time_mono_ms();
    struct watcher w;
    run_shell("echo a; sleep 100 & exit 4", &w);
    assert_between(w.ended_at - from, 450, 20000);
    assert_text(&w.out[0], "a\n");
    assert_int_equal(w.end.exit_code, 4);
    watcher_done(&w);
    tear_down();
}

TEST(t30_chatty_grandchild_ends_after_two_seconds_and_goes_on_in_the_journal)
{
    set_up();
    int64_t from = abx_time_mono_ms();
    struct abx_process *p =
        start_shell("(while echo tick; do sleep .1; done) & echo $! >&2; sleep .1; exit 0");
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    run_loop();
    assert_between(w.ended_at - from, 1900, 20000);
    uint64_t at_end = abx_process_journal_end(p);
    assert_int_equal(w.next_offset, at_end);
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (abx_process_journal_end(p) < at_end + 10 && abx_time_mono_ms() < until)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_true(abx_process_journal_end(p) >= at_end + 10);
    assert_int_equal(w.next_offset, at_end); /* the stream has ended */
    struct watcher later;                    /* a replay sees it */
    watch(&later, p, at_end);
    run_loop();
    assert_memory_equal(later.out[0].ptr, "tick\n", 5);
    kill(pid_in(&w.out[1]), SIGKILL);
    watcher_done(&later);
    watcher_done(&w);
    tear_down();
}

TEST(t30_trap_output_is_delivered_after_a_signal)
{
    set_up();
    struct abx_process *p =
        start_shell("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep .05; done");
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    w.pause_at = 1; /* stops the loop at "ready" */
    run_loop();
    w.pause_at = 0;
    abx_process_resume(w.sub);
    assert_int_equal(abx_process_signal(p, SIGTERM, NULL), 0);
    run_loop();
    assert_text(&w.out[0], "ready\nbye\n");
    assert_int_equal(w.end.exit_code, 9);
    watcher_done(&w);
    tear_down();
}

/* T16 */
TEST(t16_deadline_kills_the_whole_group)
{
    set_up();
    struct abx_str args[2];
    struct abx_process_spec spec = shell("sleep 7777 & echo $!; sleep 7777 & wait", args);
    spec.deadline_ms = 200;
    int64_t from = abx_time_mono_ms();
    struct watcher w;
    run_spec(&spec, &w);
    assert_between(w.ended_at - from, 200, 20000);
    assert_true(w.end.by_deadline);
    assert_string_equal(w.end.status, "signal: killed");
    wait_dead(pid_in(&w.out[0]));
    watcher_done(&w);
    tear_down();
}

TEST(process_signals_reach_the_group_for_every_kind)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGUSR1, SIGTERM, 34, 64};
    set_up();
    for (size_t i = 0; i < ABX_COUNTOF(numbers); i++) {
        struct abx_process *p = start_shell("echo up; exec sleep 7777");
        struct watcher w;
        watch(&w, p, ABX_PROCESS_FROM_NOW);
        w.pause_at = 1;
        run_loop();
        w.pause_at = 0;
        abx_process_resume(w.sub);
        assert_int_equal(abx_process_signal(p, numbers[i], NULL), 0);
        run_loop();
        assert_false(w.end.exited);
        assert_int_equal(w.end.exit_code, -1);
        assert_true(strncmp(w.end.status, "signal: ", 8) == 0);
        struct abx_error err = {0};
        assert_int_equal(abx_process_signal(p, SIGTERM, &err), -1);
        assert_string_equal(err.msg, "error sending signal: process already finished");
        assert_int_equal(err.code, ABX_INTERNAL);
        watcher_done(&w);
    }
    struct abx_process *p = start_shell("sleep 7777");
    static const int bad[] = {0, -1, 65, 1000};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        struct abx_error err = {0};
        assert_int_equal(abx_process_signal(p, bad[i], &err), -1);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    }
    tear_down();
}
