/* guest/envd/terminal.c: GET /terminal: a login shell on a terminal, over a WebSocket
 * (published-client.md 4.2 and C22).
 *
 * The shell is that of `Start` with a pty. A text {"type":"resize","cols","rows"} sets the size;
 * every other message, text or bytes, is typed. Output that is UTF-8 comes as text, any other as
 * bytes; a character that is cut by the end of a read waits for its rest. Who hangs up hangs the
 * shell up (SIGHUP): nothing names this terminal to attach to again. Loop thread only. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/http/websocket.h"

#include <signal.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    MESSAGE_MAX = 1 << 20,
    RESIZE_MAX = 256, /* bytes of a message that sets the size */
    WRITES_MAX = 32,  /* messages on their way to the shell; more stop the reading */
    CHARACTER = 4,
    CELLS_MAX = UINT16_MAX,
    CODE_TRY_LATER = 1013,
};

struct terminal {
    struct abx__envd *envd;
    struct abx_ws *ws;
    struct abx_process *process; /* counted */
    struct abx_process_sub *sub;
    char rest[CHARACTER]; /* of a character that has only begun */
    size_t rest_len;
    unsigned writes;
    bool is_paused, has_ended;
};

/* ---- output ---- */

/* Bytes at the end of @s that begin a character and do not complete it: 0 to 3. */
static size_t unfinished(struct abx_str s)
{
    for (size_t n = 1; n < CHARACTER && n <= s.len; n++) {
        unsigned char c = (unsigned char)s.ptr[s.len - n];
        if ((c & 0xC0) == 0x80)
            continue;
        size_t whole = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return whole > n ? n : 0;
    }
    return 0;
}

/* Text that goes out whole; what is no UTF-8 goes as it came, its end too: nobody knows where
 * its characters end. */
static bool show(struct terminal *t, struct abx_str data)
{
    size_t held = unfinished(data);
    struct abx_str whole = abx_str_sub(data, 0, data.len - held);
    if (!abx_str_is_utf8(whole)) {
        t->rest_len = 0;
        return abx_ws_send(t->ws, ABX_WS_BINARY, data);
    }
    memcpy(t->rest, data.ptr + whole.len, held);
    t->rest_len = held;
    return whole.len == 0 || abx_ws_send(t->ws, ABX_WS_TEXT, whole);
}

static bool on_output(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                      struct abx_str data)
{
    struct terminal *t = abx_process_sub_owner(s);
    char joined[CHARACTER + ABX_PROCESS_CHUNK];
    (void)kind;
    (void)offset;
    ABX_ASSERT(data.len <= ABX_PROCESS_CHUNK);
    if (t->rest_len == 0)
        return show(t, data);
    memcpy(joined, t->rest, t->rest_len);
    memcpy(joined + t->rest_len, data.ptr, data.len);
    return show(t, abx_str_n(joined, t->rest_len + data.len));
}

static void on_shell_end(struct abx_process_sub *s, const struct abx_process_end *end)
{
    struct terminal *t = abx_process_sub_owner(s);
    t->has_ended = true;
    if (t->rest_len)
        abx_ws_send(t->ws, ABX_WS_BINARY, abx_str_n(t->rest, t->rest_len));
    abx_ws_close(t->ws, ABX_WS_NORMAL, abx_str(end->status));
}

/* Without on_gap: the subscription begins with the shell, and a lag stops the shell. */
static const struct abx_process_sub_ops sub_ops = {.on_data = on_output, .on_end = on_shell_end};

static void on_drain(struct abx_ws *ws)
{
    struct terminal *t = abx_ws_owner(ws);
    if (t->sub)
        abx_process_resume(t->sub);
}

/* ---- input ---- */

struct resize {
    struct abx_str type;
    uint32_t cols, rows;
};

static const struct abx_json_field resize_fields[] = {
    {"type", ABX_JSON_STR, offsetof(struct resize, type), ABX_JSON_REQUIRED},
    {"cols", ABX_JSON_U32, offsetof(struct resize, cols), ABX_JSON_REQUIRED},
    {"rows", ABX_JSON_U32, offsetof(struct resize, rows), ABX_JSON_REQUIRED},
    {0}};

static bool is_resize(struct abx_str text, struct resize *ret)
{
    struct abx_arena arena;
    struct abx_error err;
    if (text.len == 0 || text.len > RESIZE_MAX || text.ptr[0] != '{')
        return false;
    abx_arena_init(&arena, RESIZE_MAX * 4);
    *ret = (struct resize){0};
    bool is_one = abx_json_decode_text(text, false, resize_fields, ret, &arena, &err) == 0 &&
                  abx_str_is(ret->type, "resize");
    abx_arena_done(&arena);
    return is_one;
}

static void resize(struct terminal *t, const struct resize *r)
{
    struct abx_error err;
    if (r->cols == 0 || r->rows == 0 || r->cols > CELLS_MAX || r->rows > CELLS_MAX)
        return; /* no terminal has such a size: it keeps the one it has */
    abx_process_resize(t->process, (uint16_t)r->cols, (uint16_t)r->rows, &err);
}

/* A failed write needs no word: the end of the shell is told by its output. */
static void on_written(void *arg, const struct abx_error *failure)
{
    struct terminal *t = arg;
    (void)failure;
    t->writes--;
    if (!t->is_paused || t->writes >= WRITES_MAX)
        return;
    t->is_paused = false;
    abx_ws_resume(t->ws);
}

static void type(struct terminal *t, struct abx_str data)
{
    struct abx_error err = {0};
    if (data.len == 0 || t->has_ended)
        return;
    if (abx_process_write(t->process, true, data, on_written, t, &err) < 0) {
        if (err.code == ABX_RESOURCE_EXHAUSTED)
            abx_ws_close(t->ws, CODE_TRY_LATER, ABX_STR("the shell does not take its input"));
        return;
    }
    if (++t->writes >= WRITES_MAX) {
        t->is_paused = true;
        abx_ws_pause(t->ws);
    }
}

static void on_message(struct abx_ws *ws, const struct abx_ws_message *m)
{
    struct terminal *t = abx_ws_owner(ws);
    struct resize r;
    if (m->opcode == ABX_WS_TEXT && is_resize(m->data, &r))
        resize(t, &r);
    else
        type(t, m->data);
}

/* ---- the end ---- */

static void hang_up(struct terminal *t)
{
    struct abx_error err;
    if (t->envd->procs && !abx_process_has_ended(t->process))
        abx_process_signal_terminal(t->process, SIGHUP, &err);
    abx_process_write_cancel(t->process, t);
    abx_process_unsubscribe(t->sub);
    abx_process_unref(t->process);
    free(t);
}

static void on_close(struct abx_ws *ws, unsigned code, struct abx_str reason)
{
    (void)code;
    (void)reason;
    hang_up(abx_ws_owner(ws));
}

static const struct abx_ws_ops ws_ops = {on_message, on_drain, on_close};

/* ---- the start ---- */

/* The user of the call; 0, or -1 after the answer. */
static int find_user(struct abx_http_req *req, struct abx_user *ret)
{
    const struct abx__envd *e = abx__envd_of(req);
    struct abx_str name = e->state.default_user;
    struct abx_error err = {0};
    abx__basic_user(req, &name);
    if (abx_user_by_name(abx__users_root(e), name, ret, &err) == 0)
        return 0;
    abx__answer_error(req, err.code == ABX_NOT_FOUND ? 401 : 500, "%s", err.msg);
    return -1;
}

static int start_shell(struct abx__envd *e, const struct abx_user *user, struct abx_process **ret,
                       struct abx_error *err)
{
    static const struct abx_str args[] = {{"-i", 2}, {"-l", 2}};
    char cwd[ABX_FILES_PATH];
    if (abx_path_resolve(ABX_STR(""), user, e->state.default_workdir, cwd, err) < 0 ||
        (cwd[0] == '\0' && abx_path_resolve(ABX_STR("~"), user, ABX_STR(""), cwd, err) < 0))
        return -1;
    const struct abx_process_spec spec = {.cmd = ABX_STR("/bin/bash"),
                                          .args = args,
                                          .arg_count = ABX_COUNTOF(args),
                                          .globals = e->state.envs,
                                          .global_count = e->state.env_count,
                                          .cwd = abx_str(cwd),
                                          .user = user,
                                          .has_stdin = true,
                                          .may_be_sh = true,
                                          .has_pty = true};
    return abx_process_start(e->procs, &spec, ret, err);
}

static int open_terminal(struct abx_http_req *req, const struct abx_user *user,
                         struct abx_error *err)
{
    const struct abx_ws_options o = {.max_message = MESSAGE_MAX};
    struct terminal *t = calloc(1, sizeof(*t));
    struct abx_process *shell;
    if (t == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    t->envd = abx__envd_of(req);
    if (start_shell(t->envd, user, &shell, err) < 0) {
        free(t);
        return -1;
    }
    t->process = abx_process_ref(shell);
    if (abx_process_subscribe(shell, 0, &sub_ops, t, &t->sub, err) == 0 &&
        abx_ws_open(&t->envd->loop, req, &o, &ws_ops, t, &t->ws, err) == 0)
        return 0;
    hang_up(t);
    return -1;
}

/* No handshake, or a broken one. */
static void refuse(struct abx_http_req *req, int status, const char *why)
{
    struct abx__headers h;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, 1024);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "code", status);
    abx_json_kv_c(&w, "message", why);
    abx_json_end_object(&w);
    abx__headers_begin(&h, req);
    abx__headers_add(&h, "Content-Type", ABX_STR("application/json"));
    if (status == 426) {
        abx__headers_add(&h, "Upgrade", ABX_STR("websocket"));
        abx__headers_add(&h, "Sec-WebSocket-Version", ABX_STR("13"));
    }
    abx_http_answer(req, status, h.rows, abx_buf_str(&body));
}

void abx__terminal_get(struct abx_http_req *req)
{
    const char *why = NULL;
    struct abx_user user;
    struct abx_error err = {0};
    int status = abx_ws_check(req, &why);
    if (status) {
        refuse(req, status, why);
        return;
    }
    if (find_user(req, &user) < 0)
        return;
    if (open_terminal(req, &user, &err) < 0)
        abx__answer_error(req, abx_code_http(err.code), "%s", err.msg);
    abx_user_done(&user);
}
