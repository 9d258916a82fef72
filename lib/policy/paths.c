/* lib/policy/paths.c: roots, links and deny patterns. Pure text; spec: policy.md A10. */
#include "lib/policy/paths.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

/* ---- lexical ---- */

static void put_part(struct abx_buf *out, struct abx_str part)
{
    if (part.len == 0 || abx_str_is(part, "."))
        return;
    if (!abx_str_is(part, "..")) {
        abx_buf_put_byte(out, '/');
        abx_buf_put_str(out, part);
        return;
    }
    ptrdiff_t slash = abx_str_rchr(abx_buf_str(out), '/');
    out->len = slash > 0 ? (size_t)slash : 0;
}

static void put_parts(struct abx_buf *out, struct abx_str path)
{
    struct abx_str part;
    while (abx_str_split(&path, '/', &part))
        put_part(out, part);
}

bool abx_policy_path_normalise(struct abx_str path, struct abx_str base, struct abx_buf *out)
{
    abx_buf_clear(out);
    if (path.len == 0 || path.ptr[0] != '/')
        put_parts(out, base);
    put_parts(out, path);
    if (out->len == 0)
        abx_buf_put_byte(out, '/');
    else
        out->ptr[out->len] = '\0';
    return !out->failed;
}

static size_t count_characters(struct abx_str s)
{
    size_t count = 0;
    for (size_t at = 0; at < s.len; count++)
        abx__next_char(s, &at);
    return count;
}

bool abx_policy_path_lexical(const struct abx_policy_rule *rule, struct abx_str path,
                             struct abx_str first_root, struct abx_buf *out,
                             struct abx_policy_verdict *v)
{
    if (path.len > 0 && memchr(path.ptr, '\0', path.len) == NULL &&
        path.len <= 4 * (size_t)ABX_POLICY_PATH_MAX &&
        count_characters(path) <= ABX_POLICY_PATH_MAX &&
        abx_policy_path_normalise(path, first_root, out))
        return true;
    v->endpoint = rule->id;
    return abx_policy_deny(v, ABX_POLICY_INVALID_PATH,
                           "a path is not empty, holds no NUL and at most %d characters",
                           (int)ABX_POLICY_PATH_MAX);
}

/* ---- roots ---- */

bool abx_policy_root_at(const struct abx_policy *p, const struct abx_policy_rule *rule,
                        size_t index, struct abx_str *ret)
{
    if (rule->paths.allow.count == 0) {
        *ret = p->base_dir;
        return index == 0;
    }
    if (index >= rule->paths.allow.count)
        return false;
    *ret = rule->paths.allow.items[index];
    return true;
}

/* Whether @path is @root or beneath it; *ret_rest is what stands behind ("" or "/..."). */
static bool is_beneath(struct abx_str root, struct abx_str path, struct abx_str *ret_rest)
{
    if (abx_str_is(root, "/"))
        root.len = 0;
    if (path.len < root.len || (root.len > 0 && memcmp(root.ptr, path.ptr, root.len) != 0))
        return false;
    *ret_rest = abx_str_sub(path, root.len, path.len);
    return ret_rest->len == 0 || ret_rest->ptr[0] == '/';
}

static bool is_slash_only(struct abx_str s)
{
    return s.len == 0 || abx_str_is(s, "/");
}

/* The way that was asked for leads, without any link, to the object that was found. */
static bool is_straight(const struct abx_policy_root *root, const struct abx_policy_path_facts *f)
{
    const struct abx_str spellings[] = {root->real, root->given};
    struct abx_str found, asked;
    if (!is_beneath(root->real, f->resolved, &found))
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(spellings); i++)
        if (is_beneath(spellings[i], f->lexical, &asked) &&
            (abx_str_eq(asked, found) || (is_slash_only(asked) && is_slash_only(found))))
            return true;
    return false;
}

bool abx_policy_path_is_root(const struct abx_policy_path_facts *f, struct abx_str resolved)
{
    for (size_t i = 0; i < f->root_count; i++)
        if (abx_str_eq(f->roots[i].real, resolved))
            return true;
    return false;
}

/* ---- deny ---- */

static bool is_equal_or_beneath(struct abx_str pattern, struct abx_str path)
{
    struct abx_str rest;
    return is_beneath(pattern, path, &rest);
}

static bool any_component(struct abx_str pattern, struct abx_str path)
{
    struct abx_str part;
    while (abx_str_split(&path, '/', &part))
        if (part.len > 0 && abx_glob_match(pattern, part))
            return true;
    return false;
}

bool abx_policy_deny_matches(struct abx_str pattern, struct abx_str path)
{
    if (abx_str_chr(pattern, '/') < 0)
        return any_component(pattern, path);
    bool absolute = pattern.ptr[0] == '/';
    while (pattern.len > 0 && pattern.ptr[pattern.len - 1] == '/')
        pattern.len--;
    if (absolute)
        return pattern.len > 0 && (is_equal_or_beneath(pattern, path) ||
                                   abx__glob_match_ancestors(pattern, path, false));
    if (abx_str_starts(pattern, "**/"))
        pattern = abx_str_sub(pattern, 3, pattern.len);
    return abx__glob_match_ancestors(pattern, path, true);
}

static const struct abx_str never_served[] = {{"/proc", 5}, {"/sys", 4}, {"/dev", 4}};

bool abx_policy_path_is_denied(const struct abx_policy_rule *rule, struct abx_str path)
{
    for (size_t i = 0; i < ABX_COUNTOF(never_served); i++)
        if (is_equal_or_beneath(never_served[i], path))
            return true;
    for (size_t i = 0; i < rule->paths.deny.count; i++)
        if (abx_policy_deny_matches(rule->paths.deny.items[i], path))
            return true;
    return false;
}

static bool resolved_pattern_hits(const struct abx_policy_rule *rule,
                                  const struct abx_policy_path_facts *f)
{
    if (f->resolved_deny == NULL)
        return false;
    for (size_t i = 0; i < rule->paths.deny.count; i++) {
        struct abx_str pattern = f->resolved_deny[i];
        if (pattern.ptr != NULL && pattern.len > 0 &&
            (abx_policy_deny_matches(pattern, f->resolved) ||
             abx_policy_deny_matches(pattern, f->lexical)))
            return true;
    }
    return false;
}

/* ".", ".." and "//" in a pattern match nothing, as published. */
static bool is_plain_pattern(struct abx_str pattern)
{
    struct abx_str rest = abx_str_sub(pattern, 1, pattern.len), part;
    while (abx_str_split(&rest, '/', &part))
        if (part.len == 0 || abx_str_is(part, ".") || abx_str_is(part, ".."))
            return false;
    return true;
}

bool abx_policy_deny_head(struct abx_str pattern, struct abx_str *ret_head,
                          struct abx_str *ret_tail)
{
    size_t end = 0;
    while (pattern.len > 0 && pattern.ptr[pattern.len - 1] == '/')
        pattern.len--;
    if (pattern.len == 0 || pattern.ptr[0] != '/' || !is_plain_pattern(pattern))
        return false;
    for (size_t i = 1; i < pattern.len && memchr("*?[", pattern.ptr[i], 3) == NULL; i++)
        if (pattern.ptr[i] == '/')
            end = i;
    *ret_head = abx_str_sub(pattern, 0, end);
    *ret_tail = abx_str_sub(pattern, end, pattern.len);
    return end > 0;
}

void abx_policy_glob_escape(struct abx_buf *out, struct abx_str literal)
{
    for (size_t i = 0; i < literal.len; i++) {
        if (literal.ptr[i] != '\0' && strchr("*?[", literal.ptr[i]) != NULL)
            abx_buf_putf(out, "[%c]", literal.ptr[i]);
        else
            abx_buf_put_byte(out, literal.ptr[i]);
    }
}

/* ---- the verdict ---- */

static bool refuse(const struct abx_policy_rule *rule, const struct abx_policy_path_facts *f,
                   enum abx_policy_code code, struct abx_policy_verdict *v)
{
    static const struct {
        enum abx_policy_code code;
        const char *text;
    } texts[] = {
        {ABX_POLICY_PATH_NOT_ALLOWED,
         "the path lies outside the folders that this endpoint may use"},
        {ABX_POLICY_SYMLINK_DENIED, "the path leads through a symbolic link"},
        {ABX_POLICY_PATH_DENIED, "the path is denied by a rule"},
        {ABX_POLICY_READ_ONLY, "this endpoint may only read here"},
    };
    const char *text = "";
    for (size_t i = 0; i < ABX_COUNTOF(texts); i++)
        if (texts[i].code == code)
            text = texts[i].text;
    v->endpoint = rule->id;
    return abx_policy_deny(v, code, "%s%s%s", f->field ? f->field : "", f->field ? ": " : "", text);
}

bool abx_policy_path_judge(const struct abx_policy_rule *rule,
                           const struct abx_policy_path_facts *f, struct abx_policy_verdict *v,
                           size_t *ret_root)
{
    size_t root = f->root_count;
    bool straight = false;
    for (size_t i = f->root_count; i-- > 0;) {
        struct abx_str rest;
        if (is_beneath(f->roots[i].real, f->resolved, &rest))
            root = i;
        straight = straight || is_straight(&f->roots[i], f);
    }
    if (root == f->root_count)
        return refuse(rule, f, ABX_POLICY_PATH_NOT_ALLOWED, v);
    if (rule->paths.never_links && !straight)
        return refuse(rule, f, ABX_POLICY_SYMLINK_DENIED, v);
    if (abx_policy_path_is_denied(rule, f->resolved) ||
        abx_policy_path_is_denied(rule, f->lexical) || resolved_pattern_hits(rule, f))
        return refuse(rule, f, ABX_POLICY_PATH_DENIED, v);
    if (rule->paths.read_only && (f->op == ABX_OP_WRITE || f->op == ABX_OP_DELETE))
        return refuse(rule, f, ABX_POLICY_READ_ONLY, v);
    if (ret_root != NULL)
        *ret_root = root;
    return true;
}
