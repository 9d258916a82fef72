/* guest/caps/pack_zip.c: zip (APPNOTE 6.3): sizes and checksums follow the content, since it is not
 * held; the wide form (zip64) only where a number asks for it. */
#include "guest/caps/pack_priv.h"

#include "lib/base/assert.h"

#include <errno.h>
#include <time.h>

#include "lib/base/banned.h"

enum {
    LOCAL = 0x04034b50,
    AFTER = 0x08074b50, /* what follows the content */
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    WIDE_END = 0x06064b50,
    WIDE_LOCATOR = 0x07064b50,
    NEEDS = 20,
    NEEDS_WIDE = 45,
    MADE_BY_UNIX = 3 << 8,
    FLAG_AFTER = 1 << 3,
    FLAG_UTF8 = 1 << 11,
    STORED = 0,
    DEFLATED = 8,
    IS_FOLDER = 0x10,
    EXTRA_WIDE = 1,
    EXTRA_TIME = 0x5455,
    NAME_MAX_BYTES = 65535,
};
static const uint64_t full_32 = UINT32_MAX, wide_from = 0xf0000000; /* it may grow when packed */

static void put(struct abx_buf *b, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        abx_buf_put_byte(b, (char)(value >> (8 * i)));
}

static uint32_t dos_time(time_t t)
{
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL || tm.tm_year < 80)
        return 1u << 21 | 1u << 16; /* the first day that it can say */
    if (tm.tm_year > 80 + 127)
        tm = (struct tm){.tm_year = 80 + 127, .tm_mon = 11, .tm_mday = 31};
    uint32_t date = (uint32_t)((tm.tm_year - 80) << 9 | (tm.tm_mon + 1) << 5 | tm.tm_mday);
    return date << 16 | (uint32_t)(tm.tm_hour << 11 | tm.tm_min << 5 | tm.tm_sec / 2);
}

void abx__zip_init(struct abx__zip *z)
{
    *z = (struct abx__zip){0};
    abx_buf_init(&z->directory, ABX__PACK_DIRECTORY);
    abx_buf_init(&z->entry, NAME_MAX_BYTES + 64);
}

void abx__zip_done(struct abx__zip *z)
{
    abx_deflate_done(&z->deflate);
    abx_buf_done(&z->directory);
    abx_buf_done(&z->entry);
}

/* The part of a record that stands in the local header and in the directory alike. */
static void put_kind(struct abx_buf *b, const struct abx__zip *z, const struct abx__member *m)
{
    bool is_file = S_ISREG(m->st.st_mode);
    unsigned flags = (is_file ? FLAG_AFTER : 0) | (abx_str_is_utf8(m->name) ? FLAG_UTF8 : 0);
    put(b, z->is_wide ? NEEDS_WIDE : NEEDS, 2);
    put(b, flags, 2);
    put(b, is_file ? DEFLATED : STORED, 2);
    put(b, dos_time(m->st.st_mtime), 4);
}

/* Seconds since 1970 (those of DOS have no zone); the range that 32 bits can say. */
static void put_seconds(struct abx_buf *b, const struct abx__member *m)
{
    int64_t t = m->st.st_mtime;
    put(b, EXTRA_TIME, 2);
    put(b, 5, 2);
    put(b, 1, 1);
    put(b, (uint32_t)(int32_t)(t > INT32_MAX ? INT32_MAX : t < INT32_MIN ? INT32_MIN : t), 4);
}

enum { SECONDS = 9, WIDE_LOCAL = 20 };

static void put_local(struct abx__zip *z, struct abx_buf *out, const struct abx__member *m)
{
    put(out, LOCAL, 4);
    put_kind(out, z, m);
    put(out, z->crc, 4); /* of a file: 0, for they follow it; likewise the sizes */
    put(out, z->is_wide ? full_32 : z->packed, 4);
    put(out, z->is_wide ? full_32 : z->size, 4);
    put(out, m->name.len, 2);
    put(out, SECONDS + (z->is_wide ? WIDE_LOCAL : 0), 2);
    abx_buf_put_str(out, m->name);
    put_seconds(out, m);
    if (z->is_wide) {
        put(out, EXTRA_WIDE, 2);
        put(out, 16, 2);
        put(out, 0, 8);
        put(out, 0, 8);
    }
}

/* What of the member must be known when its content has been written. */
static void keep_entry(struct abx__zip *z, const struct abx__member *m)
{
    uint64_t attributes = (uint64_t)m->st.st_mode << 16;
    abx_buf_clear(&z->entry);
    put_kind(&z->entry, z, m);
    put(&z->entry, attributes | (S_ISDIR(m->st.st_mode) ? IS_FOLDER : 0), 4);
    put_seconds(&z->entry, m);
    abx_buf_put_str(&z->entry, m->name);
}

int abx__zip_begin(struct abx__zip *z, struct abx_buf *out, const struct abx__member *m)
{
    size_t before = out->len;
    if (m->name.len > NAME_MAX_BYTES)
        return -ENAMETOOLONG;
    z->at = z->offset;
    z->crc = 0;
    z->size = z->packed = 0;
    z->is_wide = (uint64_t)m->st.st_size >= wide_from;
    if (m->link.ptr) {
        z->crc = (uint32_t)crc32(0, (const unsigned char *)m->link.ptr, (unsigned)m->link.len);
        z->size = z->packed = m->link.len;
    }
    keep_entry(z, m);
    put_local(z, out, m);
    if (m->link.ptr)
        abx_buf_put_str(out, m->link);
    z->offset += out->len - before;
    if (S_ISREG(m->st.st_mode) && abx_deflate_init(&z->deflate, ABX_DEFLATE_RAW) < 0)
        return -ENOMEM;
    return abx_buf_failed(out) || abx_buf_failed(&z->entry) ? -ENOMEM : 0;
}

static int pack(struct abx__zip *z, struct abx_buf *out, struct abx_str data, bool is_last)
{
    size_t before = out->len;
    if (abx_deflate_put(&z->deflate, data, is_last, out) < 0)
        return -ENOMEM;
    z->packed += out->len - before;
    z->offset += out->len - before;
    return 0;
}

int abx__zip_data(struct abx__zip *z, struct abx_buf *out, struct abx_str data)
{
    z->crc = (uint32_t)crc32(z->crc, (const unsigned char *)data.ptr, (unsigned)data.len);
    z->size += data.len;
    return pack(z, out, data, false);
}

static uint64_t narrow(uint64_t value)
{
    return value < full_32 ? value : full_32;
}

/* The three numbers that may be too wide, in the order of the format. */
static void put_wide(struct abx_buf *b, const uint64_t numbers[3])
{
    unsigned bytes = 0;
    for (int i = 0; i < 3; i++)
        bytes += numbers[i] >= full_32 ? 8 : 0;
    if (bytes == 0)
        return;
    put(b, EXTRA_WIDE, 2);
    put(b, bytes, 2);
    for (int i = 0; i < 3; i++)
        if (numbers[i] >= full_32)
            put(b, numbers[i], 8);
}

static void put_central(struct abx__zip *z)
{
    enum { KIND = 10, ATTRIBUTES = 4 };
    const uint64_t numbers[] = {z->size, z->packed, z->at};
    struct abx_buf *b = &z->directory;
    struct abx_str e = abx_buf_str(&z->entry);
    struct abx_str seconds = abx_str_sub(e, KIND + ATTRIBUTES, SECONDS),
                   name = abx_str_sub(e, KIND + ATTRIBUTES + SECONDS, e.len);
    ABX_AUTO_BUF wide;
    abx_buf_init(&wide, 64);
    put_wide(&wide, numbers);
    put(b, CENTRAL, 4);
    put(b, MADE_BY_UNIX | (wide.len ? NEEDS_WIDE : NEEDS), 2);
    abx_buf_put_str(b, abx_str_sub(e, 0, KIND));
    put(b, z->crc, 4);
    put(b, narrow(z->packed), 4);
    put(b, narrow(z->size), 4);
    put(b, name.len, 2);
    put(b, SECONDS + wide.len, 2);
    put(b, 0, 6); /* no comment, disk 0, bytes */
    abx_buf_put_str(b, abx_str_sub(e, KIND, ATTRIBUTES));
    put(b, narrow(z->at), 4);
    abx_buf_put_str(b, name);
    abx_buf_put_str(b, seconds);
    abx_buf_put_str(b, abx_buf_str(&wide));
    b->failed |= abx_buf_failed(&wide);
}

int abx__zip_close(struct abx__zip *z, struct abx_buf *out)
{
    if (z->deflate.is_open) {
        int rc = pack(z, out, ABX_STR(""), true);
        abx_deflate_done(&z->deflate);
        if (rc < 0)
            return rc;
        size_t before = out->len;
        put(out, AFTER, 4);
        put(out, z->crc, 4);
        put(out, z->packed, z->is_wide ? 8 : 4);
        put(out, z->size, z->is_wide ? 8 : 4);
        z->offset += out->len - before;
    }
    put_central(z);
    z->count++;
    return abx_buf_failed(out) || abx_buf_failed(&z->directory) ? -ENOMEM : 0;
}

static void put_wide_end(const struct abx__zip *z, struct abx_buf *out)
{
    put(out, WIDE_END, 4);
    put(out, 44, 8);
    put(out, MADE_BY_UNIX | NEEDS_WIDE, 2);
    put(out, NEEDS_WIDE, 2);
    put(out, 0, 8);
    put(out, z->count, 8);
    put(out, z->count, 8);
    put(out, z->directory.len, 8);
    put(out, z->offset, 8);
    put(out, WIDE_LOCATOR, 4);
    put(out, 0, 4);
    put(out, z->offset + z->directory.len, 8);
    put(out, 1, 4);
}

int abx__zip_end(struct abx__zip *z, struct abx_buf *out)
{
    const uint64_t full_16 = UINT16_MAX;
    uint64_t shown = z->count < full_16 ? z->count : full_16;
    abx_buf_put_str(out, abx_buf_str(&z->directory));
    if (z->count >= full_16 || z->offset >= full_32)
        put_wide_end(z, out);
    put(out, END, 4);
    put(out, 0, 4);
    put(out, shown, 2);
    put(out, shown, 2);
    put(out, z->directory.len, 4);
    put(out, narrow(z->offset), 4);
    put(out, 0, 2);
    return abx_buf_failed(out) ? -ENOMEM : 0;
}
