/* lib/base/near.c: edit distance of short words (Levenshtein, one row at a time). */
#include "lib/base/near.h"

#include <stdint.h>

#include "lib/base/banned.h"

enum { WORD_MAX = 64, FAR = 255 };

static unsigned char fold(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

unsigned abx_str_distance(struct abx_str a, struct abx_str b)
{
    unsigned row[WORD_MAX + 1];
    if (a.len > WORD_MAX || b.len > WORD_MAX)
        return FAR;
    for (size_t k = 0; k <= b.len; k++)
        row[k] = (unsigned)k;
    for (size_t i = 0; i < a.len; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t k = 0; k < b.len; k++) {
            unsigned above = row[k + 1];
            unsigned change = diagonal + (fold(a.ptr[i]) != fold(b.ptr[k]));
            row[k + 1] = least(above + 1, row[k] + 1, change);
            diagonal = above;
        }
    }
    return row[b.len];
}

/* Two neighbours changed places: one slip, two edits. */
static bool is_swapped(struct abx_str a, struct abx_str b)
{
    size_t i = 0;
    while (i < a.len && i < b.len && fold(a.ptr[i]) == fold(b.ptr[i]))
        i++;
    if (a.len != b.len || i + 1 >= a.len || fold(a.ptr[i]) != fold(b.ptr[i + 1]) ||
        fold(a.ptr[i + 1]) != fold(b.ptr[i]))
        return false;
    return abx_str_distance(abx_str_sub(a, i + 2, SIZE_MAX), abx_str_sub(b, i + 2, SIZE_MAX)) == 0;
}

bool abx_str_is_near(struct abx_str word, const char *name)
{
    unsigned d = abx_str_distance(word, abx_str(name));
    return is_swapped(word, abx_str(name)) || (d > 0 && d <= (strlen(name) >= 5 ? 2u : 1u));
}
