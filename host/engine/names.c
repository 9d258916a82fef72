/* host/engine/names.c: how templates are named. Pure. */
#include "host/engine/names_priv.h"

#include "lib/base/assert.h"
#include "lib/base/err.h"

#include "lib/base/banned.h"

static const char *const reserved[] = {"host", "base", "code-interpreter-v1"};

bool abx__name_is_reserved(const char *name)
{
    for (size_t i = 0; i < ABX_COUNTOF(reserved); i++) {
        if (strcmp(reserved[i], name) == 0)
            return true;
    }
    return false;
}

static bool is_word(struct abx_str s, const char *more)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  (c != '\0' && strchr(more, c) != NULL);
        if (!ok)
            return false;
    }
    return s.len != 0 && s.len <= ABX_STORE_NAME_MAX;
}

bool abx__tag_is_valid(struct abx_str tag)
{
    return is_word(tag, "-_.");
}

bool abx__image_name_is_valid(struct abx_str name)
{
    static const char inner[] = "/:";
    return is_word(name, "-_./:") && name.len < 64 && strchr(inner, name.ptr[0]) == NULL &&
           strchr(inner, name.ptr[name.len - 1]) == NULL && abx_str_find(name, ABX_STR("//")) < 0;
}

bool abx__hash_is_valid(struct abx_str hash)
{
    for (size_t i = 0; i < hash.len; i++) {
        char c = hash.ptr[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
    }
    return hash.len == ABX_STORE_HASH_LEN;
}

bool abx__build_id_is_valid(struct abx_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (is_dash ? c != '-' : !is_hex)
            return false;
    }
    return id.len == ABX_STORE_BUILD_LEN;
}

static int malformed(struct abx_str text, struct abx_error *err)
{
    return abx_err_set(err, ABX_INVALID_ARGUMENT, "Invalid template reference: %.*s",
                       (int)(text.len < 128 ? text.len : 128), text.ptr);
}

static void fold(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
    }
}

int abx__ref_parse(struct abx_str text, struct abx__ref *ret, struct abx_error *err)
{
    char folded[3 * ABX_STORE_NAME_MAX];
    struct abx__ref r = {0};
    if (abx_str_to_c(text, folded, sizeof(folded)) < 0)
        return malformed(text, err);
    fold(folded);
    struct abx_str name = abx_str(folded);
    ptrdiff_t slash = abx_str_chr(name, '/'), colon = abx_str_chr(name, ':');
    struct abx_str team = abx_str_sub(name, 0, slash < 0 ? 0 : (size_t)slash);
    struct abx_str tag =
        colon < 0 ? (struct abx_str){0} : abx_str_sub(name, (size_t)colon + 1, name.len);
    if (colon >= 0)
        name.len = (size_t)colon;
    if (slash >= 0)
        name = abx_str_sub(name, (size_t)slash + 1, name.len);
    if (!is_word(name, "-_") || (colon >= 0 && !abx__tag_is_valid(tag)) ||
        (slash >= 0 && (!is_word(team, "-_") || (colon >= 0 && colon < slash))))
        return malformed(text, err);
    if (slash >= 0 && !abx_str_is(team, ABX__TEAM))
        return abx_err_set(
            err, ABX_PERMISSION_DENIED,
            "you don't have access to template '%.*s': the team of this engine is '" ABX__TEAM "'",
            (int)(text.len < 128 ? text.len : 128), text.ptr);
    if (abx_str_to_c(name, r.name, sizeof(r.name)) < 0 ||
        (tag.len != 0 && abx_str_to_c(tag, r.tag, sizeof(r.tag)) < 0))
        return malformed(text, err);
    *ret = r;
    return 0;
}
