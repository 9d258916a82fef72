/* guest/server/git_history.c: GET /git/log, /git/show, /git/branches, /git/blame: read verbs that
 * only this server has. server.md 5, security S18. Loop thread. */
#include "guest/server/git_priv.h"
#include "guest/server/helper.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum {
    TEXT_MAX = 4 << 20,
    NAMES_MAX = 8 << 20,
    DIFF_MAX = 1048576,
    DOCUMENT_MAX = 64 << 20,
    WORDS_MAX = 24,
    LOG_DEFAULT = 50,
    LOG_MAX = 500,
    LINE_MAX_NUMBER = 100000000,
};

/* ---- what the query says ---- */

/* `rev`, HEAD without it. False: answered. */
static bool read_revision(struct abx__git *g, const char **ret)
{
    struct abx_str rev = abx__call_query(g->call, "rev");
    if (rev.ptr == NULL)
        rev = ABX_STR("HEAD");
    *ret = abx_git_is_revision(rev)
               ? abx_arena_printf(g->call->req->arena, "%.*s^{commit}", ABX_STR_FMT(rev))
               : "";
    if (*ret == NULL)
        abx__git_no_memory(g);
    else if (**ret == '\0')
        abx__call_fail(g->call, 400, "ValueError", "'rev' must name a commit: a name or a hash");
    return *ret && **ret;
}

/* A number of the query within its bounds. False: answered. */
static bool read_number(struct abx__git *g, const char *name, uint64_t max, uint64_t *inout)
{
    struct abx_str text = abx__call_query(g->call, name);
    if (text.ptr == NULL)
        return true;
    if (abx_parse_u64(text, inout) == 0 && *inout <= max)
        return true;
    abx__call_fail(g->call, 400, "ValueError", "'%s' must be a number from 0 to %llu", name,
                   (unsigned long long)max);
    return false;
}

struct words {
    const char *items[WORDS_MAX];
    size_t count;
};

static void add(struct words *w, const char *word)
{
    ABX_ASSERT(w->count + 1 < WORDS_MAX);
    w->items[w->count++] = word;
}

static void add_file(struct words *w, const struct abx__git *g)
{
    add(w, "--");
    if (g->plan.file.ptr)
        add(w, g->plan.file.ptr);
}

/* ---- commits ---- */

static void put_person(struct abx_json_writer *w, const char *key, struct abx_str name,
                       struct abx_str mail, struct abx_str date)
{
    abx_json_key(w, abx_str(key));
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", name);
    abx_json_kv_str(w, "email", mail);
    abx_json_kv_str(w, "date", date);
    abx_json_end_object(w);
}

static void put_commit(struct abx_json_writer *w, const struct abx_git_commit *c)
{
    struct abx_str parents = c->parents, one;
    abx_json_begin_object(w);
    abx_json_kv_str(w, "hash", c->hash);
    abx_json_key(w, ABX_STR("parents"));
    abx_json_begin_array(w);
    while (parents.len && abx_str_split(&parents, ' ', &one))
        abx_json_str(w, one);
    abx_json_end_array(w);
    put_person(w, "author", c->author, c->author_mail, c->author_date);
    put_person(w, "committer", c->committer, c->committer_mail, c->committer_date);
    abx_json_kv_str(w, "subject", c->subject);
    abx_json_kv_str(w, "body", c->body);
    abx_json_end_object(w);
}

static void on_log(struct abx__git *g, struct abx_str out, bool is_cut)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct abx_git_commit commit;
    ptrdiff_t end = is_cut ? abx_str_rchr(out, '\0') : (ptrdiff_t)out.len;
    out = abx_str_sub(out, 0, end < 0 ? 0 : (size_t)end); /* whole commits only */
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("commits"));
    abx_json_begin_array(&w);
    while (abx_git_commit_next(&out, &commit))
        put_commit(&w, &commit);
    abx_json_end_array(&w);
    abx_json_kv_bool(&w, "truncated", is_cut);
    abx_json_end_object(&w);
    abx__call_answer(g->call, &body);
}

static void add_log(struct words *w)
{
    static const char *const fixed[] = {"log",
                                        "-z",
                                        "--no-show-signature",
                                        "--no-mailmap",
                                        "--encoding=UTF-8",
                                        "--no-decorate",
                                        "--no-color",
                                        "--no-patch",
                                        ABX_GIT_COMMIT_FORMAT};
    for (size_t i = 0; i < ABX_COUNTOF(fixed); i++)
        add(w, fixed[i]);
}

static void run_log(struct abx__git *g)
{
    uint64_t limit = LOG_DEFAULT, skip = 0;
    const char *rev;
    struct words w = {{0}, 0};
    if (!read_number(g, "limit", LOG_MAX, &limit) ||
        !read_number(g, "skip", LINE_MAX_NUMBER, &skip) || !read_revision(g, &rev))
        return;
    const char *counts = abx_arena_printf(g->call->req->arena, "--max-count=%llu",
                                          (unsigned long long)limit),
               *skips =
                   abx_arena_printf(g->call->req->arena, "--skip=%llu", (unsigned long long)skip);
    if (counts == NULL || skips == NULL) {
        abx__git_no_memory(g);
        return;
    }
    add_log(&w);
    add(&w, counts);
    add(&w, skips);
    add(&w, "--end-of-options");
    add(&w, rev);
    add_file(&w, g);
    abx__git_start(g, w.items, TEXT_MAX, on_log);
}

/* ---- show: the commit, the names that it touches, its diff ---- */

struct show {
    const char *rev;
    struct abx_str commit; /* as log prints it */
};

static void start_show(struct abx__git *g, const char *form, const char *more, size_t max,
                       void (*next)(struct abx__git *g, struct abx_str out, bool is_cut))
{
    static const char *const fixed[] = {
        "show",          "--format=",  "--no-show-signature",        "--no-ext-diff",
        "--no-textconv", "--no-color", "--diff-merges=first-parent", "--ignore-submodules=dirty"};
    const struct show *s = g->data;
    struct words w = {{0}, 0};
    for (size_t i = 0; i < ABX_COUNTOF(fixed); i++)
        add(&w, fixed[i]);
    add(&w, form);
    if (more)
        add(&w, more);
    add(&w, "--end-of-options");
    add(&w, s->rev);
    add_file(&w, g);
    abx__git_start(g, w.items, max, next);
}

static void on_show_diff(struct abx__git *g, struct abx_str out, bool is_cut)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    struct abx_git_commit commit;
    struct show *s = g->data;
    struct abx_str text = s->commit;
    if (!abx_git_commit_next(&text, &commit)) {
        abx__call_fail(g->call, 400, "GitError", "git shows no commit of that name");
        return;
    }
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("commit"));
    put_commit(&w, &commit);
    abx__git_put_diff(g, &w, out, is_cut);
    abx_json_end_object(&w);
    abx__call_answer(g->call, &body);
}

static void on_show_names(struct abx__git *g, struct abx_str out, bool is_cut)
{
    if (abx__git_read_names(g, &out, is_cut))
        start_show(g, "--patch", NULL, DIFF_MAX, on_show_diff);
}

static void on_show_commit(struct abx__git *g, struct abx_str out, bool is_cut)
{
    struct show *s = g->data;
    (void)is_cut;
    s->commit = abx_arena_str(g->call->req->arena, out);
    if (s->commit.ptr == NULL)
        abx__git_no_memory(g);
    else
        start_show(g, "--numstat", "-z", NAMES_MAX, on_show_names);
}

static void run_show(struct abx__git *g)
{
    enum { COMMIT_MAX = 256 * 1024 };
    struct words w = {{0}, 0};
    struct show *s = abx_arena_alloc(g->call->req->arena, sizeof(*s));
    if (s == NULL) {
        abx__git_no_memory(g);
        return;
    }
    g->data = s;
    if (!read_revision(g, &s->rev))
        return;
    add_log(&w);
    add(&w, "--max-count=1");
    add(&w, "--end-of-options");
    add(&w, s->rev);
    add(&w, "--");
    abx__git_start(g, w.items, COMMIT_MAX, on_show_commit);
}

/* ---- branches ---- */

static void put_text_or_null(struct abx_json_writer *w, const char *key, struct abx_str text)
{
    abx_json_key(w, abx_str(key));
    if (text.len)
        abx_json_str(w, text);
    else
        abx_json_null(w);
}

static void on_branches(struct abx__git *g, struct abx_str out, bool is_cut)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct abx_git_ref ref;
    struct abx_str current = {0};
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("branches"));
    abx_json_begin_array(&w);
    while (abx_git_ref_next(&out, &ref)) {
        if (ref.is_head)
            current = ref.name;
        abx_json_begin_object(&w);
        abx_json_kv_str(&w, "name", ref.name);
        abx_json_kv_bool(&w, "remote", ref.is_remote);
        abx_json_kv_str(&w, "commit", ref.hash);
        put_text_or_null(&w, "upstream", ref.upstream);
        abx_json_kv_str(&w, "date", ref.date);
        abx_json_kv_str(&w, "subject", ref.subject);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    put_text_or_null(&w, "current", current);
    abx_json_kv_bool(&w, "truncated", is_cut);
    abx_json_end_object(&w);
    abx__call_answer(g->call, &body);
}

static void run_branches(struct abx__git *g)
{
    static const char *const words[] = {"for-each-ref", ABX_GIT_REF_FORMAT, "refs/heads",
                                        "refs/remotes", NULL};
    abx__git_start(g, words, TEXT_MAX, on_branches);
}

/* ---- blame ---- */

static void put_blamed(struct abx_json_writer *w, const struct abx_git_line *line)
{
    char date[ABX_TIME_TEXT];
    abx_time_format(line->author_time * 1000000000, 0, date);
    abx_json_begin_object(w);
    abx_json_kv_i64(w, "line", (int64_t)line->number);
    abx_json_kv_str(w, "commit", line->hash);
    abx_json_kv_str(w, "author", line->author);
    abx_json_kv_c(w, "date", date);
    abx_json_kv_str(w, "summary", line->summary);
    abx_json_kv_str(w, "text", line->text);
    abx_json_end_object(w);
}

static void on_blame(struct abx__git *g, struct abx_str out, bool is_cut)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct abx_git_line line;
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("lines"));
    abx_json_begin_array(&w);
    while (abx_git_line_next(&out, &line))
        put_blamed(&w, &line);
    abx_json_end_array(&w);
    abx_json_kv_bool(&w, "truncated", is_cut);
    abx_json_end_object(&w);
    abx__call_answer(g->call, &body);
}

static void run_blame(struct abx__git *g)
{
    uint64_t start = 1, end = 0;
    const char *rev;
    struct words w = {{0}, 0};
    if (!read_number(g, "start", LINE_MAX_NUMBER, &start) ||
        !read_number(g, "end", LINE_MAX_NUMBER, &end) || !read_revision(g, &rev))
        return;
    const char *range =
        abx_arena_printf(g->call->req->arena, end ? "-L%llu,%llu" : "-L%llu,",
                         (unsigned long long)(start ? start : 1), (unsigned long long)end);
    if (range == NULL) {
        abx__git_no_memory(g);
        return;
    }
    add(&w, "blame");
    add(&w, "--line-porcelain");
    add(&w, "--no-textconv");
    add(&w, "--encoding=UTF-8");
    add(&w, range);
    add(&w, rev); /* no option by read_revision(); blame knows no --end-of-options */
    add_file(&w, g);
    abx__git_start(g, w.items, TEXT_MAX, on_blame);
}

/* ---- routes ---- */

static void log_get(struct abx__call *c)
{
    static const struct abx__git_verb verb = {.run = run_log};
    abx__git_serve(c, &verb);
}

static void show_get(struct abx__call *c)
{
    static const struct abx__git_verb verb = {.run = run_show, .shows_content = true};
    abx__git_serve(c, &verb);
}

static void branches_get(struct abx__call *c)
{
    static const struct abx__git_verb verb = {.run = run_branches};
    abx__git_serve(c, &verb);
}

static void blame_get(struct abx__call *c)
{
    static const struct abx__git_verb verb = {
        .run = run_blame, .shows_content = true, .needs_file = true};
    abx__git_serve(c, &verb);
}

const struct abx__route abx__git_history_routes[] = {{"git_log", log_get},
                                                     {"git_show", show_get},
                                                     {"git_branches", branches_get},
                                                     {"git_blame", blame_get},
                                                     {0}};
