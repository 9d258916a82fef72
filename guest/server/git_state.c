/* guest/server/git_state.c: GET /git/status and /git/diff. server-api.md 4.7. Loop thread. */
#include "guest/server/git_priv.h"
#include "guest/server/helper.h"

#include "lib/base/banned.h"

enum {
    STATUS_MAX = 16 << 20,
    NAMES_MAX = 8 << 20,
    DIFF_MAX = 1048576,
    DOCUMENT_MAX = DIFF_MAX * 12 + 4096,
    WORDS_MAX = 24,
};

/* ---- status ---- */

static void on_status(struct abx__git *g, struct abx_str out, bool is_cut)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    struct abx_git_entry entry;
    struct abx_str branch = abx_git_branch(&out), rest = out;
    if (is_cut) {
        abx__call_fail(g->call, 500, "OSError", "git status says more than %d bytes",
                       (int)STATUS_MAX);
        return;
    }
    abx_buf_init(&body, STATUS_MAX * 4);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "branch", branch);
    abx_json_kv_bool(&w, "clean", !abx_git_status_next(&rest, &entry));
    abx_json_key(&w, ABX_STR("files"));
    abx_json_begin_array(&w);
    while (abx_git_status_next(&out, &entry)) {
        abx_json_begin_object(&w);
        abx_json_kv_str(&w, "path", entry.path);
        abx_json_kv_c(&w, "status", entry.status);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(g->call, &body);
}

/* What lies in a submodule is its own repository's business, with a configuration of its own. */
static void run_status(struct abx__git *g)
{
    static const char *const words[] = {"status", "--porcelain", "-b", "--ignore-submodules=dirty",
                                        NULL};
    abx__git_start(g, words, STATUS_MAX, on_status);
}

static void status_get(struct abx__call *c)
{
    static const struct abx__git_verb verb = {.run = run_status, .needs_tree = true};
    abx__git_serve(c, &verb);
}

/* ---- diff ---- */

static bool is_yes(struct abx_str text)
{
    return abx_str_is_nocase(text, "true") || abx_str_is_nocase(text, "yes") ||
           abx_str_is(text, "1");
}

void abx__git_put_diff(const struct abx__git *g, struct abx_json_writer *w, struct abx_str out,
                       bool is_cut)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, DIFF_MAX + 256);
    abx_buf_put_str(&text, abx__whole_characters(out, is_cut));
    if (is_cut)
        abx_buf_putf(&text, "\n[cut: the diff is longer than %d bytes]\n", (int)DIFF_MAX);
    abx_json_kv_str(w, "diff", abx_buf_str(&text));
    abx_json_key(w, ABX_STR("stats"));
    abx_json_begin_object(w);
    abx_json_kv_i64(w, "files_changed", (int64_t)g->stats.files);
    abx_json_kv_i64(w, "insertions", (int64_t)g->stats.insertions);
    abx_json_kv_i64(w, "deletions", (int64_t)g->stats.deletions);
    abx_json_end_object(w);
    w->out->failed = w->out->failed || text.failed;
}

static void on_diff(struct abx__git *g, struct abx_str out, bool is_cut)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx__git_put_diff(g, &w, out, is_cut);
    abx_json_end_object(&w);
    abx__call_answer(g->call, &body);
}

static void start_diff(struct abx__git *g, const char *const *form, size_t max,
                       void (*next)(struct abx__git *g, struct abx_str out, bool is_cut))
{
    static const char *const fixed[] = {
        "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", NULL};
    const char *words[WORDS_MAX];
    size_t n = 0;
    for (const char *const *f = fixed; *f; f++)
        words[n++] = *f;
    for (; *form; form++)
        words[n++] = *form;
    if (is_yes(abx__call_query(g->call, "staged")))
        words[n++] = "--cached";
    words[n++] = "--";
    if (g->plan.file.ptr)
        words[n++] = g->plan.file.ptr;
    words[n] = NULL;
    abx__git_start(g, words, max, next);
}

static void on_names(struct abx__git *g, struct abx_str out, bool is_cut)
{
    static const char *const form[] = {"--patch", NULL};
    if (abx__git_read_names(g, &out, is_cut))
        start_diff(g, form, DIFF_MAX, on_diff);
}

static void run_diff(struct abx__git *g)
{
    static const char *const form[] = {"--numstat", "-z", NULL};
    start_diff(g, form, NAMES_MAX, on_names);
}

static void diff_get(struct abx__call *c)
{
    static const struct abx__git_verb verb = {
        .run = run_diff, .shows_content = true, .needs_tree = true};
    abx__git_serve(c, &verb);
}

const struct abx__route abx__git_routes[] = {
    {"git_status", status_get}, {"git_diff", diff_get}, {0}};
