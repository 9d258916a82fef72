/* guest/server/files.c: list, stat, mkdir, delete. The path is judged and used on the pool, in one
 * job. server-api.md 4.3, 4.4, policy.md A9. */
#include "guest/server/files_priv.h"

#include "guest/caps/tree.h"
#include "guest/server/packing.h"
#include "guest/server/raw.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/policy/paths.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/banned.h"

enum {
    DOCUMENT_MAX = 64 << 20,
    ENTRIES = 1000,
    DEPTH = 3,
    DELETE_SCAN_MAX = 100000,
    TIME_TEXT = 96,
    STAT_USUAL = 512, /* bytes of an answer */
};

/* ---- shared ---- */

bool abx__files_judge(struct abx__job *j, const struct abx__path_ask *ask, struct abx__bounds *b,
                      struct abx_str *ret)
{
    if (abx__bounds_init(b, j->policy, j->rule, &j->arena) < 0)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    if (!abx__bounds_judge(b, ask, ret, &j->verdict))
        return false;
    abx__job_note(j, *ret);
    return true;
}

bool abx__files_query_path(struct abx__job *j, struct abx_str *ret)
{
    *ret = abx__job_query(j, "path");
    return ret->ptr || abx__job_fail(j, 400, "ValueError", "query parameter 'path' is missing");
}

struct abx_str abx__files_base_name(struct abx_str path)
{
    return abx_str_sub(path, (size_t)(abx_str_rchr(path, '/') + 1), path.len);
}

/* What "it is not there" looks like. */
static bool is_absent(int rc)
{
    static const int absent[] = {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES};
    for (size_t i = 0; i < ABX_COUNTOF(absent); i++)
        if (rc == -absent[i])
            return true;
    return false;
}

bool abx__files_not_found(struct abx__job *j, const char *what, struct abx_str path)
{
    return abx__job_fail(j, 404, "FileNotFoundError", "%s: %.*s", what,
                         (int)(path.len < 400 ? path.len : 400), path.ptr);
}

bool abx__files_fail_absent(struct abx__job *j, int rc, struct abx_str path)
{
    return is_absent(rc) ? abx__files_not_found(j, "no such file or directory", path)
                         : abx__job_fail_errno(j, -rc, path);
}

bool abx__files_too_large(struct abx__job *j, uint64_t limit)
{
    j->verdict.limit_bytes = limit;
    return abx_policy_deny(&j->verdict, ABX_POLICY_PAYLOAD_TOO_LARGE,
                           "the file is larger than %llu bytes", (unsigned long long)limit);
}

/* @v in @width digits; what is behind them. */
static char *put_digits(char *to, int v, int width)
{
    for (int i = width; i-- > 0; v /= 10)
        to[i] = (char)('0' + v % 10);
    return to + width;
}

static char *put_pair(char *to, char before, int v)
{
    *to = before;
    return put_digits(to + 1, v, 2);
}

/* As Python prints it: "2023-11-14T22:13:20+00:00", microseconds only when there are some. It has
 * no years beyond 9999. */
static void put_time(struct abx_json_writer *w, const char *key, struct timespec t)
{
    char text[TIME_TEXT], *to = text;
    struct tm tm;
    if (gmtime_r(&t.tv_sec, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900)
        tm = (struct tm){.tm_mday = 1, .tm_year = 70};
    to = put_digits(to, tm.tm_year + 1900, 4);
    to = put_pair(to, '-', tm.tm_mon + 1);
    to = put_pair(to, '-', tm.tm_mday);
    to = put_pair(to, 'T', tm.tm_hour);
    to = put_pair(to, ':', tm.tm_min);
    to = put_pair(to, ':', tm.tm_sec);
    if (t.tv_nsec / 1000) {
        *to = '.';
        to = put_digits(to + 1, (int)(t.tv_nsec / 1000), 6);
    }
    memcpy(to, "+00:00", sizeof("+00:00"));
    abx_json_kv_c(w, key, text);
}

static void put_base64(struct abx_json_writer *w, const char *key, struct abx_str bytes)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, 2 * bytes.len + 8);
    abx_base64_encode(bytes.ptr, bytes.len, true, &text);
    abx_json_kv_str(w, key, abx_buf_str(&text));
    w->out->failed |= abx_buf_failed(&text);
}

/* JSON has no way to say a byte that is no UTF-8 (D34). */
void abx__files_put_name(struct abx_json_writer *w, struct abx_str name, struct abx_str path)
{
    abx_json_kv_str(w, "name", name);
    if (!abx_str_is_utf8(name))
        put_base64(w, "name_b64", name);
    abx_json_kv_str(w, "path", path);
    if (!abx_str_is_utf8(path))
        put_base64(w, "path_b64", path);
}

static void put_target(struct abx_json_writer *w, struct abx_str link)
{
    char target[PATH_MAX];
    int n = abx_tree_read_link(link, target, sizeof(target));
    if (n >= 0)
        abx_json_kv_str(w, "target", abx_str_n(target, (size_t)n));
}

/* ---- list ---- */

struct listing {
    struct abx__bounds bounds;
    struct abx_json_writer w;
    uint64_t left;
    bool truncated;
};

static bool shows(void *ctx, const struct abx_tree_entry *e)
{
    const struct listing *l = ctx;
    return abx__bounds_shows(&l->bounds, e->path, S_ISLNK(e->st.st_mode));
}

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct listing *l = ctx;
    l->truncated = l->left == 0;
    if (l->truncated)
        return false;
    abx_json_begin_object(&l->w);
    abx__files_put_name(&l->w, e->name, e->path);
    abx_json_kv_c(&l->w, "type", S_ISDIR(e->st.st_mode) ? "directory" : "file");
    abx_json_kv_i64(&l->w, "size", e->st.st_size);
    put_time(&l->w, "modified", e->st.st_mtim);
    abx_json_kv_bool(&l->w, "is_symlink", S_ISLNK(e->st.st_mode));
    if (S_ISLNK(e->st.st_mode))
        put_target(&l->w, e->path);
    abx_json_end_object(&l->w);
    l->left--;
    return !abx_buf_failed(l->w.out);
}

bool abx__files_is_yes(struct abx_str text)
{
    return abx_str_is_nocase(text, "true") || abx_str_is_nocase(text, "yes") ||
           abx_str_is(text, "1");
}

bool abx__files_seconds(struct abx_str s, double *ret)
{
    char text[64], *end;
    if (abx_str_to_c(abx_str_trim(s), text, sizeof(text)) < 0)
        return false;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || strpbrk(text, "xX") || !isfinite(v))
        return false;
    *ret = v;
    return true;
}

bool abx__files_integer(struct abx_str s, int64_t *ret)
{
    int64_t value = 0;
    while (s.len && isspace((unsigned char)s.ptr[0]))
        s = abx_str_sub(s, 1, s.len);
    while (s.len && isspace((unsigned char)s.ptr[s.len - 1]))
        s.len--;
    bool is_negative = s.len && s.ptr[0] == '-';
    if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+'))
        s = abx_str_sub(s, 1, s.len);
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        bool is_digit = s.ptr[i] >= '0' && s.ptr[i] <= '9';
        bool is_gap = s.ptr[i] == '_' && i > 0 && i + 1 < s.len && s.ptr[i - 1] != '_';
        if (!is_digit && !is_gap)
            return false;
        if (is_digit && (__builtin_mul_overflow(value, 10, &value) ||
                         __builtin_add_overflow(value, s.ptr[i] - '0', &value)))
            value = INT64_MAX; /* so large a number means no bound */
    }
    *ret = is_negative ? -value : value;
    return true;
}

static void list_run(struct abx__job *j)
{
    struct listing *l = j->data;
    struct abx__path_ask ask = {.op = ABX_OP_READ};
    struct abx_tree_walk walk = {.shows = shows, .take = take, .ctx = l};
    uint64_t cap = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_ENTRIES, ENTRIES);
    uint64_t depth = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_DEPTH, DEPTH);
    int64_t asked = ENTRIES;
    abx__files_integer(abx__job_query(j, "max_entries"), &asked); /* unreadable: as if absent */
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &l->bounds, &walk.path))
        return;
    l->left = asked < 0 ? 0 : (uint64_t)asked < cap ? (uint64_t)asked : cap;
    walk.depth = depth < UINT32_MAX ? (uint32_t)depth : UINT32_MAX;
    if (!abx__files_is_yes(abx__job_query(j, "recursive")))
        walk.depth = 1;
    abx_json_writer_init(&l->w, &j->out);
    abx_json_begin_object(&l->w);
    abx_json_key(&l->w, ABX_STR("entries"));
    abx_json_begin_array(&l->w);
    int rc = abx_tree_walk(&walk);
    abx_json_end_array(&l->w);
    abx_json_kv_bool(&l->w, "truncated", l->truncated);
    abx_json_end_object(&l->w);
    if (rc < 0)
        abx__files_fail_absent(j, rc, walk.path);
}

static void list_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, list_run, DOCUMENT_MAX);
    if (j == NULL)
        return;
    abx__job_data(j, sizeof(struct listing));
    abx__job_start(j);
}

/* ---- stat ---- */

static const char *type_of(const struct stat *st)
{
    return S_ISDIR(st->st_mode) ? "directory" : S_ISLNK(st->st_mode) ? "symlink" : "file";
}

/* Beside what the published server says (D26); @link: what was asked for, if it is a link that may
 * be shown. */
static void put_more(struct abx_json_writer *w, const struct stat *st, struct abx_str link)
{
    abx_json_kv_bool(w, "is_symlink", link.ptr != NULL);
    if (link.ptr)
        put_target(w, link);
    if (st == NULL)
        return;
    abx_json_kv_i64(w, "mode", st->st_mode & 07777);
    abx_json_kv_i64(w, "uid", st->st_uid);
    abx_json_kv_i64(w, "gid", st->st_gid);
}

static void put_stat(struct abx__job *j, struct abx_str path, const struct stat *st,
                     struct abx_str link)
{
    char permissions[4] = "";
    struct abx_json_writer w;
    (void)abx_buf_room(&j->out, STAT_USUAL);
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "name", abx__files_base_name(path));
    abx_json_kv_str(&w, "path", path);
    abx_json_kv_c(&w, "type", st ? type_of(st) : "unknown");
    abx_json_kv_i64(&w, "size", st ? st->st_size : 0);
    if (st)
        for (unsigned i = 0; i < 3; i++)
            permissions[i] = (char)('0' + (st->st_mode >> (6 - 3 * i) & 7));
    abx_json_kv_c(&w, "permissions", permissions);
    if (st) {
        put_time(&w, "modified", st->st_mtim);
        put_time(&w, "accessed", st->st_atim);
        put_time(&w, "created", st->st_ctim);
    } else {
        abx_json_kv_c(&w, "modified", "");
        abx_json_kv_c(&w, "accessed", "");
        abx_json_kv_c(&w, "created", "");
    }
    abx_json_kv_bool(&w, "exists", st != NULL);
    put_more(&w, st, link);
    abx_json_end_object(&w);
}

/* The link that was asked for itself; ptr NULL: it is none, or none that may be shown. */
static struct abx_str asked_link(const struct abx__bounds *b, struct abx__path_ask ask)
{
    struct abx_str path;
    struct stat st;
    struct abx_policy_verdict v = {0};
    ask.keep_last = true;
    bool is_link = abx__bounds_judge(b, &ask, &path, &v) && abx_tree_stat(path, &st) == 0 &&
                   S_ISLNK(st.st_mode) && abx__bounds_shows(b, path, true);
    return is_link ? path : (struct abx_str){0};
}

static bool is_no(struct abx_str text)
{
    return abx_str_is_nocase(text, "false") || abx_str_is_nocase(text, "no") ||
           abx_str_is(text, "0");
}

static void stat_run(struct abx__job *j)
{
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_READ, .keep_last = is_no(abx__job_query(j, "follow"))};
    struct abx_str path;
    struct stat st;
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &bounds, &path))
        return;
    int rc = abx_tree_stat(path, &st);
    struct abx_str link = asked_link(&bounds, ask);
    if (rc == 0 && (!S_ISLNK(st.st_mode) || ask.keep_last))
        put_stat(j, path, &st, link);
    else if (rc == 0 || is_absent(rc)) /* a link that is left in a resolved path leads nowhere */
        put_stat(j, path, NULL, link);
    else
        abx__job_fail_errno(j, -rc, path);
}

/* What the kernel has in memory is told from the loop: a turn on the pool costs more than all of
 * it. False: nothing was done. Any refusal is the pool's, which looks at links too. */
static bool stat_at_once(struct abx__job *j)
{
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_READ, .path = abx__job_query(j, "path")};
    struct abx_policy_verdict v = {0};
    struct abx_str path;
    struct stat st;
    if (!abx__bounds_init_plain(&bounds, j->policy, j->rule, &j->arena) ||
        !abx__bounds_judge(&bounds, &ask, &path, &v) || abx_tree_stat_cached(path, &st) < 0)
        return false;
    abx__job_note(j, path);
    put_stat(j, path, &st, (struct abx_str){0});
    return true;
}

static void stat_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, stat_run, DOCUMENT_MAX);
    if (j == NULL)
        return;
    if (stat_at_once(j))
        abx__job_end(j);
    else
        abx__job_start(j);
}

/* ---- mkdir ---- */

static void put_path(struct abx__job *j, struct abx_str path, const char *done, const char *also)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", path);
    abx_json_kv_bool(&w, done, true);
    if (also)
        abx_json_kv_bool(&w, also, true);
    abx_json_end_object(&w);
}

static void mkdir_run(struct abx__job *j)
{
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_WRITE, .path = *(struct abx_str *)j->data};
    struct abx_str path;
    if (!abx__files_judge(j, &ask, &bounds, &path))
        return;
    int rc = abx_tree_mkdirs(path);
    if (rc < 0)
        abx__job_fail_errno(j, -rc, path);
    else
        put_path(j, path, "created", rc == 1 ? "existed" : NULL);
}

static void mkdir_post(struct abx__call *c)
{
    struct abx_str path;
    if (!abx__call_string(c, "path", &path))
        return;
    struct abx__job *j = abx__job_new(c, mkdir_run, DOCUMENT_MAX);
    if (j == NULL)
        return;
    struct abx_str *copy = abx__job_data(j, sizeof(*copy));
    if (copy)
        *copy = path; /* in the body, which the job has */
    abx__job_start(j);
}

/* ---- delete ---- */

struct scan {
    const struct abx__bounds *bounds;
    size_t seen;
    bool is_denied;
};

static bool scan_entry(void *ctx, const struct abx_tree_entry *e)
{
    struct scan *s = ctx;
    s->is_denied =
        ++s->seen > DELETE_SCAN_MAX || abx_policy_path_is_denied(s->bounds->rule, e->path);
    return !s->is_denied;
}

/* A tree goes only when nothing in it is denied, and when that could be seen. */
bool abx__files_may_remove(struct abx__job *j, const struct abx__bounds *b, struct abx_str path)
{
    struct scan s = {.bounds = b};
    struct abx_tree_walk walk = {.path = path, .depth = UINT32_MAX, .take = scan_entry, .ctx = &s};
    if (abx__bounds_is_root(b, path))
        return abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                               "a root can not be removed or moved");
    if (j->rule->paths.deny.count == 0)
        return true;
    abx_tree_walk(&walk); /* no folder: nothing in it */
    if (s.is_denied)
        return abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                               "the directory holds an entry that is denied, or too many");
    return true;
}

static void delete_run(struct abx__job *j)
{
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_DELETE, .keep_last = true};
    struct abx_str path;
    struct stat st;
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &bounds, &path) ||
        !abx__files_may_remove(j, &bounds, path))
        return;
    int rc = abx_tree_stat(path, &st);
    if (rc == 0)
        rc = abx_tree_remove(path);
    if (rc < 0 && is_absent(rc) && rc != -EACCES)
        abx__files_not_found(j, "no such file or directory", path);
    else if (rc < 0)
        abx__job_fail_errno(j, -rc, path);
    else
        put_path(j, path, "deleted", NULL);
}

static void delete_call(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, delete_run, DOCUMENT_MAX);
    if (j)
        abx__job_start(j);
}

const struct abx__route abx__files_routes[] = {
    {"files_list", list_get},
    {"files_stat", stat_get},
    {"files_mkdir", mkdir_post},
    {"files_delete", delete_call},
    {"files_move", abx__move_post},
    {"files_search", abx__search_post},
    {"files_upload_stream", abx__upload_post, "content_base64", .serve_large = abx__upload_large},
    {"files_download_stream", abx__download_get},
    {"files_archive", abx__archive_post},
    {"files_watch", abx__watch_get},
    {"files_copy", abx__copy_post},
    {"files_append", abx__append_post, "content_base64", .serve_large = abx__append_large},
    {"files_chmod", abx__chmod_post},
    {"files_grep", abx__grep_post},
    {"files_raw_get", abx__raw_get},
    {"files_raw_put", abx__raw_put, .takes_bytes = true},
    {"files_tree_get", abx__tree_get},
    {"files_tree_put", abx__tree_put, .takes_bytes = true},
    {0}};
