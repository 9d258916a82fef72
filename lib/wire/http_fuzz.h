/* lib/wire/http_fuzz.h: shared by the HTTP fuzz targets: what a parser says of a stream that comes
 * in pieces of a given size, as text. */
#pragma once
#include "lib/wire/http.h"

#include <assert.h>
#include <stdlib.h>

static inline void fuzz_log_fields(struct abx_buf *log, const struct abx_http_header *h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        abx_buf_put_str(log, h[i].name);
        abx_buf_put_byte(log, '=');
        abx_buf_put_str(log, h[i].value);
        abx_buf_put_byte(log, '\n');
    }
}

/* False once the parser refused. */
static inline bool fuzz_feed(struct abx_http_parser *p, struct abx_str in, bool is_head_answer,
                             struct abx_buf *log)
{
    for (;;) {
        struct abx_str body;
        enum abx_http_event e = abx_http_parse(p, &in, &body, NULL);
        if (e == ABX_HTTP_HEAD) {
            abx_buf_putf(log, "HEAD %d %zu %d\n", p->head.status, p->head.header_count,
                         p->head.keep_alive);
            abx_buf_put_str(log, p->head.target);
            fuzz_log_fields(log, p->head.headers, p->head.header_count);
        } else if (e == ABX_HTTP_BODY) {
            assert(body.len > 0);
            abx_buf_put_str(log, body);
        } else if (e == ABX_HTTP_END) {
            fuzz_log_fields(log, p->trailers, p->trailer_count);
            abx_http_parser_reset(p, is_head_answer);
        } else {
            if (e == ABX_HTTP_ERROR)
                abx_buf_putf(log, "ERROR %d", p->error_status);
            assert(e == ABX_HTTP_ERROR || in.len == 0);
            return e == ABX_HTTP_NEED_MORE;
        }
    }
}

static inline void fuzz_run(const char *data, size_t size, size_t step, unsigned options,
                            struct abx_buf *log)
{
    struct abx_http_parser p;
    abx_http_parser_init(&p, options & 1);
    abx_http_parser_reset(&p, options & 2);
    abx_buf_init(log, 1 << 24);
    for (size_t at = 0, n; at < size; at += n) {
        n = step < size - at ? step : size - at;
        char *fit = malloc(n); /* exact, so that a sanitizer sees an over-read */
        assert(fit != NULL);
        memcpy(fit, data + at, n);
        bool going = fuzz_feed(&p, abx_str_n(fit, n), options & 2, log);
        free(fit);
        if (!going)
            break;
    }
    abx_buf_putf(log, "eof %d idle %d", abx_http_parser_eof(&p), abx_http_parser_idle(&p));
    assert(!abx_buf_failed(log));
    abx_http_parser_done(&p);
}

/* Asserts that the pieces make no difference. */
static inline void fuzz_compare(const char *data, size_t size, size_t step, unsigned options)
{
    ABX_AUTO_BUF whole;
    ABX_AUTO_BUF pieces;
    fuzz_run(data, size, size, options, &whole);
    fuzz_run(data, size, step, options, &pieces);
    assert(abx_str_eq(abx_buf_str(&whole), abx_buf_str(&pieces)));
}
