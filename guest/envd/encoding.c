/* guest/envd/encoding.c: what Accept-Encoding leaves us (RFC 9110 12.5.3). Pure. */
#include "guest/envd/envd_priv.h"

#include "lib/base/banned.h"

/* Whether a member's parameters say q=0 (in any of its spellings). */
static bool is_refused(struct abx_str params)
{
    struct abx_str p;
    while (abx_str_split(&params, ';', &p)) {
        p = abx_str_trim(p);
        if (p.len < 3 || (p.ptr[0] | 0x20) != 'q' || p.ptr[1] != '=')
            continue;
        for (size_t i = 2; i < p.len; i++)
            if (p.ptr[i] != '0' && p.ptr[i] != '.')
                return false;
        return true;
    }
    return false;
}

bool abx__identity_ok(struct abx_str accept_encoding)
{
    struct abx_str member;
    bool star_refused = false;
    while (accept_encoding.len && abx_str_split(&accept_encoding, ',', &member)) {
        struct abx_str name = member, params = ABX_STR("");
        ptrdiff_t semicolon = abx_str_chr(member, ';');
        if (semicolon >= 0) {
            name = abx_str_sub(member, 0, (size_t)semicolon);
            params = abx_str_sub(member, (size_t)semicolon + 1, member.len);
        }
        name = abx_str_trim(name);
        if (abx_str_is_nocase(name, "identity"))
            return !is_refused(params);
        if (abx_str_is(name, "*"))
            star_refused = is_refused(params);
    }
    return !star_refused;
}
