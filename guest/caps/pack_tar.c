/* guest/caps/pack_tar.c: headers of POSIX tar: ustar, with a pax record for what does not fit in.
 */
#include "guest/caps/pack_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { BLOCK = 512, NAME = 100, OCTAL_8 = 07777777 };
static const uint64_t octal_12 = 077777777777;

/* Where the fields of a header stand. */
enum {
    AT_MODE = 100,
    AT_UID = 108,
    AT_GID = 116,
    AT_SIZE = 124,
    AT_TIME = 136,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257
};

static void put_octal(char *field, int width, uint64_t value)
{
    for (int i = width - 2; i >= 0; i--, value >>= 3)
        field[i] = (char)('0' + (value & 7));
    field[width - 1] = '\0';
}

static void put_text(char *field, struct abx_str text)
{
    memcpy(field, text.ptr, text.len < NAME ? text.len : NAME);
}

static void put_header(struct abx_buf *out, char type, const struct abx__member *m)
{
    char h[BLOCK] = {0};
    unsigned sum = 0;
    const struct stat *st = &m->st;
    put_text(h, m->name);
    put_octal(h + AT_MODE, 8, st->st_mode & 07777);
    put_octal(h + AT_UID, 8, st->st_uid <= OCTAL_8 ? st->st_uid : 0);
    put_octal(h + AT_GID, 8, st->st_gid <= OCTAL_8 ? st->st_gid : 0);
    put_octal(h + AT_SIZE, 12, (uint64_t)st->st_size <= octal_12 ? (uint64_t)st->st_size : 0);
    put_octal(h + AT_TIME, 12, st->st_mtime > 0 ? (uint64_t)st->st_mtime & octal_12 : 0);
    h[AT_TYPE] = type;
    if (m->link.ptr)
        put_text(h + AT_LINK, m->link);
    memcpy(h + AT_MAGIC, "ustar\00000", 8);
    memset(h + AT_SUM, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)h[i];
    put_octal(h + AT_SUM, 7, sum);
    abx_buf_put(out, h, BLOCK);
}

/* "LEN KEY=VALUE\n", LEN counting itself. */
static void put_record(struct abx_buf *out, const char *key, struct abx_str value)
{
    char digits[24];
    size_t rest = strlen(key) + value.len + 3, len = rest;
    for (size_t before = 0; before != len;) {
        before = len;
        len = rest + (size_t)snprintf(digits, sizeof(digits), "%zu", len);
    }
    abx_buf_putf(out, "%zu %s=", len, key);
    abx_buf_put_str(out, value);
    abx_buf_put_byte(out, '\n');
}

static void put_number(struct abx_buf *out, const char *key, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%lld", (long long)value);
    put_record(out, key, abx_str(digits));
}

static void put_records(struct abx_buf *out, const struct abx__member *m)
{
    const struct stat *st = &m->st;
    bool is_long = m->name.len > NAME, is_link_long = m->link.len > NAME;
    if ((is_long && !abx_str_is_utf8(m->name)) || (is_link_long && !abx_str_is_utf8(m->link)))
        put_record(out, "hdrcharset", ABX_STR("BINARY"));
    if (is_long)
        put_record(out, "path", m->name);
    if (is_link_long)
        put_record(out, "linkpath", m->link);
    if ((uint64_t)st->st_size > octal_12)
        put_number(out, "size", st->st_size);
    if (st->st_uid > OCTAL_8)
        put_number(out, "uid", st->st_uid);
    if (st->st_gid > OCTAL_8)
        put_number(out, "gid", st->st_gid);
    if (st->st_mtime < 0 || (uint64_t)st->st_mtime > octal_12)
        put_number(out, "mtime", st->st_mtime);
}

void abx__tar_begin(struct abx_buf *out, const struct abx__member *m)
{
    ABX_AUTO_BUF records;
    abx_buf_init(&records, 65536);
    put_records(&records, m);
    if (records.len > 0) {
        struct abx__member x = {.name = ABX_STR("././@PaxHeader")};
        x.st.st_mode = 0644;
        x.st.st_size = (int64_t)records.len;
        put_header(out, 'x', &x);
        abx_buf_put_str(out, abx_buf_str(&records));
        abx__tar_pad(out, records.len);
    }
    out->failed |= abx_buf_failed(&records);
    put_header(out, m->link.ptr ? '2' : S_ISDIR(m->st.st_mode) ? '5' : '0', m);
}

void abx__tar_pad(struct abx_buf *out, uint64_t size)
{
    static const char zeros[BLOCK];
    if (size % BLOCK)
        abx_buf_put(out, zeros, BLOCK - size % BLOCK);
}

void abx__tar_end(struct abx_buf *out)
{
    static const char zeros[2 * BLOCK];
    abx_buf_put(out, zeros, sizeof(zeros));
}
