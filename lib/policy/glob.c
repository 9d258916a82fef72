/* lib/policy/glob.c: shell-like patterns over whole texts. Spec: policy.md A3.
 *
 * No recursion: one pass with a single way back for "*", and for deny patterns over a path and all
 * its ancestors a set of positions carried along the path (so depth costs nothing). */
#include "lib/policy/policy.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

uint32_t abx__next_char(struct abx_str s, size_t *at)
{
    unsigned char c = (unsigned char)s.ptr[(*at)++];
    size_t extra = c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0;
    if (c < 0x80)
        return c;
    if (extra == 0 || *at + extra > s.len)
        return 0xdc00u + c; /* as Python names a byte that is no UTF-8 */
    uint32_t v = c & (0x3fu >> extra);
    for (size_t i = 0; i < extra; i++) {
        unsigned char next = (unsigned char)s.ptr[*at + i];
        if ((next & 0xc0) != 0x80)
            return 0xdc00u + c;
        v = v << 6 | (next & 0x3fu);
    }
    *at += extra;
    return v;
}

/* Where the class that opens at @at is closed, or 0: then "[" is an ordinary character. */
static size_t class_end(struct abx_str p, size_t at)
{
    size_t i = at + 1;
    if (i < p.len && p.ptr[i] == '!')
        i++;
    if (i < p.len && p.ptr[i] == ']')
        i++;
    while (i < p.len && p.ptr[i] != ']')
        i++;
    return i < p.len ? i : 0;
}

/* @set: between the brackets. */
static bool class_has(struct abx_str set, uint32_t c)
{
    bool is_not = set.len > 0 && set.ptr[0] == '!';
    size_t i = is_not;
    while (i < set.len) {
        uint32_t low = abx__next_char(set, &i), high = low;
        if (i + 1 < set.len && set.ptr[i] == '-') {
            i++;
            high = abx__next_char(set, &i);
        }
        if (low <= c && c <= high)
            return !is_not;
    }
    return is_not;
}

/* Whether the element at @at (not a "*") takes @c; *ret_next is the element behind it. */
static bool element_takes(struct abx_str p, size_t at, uint32_t c, size_t *ret_next)
{
    size_t end = p.ptr[at] == '[' ? class_end(p, at) : 0;
    if (end != 0) {
        *ret_next = end + 1;
        return class_has(abx_str_sub(p, at + 1, end - at - 1), c);
    }
    size_t next = at;
    uint32_t own = abx__next_char(p, &next);
    *ret_next = next;
    return own == '?' || own == c;
}

bool abx_glob_match(struct abx_str pattern, struct abx_str text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, resume = 0;
    while (t < text.len) {
        size_t next, after = t;
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = ++p;
            resume = t;
            continue;
        }
        uint32_t c = abx__next_char(text, &after);
        if (p < pattern.len && element_takes(pattern, p, c, &next)) {
            p = next;
            t = after;
            continue;
        }
        if (star == SIZE_MAX)
            return false;
        p = star;
        abx__next_char(text, &resume);
        t = resume;
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

/* ---- a path and its ancestors at once ---- */

/* The positions in the pattern that may come next; the last one means "matched so far". */
struct positions {
    unsigned char live[ABX__GLOB_MAX + 1];
};

/* Makes @at live, and what stands behind stars there. */
static void add_position(struct positions *s, struct abx_str p, size_t at)
{
    s->live[at] = 1;
    while (at < p.len && p.ptr[at] == '*')
        s->live[++at] = 1;
}

static bool step(struct positions *now, struct positions *then, struct abx_str p, uint32_t c)
{
    bool any = false;
    memset(then->live, 0, p.len + 1);
    for (size_t at = 0; at < p.len; at++) {
        size_t next;
        if (!now->live[at])
            continue;
        if (p.ptr[at] == '*')
            add_position(then, p, at);
        else if (element_takes(p, at, c, &next))
            add_position(then, p, next);
        else
            continue;
        any = true;
    }
    return any;
}

bool abx__glob_match_ancestors(struct abx_str pattern, struct abx_str path, bool anywhere)
{
    struct positions sets[2];
    unsigned turn = 0;
    if (pattern.len > ABX__GLOB_MAX)
        return true; /* refused at load; never a way around a deny */
    if (abx_str_is(path, "/"))
        return false;
    memset(sets[0].live, 0, pattern.len + 1);
    add_position(&sets[0], pattern, 0);
    for (size_t at = 0; at < path.len; turn ^= 1) {
        struct positions *now = &sets[turn], *then = &sets[turn ^ 1];
        bool is_slash = path.ptr[at] == '/';
        /* An ancestor ends before a slash; "/" is none. */
        if (is_slash && at > 1 && now->live[pattern.len])
            return true;
        bool any = step(now, then, pattern, abx__next_char(path, &at));
        if (anywhere && is_slash)
            add_position(then, pattern, 0); /* behind "*" and "/" */
        else if (!any && !anywhere)
            return false;
    }
    return sets[turn].live[pattern.len];
}
