/* lib/json/writer.c: the sticky writer: commas, quoting and nesting are its business. Any thread.
 */
#include "lib/json/json.h"

#include "lib/base/assert.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { DIGITS_MAX = 21 }; /* of 64 bits, and a sign */

void abx_json_writer_init(struct abx_json_writer *w, struct abx_buf *out)
{
    *w = (struct abx_json_writer){.out = out};
}

/* What stands before any value. */
static void begin_value(struct abx_json_writer *w)
{
    if (w->need_comma && !w->after_key)
        abx_buf_put_byte(w->out, ',');
    w->after_key = false;
    w->need_comma = true;
}

static void open_bracket(struct abx_json_writer *w, char bracket)
{
    begin_value(w);
    abx_buf_put_byte(w->out, bracket);
    w->depth++;
    w->need_comma = false;
}

static void close_bracket(struct abx_json_writer *w, char bracket)
{
    ABX_ASSERT(w->depth > 0 && !w->after_key);
    w->depth--;
    abx_buf_put_byte(w->out, bracket);
    w->need_comma = true;
}

void abx_json_begin_object(struct abx_json_writer *w)
{
    open_bracket(w, '{');
}

void abx_json_end_object(struct abx_json_writer *w)
{
    close_bracket(w, '}');
}

void abx_json_begin_array(struct abx_json_writer *w)
{
    open_bracket(w, '[');
}

void abx_json_end_array(struct abx_json_writer *w)
{
    close_bracket(w, ']');
}

static void put_escape(struct abx_buf *out, unsigned char c)
{
    static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                   ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    char letter = c < sizeof(letters) ? letters[c] : '\0';
    if (letter) {
        abx_buf_put_byte(out, '\\');
        abx_buf_put_byte(out, letter);
    } else
        abx_buf_putf(out, "\\u%04x", (unsigned)c);
}

/* Length of the well-formed multi-byte sequence at the front, 0 if there is none. */
static size_t sequence_len(struct abx_str s)
{
    unsigned char lead = (unsigned char)s.ptr[0];
    size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    return n <= s.len && abx_str_is_utf8(abx_str_n(s.ptr, n)) ? n : 0;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* How many bytes from @at on stand for themselves. */
static size_t plain_run(struct abx_str s, size_t at)
{
    size_t end = at;
    while (end < s.len && is_plain((unsigned char)s.ptr[end]))
        end++;
    return end - at;
}

static void put_plain(struct abx_buf *out, struct abx_str s)
{
    char *to = abx_buf_room(out, s.len + 2);
    if (to == NULL)
        return;
    to[0] = to[s.len + 1] = '"';
    if (s.len)
        memcpy(to + 1, s.ptr, s.len);
    abx_buf_wrote(out, s.len + 2);
}

static void put_quoted(struct abx_buf *out, struct abx_str s)
{
    if (plain_run(s, 0) == s.len) { /* nearly always */
        put_plain(out, s);
        return;
    }
    abx_buf_put_byte(out, '"');
    for (size_t i = 0; i < s.len && !out->failed;) {
        size_t run = i + plain_run(s, i);
        abx_buf_put(out, s.ptr + i, run - i);
        i = run;
        if (i == s.len)
            break;
        if ((unsigned char)s.ptr[i] < 0x80) {
            put_escape(out, (unsigned char)s.ptr[i++]);
            continue;
        }
        size_t n = sequence_len(abx_str_sub(s, i, s.len));
        abx_buf_put_str(out, n ? abx_str_n(s.ptr + i, n) : ABX_STR("\xEF\xBF\xBD"));
        i += n ? n : 1;
    }
    abx_buf_put_byte(out, '"');
}

void abx_json_key(struct abx_json_writer *w, struct abx_str key)
{
    ABX_ASSERT(w->depth > 0 && !w->after_key);
    begin_value(w);
    put_quoted(w->out, key);
    abx_buf_put_byte(w->out, ':');
    w->after_key = true;
}

void abx_json_str(struct abx_json_writer *w, struct abx_str s)
{
    begin_value(w);
    put_quoted(w->out, s);
}

static void put_number(struct abx_json_writer *w, uint64_t v, bool is_negative)
{
    char text[DIGITS_MAX];
    size_t at = sizeof(text);
    do
        text[--at] = (char)('0' + v % 10);
    while (v /= 10);
    if (is_negative)
        text[--at] = '-';
    begin_value(w);
    abx_buf_put(w->out, text + at, sizeof(text) - at);
}

void abx_json_i64(struct abx_json_writer *w, int64_t v)
{
    put_number(w, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
}

void abx_json_u64(struct abx_json_writer *w, uint64_t v)
{
    put_number(w, v, false);
}

void abx_json_f64(struct abx_json_writer *w, double v)
{
    begin_value(w);
    if (!isfinite(v)) {
        abx_buf_put_c(w->out, "null");
        return;
    }
    if (v == 0 && signbit(v)) { /* "-0" would be read as the whole number 0 */
        abx_buf_put_c(w->out, "-0.0");
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back the same */
        snprintf(text, sizeof(text), "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (memcmp(&back, &v, sizeof(v)) == 0)
            break;
    }
    abx_buf_put_c(w->out, text);
}

void abx_json_bool(struct abx_json_writer *w, bool v)
{
    begin_value(w);
    abx_buf_put_c(w->out, v ? "true" : "false");
}

void abx_json_null(struct abx_json_writer *w)
{
    begin_value(w);
    abx_buf_put_c(w->out, "null");
}

static void put_object(struct abx_json_writer *w, const json_t *v)
{
    abx_json_begin_object(w);
    /* jansson's iterators want a mutable object and do not change it */
    json_t *o = (json_t *)(uintptr_t)v;
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        abx_json_key(w, abx_str(json_object_iter_key(it)));
        abx_json_value(w, json_object_iter_value(it));
    }
    abx_json_end_object(w);
}

static void put_array(struct abx_json_writer *w, const json_t *v)
{
    abx_json_begin_array(w);
    for (size_t i = 0; i < json_array_size(v); i++)
        abx_json_value(w, json_array_get(v, i));
    abx_json_end_array(w);
}

void abx_json_value(struct abx_json_writer *w, const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        put_object(w, v);
        break;
    case JSON_ARRAY:
        put_array(w, v);
        break;
    case JSON_STRING:
        abx_json_str(w, abx_str_n(json_string_value(v), json_string_length(v)));
        break;
    case JSON_INTEGER:
        abx_json_i64(w, json_integer_value(v));
        break;
    case JSON_REAL:
        abx_json_f64(w, json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        abx_json_bool(w, json_is_true(v));
        break;
    case JSON_NULL:
        abx_json_null(w);
        break;
    }
}

void abx_json_raw(struct abx_json_writer *w, struct abx_str json)
{
    begin_value(w);
    abx_buf_put_str(w->out, json);
}

void abx_json_kv_str(struct abx_json_writer *w, const char *key, struct abx_str s)
{
    abx_json_key(w, abx_str(key));
    abx_json_str(w, s);
}

void abx_json_kv_c(struct abx_json_writer *w, const char *key, const char *text)
{
    abx_json_kv_str(w, key, abx_str(text));
}

void abx_json_kv_i64(struct abx_json_writer *w, const char *key, int64_t v)
{
    abx_json_key(w, abx_str(key));
    abx_json_i64(w, v);
}

void abx_json_kv_bool(struct abx_json_writer *w, const char *key, bool v)
{
    abx_json_key(w, abx_str(key));
    abx_json_bool(w, v);
}
