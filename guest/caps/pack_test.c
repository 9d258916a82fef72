/* guest/caps/pack_test.c: the bytes of tar and zip; the program's tests unpack real trees
 * (tests/server/files). */
#include "guest/caps/pack_priv.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct abx__member member(const char *name, mode_t mode, int64_t size)
{
    struct abx__member m = {.name = abx_str(name)};
    m.st.st_mode = mode;
    m.st.st_size = size;
    m.st.st_mtime = 1000000000;
    return m;
}

/* ---- tar ---- */

static void expect_record(const struct abx__member *m, const char *record)
{
    struct abx_buf out;
    abx_buf_init(&out, 1 << 20);
    abx__tar_begin(&out, m);
    assert_false(abx_buf_failed(&out));
    assert_int_equal(out.len % 512, 0);
    if (record == NULL) {
        assert_int_equal(out.len, 512);
    } else {
        assert_int_equal(out.ptr[156], 'x');
        if (abx_str_find(abx_buf_str(&out), abx_str(record)) < 0)
            fail_msg("no record '%s'", record);
    }
    abx_buf_done(&out);
}

TEST(what_a_tar_header_can_not_say_stands_in_a_record)
{
    char name[160];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct abx__member m = member("short", S_IFREG | 0644, 5);
    expect_record(&m, NULL);
    m = member(name, S_IFREG | 0644, 5);
    expect_record(&m, " path=nnn");
    name[3] = '\xff';
    expect_record(&m, "hdrcharset=BINARY");
    m = member("large", S_IFREG | 0644, INT64_C(9000000000));
    expect_record(&m, "19 size=9000000000\n");
    m = member("old", S_IFREG | 0644, 0);
    m.st.st_mtime = -5;
    expect_record(&m, "12 mtime=-5\n");
    m.st.st_uid = 3000000;
    expect_record(&m, "15 uid=3000000\n");
}

TEST(a_tar_header_has_its_fields_and_its_sum)
{
    struct abx_buf out;
    unsigned sum = 0, said;
    struct abx__member m = member("dir/", S_IFDIR | 01755, 0);
    abx_buf_init(&out, 4096);
    abx__tar_begin(&out, &m);
    assert_string_equal(out.ptr, "dir/");
    assert_string_equal(out.ptr + 100, "0001755");
    assert_int_equal(out.ptr[156], '5');
    assert_int_equal(sscanf(out.ptr + 148, "%o", &said), 1);
    for (size_t i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)out.ptr[i];
    assert_int_equal(sum, said);
    abx_buf_done(&out);
}

/* ---- zip ---- */

static uint64_t number(const struct abx_buf *b, size_t at, int bytes)
{
    uint64_t v = 0;
    assert_true(at + (size_t)bytes <= b->len);
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | (unsigned char)b->ptr[at + (size_t)i];
    return v;
}

TEST(a_zip_of_a_large_member_is_wide)
{
    struct abx__zip z;
    struct abx_buf out;
    struct abx__member m = member("large", S_IFREG | 0644, INT64_C(5000000000));
    abx_buf_init(&out, 1 << 20);
    abx__zip_init(&z);
    assert_int_equal(abx__zip_begin(&z, &out, &m), 0);
    assert_int_equal(number(&out, 4, 2), 45);
    assert_int_equal(number(&out, 18, 4), UINT32_MAX);
    assert_int_equal(abx__zip_data(&z, &out, ABX_STR("some")), 0);
    z.size = 5000000000; /* as if all of it had come */
    assert_int_equal(abx__zip_close(&z, &out), 0);
    assert_int_equal(z.offset, out.len);
    assert_int_equal(number(&out, out.len - 8, 8), 5000000000);
    assert_int_equal(number(&z.directory, 24, 4), UINT32_MAX);
    assert_int_equal(abx__zip_end(&z, &out), 0);
    assert_int_equal(number(&out, out.len - 22, 4), 0x06054b50);
    abx__zip_done(&z);
    abx_buf_done(&out);
}

TEST(a_zip_beyond_the_narrow_form_has_the_wide_end)
{
    struct abx__zip z;
    struct abx_buf out;
    abx_buf_init(&out, 1 << 20);
    abx__zip_init(&z);
    z.offset = 6000000000;
    z.count = 70000;
    assert_int_equal(abx__zip_end(&z, &out), 0);
    assert_int_equal(out.len, 56 + 20 + 22);
    assert_int_equal(number(&out, 24, 8), 70000);
    assert_int_equal(number(&out, 48, 8), 6000000000);
    assert_int_equal(number(&out, 56 + 8, 8), 6000000000);
    assert_int_equal(number(&out, 76 + 8, 2), UINT16_MAX);
    assert_int_equal(number(&out, 76 + 16, 4), UINT32_MAX);
    abx__zip_done(&z);
    abx_buf_done(&out);
}

/* ---- the walk ---- */

TEST(a_pack_without_memory_says_so)
{
    char root[64] = "/tmp/abx-pack-XXXXXX", path[128];
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/f", root);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, "content", 7), 0);
    close(fd);
    const struct abx_pack_root what = {abx_str(root), ABX_STR("")};
    for (int form = 0; form < ABX_PACK__COUNT; form++)
        for (unsigned n = 1; abx_alloc_fail(n); n++) {
            const struct abx_pack_spec spec = {.form = (enum abx_pack_form)form,
                                               .roots = &what,
                                               .root_count = 1,
                                               .has_folders = true};
            struct abx_buf out;
            abx_buf_init(&out, 1 << 20);
            struct abx_pack *p = abx_pack_new(&spec);
            int rc = p ? 1 : -ENOMEM;
            while (rc > 0)
                rc = abx_pack_step(p, &out);
            assert_int_equal(rc, abx_alloc_failed() ? -ENOMEM : 0);
            abx_pack_free(p);
            abx_buf_done(&out);
        }
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
}

TEST(a_file_that_shrinks_is_filled_up)
{
    char root[64] = "/tmp/abx-pack-XXXXXX", path[128];
    struct abx_buf out;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/f", root);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    const struct abx_pack_root what = {abx_str(root), ABX_STR("x")};
    const struct abx_pack_spec spec = {.form = ABX_PACK_TAR, .roots = &what, .root_count = 1};
    struct abx_pack *p = abx_pack_new(&spec);
    assert_non_null(p);
    abx_buf_init(&out, 8 << 20);
    assert_int_equal(abx_pack_step(p, &out), 1);
    assert_int_equal(ftruncate(fd, 1000), 0);
    while (abx_pack_step(p, &out) > 0)
        ;
    assert_int_equal(out.len, 512 + (2 << 20) + 1024);
    close(fd);
    abx_pack_free(p);
    abx_buf_done(&out);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
}
