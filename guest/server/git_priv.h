/* guest/server/git_priv.h: what the git endpoints share: a plan, then runs of git (git.c). */
#pragma once
#include "guest/caps/git.h"
#include "guest/server/server_priv.h"
#include "lib/proc/confine.h"

struct abx__git;
struct abx__git_verb {
    /** Loop thread: `settings` is known; ends with abx__git_start() or an answer. */
    void (*run)(struct abx__git *g);
    bool shows_content; /* with deny patterns one `file` must be named */
    bool needs_file, needs_tree;
};
struct abx__git_plan {
    const struct abx__git_verb *verb;
    struct abx_str path; /* resolved folder */
    struct abx_str file; /* as given, beneath path; ptr NULL: none */
    struct abx_git_place place;
    struct abx_str *roots; /* resolved: what git may read, and the system */
    size_t root_count;
};
struct abx__git {
    struct abx__call *call;
    struct abx__git_plan plan;
    struct abx_str settings; /* of the repository, to be disarmed */
    struct abx_git_stats stats;
    void (*next)(struct abx__git *g, struct abx_str out, bool is_cut);
    void *data; /* of the verb */
};
/** Judges `path` and `file`, finds the repository, then verb->run. */
void abx__git_serve(struct abx__call *c, const struct abx__git_verb *verb);
/** Runs git with the words behind the options that disarm the repository; @next gets the first @max
 * bytes of the output. What fails is answered. The words are copied. */
void abx__git_start(struct abx__git *g, const char *const *words, size_t max,
                    void (*next)(struct abx__git *g, struct abx_str out, bool is_cut));
/** The `--numstat -z` at the front of the output, into g->stats. False: it names a denied path, and
 * that is answered. */
bool abx__git_read_names(struct abx__git *g, struct abx_str *inout_text, bool is_cut);
/** "diff" and "stats" of the open object: the text, with a line that says so when it was cut. */
void abx__git_put_diff(const struct abx__git *g, struct abx_json_writer *w, struct abx_str out,
                       bool is_cut);
void abx__git_no_memory(struct abx__git *g);

/* ---- git_held.c ---- */

/** What the kernel holds git to where no `confine` does: reading the roots of its rule and the
 * system. *ret has one reference; NULL: this kernel can not, or git lies elsewhere. Loop thread. -1
 * with @err. */
int abx__git_hold(const struct abx__git *g, const struct abx_confine **ret, struct abx_error *err);
