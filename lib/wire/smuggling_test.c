/* lib/wire/smuggling_test.c: the parser refuses each request of tests/wire/smuggling, whole and
 * byte by byte, with the status of the table. */
#include "lib/base/parse.h"
#include "lib/wire/http.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static void read_all(const char *name, struct abx_buf *out)
{
    const char *source = getenv("ABX_SOURCE");
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/wire/smuggling/%s", source ? source : ".", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("can not open %s", path);
    abx_buf_init(out, 1 << 20);
    void *to = abx_buf_room(out, 1 << 19);
    assert_non_null(to);
    abx_buf_wrote(out, fread(to, 1, 1 << 19, f));
    fclose(f);
}

static int status_of(struct abx_str bytes, size_t step)
{
    struct abx_http_parser p;
    abx_http_parser_init(&p, false);
    enum abx_http_event e = ABX_HTTP_NEED_MORE;
    for (size_t at = 0; at < bytes.len && e != ABX_HTTP_ERROR; at += step) {
        struct abx_str body, in = abx_str_sub(bytes, at, step);
        do {
            e = abx_http_parse(&p, &in, &body, NULL);
        } while (e == ABX_HTTP_HEAD || e == ABX_HTTP_BODY);
        if (e == ABX_HTTP_END)
            break;
    }
    int status = e == ABX_HTTP_ERROR ? p.error_status : 0;
    abx_http_parser_done(&p);
    return status;
}

static void try_line(struct abx_str line)
{
    struct abx_str file, status, rest = line;
    char name[256];
    uint32_t want;
    assert_true(abx_str_split(&rest, '\t', &file) && abx_str_split(&rest, '\t', &status));
    assert_int_equal(abx_str_to_c(file, name, sizeof(name)), 0);
    assert_int_equal(abx_parse_u32(status, &want), 0);
    ABX_AUTO_BUF bytes;
    read_all(name, &bytes);
    assert_true(bytes.len > 0);
    for (size_t step = 1; step <= bytes.len; step = step < 8 ? step + 1 : step * 4) {
        int got = status_of(abx_buf_str(&bytes), step);
        if (got != (int)want)
            fail_msg("%s in pieces of %zu: got %d, want %u", name, step, got, want);
    }
    assert_int_equal(status_of(abx_buf_str(&bytes), bytes.len), want);
}

TEST(http_refuses_every_smuggling_request_of_the_table)
{
    ABX_AUTO_BUF table;
    read_all("table.tsv", &table);
    struct abx_str rest = abx_buf_str(&table), line;
    size_t rows = 0;
    while (abx_str_split(&rest, '\n', &line)) {
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        try_line(line);
        rows++;
    }
    assert_true(rows >= 50);
}
