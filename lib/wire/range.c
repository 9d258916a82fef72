/* lib/wire/range.c: byte ranges (RFC 9110 14). Pure. */
#include "lib/wire/range.h"

#include "lib/base/parse.h"

#include "lib/base/banned.h"

/* "a-b", "a-" or "-n". 1: a range that fits; 0: none of its bytes exist; -1: no such syntax. */
static int parse_one(struct abx_str spec, uint64_t size, struct abx_range *ret)
{
    uint64_t first = 0, last = 0;
    ptrdiff_t dash = abx_str_chr(spec, '-');
    if (dash < 0)
        return -1;
    struct abx_str from = abx_str_trim(abx_str_sub(spec, 0, (size_t)dash));
    struct abx_str to = abx_str_trim(abx_str_sub(spec, (size_t)dash + 1, spec.len));
    if (from.len == 0) {
        if (abx_parse_u64(to, &last) < 0)
            return -1;
        uint64_t len = last < size ? last : size;
        *ret = (struct abx_range){size - len, len};
        return len > 0;
    }
    if (abx_parse_u64(from, &first) < 0)
        return -1;
    if (to.len == 0)
        last = UINT64_MAX;
    else if (abx_parse_u64(to, &last) < 0 || last < first)
        return -1;
    if (first >= size)
        return 0;
    *ret = (struct abx_range){first, (last < size ? last + 1 : size) - first};
    return 1;
}

int abx_ranges_parse(struct abx_str value, uint64_t size, struct abx_range out[ABX_RANGES])
{
    static const char unit[] = "bytes=";
    struct abx_str rest = abx_str_sub(value, sizeof(unit) - 1, value.len), spec;
    int count = 0, seen = 0;
    uint64_t sum = 0;
    if (value.len == 0 || !abx_str_starts(value, unit))
        return 0;
    while (abx_str_split(&rest, ',', &spec)) {
        struct abx_range r;
        spec = abx_str_trim(spec);
        if (spec.len == 0)
            continue;
        int rc = parse_one(spec, size, &r);
        if (rc < 0)
            return -1;
        seen++;
        if (rc == 0)
            continue;
        if (count == ABX_RANGES)
            return 0; /* a request to send much of the file many times over: all of it, once */
        out[count++] = r;
        sum += r.len;
    }
    if (seen == 0)
        return -1;
    if (count == 0)
        return -1;
    return sum > size ? 0 : count;
}

int abx_content_range_parse(struct abx_str value, struct abx_content_range *ret)
{
    static const char unit[] = "bytes ";
    struct abx_content_range r = {0};
    uint64_t last;
    struct abx_str rest = abx_str_sub(value, sizeof(unit) - 1, value.len), first, end;
    if (!abx_str_starts(value, unit) || !abx_str_split(&rest, '-', &first) ||
        !abx_str_split(&rest, '/', &end))
        return -1;
    if (abx_parse_u64(first, &r.from) < 0 || abx_parse_u64(end, &last) < 0 || last < r.from ||
        last == UINT64_MAX)
        return -1;
    r.len = last + 1 - r.from;
    r.has_total = !abx_str_is(rest, "*");
    if (r.has_total && (abx_parse_u64(rest, &r.total) < 0 || r.total <= last))
        return -1;
    *ret = r;
    return 0;
}
