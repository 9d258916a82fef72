/* guest/caps/git.h: git's read verbs: which repository, which argv, what the output means.
 * Protocol-free; starts nothing itself. security S18: nothing that the repository says is run. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- where ---- */

struct abx_git_place {
    struct abx_str top; /* of the work tree; empty: @path lies in the repository's own folder */
    struct abx_str dir; /* the repository, links not followed: "TOP/.git", or where its file says */
};
/** Climbs from @path (absolute, resolved) to the next folder with a repository, at most to the
 * folder for which @is_top says so. Blocks. False: there is none. */
bool abx_git_find(struct abx_str path, bool (*is_top)(void *ctx, struct abx_str folder), void *ctx,
                  struct abx_arena *a, struct abx_git_place *ret);

/** False: out of bounds. May put the place that links lead to into *inout_path. */
typedef bool abx_git_check_fn(void *ctx, struct abx_str *inout_path);
/** Whether each folder passes that git would read beside @place because a file in it says so: the
 * one that it shares with others (commondir), objects that it borrows (alternates), of those too.
 * False also for files that can not be understood. Blocks. */
bool abx_git_check_links(const struct abx_git_place *place, abx_git_check_fn *check, void *ctx,
                         struct abx_arena *a);

/* ---- what is run ---- */

enum { ABX_GIT_WORDS = 1024 };
struct abx_git_words { /* an argv under construction; sticky: argv NULL once memory is out */
    struct abx_arena *arena;
    char **argv; /* NULL-terminated */
    size_t count;
};
/** "git", and the options that no configuration of the repository can undo. */
void abx_git_begin(struct abx_git_words *w, struct abx_arena *a);
void abx_git_add(struct abx_git_words *w, const char *word);
void abx_git_add_str(struct abx_git_words *w, struct abx_str word);
/** NULL-terminated list. */
void abx_git_add_all(struct abx_git_words *w, const char *const *words);
/** Lists, NUL-terminated, the settings that abx_git_add_disarmed() must take back. */
void abx_git_ask_settings(struct abx_git_words *w, struct abx_arena *a);
/** For each name in @settings (the output of the above) an option that empties it. False: more than
 * there is room for, or a name that can not be one. */
bool abx_git_add_disarmed(struct abx_git_words *w, struct abx_str settings);
/** The environment: @base without GIT_*, then what bounds git to @place. NULL without memory. */
char **abx_git_environment(char *const *base, const struct abx_git_place *place,
                           struct abx_arena *a);
/** A revision that a client may name: no option, no path in a tree, no blank or control byte. */
bool abx_git_is_revision(struct abx_str s);

/* ---- what comes out ---- */

/** "branch" of the header line of `status --porcelain -b`: up to "...", as git wrote it. */
struct abx_str abx_git_branch(struct abx_str *inout_status);
struct abx_git_entry {
    struct abx_str path;
    char status[12]; /* "modified", "untracked", or git's letter */
};
/** The next line of `status --porcelain`; false at the end. */
bool abx_git_status_next(struct abx_str *inout_status, struct abx_git_entry *ret);

struct abx_git_stats {
    uint64_t files, insertions, deletions;
};
/** The records of `--numstat -z` at the front of @inout_text, which is left after them. @on_path
 * (may be NULL) for each name; false from it ends with false. */
bool abx_git_numstat(struct abx_str *inout_text, struct abx_git_stats *ret,
                     bool (*on_path)(void *ctx, struct abx_str path), void *ctx);

struct abx_git_commit { /* slices of the output */
    struct abx_str hash, parents, author, author_mail, author_date;
    struct abx_str committer, committer_mail, committer_date;
    struct abx_str subject, body;
};
/** What `log -z` must print for abx_git_commit_next(). */
#define ABX_GIT_COMMIT_FORMAT "--format=tformat:%H%n%P%n%an%n%ae%n%aI%n%cn%n%ce%n%cI%n%s%n%b"
bool abx_git_commit_next(struct abx_str *inout_log, struct abx_git_commit *ret);

struct abx_git_ref {
    bool is_head, is_remote;
    struct abx_str name, hash, upstream, date, subject;
};
/** What `for-each-ref` must print for abx_git_ref_next(). */
#define ABX_GIT_REF_FORMAT                                                                         \
    "--format=%(HEAD)%00%(refname)%00%(objectname)%00%(upstream:short)%00"                         \
    "%(committerdate:iso-strict)%00%(subject)"
bool abx_git_ref_next(struct abx_str *inout_refs, struct abx_git_ref *ret);

struct abx_git_line { /* of `blame --line-porcelain` */
    uint64_t number;
    struct abx_str hash, author, summary, text;
    int64_t author_time; /* seconds since the epoch */
};
bool abx_git_line_next(struct abx_str *inout_blame, struct abx_git_line *ret);
