/* lib/base/time.h: clocks and RFC 3339 text. Any thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "lib/base/str.h"

/** Milliseconds of CLOCK_MONOTONIC. */
int64_t abx_time_mono_ms(void);
/** Nanoseconds since the epoch. */
int64_t abx_time_wall_ns(void);
static inline int64_t abx_time_wall_ms(void)
{
    return abx_time_wall_ns() / 1000000;
}
enum { ABX_TIME_TEXT = 40 };
/** "2026-08-01T10:00:00.123Z" with @digits (0, 3, 6 or 9) fractional digits. */
void abx_time_format(int64_t wall_ns, int digits, char out[ABX_TIME_TEXT]);
/** As protobuf's JSON wants it: as few of 0, 3, 6, 9 digits as keep the value. */
void abx_time_format_min(int64_t wall_ns, char out[ABX_TIME_TEXT]);
/** RFC 3339 with any fraction and offset; 0 or -1. */
int abx_time_parse(struct abx_str text, int64_t *ret_wall_ns);
