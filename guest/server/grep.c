/* guest/server/grep.c: POST /files/grep: lines of files by a literal or a regular expression, as
 * one JSON document a line. server.md 5. */
#include "guest/server/files_priv.h"

#include "guest/caps/grep.h"
#include "guest/caps/ignore.h"
#include "guest/caps/tree.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    OUT_MAX = 64 << 20,
    OUT_STOP = 32 << 20,         /* bytes of an answer; then it is cut */
    FILE_MAX = 64 * 1024 * 1024, /* larger ones are passed over, and counted */
    SHOWN = 2000,                /* bytes of a line */
    RESULTS = 1000,
    DEPTH = 100,
    TIMEOUT_S = 10,
    GLOBS_MAX = 64,
    SCOPES_MAX = 100,
    SCOPE_BYTES = 8 << 20,
};

/* The .gitignore of a folder on the way to the entry in hand. */
struct scope {
    struct abx_str folder;
    struct abx_arena arena;
    struct abx_ignore rules;
};

struct glob {
    struct abx_path_glob *glob;
    bool is_exclusion;
};

struct grep {
    /* as asked; texts are in the body, which the job has */
    struct abx_str path, pattern;
    bool is_regex, ignores_case, reads_gitignore;
    int64_t context, depth, results;
    /* at work */
    struct abx__job *job;
    struct abx__bounds bounds;
    struct abx_grep *grep;
    struct abx_regex_patience patience;
    struct glob globs[GLOBS_MAX];
    size_t glob_count;
    bool has_inclusion;
    struct scope scopes[SCOPES_MAX];
    size_t scope_count;
    struct abx_buf content;
    struct abx_str root, file; /* file: the one in hand */
    int64_t until_ms;
    uint64_t left, file_max, matches, files, skipped;
    bool timed_out, truncated, is_hit;
};

/* ---- what is looked into ---- */

static bool goes_on(void *ctx)
{
    struct grep *g = ctx;
    g->timed_out = g->timed_out || abx_time_mono_ms() > g->until_ms;
    return !g->timed_out;
}

static struct abx_str beneath(struct abx_str path, size_t folder_len)
{
    return abx_str_sub(path, folder_len + (folder_len > 1), path.len);
}

static void leave_scopes(struct grep *g, struct abx_str path)
{
    while (g->scope_count > 0) {
        struct scope *s = &g->scopes[g->scope_count - 1];
        struct abx_str f = s->folder;
        bool is_beneath = path.len > f.len && memcmp(path.ptr, f.ptr, f.len) == 0 &&
                          (f.len <= 1 || path.ptr[f.len] == '/');
        if (is_beneath)
            return;
        abx_arena_done(&s->arena);
        g->scope_count--;
    }
}

static bool is_ignored(const struct grep *g, const struct abx_tree_entry *e)
{
    bool is_folder = S_ISDIR(e->st.st_mode);
    if (is_folder && abx_str_is(e->name, ".git"))
        return true;
    for (size_t i = g->scope_count; i-- > 0;) {
        enum abx_ignore_verdict v = abx_ignore_ask(
            &g->scopes[i].rules, beneath(e->path, g->scopes[i].folder.len), is_folder);
        if (v != ABX_IGNORE_NOTHING)
            return v == ABX_IGNORE_OUT;
    }
    return false;
}

/* Reads @path into content; false: it is nothing to read. */
static bool read_file(struct grep *g, struct abx_str path, uint64_t max)
{
    struct stat st;
    ABX_AUTO_FD fd = abx_tree_open(path, O_RDONLY, 0);
    abx_buf_clear(&g->content);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    if ((uint64_t)st.st_size > max) {
        g->skipped++;
        return false;
    }
    void *room = abx_buf_room(&g->content, (size_t)st.st_size + 1);
    ssize_t n = room ? abx_fd_read_all(fd, room, (size_t)st.st_size) : -ENOMEM;
    if (n > 0)
        abx_buf_wrote(&g->content, (size_t)n);
    return n > 0;
}

/* The rules of a folder that is entered. What can not be read or is too large does not ignore. */
static void enter_scope(struct grep *g, struct abx_str folder)
{
    ABX_AUTO_BUF name;
    abx_buf_init(&name, folder.len + 16);
    abx_buf_putf(&name, "%.*s%s.gitignore", ABX_STR_FMT(folder), folder.len > 1 ? "/" : "");
    if (g->scope_count == SCOPES_MAX || abx_buf_failed(&name) ||
        !abx__bounds_shows(&g->bounds, abx_buf_str(&name), false) ||
        !read_file(g, abx_buf_str(&name), ABX_IGNORE_FILE))
        return;
    struct scope *s = &g->scopes[g->scope_count];
    *s = (struct scope){0};
    abx_arena_init(&s->arena, SCOPE_BYTES);
    s->folder = abx_arena_str(&s->arena, folder);
    if (s->folder.ptr == NULL ||
        abx_ignore_parse(abx_buf_str(&g->content), &s->arena, &s->rules) < 0)
        abx_arena_done(&s->arena);
    else
        g->scope_count++;
}

static bool shows(void *ctx, const struct abx_tree_entry *e)
{
    struct grep *g = ctx;
    leave_scopes(g, e->path);
    return !S_ISLNK(e->st.st_mode) && (!g->reads_gitignore || !is_ignored(g, e)) &&
           abx__bounds_shows(&g->bounds, e->path, false);
}

static bool is_wanted(const struct grep *g, struct abx_str name)
{
    bool is_in = !g->has_inclusion;
    for (size_t i = 0; i < g->glob_count; i++)
        if (abx_path_glob_matches(g->globs[i].glob, name))
            is_in = !g->globs[i].is_exclusion;
    return is_in;
}

/* ---- what is said ---- */

static void put_text(struct abx_json_writer *w, struct abx_str line)
{
    abx_json_str(w, abx_str_sub(line, 0, SHOWN));
}

static void put_context(struct abx_json_writer *w, const char *key, const struct abx_str *lines,
                        size_t count)
{
    abx_json_key(w, abx_str(key));
    abx_json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        put_text(w, lines[i]);
    abx_json_end_array(w);
}

static bool put_match(void *ctx, const struct abx_grep_line *line)
{
    struct grep *g = ctx;
    struct abx_json_writer w;
    g->truncated = g->left == 0 || g->job->out.len > OUT_STOP;
    if (g->truncated)
        return false;
    g->is_hit = true;
    g->matches++;
    g->left--;
    abx_json_writer_init(&w, &g->job->out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", "match");
    abx_json_kv_str(&w, "path", g->file);
    abx_json_kv_i64(&w, "line", (int64_t)line->number);
    abx_json_kv_i64(&w, "column", (int64_t)line->match.from + 1);
    abx_json_kv_i64(&w, "end_column", (int64_t)line->match.to + 1);
    abx_json_key(&w, ABX_STR("text"));
    put_text(&w, line->text);
    if (g->context) {
        put_context(&w, "before", line->before, line->before_count);
        put_context(&w, "after", line->after, line->after_count);
    }
    abx_json_end_object(&w);
    abx_buf_put_byte(&g->job->out, '\n');
    return !abx_buf_failed(&g->job->out);
}

static void put_end(struct grep *g)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, &g->job->out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", "end");
    abx_json_kv_i64(&w, "matches", (int64_t)g->matches);
    abx_json_kv_i64(&w, "files", (int64_t)g->files);
    abx_json_kv_i64(&w, "skipped", (int64_t)g->skipped);
    abx_json_kv_bool(&w, "truncated", g->truncated);
    abx_json_kv_bool(&w, "timed_out", g->timed_out);
    abx_json_end_object(&w);
    abx_buf_put_byte(&g->job->out, '\n');
}

static bool look_into(struct grep *g, struct abx_str path)
{
    if (!read_file(g, path, g->file_max))
        return true;
    if (abx_grep_is_binary(abx_buf_str(&g->content))) {
        g->skipped++;
        return true;
    }
    g->file = path;
    g->is_hit = false;
    abx_grep_text(g->grep, abx_buf_str(&g->content), &g->patience, put_match, g);
    g->files += g->is_hit;
    return !g->timed_out && !g->truncated && !abx_buf_failed(&g->job->out);
}

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct grep *g = ctx;
    if (!goes_on(g))
        return false;
    if (S_ISDIR(e->st.st_mode) && g->reads_gitignore)
        enter_scope(g, e->path);
    if (!S_ISREG(e->st.st_mode) || !is_wanted(g, beneath(e->path, g->root.len)))
        return true;
    return look_into(g, e->path);
}

/* ---- the job ---- */

static bool read_globs(struct abx__job *j)
{
    struct grep *g = j->data;
    size_t i;
    const json_t *item;
    struct abx_error err = {0};
    json_array_foreach(json_object_get(j->body, "globs"), i, item)
    {
        struct abx_str text = abx_str_n(json_string_value(item), json_string_length(item));
        struct glob *one = &g->globs[g->glob_count++];
        one->is_exclusion = text.len > 0 && text.ptr[0] == '!';
        g->has_inclusion |= !one->is_exclusion;
        if (abx_path_glob_compile(abx_str_sub(text, one->is_exclusion, text.len), &j->arena,
                                  &one->glob, &err) < 0)
            return abx__job_fail(j, 400, "ValueError", "'globs[%zu]': %s", i, err.msg);
    }
    return true;
}

static bool prepare(struct abx__job *j)
{
    struct grep *g = j->data;
    struct abx_error err = {0};
    const struct abx_grep_spec spec = {.pattern = g->pattern,
                                       .is_regex = g->is_regex,
                                       .ignores_case = g->ignores_case,
                                       .context = (uint32_t)g->context};
    double seconds = abx_policy_limit_f64(j->rule, ABX_LIMIT_TIMEOUT_SECONDS, TIMEOUT_S);
    uint64_t results = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_RESULTS, UINT64_MAX);
    g->job = j;
    g->left = g->results < 0 ? 0 : (uint64_t)g->results;
    g->left = g->left < results ? g->left : results;
    g->file_max = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, FILE_MAX);
    g->file_max = g->file_max < FILE_MAX ? g->file_max : FILE_MAX;
    g->until_ms = abx_time_mono_ms() + (seconds < 1e9 ? (int64_t)(seconds * 1000) : INT64_MAX / 2);
    g->patience = (struct abx_regex_patience){goes_on, g};
    abx_buf_init(&g->content, FILE_MAX + 1);
    if (abx_grep_new(&spec, &j->arena, &g->grep, &err) < 0)
        return abx__job_fail(j, 400, "ValueError", "%s", err.msg);
    return read_globs(j);
}

static int walk(struct abx__job *j, struct abx_str path)
{
    struct grep *g = j->data;
    struct stat st;
    uint64_t depth = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_DEPTH, UINT32_MAX);
    int rc = abx_tree_stat(path, &st);
    if (rc == 0 && S_ISLNK(st.st_mode))
        rc = -ENOENT;
    if (rc < 0 || g->left == 0 || g->depth < 1)
        return rc;
    if (!S_ISDIR(st.st_mode)) {
        look_into(g, path);
        return 0;
    }
    g->root = path;
    if (g->reads_gitignore)
        enter_scope(g, path);
    const struct abx_tree_walk w = {.path = path,
                                    .depth = (uint64_t)g->depth < depth ? (uint32_t)g->depth
                                                                        : (uint32_t)depth,
                                    .shows = shows,
                                    .take = take,
                                    .ctx = g};
    return abx_tree_walk(&w);
}

static void grep_run(struct abx__job *j)
{
    struct grep *g = j->data;
    struct abx__path_ask ask = {.path = g->path, .op = ABX_OP_READ};
    struct abx_str path;
    if (prepare(j) && abx__files_judge(j, &ask, &g->bounds, &path)) {
        int rc = walk(j, path);
        if (rc < 0)
            abx__files_fail_absent(j, rc, path);
        put_end(g);
    }
    for (size_t i = 0; i < g->scope_count; i++)
        abx_arena_done(&g->scopes[i].arena);
    abx_buf_done(&g->content);
}

static void grep_done(struct abx__job *j)
{
    struct abx__call *c = j->call;
    const struct abx_http_extra extra[] = {
        {"Content-Type", ABX_STR("application/x-ndjson")}, {"X-Request-Id", abx_str(c->id)}, {0}};
    if (abx_buf_failed(&j->out)) {
        abx__call_fail(c, 500, "MemoryError", "the answer does not fit into memory");
        return;
    }
    c->status = 200;
    abx__audit_call(c);
    abx_http_answer(c->req, 200, extra, abx_buf_str(&j->out));
}

/* ---- the request ---- */

static bool read_flag(struct abx__call *c, const char *name, bool fallback, bool *ret)
{
    const json_t *v = abx__call_field(c, name);
    *ret = v ? json_is_true(v) : fallback;
    if (v == NULL || json_is_boolean(v))
        return true;
    abx__call_fail(c, 400, "ValueError", "'%s' must be true or false", name);
    return false;
}

static bool check_globs(struct abx__call *c)
{
    size_t i;
    const json_t *item, *globs = abx__call_field(c, "globs");
    bool is_good = globs == NULL || (json_is_array(globs) && json_array_size(globs) <= GLOBS_MAX);
    json_array_foreach(globs, i, item)
    {
        is_good = is_good && json_is_string(item) && json_string_length(item) > 0;
    }
    if (!is_good)
        abx__call_fail(c, 400, "ValueError", "'globs' must be a list of at most %d strings",
                       (int)GLOBS_MAX);
    return is_good;
}

static bool read_numbers(struct abx__call *c, struct grep *g)
{
    if (!abx__files_number(c, "context", 0, &g->context) ||
        !abx__files_number(c, "max_depth", DEPTH, &g->depth) ||
        !abx__files_number(c, "max_results", RESULTS, &g->results))
        return false;
    if (g->context >= 0 && g->context <= ABX_GREP_CONTEXT)
        return true;
    abx__call_fail(c, 400, "ValueError", "'context' must be 0 to %d lines", (int)ABX_GREP_CONTEXT);
    return false;
}

void abx__grep_post(struct abx__call *c)
{
    struct grep g = {0};
    if (!abx__call_string(c, "path", &g.path) || !abx__call_string(c, "pattern", &g.pattern) ||
        !read_flag(c, "regex", false, &g.is_regex) ||
        !read_flag(c, "ignore_case", false, &g.ignores_case) ||
        !read_flag(c, "gitignore", true, &g.reads_gitignore) || !read_numbers(c, &g) ||
        !check_globs(c))
        return;
    struct abx__job *j = abx__job_with(c, grep_run, OUT_MAX, &g, sizeof(g));
    if (j == NULL)
        return;
    j->done = grep_done;
    abx__job_start(j);
}
