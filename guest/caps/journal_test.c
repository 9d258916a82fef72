/* guest/caps/journal_test.c: the journal against a plain model: memory, disk, gaps, no disk. */
#include "guest/caps/journal.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

static char scratch[ABX_DATA_CHUNK_BYTES];
static const struct abx_journal_limits tiny = {1024, 4096};

/* The byte that the model expects at an offset. */
static char byte_at(uint64_t offset)
{
    return (char)(offset * 31 + offset / 251);
}

static void append_run(struct abx_journal *j, uint8_t kind, size_t len)
{
    char data[8192];
    assert_true(len <= sizeof(data));
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(j->end_offset + i);
    abx_journal_append(j, kind, data, len);
}

/* Reads from @offset to the end, checks every byte; how many bytes were gaps. */
static uint64_t check_from(struct abx_journal *j, uint64_t offset)
{
    struct abx_journal_cursor cur;
    struct abx_journal_chunk c;
    enum abx_journal_peek what;
    uint64_t lost = 0;
    abx_journal_seek(j, offset, &cur);
    while ((what = abx_journal_peek(j, &cur, scratch, &c)) != ABX_JOURNAL_EMPTY) {
        assert_int_equal(c.offset, offset);
        if (what == ABX_JOURNAL_GAP) {
            assert_true(c.lost > 0);
            lost += c.lost;
            offset += c.lost;
            continue;
        }
        for (size_t i = 0; i < c.data.len; i++)
            assert_int_equal(c.data.ptr[i], byte_at(offset + i));
        abx_journal_advance(&cur, c.data.len);
        offset += c.data.len;
    }
    assert_int_equal(offset, j->end_offset);
    return lost;
}

TEST(journal_keeps_kinds_and_order)
{
    struct abx_journal j;
    abx_journal_init(&j, "/tmp", NULL);
    assert_int_equal(abx_journal_held(&j), 0);
    abx_journal_append(&j, 0, "out", 3);
    abx_journal_append(&j, 1, "err", 3);
    abx_journal_append(&j, 0, "", 0);
    struct abx_journal_cursor cur;
    struct abx_journal_chunk c;
    abx_journal_seek(&j, 1, &cur);
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_DATA);
    assert_int_equal(c.kind, 0);
    assert_memory_equal(c.data.ptr, "ut", 2);
    abx_journal_advance(&cur, 2);
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_DATA);
    assert_int_equal(c.kind, 1);
    assert_int_equal(c.offset, 3);
    assert_memory_equal(c.data.ptr, "err", 3);
    abx_journal_advance(&cur, 3);
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_EMPTY);
    abx_journal_append(&j, 1, "x", 1); /* a waiting cursor goes on */
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_DATA);
    assert_memory_equal(c.data.ptr, "x", 1);
    assert_true(j.ring_cap <= 1024);
    abx_journal_done(&j);
}

TEST(journal_spills_to_disk_and_reads_back)
{
    struct abx_journal j;
    abx_journal_init(&j, "/tmp", NULL);
    for (int i = 0; i < 600; i++)
        append_run(&j, (uint8_t)(i & 1), 3000 + (size_t)i);
    assert_true(j.end_offset > 4 * ABX_JOURNAL_MEMORY_BYTES);
    assert_true(j.fd >= 0);
    assert_int_equal(j.ring_cap, ABX_JOURNAL_MEMORY_BYTES);
    for (uint64_t from = 0; from <= j.end_offset; from += 77777)
        assert_int_equal(check_from(&j, from), 0);
    abx_journal_set_heard(&j, false);
    assert_int_equal(j.ring_cap, 0);
    assert_int_equal(check_from(&j, 12345), 0);
    append_run(&j, 0, 10); /* late output */
    assert_int_equal(check_from(&j, 0), 0);
    abx_journal_forget(&j);
    assert_int_equal(check_from(&j, 5), j.end_offset - 5);
    assert_int_equal(j.fd, -1);
    abx_journal_done(&j);
}

TEST(journal_overflow_is_an_explicit_gap)
{
    for (size_t step = 1; step < 2500; step = step * 3 + 1) {
        struct abx_journal j;
        abx_journal_init(&j, "/tmp", &tiny);
        while (j.end_offset < 60000) {
            append_run(&j, (uint8_t)(step & 3), step);
            assert_true(j.end - j.start <= 1024 + 4096);
        }
        uint64_t lost = check_from(&j, 100);
        assert_int_equal(lost, j.start_offset - 100);
        assert_true(lost > 0);
        assert_true(step > 1 ? j.start_offset < j.end_offset - 2000 : true);
        abx_journal_done(&j);
    }
}

TEST(journal_nobody_hears_holds_no_memory)
{
    struct abx_journal j;
    abx_journal_init(&j, "/tmp", NULL);
    append_run(&j, 0, 100);
    abx_journal_set_heard(&j, false);
    assert_true(j.ring_cap <= 128);
    append_run(&j, 1, 5000);
    assert_true(j.ring_cap <= 16384 && j.fd < 0); /* little output makes no file */
    while (j.end_offset < 70u * 1024 * 1024) {
        append_run(&j, 0, 8000);
        assert_true(j.ring_cap <= 16384);
    }
    assert_int_equal(j.ring_cap, 0);
    assert_true(j.mark_cap <= 128);
    uint64_t lost = check_from(&j, 0);
    assert_in_range(lost, 6u * 1024 * 1024, 9u * 1024 * 1024);
    abx_journal_set_heard(&j, true);
    append_run(&j, 1, 8000);
    assert_true(j.ring_cap > 8000);
    assert_int_equal(check_from(&j, j.start_offset + 12345), 0);
    abx_journal_set_heard(&j, false);
    append_run(&j, 1, 3);
    assert_int_equal(check_from(&j, j.start_offset), 0);
    abx_journal_done(&j);
}

TEST(journal_reader_overtaken_by_the_drop_sees_one_gap)
{
    struct abx_journal j;
    abx_journal_init(&j, "/tmp", &tiny);
    append_run(&j, 0, 500);
    struct abx_journal_cursor cur;
    struct abx_journal_chunk c;
    abx_journal_seek(&j, 0, &cur);
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_DATA);
    abx_journal_advance(&cur, 10); /* stands inside a record */
    while (j.end_offset < 20000)
        append_run(&j, 1, 400);
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_GAP);
    assert_int_equal(c.offset, 10);
    assert_int_equal(c.lost, j.start_offset - 10);
    assert_int_equal(abx_journal_peek(&j, &cur, scratch, &c), ABX_JOURNAL_DATA);
    assert_int_equal(c.offset, j.start_offset);
    assert_int_equal(c.kind, 1);
    abx_journal_done(&j);
}

TEST(journal_without_disk_keeps_the_newest_in_memory)
{
    static const char *const dirs[] = {"/nonexistent", "/proc"};
    for (size_t i = 0; i < ABX_COUNTOF(dirs); i++) {
        struct abx_journal j;
        abx_journal_init(&j, dirs[i], &tiny);
        while (j.end_offset < 10000)
            append_run(&j, 0, 100);
        assert_int_equal(j.fd, -1);
        uint64_t lost = check_from(&j, 0);
        assert_true(lost >= 10000 - 1024 && lost < 10000);
        abx_journal_set_heard(&j, false);
        assert_int_equal(check_from(&j, 0), lost);
        abx_journal_done(&j);
    }
}

TEST(journal_broken_disk_is_a_gap)
{
    struct abx_journal j;
    abx_journal_init(&j, "/tmp", &tiny);
    while (j.end_offset < 3000)
        append_run(&j, 0, 100);
    close(j.fd);
    j.fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* reads nothing back */
    assert_true(check_from(&j, 0) > 1000);
    abx_journal_done(&j);
}
