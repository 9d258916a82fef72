/* lib/wire/range.h: byte ranges of a request (RFC 9110 14) and of a resumed upload. Pure. */
#pragma once
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct abx_range {
    uint64_t from, len;
};
enum { ABX_RANGES = 16 };
/** RFC 9110 14.2 for a body of @size bytes. Number of ranges (0: serve all); -1: 416. */
int abx_ranges_parse(struct abx_str value, uint64_t size, struct abx_range out[ABX_RANGES]);

/* "bytes FIRST-LAST/TOTAL" of a request that brings a part of a file. */
struct abx_content_range {
    uint64_t from, len, total;
    bool has_total; /* false: "*" */
};
/** RFC 9110 14.4. -1: no such syntax, or a part that lies outside its total. */
int abx_content_range_parse(struct abx_str value, struct abx_content_range *ret);
