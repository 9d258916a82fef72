/* cli/cmd_provider_serve.c: abx provider engine serve: the process that the published client asks
 * for the commands of providers (abx-engine/1; published-client.md 5 and C60).
 *
 * No provider of ours has commands: the lists are empty, and a named one is a typed error. The
 * client finds this process by ~/.abx/engine.json, which is written at the start and removed at the
 * end. What a request says of the caller's account (X-Abx-Connection) is not looked at. */
#include "cli/cli.h"
#include "cli/client_home.h"
#include "lib/base/address.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "lib/http/server.h"
#include "lib/loop/loop.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { IDLE_S = 600, TOKEN_BYTES = 32, CONNS = 64, RECORD_MAX = 4096, COMMAND_ID_MAX = 80 };
static const char protocol[] = "abx-engine/1", record_name[] = "engine.json";

static const struct cli_option options[] = {{"--idle", 0, CLI_COUNT, CLI_VALUE(timeout_s), 0,
                                             "SECONDS",
                                             "ends after so long without a request (600)"},
                                            {0}};

struct serve {
    struct abx_loop loop;
    struct abx_http_server *server;
    struct abx_timer idle;
    struct abx_signal term, interrupt;
    uint64_t idle_ms;
    int dir_fd; /* ~/.abx */
    char token[2 * TOKEN_BYTES + 1];
};

/* ---- answers ---- */

/* The exception that the client makes of it. */
struct fault {
    int status;
    const char *type, *code, *message;
};
static const struct fault unauthorized = {401, "AuthenticationError", "E1000",
                                          "the token is that of ~/.abx/engine.json"},
                          no_command = {404, "ProviderResourceNotFoundError", "E8005",
                                        "no provider of this engine has commands"},
                          no_provider = {400, "ProviderConfigError", "E8002",
                                         "that is no name of a provider or a command"},
                          no_route = {404, "ProviderProtocolError", "E8020",
                                      "this engine answers /v1/health and "
                                      "/v1/providers/ID/commands"},
                          no_method = {405, "ProviderProtocolError", "E8020",
                                       "GET, and POST of a command"};

static void write_fault(const char *type, const char *code, const char *message,
                        struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("error"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", type);
    abx_json_kv_c(&w, "code", code);
    abx_json_kv_c(&w, "message", message);
    abx_json_end_object(&w);
    abx_json_end_object(&w);
}

static void write_refusal(void *user, int status, const char *message, struct abx_buf *out)
{
    (void)user;
    (void)status;
    write_fault(no_route.type, no_route.code, message, out);
}

static void answer(struct abx_http_req *req, int status, const struct abx_buf *json)
{
    const struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("application/json")}, {0}};
    bool ok = !abx_buf_failed(json);
    abx_http_answer(req, ok ? status : 500, extra, ok ? abx_buf_str(json) : ABX_STR("{}"));
}

static void fail(struct abx_http_req *req, const struct fault *f)
{
    ABX_AUTO_BUF b = {.max = RECORD_MAX};
    write_fault(f->type, f->code, f->message, &b);
    answer(req, f->status, &b);
}

static void tell_health(struct abx_http_req *req)
{
    ABX_AUTO_BUF b = {.max = RECORD_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "protocol", protocol);
    abx_json_kv_c(&w, "version", ABX_VERSION);
    abx_json_kv_i64(&w, "pid", getpid());
    abx_json_end_object(&w);
    answer(req, 200, &b);
}

static bool is_name(struct abx_str s)
{
    bool ok = s.len > 0 && s.len <= COMMAND_ID_MAX && s.ptr[0] >= 'a' && s.ptr[0] <= 'z';
    for (size_t i = 0; i < s.len; i++)
        ok = ok && ((s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || (s.ptr[i] >= '0' && s.ptr[i] <= '9') ||
                    s.ptr[i] == '-' || s.ptr[i] == '.');
    return ok;
}

/* "/v1/providers/ID/commands" and "/v1/providers/ID/commands/CMD". */
static void tell_commands(struct abx_http_req *req, struct abx_str rest, bool is_get)
{
    ABX_AUTO_BUF b = {.max = RECORD_MAX};
    struct abx_str provider, word, command;
    bool has_word = abx_str_split(&rest, '/', &provider) && abx_str_split(&rest, '/', &word);
    if (!has_word || !abx_str_is(word, "commands")) {
        fail(req, &no_route);
        return;
    }
    bool has_command = abx_str_split(&rest, '/', &command);
    if (rest.ptr != NULL)
        fail(req, &no_route);
    else if (!is_name(provider) || (has_command && !is_name(command)))
        fail(req, &no_provider);
    else if (has_command)
        fail(req, &no_command);
    else if (!is_get)
        fail(req, &no_method);
    else {
        abx_buf_put_c(&b, "{\"commands\":[]}");
        answer(req, 200, &b);
    }
}

static bool is_authorized(const struct serve *s, const struct abx_http_head *head)
{
    static const char scheme[] = "Bearer ";
    struct abx_str given = abx_http_header(head, "Authorization");
    if (!abx_str_starts(given, scheme))
        return false;
    given = abx_str_sub(given, sizeof(scheme) - 1, SIZE_MAX);
    return given.len == sizeof(s->token) - 1 && sodium_memcmp(given.ptr, s->token, given.len) == 0;
}

static void on_request(struct abx_http_req *req)
{
    static const char providers[] = "/v1/providers/";
    struct serve *s = req->user;
    bool is_get = abx_str_is(req->head->method, "GET");
    if (!is_authorized(s, req->head)) {
        fail(req, &unauthorized);
        return;
    }
    abx_timer_start(&s->idle, s->idle_ms, 0);
    if (!is_get && !abx_str_is(req->head->method, "POST"))
        fail(req, &no_method);
    else if (is_get && abx_str_is(req->path, "/v1/health"))
        tell_health(req);
    else if (abx_str_starts(req->path, providers))
        tell_commands(req, abx_str_sub(req->path, sizeof(providers) - 1, SIZE_MAX), is_get);
    else
        fail(req, &no_route);
}

/* ---- the record ---- */

static int write_record(struct serve *s, uint16_t port, struct abx_error *err)
{
    ABX_AUTO_BUF b = {.max = RECORD_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "protocol", protocol);
    abx_json_kv_i64(&w, "pid", getpid());
    abx_json_kv_c(&w, "host", "127.0.0.1");
    abx_json_kv_i64(&w, "port", port);
    abx_json_kv_c(&w, "token", s->token);
    abx_json_kv_c(&w, "version", ABX_VERSION);
    abx_json_end_object(&w);
    if (abx_buf_failed(&b))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    int r = abx_fd_replace_file(s->dir_fd, record_name, abx_buf_str(&b), 0600);
    return r < 0 ? abx_err_sys(err, r, "write ~/.abx/%s", record_name) : 0;
}

/* Unless another engine has put its own there. */
static void remove_record(const struct serve *s)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    if (abx_fd_read_file(s->dir_fd, record_name, RECORD_MAX, &text, &len) == 0 &&
        abx_str_find(abx_str_n(text, len), abx_str(s->token)) >= 0)
        unlinkat(s->dir_fd, record_name, 0);
}

/* ---- life ---- */

static void on_server_closed(void *arg)
{
    struct serve *s = arg;
    abx_loop_stop(&s->loop);
}

static void end(struct serve *s)
{
    struct abx_http_server *server = s->server;
    if (server == NULL)
        return;
    s->server = NULL;
    remove_record(s);
    abx_http_server_close(server, false, on_server_closed, s);
}

static void on_signal(struct abx_signal *handle, int signum)
{
    (void)signum;
    end(handle->owner);
}

static void on_idle(struct abx_timer *t)
{
    end(t->owner);
}

static int listen_loopback(uint16_t *ret_port, struct abx_error *err)
{
    union abx_address loopback;
    int r = abx_address_parse("127.0.0.1", 0, &loopback);
    int fd = r < 0 ? r : abx_address_bind(&loopback, false, CONNS);
    if (fd < 0)
        return abx_err_sys(err, fd, "listen on 127.0.0.1");
    *ret_port = abx_address_bound_port(fd);
    return fd;
}

static int open_all(struct serve *s, struct abx_error *err)
{
    unsigned char secret[TOKEN_BYTES];
    uint16_t port = 0;
    struct abx_http_server_options o = {
        .on_request = on_request, .user = s, .max_conns = CONNS, .refusal = write_refusal};
    if (sodium_init() < 0)
        return abx_err_set(err, ABX_INTERNAL, "no random numbers");
    randombytes_buf(secret, sizeof(secret));
    sodium_bin2hex(s->token, sizeof(s->token), secret, sizeof(secret));
    s->dir_fd = cli_client_home_open(err);
    if (s->dir_fd < 0 || abx_http_server_open(&s->loop, &o, &s->server, err) < 0)
        return -1;
    int fd = listen_loopback(&port, err);
    if (fd < 0 || abx_http_server_listen(s->server, fd, 0, err) < 0 ||
        abx_signal_init(&s->term, &s->loop, SIGTERM, on_signal, s, err) < 0 ||
        abx_signal_init(&s->interrupt, &s->loop, SIGINT, on_signal, s, err) < 0)
        return -1;
    abx_timer_init(&s->idle, &s->loop, on_idle, s);
    abx_timer_start(&s->idle, s->idle_ms, 0);
    return write_record(s, port, err);
}

static int run(struct cli *cli)
{
    struct abx_error err = {0};
    struct serve s = {.dir_fd = -1};
    s.idle_ms = (uint64_t)(cli->v.timeout_s ? cli->v.timeout_s : IDLE_S) * 1000;
    if (abx_loop_init(&s.loop, &err) < 0)
        return cli_fail_base(&err);
    int r = open_all(&s, &err);
    if (r < 0)
        end(&s);
    else if (!cli->v.quiet)
        fprintf(stderr, "abx: serving abx-engine/1; it ends after %llu s without a request\n",
                (unsigned long long)s.idle_ms / 1000);
    abx_loop_run(&s.loop);
    abx_timer_close(&s.idle, NULL);
    abx_signal_close(&s.term, NULL);
    abx_signal_close(&s.interrupt, NULL);
    abx_loop_done(&s.loop);
    abx_fd_close(&s.dir_fd);
    return r < 0 ? cli_fail_base(&err) : 0;
}

const struct cli_command cmd_provider_serve = {
    .name = "provider engine serve",
    .args = "",
    .help = "Serve the published client's provider commands (abx-engine/1) on the loopback",
    .options = options,
    .run = run};
