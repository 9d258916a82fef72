/* guest/caps/regex_priv.h: the program that a pattern becomes. */
#pragma once
#include "guest/caps/regex.h"

enum abx__regex_op { ABX__RE_SET, ABX__RE_SPLIT, ABX__RE_JUMP, ABX__RE_ASSERT, ABX__RE_MATCH };
enum abx__regex_assert { ABX__RE_BEGIN, ABX__RE_END, ABX__RE_WORD, ABX__RE_NO_WORD };

struct abx__regex_set {
    uint32_t bits[8];
};
struct abx__regex_step {
    enum abx__regex_op op;
    uint32_t x, y; /* where it goes on (SPLIT: both), or the assertion */
    struct abx__regex_set set;
};
struct abx_regex {
    struct abx__regex_step *steps;
    uint32_t count;
    bool has_first; /* a match begins with a byte of `first` */
    struct abx__regex_set first;
};

static inline bool abx__regex_has(const struct abx__regex_set *s, unsigned char c)
{
    return s->bits[c >> 5] >> (c & 31) & 1;
}
static inline void abx__regex_add(struct abx__regex_set *s, unsigned from, unsigned to)
{
    for (unsigned c = from; c <= to; c++)
        s->bits[c >> 5] |= 1u << (c & 31);
}
