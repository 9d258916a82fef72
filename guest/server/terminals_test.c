/* guest/server/terminals_test.c: terminals that nobody looks at, under a clock of the test's. */
#include "guest/caps/run.h"
#include "guest/server/terminals_priv.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 20000, LOOK_MS = 20 };

struct rig {
    struct abx__server server;
    struct abx_timer look;
    struct abx_process *process; /* the loop runs until it has ended */
    int looks;
};

static void on_look(struct abx_timer *t)
{
    struct rig *r = t->owner;
    if (!abx_process_is_running(r->process) || ++r->looks == GUARD_MS / LOOK_MS)
        abx_loop_stop(&r->server.loop);
}

static void begin(struct rig *r)
{
    struct abx_error err = {0};
    abx_list_init(&r->server.started);
    abx_list_init(&r->server.terminals);
    abx__tickets_init(&r->server.tickets);
    r->server.path = "/usr/bin:/bin";
    assert_int_equal(abx_loop_init(&r->server.loop, &err), 0);
    assert_int_equal(abx__processes_open(&r->server, &err), 0);
    abx_timer_init(&r->look, &r->server.loop, on_look, r);
}

static struct abx__terminal *terminal_of(struct rig *r)
{
    static char name[] = "cat", *argv[] = {name, NULL}, *envp[] = {NULL};
    struct abx_error err = {0};
    struct abx_run_spec spec = {.path = "/bin/cat", .argv = argv, .envp = envp};
    struct abx_process_spec process = {
        .program = &spec, .cmd = ABX_STR("cat"), .has_pty = true, .cols = 80, .rows = 24};
    struct abx__terminal *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    t->server = &r->server;
    t->owner = abx_str_dup(ABX_STR("anonymous"));
    t->detached_ms = abx_time_mono_ms();
    t->refs = 1;
    abx_list_init(&t->viewers);
    assert_int_equal(abx_process_start(r->server.procs, &process, &t->process, &err), 0);
    abx_process_ref(t->process);
    abx__terminal_add(t);
    return t;
}

static void end(struct rig *r)
{
    abx_timer_close(&r->look, NULL);
    abx_process_unref(r->process);
    abx__processes_stop(&r->server);
    abx_loop_run(&r->server.loop);
    abx_loop_done(&r->server.loop);
}

TEST(d53_a_terminal_without_a_viewer_ends_after_half_an_hour)
{
    struct rig r = {0};
    begin(&r);
    struct abx__terminal *t = terminal_of(&r);
    int64_t left = t->detached_ms, limit = 1800 * 1000;
    r.process = abx_process_ref(t->process);
    abx__terminals_sweep(&r.server, left + limit - 1);
    assert_true(abx__terminal_is_alive(t));
    t->viewer_count = 1;
    abx__terminals_sweep(&r.server, left + 10 * limit);
    assert_true(abx__terminal_is_alive(t));
    t->viewer_count = 0;
    t->detached_ms = left + 10 * limit; /* as the last viewer's leaving does */
    abx__terminals_sweep(&r.server, left + 11 * limit - 1);
    assert_true(abx__terminal_is_alive(t));
    abx__terminals_sweep(&r.server, left + 11 * limit);
    assert_ptr_equal(r.server.terminals.next, &r.server.terminals);
    abx_timer_start(&r.look, LOOK_MS, LOOK_MS);
    abx_loop_run(&r.server.loop);
    assert_false(abx_process_is_running(r.process));
    end(&r);
}
