/* lib/wire/media.c: "type/subtype; name=value" of Content-Type and Content-Disposition. Pure.
 * RFC 9110 5.6.6, RFC 8187 (name*=utf-8''...). */
#include "lib/wire/http_priv.h"
#include "lib/wire/multipart.h"
#include "lib/wire/url.h"

#include "lib/base/banned.h"

int abx_media_type(struct abx_str value, char *out, size_t cap)
{
    struct abx_str type = value, sub;
    abx_str_split(&value, ';', &type);
    type = abx_str_trim(type);
    sub = type;
    for (int parts = 0; abx_str_split(&sub, '/', &value); parts++)
        if (parts == 2 || !abx__http_is_token(value))
            return -1;
    if (abx_str_to_c(type, out, cap) < 0)
        return -1;
    for (size_t i = 0; i < type.len; i++)
        if (out[i] >= 'A' && out[i] <= 'Z')
            out[i] = (char)(out[i] + 32);
    return type.len ? 0 : -1;
}

static void skip_blanks(struct abx_str *s)
{
    while (s->len && (s->ptr[0] == ' ' || s->ptr[0] == '\t'))
        *s = abx_str_sub(*s, 1, s->len);
}

/* Takes the front of @rest as long as it is of a token. */
static struct abx_str take_token(struct abx_str *rest)
{
    size_t n = 0;
    while (n < rest->len && abx__http_is_token_byte(rest->ptr[n]))
        n++;
    struct abx_str token = abx_str_sub(*rest, 0, n);
    *rest = abx_str_sub(*rest, n, rest->len);
    return token;
}

/* A backslash escapes a quote or a backslash only: some clients send Windows paths raw. */
static int take_quoted(struct abx_str *rest, struct abx_arena *a, struct abx_str *ret)
{
    char *out = abx_arena_alloc(a, rest->len + 1);
    size_t n = 0;
    if (out == NULL)
        return -1;
    for (size_t i = 1; i < rest->len; i++) {
        char c = rest->ptr[i];
        if (c == '"') {
            *ret = abx_str_n(out, n);
            *rest = abx_str_sub(*rest, i + 1, rest->len);
            return 0;
        }
        bool is_escape =
            c == '\\' && i + 1 < rest->len && (rest->ptr[i + 1] == '"' || rest->ptr[i + 1] == '\\');
        out[n++] = is_escape ? rest->ptr[++i] : c;
    }
    return -1; /* no closing quote */
}

/* Takes one "; name=value". 1 taken, 0 end, -1 malformed. */
static int next_param(struct abx_str *rest, struct abx_arena *a, struct abx_http_header *ret)
{
    skip_blanks(rest);
    while (rest->len && rest->ptr[0] == ';') {
        *rest = abx_str_sub(*rest, 1, rest->len);
        skip_blanks(rest);
    }
    if (rest->len == 0)
        return 0;
    ret->name = take_token(rest);
    if (ret->name.len == 0 || rest->len == 0 || rest->ptr[0] != '=')
        return -1;
    *rest = abx_str_sub(*rest, 1, rest->len);
    if (rest->len && rest->ptr[0] == '"') {
        if (take_quoted(rest, a, &ret->value) < 0)
            return -1;
    } else {
        ret->value = take_token(rest);
        if (ret->value.len == 0)
            return -1;
    }
    skip_blanks(rest);
    return rest->len == 0 || rest->ptr[0] == ';' ? 1 : -1;
}

/* "utf-8'en'%e2%82%ac" */
static int decode_extended(struct abx_str value, struct abx_arena *a, struct abx_str *ret)
{
    struct abx_str charset, language;
    if (!abx_str_split(&value, '\'', &charset) || !abx_str_split(&value, '\'', &language) ||
        value.ptr == NULL || !abx_str_is_nocase(charset, "utf-8"))
        return -1;
    struct abx_str text;
    if (abx_url_decode(value, false, a, &text) < 0 || !abx_str_is_utf8(text))
        return -1;
    *ret = text;
    return 0;
}

int abx_media_param(struct abx_str value, const char *name, struct abx_arena *a,
                    struct abx_str *ret)
{
    struct abx_str type, plain = {0}, extended = {0};
    struct abx_http_header param;
    size_t name_len = strlen(name);
    ptrdiff_t first = abx_str_chr(value, ';');
    if (first < 0)
        return 0;
    value = abx_str_sub(value, (size_t)first, value.len);
    int got;
    while ((got = next_param(&value, a, &param)) > 0) {
        bool is_extended = param.name.len == name_len + 1 && param.name.ptr[name_len] == '*';
        type = is_extended ? abx_str_sub(param.name, 0, name_len) : param.name;
        if (!abx_str_is_nocase(type, name))
            continue;
        struct abx_str *slot = is_extended ? &extended : &plain;
        if (slot->ptr != NULL) /* which one counts is a guess */
            return -1;
        *slot = param.value;
    }
    if (got < 0)
        return -1;
    if (extended.ptr != NULL)
        return decode_extended(extended, a, ret) < 0 ? -1 : 1;
    if (plain.ptr == NULL)
        return 0;
    *ret = plain;
    return 1;
}
