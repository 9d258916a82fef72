/* guest/server/search.c: POST /files/search: names by a glob. server-api.md 4.4, policy.md A9. */
#include "guest/server/files_priv.h"

#include "guest/caps/tree.h"
#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    DOCUMENT_MAX = 64 << 20,
    DEPTH = 5,
    RESULTS = 100,
    TIMEOUT_S = 10,
    PATH_BYTES = 65536,
};

struct search {
    struct abx_str path, pattern; /* in the body, which the job has */
    int64_t depth, results;
    struct abx__bounds bounds;
    struct abx_json_writer w;
    uint64_t left;
    int64_t until_ms;
    bool timed_out, truncated;
};

static bool is_link_to_folder(const struct abx_tree_entry *e)
{
    struct stat st;
    ABX_AUTO_BUF target;
    abx_buf_init(&target, PATH_BYTES);
    return S_ISLNK(e->st.st_mode) && abx_tree_resolve(e->path, false, &target) == 0 &&
           abx_tree_stat(abx_buf_str(&target), &st) == 0 && S_ISDIR(st.st_mode);
}

static bool shows(void *ctx, const struct abx_tree_entry *e)
{
    const struct search *s = ctx;
    return abx__bounds_shows(&s->bounds, e->path, S_ISLNK(e->st.st_mode));
}

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct search *s = ctx;
    s->timed_out = abx_time_mono_ms() > s->until_ms;
    if (s->timed_out)
        return false;
    if (S_ISDIR(e->st.st_mode) || !abx_glob_match(s->pattern, e->name) || is_link_to_folder(e))
        return true;
    s->truncated = s->left == 0;
    if (s->truncated)
        return false;
    abx_json_begin_object(&s->w);
    abx__files_put_name(&s->w, e->name, e->path);
    abx_json_end_object(&s->w);
    s->left--;
    return !abx_buf_failed(s->w.out);
}

static uint64_t bound(const struct abx__job *j, int64_t asked, enum abx_limit limit)
{
    uint64_t cap = abx_policy_limit_u64(j->rule, limit, UINT64_MAX);
    uint64_t want = asked < 0 ? 0 : (uint64_t)asked;
    return want < cap ? want : cap;
}

static int walk(struct abx__job *j, struct abx_str path)
{
    struct search *s = j->data;
    uint64_t depth = bound(j, s->depth, ABX_LIMIT_MAX_DEPTH);
    struct abx_tree_walk w = {.path = path, .shows = shows, .take = take, .ctx = s};
    double seconds = abx_policy_limit_f64(j->rule, ABX_LIMIT_TIMEOUT_SECONDS, TIMEOUT_S);
    s->until_ms = abx_time_mono_ms() + (seconds < 1e9 ? (int64_t)(seconds * 1000) : INT64_MAX / 2);
    s->left = bound(j, s->results, ABX_LIMIT_MAX_RESULTS);
    w.depth = depth < UINT32_MAX ? (uint32_t)depth : UINT32_MAX;
    if (depth == 0 || s->left == 0) { /* nothing is looked for, but it must be a folder */
        struct stat st;
        int rc = abx_tree_stat(path, &st);
        return rc < 0 || S_ISDIR(st.st_mode) ? rc : -ENOTDIR;
    }
    return abx_tree_walk(&w);
}

static void search_run(struct abx__job *j)
{
    struct search *s = j->data;
    struct abx__path_ask ask = {.path = s->path, .op = ABX_OP_READ};
    struct abx_str path;
    if (!abx__files_judge(j, &ask, &s->bounds, &path))
        return;
    abx_json_writer_init(&s->w, &j->out);
    abx_json_begin_object(&s->w);
    abx_json_key(&s->w, ABX_STR("results"));
    abx_json_begin_array(&s->w);
    int rc = walk(j, path);
    abx_json_end_array(&s->w);
    abx_json_kv_bool(&s->w, "timed_out", s->timed_out);
    abx_json_kv_bool(&s->w, "truncated", s->truncated);
    abx_json_end_object(&s->w);
    if (rc < 0)
        abx__files_fail_absent(j, rc, path);
}

bool abx__files_number(struct abx__call *c, const char *name, int64_t fallback, int64_t *ret)
{
    const json_t *v = abx__call_field(c, name);
    double real = json_real_value(v);
    *ret = fallback;
    if (v == NULL)
        return true;
    if (json_is_boolean(v))
        *ret = json_is_true(v);
    else if (json_is_integer(v))
        *ret = json_integer_value(v);
    else if (json_is_real(v) && fabs(real) < 9e18)
        *ret = (int64_t)real;
    else if (!json_is_string(v) ||
             !abx__files_integer(abx_str_n(json_string_value(v), json_string_length(v)), ret)) {
        abx__call_fail(c, 400, "ValueError", "'%s' must be a whole number", name);
        return false;
    }
    return true;
}

void abx__search_post(struct abx__call *c)
{
    struct search s = {0};
    if (!abx__call_string(c, "path", &s.path) || !abx__call_string(c, "pattern", &s.pattern) ||
        !abx__files_number(c, "max_depth", DEPTH, &s.depth) ||
        !abx__files_number(c, "max_results", RESULTS, &s.results))
        return;
    struct abx__job *j = abx__job_with(c, search_run, DOCUMENT_MAX, &s, sizeof(s));
    if (j)
        abx__job_start(j);
}
