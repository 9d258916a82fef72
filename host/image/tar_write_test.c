/* host/image/tar_write_test.c: heads of tar entries, read back by libarchive. */
#include "host/image/tar_write.h"
#include "tests/unit/test.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

static struct archive *open_archive(const struct abx_buf *b)
{
    struct archive *a = archive_read_new();
    assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
    assert_int_equal(archive_read_open_memory(a, b->ptr, b->len), ARCHIVE_OK);
    return a;
}

TEST(tar_heads_are_read_back)
{
    static char path[4000], link[300];
    memset(path, 'p', sizeof(path) - 1);
    for (size_t i = 200; i < sizeof(path) - 1; i += 200)
        path[i] = '/';
    memset(link, 'l', sizeof(link) - 1);
    static char odd[200] = "\xff\xfe";
    memset(odd + 2, 'o', sizeof(odd) - 3);
    static const struct {
        const char *path;
        char type;
        const char *link;
        uint64_t bytes;
    } rows[] = {
        {"a", '0', NULL, 0},
        {"d/", '5', NULL, 0},
        {"s", '2', "../x", 0},
        {"h", '1', "a", 0},
        {"f", '6', NULL, 0},
        {path, '0', NULL, 0},
        {"s", '2', link, 0},
        {"gr\xc3\xbc\xc3\x9f", '0', NULL, 0},
        {"\xff\xfe", '0', NULL, 0},
        {odd, '0', NULL, 0},
        {"s", '2', odd, 0},
        {"huge", '0', NULL, (UINT64_C(1) << 33) + 5},
        {"full", '0', NULL, (UINT64_C(1) << 33) - 1},
    };
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ABX_AUTO_BUF records = {.max = ABX_TAR_RECORDS_MAX};
        ABX_AUTO_BUF out = {.max = ABX_TAR_RECORDS_MAX};
        struct archive_entry *e;
        const char *name;
        const void *value;
        size_t len;
        abx_tar_record(&records, "SCHILY.xattr.user.x", abx_str_n("a\0=\nb", 5));
        struct abx_tar_entry put = {.path = rows[i].path,
                                    .type = rows[i].type,
                                    .link = rows[i].link,
                                    .mode = 04751,
                                    .uid = 1000,
                                    .gid = 65535,
                                    .mtime_s = 1000000000,
                                    .bytes = rows[i].bytes,
                                    .records = abx_buf_str(&records)};
        abx_tar_head(&put, &out);
        assert_false(abx_buf_failed(&out));
        assert_int_equal(out.len % ABX_TAR_BLOCK, 0);
        struct archive *a = open_archive(&out);
        if (archive_read_next_header(a, &e) != ARCHIVE_OK)
            fail_msg("row %zu: %s", i, archive_error_string(a));
        assert_string_equal(archive_entry_pathname(e), rows[i].path);
        assert_int_equal(archive_entry_perm(e), 04751);
        assert_int_equal(archive_entry_uid(e), 1000);
        assert_int_equal(archive_entry_gid(e), 65535);
        assert_int_equal(archive_entry_mtime(e), 1000000000);
        assert_true((uint64_t)archive_entry_size(e) == rows[i].bytes);
        if (rows[i].type == '2')
            assert_string_equal(archive_entry_symlink(e), rows[i].link);
        if (rows[i].type == '1')
            assert_string_equal(archive_entry_hardlink(e), rows[i].link);
        assert_int_equal(archive_entry_xattr_reset(e), 1);
        assert_int_equal(archive_entry_xattr_next(e, &name, &value, &len), ARCHIVE_OK);
        assert_string_equal(name, "user.x");
        assert_true(len == 5 && memcmp(value, "a\0=\nb", 5) == 0);
        archive_read_free(a);
    }
}

TEST(tar_records_count_their_own_length)
{
    static const struct {
        size_t value;
        const char *start;
    } rows[] = {{0, "5 k=\n"}, {4, "9 k="}, {5, "11 k="}, {93, "99 k="}, {94, "101 k="}};
    char value[200];
    memset(value, 'v', sizeof(value));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ABX_AUTO_BUF out = {.max = 4096};
        size_t told = 0;
        abx_tar_record(&out, "k", abx_str_n(value, rows[i].value));
        assert_int_equal(strncmp(out.ptr, rows[i].start, strlen(rows[i].start)), 0);
        assert_int_equal(sscanf(out.ptr, "%zu ", &told), 1);
        assert_int_equal(told, out.len);
    }
}

TEST(tar_padding_fills_the_block)
{
    assert_int_equal(abx_tar_padding(0), 0);
    assert_int_equal(abx_tar_padding(1), 511);
    assert_int_equal(abx_tar_padding(512), 0);
    assert_int_equal(abx_tar_padding((UINT64_C(1) << 33) + 1), 511);
}

TEST(tar_records_have_a_bound)
{
    static char value[ABX_TAR_RECORDS_MAX];
    ABX_AUTO_BUF records = {.max = 2 * ABX_TAR_RECORDS_MAX};
    ABX_AUTO_BUF out = {.max = 4 * ABX_TAR_RECORDS_MAX};
    memset(value, 'v', sizeof(value));
    abx_tar_record(&records, "SCHILY.xattr.user.x", abx_str_n(value, sizeof(value)));
    struct abx_tar_entry e = {.path = "a", .type = '0', .records = abx_buf_str(&records)};
    abx_tar_head(&e, &out);
    assert_true(abx_buf_failed(&out));
}
