/* guest/server/browser.c: the browser group: checked here, done by a Node host that drives Chromium
 * and is started at the first call. Loop thread. server.md 5, server-api.md 4.8, security S19. */
#include "guest/server/chromium.h"
#include "guest/server/commands_priv.h"
#include "guest/server/view.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/policy/url_guard.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    START_MS = 30000,    /* to the hello of the host */
    QUEUE_MS = 120000,   /* for the launch and for calls of the same caller that come first */
    MILLIS_MAX = 600000, /* of a `timeout` */
    ARGS_BYTES = 16 << 20,
    ASK_ARENA = 1 << 20,
};

struct abx__browser {
    struct abx__server *server;
    struct abx_host *host;
    struct abx_defer drop; /* a host that did not start goes, from the loop */
    char why[240];         /* it did not start */
};

/* ---- what the host asks ---- */

/* Pages and connections are judged by the rule of browser_navigate as it is now. */
static const struct abx_policy_rule *navigate_rule(const struct abx_policy *p)
{
    return abx_policy_rule(p, ABX_STR("browser_navigate"));
}

static bool check_address(const struct abx_policy_rule *rule, const char *text,
                          struct abx_policy_verdict *v)
{
    unsigned char address[16] = {[10] = 0xff, [11] = 0xff};
    if (inet_pton(AF_INET, text, address + 12) == 1 || inet_pton(AF_INET6, text, address) == 1)
        return abx_policy_address_check(rule, address, v);
    return abx_policy_deny(v, ABX_POLICY_URL_INVALID, "no address");
}

static bool check_port(const struct abx_policy *p, uint32_t port, struct abx_policy_verdict *v)
{
    return abx__chromium_may_connect(p, port) ||
           abx_policy_deny(v, ABX_POLICY_URL_NOT_ALLOWED,
                           "confine: port %u is not among network.connect_ports", port);
}

static bool check(const struct abx_policy *p, struct abx_str what, const char *text,
                  struct abx_policy_verdict *v)
{
    const struct abx_policy_rule *rule = navigate_rule(p);
    uint32_t port;
    struct abx_arena a;
    struct abx_policy_url url;
    bool yes;
    abx_arena_init(&a, ASK_ARENA);
    if (rule == NULL)
        yes = abx_policy_deny(v, ABX_POLICY_URL_INVALID, "no page can be opened");
    else if (abx_str_is(what, "\"port\""))
        yes = abx_parse_u32(abx_str(text), &port) == 0
                  ? check_port(p, port, v)
                  : abx_policy_deny(v, ABX_POLICY_URL_INVALID, "no port");
    else if (abx_str_is(what, "\"address\""))
        yes = check_address(rule, text, v);
    else if (abx_str_is(what, "\"origin\""))
        yes = abx_policy_origin_check(rule, abx_str(text), &a, v);
    else if (abx_str_is(what, "\"url\""))
        yes = abx_policy_url_check(rule, abx_str(text), &a, &url, v);
    else
        yes = abx_policy_deny(v, ABX_POLICY_URL_INVALID, "no such question");
    abx_arena_done(&a);
    return yes;
}

static void on_ask(void *arg, const struct abx_host_message *m, void *call_arg)
{
    struct abx__browser *b = arg;
    struct abx_policy_verdict v = {0};
    struct abx_json_writer w;
    ABX_AUTO_BUF text, body;
    (void)call_arg;
    abx_buf_init(&text, ABX_URL_MAX + 1);
    abx_buf_init(&body, 65536);
    if (!m->has_q)
        return;
    if (abx_host_text(m->path, &text) < 0)
        abx_policy_deny(&v, ABX_POLICY_URL_INVALID, "the URL is too long");
    else if (check(b->server->policy, m->what, text.len ? text.ptr : "", &v)) {
        abx_host_answer(b->host, m->q, true, ABX_STR("true"));
        return;
    }
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "status", abx_policy_code_status(v.code));
    abx_json_kv_c(&w, "type", abx_policy_code_type(v.code));
    abx_json_kv_c(&w, "code", abx_policy_code_name(v.code));
    abx_json_kv_c(&w, "message", v.text);
    abx_json_end_object(&w);
    abx_host_answer(b->host, m->q, false,
                    abx_str_sub(abx_buf_str(&body), 1, body.len ? body.len - 2 : 0));
}

/* ---- the host ---- */

static int on_hello(void *arg, struct abx_str hello, struct abx_error *err)
{
    (void)arg;
    (void)hello;
    (void)err;
    return 0;
}

static void drop_host(struct abx_defer *d)
{
    struct abx__browser *b = d->owner;
    abx_host_close(b->host);
}

/* The next call tries again: somebody may have installed what was missing. */
static void on_failed(void *arg, int exit_code, const struct abx_error *err)
{
    struct abx__browser *b = arg;
    snprintf(b->why, sizeof(b->why), "the host of the browser does not start: exit %d %.180s",
             exit_code, err->msg);
    abx_defer_start(&b->drop, &b->server->loop, drop_host, b);
}

static void on_groups(void *arg, struct abx_str disable)
{
    (void)arg;
    (void)disable;
}

static void on_stop(void *arg)
{
    (void)arg;
}

static void on_closed(void *arg)
{
    struct abx__browser *b = arg;
    abx_defer_cancel(&b->drop);
    if (b->server->browser == b)
        b->server->browser = NULL;
    free(b);
}

static const struct abx_host_ops host_ops = {on_hello, on_failed, on_ask,   on_groups,
                                             on_stop,  on_stop,   on_closed};

static int open_host(struct abx__browser *b, struct abx_error *err)
{
    static const char *const files[] = {"browser"};
    struct abx__server *s = b->server;
    struct abx_arena a;
    struct abx_host_options o;
    struct abx_host_launch l = {.kind = ABX_HOST_BROWSER,
                                .search_path = s->path,
                                .files = files,
                                .file_count = 1,
                                .is_isolated = abx__hosts_are_isolated(s),
                                .base_dir = ABX_USER_HOME,
                                .version = ABX_SERVER_COMPAT,
                                .is_in_sandbox = abx__browser_is_in_sandbox()};
    abx_arena_init(&a, 4 << 20);
    if (abx__chromium_is_held(s->policy)) {
        l.home = ABX__CHROMIUM_HOME;
        l.wall = abx__chromium_wall(&a);
    }
    l.envp = abx__hosts_environment(s, &a);
    int r = l.envp && !l.home == !l.wall ? abx_host_launch_options(&l, &a, &o, err)
                                         : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    if (r == 0) {
        abx__views_refresh(s->policy);
        o.confine = abx__view_of_browser(s->policy);
        o.wait_ms = START_MS;
        r = abx_host_open(&s->loop, &o, &host_ops, b, &b->host, err);
    }
    abx_arena_done(&a);
    return r;
}

/* NULL: answered. */
static struct abx__browser *browser_of(struct abx__call *c)
{
    struct abx__server *s = c->server;
    struct abx_error err = {0};
    if (s->browser)
        return s->browser;
    struct abx__browser *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return NULL;
    }
    b->server = s;
    if (open_host(b, &err) < 0) {
        free(b);
        abx__call_fail(c, 503, "RuntimeError",
                       "the browser group needs Node: apt-get install nodejs (%s)", err.msg);
        return NULL;
    }
    return s->browser = b;
}

void abx__browser_stop(struct abx__server *s)
{
    if (s->browser)
        abx_host_close(s->browser->host);
}

/* ---- answers ---- */

static void over(struct abx__call *c)
{
    c->data = NULL;
}

static void on_result(void *arg, struct abx_str value)
{
    struct abx__call *c = arg;
    over(c);
    abx__call_answer_status(c, 200, NULL, value);
}

static void on_error(void *arg, const struct abx_host_message *m)
{
    struct abx__call *c = arg;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    over(c);
    abx_buf_init(&body, ABX_HOST_LINE_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("error"));
    abx_json_raw(&w, m->message.len ? m->message : ABX_STR("\"\""));
    abx_json_key(&w, ABX_STR("type"));
    abx_json_raw(&w, m->type.len ? m->type : ABX_STR("\"RuntimeError\""));
    if (m->code.len) {
        abx_json_key(&w, ABX_STR("code"));
        abx_json_raw(&w, m->code);
        abx_json_kv_str(&w, "endpoint", c->rule->id);
    }
    abx_json_end_object(&w);
    abx__call_answer_status(c, (int)m->status, NULL, abx_buf_str(&body));
}

static void on_other(void *arg, const struct abx_host_message *m)
{
    (void)m;
    over(arg);
    abx__call_fail(arg, 500, "RuntimeError", "the host of the browser gave no result");
}

static bool on_chunk(void *arg, const char *data, size_t len)
{
    (void)arg;
    (void)data;
    (void)len;
    return true;
}

static void on_ended(void *arg)
{
    on_other(arg, NULL);
}

static void on_call_failed(void *arg, int status, const char *type, const char *text)
{
    struct abx__call *c = arg;
    struct abx__browser *b = c->server->browser;
    over(c);
    if (status == 503 && b && b->why[0])
        abx__call_fail(c, 503, "RuntimeError", "%s", b->why);
    else
        abx__call_fail(c, status, type, "%s", text);
}

static const struct abx_host_call_ops call_ops = {on_result, on_error, on_other,      on_other,
                                                  on_chunk,  on_ended, on_call_failed};

static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    abx_host_call_cancel(c->data);
    c->data = NULL;
}

static void call_host(struct abx__call *c, const char *command, const struct abx_buf *args,
                      uint32_t millis)
{
    struct abx__browser *b;
    ABX_AUTO_BUF ctx;
    int why = 503;
    abx_buf_init(&ctx, 1 << 20);
    if (abx_buf_failed(args)) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    if ((b = browser_of(c)) == NULL)
        return;
    abx__call_context(&ctx, c);
    struct abx_host_call_text text = {.command = abx_str(command),
                                      .args = abx_buf_str(args),
                                      .ctx = abx_buf_str(&ctx),
                                      .deadline_ms = millis + QUEUE_MS};
    c->on_close = on_close;
    c->data = abx_buf_failed(&ctx) ? NULL : abx_host_call_start(b->host, &text, &call_ops, c, &why);
    if (c->data)
        return;
    if (why == 429)
        abx__commands_too_many(c);
    else
        abx__call_fail(c, 503, "RuntimeError", "the host of the browser can not take the call");
}

/* ---- fields ---- */

enum kind { NEEDED, NEEDED_MAYBE_EMPTY, TEXT, FLAG, MILLIS, NUMBER };
struct field {
    const char *name; /* NULL ends a list */
    enum kind kind;
    const char *standard; /* JSON; NULL: left out */
    const char *choices;  /* "a b c": one of them; NULL: any */
};

static bool is_choice(struct abx_str value, const char *choices)
{
    struct abx_str rest = abx_str(choices), word;
    while (choices && abx_str_split(&rest, ' ', &word))
        if (abx_str_eq(word, value))
            return true;
    return choices == NULL;
}

static bool is_good(const struct field *f, const json_t *v)
{
    struct abx_str text = abx_str_n(json_string_value(v), json_string_length(v));
    switch (f->kind) {
    case NEEDED:
        return json_is_string(v) && text.len > 0;
    case NEEDED_MAYBE_EMPTY:
        return json_is_string(v);
    case TEXT:
        return json_is_string(v) && is_choice(text, f->choices);
    case FLAG:
        return json_is_boolean(v);
    case MILLIS:
    case NUMBER:
        return json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) <= MILLIS_MAX;
    }
    return false;
}

/* The fields as the host gets them; the longest time among them in *ret_millis. False: answered. */
static bool read_fields(struct abx__call *c, const struct field *fields, struct abx_buf *out,
                        uint32_t *ret_millis)
{
    struct abx_json_writer w;
    *ret_millis = 30000;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    for (const struct field *f = fields; f->name; f++) {
        const json_t *v = abx__call_field(c, f->name);
        bool is_given = v && !json_is_null(v);
        if (!is_given && (f->kind == NEEDED || f->kind == NEEDED_MAYBE_EMPTY)) {
            abx__call_fail(c, 400, "ValueError", "'%s' is required", f->name);
            return false;
        }
        if (is_given && !is_good(f, v)) {
            abx__call_fail(c, 400, "ValueError", "'%s' is not as it must be%s%s", f->name,
                           f->choices ? ": one of " : "", f->choices ? f->choices : "");
            return false;
        }
        if (!is_given && f->standard == NULL)
            continue;
        abx_json_key(&w, abx_str(f->name));
        if (is_given)
            abx_json_value(&w, v);
        else
            abx_json_raw(&w, abx_str(f->standard));
        if (is_given && f->kind == MILLIS && json_number_value(v) > *ret_millis)
            *ret_millis = (uint32_t)json_number_value(v);
    }
    abx_json_end_object(&w);
    return true;
}

/* ---- the endpoints ---- */

#define FORMATS "Letter Legal Tabloid Ledger A0 A1 A2 A3 A4 A5 A6"
static const struct endpoint {
    const char *id, *command;
    struct field fields[5];
} endpoints[] = {
    {"browser_navigate",
     "navigate",
     {{"url", NEEDED, NULL, NULL},
      {"wait_until", TEXT, "\"networkidle\"", "networkidle load domcontentloaded commit"},
      {"timeout", MILLIS, "30000", NULL}}},
    {"browser_screenshot",
     "screenshot",
     {{"selector", TEXT, NULL, NULL},
      {"full_page", FLAG, "true", NULL},
      {"format", TEXT, "\"png\"", "png jpeg"}}},
    {"browser_click",
     "click",
     {{"selector", NEEDED, NULL, NULL}, {"timeout", MILLIS, "5000", NULL}}},
    {"browser_type",
     "type",
     {{"selector", NEEDED, NULL, NULL},
      {"text", NEEDED_MAYBE_EMPTY, NULL, NULL},
      {"delay", NUMBER, "50", NULL},
      {"clear", FLAG, "false", NULL}}},
    {"browser_evaluate",
     "evaluate",
     {{"script", NEEDED, NULL, NULL}, {"timeout", MILLIS, "10000", NULL}}},
    {"browser_pdf",
     "pdf",
     {{"format", TEXT, "\"A4\"", FORMATS}, {"landscape", FLAG, "false", NULL}}},
};

static bool check_page(struct abx__call *c)
{
    struct abx_policy_url url;
    struct abx_policy_verdict v = {0};
    struct abx_str text = abx_str(json_string_value(abx__call_field(c, "url")));
    if (abx_policy_url_check(c->rule, text, c->req->arena, &url, &v) &&
        check_port(c->policy, url.port, &v))
        return true;
    v.endpoint = c->rule->id;
    abx__call_deny(c, &v);
    return false;
}

static void post(struct abx__call *c)
{
    const struct endpoint *e = endpoints;
    uint32_t millis;
    ABX_AUTO_BUF args;
    abx_buf_init(&args, ARGS_BYTES);
    while (!abx_str_is(c->rule->id, e->id))
        e++;
    if (!read_fields(c, e->fields, &args, &millis))
        return;
    if (e == endpoints && !check_page(c))
        return;
    call_host(c, e->command, &args, millis);
}

static void content_get(struct abx__call *c)
{
    struct abx_str type = abx__call_query(c, "type");
    ABX_AUTO_BUF args;
    abx_buf_init(&args, 256);
    abx_buf_put_c(&args, abx_str_is(type, "text") ? "{\"type\":\"text\"}" : "{\"type\":\"html\"}");
    call_host(c, "content", &args, 0);
}

/* No browser is started for what it has not said. */
static void console_get(struct abx__call *c)
{
    ABX_AUTO_BUF args;
    abx_buf_init(&args, 16);
    abx_buf_put_c(&args, "{}");
    if (c->server->browser == NULL)
        abx__call_answer_status(c, 200, NULL, ABX_STR("{\"logs\": []}"));
    else
        call_host(c, "console", &args, 0);
}

const struct abx__route abx__browser_routes[] = {{"browser_navigate", post, NULL},
                                                 {"browser_screenshot", post, NULL},
                                                 {"browser_click", post, NULL},
                                                 {"browser_type", post, NULL},
                                                 {"browser_evaluate", post, NULL},
                                                 {"browser_pdf", post, NULL},
                                                 {"browser_content", content_get, NULL},
                                                 {"browser_console", console_get, NULL},
                                                 {0}};
