/* guest/caps/git_test.c: repositories, argv and environment of git, what its output means. */
#include "guest/caps/git.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* ---- where ---- */

static char top[64];

static bool is_top(void *ctx, struct abx_str folder)
{
    (void)ctx;
    return abx_str_is(folder, top);
}

static struct abx_str under(struct abx_arena *a, const char *name)
{
    return abx_str(abx_arena_printf(a, "%s%s", top, name));
}

static void make_folder(struct abx_arena *a, const char *name)
{
    assert_int_equal(abx_fd_mkdir_p(under(a, name).ptr, 0755), 0);
}

static void make_file(struct abx_arena *a, const char *name, const char *text)
{
    ABX_AUTO_FD fd = open(under(a, name).ptr, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && abx_fd_write_all(fd, text, strlen(text)) >= 0);
}

TEST(git_finds_the_next_repository_above_up_to_the_root)
{
    struct abx_arena a;
    struct abx_git_place p;
    abx_arena_init(&a, 1 << 20);
    snprintf(top, sizeof(top), "/tmp/abx-git-XXXXXX");
    assert_non_null(mkdtemp(top));
    make_folder(&a, "/r/.git");
    make_folder(&a, "/r/a/b");
    make_folder(&a, "/plain/x");
    make_folder(&a, "/w");
    make_file(&a, "/w/.git", "gitdir: ../r/.git/worktrees/w\n");
    make_folder(&a, "/odd");
    make_file(&a, "/odd/.git", "something else\n");
    make_folder(&a, "/bare/objects");
    make_folder(&a, "/bare/refs");
    make_file(&a, "/bare/HEAD", "ref: refs/heads/main\n");

    assert_true(abx_git_find(under(&a, "/r/a/b"), is_top, NULL, &a, &p));
    assert_true(abx_str_eq(p.top, under(&a, "/r")));
    assert_true(abx_str_eq(p.dir, under(&a, "/r/.git")));
    assert_true(abx_git_find(under(&a, "/w"), is_top, NULL, &a, &p));
    assert_true(abx_str_eq(p.dir, under(&a, "/w/../r/.git/worktrees/w")));
    assert_true(abx_git_find(under(&a, "/bare"), is_top, NULL, &a, &p));
    assert_int_equal(p.top.len, 0);
    assert_false(abx_git_find(under(&a, "/plain/x"), is_top, NULL, &a, &p));
    assert_false(abx_git_find(under(&a, "/odd"), is_top, NULL, &a, &p));
    make_folder(&a, "/.git"); /* the root itself counts, what is above it does not */
    assert_true(abx_git_find(under(&a, "/plain/x"), is_top, NULL, &a, &p));
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, top), 0);
    abx_arena_done(&a);
}

/* ---- what it borrows ---- */

struct asked {
    struct abx_str refused;
    size_t count;
};

static bool is_within(void *ctx, struct abx_str *inout_path)
{
    struct asked *asked = ctx;
    asked->count++;
    if (abx_str_starts(*inout_path, top))
        return true;
    asked->refused = *inout_path;
    return false;
}

static bool borrows_within(struct abx_arena *a, const char *dir, struct asked *ret)
{
    struct abx_git_place p = {.dir = under(a, dir)};
    *ret = (struct asked){.count = 0};
    return abx_git_check_links(&p, is_within, ret, a);
}

TEST(git_what_a_repository_borrows_is_asked_for)
{
    struct abx_arena a;
    struct asked asked;
    abx_arena_init(&a, 1 << 20);
    snprintf(top, sizeof(top), "/tmp/abx-git-XXXXXX");
    assert_non_null(mkdtemp(top));
    make_folder(&a, "/r/objects/info");
    make_folder(&a, "/r/worktrees/w");
    assert_true(borrows_within(&a, "/r", &asked));
    make_file(&a, "/r/worktrees/w/commondir", "../..\n");
    assert_true(borrows_within(&a, "/r/worktrees/w", &asked));
    make_file(&a, "/r/objects/info/alternates", "# none\n\n/etc/objects\n");
    assert_false(borrows_within(&a, "/r/worktrees/w", &asked));
    assert_true(abx_str_is(asked.refused, "/etc/objects"));
    make_folder(&a, "/quoted/objects/info");
    make_file(&a, "/quoted/objects/info/alternates", "\"\\057etc\"\n");
    assert_false(borrows_within(&a, "/quoted", &asked));
    assert_null(asked.refused.ptr);
    make_folder(&a, "/empty");
    make_file(&a, "/empty/commondir", "\n");
    assert_false(borrows_within(&a, "/empty", &asked));
    make_folder(&a, "/round/objects/info"); /* borrows from itself, for ever */
    make_file(&a, "/round/objects/info/alternates", "../objects\n../objects\n");
    assert_false(borrows_within(&a, "/round", &asked));
    assert_true(asked.count < 100);
    abx_fd_remove_tree(AT_FDCWD, top);
    abx_arena_done(&a);
}

/* ---- what is run ---- */

static bool has_word(char *const *words, const char *word)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

TEST(git_argv_holds_what_disarms_a_repository)
{
    static const char *const wanted[] = {
        "core.fsmonitor=false",       "core.hooksPath=/dev/null", "core.pager=cat",
        "core.sshCommand=/bin/false", "credential.helper=",       "protocol.ext.allow=never",
        "protocol.file.allow=user",   "log.showSignature=false",  "--literal-pathspecs"};
    struct abx_arena a;
    struct abx_git_words w;
    abx_arena_init(&a, 1 << 20);
    abx_git_begin(&w, &a);
    assert_true(abx_git_add_disarmed(
        &w, ABX_STR("filter.x.clean\0filter.x.required\0filter.a b.process\0")));
    assert_non_null(w.argv);
    for (size_t i = 0; i < ABX_COUNTOF(wanted); i++)
        assert_true(has_word(w.argv, wanted[i]));
    assert_true(has_word(w.argv, "filter.x.clean="));
    assert_true(has_word(w.argv, "filter.x.required=false"));
    assert_true(has_word(w.argv, "filter.a b.process="));
    assert_false(abx_git_add_disarmed(&w, ABX_STR("filter.a=b.clean\0")));
    assert_false(abx_git_add_disarmed(&w, ABX_STR("filter.a\nb.clean\0")));
    abx_arena_done(&a);
}

TEST(git_has_a_bound_on_words)
{
    struct abx_arena a;
    struct abx_git_words w;
    abx_arena_init(&a, 4 << 20);
    abx_git_begin(&w, &a);
    for (int i = 0; i < ABX_GIT_WORDS; i++)
        abx_git_add(&w, "x");
    assert_null(w.argv);
    abx_arena_done(&a);
}

TEST(git_environment_takes_nothing_of_git_from_outside)
{
    static char evil[] = "GIT_EXTERNAL_DIFF=/bin/evil", good[] = "LANG=C", dir[] = "GIT_DIR=/x";
    char *base[] = {evil, good, dir, NULL};
    struct abx_git_place place = {.top = ABX_STR("/t"), .dir = ABX_STR("/t/.git")};
    struct abx_arena a;
    abx_arena_init(&a, 1 << 20);
    char **env = abx_git_environment(base, &place, &a);
    assert_non_null(env);
    static const char *const wanted[] = {"LANG=C",
                                         "GIT_DIR=/t/.git",
                                         "GIT_WORK_TREE=/t",
                                         "GIT_CONFIG_NOSYSTEM=1",
                                         "GIT_CONFIG_GLOBAL=/dev/null",
                                         "GIT_TERMINAL_PROMPT=0",
                                         "GIT_OPTIONAL_LOCKS=0",
                                         "GIT_ALLOW_PROTOCOL="};
    for (size_t i = 0; i < ABX_COUNTOF(wanted); i++)
        assert_true(has_word(env, wanted[i]));
    assert_false(has_word(env, evil));
    assert_false(has_word(env, dir));
    abx_arena_done(&a);
}

TEST(git_revisions_are_no_options_and_no_paths)
{
    static const struct {
        const char *text;
        bool is_good;
    } rows[] = {{"HEAD", true},          {"main~2", true}, {"feature/x", true},
                {"v1.0^{commit}", true}, {"a..b", true},   {"", false},
                {"--output=/x", false},  {"-1", false},    {"HEAD:key", false},
                {":/text", false},       {"a b", false},   {"a\nb", false}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_int_equal(abx_git_is_revision(abx_str(rows[i].text)), rows[i].is_good);
}

/* ---- what comes out ---- */

TEST(git_status_lines_have_published_names)
{
    struct abx_str text = ABX_STR("## main...origin/main [ahead 1]\n M a\nA  b\nR  c -> d\nUU e\n"
                                  "?? f\nT  g\n!\n D \"h\\303\\274\"\n");
    static const char *const want[][2] = {
        {"a", "modified"},  {"b", "added"}, {"c -> d", "renamed"},         {"e", "unmerged"},
        {"f", "untracked"}, {"g", "T"},     {"\"h\\303\\274\"", "deleted"}};
    struct abx_git_entry e;
    assert_true(abx_str_is(abx_git_branch(&text), "main"));
    for (size_t i = 0; i < ABX_COUNTOF(want); i++) {
        assert_true(abx_git_status_next(&text, &e));
        assert_true(abx_str_is(e.path, want[i][0]));
        assert_string_equal(e.status, want[i][1]);
    }
    assert_false(abx_git_status_next(&text, &e));
}

static bool count_names(void *ctx, struct abx_str path)
{
    size_t *n = ctx;
    ++*n;
    return !abx_str_is(path, "stop");
}

TEST(git_numstat_counts_files_once_and_names_both_ends_of_a_rename)
{
    struct abx_str text = ABX_STR("0\t0\ta\0"
                                  "4\t0\ta\0"
                                  "-\t-\tbin\0"
                                  "1\t2\t\0from\0to\0"
                                  "\0diff");
    struct abx_git_stats s;
    size_t names = 0;
    assert_true(abx_git_numstat(&text, &s, count_names, &names));
    assert_int_equal(s.files, 3);
    assert_int_equal(s.insertions, 5);
    assert_int_equal(s.deletions, 2);
    assert_int_equal(names, 5);
    assert_true(abx_str_eq(text, ABX_STR("\0diff")));
    text = ABX_STR("1\t1\tstop\0");
    assert_false(abx_git_numstat(&text, &s, count_names, &names));
    text = ABX_STR("1\t1\tcut");
    assert_true(abx_git_numstat(&text, &s, count_names, &names));
    assert_int_equal(s.files, 0);
}

TEST(git_commits_are_read_whole_or_not_at_all)
{
    struct abx_str log = ABX_STR("h1\np1 p2\na\na@x\nd1\nc\nc@x\nd2\nsubject\nbody\n\nmore\n\0"
                                 "h2\n\na\na@x\nd1\nc\nc@x\nd2\ns\n\0cut\nshort\0");
    struct abx_git_commit c;
    assert_true(abx_git_commit_next(&log, &c));
    assert_true(abx_str_is(c.hash, "h1") && abx_str_is(c.parents, "p1 p2"));
    assert_true(abx_str_is(c.subject, "subject") && abx_str_is(c.body, "body\n\nmore"));
    assert_true(abx_git_commit_next(&log, &c));
    assert_true(abx_str_is(c.hash, "h2") && c.parents.len == 0 && c.body.len == 0);
    assert_false(abx_git_commit_next(&log, &c));
}

TEST(git_references_and_blamed_lines)
{
    struct abx_str refs = ABX_STR("*\0refs/heads/a/b\0h\0origin/a\0d\0s\n"
                                  " \0refs/remotes/o/m\0h\0\0d\0\nbad\n");
    struct abx_str blame =
        ABX_STR("h1 1 7 2\nauthor A B\nauthor-time 60\nsummary s\nfilename f\n\tx\ty\n"
                "h1 2 8\nauthor A B\n\t\nh1 3 nine\n\tz\n");
    struct abx_git_ref r;
    struct abx_git_line l;
    assert_true(abx_git_ref_next(&refs, &r));
    assert_true(r.is_head && !r.is_remote && abx_str_is(r.name, "a/b"));
    assert_true(abx_str_is(r.upstream, "origin/a") && abx_str_is(r.subject, "s"));
    assert_true(abx_git_ref_next(&refs, &r));
    assert_true(!r.is_head && r.is_remote && abx_str_is(r.name, "o/m"));
    assert_false(abx_git_ref_next(&refs, &r));
    assert_true(abx_git_line_next(&blame, &l));
    assert_true(l.number == 7 && l.author_time == 60 && abx_str_is(l.text, "x\ty"));
    assert_true(abx_str_is(l.author, "A B") && abx_str_is(l.summary, "s"));
    assert_true(abx_git_line_next(&blame, &l));
    assert_true(l.number == 8 && l.text.len == 0);
    assert_false(abx_git_line_next(&blame, &l));
}
