/* guest/server/terminals.c: terminal sessions over HTTP: made, listed, resized, ended.
 * server-api.md 5.1, D50-D57.
 *
 * A session is a process of the server's table with a terminal; its journal is what viewers read
 * (terminal_socket.c). Ended ones are known until the next list or create of somebody who sees
 * them. */
#include "guest/server/terminals_priv.h"

#include "guest/caps/environ.h"
#include "guest/caps/tree.h"
#include "guest/server/as_user.h"
#include "guest/server/exec.h"
#include "guest/server/terminals.h"
#include "guest/server/text.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/policy/guards.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/banned.h"

enum {
    SIZE_MAX_CELLS = 65535,
    RESIZE_MAX = 1000,
    KILL_MS = 500, /* from SIGHUP to SIGKILL */
    ANSWER_BYTES = 65536,
    SHARES_MAX = 32,
    SHARE_BYTES = 256,
    ENV_MAX = 4096,
    PATH_BYTES = 8192,
};

/* ---- one session ---- */

bool abx__terminal_is_alive(const struct abx__terminal *t)
{
    return !t->is_closing && abx_process_is_running(t->process);
}

void abx__terminal_unref(struct abx__terminal *t)
{
    if (--t->refs > 0)
        return;
    abx_process_unref(t->process);
    free(t->shares);
    free(t->owner);
    free(t);
}

static void on_kill_closed(void *owner)
{
    abx__terminal_unref(owner);
}

static void on_kill(struct abx_timer *timer)
{
    struct abx__terminal *t = timer->owner;
    abx_process_kill_session(t->process);
    abx_timer_close(&t->kill, on_kill_closed);
}

static void unlist(struct abx__terminal *t)
{
    if (!t->is_listed)
        return;
    t->is_listed = false;
    abx__tickets_forget_session(&t->server->tickets, abx_str(t->id));
    abx_list_remove(&t->node);
    abx__terminal_unref(t);
}

/* A dead one that nobody will be told of any more. */
static void forget(struct abx__terminal *t)
{
    t->is_closing = true;
    abx_timer_close(&t->kill, on_kill_closed);
    unlist(t);
}

/* Asks the shell and its foreground job to go, then ends the whole session. Out of the list at
 * once. */
static void end_session(struct abx__terminal *t)
{
    if (t->is_closing)
        return;
    if (!abx_process_is_running(t->process)) { /* its number may belong to others by now */
        forget(t);
        return;
    }
    t->is_closing = true;
    abx_process_signal_terminal(t->process, SIGHUP, NULL);
    abx_process_signal(t->process, SIGCONT, NULL);
    abx_timer_start(&t->kill, KILL_MS, 0);
    unlist(t);
}

void abx__terminal_add(struct abx__terminal *t)
{
    abx_timer_init(&t->kill, &t->server->loop, on_kill, t);
    t->refs++;
    t->is_listed = true;
    abx_list_push(&t->server->terminals, &t->node);
}

static bool is_shared_with(const struct abx__terminal *t, struct abx_str id)
{
    for (size_t i = 0; i < t->share_count; i++)
        if (abx_str_is(id, t->shares[i]))
            return true;
    return false;
}

static bool is_visible(const struct abx__terminal *t, const struct abx_policy_identity *who)
{
    return abx__owner_lets(abx_str(t->owner), who) || is_shared_with(t, who->id);
}

struct abx__terminal *abx__terminal_find(const struct abx__server *s, struct abx_str id,
                                         const struct abx_policy_identity *who)
{
    struct abx__terminal *t;
    abx_list_foreach(t, &s->terminals, struct abx__terminal, node)
    {
        if (abx_str_is(id, t->id) && is_visible(t, who))
            return t;
    }
    return NULL;
}

int abx__terminal_resize(struct abx__terminal *t, uint16_t cols, uint16_t rows)
{
    if (abx_process_resize(t->process, cols, rows, NULL) < 0)
        return -1;
    t->cols = cols;
    t->rows = rows;
    return 0;
}

/* ---- many ---- */

static void forget_dead(struct abx__server *s, const struct abx_policy_identity *who)
{
    struct abx__terminal *t;
    abx_list_foreach(t, &s->terminals, struct abx__terminal, node)
    {
        if (!abx__terminal_is_alive(t) && is_visible(t, who))
            forget(t);
    }
}

static size_t count_living(const struct abx__server *s)
{
    size_t n = 0;
    const struct abx__terminal *t;
    abx_list_foreach(t, &s->terminals, struct abx__terminal, node)
    {
        n += abx__terminal_is_alive(t);
    }
    return n;
}

void abx__terminals_sweep(struct abx__server *s, int64_t now)
{
    struct abx__terminal *t;
    abx__tickets_sweep(&s->tickets, now);
    abx_list_foreach(t, &s->terminals, struct abx__terminal, node)
    {
        if (t->viewer_count || now - t->detached_ms < ABX__TERMINAL_IDLE_MS)
            continue;
        if (abx__terminal_is_alive(t))
            end_session(t);
        else
            forget(t);
    }
}

void abx__terminals_revoke(struct abx__server *s, const struct abx__change *c)
{
    struct abx_list *node, *next;
    abx__tickets_revoke(&s->tickets, c->now);
    for (node = s->terminals.next; node != &s->terminals; node = next) {
        struct abx__terminal *t = ABX_CONTAINER_OF(node, struct abx__terminal, node);
        next = node->next;
        abx__terminal_revoke_viewers(t, c);
        if (!abx__owner_is_still(c, abx_str(t->owner)))
            end_session(t);
    }
}

void abx__terminals_stop(struct abx__server *s)
{
    struct abx__terminal *t;
    abx_list_foreach(t, &s->terminals, struct abx__terminal, node)
    {
        end_session(t);
    }
}

void abx__terminals_free(struct abx__server *s)
{
    struct abx__terminal *t;
    abx_list_foreach(t, &s->terminals, struct abx__terminal, node)
    {
        forget(t);
    }
}

/* ---- answers ---- */

static void put_session(struct abx_json_writer *w, const struct abx__terminal *t)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "id", t->id);
    abx_json_kv_i64(w, "pid", abx_process_pid(t->process));
    abx_json_key(w, ABX_STR("created_at"));
    abx_json_f64(w, (double)(t->created_wall_ns / 1000) / 1e6);
    abx_json_kv_i64(w, "cols", t->cols);
    abx_json_kv_i64(w, "rows", t->rows);
    abx_json_kv_bool(w, "alive", abx__terminal_is_alive(t));
    abx_json_end_object(w);
}

static void answer_session(struct abx__call *c, const struct abx__terminal *t)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    put_session(&w, t);
    abx__call_answer(c, &body);
}

/* NULL: answered. */
static struct abx__terminal *find(struct abx__call *c)
{
    struct abx__terminal *t = abx__terminal_find(c->server, abx__call_param(c, "id"), &c->who);
    if (t == NULL)
        abx__call_fail(c, 404, "ValueError", "there is no such terminal session");
    return t;
}

static void list_get(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    const struct abx__terminal *t;
    forget_dead(c->server, &c->who);
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("sessions"));
    abx_json_begin_array(&w);
    abx_list_foreach(t, &c->server->terminals, struct abx__terminal, node)
    {
        if (is_visible(t, &c->who))
            put_session(&w, t);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void detail_get(struct abx__call *c)
{
    const struct abx__terminal *t = find(c);
    if (t)
        answer_session(c, t);
}

static void delete_call(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    struct abx__terminal *t = find(c);
    if (t == NULL)
        return;
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "status", "closed");
    abx_json_kv_c(&w, "session_id", t->id);
    abx_json_end_object(&w);
    end_session(t);
    abx__call_answer(c, &body);
}

/* ---- sizes ---- */

bool abx__terminal_cells(const json_t *v, int64_t max, uint16_t *ret)
{
    int64_t n = -1;
    if (json_is_integer(v))
        n = json_integer_value(v);
    else if (json_is_real(v) && json_real_value(v) > -1e9 && json_real_value(v) < 1e9)
        n = (int64_t)json_real_value(v);
    else if (!json_is_string(v) ||
             abx__text_integer(abx_str_trim(abx_str_n(json_string_value(v), json_string_length(v))),
                               &n) < 0)
        return false;
    if (n < 0 || n > max)
        return false;
    *ret = (uint16_t)n;
    return true;
}

static bool read_cells(struct abx__call *c, const char *name, int64_t max, uint16_t *ret)
{
    if (abx__terminal_cells(abx__call_field(c, name), max, ret))
        return true;
    abx__call_fail(c, 400, "ValueError", "'%s' must be an integer of at most %lld", name,
                   (long long)max);
    return false;
}

static void resize_post(struct abx__call *c)
{
    uint16_t cols, rows;
    struct abx__terminal *t = find(c);
    if (t == NULL || !read_cells(c, "cols", RESIZE_MAX, &cols) ||
        !read_cells(c, "rows", RESIZE_MAX, &rows))
        return;
    if (cols == 0 || rows == 0) {
        abx__call_fail(c, 400, "ValueError", "'cols' and 'rows' must be at least 1");
        return;
    }
    if (abx__terminal_resize(t, cols, rows) < 0)
        abx__call_fail(c, 404, "ValueError", "the terminal has ended");
    else
        answer_session(c, t);
}

/* ---- create ---- */

static const char *const shells[] = {"/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash",
                                     "/usr/bin/zsh"};

struct ask {
    struct abx_str shell, user_asked;
    const struct abx_user *user; /* NULL: the server's */
    const char *path;
    uint16_t cols, rows;
    char **envp;
};

static bool read_shell(struct abx__call *c, struct ask *a)
{
    const json_t *v = abx__call_field(c, "shell");
    a->shell =
        v == NULL ? ABX_STR("/bin/bash") : abx_str_n(json_string_value(v), json_string_length(v));
    for (size_t i = 0; i < ABX_COUNTOF(shells); i++)
        if (a->shell.ptr && abx_str_is(a->shell, shells[i])) {
            a->path = shells[i];
            a->shell = abx_str(shells[i]);
            return true;
        }
    abx__call_fail(c, 400, "ValueError",
                   "'shell' must be one of /bin/bash /bin/sh /bin/zsh /usr/bin/bash /usr/bin/zsh");
    return false;
}

static bool read_size(struct abx__call *c, struct ask *a)
{
    a->cols = 80;
    a->rows = 24;
    return (abx__call_field(c, "cols") == NULL ||
            read_cells(c, "cols", SIZE_MAX_CELLS, &a->cols)) &&
           (abx__call_field(c, "rows") == NULL || read_cells(c, "rows", SIZE_MAX_CELLS, &a->rows));
}

/* `share` names identities that may attach too. */
static bool read_shares(struct abx__call *c)
{
    const json_t *list = abx__call_field(c, "share");
    bool is_good = list == NULL || json_is_null(list) ||
                   (json_is_array(list) && json_array_size(list) <= SHARES_MAX);
    for (size_t i = 0; is_good && i < json_array_size(list); i++) {
        const json_t *name = json_array_get(list, i);
        is_good = json_is_string(name) && json_string_length(name) > 0 &&
                  json_string_length(name) <= SHARE_BYTES;
    }
    if (!is_good)
        abx__call_fail(c, 400, "ValueError", "'share' must be a list of at most %d identities",
                       (int)SHARES_MAX);
    return is_good;
}

static bool read_env(struct abx__call *c)
{
    const json_t *env = abx__call_field(c, "env");
    struct abx_policy_verdict v = {.endpoint = c->rule->id};
    if (env == NULL || json_is_null(env))
        return true;
    if (!json_is_object(env) || json_object_size(env) > ENV_MAX) {
        abx_policy_deny(&v, ABX_POLICY_ENV_INVALID, "'env' must be an object of strings");
        abx__call_deny(c, &v);
        return false;
    }
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)env, name, value)
    {
        if (!json_is_string(value)) {
            abx_policy_deny(&v, ABX_POLICY_ENV_INVALID, "the value of '%.64s' must be a string",
                            name);
            abx__call_deny(c, &v);
            return false;
        }
        if (!abx_policy_env_check(c->rule, abx_str(name),
                                  abx_str_n(json_string_value(value), json_string_length(value)),
                                  &v)) {
            abx__call_deny(c, &v);
            return false;
        }
    }
    return true;
}

/* Dropped without a word, as published. */
static bool is_dropped(struct abx_str name)
{
    static const char *const list[] = {"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"};
    for (size_t i = 0; i < ABX_COUNTOF(list); i++)
        if (abx_str_is(name, list[i]))
            return true;
    return false;
}

static bool make_env(struct abx__job *j, struct ask *a)
{
    json_t *value, *env = json_object_get(j->body, "env");
    const char *name;
    size_t n = 0;
    struct abx__pair *pairs =
        abx_arena_array(&j->arena, json_object_size(env) + ABX_ENVIRON_OF_USER + 1, sizeof(*pairs));
    if (pairs == NULL)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    if (json_object_get(env, "TERM") == NULL)
        pairs[n++] = (struct abx__pair){ABX_STR("TERM"), ABX_STR("xterm-256color")};
    json_object_foreach(env, name, value)
    {
        if (!abx_policy_pty_env_check(j->rule, abx_str(name), &j->verdict) ||
            !abx_policy_exec_env_check(j->policy, j->rule, abx_str(name), &j->verdict))
            return false;
        if (!is_dropped(abx_str(name)))
            pairs[n++] = (struct abx__pair){
                abx_str(name), abx_str_n(json_string_value(value), json_string_length(value))};
    }
    if (!abx__user_judge(j, a->user_asked, &a->user))
        return false;
    n = abx__user_variables(a->user, pairs, n);
    a->envp = abx__environment_of(&j->who, pairs, n, &j->arena);
    return a->envp || abx__job_fail(j, 500, "MemoryError", "out of memory");
}

static void judge(struct abx__job *j)
{
    struct ask *a = j->data;
    ABX_AUTO_BUF real = {0};
    abx_buf_init(&real, PATH_BYTES);
    struct abx_str program =
        abx_tree_resolve(a->shell, false, &real) < 0 ? a->shell : abx_buf_str(&real);
    if (abx_policy_program_check(j->rule, a->shell, program, &j->verdict) &&
        abx_policy_shell_check(j->rule, a->shell, &j->verdict))
        make_env(j, a);
}

static bool copy_shares(struct abx__terminal *t, const json_t *list)
{
    size_t bytes = 0, n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        bytes += json_string_length(json_array_get(list, i)) + 1;
    t->shares = malloc(n * sizeof(*t->shares) + bytes + 1);
    if (t->shares == NULL)
        return false;
    char *at = (char *)(t->shares + n);
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(list, i);
        memcpy(at, json_string_value(name), json_string_length(name) + 1);
        t->shares[i] = at;
        at += json_string_length(name) + 1;
    }
    t->share_count = n;
    return true;
}

static struct abx__terminal *terminal_new(struct abx__call *c, const struct abx__job *j)
{
    unsigned char random[ABX__TERMINAL_ID / 2];
    const struct ask *a = j->data;
    struct abx__terminal *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->owner = abx_str_dup(c->who.id);
    if (t->owner == NULL || !copy_shares(t, json_object_get(j->body, "share")) ||
        getrandom(random, sizeof(random), 0) != sizeof(random)) {
        free(t->owner);
        free(t->shares);
        free(t);
        return NULL;
    }
    abx_hex_encode(random, sizeof(random), t->id);
    t->server = c->server;
    t->cols = a->cols;
    t->rows = a->rows;
    t->created_wall_ns = abx_time_wall_ns();
    t->detached_ms = abx_time_mono_ms();
    t->refs = 1;
    abx_list_init(&t->viewers);
    return t;
}

static int start_shell(struct abx__call *c, struct abx__terminal *t, const struct ask *a,
                       struct abx_error *err)
{
    char *name = abx_arena_c(c->req->arena, a->shell);
    char *argv[] = {name, NULL};
    struct abx_run_spec spec = {.path = a->path, .argv = argv, .envp = a->envp, .user = a->user};
    struct abx_process_spec process = {
        .cmd = a->shell, .has_pty = true, .cols = a->cols, .rows = a->rows};
    if (name == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (abx__exec_keep(c, &spec, &process, &t->process, err) < 0)
        return -1;
    abx_process_ref(t->process);
    if (a->cols == 0 || a->rows == 0) /* the table would take 80 and 24 for them */
        abx_process_resize(t->process, a->cols, a->rows, NULL);
    return 0;
}

static void put_url(struct abx_json_writer *w, const struct abx__call *c, const char *id)
{
    char url[ABX__TERMINAL_URL];
    abx__terminal_url(c, id, url);
    abx_json_kv_c(w, "ws_url", url);
}

static void start(struct abx__job *j)
{
    const struct ask *a = j->data;
    struct abx__call *c = j->call;
    struct abx_error err = {0};
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    uint64_t limit = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_SESSIONS, ABX__TERMINALS_MAX);
    forget_dead(c->server, &c->who);
    if (count_living(c->server) >= (limit < ABX__TERMINALS_MAX ? limit : ABX__TERMINALS_MAX)) {
        abx__call_fail(c, 429, "RuntimeError", "too many terminal sessions are open");
        return;
    }
    struct abx__terminal *t = terminal_new(c, j);
    if (t == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    if (start_shell(c, t, a, &err) < 0) {
        abx__terminal_unref(t);
        abx__call_fail(c, 500, "OSError", "%s", err.msg);
        return;
    }
    abx__terminal_add(t);
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "session_id", t->id);
    put_url(&w, c, t->id);
    abx_json_kv_i64(&w, "pid", abx_process_pid(t->process));
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void create_post(struct abx__call *c)
{
    struct ask a = {0};
    if (!read_shell(c, &a) || !read_size(c, &a) || !read_env(c) || !read_shares(c) ||
        !abx__user_read(c, &a.user_asked))
        return;
    struct abx__job *j = abx__job_new(c, judge, ANSWER_BYTES);
    struct ask *copy = j ? abx__job_data(j, sizeof(*copy)) : NULL;
    if (j == NULL)
        return;
    if (copy)
        *copy = a;
    j->done = start;
    abx__job_start(j);
}

const struct abx__route abx__terminal_routes[] = {{"pty_create_session", create_post},
                                                  {"pty_list_sessions", list_get},
                                                  {"pty_detail", detail_get},
                                                  {"pty_resize", resize_post},
                                                  {"pty_delete_session", delete_call},
                                                  {"pty_ticket", abx__terminal_ticket_post},
                                                  {0}};
