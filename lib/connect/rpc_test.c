/* lib/connect/rpc_test.c: calls over a real connection: bodies, envelopes, errors, deadlines. */
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/connect/pbjson.h"
#include "lib/connect/process.pb-c.h"
#include "lib/connect/rpc.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUARD_MS = 20000 };

/* A service whose behaviour the request chooses by its tag. */
static struct abx_rpc *held;
static unsigned closes, drains, messages;
static uint64_t seen_timeout;

static void on_close(struct abx_rpc *rpc)
{
    (void)rpc;
    closes++;
    held = NULL;
}

static void on_drain(struct abx_rpc *rpc)
{
    (void)rpc;
    drains++;
}

static void unary(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__SendSignalRequest *r = (const Process__SendSignalRequest *)in;
    const char *tag =
        r->process && r->process->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_TAG
            ? r->process->tag
            : "";
    seen_timeout = abx_rpc_timeout_ms(rpc);
    abx_rpc_on_close(rpc, on_close);
    if (strcmp(tag, "fail") == 0) {
        abx_rpc_failf(rpc, ABX_NOT_FOUND, "process with pid %d not found", 9);
    } else if (strcmp(tag, "hold") == 0) {
        held = rpc;
    } else {
        Process__StartResponse out = PROCESS__START_RESPONSE__INIT;
        Process__ProcessEvent event = PROCESS__PROCESS_EVENT__INIT;
        Process__ProcessEvent__StartEvent start = PROCESS__PROCESS_EVENT__START_EVENT__INIT;
        start.has_pid = true;
        start.pid = r->has_signal ? (uint32_t)r->signal : 0;
        event.event_case = PROCESS__PROCESS_EVENT__EVENT_START;
        event.start = &start;
        out.event = &event;
        abx_rpc_send(rpc, &out.base);
    }
}

static void stream(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__StartRequest *r = (const Process__StartRequest *)in;
    const char *tag = r->tag ? r->tag : "";
    seen_timeout = abx_rpc_timeout_ms(rpc);
    abx_rpc_on_close(rpc, on_close);
    abx_rpc_on_drain(rpc, on_drain);
    if (strcmp(tag, "fail") == 0) {
        abx_rpc_failf(rpc, ABX_NOT_FOUND, "no");
        return;
    }
    abx_rpc_send_encoded(rpc, ABX_STR("{\"event\":{\"keepalive\":{}}}"));
    if (strcmp(tag, "hold") == 0)
        held = rpc;
    else if (strcmp(tag, "late") == 0)
        abx_rpc_failf(rpc, ABX_INTERNAL, "late");
    else
        abx_rpc_finish(rpc);
}

static void input(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__StreamInputRequest *r = (const Process__StreamInputRequest *)in;
    abx_rpc_on_close(rpc, on_close);
    if (r->event_case != PROCESS__STREAM_INPUT_REQUEST__EVENT_START)
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "start first");
}

static void input_message(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    messages++;
    if (in)
        return;
    Process__StreamInputResponse out = PROCESS__STREAM_INPUT_RESPONSE__INIT;
    abx_rpc_send(rpc, &out.base);
    abx_rpc_finish(rpc);
}

static const struct abx_rpc_method methods[] = {
    {"Unary", ABX_RPC_UNARY, &process__send_signal_request__descriptor,
     &process__start_response__descriptor, unary},
    {"Stream", ABX_RPC_SERVER_STREAM, &process__start_request__descriptor,
     &process__start_response__descriptor, stream},
    {"Input", ABX_RPC_CLIENT_STREAM, &process__stream_input_request__descriptor,
     &process__stream_input_response__descriptor, input, input_message},
    {0}};
static const struct abx_rpc_service service = {"/t.T/", methods, 4096};
static const struct abx_rpc_service *const services[] = {&service, NULL};

static const struct abx_http_extra *extra(struct abx_http_req *req)
{
    (void)req;
    static const struct abx_http_extra rows[] = {{"X-Extra", {"yes", 3}}, {0}};
    return rows;
}

static struct abx_loop loop;
static struct abx_rpc_server rpc_server = {&loop, services, extra};
static struct abx_http_server *http;
static int peer;
static bool is_closed;

static void on_request(struct abx_http_req *req)
{
    if (!abx_rpc_serve(&rpc_server, req))
        abx_http_answer(req, 404, NULL, ABX_STR("none"));
}

static void begin(void)
{
    struct abx_http_server_options o = {.on_request = on_request};
    struct abx_error err = {0};
    int pair[2];
    closes = drains = messages = 0;
    held = NULL;
    is_closed = false;
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    assert_int_equal(abx_http_server_open(&loop, &o, &http, &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(abx_fd_set_nonblock(pair[0], true), 0);
    assert_int_equal(abx_http_server_adopt(http, pair[1], 0, &err), 0);
    peer = pair[0];
}

static void on_server_closed(void *arg)
{
    (void)arg;
    is_closed = true;
}

static void end(void)
{
    abx_fd_close(&peer);
    abx_http_server_close(http, true, on_server_closed, NULL);
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (!is_closed && abx_time_mono_ms() < until)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_true(is_closed);
    uv_run(&loop.uv, UV_RUN_NOWAIT); /* timers' close callbacks */
    abx_loop_done(&loop);
}

static void on_tick(struct abx_timer *t)
{
    (void)t;
}

/* Turns the loop, collecting what the server sends, until @until stands in it. */
static void turn_until(struct abx_buf *got, const char *until)
{
    struct abx_timer tick = {0};
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    abx_timer_init(&tick, &loop, on_tick, NULL);
    abx_timer_start(&tick, 1, 5);
    while (abx_str_find(abx_buf_str(got), abx_str(until)) < 0) {
        assert_true(abx_time_mono_ms() < limit);
        uv_run(&loop.uv, UV_RUN_ONCE);
        char chunk[4096];
        ssize_t n = read(peer, chunk, sizeof(chunk));
        if (n > 0)
            abx_buf_put(got, chunk, (size_t)n);
        if (n == 0)
            break;
    }
    abx_timer_close(&tick, NULL);
    uv_run(&loop.uv, UV_RUN_NOWAIT);
}

static void put_request(struct abx_buf *b, const char *method, const char *type,
                        const char *headers, struct abx_str body)
{
    abx_buf_putf(b,
                 "POST /t.T/%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%sContent-Length: "
                 "%zu\r\n\r\n",
                 method, type, headers, body.len);
    abx_buf_put_str(b, body);
}

static void put_envelope(struct abx_buf *b, uint8_t flags, struct abx_str payload)
{
    char head[5] = {(char)flags, 0, 0, (char)(payload.len >> 8), (char)payload.len};
    abx_buf_put(b, head, sizeof(head));
    abx_buf_put_str(b, payload);
}

static void send_all(struct abx_str data)
{
    assert_int_equal(write(peer, data.ptr, data.len), (ssize_t)data.len);
}

struct call {
    const char *method, *type, *headers;
    struct abx_str body;
    bool enveloped;
    const char *expect[4]; /* all in the answer; the last one ends it */
};

static void check_call(const struct call *c)
{
    ABX_AUTO_BUF body;
    ABX_AUTO_BUF request;
    ABX_AUTO_BUF got;
    abx_buf_init(&body, 1 << 16);
    abx_buf_init(&request, 1 << 16);
    abx_buf_init(&got, 1 << 16);
    if (c->enveloped)
        put_envelope(&body, 0, c->body);
    else
        abx_buf_put_str(&body, c->body);
    put_request(&request, c->method, c->type, c->headers ? c->headers : "", abx_buf_str(&body));
    begin();
    send_all(abx_buf_str(&request));
    size_t last = 0;
    while (last < 3 && c->expect[last + 1])
        last++;
    turn_until(&got, c->expect[last]);
    for (size_t i = 0; i <= last; i++) {
        if (abx_str_find(abx_buf_str(&got), abx_str(c->expect[i])) < 0)
            print_error("answer: %s\n", got.ptr);
        assert_true(abx_str_find(abx_buf_str(&got), abx_str(c->expect[i])) >= 0);
    }
    assert_true(abx_str_find(abx_buf_str(&got), ABX_STR("X-Extra: yes")) >= 0);
    end();
}

#define JSON   "application/json"
#define C_JSON "application/connect+json"
#define START7 "{\"event\":{\"start\":{\"pid\":7}}}"

TEST(rpc_unary_rows)
{
    static const struct call rows[] = {
        {"Unary",
         JSON,
         NULL,
         {"{\"signal\":7}", 12},
         false,
         {"HTTP/1.1 200", "Content-Type: application/json\r\n", START7}},
        {"Unary",
         "application/json; charset=utf-8",
         NULL,
         {"{\"signal\":7}", 12},
         false,
         {"HTTP/1.1 200", START7}},
        {"Unary",
         C_JSON,
         NULL,
         {"{\"signal\":7}", 12},
         false,
         {"HTTP/1.1 200", "Content-Type: application/json\r\n", START7}},
        {"Unary", C_JSON, NULL, {"{\"signal\":7}", 12}, true, {"HTTP/1.1 200", START7}},
        {"Unary",
         "application/proto",
         NULL,
         {"\x10\x07", 2},
         false,
         {"HTTP/1.1 200", "Content-Type: application/proto\r\n", "\n\x04\n\x02\x08\x07"}},
        {"Unary", "application/proto", NULL, {"", 0}, false, {"HTTP/1.1 200", "\n\x04\n\x02\x08"}},
        {"Unary",
         JSON,
         NULL,
         {"", 0},
         false,
         {"HTTP/1.1 400", "{\"code\":\"invalid_argument\",\"message\":\"request: empty body, "}},
        {"Unary",
         JSON,
         NULL,
         {"{\"signal\":[]}", 13},
         false,
         {"HTTP/1.1 400", "request: signal: expected a name"}},
        {"Unary",
         JSON,
         NULL,
         {"{\"process\":{\"tag\":\"fail\"}}", 26},
         false,
         {"HTTP/1.1 404", "Content-Type: application/json\r\n",
          "{\"code\":\"not_found\",\"message\":\"process with pid 9 not found\"}"}},
        {"Unary",
         "text/plain",
         NULL,
         {"{}", 2},
         false,
         {"HTTP/1.1 415",
          "Accept-Post: application/json, application/proto, "
          "application/connect+json, application/connect+proto\r\n",
          "\r\n\r\n{\"code\":415,\"message\":\"Accept-Post: application/json, "}},
        {"Unary",
         JSON,
         "Content-Encoding: gzip\r\n",
         {"{}", 2},
         false,
         {"HTTP/1.1 501", "unknown compression \\\"gzip\\\": send identity"}},
        {"Unary",
         JSON,
         "Connect-Timeout-Ms: 1x\r\n",
         {"{}", 2},
         false,
         {"HTTP/1.1 400", "Connect-Timeout-Ms: expected 1 to 10 digits"}},
        {"Unary",
         JSON,
         "Connect-Timeout-Ms: 12345678901\r\n",
         {"{}", 2},
         false,
         {"HTTP/1.1 400", "Connect-Timeout-Ms: expected 1 to 10 digits"}},
        {"None",
         JSON,
         NULL,
         {"{}", 2},
         false,
         {"HTTP/1.1 404",
          "{\"code\":\"unimplemented\",\"message\":\"/t.T/ has no method \\\"None"}},
        {"Unary",
         JSON,
         "Connect-Timeout-Ms: 30\r\n",
         {"{\"process\":{\"tag\":\"hold\"}}", 26},
         false,
         {"HTTP/1.1 504", "{\"code\":\"deadline_exceeded\""}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_call(&rows[i]);
}

#define KEEPALIVE "{\"event\":{\"keepalive\":{}}}"
#define STREAMED  "Content-Type: application/connect+json\r\n"

TEST(rpc_stream_rows)
{
    static const struct call rows[] = {
        {"Stream", C_JSON, NULL, {"{}", 2}, true, {"HTTP/1.1 200", STREAMED, KEEPALIVE, "\x02{}"}},
        {"Stream", C_JSON, NULL, {"{}", 2}, false, {"HTTP/1.1 200", STREAMED, KEEPALIVE, "\x02{}"}},
        {"Stream",
         C_JSON,
         NULL,
         {"{\"tag\":\"fail\"}", 14},
         true,
         {"HTTP/1.1 200", STREAMED, "{\"error\":{\"code\":\"not_found\",\"message\":\"no\"}}"}},
        {"Stream",
         C_JSON,
         NULL,
         {"{\"tag\":\"late\"}", 14},
         true,
         {"HTTP/1.1 200", KEEPALIVE, "{\"error\":{\"code\":\"internal\",\"message\":\"late\"}}"}},
        {"Stream", C_JSON, NULL, {"", 0}, false, {"HTTP/1.1 200", "request: empty body"}},
        {"Stream",
         C_JSON,
         NULL,
         {"[]", 2},
         true,
         {"HTTP/1.1 200", "request: message: expected an object"}},
        {"Stream",
         C_JSON,
         NULL,
         {"\0\0\0\0\x05{}", 7},
         false,
         {"HTTP/1.1 200", "request: the body ends inside an envelope"}},
        {"Stream",
         C_JSON,
         NULL,
         {"\0\0\0\0\x02{}\0\0\0\0\x02{}", 14},
         false,
         {"HTTP/1.1 200", "request: more than one message"}},
        {"Stream",
         C_JSON,
         NULL,
         {"\x01\0\0\0\x02{}", 7},
         false,
         {"HTTP/1.1 200", "\"code\":\"unimplemented\"", "compressed messages are not supported"}},
        {"Stream",
         C_JSON,
         NULL,
         {"\x02\0\0\0\x02{}", 7},
         false,
         {"HTTP/1.1 200", "request: end-of-stream flag from a client"}},
        {"Stream",
         C_JSON,
         NULL,
         {"\0\0\0\xFF\xFF{}", 7},
         false,
         {"HTTP/1.1 200", "\"code\":\"resource_exhausted\""}},
        {"Stream",
         JSON,
         NULL,
         {"{}", 2},
         false,
         {"HTTP/1.1 415", "Accept-Post: application/connect+json, application/connect+proto\r\n",
          "\r\n\r\n{\"code\":415,\"message\":\"Accept-Post: application/connect+json, "}},
        {"Stream",
         C_JSON,
         "Connect-Content-Encoding: gzip\r\n",
         {"{}", 2},
         true,
         {"HTTP/1.1 200", "\"code\":\"unimplemented\""}},
        {"Stream",
         C_JSON,
         "Connect-Content-Encoding: identity\r\n",
         {"{}", 2},
         true,
         {"HTTP/1.1 200", "\x02{}"}},
        {"Stream",
         C_JSON,
         "Connect-Timeout-Ms: 30\r\n",
         {"{\"tag\":\"hold\"}", 14},
         true,
         {"HTTP/1.1 200", KEEPALIVE, "{\"error\":{\"code\":\"deadline_exceeded\""}},
        {"Stream",
         C_JSON,
         "Connect-Timeout-Ms: -1\r\n",
         {"{}", 2},
         true,
         {"HTTP/1.1 200", "{\"error\":{\"code\":\"invalid_argument\""}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_call(&rows[i]);
}

TEST(rpc_bare_body_over_the_cap_is_refused)
{
    static char big[5000];
    memset(big, ' ', sizeof(big));
    struct call row = {"Unary", JSON,
                       NULL,    {big, sizeof(big)},
                       false,   {"HTTP/1.1 429", "larger than the 4096 bytes that are allowed"}};
    check_call(&row);
}

TEST(rpc_other_verbs_are_405)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 16);
    begin();
    send_all(ABX_STR("GET /t.T/Unary HTTP/1.1\r\nHost: x\r\n\r\n"));
    turn_until(&got, "\r\n\r\n{\"code\":405,\"message\":\"Allow: POST\"}");
    assert_true(abx_str_starts(abx_buf_str(&got), "HTTP/1.1 405"));
    assert_true(abx_str_find(abx_buf_str(&got), ABX_STR("Allow: POST\r\n")) >= 0);
    end();
}

TEST(rpc_client_stream_gets_each_message_and_the_end)
{
    ABX_AUTO_BUF body;
    ABX_AUTO_BUF request;
    ABX_AUTO_BUF got;
    abx_buf_init(&body, 1 << 16);
    abx_buf_init(&request, 1 << 16);
    abx_buf_init(&got, 1 << 16);
    put_envelope(&body, 0, ABX_STR("{\"start\":{\"process\":{\"pid\":1}}}"));
    for (int i = 0; i < 3; i++)
        put_envelope(&body, 0, ABX_STR("{\"data\":{\"input\":{\"stdin\":\"aGk=\"}}}"));
    put_request(&request, "Input", C_JSON, "", abx_buf_str(&body));
    begin();
    for (size_t i = 0; i < request.len; i++) { /* at every split */
        send_all(abx_str_n(request.ptr + i, 1));
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    turn_until(&got, "\x02{}");
    assert_int_equal(messages, 4);
    assert_int_equal(closes, 1);
    end();
}

TEST(rpc_handler_is_told_once_when_the_client_goes)
{
    ABX_AUTO_BUF request;
    ABX_AUTO_BUF got;
    abx_buf_init(&request, 1 << 16);
    abx_buf_init(&got, 1 << 16);
    put_request(&request, "Stream", C_JSON, "", ABX_STR("{\"tag\":\"hold\"}"));
    begin();
    send_all(abx_buf_str(&request));
    turn_until(&got, KEEPALIVE);
    assert_non_null(held);
    assert_int_equal(closes, 0);
    abx_fd_close(&peer);
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    while (closes == 0 && abx_time_mono_ms() < limit)
        uv_run(&loop.uv, UV_RUN_ONCE);
    assert_int_equal(closes, 1);
    end();
    assert_int_equal(closes, 1);
}

TEST(rpc_slow_client_stops_the_producer_until_drain)
{
    ABX_AUTO_BUF request;
    ABX_AUTO_BUF got;
    static char payload[32768];
    memset(payload, 'x', sizeof(payload));
    abx_buf_init(&request, 1 << 16);
    abx_buf_init(&got, 64 << 20);
    put_request(&request, "Stream", C_JSON, "", ABX_STR("{\"tag\":\"hold\"}"));
    begin();
    send_all(abx_buf_str(&request));
    turn_until(&got, KEEPALIVE);
    unsigned sent = 0;
    while (sent < 1000 && abx_rpc_send_encoded(held, abx_str_n(payload, sizeof(payload))))
        sent++;
    assert_true(sent < 1000); /* the socket and the mark bound it */
    assert_int_equal(drains, 0);
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    while (drains == 0 && abx_time_mono_ms() < limit) {
        char chunk[65536];
        if (read(peer, chunk, sizeof(chunk)) < 0)
            assert_int_equal(errno, EAGAIN);
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(drains, 1);
    abx_rpc_finish(held);
    assert_int_equal(closes, 1);
    turn_until(&got, "\x02{}");
    end();
}

/* The cap of one message is larger than what all may hold together. */
TEST(rpc_requests_share_a_budget)
{
    static char large[3000], json[3100];
    struct abx_rpc_budget budget = {.max = 2000};
    memset(large, 'x', sizeof(large) - 1);
    snprintf(json, sizeof(json), "{\"tag\":\"%s\"}", large);
    rpc_server.budget = &budget;
    check_call(
        &(struct call){"Unary",
                       "application/json",
                       NULL,
                       abx_str(json),
                       false,
                       {"HTTP/1.1 429", "\"resource_exhausted\"", "too much is being asked"}});
    assert_int_equal(budget.used, 0);
    check_call(
        &(struct call){"Stream",
                       "application/connect+json",
                       NULL,
                       abx_str(json),
                       true,
                       {"HTTP/1.1 200", "\"resource_exhausted\"", "too much is being asked"}});
    assert_int_equal(budget.used, 0);
    check_call(&(struct call){"Unary",
                              "application/json",
                              NULL,
                              ABX_STR("{\"process\":{\"tag\":\"small\"}}"),
                              false,
                              {"HTTP/1.1 200"}});
    assert_int_equal(budget.used, 0);
    rpc_server.budget = NULL;
}
