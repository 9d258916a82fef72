/* guest/caps/process_stream_test.c: subscribers, replay, input, the table, terminals. */
#include "guest/caps/process_rig_priv.h"
#include "tests/unit/alloc.h"

#include <sys/wait.h>

#include "lib/base/banned.h"

/* Turns the loop until @done(arg) or the guard. */
static void run_until(bool (*done)(void *arg), void *arg)
{
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (!done(arg)) {
        if (abx_time_mono_ms() > until)
            fail_msg("nothing happened within %d ms", GUARD_MS);
        abx_timer_start(&guard, GUARD_MS, 0);
        uv_run(&loop.uv, UV_RUN_ONCE);
    }
    abx_timer_stop(&guard);
    loop.stopping = false; /* a stop that a watcher asked for meanwhile */
}

static void run_for(int64_t ms)
{
    int64_t until = abx_time_mono_ms() + ms;
    while (abx_time_mono_ms() < until)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    loop.stopping = false;
}

static bool has_ended(void *arg)
{
    return ((struct watcher *)arg)->ended;
}

TEST(process_several_subscribers_get_everything_from_their_start)
{
    set_up();
    struct abx_process *p = start_shell("echo one; read x </dev/null; sleep .2; echo two >&2");
    struct watcher first, second, late;
    watch(&first, p, ABX_PROCESS_FROM_NOW);
    watch(&second, p, ABX_PROCESS_FROM_NOW);
    first.pause_at = 1;
    run_loop(); /* until "one" */
    first.pause_at = 0;
    abx_process_resume(first.sub);
    watch(&late, p, ABX_PROCESS_FROM_NOW);
    run_until(has_ended, &late);
    run_until(has_ended, &first);
    run_until(has_ended, &second);
    assert_text(&first.out[0], "one\n");
    assert_text(&second.out[0], "one\n");
    assert_text(&late.out[0], "");
    assert_text(&late.out[1], "two\n");
    watcher_done(&first);
    watcher_done(&second);
    watcher_done(&late);
    tear_down();
}

/* T34 */
TEST(t34_paused_subscriber_pauses_the_child_and_resumes_intact)
{
    set_up();
    struct abx_process *p = start_shell("exec head -c 20000000 /dev/zero");
    struct watcher slow, quick;
    watch(&slow, p, ABX_PROCESS_FROM_NOW);
    watch(&quick, p, ABX_PROCESS_FROM_NOW);
    slow.keeps_text = quick.keeps_text = false;
    slow.pause_at = 1;
    run_loop();
    run_for(300);
    assert_true(abx_process_is_running(p));
    uint64_t stopped_at = abx_process_journal_end(p);
    assert_in_range(stopped_at, ABX_PROCESS_LAG, ABX_PROCESS_LAG + 5 * 65536);
    assert_int_equal(quick.next_offset, stopped_at);
    run_for(200);
    assert_int_equal(abx_process_journal_end(p), stopped_at);
    assert_int_equal(abx_process_journal_start(p), 0);
    slow.pause_at = 0;
    abx_process_resume(slow.sub);
    run_until(has_ended, &slow);
    assert_int_equal(slow.bytes, 20000000);
    run_until(has_ended, &quick);
    assert_int_equal(quick.bytes, 20000000);
    watcher_done(&slow);
    watcher_done(&quick);
    tear_down();
}

TEST(t34_end_waits_for_a_paused_subscriber)
{
    set_up();
    struct abx_process *p = start_shell("exec head -c 150000 /dev/zero");
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    w.pause_at = 1;
    run_loop();
    run_for(2600); /* longer than both waits of the rule */
    assert_false(w.ended);
    w.pause_at = 0;
    abx_process_resume(w.sub);
    run_until(has_ended, &w);
    assert_int_equal(w.bytes, 150000);
    watcher_done(&w);
    tear_down();
}

static bool is_not_running(void *arg)
{
    return !abx_process_is_running(arg);
}

/* T22, T23, trap 21 */
TEST(t22_output_without_listeners_is_kept_and_replayed)
{
    set_up();
    struct abx_process *p =
        start_shell("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2; exit 5");
    run_until(is_not_running, p);
    struct watcher all, tail, bare;
    watch(&all, p, 0);
    run_until(has_ended, &all); /* by now the pipes are read to their end, too */
    watch(&tail, p, 2999990);
    watch(&bare, p, ABX_PROCESS_FROM_NOW);
    run_until(has_ended, &tail);
    run_until(has_ended, &bare);
    assert_int_equal(all.bytes, 3000004);
    assert_int_equal(all.gaps, 0);
    assert_int_equal(all.out[0].len, 3000000);
    assert_text(&all.out[1], "end\n");
    assert_int_equal(tail.bytes, 14); /* of two pipes that are read in any order */
    assert_int_equal(tail.out[0].len + tail.out[1].len, 14);
    assert_int_equal(bare.bytes, 0);
    assert_int_equal(bare.end.exit_code, 5);
    assert_ptr_equal(abx_procs_by_pid(table, abx_process_pid(p)), p);
    watcher_done(&all);
    watcher_done(&tail);
    watcher_done(&bare);
    tear_down();
}

static bool wrote_80_mib(void *arg)
{
    return abx_process_journal_end(arg) > 80u * 1024 * 1024;
}

TEST(process_journal_overflow_is_told_with_its_byte_count)
{
    set_up();
    struct abx_process *p = start_shell("exec yes");
    run_until(wrote_80_mib, p);
    struct watcher w;
    watch(&w, p, 1000);
    w.keeps_text = false;
    w.pause_at = 1;
    run_loop();
    assert_int_equal(w.gaps, 1);
    assert_true(w.lost > 1024 * 1024);
    assert_in_range(w.lost, 1, abx_process_journal_end(p) - 60 * 1024 * 1024);
    abx_process_signal(p, SIGKILL, NULL);
    watcher_done(&w);
    tear_down();
}

/* What nobody hears goes on, but not at the cost of everybody else. */
TEST(t23_bulk_without_listeners_is_drained_at_a_bounded_rate)
{
    set_up();
    enum { MANY = 3 };
    struct abx_process *all[MANY];
    for (int i = 0; i < MANY; i++) {
        all[i] = start_shell("exec yes");
        run_until(wrote_80_mib, all[i]);
    }
    uint64_t before = 0, after = 0;
    for (int i = 0; i < MANY; i++)
        before += abx_process_journal_end(all[i]);
    int64_t from = abx_time_mono_ms();
    run_for(500);
    int64_t turns = (abx_time_mono_ms() - from) / 10 + 2;
    for (int i = 0; i < MANY; i++)
        after += abx_process_journal_end(all[i]);
    assert_in_range(after - before, 1, (uint64_t)turns * 33 * 65536);
    struct watcher w; /* who listens gets all the speed */
    watch(&w, all[0], ABX_PROCESS_FROM_NOW);
    w.keeps_text = false;
    w.pause_at = 20 * 1000 * 1000;
    run_loop();
    assert_int_equal(w.gaps, 0);
    watcher_done(&w);
    tear_down();
}

/* T23 */
TEST(t23_vanished_subscribers_cost_nothing_and_do_not_stop_the_child)
{
    set_up();
    struct abx_process *p = start_shell("exec yes");
    for (int i = 0; i < 100; i++) {
        struct watcher w;
        watch(&w, p, ABX_PROCESS_FROM_NOW);
        w.keeps_text = false;
        w.pause_at = 1;
        run_loop(); /* paused: the child is stopped soon */
        watcher_done(&w);
    }
    struct watcher last;
    watch(&last, p, ABX_PROCESS_FROM_NOW);
    last.keeps_text = false;
    last.pause_at = 10 * 1000 * 1000; /* data goes on coming */
    run_loop();
    assert_int_equal(abx_process_signal(p, SIGTERM, NULL), 0);
    last.pause_at = 0;
    abx_process_resume(last.sub);
    run_until(has_ended, &last);
    assert_string_equal(last.end.status, "signal: terminated");
    watcher_done(&last);
    tear_down();
}

static bool unsubscribe_other(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                              struct abx_str data)
{
    (void)kind, (void)offset, (void)data;
    struct watcher *both = abx_process_sub_owner(s);
    abx_process_unsubscribe(both[1].sub);
    both[1].sub = NULL;
    abx_process_unsubscribe(both[0].sub);
    both[0].sub = NULL;
    abx_loop_stop(&loop);
    return true;
}

TEST(process_callbacks_may_unsubscribe_everybody)
{
    static const struct abx_process_sub_ops cutting = {unsubscribe_other, on_gap, on_end};
    set_up();
    struct abx_process *p = start_shell("echo a; sleep .1; echo b");
    struct watcher both[2] = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(abx_process_subscribe(p, 0, &cutting, both, &both[i].sub, NULL), 0);
    run_loop();
    run_until(is_not_running, p);
    assert_null(both[0].sub);
    tear_down();
}

/* --- input --- */

struct written {
    int calls, failures;
    char msg[240];
};

static void on_written(void *arg, const struct abx_error *err)
{
    struct written *w = arg;
    w->calls++;
    w->failures += err != NULL;
    if (err)
        memcpy(w->msg, err->msg, sizeof(w->msg));
}

static struct abx_process *start_with_stdin(const char *text)
{
    struct abx_str args[2];
    struct abx_process_spec spec = shell(text, args);
    spec.has_stdin = true;
    return start(&spec);
}

TEST(process_input_arrives_in_order_and_ends_with_eof)
{
    set_up();
    struct abx_process *p = start_with_stdin("sleep .2; cat | md5sum");
    struct written done = {0};
    static char part[100000];
    for (int i = 0; i < 10; i++) {
        memset(part, 'a' + i, sizeof(part));
        assert_int_equal(
            abx_process_write(p, false, abx_str_n(part, sizeof(part)), on_written, &done, NULL), 0);
        assert_int_equal(done.calls, 0);
    }
    assert_int_equal(abx_process_close_stdin(p, NULL), 0);
    assert_int_equal(abx_process_close_stdin(p, NULL), 0);
    struct abx_error err = {0};
    assert_int_equal(abx_process_write(p, false, ABX_STR("x"), on_written, &done, &err), -1);
    assert_string_equal(err.msg, "error writing to stdin: stdin not enabled or closed");
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    run_until(has_ended, &w);
    assert_int_equal(done.calls, 10);
    assert_int_equal(done.failures, 0);
    FILE *f = fopen("/tmp/abx-caps-md5", "w");
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 100000; k++)
            fputc('a' + i, f);
    fclose(f);
    struct watcher check;
    run_shell("md5sum < /tmp/abx-caps-md5; rm /tmp/abx-caps-md5", &check);
    assert_text(&w.out[0], check.out[0].ptr);
    watcher_done(&check);
    watcher_done(&w);
    tear_down();
}

TEST(process_input_is_bounded_and_cancellable)
{
    set_up();
    struct abx_process *p = start_with_stdin("exec sleep 7777");
    struct written kept = {0}, dropped = {0};
    static char part[1024 * 1024];
    int accepted = 0;
    struct abx_error err = {0};
    while (accepted < 10 && abx_process_write(p, false, abx_str_n(part, sizeof(part)), on_written,
                                              accepted & 1 ? &dropped : &kept, &err) == 0)
        accepted++;
    assert_int_equal(accepted, 4);
    assert_int_equal(err.code, ABX_RESOURCE_EXHAUSTED);
    run_for(50);
    assert_int_equal(kept.calls + dropped.calls, 0); /* nobody reads */
    abx_process_write_cancel(p, &dropped);
    assert_int_equal(abx_process_signal(p, SIGKILL, NULL), 0);
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    run_until(has_ended, &w);
    assert_int_equal(kept.failures, 2);
    assert_int_equal(dropped.calls, 0);
    watcher_done(&w);
    tear_down();
}

TEST(process_input_to_a_closed_pipe_fails)
{
    set_up();
    struct abx_process *p = start_with_stdin("exec <&-; echo closed; sleep 7777");
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    w.pause_at = 1;
    run_loop();
    struct written done = {0};
    struct abx_error err = {0};
    if (abx_process_write(p, false, ABX_STR("x"), on_written, &done, &err) == 0) {
        run_for(50);
        assert_int_equal(done.failures, 1);
        assert_string_equal(done.msg, "error writing to stdin: broken pipe");
    } else {
        assert_string_equal(err.msg, "error writing to stdin: stdin not enabled or closed");
    }
    watcher_done(&w);
    tear_down();
}

/* --- the table --- */

static size_t count_live(void)
{
    size_t n = 0;
    for (struct abx_process *p = NULL; (p = abx_procs_next_live(table, p)) != NULL;)
        n++;
    return n;
}

static bool is_forgotten(void *arg)
{
    return abx_procs_by_pid(table, *(uint32_t *)arg) == NULL;
}

TEST(process_table_lists_the_live_and_remembers_the_ended)
{
    set_up_keeping(200);
    struct abx_str args[2];
    struct abx_process_spec spec = shell("exec sleep 7777", args);
    struct abx_env_pair env = {ABX_STR("K"), ABX_STR("v")};
    spec.tag = ABX_STR("job");
    spec.envs = &env;
    spec.env_count = 1;
    spec.cwd_given = ABX_STR("tmp");
    struct abx_process *a = start(&spec), *b = start_shell("exec sleep 7777");
    const struct abx_process_spec *kept = abx_process_config(a);
    assert_true(abx_str_is(kept->cmd, "/bin/sh") && abx_str_is(kept->args[1], "exec sleep 7777"));
    assert_true(abx_str_is(kept->envs[0].value, "v") && abx_str_is(kept->cwd_given, "tmp"));
    assert_null(abx_process_config(b)->tag.ptr);
    assert_int_equal(count_live(), 2);
    assert_ptr_equal(abx_procs_by_tag(table, ABX_STR("job")), a);
    assert_null(abx_procs_by_tag(table, ABX_STR("jo")));
    assert_null(abx_procs_by_pid(table, 1));
    uint32_t pid = abx_process_pid(a);
    assert_int_equal(abx_process_signal(a, SIGKILL, NULL), 0);
    run_until(is_not_running, a);
    run_for(20);
    assert_int_equal(count_live(), 1);
    assert_ptr_equal(abx_procs_by_tag(table, ABX_STR("job")), a);
    run_until(is_forgotten, &pid);
    assert_null(abx_procs_by_tag(table, ABX_STR("job")));
    tear_down();
}

TEST(process_table_forgets_the_oldest_of_too_many)
{
    set_up();
    uint32_t first = 0;
    for (int i = 0; i < 1005; i++) { /* no such program: ended without a child */
        struct abx_process_spec spec = {
            .cmd = ABX_STR("/nope"), .cwd = ABX_STR("/"), .user = &self};
        struct abx_process *p = start(&spec);
        first = first ? first : abx_process_pid(p);
        run_for(0);
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    run_for(50);
    assert_null(abx_procs_by_pid(table, first + 4));
    assert_non_null(abx_procs_by_pid(table, first + 5));
    tear_down();
}

/* T17: the silent survives, the exit codes are everybody's own. */
TEST(t17_two_hundred_at_once_keep_their_exit_codes)
{
    set_up();
    struct abx_process *silent = start_shell("exec sleep 7777");
    enum { MANY = 200 };
    static struct watcher w[MANY];
    char text[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "exit %d", i);
        watch(&w[i], start_shell(text), ABX_PROCESS_FROM_NOW);
    }
    for (int i = 0; i < MANY; i++) {
        run_until(has_ended, &w[i]);
        assert_int_equal(w[i].end.exit_code, i);
        watcher_done(&w[i]);
    }
    assert_true(abx_process_is_running(silent));
    tear_down();
}

TEST(process_closing_the_table_kills_what_runs)
{
    set_up();
    struct abx_process *p = start_shell("sleep 7777 & echo $!; wait");
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    w.pause_at = 1;
    run_loop();
    int pid = pid_in(&w.out[0]);
    abx_procs_close(table);
    wait_dead(pid);
    watcher_done(&w);
    abx_timer_close(&guard, NULL);
    abx_user_done(&self);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
}

/* --- terminals --- */

TEST(process_pty_is_a_terminal_with_size_and_input)
{
    set_up();
    struct abx_str args[2];
    struct abx_process_spec spec =
        shell("tty | cut -c1-9; stty size; read line; echo got $line; stty size; exit 3", args);
    spec.has_pty = true;
    spec.cols = 100;
    spec.rows = 30;
    struct abx_process *p = start(&spec);
    struct watcher w;
    watch(&w, p, ABX_PROCESS_FROM_NOW);
    struct abx_error err = {0};
    assert_int_equal(abx_process_write(p, false, ABX_STR("x"), NULL, NULL, &err), -1);
    assert_non_null(strstr(err.msg, "tty assigned to process"));
    assert_int_equal(abx_process_close_stdin(p, &err), -1);
    assert_int_equal(err.code, ABX_UNKNOWN);
    struct written done = {0};
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while ((w.out[2].len == 0 || strstr(w.out[2].ptr, "30 100") == NULL) &&
           abx_time_mono_ms() < until)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_int_equal(abx_process_resize(p, 120, 40, NULL), 0);
    assert_int_equal(abx_process_write(p, true, ABX_STR("ls\n"), on_written, &done, NULL), 0);
    run_until(has_ended, &w);
    assert_text(&w.out[2], "/dev/pts/\r\n30 100\r\nls\r\ngot ls\r\n40 120\r\n");
    assert_int_equal(w.end.exit_code, 3);
    assert_int_equal(done.calls, 1);
    assert_int_equal(done.failures, 0);
    watcher_done(&w);
    p = start_shell("exec sleep 7777");
    assert_int_equal(abx_process_resize(p, 1, 1, &err), -1);
    assert_string_equal(err.msg, "error resizing tty: tty not assigned to process");
    assert_int_equal(abx_process_write(p, true, ABX_STR("x"), NULL, NULL, &err), -1);
    assert_non_null(strstr(err.msg, "tty not assigned to process"));
    tear_down();
}

TEST(process_of_another_user_has_its_ids_and_groups)
{
    if (geteuid() != 0)
        skip();
    set_up();
    gid_t groups[] = {1234, 1235};
    char home[] = "/tmp", shell_path[] = "/bin/sh";
    struct abx_user other = {.name = "other",
                             .uid = 1234,
                             .gid = 1234,
                             .home = home,
                             .shell = shell_path,
                             .groups = groups,
                             .group_count = 2};
    struct abx_str args[2];
    struct abx_process_spec spec = shell("id -u; id -G; echo $HOME $USER", args);
    spec.user = &other;
    struct watcher w;
    run_spec(&spec, &w);
    assert_text(&w.out[0], "1234\n1234 1235\n/tmp other\n");
    watcher_done(&w);
    spec = shell("true", args);
    spec.user = &other;
    spec.cwd = ABX_STR("/root");
    struct abx_process *p = NULL;
    struct abx_error err = {0};
    assert_int_equal(abx_process_start(table, &spec, &p, &err), -1);
    assert_string_equal(err.msg,
                        "error starting process '/bin/sh -c true': cwd /root: Permission denied");
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    tear_down();
}

/* --- without memory --- */

static bool run_without_memory(void)
{
    struct abx_str args[2];
    struct abx_process_spec spec = shell("head -c 100000 /dev/zero; cat >&2", args);
    struct watcher w = {.stop_at_end = false};
    struct abx_process *p = NULL;
    struct abx_error err = {0};
    struct written done = {0};
    spec.has_stdin = true;
    if (abx_process_start(table, &spec, &p, &err) < 0) {
        if (err.code != ABX_RESOURCE_EXHAUSTED)
            fail_msg("%s", err.msg);
        assert_null(p);
        return false;
    }
    bool is_fed = abx_process_write(p, false, ABX_STR("hi"), on_written, &done, NULL) == 0;
    bool is_watched = abx_process_subscribe(p, 0, &ops, &w, &w.sub, NULL) == 0;
    abx_process_close_stdin(p, NULL);
    if (is_watched)
        run_until(has_ended, &w);
    else
        run_until(is_not_running, p);
    assert_int_equal(done.calls, is_fed);
    if (is_watched)
        assert_int_equal(w.next_offset, abx_process_journal_end(p));
    abx_process_unsubscribe(w.sub);
    return is_fed && is_watched && w.lost == 0 && w.bytes == 100002;
}

TEST(process_survives_any_failed_allocation)
{
    set_up();
    assert_true(run_without_memory());
    unsigned n = 1;
    for (; abx_alloc_fail(n); n++)
        run_without_memory();
    assert_true(n > 10);
    assert_true(run_without_memory());
    tear_down();
}
