/* lib/wire/http_test.c: the HTTP parser at every split, each refusal a row; the writer. */
#include "lib/base/assert.h"
#include "lib/wire/http.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

/* What a parser said about a stream of messages, as text that can be compared. */
struct run {
    struct abx_http_parser p;
    struct abx_buf log;
    bool is_head_answer, was_body;
};

static void log_fields(struct run *r, char kind, const struct abx_http_header *h, size_t count)
{
    for (size_t i = 0; i < count; i++)
        abx_buf_putf(&r->log, "%c[%.*s=%.*s]", kind, ABX_STR_FMT(h[i].name),
                     ABX_STR_FMT(h[i].value));
}

static void log_head(struct run *r)
{
    const struct abx_http_head *h = &r->p.head;
    if (r->p.is_response)
        abx_buf_putf(&r->log, "%d(%.*s)1.%d", h->status, ABX_STR_FMT(h->reason), h->minor);
    else
        abx_buf_putf(&r->log, "%.*s(%.*s)1.%d", ABX_STR_FMT(h->method), ABX_STR_FMT(h->target),
                     h->minor);
    log_fields(r, 'h', h->headers, h->header_count);
    abx_buf_putf(&r->log, "%s%s%s%s%s", h->keep_alive ? " keep" : "",
                 h->is_chunked ? " chunked" : "", h->expects_continue ? " expect" : "",
                 h->is_upgrade ? " upgrade" : "", r->p.until_eof ? " eof" : "");
    if (h->has_length)
        abx_buf_putf(&r->log, " len=%ju", (uintmax_t)h->content_length);
}

/* False once an error was met. */
static bool feed(struct run *r, struct abx_str in)
{
    for (;;) {
        struct abx_str body = {0};
        struct abx_error err = {0};
        enum abx_http_event e = abx_http_parse(&r->p, &in, &body, &err);
        if (e == ABX_HTTP_BODY && !r->was_body)
            abx_buf_put_c(&r->log, " body:");
        r->was_body = e == ABX_HTTP_BODY || (e == ABX_HTTP_NEED_MORE && r->was_body);
        switch (e) {
        case ABX_HTTP_NEED_MORE:
            assert_int_equal(in.len, 0);
            return true;
        case ABX_HTTP_HEAD:
            log_head(r);
            break;
        case ABX_HTTP_BODY:
            assert_true(body.len > 0);
            abx_buf_put_str(&r->log, body);
            break;
        case ABX_HTTP_END:
            log_fields(r, 't', r->p.trailers, r->p.trailer_count);
            abx_buf_put_c(&r->log, " END\n");
            if (r->p.head.status == 101)
                return true;
            abx_http_parser_reset(&r->p, r->is_head_answer && r->p.head.status < 200);
            break;
        case ABX_HTTP_ERROR:
            assert_true(err.code != ABX_OK && err.msg[0]);
            abx_buf_putf(&r->log, " ERROR %d", r->p.error_status);
            return false;
        }
    }
}

static void run_init(struct run *r, bool is_response, bool is_head_answer)
{
    *r = (struct run){.is_head_answer = is_head_answer};
    abx_http_parser_init(&r->p, is_response);
    abx_http_parser_reset(&r->p, is_head_answer);
    abx_buf_init(&r->log, 1 << 20);
}

static void run_done(struct run *r)
{
    abx_http_parser_done(&r->p);
    abx_buf_done(&r->log);
}

static void expect_log(const struct run *r, const char *want)
{
    assert_string_equal(r->log.ptr ? r->log.ptr : "", want);
}

static void feed_exact(struct run *r, const char *data, size_t len, bool *going)
{
    char *copy = malloc(len + 1); /* exact, so that a sanitizer sees an over-read */
    assert_non_null(copy);
    memcpy(copy, data, len);
    char *fit = realloc(copy, len ? len : 1);
    if (*going)
        *going = feed(r, abx_str_n(fit, len));
    free(fit);
}

struct message {
    const char *bytes;
    const char *want; /* the log; for refusals: NULL and the status */
    int status;
    bool is_head_answer;
};

/* Feeds in pieces of @step bytes after a first piece of @first. */
static void try_split(const struct message *m, bool is_response, size_t first, size_t step)
{
    struct run r;
    run_init(&r, is_response, m->is_head_answer);
    size_t len = strlen(m->bytes);
    bool going = true;
    for (size_t at = 0, n = first; at < len; at += n, n = step) {
        if (n > len - at)
            n = len - at;
        feed_exact(&r, m->bytes + at, n, &going);
    }
    if (m->want) {
        expect_log(&r, m->want);
    } else {
        char want[16];
        snprintf(want, sizeof(want), " ERROR %d", m->status);
        const char *got = r.log.ptr ? r.log.ptr : "";
        if (strlen(got) < strlen(want) || strcmp(got + strlen(got) - strlen(want), want) != 0)
            fail_msg("split %zu/%zu of <%s>: got <%s>, want%s", first, step, m->bytes, got, want);
    }
    run_done(&r);
}

static void try_all_splits(const struct message *m, bool is_response)
{
    size_t len = strlen(m->bytes);
    try_split(m, is_response, len, len);
    try_split(m, is_response, 1, 1);
    for (size_t first = 1; first < len; first++)
        try_split(m, is_response, first, len);
}

static void try_rows(const struct message *rows, size_t count, bool is_response)
{
    for (size_t i = 0; i < count; i++)
        try_all_splits(&rows[i], is_response);
}

#define H    "Host: x\r\n"
#define POST "POST / HTTP/1.1\r\n" H
#define TE   "Transfer-Encoding: chunked\r\n"
#define PH   "POST(/)1.1h[Host=x]"

TEST(http_request_reads_the_same_at_every_split)
{
    static const struct message rows[] = {
        {"GET /a?b HTTP/1.1\r\nHost: x\r\nA:  b c \t\r\n\r\n",
         "GET(/a?b)1.1h[Host=x]h[A=b c] keep END\n"},
        {"GET / HTTP/1.0\r\n\r\n", "GET(/)1.0 END\n"},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
         "GET(/)1.0h[Connection=Keep-Alive] keep END\n"},
        {"GET / HTTP/1.1\r\n" H "Connection: x, close\r\n\r\n",
         "GET(/)1.1h[Host=x]h[Connection=x, close] END\n"},
        {"GET / HTTP/1.1\r\nHost:\r\nA:\r\n\r\n", "GET(/)1.1h[Host=]h[A=] keep END\n"},
        {"\r\nGET / HTTP/1.1\r\n" H "\r\n", "GET(/)1.1h[Host=x] keep END\n"},
        {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS(*)1.1h[Host=x] keep END\n"},
        {"GET http://X/y HTTP/1.1\r\n" H "\r\n", "GET(http://X/y)1.1h[Host=x] keep END\n"},
        {"CONNECT x:1 HTTP/1.1\r\n" H "\r\n", "CONNECT(x:1)1.1h[Host=x] keep END\n"},
        {"M-SEARCH /%zz HTTP/1.1\r\n" H "\r\n", "M-SEARCH(/%zz)1.1h[Host=x] keep END\n"},
        {"GET / HTTP/1.1\r\n" H "Expect: 100-Continue\r\n\r\n",
         "GET(/)1.1h[Host=x]h[Expect=100-Continue] keep expect END\n"},
        {"GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n",
         "GET(/)1.1h[Host=x]h[Upgrade=websocket]h[Connection=keep-alive, Upgrade] keep upgrade "
         "END\n"},
        {"GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n\r\n",
         "GET(/)1.1h[Host=x]h[Upgrade=websocket] keep END\n"},
        {"GET / HTTP/1.0\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
         "GET(/)1.0h[Upgrade=a]h[Connection=upgrade] END\n"},
        {"GET / HTTP/1.1\r\n" H "X: \x80\xff\ty\r\n\r\n",
         "GET(/)1.1h[Host=x]h[X=\x80\xff\ty] keep END\n"},
        {POST "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n" H "\r\n",
         PH "h[Content-Length=3] keep len=3 body:abc END\nGET(/)1.1h[Host=x] keep END\n"},
        {POST "Content-Length: 0\r\n\r\n", PH "h[Content-Length=0] keep len=0 END\n"},
        {POST "Content-Length: 0000000003\r\n\r\nabc",
         PH "h[Content-Length=0000000003] keep len=3 body:abc END\n"},
        {POST TE "\r\n3\r\nabc\r\n00000a;x=\"y\"\r\n0123456789\r\n0\r\n\r\n" POST "\r\n",
         PH "h[Transfer-Encoding=chunked] keep chunked body:abc0123456789 END\n" PH " keep END\n"},
        {POST "Transfer-Encoding: CHUNKED\r\n\r\n0;\t\x80\r\nA: b\r\nC:\r\n\r\n",
         PH "h[Transfer-Encoding=CHUNKED] keep chunkedt[A=b]t[C=] END\n"},
        {POST TE "\r\n3\r\na\r\n\r\n0\r\n\r\n",
         PH "h[Transfer-Encoding=chunked] keep chunked body:a\r\n END\n"},
        {POST "Content-Length: 9223372036854775807\r\n\r\nab",
         PH "h[Content-Length=9223372036854775807] keep len=9223372036854775807 body:ab"},
        {POST TE "\r\nfffffffffffffff\r\nab",
         PH "h[Transfer-Encoding=chunked] keep chunked body:ab"},
    };
    try_rows(rows, ABX_COUNTOF(rows), false);
}

static const struct message refused_requests[] = {
    /* start line */
    {"\x16\x03\x01", NULL, 400},
    {" GET / HTTP/1.1\r\n", NULL, 400},
    {"\r\n\r\nGET / HTTP/1.1\r\n", NULL, 400},
    {"\n", NULL, 400},
    {"\rGET / HTTP/1.1\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\n", NULL, 400},
    {"GET\r\n\r\n", NULL, 400},
    {"GET /\r\n\r\n", NULL, 400},
    {"GET  / HTTP/1.1\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1 \r\n\r\n", NULL, 400},
    {"GET /  HTTP/1.1\r\n\r\n", NULL, 400},
    {"GET /a b HTTP/1.1\r\n\r\n", NULL, 400},
    {"GET\t/ HTTP/1.1\r\n\r\n", NULL, 400},
    {"G(T / HTTP/1.1\r\n\r\n", NULL, 400},
    {"GET /\x7f HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET /\x80 HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET /#f HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET a HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET * HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET ftp://x/ HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET http:///a HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"CONNECT x/y HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET / http/1.1\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1x\r\n\r\n", NULL, 400},
    {"GET / HTTP/11\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.2\r\n" H "\r\n", NULL, 505},
    {"GET / HTTP/2.0\r\n" H "\r\n", NULL, 505},
    {"PRI * HTTP/2.0\r\n\r\n", NULL, 505},
    {"GET / HTTP/0.9\r\n\r\n", NULL, 505},
    /* fields */
    {"GET / HTTP/1.1\r\n" H "A: b\nC: d\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A: b\rC: d\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A: b\r\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A: b\r\n folded\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A: b\r\n\tfolded\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n first: folded\r\n" H "\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A : b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A\t: b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H ": b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A b: c\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A\x80: b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A: \x01\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H "A: \x7f\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\n" H H "\r\n", NULL, 400},
    {"GET / HTTP/1.0\r\n" H "Host: y\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", NULL, 400},
    {"GET / HTTP/1.1\r\nHost: \x80\r\n\r\n", NULL, 400},
    {"GET http://y/ HTTP/1.1\r\n" H "\r\n", NULL, 400},
    {"GET http://a@x/ HTTP/1.1\r\n" H "\r\n", NULL, 400},
    /* framing */
    {POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", NULL, 400},
    {POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", NULL, 400},
    {POST "Content-Length: 3, 3\r\n\r\nabc", NULL, 400},
    {POST "Content-Length: +3\r\n\r\nabc", NULL, 400},
    {POST "Content-Length: -1\r\n\r\n", NULL, 400},
    {POST "Content-Length: 0x3\r\n\r\n", NULL, 400},
    {POST "Content-Length: 3 \x0b\r\n\r\n", NULL, 400},
    {POST "Content-Length:\r\n\r\n", NULL, 400},
    {POST "Content-Length: 9223372036854775808\r\n\r\n", NULL, 413},
    {POST "Content-Length: 18446744073709551619\r\n\r\nabc", NULL, 413},
    {POST "Content-Length: 3\r\n" TE "\r\n0\r\n\r\n", NULL, 400},
    {POST TE "Content-Length: 3\r\n\r\n0\r\n\r\n", NULL, 400},
    {POST TE TE "\r\n0\r\n\r\n", NULL, 400},
    {POST "Transfer-Encoding: gzip\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding: chunked, chunked\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding: chunked, identity\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding: \"chunked\"\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding: xchunked\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding:\r\n\r\n", NULL, 501},
    {POST "Transfer-Encoding : chunked\r\n\r\n", NULL, 400},
    {"POST / HTTP/1.0\r\n" TE "\r\n0\r\n\r\n", NULL, 400},
    /* chunks */
    {POST TE "\r\n\r\n", NULL, 400},
    {POST TE "\r\n;x\r\n", NULL, 400},
    {POST TE "\r\ng\r\n", NULL, 400},
    {POST TE "\r\n0x1\r\n", NULL, 400},
    {POST TE "\r\n-1\r\n", NULL, 400},
    {POST TE "\r\n 1\r\n", NULL, 400},
    {POST TE "\r\n1 \r\na\r\n", NULL, 400},
    {POST TE "\r\n1\na\r\n", NULL, 400},
    {POST TE "\r\n1\ra", NULL, 400},
    {POST TE "\r\n0000000000000001\r\na\r\n", NULL, 400},
    {POST TE "\r\n1;a\nb\r\n", NULL, 400},
    {POST TE "\r\n1;a\rb\r\n", NULL, 400},
    {POST TE "\r\n1;\x01\r\n", NULL, 400},
    {POST TE "\r\n1\r\nab\r\n", NULL, 400},
    {POST TE "\r\n1\r\na\n", NULL, 400},
    {POST TE "\r\n1\r\na\rb", NULL, 400},
    {POST TE "\r\n0\r\nA : b\r\n\r\n", NULL, 400},
    {POST TE "\r\n0\r\n A: b\r\n\r\n", NULL, 400},
    {POST TE "\r\n0\r\nA: b\n\r\n", NULL, 400},
    {POST TE "\r\n0\r\n\n", NULL, 400},
};

TEST(http_request_refusals_are_the_same_at_every_split)
{
    try_rows(refused_requests, ABX_COUNTOF(refused_requests), false);
}

TEST(http_response_reads_the_same_at_every_split)
{
    static const struct message rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200(OK)1.1h[Content-Length=2] keep "
                                                           "len=2 body:hi END\n"},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
         "200()1.1h[Content-Length=0] keep len=0 END\n"},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
         "200()1.1h[Content-Length=0] keep len=0 END\n"},
        {"HTTP/1.1 999 \xc3\xa9t\xc3\xa9\r\n\r\nabc", "999(\xc3\xa9t\xc3\xa9)1.1 eof body:abc"},
        {"HTTP/1.0 200 OK\r\n\r\n", "200(OK)1.0 eof"},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
         "200(OK)1.0h[Connection=keep-alive]h[Content-Length=1] keep len=1 body:x END\n"},
        {"HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\nHTTP/1.1 304 Not\r\n" TE "\r\n",
         "204(No)1.1h[Content-Length=9] keep len=9 END\n304(Not)1.1h[Transfer-Encoding=chunked] "
         "keep chunked END\n"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
         "1\r\n\r\nx",
         "200(OK)1.1h[Content-Length=5] keep len=5 END\n200(OK)1.1h[Content-Length=1] keep len=1 "
         "body:x END\n",
         0, true},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 "
         "OK\r\n" TE "\r\n",
         "100(Continue)1.1 keep END\n103(Early)1.1h[Link=x] keep END\n200(OK)1.1h[Transfer-"
         "Encoding=chunked] keep chunked END\n",
         0, true},
        {"HTTP/1.1 200 OK\r\nHost: a\r\nHost: b c\r\n" TE "\r\n1\r\nx\r\n0\r\nT: v\r\n\r\n",
         "200(OK)1.1h[Host=a]h[Host=b c]h[Transfer-Encoding=chunked] keep chunked body:xt[T=v] "
         "END\n"},
        {"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
         "101(S)1.1h[Upgrade=websocket]h[Connection=Upgrade] keep upgrade END\n"},
    };
    try_rows(rows, ABX_COUNTOF(rows), true);
}

TEST(http_response_refusals_are_502_at_every_split)
{
    static const struct message rows[] = {
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", NULL, 502},
        {"HTTP/1.1 200 OK\n\n", NULL, 502},
        {"HTTP/2.0 200 OK\r\n\r\n", NULL, 502},
        {"HTTP/1.1 2000\r\n\r\n", NULL, 502},
        {"HTTP/1.1 20\r\n\r\n", NULL, 502},
        {"HTTP/1.1 +20 OK\r\n\r\n", NULL, 502},
        {"HTTP/1.1 099 OK\r\n\r\n", NULL, 502},
        {"HTTP/1.1  200 OK\r\n\r\n", NULL, 502},
        {"HTTP/1.1\r\n\r\n", NULL, 502},
        {"ICY 200 OK\r\n\r\n", NULL, 502},
        {"HTTP/1.1 200 a\x01\r\n\r\n", NULL, 502},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" TE "\r\n", NULL, 502},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", NULL, 502},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", NULL, 502},
        {"HTTP/1.0 200 OK\r\n" TE "\r\n", NULL, 502},
        {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", NULL, 502},
        {"HTTP/1.1 200 OK\r\n" TE "\r\nzz\r\n", NULL, 502},
    };
    try_rows(rows, ABX_COUNTOF(rows), true);
}

TEST(http_leaves_what_follows_a_101_unread)
{
    struct abx_http_parser p;
    struct abx_str body, in = ABX_STR("HTTP/1.1 101 S\r\n\r\n\x81\x01x");
    abx_http_parser_init(&p, true);
    assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_HEAD);
    assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_END);
    assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_END);
    assert_true(abx_str_is(in, "\x81\x01x"));
    abx_http_parser_done(&p);
}

TEST(http_tells_a_complete_message_from_a_cut_one)
{
    static const struct {
        const char *bytes;
        bool is_complete, is_idle;
    } rows[] = {
        {"", false, true},
        {"HTTP/1.1", false, false},
        {"HTTP/1.1 200 OK\r\n\r\n", true, false},
        {"HTTP/1.1 200 OK\r\n\r\nabc", true, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", false, false},
        {"HTTP/1.1 200 OK\r\n" TE "\r\n1\r\na\r\n", false, false},
        {"HTTP/1.1 200 OK\r\n" TE "\r\n0\r\n", false, false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct run r;
        run_init(&r, true, false);
        assert_true(feed(&r, abx_str(rows[i].bytes)));
        if (abx_http_parser_eof(&r.p) != rows[i].is_complete ||
            abx_http_parser_idle(&r.p) != rows[i].is_idle)
            fail_msg("<%s>: eof %d, idle %d", rows[i].bytes, abx_http_parser_eof(&r.p),
                     abx_http_parser_idle(&r.p));
        run_done(&r);
    }
}

/* A request whose parts have the given sizes; limits are told at the same byte however it comes. */
static void expect_limit(const struct abx_buf *bytes, bool is_response, int want)
{
    static const size_t steps[] = {1, 7, 4096, SIZE_MAX};
    for (size_t i = 0; i < ABX_COUNTOF(steps); i++) {
        struct run r;
        run_init(&r, is_response, false);
        bool going = true;
        for (size_t at = 0; going && at < bytes->len;) {
            struct abx_str piece = abx_str_sub(abx_buf_str(bytes), at, steps[i]);
            going = feed(&r, piece);
            at += piece.len;
        }
        assert_int_equal(r.p.error_status, want);
        assert_int_equal(going, want == 0);
        run_done(&r);
    }
}

static void put_times(struct abx_buf *b, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        abx_buf_put_c(b, text);
}

TEST(http_takes_as_many_headers_as_its_owner_says)
{
    for (size_t count = 99; count <= 101; count++) {
        struct abx_http_parser p;
        struct abx_error err = {0};
        struct abx_str body, input;
        ABX_AUTO_BUF b;
        abx_buf_init(&b, 4096);
        abx_http_parser_init(&p, false);
        p.headers_max = 100;
        for (int round = 0; round < 2; round++) { /* a reset does not forget it */
            abx_buf_clear(&b);
            abx_buf_put_c(&b, "GET / HTTP/1.1\r\nHost: x\r\n");
            for (size_t i = 1; i < count; i++)
                abx_buf_put_c(&b, "A: b\r\n");
            abx_buf_put_c(&b, "\r\n");
            input = abx_buf_str(&b);
            enum abx_http_event got = abx_http_parse(&p, &input, &body, &err);
            assert_int_equal(got, count > 100 ? ABX_HTTP_ERROR : ABX_HTTP_HEAD);
            assert_int_equal(p.error_status, count > 100 ? 431 : 0);
            assert_int_equal(p.head.header_count, count > 100 ? 0 : count);
            abx_http_parser_reset(&p, false);
        }
        abx_http_parser_done(&p);
    }
}

TEST(http_bounds_every_part_of_a_message)
{
    static const struct {
        const char *before, *repeated, *after;
        size_t times;
        int want;
        bool is_response;
    } rows[] = {
        {"GET /", "a", " HTTP/1.1\r\n" H "\r\n", ABX_HTTP_LINE_MAX - 16, 0},
        {"GET /", "a", " HTTP/1.1\r\n" H "\r\n", ABX_HTTP_LINE_MAX - 15, 414},
        {"GET /", "a", "", ABX_HTTP_HEAD_MAX, 414},
        {"GET / HTTP/1.1\r\n" H, "A: b\r\n", "\r\n", ABX_HTTP_HEADERS_MAX - 1, 0},
        {"GET / HTTP/1.1\r\n" H, "A: b\r\n", "\r\n", ABX_HTTP_HEADERS_MAX, 431},
        {"GET / HTTP/1.1\r\n" H "A:", "a", "\r\n\r\n", ABX_HTTP_HEAD_MAX - 31, 0},
        {"GET / HTTP/1.1\r\n" H "A:", "a", "\r\n\r\n", ABX_HTTP_HEAD_MAX - 30, 431},
        {"GET / HTTP/1.1\r\n" H "A:", "a", "", 2 * ABX_HTTP_HEAD_MAX, 431},
        {"GET / HTTP/1.1\r\n" H "A:", "a", "\n\n", 2 * ABX_HTTP_HEAD_MAX, 431},
        {POST TE "\r\n1;", "x", "\r\na\r\n0\r\n\r\n", ABX_HTTP_CHUNK_EXT_MAX, 0},
        {POST TE "\r\n1;", "x", "\r\na\r\n0\r\n\r\n", ABX_HTTP_CHUNK_EXT_MAX + 1, 400},
        {POST TE "\r\n", "0", "\r\n\r\n", ABX_HTTP_CHUNK_DIGITS_MAX, 0},
        {POST TE "\r\n", "0", "\r\n\r\n", ABX_HTTP_CHUNK_DIGITS_MAX + 1, 400},
        {POST TE "\r\n0\r\n", "A: b\r\n", "\r\n", ABX_HTTP_HEADERS_MAX, 0},
        {POST TE "\r\n0\r\n", "A: b\r\n", "\r\n", ABX_HTTP_HEADERS_MAX + 1, 431},
        {POST TE "\r\n0\r\nA:", "b", "\r\n\r\n", ABX_HTTP_TRAILER_MAX - 6, 0},
        {POST TE "\r\n0\r\nA:", "b", "\r\n\r\n", ABX_HTTP_TRAILER_MAX - 5, 431},
        {"HTTP/1.1 200 ", "a", "\r\n\r\n", ABX_HTTP_LINE_MAX, 502, true},
        {"HTTP/1.1 200 OK\r\n", "A: b\r\n", "\r\n", ABX_HTTP_HEADERS_MAX + 1, 502, true},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        ABX_AUTO_BUF b;
        abx_buf_init(&b, 1 << 20);
        abx_buf_put_c(&b, rows[i].before);
        put_times(&b, rows[i].repeated, rows[i].times);
        abx_buf_put_c(&b, rows[i].after);
        expect_limit(&b, rows[i].is_response, rows[i].want);
    }
}

TEST(http_keeps_its_memory_but_not_that_of_a_giant)
{
    struct run r;
    run_init(&r, false, false);
    assert_true(feed(&r, ABX_STR(POST "\r\n")));
    const char *line = r.p.line.ptr, *fields = r.p.fields.ptr;
    assert_true(feed(&r, ABX_STR(POST "\r\n")));
    assert_ptr_equal(r.p.line.ptr, line);
    assert_ptr_equal(r.p.fields.ptr, fields);
    ABX_AUTO_BUF giant;
    abx_buf_init(&giant, ABX_HTTP_HEAD_MAX);
    abx_buf_put_c(&giant, POST "A: ");
    put_times(&giant, "x", ABX_HTTP_KEEP_BYTES);
    abx_buf_put_c(&giant, "\r\n\r\n");
    assert_true(feed(&r, abx_buf_str(&giant)));
    assert_true(r.p.line.cap <= ABX_HTTP_KEEP_BYTES);
    run_done(&r);
}

TEST(http_body_is_never_copied)
{
    struct abx_http_parser p;
    struct abx_str body, in = ABX_STR(POST "Content-Length: 4\r\n\r\nabcd");
    const char *end = in.ptr + in.len;
    abx_http_parser_init(&p, false);
    assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_HEAD);
    assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_BODY);
    assert_ptr_equal(body.ptr, end - 4);
    assert_int_equal(body.len, 4);
    abx_http_parser_done(&p);
}

TEST(http_looks_headers_up_in_any_case)
{
    struct abx_http_parser p;
    struct abx_str body, in = ABX_STR(POST "A: 1\r\na: 2\r\nVia: x , y\r\nVIA:\r\nvia: z\r\n\r\n");
    abx_http_parser_init(&p, false);
    assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_HEAD);
    assert_true(abx_str_is(abx_http_header(&p.head, "a"), "1"));
    assert_null(abx_http_header(&p.head, "b").ptr);
    assert_int_equal(abx_http_header_count(&p.head, "A"), 2);
    assert_int_equal(abx_http_header_count(&p.head, "AA"), 0);
    assert_true(abx_http_has_token(&p.head, "Via", "Y"));
    assert_true(abx_http_has_token(&p.head, "Via", "z"));
    assert_false(abx_http_has_token(&p.head, "Via", "x ,"));
    assert_false(abx_http_has_token(&p.head, "Via", "w"));
    abx_http_parser_done(&p);
}

TEST(http_trailers_carry_no_framing_routing_or_secrets)
{
    static const char *const no[] = {"Content-Length", "transfer-encoding", "HOST",
                                     "Authorization",  "X-Access-Token",    "E2b-Sandbox-Port",
                                     "x-sandbox-port", "Connection",        "Set-Cookie",
                                     "Content-Type",   "If-Match"};
    static const char *const yes[] = {"Server-Timing", "Grpc-Status", "Digest", "X-Checksum"};
    for (size_t i = 0; i < ABX_COUNTOF(no); i++)
        assert_false(abx_http_trailer_allowed(abx_str(no[i])));
    for (size_t i = 0; i < ABX_COUNTOF(yes); i++)
        assert_true(abx_http_trailer_allowed(abx_str(yes[i])));
}

TEST(http_writer_writes_heads)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 1000);
    abx_http_write_request(&b, ABX_STR("GET"), ABX_STR("/a"));
    abx_http_write_header(&b, ABX_STR("Host"), ABX_STR("x"));
    abx_http_write_header(&b, ABX_STR("Empty"), (struct abx_str){0});
    abx_http_write_headerf(&b, "Content-Length", "%d", 42);
    abx_http_write_end(&b);
    assert_string_equal(b.ptr,
                        "GET /a HTTP/1.1\r\nHost: x\r\nEmpty: \r\nContent-Length: 42\r\n\r\n");
    abx_buf_clear(&b);
    abx_http_write_status(&b, 404, abx_str(abx_http_reason(404)));
    assert_string_equal(b.ptr, "HTTP/1.1 404 Not Found\r\n");
    assert_string_equal(abx_http_reason(799), "");
}

TEST(http_writer_refuses_what_would_split_a_message)
{
    const struct {
        struct abx_str name, value;
    } rows[] = {
        {ABX_STR("A"), ABX_STR("b\r\nC: d")}, {ABX_STR("A"), ABX_STR("b\n")},
        {ABX_STR("A"), ABX_STR("b\0c")},      {ABX_STR("A:"), ABX_STR("b")},
        {ABX_STR("A "), ABX_STR("b")},        {ABX_STR(""), ABX_STR("b")},
        {ABX_STR("A\r\n"), ABX_STR("b")},     {ABX_STR("\xc3"), ABX_STR("b")},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        ABX_AUTO_BUF b;
        abx_buf_init(&b, 1000);
        abx_http_write_header(&b, rows[i].name, rows[i].value);
        assert_true(abx_buf_failed(&b));
        assert_int_equal(b.len, 0);
    }
    const struct abx_str targets[] = {ABX_STR(""), ABX_STR("/a b"), ABX_STR("/\r\n"),
                                      ABX_STR("/\xff")};
    for (size_t i = 0; i < ABX_COUNTOF(targets); i++) {
        ABX_AUTO_BUF b;
        abx_buf_init(&b, 1000);
        abx_http_write_request(&b, ABX_STR("GET"), targets[i]);
        assert_true(abx_buf_failed(&b));
    }
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 1000);
    abx_http_write_request(&b, ABX_STR("G T"), ABX_STR("/"));
    assert_true(abx_buf_failed(&b));
    abx_buf_clear(&b);
    abx_http_write_status(&b, 200, ABX_STR("a\rb"));
    assert_true(abx_buf_failed(&b));
    abx_buf_clear(&b);
    abx_http_write_headerf(&b, "A", "%s", "b\nc");
    assert_true(abx_buf_failed(&b));
}

TEST(http_chunk_heads_are_lower_hex)
{
    static const struct {
        uint64_t len;
        const char *want;
    } rows[] = {
        {0, "0\r\n"}, {0x1f, "1f\r\n"}, {0x100, "100\r\n"}, {UINT64_MAX, "ffffffffffffffff\r\n"}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char out[20];
        size_t n = abx_http_chunk_head(rows[i].len, out);
        assert_int_equal(n, strlen(rows[i].want));
        assert_memory_equal(out, rows[i].want, n);
    }
}

TEST(http_parser_reports_that_there_is_no_memory)
{
    static const char two[] = POST "A: b\r\n" TE "\r\n1\r\nx\r\n0\r\nT: v\r\n\r\n" POST "\r\n";
    unsigned failures = 0;
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        struct abx_http_parser p;
        struct abx_error err;
        enum abx_http_event e;
        struct abx_str body, in = ABX_STR(two);
        abx_http_parser_init(&p, false);
        while ((e = abx_http_parse(&p, &in, &body, &err)) != ABX_HTTP_NEED_MORE &&
               e != ABX_HTTP_ERROR)
            if (e == ABX_HTTP_END)
                abx_http_parser_reset(&p, false);
        assert_int_equal(e == ABX_HTTP_ERROR, abx_alloc_failed());
        if (e == ABX_HTTP_ERROR) {
            assert_int_equal(p.error_status, 503);
            assert_int_equal(err.code, ABX_RESOURCE_EXHAUSTED);
            failures++;
        }
        abx_http_parser_done(&p);
    }
    assert_true(failures >= 4); /* head, fields, trailers, their fields */
}
