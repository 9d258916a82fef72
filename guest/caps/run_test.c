/* guest/caps/run_test.c: programs run to their end: output, ends, deadlines, back-pressure. */
#include "guest/caps/run.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { GUARD_MS = 20000 };

struct rig {
    struct abx_loop loop;
    struct abx_buf out[2];
    struct abx_run_end end;
    int ends, chunks;
    bool pauses;
    struct abx_run *run;
};

static bool on_data(struct abx_run *run, enum abx_output kind, struct abx_str data)
{
    struct rig *r = abx_run_owner(run);
    r->chunks++;
    abx_buf_put_str(&r->out[kind == ABX_OUTPUT_STDERR], data);
    return !r->pauses;
}

static void on_end(struct abx_run *run, const struct abx_run_end *end)
{
    struct rig *r = abx_run_owner(run);
    r->ends++;
    r->end = *end;
}

static const struct abx_run_ops ops = {on_data, on_end};

static void rig_open(struct rig *r)
{
    *r = (struct rig){0};
    assert_int_equal(abx_loop_init(&r->loop, NULL), 0);
    abx_buf_init(&r->out[0], 64 << 20);
    abx_buf_init(&r->out[1], 64 << 20);
}

static void rig_close(struct rig *r)
{
    abx_run_close(r->run);
    abx_loop_run(&r->loop);
    abx_loop_done(&r->loop);
    abx_buf_done(&r->out[0]);
    abx_buf_done(&r->out[1]);
}

static int start(struct rig *r, const char *script, uint64_t timeout_ms, struct abx_error *err)
{
    char sh[] = "sh", option[] = "-c", text[512], path[] = "PATH=/usr/bin:/bin", *env[] = {path, 0};
    char *argv[] = {sh, option, text, NULL};
    snprintf(text, sizeof(text), "%s", script);
    struct abx_run_spec spec = {
        .path = "/bin/sh", .argv = argv, .envp = env, .cwd = "/", .timeout_ms = timeout_ms};
    return abx_run_start(&r->loop, &spec, &ops, r, &r->run, err);
}

static void wait_end(struct rig *r)
{
    int64_t guard = abx_time_mono_ms() + GUARD_MS;
    while (r->ends == 0) {
        assert_true(abx_time_mono_ms() < guard);
        uv_run(&r->loop.uv, UV_RUN_ONCE);
    }
}

/* A zombie counts: in a test nobody may be there to reap it. */
static bool is_dead(pid_t pid)
{
    char name[64], line[512] = "";
    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return true;
    bool is_read = fgets(line, sizeof(line), f) != NULL;
    fclose(f);
    return !is_read || strstr(line, ") Z") != NULL;
}

static void wait_dead(pid_t pid)
{
    for (int64_t guard = abx_time_mono_ms() + GUARD_MS; !is_dead(pid); usleep(1000))
        assert_true(abx_time_mono_ms() < guard);
}

static const struct {
    const char *script, *out, *err;
    int exit_code;
} rows[] = {
    {"echo out; echo err >&2; exit 3", "out\n", "err\n", 3},
    {"true", "", "", 0},
    {"kill -9 $$", "", "", -9},
    {"cat; pwd; tr '\\0' ' ' </proc/self/stat | cut -d' ' -f5 | grep -qx $$ && echo own",
     "/\nown\n", "", 0},
};

TEST(output_and_exit_codes_come_as_they_are)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig r;
        rig_open(&r);
        assert_int_equal(start(&r, rows[i].script, 0, NULL), 0);
        wait_end(&r);
        assert_string_equal(r.out[0].ptr ? r.out[0].ptr : "", rows[i].out);
        assert_string_equal(r.out[1].ptr ? r.out[1].ptr : "", rows[i].err);
        assert_int_equal(r.end.exit_code, rows[i].exit_code);
        assert_false(r.end.by_deadline || r.end.is_output_open);
        rig_close(&r);
    }
}

TEST(a_deadline_kills_the_whole_group)
{
    struct rig r;
    char *end;
    rig_open(&r);
    assert_int_equal(start(&r, "sleep 60 & echo $!; wait", 200, NULL), 0);
    wait_end(&r);
    assert_true(r.end.by_deadline);
    assert_int_equal(r.end.exit_code, -SIGKILL);
    pid_t child = (pid_t)strtol(r.out[0].ptr, &end, 10);
    wait_dead(child);
    rig_close(&r);
}

TEST(a_program_in_the_background_does_not_hold_the_end)
{
    struct rig r;
    rig_open(&r);
    int64_t began = abx_time_mono_ms();
    assert_int_equal(start(&r, "sleep 30 & echo started; exit 5", 0, NULL), 0);
    wait_end(&r);
    assert_true(abx_time_mono_ms() - began < 15000);
    assert_string_equal(r.out[0].ptr, "started\n");
    assert_int_equal(r.end.exit_code, 5);
    assert_true(r.end.is_output_open);
    rig_close(&r);
}

TEST(a_slow_taker_stops_the_program)
{
    struct rig r;
    rig_open(&r);
    r.pauses = true;
    assert_int_equal(start(&r, "head -c 3000000 /dev/zero; exit 4", 0, NULL), 0);
    int64_t guard = abx_time_mono_ms() + GUARD_MS;
    while (r.out[0].len < 3000000) {
        int chunks = r.chunks;
        assert_true(abx_time_mono_ms() < guard);
        uv_run(&r.loop.uv, UV_RUN_ONCE);
        for (int i = 0; i < 10 && r.chunks > chunks; i++) { /* nothing more comes by itself */
            chunks = r.chunks;
            uv_run(&r.loop.uv, UV_RUN_NOWAIT);
            assert_int_equal(r.chunks, chunks);
        }
        assert_int_equal(r.ends, 0);
        abx_run_resume(r.run);
    }
    r.pauses = false;
    abx_run_resume(r.run);
    wait_end(&r);
    assert_int_equal(r.out[0].len, 3000000);
    assert_int_equal(r.end.exit_code, 4);
    rig_close(&r);
}

TEST(closing_kills_and_tells_nothing)
{
    struct rig r;
    rig_open(&r);
    assert_int_equal(start(&r, "sleep 60", 0, NULL), 0);
    pid_t pid = abx_run_pid(r.run);
    abx_run_close(r.run);
    r.run = NULL;
    wait_dead(pid);
    assert_int_equal(r.ends, 0);
    rig_close(&r);
}

TEST(what_can_not_start_says_why)
{
    static const struct {
        const char *path;
        int errnum;
    } cases[] = {{"/no/such/program", ENOENT}, {"/etc", EACCES}, {"/etc/passwd", EACCES}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig r;
        struct abx_error err = {0};
        char name[] = "x", *argv[] = {name, NULL}, *env[] = {NULL};
        struct abx_run_spec spec = {.path = cases[i].path, .argv = argv, .envp = env};
        rig_open(&r);
        assert_int_equal(abx_run_start(&r.loop, &spec, &ops, &r, &r.run, &err), -1);
        assert_int_equal(err.sys, cases[i].errnum);
        rig_close(&r);
    }
}
