/* cli/tar.c: tar headers, pax records for what does not fit, gzip without a time. */
#include "cli/tar.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <zlib.h>

#include "lib/base/banned.h"

enum { BLOCK = 512, CHUNK = 65536, LEVEL = 6, GZIP = 15 + 16 };

/* Offsets of the fields (pax, ustar interchange format). */
enum { F_NAME = 0, F_MODE = 100, F_UID = 108, F_GID = 116, F_SIZE = 124, F_MTIME = 136 };
enum { F_SUM = 148, F_TYPE = 156, F_LINK = 157, F_MAGIC = 257, NAME_BYTES = 100 };

struct cli_tar {
    int fd, error;
    z_stream z;
    unsigned char out[CHUNK];
};

struct cli_tar *cli_tar_new(int fd)
{
    struct cli_tar *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->fd = fd;
    if (deflateInit2(&t->z, LEVEL, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(t);
        return NULL;
    }
    return t;
}

static int put(struct cli_tar *t, const void *data, size_t len, int flush)
{
    t->z.next_in = (Bytef *)(uintptr_t)data;
    t->z.avail_in = (uInt)len;
    do {
        t->z.next_out = t->out;
        t->z.avail_out = sizeof(t->out);
        if (deflate(&t->z, flush) == Z_STREAM_ERROR)
            t->error = -EIO;
        size_t n = sizeof(t->out) - t->z.avail_out;
        int r = t->error == 0 && n > 0 ? abx_fd_write_all(t->fd, t->out, n) : 0;
        if (r < 0)
            t->error = r;
    } while (t->error == 0 && t->z.avail_out == 0);
    return t->error;
}

int cli_tar_data(struct cli_tar *t, const void *data, size_t len)
{
    return t->error ? t->error : put(t, data, len, Z_NO_FLUSH);
}

int cli_tar_pad(struct cli_tar *t, uint64_t size)
{
    static const char zeros[BLOCK];
    size_t left = (size_t)(size % BLOCK);
    return left ? cli_tar_data(t, zeros, BLOCK - left) : t->error;
}

static void octal(unsigned char *h, size_t at, size_t width, uint64_t value)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%0*llo", (int)width - 1, (unsigned long long)value);
    if (n == (int)width - 1)
        memcpy(h + at, text, (size_t)n); /* the terminator is there: zeroed */
}

static int put_header(struct cli_tar *t, const struct cli_tar_entry *e, struct abx_str name)
{
    unsigned char h[BLOCK] = {0};
    unsigned sum = 0;
    memcpy(h + F_NAME, name.ptr, name.len < NAME_BYTES ? name.len : NAME_BYTES);
    octal(h, F_MODE, 8, e->mode);
    octal(h, F_UID, 8, 0);
    octal(h, F_GID, 8, 0);
    octal(h, F_SIZE, 12, e->size < (1ULL << 33) ? e->size : 0);
    octal(h, F_MTIME, 12, 0);
    h[F_TYPE] = (unsigned char)e->type;
    if (e->link.len)
        memcpy(h + F_LINK, e->link.ptr, e->link.len < NAME_BYTES ? e->link.len : NAME_BYTES);
    memcpy(h + F_MAGIC,
           "ustar\0"
           "00",
           8);
    memset(h + F_SUM, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += h[i];
    octal(h, F_SUM, 7, sum);
    h[F_SUM + 6] = '\0';
    return cli_tar_data(t, h, sizeof(h));
}

/* "LENGTH key=value\n", where LENGTH counts itself. */
static void put_record(struct abx_buf *b, const char *key, struct abx_str value)
{
    size_t body = strlen(key) + value.len + 3, digits = 1;
    for (size_t n = body + digits; n >= 10; n /= 10)
        digits++;
    for (size_t limit = 1, i = 0; i < digits; i++) {
        limit *= 10;
        if (i + 1 == digits && body + digits >= limit)
            digits++;
    }
    abx_buf_putf(b, "%zu %s=", body + digits, key);
    abx_buf_put_str(b, value);
    abx_buf_put_byte(b, '\n');
}

int cli_tar_entry(struct cli_tar *t, const struct cli_tar_entry *e)
{
    char size[24];
    ABX_AUTO_BUF records;
    abx_buf_init(&records, 32768);
    if (e->name.len > NAME_BYTES)
        put_record(&records, "path", e->name);
    if (e->link.len > NAME_BYTES)
        put_record(&records, "linkpath", e->link);
    snprintf(size, sizeof(size), "%llu", (unsigned long long)e->size);
    if (e->size >= 1ULL << 33)
        put_record(&records, "size", abx_str(size));
    if (abx_buf_failed(&records))
        t->error = -ENAMETOOLONG;
    if (records.len > 0 && t->error == 0) {
        struct cli_tar_entry x = {.mode = 0644, .type = 'x', .size = records.len};
        put_header(t, &x, ABX_STR("PaxHeaders/entry"));
        cli_tar_data(t, records.ptr, records.len);
        cli_tar_pad(t, records.len);
    }
    return t->error ? t->error : put_header(t, e, e->name);
}

int cli_tar_end(struct cli_tar *t)
{
    static const char zeros[2 * BLOCK];
    cli_tar_data(t, zeros, sizeof(zeros));
    if (t->error == 0)
        put(t, "", 0, Z_FINISH);
    int error = t->error;
    deflateEnd(&t->z);
    free(t);
    return error;
}
