/* client/server.c: agent-sandbox-server in a sandbox: starting it, and requests to it
 * (published-client.md 4.3, 4.4). */
#include "client/client_priv.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/wire/url.h"

#include <stdio.h>
#include <time.h>

#include "lib/base/banned.h"

enum {
    DEFAULT_PORT = 9000,
    DEFAULT_WAIT_MS = 30000,
    POLL_FIRST_MS = 10,
    POLL_MOST_MS = 500,
    TAIL_MAX = 4096,
    ENV_MAX = 64,
    ATTACH_MS = 2000
};

struct abx_server {
    struct abx_sandbox *sb;
    uint16_t port;
    char *token;
    uint32_t timeout_ms;
};

/* ---- requests ---- */

int abx_server_request(struct abx_server *s, const char *method, const char *path, const char *json,
                       int *ret_status, char **ret_body, struct abx_client_error *err)
{
    struct abx_http_extra headers[5] = {0};
    ABX_AUTO_BUF target;
    ABX_AUTO_BUF bearer;
    size_t n = 0;
    abx_buf_init(&target, 16384);
    abx_buf_init(&bearer, 8192);
    abx_buf_putf(&target, "%s/.p/%s/%u%s", s->sb->client->path, s->sb->id, (unsigned)s->port, path);
    if (json != NULL)
        headers[n++] = (struct abx_http_extra){"Content-Type", ABX_STR("application/json")};
    if (s->token != NULL) {
        abx_buf_putf(&bearer, "Bearer %s", s->token);
        headers[n++] = (struct abx_http_extra){"Authorization", abx_buf_str(&bearer)};
        headers[n++] = (struct abx_http_extra){ABX_HEADER_ACCESS_TOKEN, abx_str(s->token)};
    }
    if (abx_buf_failed(&target) || abx_buf_failed(&bearer))
        return abx__client_fail(err, "E8002", "client", "the path or the token is too long");
    struct client_request r = {.method = method,
                               .target = abx_buf_str(&target),
                               .headers = headers,
                               .body = abx_str(json),
                               .has_body = json != NULL,
                               .timeout_ms = s->timeout_ms};
    pthread_mutex_lock(&s->sb->client->lock);
    int result = abx__client_run(s->sb->client, &r, err);
    pthread_mutex_unlock(&s->sb->client->lock);
    *ret_status = r.status;
    if (result == 0 && (*ret_body = abx_str_dup(abx_buf_str(&r.answer))) == NULL)
        result = abx__client_fail_memory(err);
    abx_buf_done(&r.answer);
    return result;
}

struct refusal {
    struct abx_str error, message, type, code, rule, scope;
};
static const struct abx_json_field refusal_fields[] = {
    {"error", ABX_JSON_STR, offsetof(struct refusal, error), 0},
    {"message", ABX_JSON_STR, offsetof(struct refusal, message), 0},
    {"type", ABX_JSON_STR, offsetof(struct refusal, type), 0},
    {"code", ABX_JSON_STR, offsetof(struct refusal, code), 0},
    {"rule", ABX_JSON_STR, offsetof(struct refusal, rule), 0},
    {"scope", ABX_JSON_STR, offsetof(struct refusal, scope), 0},
    {0}};

/* Which identifier an answer stands for; the first row that fits. NULL and 0: any. */
static const struct {
    int status;
    const char *type, *code, *id, *next;
} refusals[] = {
    {401, NULL, NULL, "E9001", "give the server's token: --token or --token-env"},
    {0, "TimeoutError", NULL, "E3001", ""},
    {403, NULL, NULL, "E9002", "another token, or another policy: abx server policy ID"},
    {409, "PolicyDenied", NULL, "E9002", "abx server policy ID"},
    {404, NULL, "endpoint_disabled", "E9003", "the policy switches it off: abx server policy ID"},
    {404, "FileNotFoundError", NULL, "E4001", ""},
    {404, "NotADirectoryError", NULL, "E4001", ""},
    {413, NULL, NULL, "E9004", ""},
    {429, NULL, NULL, "E9005", "wait, then try again"},
    {501, NULL, NULL, "E8004", ""},
    {502, NULL, NULL, "E5001", "does a server run there? abx server start ID"},
    {0, "RateLimited", NULL, "E9005", "wait, then try again"},
};

static bool fits(struct abx_str have, const char *want)
{
    return want == NULL || abx_str_is(have, want);
}

static int fail_answer(struct abx_client_error *err, const char *what, int status,
                       struct abx_str text)
{
    struct abx_arena arena;
    struct refusal r = {0};
    abx_arena_init(&arena, 1 << 20);
    (void)abx_json_decode_text(text, true, refusal_fields, &r, &arena, NULL);
    const char *id = "E9000", *next = "";
    for (size_t i = ABX_COUNTOF(refusals); i > 0; i--)
        if ((refusals[i - 1].status == 0 || refusals[i - 1].status == status) &&
            fits(r.type, refusals[i - 1].type) && fits(r.code, refusals[i - 1].code)) {
            id = refusals[i - 1].id;
            next = refusals[i - 1].next;
        }
    struct abx_str said = r.error.len ? r.error : r.message.len ? r.message : text;
    abx__client_fail(err, id, "server", "%s: %.*s%s%.*s%s", what,
                     ABX_STR_FMT(abx_str_sub(said, 0, 240)), r.code.len ? " (" : "",
                     ABX_STR_FMT(abx_str_sub(r.code, 0, 60)), r.code.len ? ")" : "");
    err->http_status = status;
    if (r.scope.len && strcmp(id, "E9002") == 0)
        abx__client_next(err, "a token with the scope %.*s is needed", ABX_STR_FMT(r.scope));
    else
        abx__client_next(err, "%s", next);
    abx_arena_done(&arena);
    return -1;
}

/* ---- handles ---- */

int abx_sandbox_server_at(struct abx_sandbox *sb, uint16_t port, const char *token,
                          struct abx_server **ret, struct abx_client_error *err)
{
    struct abx_server *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx__client_fail_memory(err);
    s->sb = sb;
    s->port = port ? port : DEFAULT_PORT;
    s->timeout_ms = DEFAULT_WAIT_MS;
    if (token != NULL && (s->token = abx_str_dup(abx_str(token))) == NULL) {
        free(s);
        return abx__client_fail_memory(err);
    }
    *ret = s;
    return 0;
}

int abx_sandbox_server(struct abx_sandbox *sb, struct abx_server **ret,
                       struct abx_client_error *err)
{
    return abx_sandbox_server_at(sb, DEFAULT_PORT, NULL, ret, err);
}

void abx_server_close(struct abx_server *s)
{
    if (s == NULL)
        return;
    free(s->token);
    free(s);
}

struct health {
    struct abx_str status;
};
static const struct abx_json_field health_fields[] = {
    {"status", ABX_JSON_STR, offsetof(struct health, status), 0}, {0}};

int abx_server_health(struct abx_server *s, struct abx_client_error *err)
{
    ABX_AUTO_FREE char *body = NULL;
    struct health h = {0};
    struct abx_arena arena;
    int status;
    if (abx_server_request(s, "GET", "/health", NULL, &status, &body, err) < 0)
        return -1;
    if (status != 200)
        return fail_answer(err, "health", status, abx_str(body));
    abx_arena_init(&arena, 65536);
    (void)abx_json_decode_text(abx_str(body), true, health_fields, &h, &arena, NULL);
    bool is_ok = abx_str_is(h.status, "ok");
    abx_arena_done(&arena);
    return is_ok ? 0
                 : abx__client_fail(err, "E9000", "server", "health: port %u is no server",
                                    (unsigned)s->port);
}

int abx_server_get(struct abx_server *s, const char *path, char **ret_json,
                   struct abx_client_error *err)
{
    ABX_AUTO_FREE char *body = NULL;
    int status;
    if (abx_server_request(s, "GET", path, NULL, &status, &body, err) < 0)
        return -1;
    if (status / 100 != 2)
        return fail_answer(err, path, status, abx_str(body));
    if (!abx_str_starts(abx_str_trim(abx_str(body)), "{"))
        return abx__client_fail(err, "E9000", "server", "%s: the answer is no JSON object", path);
    *ret_json = ABX_TAKE(body);
    return 0;
}

/* ---- commands ---- */

struct ran {
    struct json_t *result;
};
static const struct abx_json_field ran_fields[] = {
    {"result", ABX_JSON_RAW, offsetof(struct ran, result), ABX_JSON_REQUIRED}, {0}};

static int take_result(const char *body, char **ret_json, struct abx_client_error *err)
{
    struct abx_json_limits limits = {.max_bytes = CLIENT_BODY_MAX, .max_depth = 128};
    struct json_t *doc = NULL;
    struct ran ran = {0};
    struct abx_arena arena;
    struct abx_error base;
    struct abx_buf out;
    struct abx_json_writer w;
    if (abx_json_parse(abx_str(body), &limits, &doc, &base) < 0)
        return abx__client_fail(err, "E9000", "server", "answer: %s", base.msg);
    abx_arena_init(&arena, 65536);
    abx_buf_init(&out, CLIENT_BODY_MAX);
    abx_json_writer_init(&w, &out);
    int result = abx_json_decode(doc, ran_fields, &ran, &arena, &base);
    if (result < 0)
        abx__client_fail(err, "E9000", "server", "answer: %s", base.msg);
    else if (ran.result == NULL)
        abx_json_null(&w);
    else
        abx_json_value(&w, ran.result);
    abx_arena_done(&arena);
    abx_json_free(doc);
    if (result == 0 && (*ret_json = abx_buf_take(&out)) == NULL)
        result = abx__client_fail_memory(err);
    if (result < 0)
        abx_buf_done(&out);
    return result;
}

int abx_server_run(struct abx_server *s, const char *name, const char *arguments_json,
                   char **ret_json, struct abx_client_error *err)
{
    ABX_AUTO_FREE char *body = NULL;
    ABX_AUTO_BUF path;
    char what[160];
    int status;
    abx_buf_init(&path, 2048);
    if (name[0] == '\0' || name[strcspn(name, " \t\r\n/?#\\")] != '\0')
        return abx__client_fail(err, "E8002", "client", "'%.80s' is no command name", name);
    abx_buf_put_c(&path, "/commands/");
    abx_url_encode(&path, abx_str(name), "");
    if (abx_buf_failed(&path))
        return abx__client_fail(err, "E8002", "client", "the command's name is too long");
    uint32_t timeout = s->timeout_ms;
    s->timeout_ms = UINT32_MAX; /* a command takes as long as it takes; the policy has the limit */
    int result = abx_server_request(s, "POST", path.ptr, arguments_json ? arguments_json : "{}",
                                    &status, &body, err);
    s->timeout_ms = timeout;
    if (result < 0)
        return -1;
    snprintf(what, sizeof(what), "command %.100s", name);
    if (status / 100 == 2)
        return take_result(body, ret_json, err);
    fail_answer(err, what, status, abx_str(body));
    if (status == 404 && strcmp(err->id, "E9000") == 0) {
        snprintf(err->id, sizeof(err->id), "E3005");
        abx__client_next(err, "abx server routes ID lists the commands");
    }
    return -1;
}

/* ---- start ---- */

struct tail {
    char text[TAIL_MAX];
    size_t len;
};

static void on_stderr(void *arg, const char *data, size_t len)
{
    struct tail *t = arg;
    if (len > sizeof(t->text)) {
        data += len - sizeof(t->text);
        len = sizeof(t->text);
    }
    size_t keep = sizeof(t->text) - len < t->len ? sizeof(t->text) - len : t->len;
    memmove(t->text, t->text + t->len - keep, keep);
    memcpy(t->text + keep, data, len);
    t->len = keep + len;
}

struct process {
    uint32_t pid;
};
struct processes {
    struct abx_json_array rows;
};
static const struct abx_json_field process_fields[] = {
    {"pid", ABX_JSON_U32, offsetof(struct process, pid), 0}, {0}};
static const struct abx_json_field processes_fields[] = {{"processes", ABX_JSON_ARRAY,
                                                          offsetof(struct processes, rows), 0,
                                                          process_fields, sizeof(struct process)},
                                                         {0}};

/* Whether envd still has @pid among its processes. */
static bool is_running(struct abx_sandbox *sb, uint32_t pid)
{
    struct abx_http_extra headers[CLIENT_HEADERS];
    struct abx_client_error ignored;
    struct processes p = {0};
    struct abx_arena arena;
    abx_arena_init(&arena, 1 << 20);
    abx__sandbox_headers(sb, "application/json", NULL, headers);
    struct client_request r = {.method = "POST",
                               .target = ABX_STR("/process.Process/List"),
                               .headers = headers,
                               .body = ABX_STR("{}"),
                               .has_body = true};
    pthread_mutex_lock(&sb->client->lock);
    int result = abx__client_run(sb->client, &r, &ignored);
    pthread_mutex_unlock(&sb->client->lock);
    bool found =
        result < 0 || r.status != 200 ||
        abx_json_decode_text(abx_buf_str(&r.answer), true, processes_fields, &p, &arena, NULL) < 0;
    const struct process *rows = p.rows.items;
    for (size_t i = 0; !found && i < p.rows.count; i++)
        found = rows[i].pid == pid;
    abx_buf_done(&r.answer);
    abx_arena_done(&arena);
    return found;
}

/* The process has ended: how, and what it said. */
static int explain_end(struct abx_sandbox *sb, uint32_t pid, struct abx_client_error *err)
{
    struct tail *tail = calloc(1, sizeof(*tail));
    struct abx_exec_result res = {0};
    struct abx_exec_options o = {.attach_pid = pid,
                                 .replay_from = 0,
                                 .timeout_ms = ATTACH_MS,
                                 .stdin_fd = -1,
                                 .on_stdout = on_stderr,
                                 .on_stderr = on_stderr,
                                 .arg = tail};
    if (tail == NULL)
        return abx__client_fail_memory(err);
    if (abx_sandbox_exec(sb, &o, &res, err) == 0) {
        struct abx_str said = abx_str_trim(abx_str_n(tail->text, tail->len));
        if (said.len > 300)
            said = abx_str_sub(said, said.len - 300, SIZE_MAX);
        while (said.len && said.ptr[said.len - 1] == '\n')
            said.len--;
        abx__client_fail(err, "E5001", "server", "the server ended (%s): %.*s", res.status,
                         ABX_STR_FMT(said));
        abx__client_next(err, "agent-sandbox-server check-config in the sandbox tells more");
    }
    free(tail);
    return -1;
}

struct started {
    uint32_t pid;
};

static void on_start(void *arg, uint32_t pid)
{
    ((struct started *)arg)->pid = pid;
}

static int wait_healthy(struct abx_server *s, uint32_t pid, int64_t deadline,
                        struct abx_client_error *err)
{
    uint32_t wait_ms = POLL_FIRST_MS;
    for (;;) {
        if (abx_server_health(s, err) == 0)
            return 0;
        if (!is_running(s->sb, pid))
            return explain_end(s->sb, pid, err);
        if (abx_time_mono_ms() > deadline) {
            char last[240];
            snprintf(last, sizeof(last), "%.239s", err->message);
            return abx__client_fail(err, "E5001", "server",
                                    "the server on port %u is not healthy in time: %s",
                                    (unsigned)s->port, last);
        }
        struct timespec nap = {.tv_nsec = wait_ms * 1000000};
        nanosleep(&nap, NULL);
        wait_ms = wait_ms * 2 < POLL_MOST_MS ? wait_ms * 2 : POLL_MOST_MS;
    }
}

static int start_process(struct abx_sandbox *sb, const struct abx_server_options *o,
                         struct started *ret, struct abx_client_error *err)
{
    const char *argv[16];
    char port[8];
    size_t n = 0, e = 0;
    struct abx_pair env[ENV_MAX + 3] = {0};
    snprintf(port, sizeof(port), "%u", (unsigned)(o->port ? o->port : DEFAULT_PORT));
    const char *const fixed[] = {"agent-sandbox-server", "serve", "--port", port};
    for (; n < ABX_COUNTOF(fixed); n++)
        argv[n] = fixed[n];
    if (o->commands) {
        argv[n++] = "--commands";
        argv[n++] = o->commands;
    }
    if (o->preset) {
        argv[n++] = "--preset";
        argv[n++] = o->preset;
    }
    argv[n] = NULL;
    for (; o->env && o->env[e].key && e < ENV_MAX; e++)
        env[e] = o->env[e];
    if (o->token)
        env[e++] = (struct abx_pair){"ABX_SERVER_TOKEN", o->token};
    if (o->policy_json)
        env[e++] = (struct abx_pair){"ABX_SERVER_POLICY", o->policy_json};
    struct abx_exec_result ignored;
    struct abx_exec_options x = {.argv = o->command ? o->command : argv,
                                 .user = "user",
                                 .env = env,
                                 .stdin_fd = -1,
                                 .detach = true,
                                 .on_start = on_start,
                                 .arg = ret};
    return abx_sandbox_exec(sb, &x, &ignored, err);
}

int abx_sandbox_start_server(struct abx_sandbox *sb, const struct abx_server_options *o,
                             struct abx_server **ret, struct abx_client_error *err)
{
    int64_t deadline = abx_time_mono_ms() + (o->timeout_ms ? o->timeout_ms : DEFAULT_WAIT_MS);
    struct started started = {0};
    struct abx_client_error unused;
    struct abx_server *s = NULL;
    if (o->policy_json && o->preset)
        return abx__client_fail(err, "E8002", "client", "a policy or a preset, not both");
    if (o->policy_json && abx__policy_check(o->policy_json, err) < 0)
        return -1;
    if (abx_sandbox_server_at(sb, o->port, o->token, &s, err) < 0)
        return -1;
    bool answers = abx_server_health(s, &unused) == 0;
    int result = 0;
    if (answers && !o->adopt) {
        result = abx__client_fail(err, "E5001", "server", "a server answers on port %u already",
                                  (unsigned)s->port);
        abx__client_next(err, "use it, or take another port");
    } else if (!answers) {
        result = start_process(sb, o, &started, err);
        if (result == 0 && !o->no_wait)
            result = wait_healthy(s, started.pid, deadline, err);
    }
    if (result < 0) {
        abx_server_close(s);
        return -1;
    }
    *ret = s;
    return 0;
}
