/* guest/caps/process_program_test.c: processes of the table that are started by a ready program. */
#include "guest/caps/process_rig_priv.h"
#include "guest/caps/run.h"

#include <errno.h>

static char path_var[] = "PATH=/usr/bin:/bin", own_var[] = "OWN=yes";
static char *const env[] = {path_var, own_var, NULL};

static void on_output(void *arg, enum abx_output kind, struct abx_str data)
{
    struct abx_buf *out = arg;
    abx_buf_put_byte(out, "oep"[kind]);
    abx_buf_put_str(out, data);
}

static void on_ended(void *arg)
{
    abx_buf_put_byte(arg, '.');
}

static const struct abx_process_tap tap = {on_output, on_ended};

/* Starts `sh -c TEXT`; the spec may be filled by the caller before. */
static struct abx_process *start_program(struct abx_process_spec *spec, const char *text)
{
    char name[] = "sh", option[] = "-c", script[512];
    snprintf(script, sizeof(script), "%s", text);
    char *argv[] = {name, option, script, NULL};
    struct abx_run_spec program = {.path = "/bin/sh", .argv = argv, .envp = env, .cwd = "/"};
    spec->program = &program;
    spec->cmd = abx_str(text);
    struct abx_process *p = start(spec);
    spec->program = NULL;
    return p;
}

TEST(process_program_runs_with_its_own_environment_and_folder)
{
    set_up();
    struct abx_buf out;
    struct watcher w;
    abx_buf_init(&out, 4096);
    struct abx_process_spec spec = {.tap = &tap, .tap_arg = &out};
    struct abx_process *p = start_program(&spec, "echo $OWN $PWD; exec >&-; echo e >&2; exit 3");
    watch(&w, p, 0);
    run_loop();
    assert_true(w.end.exited);
    assert_int_equal(w.end.exit_code, 3);
    assert_int_equal(w.end.signum, 0);
    assert_text(&w.out[0], "yes /\n");
    assert_text(&w.out[1], "e\n");
    assert_int_equal(out.len, strlen("oyes /\nee\n.")); /* the two pipes in any order */
    assert_true(
        abx_str_is(abx_process_config(p)->cmd, "echo $OWN $PWD; exec >&-; echo e >&2; exit 3"));
    abx_buf_done(&out);
    watcher_done(&w);
    tear_down();
}

TEST(process_program_that_can_not_be_executed_is_no_process)
{
    static const struct {
        const char *path;
        int sys;
    } rows[] = {{"/none/such", ENOENT}, {"/etc/passwd", EACCES}, {"/tmp", EACCES}};
    set_up();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        for (int pty = 0; pty < 2; pty++) {
            char name[] = "x", *argv[] = {name, NULL};
            struct abx_run_spec program = {.path = rows[i].path, .argv = argv, .envp = env};
            struct abx_process_spec spec = {
                .program = &program, .cmd = ABX_STR("x"), .has_pty = pty};
            struct abx_process *p = NULL;
            struct abx_error err = {0};
            assert_int_equal(abx_process_start(table, &spec, &p, &err), -1);
            assert_int_equal(err.sys, rows[i].sys);
        }
    assert_int_equal(abx_procs_live_count(table), 0);
    tear_down();
}

TEST(process_program_ended_by_a_signal_tells_which)
{
    set_up();
    struct watcher w;
    struct abx_process_spec spec = {0};
    watch(&w, start_program(&spec, "kill -TERM $$"), 0);
    run_loop();
    assert_false(w.end.exited);
    assert_int_equal(w.end.signum, SIGTERM);
    watcher_done(&w);
    tear_down();
}

TEST(process_output_can_be_forgotten)
{
    set_up();
    struct abx_buf out;
    struct watcher w;
    abx_buf_init(&out, 4096);
    struct abx_process_spec spec = {.tap = &tap, .tap_arg = &out};
    struct abx_process *p = start_program(&spec, "echo gone");
    abx_process_untap(p);
    watch(&w, p, 0);
    run_loop();
    assert_text(&w.out[0], "gone\n");
    assert_int_equal(out.len, 0);
    abx_buf_done(&out);
    watcher_done(&w);
    tear_down();
}

/* Waits until the terminal has said @text. */
static void wait_text(struct watcher *w, const char *text)
{
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (w->out[ABX_OUTPUT_PTY].len == 0 || strstr(w->out[ABX_OUTPUT_PTY].ptr, text) == NULL) {
        assert_true(abx_time_mono_ms() < until);
        uv_run(&loop.uv, UV_RUN_ONCE);
    }
}

TEST(process_terminal_signal_reaches_the_foreground_job)
{
    set_up();
    struct watcher w;
    struct abx_process_spec spec = {.has_pty = true};
    /* a job of its own, as an interactive shell makes it */
    struct abx_process *p = start_program(
        &spec,
        "trap : INT; set -m; sh -c 'trap \"echo hit; exit\" INT; echo up; read x'; sleep 7777");
    watch(&w, p, 0);
    wait_text(&w, "up");
    assert_int_equal(abx_process_signal_terminal(p, SIGINT, NULL), 0);
    wait_text(&w, "hit");
    assert_int_equal(abx_process_signal_leader(p, SIGKILL, NULL), 0);
    run_loop();
    assert_int_equal(w.end.signum, SIGKILL);
    assert_int_equal(abx_process_signal_leader(p, SIGKILL, NULL), -1);
    watcher_done(&w);
    tear_down();
}

/* As from the keyboard: a shell that had it too would forget what was typed ahead. */
TEST(process_terminal_signal_of_a_key_is_the_jobs_alone)
{
    set_up();
    struct watcher w;
    struct abx_process_spec spec = {.has_pty = true};
    struct abx_process *p = start_program(
        &spec, "trap 'echo leader' INT TERM; set -m; sh -c 'trap \"echo hit; exit\" INT TERM; echo "
               "up; read x'; echo one; sh -c 'trap \"echo hit; exit\" TERM; echo again; read x'; "
               "echo two; sleep 7777");
    watch(&w, p, 0);
    wait_text(&w, "up");
    assert_int_equal(abx_process_signal_terminal(p, SIGINT, NULL), 0);
    wait_text(&w, "again");
    assert_non_null(strstr(w.out[ABX_OUTPUT_PTY].ptr, "hit"));
    assert_null(strstr(w.out[ABX_OUTPUT_PTY].ptr, "leader"));
    assert_int_equal(abx_process_signal_terminal(p, SIGTERM, NULL), 0);
    wait_text(&w, "two");
    assert_non_null(strstr(w.out[ABX_OUTPUT_PTY].ptr, "leader"));
    assert_int_equal(abx_process_signal_leader(p, SIGKILL, NULL), 0);
    run_loop();
    watcher_done(&w);
    tear_down();
}

TEST(process_without_a_terminal_takes_no_terminal_signal)
{
    set_up();
    struct abx_error err = {0};
    struct abx_process_spec spec = {0};
    struct abx_process *p = start_program(&spec, "exec sleep 7777");
    assert_int_equal(abx_process_signal_terminal(p, SIGINT, &err), -1);
    assert_int_equal(err.code, ABX_FAILED_PRECONDITION);
    assert_int_equal(abx_process_signal_leader(p, 65, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    tear_down();
}

TEST(process_session_ends_with_the_jobs_that_left_its_group)
{
    set_up();
    struct watcher w;
    struct abx_process_spec spec = {.has_pty = true};
    struct abx_process *p =
        start_program(&spec, "set -m; trap '' HUP; sleep 7777 & echo $!:; trap '' HUP; wait");
    watch(&w, p, 0);
    wait_text(&w, ":");
    int job = 0;
    assert_int_equal(sscanf(w.out[ABX_OUTPUT_PTY].ptr, "%d:", &job), 1);
    assert_false(is_dead(job));
    abx_process_kill_session(p);
    run_loop();
    assert_int_equal(w.end.signum, SIGKILL);
    wait_dead(job);
    watcher_done(&w);
    tear_down();
}
