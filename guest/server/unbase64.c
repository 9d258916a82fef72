/* guest/server/unbase64.c: four letters at a time, the last four are held back (unbase64.h). */
#include "guest/server/unbase64.h"

#include "lib/base/parse.h"

#include "lib/base/banned.h"

enum { QUAD = 4 };

static bool has(struct abx_str s, char c)
{
    return memchr(s.ptr, c, s.len) != NULL;
}

/* Whole quads that are not the last. */
static void put(struct abx__unbase64 *u, struct abx_str quads, struct abx_buf *out)
{
    if (quads.len == 0 || u->is_bad)
        return;
    /* lib/base takes the alphabet of URLs too */
    if (has(quads, '=') || has(quads, '-') || has(quads, '_') ||
        (abx_base64_decode(quads, out) < 0 && !abx_buf_failed(out)))
        u->is_bad = true;
}

static void hold(struct abx__unbase64 *u, struct abx_str letters)
{
    memcpy(u->held + u->held_len, letters.ptr, letters.len);
    u->held_len += letters.len;
}

void abx__unbase64_feed(struct abx__unbase64 *u, struct abx_str text, struct abx_buf *out)
{
    size_t missing = QUAD - u->held_len;
    if (text.len <= missing) {
        if (text.len)
            hold(u, text);
        return;
    }
    hold(u, abx_str_sub(text, 0, missing));
    text = abx_str_sub(text, missing, text.len);
    put(u, abx_str_n(u->held, QUAD), out);
    size_t kept = (text.len - 1) % QUAD + 1;
    put(u, abx_str_sub(text, 0, text.len - kept), out);
    u->held_len = 0;
    hold(u, abx_str_sub(text, text.len - kept, kept));
}

/* The bits that stand for nothing are cleared; false: there is a letter that is none. */
static bool clear_unused_bits(char quad[QUAD])
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (quad[3] != '=')
        return true;
    size_t at = quad[2] == '=' ? 1 : 2;
    const char *letter = memchr(alphabet, quad[at], sizeof(alphabet) - 1);
    if (letter == NULL)
        return false;
    ptrdiff_t bits = letter - alphabet;
    quad[at] = alphabet[at == 1 ? bits & ~15 : bits & ~3];
    return true;
}

bool abx__unbase64_end(struct abx__unbase64 *u, struct abx_buf *out)
{
    struct abx_str last = abx_str_n(u->held, u->held_len);
    if (last.len == 0)
        return !u->is_bad;
    if (u->is_bad || last.len != QUAD || has(last, '-') || has(last, '_') ||
        !clear_unused_bits(u->held))
        return false;
    return abx_base64_decode(last, out) == 0 || abx_buf_failed(out);
}
