/* lib/wire/multipart.c: multipart/form-data as a push parser. Part data is never collected: its
 * slices point into the input, or into the delimiter when a look-alike spanned two inputs. Pure.
 * RFC 7578, RFC 2046 5.1. */
#include "lib/wire/multipart.h"

#include "lib/base/assert.h"
#include "lib/wire/http_priv.h"

#include "lib/base/banned.h"

enum state {
    IN_PREAMBLE,
    AFTER_DELIMITER, /* the rest of the boundary line */
    IN_HEADERS,
    IN_DATA,
    IN_EPILOGUE,
    BROKEN,
    STATE__COUNT
};

enum {
    AGAIN = -1, /* a step went to another state; run that */
    BOUNDARY_MAX = 70,
    PART_HEADERS_MAX = 32,
    PART_ARENA_MAX = 4 * ABX_MULTIPART_HEAD_MAX,
};

static bool is_boundary(struct abx_str s)
{
    if (s.len == 0 || s.len > BOUNDARY_MAX || s.ptr[s.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && (c == '\0' || strchr("'()+_,-./:=? ", c) == NULL))
            return false;
    }
    return true;
}

int abx_multipart_init(struct abx_multipart *m, struct abx_str content_type, struct abx_error *err)
{
    char type[128];
    struct abx_str boundary;
    *m = (struct abx_multipart){.state = IN_PREAMBLE};
    abx_buf_init(&m->line, ABX_MULTIPART_HEAD_MAX);
    abx_buf_init(&m->fields, PART_HEADERS_MAX * sizeof(struct abx_http_header));
    abx_arena_init(&m->arena, PART_ARENA_MAX);
    if (abx_media_type(content_type, type, sizeof(type)) < 0 ||
        !abx_str_starts(abx_str(type), "multipart/"))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "multipart: not a multipart Content-Type");
    int found = abx_media_param(content_type, "boundary", &m->arena, &boundary);
    if (found <= 0 || !is_boundary(boundary)) {
        abx_multipart_done(m);
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "multipart: %s boundary in Content-Type",
                           found == 0 ? "no" : "malformed");
    }
    memcpy(m->boundary, "\r\n--", 4);
    memcpy(m->boundary + 4, boundary.ptr, boundary.len);
    m->boundary_len = boundary.len + 4;
    m->matched = 2; /* the first delimiter may stand at the very start */
    abx_arena_done(&m->arena);
    return 0;
}

void abx_multipart_done(struct abx_multipart *m)
{
    abx_buf_done(&m->line);
    abx_buf_done(&m->fields);
    abx_arena_done(&m->arena);
}

static int fail(struct abx_multipart *m, const char *text, struct abx_error *err)
{
    m->state = BROKEN;
    abx_err_set(err, ABX_INVALID_ARGUMENT, "multipart: %s", text);
    return ABX_MULTIPART_ERROR;
}

static struct abx_str take(struct abx_str *in, size_t len)
{
    struct abx_str part = abx_str_sub(*in, 0, len);
    *in = abx_str_sub(*in, part.len, in->len);
    return part;
}

/* How many bytes at the end of @s may begin the delimiter: CR stands only at its front. */
static size_t tail_match(const struct abx_multipart *m, struct abx_str s)
{
    size_t reach = s.len < m->boundary_len - 1 ? s.len : m->boundary_len - 1;
    ptrdiff_t at = abx_str_rchr(abx_str_sub(s, s.len - reach, reach), '\r');
    if (at < 0)
        return 0;
    size_t n = reach - (size_t)at;
    return memcmp(s.ptr + s.len - n, m->boundary, n) == 0 ? n : 0;
}

/* Goes on with a match that the last input left open. False: it was none, *ret_data is what looked
 * like one. */
static bool resume_match(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data)
{
    size_t n = 0, want = m->boundary_len - m->matched;
    while (n < want && n < in->len && in->ptr[n] == m->boundary[m->matched + n])
        n++;
    m->matched += n;
    take(in, n);
    if (m->matched == m->boundary_len || in->len == 0)
        return true;
    *ret_data = abx_str_n(m->boundary, m->matched);
    m->matched = 0;
    return false;
}

/* Takes bytes that are no delimiter off the input. True when the delimiter is complete. */
static bool scan(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data)
{
    *ret_data = (struct abx_str){0};
    if (m->matched != 0)
        return resume_match(m, in, ret_data) && m->matched == m->boundary_len;
    ptrdiff_t at = abx_str_find(*in, abx_str_n(m->boundary, m->boundary_len));
    if (at >= 0) {
        *ret_data = take(in, (size_t)at);
        m->matched = m->boundary_len;
        take(in, m->boundary_len);
        return true;
    }
    size_t held = tail_match(m, *in);
    *ret_data = take(in, in->len - held);
    take(in, held);
    m->matched = held;
    return false;
}

static void set_after_delimiter(struct abx_multipart *m)
{
    m->state = AFTER_DELIMITER;
    m->matched = 0;
    abx_buf_clear(&m->line);
}

static int step_preamble(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data,
                         struct abx_error *err)
{
    (void)err;
    if (in->len == 0)
        return ABX_MULTIPART_NEED_MORE;
    struct abx_str ignored;
    if (scan(m, in, &ignored))
        set_after_delimiter(m);
    *ret_data = (struct abx_str){0};
    return AGAIN;
}

static int step_data(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data,
                     struct abx_error *err)
{
    (void)err;
    if (m->matched == m->boundary_len) { /* found with the data that was given out before */
        set_after_delimiter(m);
        return ABX_MULTIPART_PART_END;
    }
    if (in->len == 0)
        return ABX_MULTIPART_NEED_MORE;
    scan(m, in, ret_data);
    if (ret_data->len > m->phantom) {
        *ret_data = abx_str_sub(*ret_data, m->phantom, ret_data->len);
        m->phantom = 0;
        return ABX_MULTIPART_DATA;
    }
    m->phantom -= ret_data->len;
    *ret_data = (struct abx_str){0};
    return AGAIN;
}

static int step_after_delimiter(struct abx_multipart *m, struct abx_str *in,
                                struct abx_str *ret_data, struct abx_error *err)
{
    (void)ret_data;
    while (in->len) {
        char c = take(in, 1).ptr[0];
        abx_buf_put_byte(&m->line, c);
        struct abx_str line = abx_buf_str(&m->line);
        if (abx_buf_failed(&m->line))
            return fail(m, "boundary line too long", err);
        if (abx_str_is(line, "--")) {
            m->state = IN_EPILOGUE;
            return ABX_MULTIPART_END;
        }
        if (c == '\n') {
            struct abx_str padding = abx_str_trim(abx_str_sub(line, 0, line.len - 2));
            if (line.len < 2 || line.ptr[line.len - 2] != '\r' || padding.len != 0)
                return fail(m, "text after a boundary", err);
            abx_buf_clear(&m->line);
            m->line_start = 0;
            m->state = IN_HEADERS;
            return AGAIN;
        }
        if (c != ' ' && c != '\t' && c != '\r' && c != '-')
            return fail(m, "text after a boundary", err);
    }
    return ABX_MULTIPART_NEED_MORE;
}

static int read_disposition(struct abx_multipart *m, struct abx_str value, struct abx_error *err)
{
    struct abx_str name = {0}, filename = {0};
    if (abx_media_param(value, "name", &m->arena, &name) < 0 ||
        abx_media_param(value, "filename", &m->arena, &filename) < 0)
        return fail(m, "malformed Content-Disposition", err);
    m->name = name;
    m->filename = filename;
    return 0;
}

static int read_headers(struct abx_multipart *m, struct abx_error *err)
{
    abx_buf_clear(&m->fields);
    abx_arena_done(&m->arena);
    m->name = m->filename = m->content_type = (struct abx_str){0};
    struct abx_str lines = abx_str_sub(abx_buf_str(&m->line), 0, m->line.len - 2);
    struct abx__http_why why = abx__http_fields(lines, &m->fields);
    if (why.text)
        return fail(m, why.status == 400 ? why.text : "too many headers in a part", err);
    const struct abx_http_header *h = (const void *)m->fields.ptr;
    for (size_t i = 0; i < m->fields.len / sizeof(*h); i++) {
        if (abx_str_is_nocase(h[i].name, "Content-Type"))
            m->content_type = h[i].value;
        if (abx_str_is_nocase(h[i].name, "Content-Disposition") &&
            read_disposition(m, h[i].value, err) != 0)
            return ABX_MULTIPART_ERROR;
    }
    m->state = IN_DATA;
    m->matched = m->phantom =
        2; /* the empty line may be the CR LF of a delimiter: no data at all */
    return ABX_MULTIPART_PART;
}

static int step_headers(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data,
                        struct abx_error *err)
{
    (void)ret_data;
    while (in->len) {
        ptrdiff_t lf = abx_str_chr(*in, '\n');
        abx_buf_put_str(&m->line, take(in, lf < 0 ? in->len : (size_t)lf + 1));
        if (abx_buf_failed(&m->line))
            return fail(m, "headers of a part too large", err);
        if (lf < 0)
            break;
        size_t len = m->line.len - m->line_start;
        if (len < 2 || m->line.ptr[m->line.len - 2] != '\r')
            return fail(m, "line feed without carriage return in a part's headers", err);
        m->line_start = m->line.len;
        if (len == 2)
            return read_headers(m, err);
    }
    return ABX_MULTIPART_NEED_MORE;
}

static int step_epilogue(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data,
                         struct abx_error *err)
{
    (void)m;
    (void)ret_data;
    (void)err;
    take(in, in->len);
    return ABX_MULTIPART_NEED_MORE;
}

static int step_broken(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data,
                       struct abx_error *err)
{
    (void)in;
    (void)ret_data;
    return fail(m, "fed after an error", err);
}

static int (*const steps[])(struct abx_multipart *m, struct abx_str *in, struct abx_str *ret_data,
                            struct abx_error *err) = {
    [IN_PREAMBLE] = step_preamble, [AFTER_DELIMITER] = step_after_delimiter,
    [IN_HEADERS] = step_headers,   [IN_DATA] = step_data,
    [IN_EPILOGUE] = step_epilogue, [BROKEN] = step_broken,
};
_Static_assert(ABX_COUNTOF(steps) == STATE__COUNT, "one step per state");

enum abx_multipart_event abx_multipart_parse(struct abx_multipart *m, struct abx_str *inout_input,
                                             struct abx_str *ret_data, struct abx_error *err)
{
    for (;;) { /* ends: every AGAIN used a byte or left a state for good */
        int event = steps[m->state](m, inout_input, ret_data, err);
        if (event != AGAIN)
            return (enum abx_multipart_event)event;
    }
}
