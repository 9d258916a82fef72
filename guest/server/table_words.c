/* guest/server/table_words.c: words with {arguments}. Pure. */
#include "guest/server/table_words.h"

#include "guest/server/hosts/text.h"
#include "lib/json/scan.h"

#include <ctype.h>
#include <stdint.h>

#include "lib/base/banned.h"

enum { TEXT_MAX = 16 << 20 };

/* ---- reading ---- */

/* The length of "{name}" at the start of @s; 0: something else stands there. */
static size_t tag_len(struct abx_str s)
{
    size_t n = 1;
    if (s.len == 0 || s.ptr[0] != '{')
        return 0;
    while (n < s.len && (isalnum((unsigned char)s.ptr[n]) || s.ptr[n] == '_' || s.ptr[n] == '-'))
        n++;
    return n > 1 && n < s.len && s.ptr[n] == '}' ? n + 1 : 0;
}

static size_t find(const struct abx_args *declared, struct abx_str name)
{
    for (size_t i = 0; i < declared->count; i++)
        if (abx_str_eq(declared->items[i].name, name))
            return i;
    return SIZE_MAX;
}

static void add_part(struct abx__word *w, struct abx_str literal, size_t arg)
{
    if (arg == SIZE_MAX && literal.len == 0)
        return;
    w->parts[w->count++] = (struct abx__word_part){literal, arg};
}

static int add_tag(struct abx__word *w, struct abx_str tag, bool is_alone,
                   const struct abx_args *declared, struct abx_error *err)
{
    size_t arg = find(declared, abx_str_sub(tag, 1, tag.len - 2));
    int shown = (int)(tag.len < 64 ? tag.len : 64);
    if (arg == SIZE_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "%.*s is no argument; write {%.*s} for the text itself", shown, tag.ptr,
                           shown, tag.ptr);
    if (declared->items[arg].type == ABX_ARG_STRING_ARRAY && !is_alone)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%.*s is a list: it stands alone in a word",
                           shown, tag.ptr);
    add_part(w, tag, arg);
    return 0;
}

int abx__word_parse(struct abx_str text, const struct abx_args *declared, struct abx_arena *a,
                    struct abx__word *ret, struct abx_error *err)
{
    struct abx__word w = {.parts = abx_arena_array(a, text.len + 1, sizeof(*w.parts))};
    size_t from = 0;
    if (w.parts == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the words");
    for (size_t at = 0; at < text.len;) {
        struct abx_str rest = abx_str_sub(text, at, text.len);
        size_t inner = rest.ptr[0] == '{' ? tag_len(abx_str_sub(rest, 1, rest.len)) : 0;
        size_t len = tag_len(rest);
        if (inner && inner + 1 < rest.len && rest.ptr[inner + 1] == '}') { /* {{name}} */
            add_part(&w, abx_str_sub(text, from, at - from), SIZE_MAX);
            add_part(&w, abx_str_sub(rest, 1, inner), SIZE_MAX);
            from = at += inner + 2;
        } else if (len) {
            add_part(&w, abx_str_sub(text, from, at - from), SIZE_MAX);
            if (add_tag(&w, abx_str_sub(rest, 0, len), len == text.len, declared, err) < 0)
                return -1;
            from = at += len;
        } else {
            at++;
        }
    }
    add_part(&w, abx_str_sub(text, from, text.len), SIZE_MAX);
    *ret = w;
    return 0;
}

bool abx__word_varies(const struct abx__word *w)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->parts[i].arg != SIZE_MAX)
            return true;
    return false;
}

/* ---- values ---- */

/* The text of a JSON value: what a string says, else the value. */
static int read_text(struct abx_str raw, struct abx_arena *a, struct abx_str *ret, bool *ret_nul)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, TEXT_MAX);
    if (raw.ptr[0] == '"' && abx_host_text(raw, &text) < 0)
        return -1;
    struct abx_str s = raw;
    if (raw.ptr[0] == '"')
        s = text.len ? abx_buf_str(&text) : ABX_STR("");
    *ret_nul |= memchr(s.ptr, '\0', s.len) != NULL;
    *ret = abx_arena_str(a, s);
    return ret->ptr && !*ret_nul ? 0 : -1;
}

static int read_list(struct abx_str raw, struct abx_arena *a, struct abx__word_value *v,
                     bool *ret_nul)
{
    struct abx_str rest = abx_str_sub(raw, 1, raw.len), item;
    size_t max = 0;
    for (size_t i = 0; i < raw.len; i++)
        max += raw.ptr[i] == '"';
    v->items = abx_arena_array(a, max / 2 + 1, sizeof(*v->items));
    v->is_list = true;
    while (v->items && rest.len > 0 && rest.ptr[0] == '"') {
        if (abx_scan_value(rest, &item, &rest) < 0 ||
            read_text(item, a, &v->items[v->count++], ret_nul) < 0)
            return -1;
        if (rest.len > 0 && rest.ptr[0] == ',')
            rest = abx_str_sub(rest, 1, rest.len);
    }
    return v->items ? 0 : -1;
}

int abx__word_values(const struct abx_args *declared, struct abx_str args, struct abx_arena *a,
                     struct abx__word_value **ret, bool *ret_nul)
{
    struct abx_scan_object o;
    struct abx_str object, rest, key, raw;
    struct abx__word_value *out = abx_arena_array(a, declared->count + 1, sizeof(*out));
    *ret_nul = false;
    if (out == NULL || abx_scan_value(args, &object, &rest) < 0)
        return -1;
    abx_scan_object_init(&o, object);
    while (abx_scan_object_next(&o, &key, &raw)) {
        struct abx_str name;
        bool has_nul = false;
        if (read_text((struct abx_str){key.ptr - 1, key.len + 2}, a, &name, &has_nul) < 0)
            return -1;
        size_t i = find(declared, name);
        if (i == SIZE_MAX)
            continue;
        if (read_text(raw, a, &out[i].text, ret_nul) < 0)
            return -1;
        bool is_list = declared->items[i].type == ABX_ARG_STRING_ARRAY && raw.ptr[0] == '[';
        if (is_list && read_list(raw, a, &out[i], ret_nul) < 0)
            return -1;
        out[i].is_set = true;
    }
    *ret = out;
    return 0;
}

/* ---- filling ---- */

struct abx_str abx__word_text(const struct abx__word *w, const struct abx__word_value *values,
                              struct abx_arena *a)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, TEXT_MAX);
    for (size_t i = 0; i < w->count; i++) {
        const struct abx__word_part *p = &w->parts[i];
        abx_buf_put_str(&out, p->arg == SIZE_MAX ? p->literal : values[p->arg].text);
    }
    if (abx_buf_failed(&out))
        return (struct abx_str){0};
    return abx_arena_str(a, out.len ? abx_buf_str(&out) : ABX_STR(""));
}

static int put(char **words, size_t *count, size_t room, char *word)
{
    if (word == NULL || *count == room)
        return -1;
    words[(*count)++] = word;
    return 0;
}

int abx__word_add(const struct abx__word *w, const struct abx__word_value *values,
                  struct abx_arena *a, char **words, size_t *count, size_t room)
{
    const struct abx__word_value *alone =
        w->count == 1 && w->parts[0].arg != SIZE_MAX ? &values[w->parts[0].arg] : NULL;
    if (alone && !alone->is_set)
        return 0;
    if (alone && alone->is_list) {
        for (size_t i = 0; i < alone->count; i++)
            if (put(words, count, room, abx_arena_c(a, alone->items[i])) < 0)
                return -1;
        return 0;
    }
    struct abx_str text = abx__word_text(w, values, a);
    return put(words, count, room, text.ptr ? abx_arena_c(a, text) : NULL);
}
