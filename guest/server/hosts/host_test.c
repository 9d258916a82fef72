/* guest/server/hosts/host_test.c: hosts as they are: Python programs that keep the protocol, and
 * some that do not. */
#include "guest/server/hosts/host.h"

#include "guest/server/hosts/launch.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 20000, CALLS = 8 };

/* What came for one call. */
struct seen {
    struct rig *rig;
    char kind; /* r result, e error, p response, d ended, f failed; 0 nothing yet */
    int status;
    struct abx_buf text; /* value, message, body, pieces or reason */
    char type[64];
    bool has_head, takes_more;
    size_t chunks;
};

struct rig {
    struct abx_loop loop;
    struct abx_timer guard;
    struct abx_arena arena;
    struct abx_host *host;
    char dir[64], file[128];
    struct abx_buf hello, error;
    struct seen seen[CALLS];
    int hellos, failures, exit_code, asks, stops;
    struct abx_buf match;
    bool is_closed, is_gone;
    int want; /* stop the loop after so many events */
};

static void event(struct rig *r)
{
    if (--r->want == 0)
        abx_loop_stop(&r->loop);
}

static void finish(struct seen *s, char kind, int status, struct abx_str type, struct abx_str text)
{
    assert_int_equal(s->kind, 0); /* once */
    s->kind = kind;
    s->status = status;
    snprintf(s->type, sizeof(s->type), "%.*s", ABX_STR_FMT(type));
    abx_buf_put_str(&s->text, text);
    event(s->rig);
}

static void on_result(void *arg, struct abx_str value)
{
    finish(arg, 'r', 200, ABX_STR(""), value);
}

static void on_error(void *arg, const struct abx_host_message *m)
{
    finish(arg, 'e', (int)m->status, m->type, m->message);
}

static void on_response(void *arg, const struct abx_host_message *m)
{
    finish(arg, 'p', (int)m->status, ABX_STR(""), m->body);
}

static void on_head(void *arg, const struct abx_host_message *m)
{
    struct seen *s = arg;
    s->has_head = true;
    s->status = (int)m->status;
}

static bool on_chunk(void *arg, const char *data, size_t len)
{
    struct seen *s = arg;
    abx_buf_put(&s->text, data, len);
    s->chunks++;
    if (!s->takes_more)
        event(s->rig);
    return s->takes_more;
}

static void on_ended(void *arg)
{
    struct seen *s = arg;
    finish(arg, 'd', s->status, ABX_STR(""), ABX_STR(""));
}

static void on_call_failed(void *arg, int status, const char *type, const char *text)
{
    finish(arg, 'f', status, abx_str(type), abx_str(text));
}

static const struct abx_host_call_ops call_ops = {on_result, on_error, on_response,   on_head,
                                                  on_chunk,  on_ended, on_call_failed};

static int on_hello(void *arg, struct abx_str hello, struct abx_error *err)
{
    struct rig *r = arg;
    r->hellos++;
    abx_buf_clear(&r->hello);
    abx_buf_put_str(&r->hello, hello);
    event(r);
    if (abx_str_find(hello, ABX_STR("not-wanted")) >= 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "that name is not wanted");
    return 0;
}

static void on_failed(void *arg, int exit_code, const struct abx_error *err)
{
    struct rig *r = arg;
    r->failures++;
    r->exit_code = exit_code;
    abx_buf_put_c(&r->error, err->msg);
    event(r);
}

static void on_ask(void *arg, const struct abx_host_message *m, void *call_arg)
{
    struct rig *r = arg;
    r->asks++;
    if (abx_str_is(m->what, "\"path\"") && call_arg)
        abx_host_answer(r->host, m->q, true, ABX_STR("\"/judged\""));
    else if (abx_str_is(m->what, "\"policy\""))
        abx_host_answer(r->host, m->q, true,
                        ABX_STR("{\"revision\":\"0123456789abcdef\",\"warnings\":[]}"));
    else
        abx_host_answer(r->host, m->q, false, ABX_STR("\"message\":\"no such question\""));
}

static void on_groups(void *arg, struct abx_str disable)
{
    struct rig *r = arg;
    abx_buf_put_str(&r->error, disable);
}

static void on_stop(void *arg)
{
    struct rig *r = arg;
    r->stops++;
}

static void on_gone(void *arg)
{
    struct rig *r = arg;
    r->is_gone = true;
    event(r);
}

static void on_closed(void *arg)
{
    struct rig *r = arg;
    r->is_closed = true;
    abx_loop_stop(&r->loop);
}

static const struct abx_host_ops host_ops = {on_hello, on_failed, on_ask,   on_groups,
                                             on_stop,  on_gone,   on_closed};

static void on_guard(struct abx_timer *t)
{
    struct rig *r = t->owner;
    abx_loop_stop(&r->loop);
}

static void rig_init(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    assert_int_equal(abx_loop_init(&r->loop, NULL), 0);
    abx_timer_init(&r->guard, &r->loop, on_guard, r);
    abx_arena_init(&r->arena, 1 << 20);
    abx_buf_init(&r->hello, 1 << 20);
    abx_buf_init(&r->error, 1 << 16);
    abx_buf_init(&r->match, 1 << 16);
    for (size_t i = 0; i < CALLS; i++) {
        r->seen[i].rig = r;
        r->seen[i].takes_more = true;
        abx_buf_init(&r->seen[i].text, 64 << 20);
    }
    snprintf(r->dir, sizeof(r->dir), "/tmp/abx-host-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->file, sizeof(r->file), "%s/commands.py", r->dir);
}

/* Runs until @events came. */
static void run(struct rig *r, int events)
{
    r->want = events;
    abx_timer_start(&r->guard, GUARD_MS, 0);
    abx_loop_run(&r->loop);
    abx_timer_stop(&r->guard);
    if (r->want > 0)
        fail_msg("%d events did not come", r->want);
}

static void rig_done(struct rig *r)
{
    if (r->host) {
        abx_host_close(r->host);
        r->want = -1;
        abx_timer_start(&r->guard, GUARD_MS, 0);
        if (!r->is_closed)
            abx_loop_run(&r->loop);
        assert_true(r->is_closed);
    }
    abx_timer_close(&r->guard, NULL);
    abx_loop_done(&r->loop);
    abx_fd_remove_tree(AT_FDCWD, r->dir);
    abx_arena_done(&r->arena);
    abx_buf_done(&r->hello);
    abx_buf_done(&r->error);
    abx_buf_done(&r->match);
    for (size_t i = 0; i < CALLS; i++)
        abx_buf_done(&r->seen[i].text);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void open_with(struct rig *r, const char *text, void (*change)(struct abx_host_options *))
{
    static char path[] = "PATH=/usr/bin:/bin", lang[] = "LANG=C.UTF-8";
    char *env[] = {path, lang, NULL};
    const char *files[] = {r->file};
    struct abx_error err = {0};
    struct abx_host_options o;
    write_file(r->file, text);
    struct abx_host_launch p = {.kind = ABX_HOST_PYTHON,
                                .program = "/usr/bin/python3",
                                .envp = env,
                                .files = files,
                                .file_count = 1,
                                .is_isolated = true,
                                .base_dir = r->dir,
                                .version = "0.4.0a6"};
    assert_int_equal(abx_host_launch_options(&p, &r->arena, &o, &err), 0);
    o.restart_min_ms = 10;
    if (change)
        change(&o);
    if (abx_host_open(&r->loop, &o, &host_ops, r, &r->host, &err) < 0)
        fail_msg("%s", err.msg);
}

static void start(struct rig *r, const char *text)
{
    rig_init(r);
    open_with(r, text, NULL);
    run(r, 1);
}

static struct abx_host_call *call(struct rig *r, size_t i, const char *command, const char *args)
{
    int why = 0;
    struct abx_host_call_text t = {
        .command = abx_str(command), .args = abx_str(args), .ctx = ABX_STR("{}")};
    struct abx_host_call *c = abx_host_call_start(r->host, &t, &call_ops, &r->seen[i], &why);
    if (c == NULL)
        fail_msg("no call: %d", why);
    return c;
}

static void expect(const struct seen *s, char kind, int status, const char *part)
{
    const char *text = s->text.len ? s->text.ptr : "";
    if (s->kind != kind || s->status != status || strstr(text, part) == NULL)
        fail_msg("want %c %d with %s, got %c %d %s %s", kind, status, part, s->kind ? s->kind : '-',
                 s->status, s->type, text);
}

#define HEAD                                                                                       \
    "from agent_sandbox.server import *\nfrom agent_sandbox.server import command, "               \
    "default_table, start\nimport os, time, threading\n"

TEST(host_says_what_a_file_registers_and_runs_it)
{
    struct rig r;
    start(&r,
          HEAD "@command('add', description='sum')\ndef add(a: int, b: int = 2): return a + b\n");
    assert_non_null(
        strstr(r.hello.ptr, "{\"name\":\"add\",\"description\":\"sum\",\"hidden\":false"));
    call(&r, 0, "add", "{\"a\": 123456789012345678901234567890}");
    call(&r, 1, "add", "{\"a\": \"x\"}");
    call(&r, 2, "add", "{\"c\": 1}");
    call(&r, 3, "add", "");
    run(&r, 4);
    expect(&r.seen[0], 'r', 200, "123456789012345678901234567892");
    expect(&r.seen[1], 'e', 400, "Cannot convert argument 'a' to integer");
    expect(&r.seen[2], 'e', 400, "Unexpected argument(s): ['c']; declared: ['a', 'b']");
    expect(&r.seen[3], 'e', 400, "Required argument 'a' missing");
    rig_done(&r);
}

TEST(host_that_can_not_load_ends_with_its_own_code)
{
    static const struct {
        const char *text;
        int code;
    } rows[] = {{"raise ValueError('x')", 1},
                {"import sys\nsys.exit(7)", 7},
                {"import sys\nsys.exit('text')", 1},
                {"this is no python", 1}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct rig r;
        start(&r, rows[i].text);
        assert_int_equal(r.failures, 1);
        assert_int_equal(r.exit_code, rows[i].code);
        assert_string_equal(r.error.len ? r.error.ptr : "", "");
        rig_done(&r);
    }
}

TEST(host_is_rejected_with_the_reason)
{
    struct rig r;
    rig_init(&r);
    open_with(&r, HEAD "@command('not-wanted')\ndef f(): pass\n", NULL);
    run(&r, 2);
    assert_int_equal(r.failures, 1);
    assert_string_equal(r.error.ptr, "that name is not wanted");
    rig_done(&r);
}

TEST(host_crash_fails_its_calls_and_restarts)
{
    struct rig r;
    start(&r, HEAD
          "@command('die')\ndef die(): os._exit(9)\n@command('slow')\ndef slow(): time.sleep(60)\n"
          "@command('ok')\ndef ok(): return 'fine'\n");
    call(&r, 0, "slow", "{}");
    call(&r, 1, "die", "{}");
    run(&r, 2);
    expect(&r.seen[0], 'f', 502, "exit status 9");
    expect(&r.seen[1], 'f', 502, "exit status 9");
    assert_string_equal(r.seen[1].type, "HostCrashed");
    call(&r, 2, "ok", "{}"); /* waits for the new one */
    run(&r, 1);
    expect(&r.seen[2], 'r', 200, "fine");
    assert_int_equal(r.hellos, 1);
    kill(abx_host_pid(r.host), SIGKILL);
    call(&r, 3, "ok", "{}");
    run(&r, 1);
    assert_true(r.seen[3].kind == 'f' || r.seen[3].kind == 'r');
    rig_done(&r);
}

TEST(host_that_says_something_else_after_a_restart_is_refused)
{
    struct rig r;
    start(&r, HEAD "@command('die')\ndef die(): os._exit(9)\n");
    write_file(r.file, HEAD "@command('other')\ndef other(): pass\n");
    call(&r, 0, "die", "{}");
    run(&r, 1);
    call(&r, 1, "other", "{}");
    run(&r, 1);
    expect(&r.seen[1], 'f', 503, "restarted");
    rig_done(&r);
}

static void hasty(struct abx_host_options *o)
{
    o->deaf_ms = 100;
}

TEST(call_over_its_time_is_cancelled_and_a_deaf_host_is_killed)
{
    struct rig r;
    int why;
    rig_init(&r);
    open_with(&r,
              HEAD
              "@command('spin')\ndef spin():\n  while True: time.sleep(0.01)\n"
              "@command('deaf')\ndef deaf(): time.sleep(60)\n@command('ok')\ndef ok(): return 1\n",
              hasty);
    run(&r, 1);
    struct abx_host_call_text t = {
        .command = ABX_STR("spin"), .ctx = ABX_STR("{}"), .deadline_ms = 100};
    assert_non_null(abx_host_call_start(r.host, &t, &call_ops, &r.seen[0], &why));
    run(&r, 1);
    expect(&r.seen[0], 'f', 504, "longer");
    int pid = abx_host_pid(r.host);
    call(&r, 1, "ok", "{}"); /* the thread took the exception: the host lives */
    run(&r, 1);
    expect(&r.seen[1], 'r', 200, "1");
    assert_int_equal(abx_host_pid(r.host), pid);
    t.command = ABX_STR("deaf");
    assert_non_null(abx_host_call_start(r.host, &t, &call_ops, &r.seen[2], &why));
    call(&r, 3, "deaf", "{}");
    run(&r, 2);
    expect(&r.seen[2], 'f', 504, "longer");
    expect(&r.seen[3], 'f', 502, "time is over");
    assert_string_equal(r.seen[3].type, "HostRestarted");
    rig_done(&r);
}

static void speaks(struct abx_host_options *o)
{
    /* the text of the rig's file is a shell script here */
    static char name[] = "sh", path[128];
    static char *argv[] = {name, NULL, NULL};
    snprintf(path, sizeof(path), "%s/commands.py", o->base_dir.ptr);
    argv[1] = path;
    o->program = "/bin/sh";
    o->argv = argv;
    o->archive = NULL;
}

TEST(host_that_breaks_the_protocol_is_killed)
{
    static const char *const bad[] = {
        "echo 'no json' >&3; read x <&3",
        "echo '{\"op\":\"result\",\"id\":1,\"value\":1}' >&3; read x <&3",
        "echo '{\"op\":\"hello\"}' >&3; echo '{\"op\":\"hello\"}' >&3; read x <&3; read x <&3",
        "echo '{\"op\":\"end\",\"id\":1}' >&3; read x <&3",
        "printf '{\"op\":\"hello\"}' >&3; exec 3>&-; sleep 60",
    };
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        struct rig r;
        rig_init(&r);
        open_with(&r, bad[i], speaks);
        run(&r, 1);
        if (r.hellos == 0)
            assert_int_equal(r.exit_code, 1);
        rig_done(&r);
    }
}

TEST(host_streams_pause_and_go_on)
{
    struct rig r;
    int why;
    start(&r, HEAD "@command('many')\ndef many():\n  for i in range(2000): yield 'x' * 1000\n"
                   "@command('ok')\ndef ok(): return 1\n");
    struct abx_host_call_text t = {
        .command = ABX_STR("many"), .ctx = ABX_STR("{}"), .stream = true};
    r.seen[0].takes_more = false;
    struct abx_host_call *c = abx_host_call_start(r.host, &t, &call_ops, &r.seen[0], &why);
    assert_non_null(c);
    run(&r, 1);
    call(&r, 1, "ok", "{}"); /* another call is not held up by it */
    for (int i = 0; r.seen[1].kind == 0 && i < 5000; i++)
        run(&r, 1);
    expect(&r.seen[1], 'r', 200, "1");
    assert_true(r.seen[0].chunks < 2000);
    r.seen[0].takes_more = true;
    abx_host_call_resume(c);
    run(&r, 1);
    assert_int_equal(r.seen[0].kind, 'd');
    assert_int_equal(r.seen[0].text.len, 2000 * (1000 + 2 + 8));
    rig_done(&r);
}

TEST(host_cancels_what_nobody_waits_for)
{
    struct rig r;
    int why;
    start(&r, HEAD "state = []\n@command('gen')\ndef gen():\n  try:\n    while True: yield 1\n  "
                   "finally: state.append('closed')\n"
                   "@command('state')\ndef get():\n  end = time.time() + 5\n  while not state and "
                   "time.time() < end: time.sleep(0.01)\n  return state\n");
    struct abx_host_call_text t = {.command = ABX_STR("gen"), .ctx = ABX_STR("{}"), .stream = true};
    r.seen[0].takes_more = false;
    struct abx_host_call *c = abx_host_call_start(r.host, &t, &call_ops, &r.seen[0], &why);
    run(&r, 1);
    abx_host_call_cancel(c);
    call(&r, 1, "state", "{}");
    run(&r, 1);
    expect(&r.seen[1], 'r', 200, "closed");
    rig_done(&r);
}

TEST(host_takes_no_more_calls_than_its_bound)
{
    struct rig r;
    int why = 0, n = 0;
    static struct seen many[ABX_HOST_CALLS_MAX];
    start(&r,
          HEAD "gate = threading.Event()\n@command('wait')\ndef wait(): gate.wait(20); return 1\n");
    struct abx_host_call_text t = {.command = ABX_STR("wait"), .ctx = ABX_STR("{}")};
    for (; n < ABX_HOST_CALLS_MAX; n++) {
        many[n] = (struct seen){.rig = &r};
        abx_buf_init(&many[n].text, 4096);
        assert_non_null(abx_host_call_start(r.host, &t, &call_ops, &many[n], &why));
    }
    assert_null(abx_host_call_start(r.host, &t, &call_ops, &r.seen[0], &why));
    assert_int_equal(why, 429);
    kill(abx_host_pid(r.host), SIGKILL);
    run(&r, ABX_HOST_CALLS_MAX);
    for (n = 0; n < ABX_HOST_CALLS_MAX; n++) {
        assert_int_equal(many[n].status, 502);
        abx_buf_done(&many[n].text);
    }
    rig_done(&r);
}

static void on_match(void *arg, struct abx_str params)
{
    struct rig *r = arg;
    abx_buf_clear(&r->match);
    abx_buf_put_str(&r->match, params);
    event(r);
}

TEST(host_answers_whose_path_it_is_and_asks_for_paths)
{
    struct rig r;
    int why;
    start(
        &r, HEAD
        "t = default_table()\n@t.route('GET', '/d/(?P<n>[0-9]+)', group=CapabilityGroup.COMMANDS)\n"
        "def d(q): return ServerResponse.ok({'p': q.context['policy'].resolve_path('x'), 'n': "
        "q.path_params})\n");
    assert_non_null(strstr(r.hello.len ? r.hello.ptr : "", "\"regex\":true"));
    assert_true(abx_host_match(r.host, 0, ABX_STR("/d/42"), on_match, &r) > 0);
    run(&r, 1);
    assert_string_equal(r.match.ptr, "{\"n\":\"42\"}");
    assert_true(abx_host_match(r.host, 0, ABX_STR("/d/x"), on_match, &r) > 0);
    run(&r, 1);
    assert_string_equal(r.match.ptr, "null");
    struct abx_host_call_text t = {.n = 0,
                                   .method = ABX_STR("GET"),
                                   .path = ABX_STR("/d/42"),
                                   .query = ABX_STR("{}"),
                                   .headers = ABX_STR("{}"),
                                   .path_params = ABX_STR("{\"n\":\"42\"}"),
                                   .ctx = ABX_STR("{\"endpoint\":\"e\"}")};
    assert_non_null(abx_host_call_start(r.host, &t, &call_ops, &r.seen[0], &why));
    run(&r, 1);
    expect(&r.seen[0], 'p', 200, "{\"p\": \"/judged\", \"n\": {\"n\": \"42\"}}");
    assert_int_equal(r.asks, 1);
    rig_done(&r);
}

TEST(host_children_do_not_get_the_socket)
{
    struct rig r;
    start(&r, HEAD "import subprocess\n@command('fds')\ndef fds():\n"
                   "  return [subprocess.run(['sh', '-c', 'echo spoof >&3; echo $?'], "
                   "capture_output=True, close_fds=False, text=True).stdout.strip(),\n"
                   "    os.system('echo x >&3 2>/dev/null'), 'ABX_HOST_FD' in os.environ]\n");
    call(&r, 0, "fds", "{}");
    run(&r, 1);
    assert_int_equal(r.seen[0].kind, 'r');
    assert_null(strstr(r.seen[0].text.ptr, "\"0\""));
    assert_non_null(strstr(r.seen[0].text.ptr, "false]"));
    rig_done(&r);
}

TEST(host_that_was_started_by_hand_is_attached)
{
    struct rig r;
    rig_init(&r);
    int ends[2];
    struct abx_error err = {0};
    struct abx_str hello = ABX_STR("{\"op\":\"hello\",\"protocol\":1}\n");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct abx_host_options o = {
        .name = "x", .attached_fd = ends[0], .base_dir = ABX_STR("/"), .version = ABX_STR("1")};
    assert_int_equal(abx_host_open(&r.loop, &o, &host_ops, &r, &r.host, &err), 0);
    assert_int_equal(write(ends[1], hello.ptr, hello.len), (ssize_t)hello.len);
    run(&r, 1);
    char text[128] = "";
    assert_true(read(ends[1], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "\"op\":\"ready\""));
    close(ends[1]);
    run(&r, 1);
    assert_true(r.is_gone);
    rig_done(&r);
}
