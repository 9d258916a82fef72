/* guest/server/lift.c: just as much of JSON as tells strings from what is around them (lift.h). */
#include "guest/server/lift.h"

#include "lib/base/banned.h"

enum where { OUTSIDE, NAME, STRING, VALUE };
enum { ESCAPE_NONE, ESCAPE_BEGUN, ESCAPE_DIGITS /* ..+3: of \uXXXX */ };

static const char no_letter[] = "\x01"; /* stands for what is none */

void abx__lift_init(struct abx__lift *l, const char *field, struct abx_str marker, size_t rest_max,
                    const struct abx__lift_ops *ops, void *ctx)
{
    *l = (struct abx__lift){.field = field, .marker = marker, .ops = ops, .ctx = ctx};
    abx_buf_init(&l->rest, rest_max);
}

void abx__lift_done(struct abx__lift *l)
{
    abx_buf_done(&l->rest);
}

/* ---- outside of strings ---- */

static void begin_string(struct abx__lift *l)
{
    bool is_outermost = l->depth == 1 && l->is_object;
    l->name_len = 0;
    l->where = STRING;
    if (is_outermost && l->is_name_due) {
        l->where = NAME;
        l->is_named = true; /* until a byte of it differs */
    } else if (l->is_value_due) {
        l->where = VALUE;
        abx_buf_put_str(&l->rest, l->marker);
        l->ops->begin(l->ctx);
    }
    l->is_value_due = false;
}

static void enter(struct abx__lift *l, bool is_object)
{
    if (++l->depth == 1)
        l->is_object = l->is_name_due = is_object;
}

static void feed_outside(struct abx__lift *l, char c)
{
    bool was_named = l->is_named;
    abx_buf_put_byte(&l->rest, c);
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
        return;
    l->is_named = false;
    if (c == '"') {
        begin_string(l);
        return;
    }
    l->is_value_due = c == ':' && was_named && l->depth == 1;
    if (c == '{' || c == '[')
        enter(l, c == '{');
    else if ((c == '}' || c == ']') && l->depth > 0)
        l->depth--;
    else if (c == ',' && l->depth == 1)
        l->is_name_due = l->is_object;
}

/* ---- strings that stay ---- */

static void end_string(struct abx__lift *l)
{
    l->is_named = l->where == NAME && l->is_named && l->field[l->name_len] == '\0';
    l->is_name_due = l->is_name_due && l->where != NAME;
    l->where = OUTSIDE;
}

static void feed_string(struct abx__lift *l, char c)
{
    abx_buf_put_byte(&l->rest, c);
    if (l->escape == ESCAPE_NONE && c == '"') {
        end_string(l);
        return;
    }
    l->escape = l->escape == ESCAPE_NONE && c == '\\' ? ESCAPE_BEGUN : ESCAPE_NONE;
    l->is_named = l->is_named && c != '\\' && c != '\0' && l->field[l->name_len] == c;
    if (l->is_named)
        l->name_len++;
}

/* ---- the value ---- */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void give(struct abx__lift *l, char c)
{
    l->escape = ESCAPE_NONE;
    l->ops->piece(l->ctx, c >= ' ' ? abx_str_n(&c, 1) : ABX_STR(no_letter));
}

/* One byte after a backslash. */
static void feed_escape(struct abx__lift *l, char c)
{
    if (l->escape == ESCAPE_BEGUN) {
        l->code = 0;
        l->escape = ESCAPE_DIGITS;
        if (c != 'u')
            give(l, c == '/' || c == '"' || c == '\\' ? c : '\0');
        return;
    }
    int digit = hex_of(c);
    if (digit < 0) {
        give(l, '\0');
        return;
    }
    l->code = l->code << 4 | (unsigned)digit;
    if (++l->escape == ESCAPE_DIGITS + 4)
        give(l, l->code < 0x7F ? (char)l->code : '\0');
}

/* As much of the value as stands at the front of @text, which is not empty. What is behind it. */
static struct abx_str feed_value(struct abx__lift *l, struct abx_str text)
{
    if (l->escape != ESCAPE_NONE) {
        feed_escape(l, text.ptr[0]);
        return abx_str_sub(text, 1, text.len);
    }
    const char *quote = memchr(text.ptr, '"', text.len);
    size_t len = quote ? (size_t)(quote - text.ptr) : text.len;
    const char *slash = memchr(text.ptr, '\\', len);
    if (slash)
        len = (size_t)(slash - text.ptr);
    if (len)
        l->ops->piece(l->ctx, abx_str_sub(text, 0, len));
    if (slash) {
        l->escape = ESCAPE_BEGUN;
    } else if (quote) {
        abx_buf_put_byte(&l->rest, '"');
        end_string(l);
    } else {
        return (struct abx_str){0};
    }
    return abx_str_sub(text, len + 1, text.len);
}

void abx__lift_feed(struct abx__lift *l, struct abx_str text)
{
    while (text.len) {
        if (l->where == VALUE) {
            text = feed_value(l, text);
            continue;
        }
        if (l->where == OUTSIDE)
            feed_outside(l, text.ptr[0]);
        else
            feed_string(l, text.ptr[0]);
        text = abx_str_sub(text, 1, text.len);
    }
}
