/* guest/envd/files_post.c: POST /files: one raw file or a form of files (envd.md 3.4). Files are
 * written one after the other; while one is being finished the body is not read. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/map.h"
#include "lib/wire/multipart.h"

#include <errno.h>

#include "lib/base/banned.h"

enum {
    FILES_MAX = 65536,     /* of one form */
    PATHS_MAX = 16 << 20,  /* their names, bytes */
    ANSWER_MAX = 64 << 20, /* the same in JSON, with marks and escapes */
    LEFT_OVER_MAX = 4 << 20,
    UNPACK_BYTES = 65536
};

struct post {
    struct abx_http_req *req;
    struct abx__target target; /* owns the user */
    struct abx_multipart form;
    bool is_form, is_form_open;
    struct abx_upload *upload; /* the file being written */
    bool in_part;              /* of the form: its bytes belong to the upload */
    bool is_finishing;         /* waiting for on_done */
    bool body_ended, form_ended, is_answered;
    struct abx_buf left_over; /* of the body: came while a file was being finished */
    struct abx_buf paths;     /* begun so far, in upload order, each with its NUL */
    struct abx_map known;     /* the same, to be found */
    bool has_length;
    uint64_t length;
    struct abx__metadata metadata;
    bool is_gzip, is_blocked; /* is_blocked: the upload has enough for now */
    struct abx_gunzip gunzip;
    struct abx_buf packed; /* of the body: not unpacked yet */
};

static void advance(struct post *p);
static void go_on(struct post *p);

/* ---- answers ---- */

static void drop_upload(struct post *p)
{
    abx_upload_close(p->upload);
    p->upload = NULL;
    p->in_part = false;
    p->is_finishing = false;
    p->is_blocked = false;
}

static void fail(struct post *p, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(struct post *p, int status, const char *fmt, ...)
{
    ABX_AUTO_BUF text = {0};
    va_list ap;
    if (p->is_answered)
        return;
    p->is_answered = true;
    abx_buf_init(&text, 16384);
    va_start(ap, fmt);
    abx_buf_putfv(&text, fmt, ap);
    va_end(ap);
    drop_upload(p); /* last: an argument may be the upload's own error */
    abx__answer_error(p->req, status, "%s", abx_buf_failed(&text) ? "out of memory" : text.ptr);
}

static void fail_upload(struct post *p, const struct abx_error *err)
{
    int status = 500;
    if (err->code == ABX_INVALID_ARGUMENT)
        status = 400;
    else if (err->code == ABX_RESOURCE_EXHAUSTED && (err->sys == ENOSPC || err->sys == EDQUOT))
        status = 507;
    fail(p, status, "%s", err->msg);
}

static void put_metadata(struct abx_json_writer *w, const struct abx__metadata *m)
{
    if (m->count == 0)
        return;
    abx_json_key(w, ABX_STR("metadata"));
    abx_json_begin_object(w);
    for (size_t i = 0; i < m->count; i++) {
        abx_json_key(w, m->rows[i].key);
        abx_json_str(w, m->rows[i].value);
    }
    abx_json_end_object(w);
}

static void answer_written(struct post *p)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct abx_str rest = abx_buf_str(&p->paths), path;
    abx_buf_init(&body, ANSWER_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_array(&w);
    while (rest.len > 0 && abx_str_split(&rest, '\0', &path)) {
        abx_json_begin_object(&w);
        abx_json_kv_str(&w, "path", path);
        abx_json_kv_str(&w, "name", abx_path_base(path));
        abx_json_kv_c(&w, "type", "file");
        put_metadata(&w, &p->metadata);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    if (abx_buf_failed(&body)) {
        fail(p, 500, "out of memory");
        return;
    }
    p->is_answered = true;
    abx__answer_json(p->req, 200, abx_buf_str(&body));
}

/* ---- one file ---- */

static void on_upload_drain(struct abx_upload *u)
{
    struct post *p = abx_upload_owner(u);
    p->is_blocked = false;
    go_on(p);
}

static void on_upload_done(struct abx_upload *u, const struct abx_error *err)
{
    struct post *p = abx_upload_owner(u);
    if (err) {
        fail_upload(p, err);
        return;
    }
    drop_upload(p);
    if (p->is_answered)
        return;
    if (!p->is_form) {
        answer_written(p);
        return;
    }
    advance(p);
    go_on(p);
}

static const struct abx_upload_ops upload_ops = {on_upload_drain, on_upload_done};

/* 0, or -1 after the answer; before the file is made, so that no file is written and not named. */
static int remember(struct post *p, const char *path)
{
    if (p->known.count == FILES_MAX || p->paths.len + strlen(path) >= PATHS_MAX) {
        fail(p, 400,
             "one request carries %d files at most, with %d bytes of paths: the first %zu are "
             "written, send the rest in another one",
             FILES_MAX, PATHS_MAX, p->known.count);
        return -1;
    }
    abx_buf_put(&p->paths, path, strlen(path) + 1);
    if (abx_buf_failed(&p->paths) || abx_map_set(&p->known, abx_str(path), p, NULL) < 0) {
        fail(p, 500, "out of memory");
        return -1;
    }
    return 0;
}

/* Begins the file for @raw; 0, or -1 after the answer. */
static int open_file(struct post *p, struct abx_str raw)
{
    char path[ABX_FILES_PATH];
    struct abx_error err = {0};
    if (abx__target_resolve(p->req, &p->target, raw, path, &err) < 0) {
        fail(p, 400, "error resolving path: %s", err.msg);
        return -1;
    }
    if (abx_map_get(&p->known, abx_str(path)) != NULL) {
        fail(p, 400,
             "you cannot upload multiple files to the same path '%s' in one upload request, only "
             "the first specified file was uploaded",
             path);
        return -1;
    }
    if (remember(p, path) < 0)
        return -1;
    struct abx_upload_spec spec = {.path = path,
                                   .user = &p->target.user,
                                   .spill_dir = abx__envd_of(p->req)->o.spill_dir,
                                   .has_total = p->has_length,
                                   .total = p->length,
                                   .meta = p->metadata.rows,
                                   .meta_count = p->metadata.count};
    if (abx_upload_open(&abx__envd_of(p->req)->loop, &spec, &upload_ops, p, &p->upload, &err) < 0) {
        fail_upload(p, &err);
        return -1;
    }
    return 0;
}

static void append(struct post *p, struct abx_str data)
{
    if (p->upload && !abx_upload_append(p->upload, data.ptr, data.len)) {
        p->is_blocked = true;
        abx_http_pause_body(p->req);
    }
}

static void finish_file(struct post *p)
{
    p->is_finishing = true;
    abx_http_pause_body(p->req);
    abx_upload_finish(p->upload);
}

/* ---- the form ---- */

static void begin_part(struct post *p)
{
    if (!abx_str_is(p->form.name, "file"))
        return;
    if (!p->target.has_path && p->form.filename.ptr == NULL) {
        fail(p, 400,
             "error getting multipart custom part file name: filename not found in "
             "Content-Disposition header");
        return;
    }
    p->in_part = open_file(p, p->target.has_path ? p->target.query.path : p->form.filename) == 0;
}

static void on_form_event(struct post *p, enum abx_multipart_event event, struct abx_str data,
                          const struct abx_error *err)
{
    switch (event) {
    case ABX_MULTIPART_PART:
        begin_part(p);
        break;
    case ABX_MULTIPART_DATA:
        if (p->in_part)
            append(p, data);
        break;
    case ABX_MULTIPART_PART_END:
        if (p->in_part)
            finish_file(p);
        p->in_part = false;
        break;
    case ABX_MULTIPART_END:
        p->form_ended = true;
        break;
    case ABX_MULTIPART_ERROR:
        fail(p, 500, "error reading the form: %s", err->msg);
        break;
    case ABX_MULTIPART_NEED_MORE:
        break;
    }
}

/* Parses until the input is used up or a file has to be finished first. */
static void parse_form(struct post *p, struct abx_str *input)
{
    enum abx_multipart_event event = ABX_MULTIPART_PART;
    struct abx_error err = {0};
    while (event != ABX_MULTIPART_NEED_MORE && !p->is_finishing && !p->is_answered &&
           !p->form_ended) {
        struct abx_str data = ABX_STR("");
        event = abx_multipart_parse(&p->form, input, &data, &err);
        on_form_event(p, event, data, &err);
    }
}

static void end_form(struct post *p)
{
    if (p->form_ended)
        answer_written(p);
    else
        fail(p, 500, "error reading the form: it ends without its closing boundary");
}

/* Goes on after a file was finished: the bytes that waited, then the end. */
static void advance(struct post *p)
{
    struct abx_str input = abx_buf_str(&p->left_over);
    size_t before = input.len;
    parse_form(p, &input);
    abx_buf_consume(&p->left_over, before - input.len);
    if (p->form_ended)
        abx_buf_clear(&p->left_over);
}

/* ---- the exchange ---- */

/* Bytes of the body as the file's owner meant them. */
static void take(struct post *p, struct abx_str input)
{
    if (p->is_answered || p->form_ended)
        return;
    if (!p->is_form) {
        append(p, input);
        return;
    }
    if (!p->is_finishing)
        parse_form(p, &input);
    if (p->is_answered || p->form_ended || input.len == 0)
        return;
    abx_buf_put_str(&p->left_over, input);
    if (abx_buf_failed(&p->left_over))
        fail(p, 500, "out of memory");
}

static bool is_waiting(const struct post *p)
{
    return p->is_finishing || p->is_blocked || p->is_answered;
}

/* Unpacks as much as the upload takes now. */
static void unpack(struct post *p)
{
    char out[UNPACK_BYTES];
    struct abx_error err = {0};
    struct abx_str in = abx_buf_str(&p->packed);
    size_t before = in.len;
    while (!is_waiting(p) && (in.len > 0 || p->gunzip.has_more)) {
        int n = abx_gunzip_step(&p->gunzip, &in, out, sizeof(out), &err);
        if (n < 0) {
            fail(p, err.code == ABX_INVALID_ARGUMENT ? 400 : 500, "%s", err.msg);
            return;
        }
        take(p, abx_str_n(out, (size_t)n));
    }
    abx_buf_consume(&p->packed, before - in.len);
}

/* What was all of the body becomes a file or the end of a form. */
static void end_body(struct post *p)
{
    if (p->is_gzip && !(p->gunzip.has_begun && p->gunzip.has_ended))
        fail(p, 400, "error decompressing request body: unexpected EOF");
    else if (!p->is_form)
        finish_file(p);
    else
        end_form(p);
}

static void go_on(struct post *p)
{
    if (p->is_gzip)
        unpack(p);
    if (is_waiting(p))
        return;
    if (p->body_ended)
        end_body(p);
    else
        abx_http_resume_body(p->req);
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct post *p = req->data;
    if (!p->is_gzip) {
        take(p, abx_str_n(data, len));
        return;
    }
    abx_buf_put(&p->packed, data, len);
    if (abx_buf_failed(&p->packed))
        fail(p, 500, "out of memory");
    unpack(p);
    if (p->packed.len > 0 || p->gunzip.has_more)
        abx_http_pause_body(req);
}

static void on_body_end(struct abx_http_req *req)
{
    struct post *p = req->data;
    p->body_ended = true;
    if (!is_waiting(p) || (p->is_blocked && !p->is_gzip && !p->is_answered && !p->is_finishing))
        end_body(p);
}

static void on_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    struct post *p = req->data;
    p->is_answered = true;
    drop_upload(p);
    if (p->is_form_open)
        abx_multipart_done(&p->form);
    abx_map_done(&p->known);
    abx_buf_done(&p->paths);
    abx_buf_done(&p->left_over);
    abx_buf_done(&p->packed);
    abx_gunzip_done(&p->gunzip);
    abx_user_done(&p->target.user);
}

/* False: answered. */
static bool read_encoding(struct abx_http_req *req, bool *ret_is_gzip)
{
    struct abx_str value = abx_http_header(req->head, "Content-Encoding");
    *ret_is_gzip = abx_str_is_nocase(value, "gzip") || abx_str_is_nocase(value, "x-gzip");
    if (*ret_is_gzip || value.len == 0 || abx_str_is_nocase(value, "identity"))
        return true;
    abx__answer_error(req, 400,
                      "error decompressing request body: unsupported Content-Encoding: %s, "
                      "supported: [gzip]",
                      abx__show(req, value));
    return false;
}

static void begin_raw(struct post *p)
{
    if (!p->target.has_path)
        fail(p, 400, "path query parameter is required for raw body upload");
    else
        open_file(p, p->target.query.path);
}

static void begin_form(struct post *p, struct abx_str type)
{
    struct abx_error err = {0};
    p->is_form = true;
    if (abx_multipart_init(&p->form, type, &err) < 0)
        fail(p, 500, "error reading the form: %s", err.msg);
    else
        p->is_form_open = true;
}

static void begin_body(struct post *p)
{
    struct abx_str value = abx_http_header(p->req->head, "Content-Type");
    char type[128] = "";
    if (abx_media_type(value, type, sizeof(type)) == 0) {
        if (strcmp(type, "application/octet-stream") == 0) {
            begin_raw(p);
            return;
        }
        if (abx_str_starts(abx_str(type), "multipart/")) {
            begin_form(p, value);
            return;
        }
    }
    fail(p, 400,
         "unsupported content type: %s, expected multipart/form-data or application/octet-stream",
         abx__show(p->req, value));
}

/* False: answered. */
static bool read_metadata(struct abx_http_req *req, struct abx__metadata *ret)
{
    struct abx_error err = {0};
    if (abx__metadata_parse(req->head, req->arena, ret, &err) == 0)
        return true;
    abx__answer_error(req, err.code == ABX_INVALID_ARGUMENT ? 400 : 500, "%s", err.msg);
    return false;
}

void abx__files_post(struct abx_http_req *req)
{
    struct abx__target t;
    struct abx__metadata metadata;
    struct abx_error err = {0};
    bool is_gzip;
    if (abx__target_query(req, "write", &t) < 0 || !read_encoding(req, &is_gzip) ||
        abx__target_user(req, &t) < 0)
        return;
    bool is_good = read_metadata(req, &metadata);
    struct post *p = is_good ? abx_arena_alloc(req->arena, sizeof(*p)) : NULL;
    if (p == NULL) {
        abx_user_done(&t.user);
        if (is_good)
            abx__answer_error(req, 500, "out of memory");
        return;
    }
    p->req = req;
    p->target = t;
    p->metadata = metadata;
    p->is_gzip = is_gzip;
    p->has_length = req->head->has_length && !is_gzip;
    p->length = req->head->content_length;
    abx_buf_init(&p->left_over, LEFT_OVER_MAX);
    abx_buf_init(&p->paths, PATHS_MAX);
    abx_map_init(&p->known, FILES_MAX);
    abx_buf_init(&p->packed, LEFT_OVER_MAX);
    req->data = p;
    req->on_body = on_body;
    req->on_body_end = on_body_end;
    req->on_close = on_close;
    if (is_gzip && abx_gunzip_init(&p->gunzip, &err) < 0)
        fail(p, 500, "%s", err.msg);
    else
        begin_body(p);
}
