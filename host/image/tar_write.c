/* host/image/tar_write.c: heads of tar entries (POSIX ustar and pax). Pure. */
#include "host/image/tar_write.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/banned.h"

enum { NAME_BYTES = 100 };
static const uint64_t size_max = (UINT64_C(1) << 33) - 1; /* eleven octal digits */

static void put_octal(char *field, size_t width, uint64_t v)
{
    for (size_t i = width - 1; i-- > 0; v >>= 3)
        field[i] = (char)('0' + (v & 7));
}

static void put_name(char *field, const char *name)
{
    memcpy(field, name, strnlen(name, NAME_BYTES));
}

size_t abx_tar_padding(uint64_t bytes)
{
    size_t rest = (size_t)(bytes % ABX_TAR_BLOCK);
    return rest == 0 ? 0 : ABX_TAR_BLOCK - rest;
}

void abx_tar_record(struct abx_buf *out, const char *key, struct abx_str value)
{
    size_t body = strlen(key) + value.len + 3, total = body; /* ' ', '=', '\n' */
    char digits[24];
    for (size_t before = 0; before != total;) { /* the length counts its own digits */
        before = total;
        total = body + (size_t)snprintf(digits, sizeof(digits), "%zu", total);
    }
    abx_buf_putf(out, "%zu %s=", total, key);
    abx_buf_put_str(out, value);
    abx_buf_put_byte(out, '\n');
}

static void put_block(const struct abx_tar_entry *e, uint64_t bytes, struct abx_buf *out)
{
    char h[ABX_TAR_BLOCK] = {0};
    unsigned sum = 0;
    put_name(h, e->path);
    put_octal(h + 100, 8, e->mode & 07777);
    put_octal(h + 108, 8, e->uid);
    put_octal(h + 116, 8, e->gid);
    put_octal(h + 124, 12, bytes <= size_max ? bytes : 0);
    put_octal(h + 136, 12, e->mtime_s > 0 ? (uint64_t)e->mtime_s : 0);
    memset(h + 148, ' ', 8);
    h[156] = e->type;
    if (e->link != NULL)
        put_name(h + 157, e->link);
    memcpy(h + 257, "ustar", 6);
    memcpy(h + 263, "00", 2);
    for (size_t i = 0; i < sizeof(h); i++)
        sum += (unsigned char)h[i];
    put_octal(h + 148, 7, sum);
    abx_buf_put(out, h, sizeof(h));
}

static void put_zeros(struct abx_buf *out, size_t count)
{
    static const char zeros[ABX_TAR_BLOCK];
    abx_buf_put(out, zeros, count);
}

/* What the block has no room for. */
static void collect(const struct abx_tar_entry *e, struct abx_buf *records)
{
    char digits[24];
    bool is_text =
        abx_str_is_utf8(abx_str(e->path)) && (e->link == NULL || abx_str_is_utf8(abx_str(e->link)));
    if (!is_text) /* bytes as they are */
        abx_tar_record(records, "hdrcharset", ABX_STR("BINARY"));
    if (strlen(e->path) > NAME_BYTES)
        abx_tar_record(records, "path", abx_str(e->path));
    if (e->link != NULL && strlen(e->link) > NAME_BYTES)
        abx_tar_record(records, "linkpath", abx_str(e->link));
    if (e->bytes > size_max) {
        snprintf(digits, sizeof(digits), "%llu", (unsigned long long)e->bytes);
        abx_tar_record(records, "size", abx_str(digits));
    }
    abx_buf_put_str(records, e->records);
}

void abx_tar_head(const struct abx_tar_entry *e, struct abx_buf *out)
{
    ABX_AUTO_BUF records = {.max = ABX_TAR_RECORDS_MAX};
    collect(e, &records);
    if (abx_buf_failed(&records)) {
        out->failed = true;
        return;
    }
    if (records.len > 0) {
        struct abx_tar_entry x = {.path = "PaxHeader", .type = 'x', .mode = 0644};
        put_block(&x, records.len, out);
        abx_buf_put_str(out, abx_buf_str(&records));
        put_zeros(out, abx_tar_padding(records.len));
    }
    put_block(e, e->bytes, out);
}
