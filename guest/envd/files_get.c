/* guest/envd/files_get.c: GET /files: a file as it is or packed, by ranges and conditions (envd.md
 * 3.3; RFC 9110 13, 14). One read is out at a time; a slow client stops the reading. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"

#include <sodium.h>

#include "lib/base/banned.h"

enum { SNIFF_BYTES = 512, BOUNDARY_BYTES = 16 };

enum phase {
    OPENING,
    SNIFFING, /* the first bytes, for the type of a ranged answer */
    FIRST,    /* the first chunk, before the head is written */
    BODY,
    DONE,
};

struct part {
    struct abx_range range;
    struct abx_str head; /* of a multipart/byteranges part */
};

struct get {
    struct abx_http_req *req;
    struct abx_download *download;
    struct abx_download_info info;
    char path[ABX_FILES_PATH];
    enum phase phase;
    bool is_unsized, is_blocked, is_reading; /* is_reading: or packing what was read */
    struct abx_gzip *gzip;                   /* NULL: the bytes as they are */
    bool is_packed_end;
    struct part parts[ABX_RANGES];
    size_t part_count, part; /* count 0: the whole file is parts[0] */
    uint64_t at, left;       /* in the current part */
    struct abx_str tail;     /* after the last part */
};

static void fail(struct get *g, int status, const char *text)
{
    g->phase = DONE;
    abx__answer_error(g->req, status, "%s", text);
}

/* ---- the body ---- */

static void finish(struct get *g)
{
    g->phase = DONE;
    if (g->tail.len)
        abx_http_write(g->req, g->tail.ptr, g->tail.len);
    abx_http_end(g->req);
}

static void read_at(struct get *g, uint64_t offset, size_t len)
{
    struct abx_error err = {0};
    g->is_reading = true;
    if (abx_download_read(g->download, offset, len, &err) == 0)
        return;
    g->is_reading = false;
    if (g->phase == BODY) {
        g->phase = DONE;
        abx_http_abort(g->req);
    } else
        fail(g, 500, err.msg);
}

static void pump(struct get *g);

static void begin_part(struct get *g)
{
    const struct part *p = &g->parts[g->part];
    g->at = p->range.from;
    g->left = p->range.len;
    if (p->head.len && !abx_http_write(g->req, p->head.ptr, p->head.len))
        g->is_blocked = true;
}

static void pump(struct get *g)
{
    if (g->phase != BODY || g->is_blocked || g->is_reading)
        return;
    if (g->left == 0 && g->part + 1 < g->part_count) {
        g->part++;
        begin_part(g);
        if (g->is_blocked)
            return;
    }
    if (g->left == 0)
        finish(g);
    else
        read_at(g, g->at, g->left < ABX_FILES_CHUNK ? (size_t)g->left : (size_t)ABX_FILES_CHUNK);
}

static void cut(struct get *g)
{
    g->phase = DONE;
    abx_http_abort(g->req);
}

static void pack(struct get *g, struct abx_str data)
{
    struct abx_error err = {0};
    g->is_packed_end = data.len == 0;
    g->is_reading = true;
    if (abx_gzip_put(g->gzip, data, g->is_packed_end, &err) < 0)
        cut(g);
}

static void on_packed(void *owner, struct abx_str data, bool failed)
{
    struct get *g = owner;
    g->is_reading = false;
    if (g->phase == DONE)
        return;
    if (failed) {
        cut(g);
        return;
    }
    if (data.len && !abx_http_write(g->req, data.ptr, data.len))
        g->is_blocked = true;
    if (g->is_packed_end)
        finish(g);
    else
        pump(g);
}

static void write_data(struct get *g, struct abx_str data)
{
    if (g->gzip) {
        g->at += data.len;
        pack(g, data);
        return;
    }
    if (data.len == 0 && g->is_unsized) {
        finish(g);
        return;
    }
    if (data.len == 0) { /* shorter than it was: the peer must not take it for complete */
        cut(g);
        return;
    }
    g->at += data.len;
    g->left -= g->is_unsized ? 0 : data.len;
    if (!abx_http_write(g->req, data.ptr, data.len))
        g->is_blocked = true;
    pump(g);
}

/* ---- the head ---- */

static struct abx_str printed(struct get *g, const char *text)
{
    if (text == NULL)
        abx__answer_error(g->req, 500, "out of memory");
    return abx_str(text);
}

static void common_headers(struct get *g, struct abx__headers *h)
{
    struct abx_arena *a = g->req->arena;
    struct abx_str base = abx_path_base(abx_str(g->path));
    abx__headers_begin(h, g->req);
    abx__headers_add(h, "Vary", ABX_STR("Accept-Encoding"));
    abx__headers_add(h, "Content-Disposition", abx__disposition(a, base));
    if (g->info.mtime_ns > 0)
        abx__headers_add(h, "Last-Modified", abx__http_date_text(a, g->info.mtime_ns / 1000000000));
    if (g->gzip)
        abx__headers_add(h, "Content-Encoding", ABX_STR("gzip"));
    if (!g->is_unsized)
        abx__headers_add(h, "Accept-Ranges", ABX_STR("bytes"));
}

/* Heads of the parts and the length of the whole. */
static int frame_parts(struct get *g, const char *type, const char *boundary, uint64_t *ret_length)
{
    struct abx_arena *a = g->req->arena;
    uint64_t length = 0;
    for (size_t i = 0; i < g->part_count; i++) {
        struct part *p = &g->parts[i];
        p->head = printed(
            g, abx_arena_printf(a,
                                "%s--%s\r\nContent-Range: bytes %llu-%llu/%llu\r\n"
                                "Content-Type: %s\r\n\r\n",
                                i ? "\r\n" : "", boundary, (unsigned long long)p->range.from,
                                (unsigned long long)(p->range.from + p->range.len - 1),
                                (unsigned long long)g->info.size, type));
        if (p->head.ptr == NULL)
            return -1;
        length += p->head.len + p->range.len;
    }
    g->tail = printed(g, abx_arena_printf(a, "\r\n--%s--\r\n", boundary));
    *ret_length = length + g->tail.len;
    return g->tail.ptr ? 0 : -1;
}

static int add_range_headers(struct get *g, struct abx__headers *h, const char *type,
                             uint64_t *ret_length)
{
    struct abx_arena *a = g->req->arena;
    if (g->part_count == 1) {
        const struct abx_range *r = &g->parts[0].range;
        struct abx_str text =
            printed(g, abx_arena_printf(a, "bytes %llu-%llu/%llu", (unsigned long long)r->from,
                                        (unsigned long long)(r->from + r->len - 1),
                                        (unsigned long long)g->info.size));
        abx__headers_add(h, "Content-Range", text);
        abx__headers_add(h, "Content-Type", abx_str(type));
        *ret_length = r->len;
        return text.ptr ? 0 : -1;
    }
    unsigned char random[BOUNDARY_BYTES];
    char boundary[2 * BOUNDARY_BYTES + 1];
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(boundary, sizeof(boundary), random, sizeof(random));
    if (frame_parts(g, type, boundary, ret_length) < 0)
        return -1;
    struct abx_str text =
        printed(g, abx_arena_printf(a, "multipart/byteranges; boundary=%s", boundary));
    abx__headers_add(h, "Content-Type", text);
    return text.ptr ? 0 : -1;
}

static void begin_body(struct get *g, struct abx_str head_bytes)
{
    struct abx__headers h;
    struct abx_str base = abx_path_base(abx_str(g->path));
    const char *type = g->gzip ? abx__media_by_name(base) : abx__media_type(base, head_bytes);
    uint64_t length = g->info.size;
    common_headers(g, &h);
    if (g->part_count) {
        if (add_range_headers(g, &h, type, &length) < 0) {
            g->phase = DONE;
            return;
        }
    } else
        abx__headers_add(&h, "Content-Type", abx_str(type ? type : "application/octet-stream"));
    g->phase = BODY;
    abx_http_begin(g->req, g->part_count ? 206 : 200, h.rows,
                   g->is_unsized ? ABX_HTTP_CHUNKED : (int64_t)length);
    if (!g->is_unsized)
        begin_part(g);
}

static void answer_empty(struct get *g)
{
    struct abx__headers h;
    g->is_unsized = false;
    common_headers(g, &h);
    abx__headers_add(&h, "Content-Type",
                     abx_str(abx__media_type(abx_path_base(abx_str(g->path)), ABX_STR(""))));
    g->phase = DONE;
    abx_http_answer(g->req, 200, h.rows, ABX_STR(""));
}

/* ---- conditions ---- */

static bool has_condition(const struct abx_http_head *head)
{
    static const char *const names[] = {"Range", "If-Modified-Since", "If-None-Match", "If-Range"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_http_header(head, names[i]).len)
            return true;
    return false;
}

/* RFC 9110 13.2.2 for a file without an entity tag. 0: go on; else the status. */
static int check_conditions(const struct get *g)
{
    const struct abx_http_head *head = g->req->head;
    struct abx_str if_match = abx_http_header(head, "If-Match");
    struct abx_str unmodified = abx_http_header(head, "If-Unmodified-Since");
    struct abx_str if_none = abx_http_header(head, "If-None-Match");
    struct abx_str modified = abx_http_header(head, "If-Modified-Since");
    int64_t mtime = g->info.mtime_ns / 1000000000, at;
    if (if_match.len && !abx_str_is(if_match, "*"))
        return 412;
    if (!if_match.len && unmodified.len && abx__http_date_parse(unmodified, &at) == 0 && mtime > at)
        return 412;
    if (if_none.len)
        return abx_str_is(if_none, "*") ? 304 : 0;
    if (modified.len && abx__http_date_parse(modified, &at) == 0 && mtime <= at)
        return 304;
    return 0;
}

static void answer_condition(struct get *g, int status)
{
    struct abx__headers h;
    common_headers(g, &h);
    g->phase = DONE;
    abx_http_answer(g->req, status, h.rows, ABX_STR(""));
}

/* False: answered. */
static bool pick_ranges(struct get *g)
{
    struct abx_range ranges[ABX_RANGES];
    struct abx_str value = abx_http_header(g->req->head, "Range");
    struct abx_str if_range = abx_http_header(g->req->head, "If-Range");
    int64_t at;
    bool is_current = if_range.len == 0 || (abx__http_date_parse(if_range, &at) == 0 &&
                                            at == g->info.mtime_ns / 1000000000);
    int count = is_current ? abx_ranges_parse(value, g->info.size, ranges) : 0;
    if (count < 0) {
        struct abx__headers h;
        common_headers(g, &h);
        struct abx_str size = printed(
            g, abx_arena_printf(g->req->arena, "bytes */%llu", (unsigned long long)g->info.size));
        abx__headers_add(&h, "Content-Range", size);
        g->phase = DONE;
        if (size.ptr)
            abx_http_answer(g->req, 416, h.rows, ABX_STR(""));
        return false;
    }
    for (int i = 0; i < count; i++)
        g->parts[i].range = ranges[i];
    g->part_count = (size_t)count;
    return true;
}

static void begin_answer(struct get *g)
{
    int status = check_conditions(g);
    if (status) {
        answer_condition(g, status);
        return;
    }
    g->is_unsized = g->info.is_virtual || g->info.size == 0 || g->gzip;
    if (!g->is_unsized && !pick_ranges(g))
        return;
    if (g->part_count) {
        if (abx__media_by_name(abx_path_base(abx_str(g->path)))) {
            begin_body(g, ABX_STR(""));
            pump(g);
            return;
        }
        g->phase = SNIFFING;
        read_at(g, 0, SNIFF_BYTES);
        return;
    }
    g->parts[0].range = (struct abx_range){0, g->info.size};
    g->phase = FIRST;
    uint64_t want = g->is_unsized ? (uint64_t)ABX_FILES_CHUNK : g->info.size;
    if (g->is_unsized)
        g->left = UINT64_MAX;
    read_at(g, 0, want < ABX_FILES_CHUNK ? (size_t)want : (size_t)ABX_FILES_CHUNK);
}

/* ---- callbacks ---- */

static void on_open(struct abx_download *d, const struct abx_download_info *info,
                    const struct abx_error *err)
{
    struct get *g = abx_download_owner(d);
    struct abx_str accept = abx_http_header(g->req->head, "Accept-Encoding");
    bool is_conditional = has_condition(g->req->head);
    if (err) {
        int status = err->code == ABX_NOT_FOUND          ? 404
                     : err->code == ABX_INVALID_ARGUMENT ? 400
                                                         : 500;
        fail(g, status, err->msg);
        return;
    }
    enum abx_coding coding = abx_coding_pick(accept, is_conditional);
    if (coding == ABX_CODING_NONE) {
        fail(g, 406,
             is_conditional
                 ? "identity encoding not acceptable for Range or conditional request"
                 : "error parsing Accept-Encoding: no acceptable encoding found, supported: "
                   "[gzip]");
        return;
    }
    if (coding == ABX_CODING_GZIP &&
        !(g->gzip = abx_gzip_new(&abx__envd_of(g->req)->loop, on_packed, g))) {
        fail(g, 500, "out of memory");
        return;
    }
    g->info = *info;
    begin_answer(g);
}

static void on_data(struct abx_download *d, struct abx_str data, const struct abx_error *err)
{
    struct get *g = abx_download_owner(d);
    g->is_reading = false;
    if (g->phase == DONE)
        return;
    if (err && g->phase != BODY) {
        fail(g, 500, err->msg);
        return;
    }
    if (err) {
        cut(g);
        return;
    }
    if (g->phase == SNIFFING) {
        begin_body(g, data);
        pump(g);
        return;
    }
    if (g->phase == FIRST) {
        if (data.len == 0 && g->is_unsized && !g->gzip) {
            answer_empty(g);
            return;
        }
        begin_body(g, abx_str_sub(data, 0, SNIFF_BYTES));
    }
    if (g->phase == BODY)
        write_data(g, data);
}

static const struct abx_download_ops ops = {on_open, on_data};

static void on_drain(struct abx_http_req *req)
{
    struct get *g = req->data;
    g->is_blocked = false;
    pump(g);
}

static void on_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    struct get *g = req->data;
    g->phase = DONE;
    abx_download_close(g->download);
    g->download = NULL;
    abx_gzip_close(g->gzip);
    g->gzip = NULL;
}

void abx__files_get(struct abx_http_req *req)
{
    struct abx__envd *e = abx__envd_of(req);
    struct abx__target t;
    struct abx_error err = {0};
    if (abx__target_query(req, "read", &t) < 0 || abx__target_user(req, &t) < 0)
        return;
    struct get *g = abx_arena_alloc(req->arena, sizeof(*g));
    int rc = g ? abx__target_resolve(req, &t, t.query.path, g->path, &err) : -1;
    abx_user_done(&t.user);
    if (g == NULL) {
        abx__answer_error(req, 500, "out of memory");
        return;
    }
    if (rc < 0) {
        abx__answer_error(req, 400, "error expanding and resolving path '%s': %s",
                          abx__show(req, t.query.path), err.msg);
        return;
    }
    g->req = req;
    req->data = g;
    req->on_drain = on_drain;
    req->on_close = on_close;
    if (abx_download_open(&e->loop, g->path, &ops, g, &g->download, &err) < 0)
        fail(g, 500, err.msg);
}
