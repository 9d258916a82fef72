/* lib/base/near.h: whether a word is likely a mistyped name, for "did you mean". */
#pragma once
#include "lib/base/str.h"

/** Letters to insert, drop or change to make @b of @a, ASCII case folded; 255 when either is over
 *  64 bytes. */
unsigned abx_str_distance(struct abx_str a, struct abx_str b);
/** Distance 1, or 2 for names of five letters and more; false for equal ones. */
bool abx_str_is_near(struct abx_str word, const char *name);
