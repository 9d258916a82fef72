/* lib/wire/coding.c: what Accept-Encoding makes of a file (envd.md 3.3, RFC 9110 12.5.3). Pure. */
#include "lib/wire/coding.h"

#include "lib/base/banned.h"

enum { UNNAMED = -1, Q_ONE = 1000 };

/* "0.5" as 500; anything unreadable counts as 1. */
static int q_of(struct abx_str params)
{
    struct abx_str p;
    while (abx_str_split(&params, ';', &p)) {
        p = abx_str_trim(p);
        if (p.len < 3 || (p.ptr[0] | 0x20) != 'q' || p.ptr[1] != '=')
            continue;
        int q = p.ptr[2] == '0' ? 0 : Q_ONE;
        for (size_t i = 4, unit = Q_ONE / 10; i < p.len && unit > 0 && q < Q_ONE; i++, unit /= 10)
            q += p.ptr[i] >= '0' && p.ptr[i] <= '9' ? (p.ptr[i] - '0') * (int)unit : 0;
        return q;
    }
    return Q_ONE;
}

struct wishes {
    int identity, gzip, star; /* q, or UNNAMED */
    size_t others;            /* codings we do not have */
};

static void read_member(struct abx_str member, struct wishes *w)
{
    struct abx_str name = member, params = ABX_STR("");
    ptrdiff_t semicolon = abx_str_chr(member, ';');
    if (semicolon >= 0) {
        name = abx_str_sub(member, 0, (size_t)semicolon);
        params = abx_str_sub(member, (size_t)semicolon + 1, member.len);
    }
    name = abx_str_trim(name);
    int *q = abx_str_is_nocase(name, "identity")                                    ? &w->identity
             : abx_str_is_nocase(name, "gzip") || abx_str_is_nocase(name, "x-gzip") ? &w->gzip
             : abx_str_is(name, "*")                                                ? &w->star
                                                                                    : NULL;
    if (q)
        *q = q_of(params);
    else
        w->others += name.len > 0;
}

enum abx_coding abx_coding_pick(struct abx_str accept_encoding, bool identity_only)
{
    struct wishes w = {UNNAMED, UNNAMED, UNNAMED, 0};
    struct abx_str member;
    while (accept_encoding.len && abx_str_split(&accept_encoding, ',', &member))
        read_member(member, &w);
    bool has_identity = w.identity != UNNAMED ? w.identity > 0 : w.star != 0;
    bool has_gzip = w.gzip != UNNAMED ? w.gzip > 0 : w.star > 0 && !has_identity;
    if (identity_only || !has_gzip)
        return has_identity ? ABX_CODING_IDENTITY : ABX_CODING_NONE;
    bool is_wanted =
        w.identity != UNNAMED ? w.gzip > w.identity : w.others == 0 && w.star == UNNAMED;
    return has_identity && !is_wanted ? ABX_CODING_IDENTITY : ABX_CODING_GZIP;
}
