/* lib/wire/sse.c: server-sent events, both directions. WHATWG HTML 9.2.4-9.2.6. */
#include "lib/wire/sse.h"

#include "lib/base/parse.h"

#include "lib/base/banned.h"

enum { NAME_MAX_BYTES = 4096 };

/* ---- writing ---- */

/* Up to the next CR LF, LF or CR; false when @rest was used up before. */
static bool next_line(struct abx_str *rest, bool *is_last, struct abx_str *ret)
{
    size_t n = 0;
    if (*is_last)
        return false;
    while (n < rest->len && rest->ptr[n] != '\n' && rest->ptr[n] != '\r')
        n++;
    *ret = abx_str_sub(*rest, 0, n);
    *is_last = n == rest->len;
    if (!*is_last && rest->ptr[n] == '\r' && n + 1 < rest->len && rest->ptr[n + 1] == '\n')
        n++;
    *rest = abx_str_sub(*rest, n + 1, rest->len);
    return true;
}

void abx_sse_write(struct abx_buf *out, struct abx_str name, struct abx_str data)
{
    bool is_last = false;
    struct abx_str line;
    if (name.len) {
        abx_buf_put_c(out, "event: ");
        abx_buf_put_str(out, name);
        abx_buf_put_byte(out, '\n');
    }
    while (next_line(&data, &is_last, &line)) {
        abx_buf_put_c(out, "data: ");
        abx_buf_put_str(out, line);
        abx_buf_put_byte(out, '\n');
    }
    abx_buf_put_byte(out, '\n');
}

/* ---- reading ---- */

void abx_sse_parser_init(struct abx_sse_parser *p, size_t max)
{
    *p = (struct abx_sse_parser){0};
    abx_buf_init(&p->line, max);
    abx_buf_init(&p->data, max);
    abx_buf_init(&p->name, NAME_MAX_BYTES);
    abx_buf_init(&p->id, NAME_MAX_BYTES);
}

void abx_sse_parser_done(struct abx_sse_parser *p)
{
    abx_buf_done(&p->line);
    abx_buf_done(&p->data);
    abx_buf_done(&p->name);
    abx_buf_done(&p->id);
}

static void set(struct abx_buf *b, struct abx_str value)
{
    abx_buf_clear(b);
    abx_buf_put_str(b, value);
}

static void take_retry(struct abx_sse_parser *p, struct abx_str value)
{
    uint64_t ms;
    if (abx_parse_u64(value, &ms) == 0) {
        p->has_retry = true;
        p->retry_ms = ms;
    }
}

static void take_field(struct abx_sse_parser *p, struct abx_str field, struct abx_str value)
{
    if (abx_str_is(field, "data")) {
        if (p->has_data)
            abx_buf_put_byte(&p->data, '\n');
        abx_buf_put_str(&p->data, value);
        p->has_data = true;
    } else if (abx_str_is(field, "event")) {
        set(&p->name, value);
    } else if (abx_str_is(field, "id")) {
        if (value.len == 0 || abx_str_chr(value, '\0') < 0)
            set(&p->id, value);
    } else if (abx_str_is(field, "retry")) {
        take_retry(p, value);
    }
}

/* True: the line was the empty one that ends an event with data. */
static bool take_line(struct abx_sse_parser *p)
{
    struct abx_str line = abx_buf_str(&p->line);
    if (!p->began && abx_str_starts(line, "\xEF\xBB\xBF"))
        line = abx_str_sub(line, 3, line.len);
    p->began = true;
    if (line.len == 0) {
        if (!p->has_data)
            abx_buf_clear(&p->name);
        return p->has_data;
    }
    ptrdiff_t colon = abx_str_chr(line, ':');
    if (colon == 0)
        return false; /* a comment */
    struct abx_str value = ABX_STR("");
    if (colon > 0) {
        value = abx_str_sub(line, (size_t)colon + 1, line.len);
        line = abx_str_sub(line, 0, (size_t)colon);
        if (value.len && value.ptr[0] == ' ')
            value = abx_str_sub(value, 1, value.len);
    }
    take_field(p, line, value);
    return false;
}

/* The event that was given is done with. */
static void begin_event(struct abx_sse_parser *p)
{
    if (!p->is_given)
        return;
    p->is_given = p->has_data = false;
    abx_buf_clear(&p->data);
    abx_buf_clear(&p->name);
}

static bool has_failed(const struct abx_sse_parser *p)
{
    return abx_buf_failed(&p->line) || abx_buf_failed(&p->data) || abx_buf_failed(&p->name) ||
           abx_buf_failed(&p->id);
}

/* Moves the input up to a line end into the line. True: the line is complete. */
static bool feed_line(struct abx_sse_parser *p, struct abx_str *in)
{
    size_t n = 0;
    if (p->after_cr && in->len && in->ptr[0] == '\n')
        *in = abx_str_sub(*in, 1, in->len);
    if (in->len)
        p->after_cr = false;
    while (n < in->len && in->ptr[n] != '\n' && in->ptr[n] != '\r')
        n++;
    abx_buf_put(&p->line, in->ptr, n);
    if (n == in->len) {
        *in = abx_str_sub(*in, n, 0);
        return false;
    }
    p->after_cr = in->ptr[n] == '\r';
    *in = abx_str_sub(*in, n + 1, in->len);
    return true;
}

enum abx_sse_result abx_sse_parse(struct abx_sse_parser *p, struct abx_str *inout_input,
                                  struct abx_sse_event *ret, struct abx_error *err)
{
    if (!has_failed(p))
        begin_event(p);
    while (!has_failed(p) && inout_input->len) {
        if (!feed_line(p, inout_input))
            continue;
        bool is_event = !has_failed(p) && take_line(p);
        if (has_failed(p))
            break;
        abx_buf_clear(&p->line);
        if (!is_event)
            continue;
        p->is_given = true;
        *ret = (struct abx_sse_event){abx_buf_str(&p->name), abx_buf_str(&p->data),
                                      abx_buf_str(&p->id)};
        if (ret->name.len == 0)
            ret->name = ABX_STR("message");
        return ABX_SSE_EVENT;
    }
    if (!has_failed(p))
        return ABX_SSE_MORE;
    abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "event stream: a line or an event is too long");
    return ABX_SSE_ERROR;
}
