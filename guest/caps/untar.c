/* guest/caps/untar.c: blocks of 512 bytes; records for the next header come as content of headers
 * of their own. */
#include "guest/caps/untar.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include "lib/base/banned.h"

enum {
    BLOCK = 512,
    NAME = 100,
    PREFIX = 155,
    AT_MODE = 100,
    AT_SIZE = 124,
    AT_TIME = 136,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257,
    AT_PREFIX = 345
};

void abx_untar_init(struct abx_untar *u, const struct abx_untar_ops *ops, void *ctx)
{
    *u = (struct abx_untar){.ops = ops, .ctx = ctx};
    abx_buf_init(&u->records, ABX_UNTAR_NAME);
    abx_buf_init(&u->name, ABX_UNTAR_NAME);
    abx_buf_init(&u->link, ABX_UNTAR_NAME);
}

void abx_untar_done(struct abx_untar *u)
{
    abx_buf_done(&u->records);
    abx_buf_done(&u->name);
    abx_buf_done(&u->link);
}

static int bad(struct abx_error *err, const char *why)
{
    return abx_err_set(err, ABX_INVALID_ARGUMENT, "no tar archive that can be read: %s", why);
}

/* ---- fields ---- */

static struct abx_str text_field(const char *at, size_t max)
{
    size_t n = 0;
    while (n < max && at[n] != '\0')
        n++;
    return abx_str_n(at, n);
}

/* Octal digits among blanks, or (first bit set) base 256. */
static int number_field(const char *at, size_t width, int64_t *ret)
{
    int64_t v = 0;
    size_t i = 0;
    if ((unsigned char)at[0] & 0x80) {
        for (v = at[0] & 0x3f; ++i < width;)
            if (v > INT64_MAX >> 8)
                return -1;
            else
                v = v << 8 | (unsigned char)at[i];
        if (at[0] & 0x40) /* negative: no field that is used has a sense then */
            return -1;
        *ret = v;
        return 0;
    }
    while (i < width && at[i] == ' ')
        i++;
    for (; i < width && at[i] >= '0' && at[i] <= '7'; i++)
        v = v << 3 | (at[i] - '0');
    for (; i < width; i++)
        if (at[i] != ' ' && at[i] != '\0')
            return -1;
    *ret = v;
    return 0;
}

static bool has_good_sum(const char *block)
{
    int64_t said, sum = 0, signed_sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        char c = i >= AT_SUM && i < AT_SUM + 8 ? ' ' : block[i];
        sum += (unsigned char)c;
        signed_sum += (signed char)c; /* as old writers had it */
    }
    return number_field(block + AT_SUM, 8, &said) == 0 && (said == sum || said == signed_sum);
}

/* ---- records before a header ---- */

static bool take(struct abx_buf *to, struct abx_str value)
{
    abx_buf_clear(to);
    abx_buf_put_str(to, value);
    return !abx_buf_failed(to);
}

/* "1234.5" */
static int read_time(struct abx_str value, int64_t *ret)
{
    struct abx_str whole;
    if (!abx_str_split(&value, '.', &whole))
        return -1;
    return abx_parse_i64(whole, ret);
}

static int take_record(struct abx_untar *u, struct abx_str key, struct abx_str value,
                       struct abx_error *err)
{
    if (abx_str_is(key, "path"))
        u->has_name = take(&u->name, value);
    else if (abx_str_is(key, "linkpath"))
        u->has_link = take(&u->link, value);
    else if (abx_str_is(key, "size"))
        u->has_size = abx_parse_u64(value, &u->size) == 0;
    else if (abx_str_is(key, "mtime"))
        u->has_mtime = read_time(value, &u->mtime) == 0;
    else if (abx_str_starts(key, "GNU.sparse."))
        return bad(err, "it holds a sparse file");
    else
        return 0;
    bool is_size = abx_str_is(key, "size");
    return is_size && !u->has_size ? bad(err, "a record's size is no number") : 0;
}

/* "LEN KEY=VALUE\n" again and again. */
static int take_records(struct abx_untar *u, struct abx_error *err)
{
    struct abx_str rest = abx_buf_str(&u->records);
    while (rest.len > 0) {
        uint32_t len;
        ptrdiff_t blank = abx_str_chr(rest, ' ');
        if (blank <= 0 || abx_parse_u32(abx_str_sub(rest, 0, (size_t)blank), &len) < 0 ||
            len > rest.len || len < (size_t)blank + 3 || rest.ptr[len - 1] != '\n')
            return bad(err, "a record before a header is broken");
        struct abx_str line = abx_str_sub(rest, (size_t)blank + 1, len - (size_t)blank - 2);
        ptrdiff_t equals = abx_str_chr(line, '=');
        if (equals <= 0)
            return bad(err, "a record before a header is broken");
        if (take_record(u, abx_str_sub(line, 0, (size_t)equals),
                        abx_str_sub(line, (size_t)equals + 1, line.len), err) < 0)
            return -1;
        rest = abx_str_sub(rest, len, rest.len);
    }
    return 0;
}

static int end_records(struct abx_untar *u, struct abx_error *err)
{
    struct abx_str text = text_field(u->records.ptr ? u->records.ptr : "", u->records.len);
    if (u->kind == 'x')
        return take_records(u, err);
    if (u->kind == 'L')
        u->has_name = take(&u->name, text);
    if (u->kind == 'K')
        u->has_link = take(&u->link, text);
    return 0;
}

/* ---- headers ---- */

static const struct {
    char flag;
    enum abx_untar_type type;
} types[] = {
    {'0', ABX_UNTAR_FILE},      {'\0', ABX_UNTAR_FILE},  {'7', ABX_UNTAR_FILE},
    {'1', ABX_UNTAR_HARD_LINK}, {'2', ABX_UNTAR_LINK},   {'3', ABX_UNTAR_DEVICE},
    {'4', ABX_UNTAR_DEVICE},    {'5', ABX_UNTAR_FOLDER}, {'6', ABX_UNTAR_FIFO},
};

static bool is_record_kind(char flag)
{
    return flag == 'x' || flag == 'L' || flag == 'K';
}

static int find_type(char flag, enum abx_untar_type *ret)
{
    for (size_t i = 0; i < ABX_COUNTOF(types); i++)
        if (types[i].flag == flag) {
            *ret = types[i].type;
            return 0;
        }
    return -1;
}

static int put_name(struct abx_untar *u, struct abx_str *ret)
{
    struct abx_str name = text_field(u->block, NAME),
                   prefix = text_field(u->block + AT_PREFIX, PREFIX);
    if (!u->has_name) {
        abx_buf_clear(&u->name);
        if (memcmp(u->block + AT_MAGIC, "ustar\0", 6) == 0 && prefix.len > 0) {
            abx_buf_put_str(&u->name, prefix);
            abx_buf_put_byte(&u->name, '/');
        }
        abx_buf_put_str(&u->name, name);
    }
    *ret = abx_buf_str(&u->name);
    return abx_buf_failed(&u->name) ? -1 : 0;
}

static void forget_records(struct abx_untar *u)
{
    u->has_name = u->has_link = u->has_size = u->has_mtime = false;
}

static int begin_entry(struct abx_untar *u, int64_t size, struct abx_error *err)
{
    struct abx_untar_entry e = {0};
    int64_t mode;
    if (find_type(u->block[AT_TYPE], &e.type) < 0)
        return bad(err, "it holds an entry of a kind that is not supported");
    if (number_field(u->block + AT_MODE, 8, &mode) < 0 ||
        number_field(u->block + AT_TIME, 12, &e.mtime) < 0)
        return bad(err, "a header's number is broken");
    if (put_name(u, &e.name) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    e.link = u->has_link ? abx_buf_str(&u->link) : text_field(u->block + AT_LINK, NAME);
    e.mtime = u->has_mtime ? u->mtime : e.mtime;
    e.mode = (uint32_t)mode & 07777;
    bool is_file = e.type == ABX_UNTAR_FILE;
    if (is_file && e.name.len > 0 && e.name.ptr[e.name.len - 1] == '/')
        e.type = ABX_UNTAR_FOLDER; /* as before POSIX */
    is_file = e.type == ABX_UNTAR_FILE;
    e.size = is_file ? (uint64_t)size : 0;
    u->left = is_file ? e.size : 0;
    u->kind = '0';
    forget_records(u);
    if (u->ops->begin(u->ctx, &e, err) < 0)
        return -1;
    return is_file && u->left == 0 ? u->ops->end(u->ctx, err) : 0;
}

static bool is_empty_block(const char *block)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

static int take_header(struct abx_untar *u, struct abx_error *err)
{
    int64_t size;
    if (is_empty_block(u->block)) {
        u->is_over = u->is_zero;
        u->is_zero = true;
        return 0;
    }
    if (u->is_zero)
        return bad(err, "something follows its end");
    if (!has_good_sum(u->block) || number_field(u->block + AT_SIZE, 12, &size) < 0 || size < 0)
        return bad(err, "a header is broken");
    char flag = u->block[AT_TYPE];
    if (!is_record_kind(flag) && flag != 'g') {
        if (u->has_size && u->size > INT64_MAX)
            return bad(err, "a size is too large");
        if (begin_entry(u, u->has_size ? (int64_t)u->size : size, err) < 0)
            return -1;
    } else {
        u->kind = flag;
        u->left = (uint64_t)size;
        abx_buf_clear(&u->records);
        if (size > ABX_UNTAR_NAME)
            return bad(err, "a record before a header is too long");
    }
    u->padding = (BLOCK - u->left % BLOCK) % BLOCK;
    return 0;
}

/* ---- content ---- */

static int take_content(struct abx_untar *u, struct abx_str piece, struct abx_error *err)
{
    u->left -= piece.len;
    if (u->kind == '0') {
        if (u->ops->data(u->ctx, piece, err) < 0)
            return -1;
        return u->left == 0 ? u->ops->end(u->ctx, err) : 0;
    }
    abx_buf_put_str(&u->records, piece);
    if (abx_buf_failed(&u->records))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    return u->left == 0 ? end_records(u, err) : 0;
}

int abx_untar_feed(struct abx_untar *u, struct abx_str in, struct abx_error *err)
{
    while (in.len > 0 && !u->is_over) {
        size_t n = in.len;
        int rc = 0;
        if (u->left > 0) {
            n = u->left < n ? (size_t)u->left : n;
            rc = take_content(u, abx_str_sub(in, 0, n), err);
        } else if (u->padding > 0) {
            n = u->padding < n ? (size_t)u->padding : n;
            u->padding -= n;
        } else {
            n = BLOCK - u->filled < n ? BLOCK - u->filled : n;
            memcpy(u->block + u->filled, in.ptr, n);
            u->filled = (u->filled + n) % BLOCK;
            rc = u->filled == 0 ? take_header(u, err) : 0;
        }
        if (rc < 0)
            return -1;
        in = abx_str_sub(in, n, in.len);
    }
    return 0;
}

int abx_untar_end(const struct abx_untar *u, struct abx_error *err)
{
    return u->is_over || (u->is_zero && u->filled == 0) ? 0 : bad(err, "it is cut");
}
