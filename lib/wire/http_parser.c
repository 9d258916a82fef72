/* lib/wire/http_parser.c: the HTTP/1.1 message state machine. Bodies are never copied: their slices
 * point into the input. Pure. RFC 9112 6, 7; security S44. */
#include "lib/base/assert.h"
#include "lib/wire/http_priv.h"

#include "lib/base/banned.h"

enum state {
    IN_HEAD,
    IN_LENGTH,   /* body of a declared length */
    IN_EOF_BODY, /* body up to the end of the connection */
    CHUNK_SIZE,  /* digits */
    CHUNK_EXT,   /* after ';' */
    CHUNK_LF,    /* LF of the size line */
    CHUNK_DATA,
    CHUNK_CR,     /* CR after the data */
    CHUNK_END_LF, /* its LF */
    IN_TRAILER,
    COMPLETE,
    BROKEN,
    STATE__COUNT
};

enum { AGAIN = -1 }; /* a step went to another state; run that */

void abx_http_parser_init(struct abx_http_parser *p, bool is_response)
{
    const size_t fields_max = ABX_HTTP_HEADERS_MAX * sizeof(struct abx_http_header);
    *p = (struct abx_http_parser){.is_response = is_response, .headers_max = ABX_HTTP_HEADERS_MAX};
    abx_buf_init(&p->line, ABX_HTTP_HEAD_MAX);
    abx_buf_init(&p->tail, ABX_HTTP_TRAILER_MAX);
    abx_buf_init(&p->fields, fields_max);
    abx_buf_init(&p->tail_fields, fields_max);
}

/* Heads carry credentials: their bytes do not stay in memory that is given back or used again
 * (security S15). */
static void wipe(struct abx_buf *b)
{
    if (b->ptr)
        explicit_bzero(b->ptr, b->len);
}

/* Room for @len more bytes, as abx_buf_room() makes it, but nothing is left where they were. */
static void grow(struct abx_buf *b, size_t len)
{
    struct abx_buf larger;
    if (b->len == 0 || b->failed || len < b->cap - b->len)
        return;
    abx_buf_init(&larger, b->max);
    if (abx_buf_room(&larger, b->len + len) == NULL) {
        abx_buf_done(&larger);
        return; /* the caller's put fails as this did */
    }
    abx_buf_put(&larger, b->ptr, b->len);
    wipe(b);
    abx_buf_done(b);
    *b = larger;
}

void abx_http_parser_done(struct abx_http_parser *p)
{
    wipe(&p->line);
    wipe(&p->tail);
    abx_buf_done(&p->line);
    abx_buf_done(&p->fields);
    abx_buf_done(&p->tail);
    abx_buf_done(&p->tail_fields);
}

static void recycle(struct abx_buf *b)
{
    wipe(b);
    if (b->cap > ABX_HTTP_KEEP_BYTES)
        abx_buf_done(b);
    abx_buf_clear(b);
}

void abx_http_parser_reset(struct abx_http_parser *p, bool is_head_answer)
{
    recycle(&p->line);
    recycle(&p->fields);
    recycle(&p->tail);
    recycle(&p->tail_fields);
    p->state = IN_HEAD;
    p->skipped_blank = false;
    p->head_was_head = is_head_answer;
    p->line_start = p->line_count = p->digits = 0;
    p->left = 0;
    p->head = (struct abx_http_head){0};
    p->trailers = NULL;
    p->trailer_count = 0;
    p->until_eof = false;
    p->error_status = 0;
}

static enum abx_code code_of(int status)
{
    static const struct {
        int status;
        enum abx_code code;
    } rows[] = {{400, ABX_INVALID_ARGUMENT},   {414, ABX_RESOURCE_EXHAUSTED},
                {431, ABX_RESOURCE_EXHAUSTED}, {501, ABX_UNIMPLEMENTED},
                {503, ABX_RESOURCE_EXHAUSTED}, {505, ABX_UNIMPLEMENTED}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return ABX_INTERNAL;
}

static int fail(struct abx_http_parser *p, int status, const char *text, struct abx_error *err)
{
    p->state = BROKEN;
    p->error_status = p->is_response ? 502 : status;
    abx_err_set(err, p->is_response ? ABX_UNAVAILABLE : code_of(status), "%s: %s",
                p->is_response ? "HTTP response" : "HTTP request", text);
    return ABX_HTTP_ERROR;
}

static void drop(struct abx_str *in, size_t len)
{
    in->ptr += len;
    in->len -= len;
}

/* Moves whole lines from the input into @lines until an empty one (true) or the input's end. What
 * each line may be is checked here only as far as it must not depend on how the bytes arrive. */
struct gather {
    struct abx_buf *lines;
    size_t max, first_max; /* bytes of all lines, of the first */
    size_t max_lines;      /* without the empty one */
    bool is_complete;
    struct abx__http_why why;
};

static struct abx__http_why check_line(const struct abx_http_parser *p, const struct gather *g,
                                       size_t end)
{
    if (p->line_count == 0 && end > g->first_max && g->first_max < g->max)
        return (struct abx__http_why){414, "first line too long"};
    if (end > g->max)
        return (struct abx__http_why){431, "headers too large"};
    return (struct abx__http_why){0, NULL};
}

static void gather_lines(struct abx_http_parser *p, struct abx_str *in, struct gather *g)
{
    size_t held = g->lines->len, used = 0;
    while (used < in->len && !g->is_complete) {
        const char *from = in->ptr + used;
        const char *lf = memchr(from, '\n', in->len - used);
        size_t n = lf ? (size_t)(lf - from) + 1 : in->len - used;
        g->why = check_line(p, g, held + used + n);
        if (g->why.text)
            return;
        size_t len = held + used + n - p->line_start; /* of this line so far */
        used += n;
        if (lf == NULL)
            break;
        char before = n > 1 ? lf[-1] : len > 1 ? g->lines->ptr[held - 1] : '\0';
        if (before != '\r') {
            g->why = (struct abx__http_why){400, "line feed without carriage return"};
            return;
        }
        g->is_complete = len == 2;
        if (!g->is_complete && p->line_count >= g->max_lines) {
            g->why = (struct abx__http_why){431, "too many headers"};
            return;
        }
        p->line_start = held + used;
        p->line_count++;
    }
    grow(g->lines, used);
    abx_buf_put(g->lines, in->ptr, used);
    drop(in, used);
    if (abx_buf_failed(g->lines))
        g->why = (struct abx__http_why){503, "no memory for the headers"};
}

static int complete(struct abx_http_parser *p)
{
    p->state = COMPLETE;
    return ABX_HTTP_END;
}

/* RFC 9112 6.3 */
static enum state body_state(struct abx_http_parser *p)
{
    const struct abx_http_head *h = &p->head;
    p->left = h->content_length;
    if (p->is_response &&
        (p->head_was_head || h->status < 200 || h->status == 204 || h->status == 304))
        return COMPLETE;
    if (h->is_chunked)
        return CHUNK_SIZE;
    if (h->has_length)
        return h->content_length ? IN_LENGTH : COMPLETE;
    p->until_eof = p->is_response;
    return p->is_response ? IN_EOF_BODY : COMPLETE;
}

/* One empty line before a request is tolerated (RFC 9112 2.2); @in is not empty. */
static bool skip_blank_line(struct abx_http_parser *p)
{
    if (p->is_response || p->skipped_blank || p->line.len != 2)
        return false;
    p->skipped_blank = true;
    abx_buf_clear(&p->line);
    p->line_start = p->line_count = 0;
    return true;
}

static int step_head(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                     struct abx_error *err)
{
    (void)ret_body;
    if (in->len == 0)
        return ABX_HTTP_NEED_MORE;
    /* A TLS hello or other noise is told at its first byte, not after a wait for a line. */
    if (p->line.len == 0 && !abx__http_is_token_byte(in->ptr[0]) && in->ptr[0] != '\r')
        return fail(p, 400, "does not begin like HTTP", err);
    struct gather g = {.lines = &p->line,
                       .max = ABX_HTTP_HEAD_MAX,
                       .first_max = ABX_HTTP_LINE_MAX,
                       .max_lines = p->headers_max + 1};
    gather_lines(p, in, &g);
    if (g.why.text)
        return fail(p, g.why.status, g.why.text, err);
    if (!g.is_complete)
        return ABX_HTTP_NEED_MORE;
    if (p->line.len == 2)
        return skip_blank_line(p) ? AGAIN : fail(p, 400, "empty first line", err);
    struct abx__http_why why = abx__http_decode_head(p);
    if (why.text)
        return fail(p, why.status, why.text, err);
    p->state = body_state(p);
    p->head.keep_alive &= !p->until_eof;
    return ABX_HTTP_HEAD;
}

static int give(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body)
{
    size_t n = p->left < in->len ? (size_t)p->left : in->len;
    *ret_body = abx_str_n(in->ptr, n);
    p->left -= n;
    drop(in, n);
    return ABX_HTTP_BODY;
}

static int step_length(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                       struct abx_error *err)
{
    (void)err;
    if (p->left == 0)
        return complete(p);
    return in->len ? give(p, in, ret_body) : ABX_HTTP_NEED_MORE;
}

static int step_eof_body(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                         struct abx_error *err)
{
    (void)err;
    p->left = UINT64_MAX;
    return in->len ? give(p, in, ret_body) : ABX_HTTP_NEED_MORE;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int step_chunk_size(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                           struct abx_error *err)
{
    (void)ret_body;
    while (in->len) {
        char c = in->ptr[0];
        drop(in, 1);
        int digit = hex_value(c);
        if (digit >= 0) {
            if (++p->digits > ABX_HTTP_CHUNK_DIGITS_MAX)
                return fail(p, 400, "chunk size too long", err);
            p->left = p->left << 4 | (unsigned)digit;
            continue;
        }
        if (p->digits == 0 || (c != '\r' && c != ';'))
            return fail(p, 400, "malformed chunk size", err);
        p->digits = 0;
        p->state = c == '\r' ? CHUNK_LF : CHUNK_EXT;
        return AGAIN;
    }
    return ABX_HTTP_NEED_MORE;
}

static int step_chunk_ext(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                          struct abx_error *err)
{
    (void)ret_body;
    while (in->len) {
        char c = in->ptr[0];
        drop(in, 1);
        if (c == '\r') {
            p->digits = 0;
            p->state = CHUNK_LF;
            return AGAIN;
        }
        if (!abx__http_is_value_byte(c))
            return fail(p, 400, "control byte in a chunk extension", err);
        if (++p->digits > ABX_HTTP_CHUNK_EXT_MAX)
            return fail(p, 400, "chunk extension too long", err);
    }
    return ABX_HTTP_NEED_MORE;
}

static int step_chunk_lf(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                         struct abx_error *err)
{
    (void)ret_body;
    if (in->len == 0)
        return ABX_HTTP_NEED_MORE;
    if (in->ptr[0] != '\n')
        return fail(p, 400, "carriage return without line feed after a chunk size", err);
    drop(in, 1);
    p->line_start = p->line_count = 0;
    p->state = p->left ? CHUNK_DATA : IN_TRAILER;
    return AGAIN;
}

static int step_chunk_data(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                           struct abx_error *err)
{
    (void)err;
    if (p->left == 0) {
        p->state = CHUNK_CR;
        return AGAIN;
    }
    return in->len ? give(p, in, ret_body) : ABX_HTTP_NEED_MORE;
}

static int step_chunk_end(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                          struct abx_error *err)
{
    (void)ret_body;
    if (in->len == 0)
        return ABX_HTTP_NEED_MORE;
    if (in->ptr[0] != (p->state == CHUNK_CR ? '\r' : '\n'))
        return fail(p, 400, "chunk data longer than its size", err);
    drop(in, 1);
    p->state = p->state == CHUNK_CR ? CHUNK_END_LF : CHUNK_SIZE;
    return AGAIN;
}

static int step_trailer(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                        struct abx_error *err)
{
    (void)ret_body;
    if (in->len == 0)
        return ABX_HTTP_NEED_MORE;
    struct gather g = {.lines = &p->tail,
                       .max = ABX_HTTP_TRAILER_MAX,
                       .first_max = ABX_HTTP_TRAILER_MAX,
                       .max_lines = ABX_HTTP_HEADERS_MAX};
    gather_lines(p, in, &g);
    if (g.why.text)
        return fail(p, g.why.status, g.why.text, err);
    if (!g.is_complete)
        return ABX_HTTP_NEED_MORE;
    struct abx__http_why why =
        abx__http_fields(abx_str_sub(abx_buf_str(&p->tail), 0, p->tail.len - 2), &p->tail_fields);
    if (why.text)
        return fail(p, why.status, why.text, err);
    p->trailers = (struct abx_http_header *)(void *)p->tail_fields.ptr;
    p->trailer_count = p->tail_fields.len / sizeof(*p->trailers);
    return complete(p);
}

static int step_complete(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                         struct abx_error *err)
{
    (void)p;
    (void)in;
    (void)ret_body;
    (void)err;
    return ABX_HTTP_END;
}

static int step_broken(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                       struct abx_error *err)
{
    (void)in;
    (void)ret_body;
    abx_err_set(err, ABX_FAILED_PRECONDITION, "HTTP parser fed after an error (%d)",
                p->error_status);
    return ABX_HTTP_ERROR;
}

static int (*const steps[])(struct abx_http_parser *p, struct abx_str *in, struct abx_str *ret_body,
                            struct abx_error *err) = {
    [IN_HEAD] = step_head,          [IN_LENGTH] = step_length,    [IN_EOF_BODY] = step_eof_body,
    [CHUNK_SIZE] = step_chunk_size, [CHUNK_EXT] = step_chunk_ext, [CHUNK_LF] = step_chunk_lf,
    [CHUNK_DATA] = step_chunk_data, [CHUNK_CR] = step_chunk_end,  [CHUNK_END_LF] = step_chunk_end,
    [IN_TRAILER] = step_trailer,    [COMPLETE] = step_complete,   [BROKEN] = step_broken,
};
_Static_assert(ABX_COUNTOF(steps) == STATE__COUNT, "one step per state");

enum abx_http_event abx_http_parse(struct abx_http_parser *p, struct abx_str *inout_input,
                                   struct abx_str *ret_body, struct abx_error *err)
{
    for (;;) { /* ends: every AGAIN used a byte or left a state that is not come back to without */
        int event = steps[p->state](p, inout_input, ret_body, err);
        if (event != AGAIN)
            return (enum abx_http_event)event;
    }
}

bool abx_http_parser_eof(const struct abx_http_parser *p)
{
    return p->state == IN_EOF_BODY || p->state == COMPLETE;
}

bool abx_http_parser_idle(const struct abx_http_parser *p)
{
    return (p->state == IN_HEAD && p->line.len == 0) || p->state == COMPLETE;
}
