/* guest/caps/journal.c: output journal (decisions.md "Behaviour").
 *
 * The log is a byte sequence addressed by 64-bit positions: [start, mem) lies in the file at
 * position % disk_max, [mem, end) in the ring at position % ring_cap. A record is a 4-byte header
 * (kind << 24 | length) and its bytes; start, mem and end are boundaries of records. Marks are
 * further boundaries in the file, a thirtieth of it apart: seeking starts at one, dropping from
 * the file ends at one. */
#include "guest/caps/journal.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    HEADER = 4,
    RECORD_MAX = ABX_DATA_CHUNK_BYTES,
    RING_MIN = 1024,
    RING_MAPPED = 64 * 1024, /* from here on the ring goes back to the system when it goes */
    MARKS = 30,
    UNHEARD_MAX = 16 * 1024 /* memory of a journal that nobody reads */
};

struct abx_journal_mark {
    uint64_t position, offset;
};

static size_t min_size(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

void abx_journal_init(struct abx_journal *j, const char *spill_dir,
                      const struct abx_journal_limits *limits)
{
    *j = (struct abx_journal){.spill_dir = spill_dir, .fd = -1};
    j->memory_max = limits ? limits->memory_bytes : ABX_JOURNAL_MEMORY_BYTES;
    j->disk_max = limits ? limits->disk_bytes : ABX_JOURNAL_DISK_BYTES;
    ABX_ASSERT((j->memory_max & (j->memory_max - 1)) == 0 && j->memory_max >= RING_MIN);
}

static char *ring_alloc(size_t cap)
{
    if (cap < RING_MAPPED)
        return malloc(cap);
    void *ring = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ring == MAP_FAILED ? NULL : ring;
}

static void ring_free(struct abx_journal *j)
{
    if (j->ring_cap < RING_MAPPED)
        free(j->ring);
    else
        munmap(j->ring, j->ring_cap);
    j->ring = NULL;
    j->ring_cap = 0;
}

void abx_journal_done(struct abx_journal *j)
{
    ring_free(j);
    free(j->marks);
    abx_fd_close(&j->fd);
    j->marks = NULL;
    j->mark_count = j->mark_cap = 0;
}

uint64_t abx_journal_held(const struct abx_journal *j)
{
    return j->end - j->start;
}

/* --- the ring --- */

static void ring_put(struct abx_journal *j, uint64_t at, const char *data, size_t len)
{
    size_t from = (size_t)(at & (j->ring_cap - 1));
    size_t first = min_size(len, j->ring_cap - from);
    memcpy(j->ring + from, data, first);
    memcpy(j->ring, data + first, len - first);
}

static void ring_get(const struct abx_journal *j, uint64_t at, char *out, size_t len)
{
    size_t from = (size_t)(at & (j->ring_cap - 1));
    size_t first = min_size(len, j->ring_cap - from);
    memcpy(out, j->ring + from, first);
    memcpy(out + first, j->ring, len - first);
}

/* False without memory: the old ring stays. */
static bool ring_resize(struct abx_journal *j, size_t cap)
{
    char *fresh = ring_alloc(cap);
    if (fresh == NULL)
        return false;
    size_t from = (size_t)(j->mem & (cap - 1)), used = (size_t)(j->end - j->mem);
    size_t first = min_size(used, cap - from);
    if (used > 0) {
        ring_get(j, j->mem, fresh + from, first);
        ring_get(j, j->mem + first, fresh, used - first);
    }
    ring_free(j);
    j->ring = fresh;
    j->ring_cap = cap;
    return true;
}

/* --- the file --- */

/* Reads or writes [at, at + len) of the file; it wraps at disk_max. */
static bool file_io(struct abx_journal *j, uint64_t at, char *data, size_t len, bool is_write)
{
    while (len > 0) {
        uint64_t in_file = at % j->disk_max;
        size_t part = min_size(len, j->disk_max - in_file);
        ssize_t n = is_write ? pwrite(j->fd, data, part, (off_t)in_file)
                             : pread(j->fd, data, part, (off_t)in_file);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += (uint64_t)n;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool file_open(struct abx_journal *j)
{
    if (j->fd >= 0)
        return true;
    if (j->disk_max == 0)
        return false;
    j->fd = open(j->spill_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (j->fd >= 0)
        return true;
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/.abx-journal-XXXXXX", j->spill_dir) >= (int)sizeof(path))
        return false;
    j->fd = mkostemp(path, O_CLOEXEC);
    if (j->fd < 0)
        return false;
    unlink(path);
    return true;
}

/* --- dropping and spilling --- */

/* Forgets what is in the file. */
static void drop_file(struct abx_journal *j)
{
    j->start = j->mem;
    j->start_offset = j->mem_offset;
    j->mark_count = 0;
}

static void drop_all(struct abx_journal *j)
{
    j->mem = j->end;
    j->mem_offset = j->end_offset;
    drop_file(j);
    abx_fd_close(&j->fd);
}

/* Forgets what lies in the file before the first mark at or after @position. */
static void drop_to(struct abx_journal *j, uint64_t position)
{
    size_t i = 0;
    while (i < j->mark_count && j->marks[i].position < position)
        i++;
    if (i == j->mark_count) {
        drop_file(j);
        return;
    }
    j->start = j->marks[i].position;
    j->start_offset = j->marks[i].offset;
    j->mark_count -= i;
    memmove(j->marks, j->marks + i, j->mark_count * sizeof(*j->marks));
}

static bool add_mark(struct abx_journal *j)
{
    if (j->mark_count > 0 && j->mem - j->marks[j->mark_count - 1].position < j->disk_max / MARKS)
        return true;
    if (j->mark_count == j->mark_cap) {
        size_t cap = j->mark_cap ? 2 * j->mark_cap : 2;
        struct abx_journal_mark *fresh = realloc(j->marks, cap * sizeof(*fresh));
        if (fresh == NULL)
            return j->mark_count > 0; /* a coarser index will do; none will not */
        j->marks = fresh;
        j->mark_cap = cap;
    }
    j->marks[j->mark_count++] = (struct abx_journal_mark){j->mem, j->mem_offset};
    return true;
}

/* Prepares the file for the log up to @to. */
static bool file_ready(struct abx_journal *j, uint64_t to)
{
    if (to - j->mem > j->disk_max || !file_open(j))
        return false;
    if (to - j->start > j->disk_max)
        drop_to(j, to - j->disk_max);
    return add_mark(j);
}

static uint32_t header_at(const struct abx_journal *j, uint64_t position)
{
    uint32_t head;
    size_t from = (size_t)(position & (j->ring_cap - 1));
    char bytes[HEADER];
    size_t first = min_size(HEADER, j->ring_cap - from);
    memcpy(bytes, j->ring + from, first);
    memcpy(bytes + first, j->ring, HEADER - first);
    memcpy(&head, bytes, HEADER);
    return head;
}

/* Moves at least @len bytes, in whole records, from the ring to the file, or drops them. */
static void spill(struct abx_journal *j, size_t len)
{
    uint64_t to = j->mem, offset = j->mem_offset;
    while (to < j->end && to < j->mem + len) {
        uint32_t size = header_at(j, to) & 0xffffff;
        to += HEADER + size;
        offset += size;
    }
    bool is_kept = file_ready(j, to);
    for (uint64_t at = j->mem; is_kept && at < to;) {
        size_t from = (size_t)(at & (j->ring_cap - 1));
        size_t part = min_size(to - at, j->ring_cap - from);
        is_kept = file_io(j, at, j->ring + from, part, true);
        at += part;
    }
    j->mem = to;
    j->mem_offset = offset;
    if (!is_kept) {
        drop_file(j);
        abx_fd_close(&j->fd);
    }
}

/* Makes room for one record. False: not even an empty ring of that size can be had. */
static bool make_room(struct abx_journal *j, size_t need)
{
    for (;;) {
        size_t used = (size_t)(j->end - j->mem);
        if (used + need <= j->ring_cap)
            return true;
        size_t cap = j->ring_cap ? j->ring_cap : RING_MIN;
        while (cap < used + need && cap < j->memory_max)
            cap *= 2;
        if (cap > j->ring_cap && ring_resize(j, cap))
            continue;
        if (used == 0)
            return false;
        size_t half = (size_t)(j->memory_max / 2);
        spill(j, used < half || half < need ? used : half);
    }
}

/* Straight to the file, past an empty ring. False: it can not be written. */
static bool append_to_file(struct abx_journal *j, uint32_t head, char *data, size_t len)
{
    uint64_t to = j->end + HEADER + len;
    if (!file_ready(j, to))
        return false;
    if (!file_io(j, j->end, (char *)&head, HEADER, true) ||
        !file_io(j, j->end + HEADER, data, len, true)) {
        drop_all(j);
        return false;
    }
    j->mem = j->end = to;
    j->end_offset += len;
    j->mem_offset = j->end_offset;
    return true;
}

static void append_record(struct abx_journal *j, uint8_t kind, char *data, size_t len)
{
    uint32_t head = (uint32_t)kind << 24 | (uint32_t)len;
    bool is_much = j->fd >= 0 || j->end - j->mem + HEADER + len > UNHEARD_MAX;
    if (j->is_unheard && is_much && file_open(j)) {
        spill(j, (size_t)(j->end - j->mem));
        ring_free(j);
        if (append_to_file(j, head, data, len))
            return;
    }
    if (!make_room(j, HEADER + len)) {
        j->end_offset += len; /* no memory at all: the bytes are a gap */
        drop_all(j);
        return;
    }
    ring_put(j, j->end, (const char *)&head, HEADER);
    ring_put(j, j->end + HEADER, data, len);
    j->end += HEADER + len;
    j->end_offset += len;
}

void abx_journal_append(struct abx_journal *j, uint8_t kind, const void *data, size_t len)
{
    size_t piece = min_size(RECORD_MAX, j->memory_max - HEADER);
    char *from = (char *)(uintptr_t)data; /* file_io() does not write to it */
    while (len > 0) {
        size_t n = min_size(len, piece);
        append_record(j, kind, from, n);
        from += n;
        len -= n;
    }
}

void abx_journal_set_heard(struct abx_journal *j, bool is_heard)
{
    j->is_unheard = !is_heard;
    if (is_heard)
        return;
    size_t used = (size_t)(j->end - j->mem);
    if (used > UNHEARD_MAX && file_open(j))
        spill(j, used);
    used = (size_t)(j->end - j->mem);
    if (used == 0) {
        ring_free(j);
        return;
    }
    size_t cap = 64;
    while (cap < used)
        cap *= 2;
    if (cap < j->ring_cap)
        ring_resize(j, cap);
}

void abx_journal_forget(struct abx_journal *j)
{
    drop_all(j);
    ring_free(j);
}

/* --- reading --- */

/* Copies log bytes out of file and ring. False: the file can not be read. */
static bool log_get(struct abx_journal *j, uint64_t at, char *out, size_t len)
{
    if (at < j->mem) {
        size_t part = min_size(len, j->mem - at);
        if (!file_io(j, at, out, part, false))
            return false;
        at += part;
        out += part;
        len -= part;
    }
    if (len > 0)
        ring_get(j, at, out, len);
    return true;
}

/* Steps into the next record. False: no record, or the file can not be read. */
static bool enter_record(struct abx_journal *j, struct abx_journal_cursor *cur)
{
    uint32_t head;
    if (cur->position >= j->end || !log_get(j, cur->position, (char *)&head, HEADER))
        return false;
    cur->position += HEADER;
    cur->left = head & 0xffffff;
    cur->kind = (uint8_t)(head >> 24);
    return true;
}

void abx_journal_advance(struct abx_journal_cursor *cur, size_t len)
{
    ABX_ASSERT(len <= cur->left);
    cur->position += len;
    cur->offset += len;
    cur->left -= (uint32_t)len;
}

void abx_journal_seek(struct abx_journal *j, uint64_t offset, struct abx_journal_cursor *cur)
{
    *cur = (struct abx_journal_cursor){j->end, j->end_offset, 0, 0};
    if (offset >= j->end_offset)
        return;
    if (offset < j->start_offset) {
        *cur = (struct abx_journal_cursor){0, offset, 0, 0};
        return; /* position 0 lies before `start`, or is it: peek() tells the gap */
    }
    size_t low = 0, high = j->mark_count; /* the last mark at or before offset */
    while (offset < j->mem_offset && high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (j->marks[mid].offset <= offset)
            low = mid;
        else
            high = mid;
    }
    *cur = (struct abx_journal_cursor){j->mem, j->mem_offset, 0, 0};
    if (offset < j->mem_offset)
        *cur = (struct abx_journal_cursor){j->marks[low].position, j->marks[low].offset, 0, 0};
    while (cur->offset < offset && enter_record(j, cur))
        abx_journal_advance(cur, min_size(cur->left, offset - cur->offset));
}

static enum abx_journal_peek tell_gap(struct abx_journal *j, struct abx_journal_cursor *cur,
                                      struct abx_journal_chunk *ret)
{
    *ret = (struct abx_journal_chunk){.offset = cur->offset, .lost = j->start_offset - cur->offset};
    *cur = (struct abx_journal_cursor){j->start, j->start_offset, 0, 0};
    return ABX_JOURNAL_GAP;
}

enum abx_journal_peek abx_journal_peek(struct abx_journal *j, struct abx_journal_cursor *cur,
                                       char *scratch, struct abx_journal_chunk *ret)
{
    if (cur->offset < j->start_offset)
        return tell_gap(j, cur, ret);
    if (cur->left == 0 && cur->position >= j->end)
        return ABX_JOURNAL_EMPTY;
    bool is_read = cur->left > 0 || enter_record(j, cur);
    size_t len = cur->left;
    *ret = (struct abx_journal_chunk){.kind = cur->kind, .offset = cur->offset};
    if (is_read && cur->position >= j->mem) {
        size_t from = (size_t)(cur->position & (j->ring_cap - 1));
        ret->data = abx_str_n(j->ring + from, min_size(len, j->ring_cap - from));
        return ABX_JOURNAL_DATA;
    }
    if (is_read && log_get(j, cur->position, scratch, len)) {
        ret->data = abx_str_n(scratch, len);
        return ABX_JOURNAL_DATA;
    }
    drop_file(j); /* the disk broke: what was on it is a gap */
    return tell_gap(j, cur, ret);
}
