/* guest/caps/untar_test.c: archives at every split, and what is refused. */
#include "guest/caps/pack_priv.h"
#include "guest/caps/untar.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static int on_begin(void *ctx, const struct abx_untar_entry *e, struct abx_error *err)
{
    (void)err;
    abx_buf_putf(ctx, "[%d %.*s %.*s %llu %o %lld]", (int)e->type, ABX_STR_FMT(e->name),
                 ABX_STR_FMT(e->link), (unsigned long long)e->size, e->mode, (long long)e->mtime);
    return 0;
}

static int on_data(void *ctx, struct abx_str piece, struct abx_error *err)
{
    (void)err;
    abx_buf_put_str(ctx, piece);
    return 0;
}

static int on_end(void *ctx, struct abx_error *err)
{
    (void)err;
    abx_buf_put_c(ctx, ";");
    return 0;
}

static const struct abx_untar_ops ops = {on_begin, on_data, on_end};

static void put_member(struct abx_buf *out, const char *name, const char *link, mode_t mode,
                       const char *content)
{
    struct abx__member m = {.name = abx_str(name), .link = abx_str(link)};
    m.st.st_mode = mode;
    m.st.st_mtime = 1000;
    m.st.st_size = (int64_t)strlen(content);
    abx__tar_begin(out, &m);
    abx_buf_put_c(out, content);
    abx__tar_pad(out, strlen(content));
}

static int read_all(struct abx_str in, size_t split, struct abx_buf *said, struct abx_error *err)
{
    struct abx_untar u;
    abx_buf_clear(said);
    abx_buf_put_c(said, "");
    abx_untar_init(&u, &ops, said);
    int rc = abx_untar_feed(&u, abx_str_sub(in, 0, split), err);
    if (rc == 0)
        rc = abx_untar_feed(&u, abx_str_sub(in, split, in.len), err);
    if (rc == 0)
        rc = abx_untar_end(&u, err);
    abx_untar_done(&u);
    return rc;
}

TEST(an_archive_reads_the_same_at_every_split)
{
    struct abx_buf in, said;
    struct abx_error err = {0};
    char want[600], name[151];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    abx_buf_init(&in, 1 << 20);
    abx_buf_init(&said, 1 << 20);
    put_member(&in, "d/", NULL, S_IFDIR | 0755, "");
    put_member(&in, name, NULL, S_IFREG | 0640, "content");
    put_member(&in, "l", "target", S_IFLNK | 0777, "");
    put_member(&in, "empty", NULL, S_IFREG | 0600, "");
    abx__tar_end(&in);
    snprintf(want, sizeof(want),
             "[3 d/  0 755 1000][0 %s  7 640 1000]content;[2 l target 0 777 1000]"
             "[0 empty  0 600 1000];",
             name);
    for (size_t split = 0; split <= in.len; split++) {
        assert_int_equal(read_all(abx_buf_str(&in), split, &said, &err), 0);
        assert_string_equal(said.ptr, want);
    }
    for (size_t cut = 0; cut + 513 <= in.len; cut += 101)
        assert_int_equal(read_all(abx_str_sub(abx_buf_str(&in), 0, cut), 0, &said, &err), -1);
    abx_buf_done(&in);
    abx_buf_done(&said);
}

static void fix_sum(char *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
}

TEST(what_is_no_archive_is_refused)
{
    static const struct {
        size_t at;
        const char *bytes;
        size_t len;
        bool keeps_sum; /* the sum is not made right again */
    } rows[] = {
        {148, "0000000", 8, true},   {0, "X", 1, true},       {156, "S", 1, false},
        {156, "M", 1, false},        {124, "zzzz", 4, false}, {124, "\xff\xff\xff\xff", 4, false},
        {100, "88888888", 8, false}, {136, "-1", 2, false},
    };
    struct abx_buf said;
    abx_buf_init(&said, 1 << 20);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_buf in;
        struct abx_error err = {0};
        abx_buf_init(&in, 1 << 20);
        put_member(&in, "f", NULL, S_IFREG | 0644, "x");
        abx__tar_end(&in);
        memcpy(in.ptr + rows[i].at, rows[i].bytes, rows[i].len);
        if (!rows[i].keeps_sum)
            fix_sum(in.ptr);
        if (read_all(abx_buf_str(&in), 0, &said, &err) == 0)
            fail_msg("row %zu was taken", i);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
        abx_buf_done(&in);
    }
    abx_buf_done(&said);
}

static void put_records(struct abx_buf *in, char type, const char *records)
{
    size_t at = in->len;
    put_member(in, "x", NULL, S_IFREG | 0644, records);
    in->ptr[at + 156] = type;
    fix_sum(in->ptr + at);
}

TEST(records_name_the_next_entry)
{
    static const struct {
        char type;
        const char *records, *want; /* NULL: refused */
    } rows[] = {
        {'x', "15 path=abcdef\n15 mtime=12.5\n", NULL},
        {'x', "15 path=abcdef\n14 mtime=12.5\n", "[0 abcdef  1 644 12]y;"},
        {'L', "gnu-name", "[0 gnu-name  1 644 1000]y;"},
        {'g', "12 path=abc\n", "[0 f  1 644 1000]y;"},
        {'x', "10 size=1\n", "[0 f  1 644 1000]y;"},
        {'x', "10 size=z\n", NULL},
        {'x', "22 GNU.sparse.major=1\n", NULL},
        {'x', "path=abc\n", NULL},
        {'x', "99 path=abc\n", NULL},
        {'x', "5 a=\n", "[0 f  1 644 1000]y;"},
        {'x', "4 a\n", NULL},
    };
    struct abx_buf said;
    abx_buf_init(&said, 1 << 20);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_buf in;
        struct abx_error err = {0};
        abx_buf_init(&in, 1 << 20);
        put_records(&in, rows[i].type, rows[i].records);
        put_member(&in, "f", NULL, S_IFREG | 0644, "y");
        abx__tar_end(&in);
        int rc = read_all(abx_buf_str(&in), 0, &said, &err);
        if (rc != (rows[i].want ? 0 : -1))
            fail_msg("row %zu: %d %s", i, rc, err.msg);
        if (rows[i].want)
            assert_string_equal(said.ptr, rows[i].want);
        abx_buf_done(&in);
    }
    abx_buf_done(&said);
}
