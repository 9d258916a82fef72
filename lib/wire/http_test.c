/* lib/wire/http_test.c: the HTTP parser at every split, each refusal a row; the writer. */
#include "lib/base/assert.h"
#include "lib/wire/http.h"
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

TEST(http_parses_a_request)
{
    struct message m = {"GET /a?b HTTP/1.1\r\nHost: x\r\nA:  b c \t\r\n\r\n",
                        "GET(/a?b)1.1h[Host=x]h[A=b c] keep END\n", 0, false};
    try_all_splits(&m, false);
}
