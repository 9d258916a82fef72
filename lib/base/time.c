/* lib/base/time.c: clocks and RFC 3339 text. */
#include "lib/base/time.h"

#include "lib/base/parse.h"

#include <stdio.h>
#include <time.h>

#include "lib/base/banned.h"

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t abx_time_mono_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t abx_time_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

void abx_time_format(int64_t wall_ns, int digits, char out[ABX_TIME_TEXT])
{
    int64_t sec = wall_ns / 1000000000, frac = wall_ns % 1000000000;
    if (frac < 0) {
        frac += 1000000000;
        sec--;
    }
    time_t t = (time_t)sec;
    struct tm tm;
    gmtime_r(&t, &tm);
    size_t n = strftime(out, ABX_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
    for (int i = digits; i < 9; i++)
        frac /= 10;
    if (digits > 0)
        snprintf(out + n, ABX_TIME_TEXT - n, ".%0*dZ", digits, (int)frac);
    else
        snprintf(out + n, ABX_TIME_TEXT - n, "Z");
}

void abx_time_format_min(int64_t wall_ns, char out[ABX_TIME_TEXT])
{
    int digits = wall_ns % 1000000000 == 0 ? 0
                 : wall_ns % 1000000 == 0  ? 3
                 : wall_ns % 1000 == 0     ? 6
                                           : 9;
    abx_time_format(wall_ns, digits, out);
}

static int take_number(struct abx_str *s, size_t digits, uint32_t *ret)
{
    if (s->len < digits || abx_parse_u32(abx_str_sub(*s, 0, digits), ret) < 0)
        return -1;
    *s = abx_str_sub(*s, digits, s->len);
    return 0;
}

static int take_byte(struct abx_str *s, const char *set)
{
    if (s->len == 0 || s->ptr[0] == '\0' || strchr(set, s->ptr[0]) == NULL)
        return -1;
    int c = s->ptr[0];
    *s = abx_str_sub(*s, 1, s->len);
    return c;
}

static int take_fraction(struct abx_str *s, int64_t *ret_ns)
{
    int64_t ns = 0;
    size_t digits = 0;
    while (s->len && s->ptr[0] >= '0' && s->ptr[0] <= '9') {
        if (digits < 9)
            ns = ns * 10 + (s->ptr[0] - '0');
        digits++;
        *s = abx_str_sub(*s, 1, s->len);
    }
    for (size_t i = digits; i < 9; i++)
        ns *= 10;
    *ret_ns = ns;
    return digits > 0 ? 0 : -1;
}

static int take_offset(struct abx_str *s, int64_t *ret_seconds)
{
    int sign = take_byte(s, "Zz+-");
    uint32_t hours, minutes;
    *ret_seconds = 0;
    if (sign < 0)
        return -1;
    if (sign == 'Z' || sign == 'z')
        return 0;
    if (take_number(s, 2, &hours) < 0 || take_byte(s, ":") < 0 || take_number(s, 2, &minutes) < 0 ||
        hours > 23 || minutes > 59)
        return -1;
    *ret_seconds = (int64_t)(hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
    return 0;
}

int abx_time_parse(struct abx_str s, int64_t *ret_wall_ns)
{
    uint32_t year, month, day, hour, minute, second;
    int64_t ns = 0, offset;
    if (take_number(&s, 4, &year) < 0 || take_byte(&s, "-") < 0 || take_number(&s, 2, &month) < 0 ||
        take_byte(&s, "-") < 0 || take_number(&s, 2, &day) < 0 || take_byte(&s, "Tt ") < 0 ||
        take_number(&s, 2, &hour) < 0 || take_byte(&s, ":") < 0 ||
        take_number(&s, 2, &minute) < 0 || take_byte(&s, ":") < 0 ||
        take_number(&s, 2, &second) < 0)
        return -1;
    if (s.len && s.ptr[0] == '.' && (take_byte(&s, ".") < 0 || take_fraction(&s, &ns) < 0))
        return -1;
    if (take_offset(&s, &offset) < 0 || s.len != 0)
        return -1;
    if (year < 1678 || year > 2261 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 ||
        minute > 59 || second > 60) /* what fits in 64 bits of nanoseconds */
        return -1;
    struct tm tm = {.tm_year = (int)year - 1900,
                    .tm_mon = (int)month - 1,
                    .tm_mday = (int)day,
                    .tm_hour = (int)hour,
                    .tm_min = (int)minute,
                    .tm_sec = (int)second};
    *ret_wall_ns = ((int64_t)timegm(&tm) - offset) * 1000000000 + ns;
    return 0;
}
