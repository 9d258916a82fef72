/* lib/policy/guards.h: what handlers ask before they act: programs, commands, variables, names.
 *
 * Pure. Every *_check: true = allowed; false = denied, with the answer in @v. Order for a process
 * (server-api.md 4.5): program, each env variable, command, cwd by paths.h, secret names.
 * Spec: policy.md A9, A12. */
#pragma once
#include "lib/base/arena.h"
#include "lib/policy/policy.h"

enum { ABX_ARGV_MAX = 256, ABX_ARGV_WORD_MAX = 4096 /* characters */ };

/** Splits a command line as a POSIX shell does, nothing is expanded. Words live in @a. 0; -1 for an
 *  open quote, a backslash at the end, or no memory. */
int abx_policy_words_split(struct abx_str line, struct abx_arena *a, struct abx_str_list *ret);

/** Whether it is /proc, /sys or /dev, or beneath one of them. */
bool abx_policy_is_kernel_path(struct abx_str path);
/** @argv0 as given; @program: the file that it is, links followed (ptr NULL: not found). */
bool abx_policy_program_check(const struct abx_policy_rule *rule, struct abx_str argv0,
                              struct abx_str program, struct abx_policy_verdict *v);

/** Whether a word that stands for {path} may be used, judged as path with ABX_OP_EXEC; *ret_path
 * (in
 *  @a) is its canonical form, which is run in the word's place (P3). False with the verdict set. */
typedef bool (*abx_policy_path_fn)(void *ctx, struct abx_str word, struct abx_arena *a,
                                   struct abx_str *ret_path, struct abx_policy_verdict *v);
struct abx_policy_command {
    struct abx_str_list argv;
    /* Only when argv[0] holds a slash: the file it is, and the file that the server's own PATH
     * gives for its base name, links followed in both; ptr NULL: none (P4). */
    struct abx_str program, path_program;
    abx_policy_path_fn path;
    void *path_ctx;
    bool
        is_shell_line; /* argv is SHELL -c LINE: no deny list is held, so none lets it pass (D35) */
};
/** How many words, how long; then deny_commands, then allow_commands. *ret_argv (in @a) is what to
 *  run. */
bool abx_policy_command_check(const struct abx_policy_rule *rule,
                              const struct abx_policy_command *command, struct abx_arena *a,
                              struct abx_str_list *ret_argv, struct abx_policy_verdict *v);
/** A command list is in force: then programs are looked up by the server's PATH only (P4). */
bool abx_policy_has_command_rule(const struct abx_policy_rule *rule);

/** A variable of a request's `env`, or of POST /env: its name, its value, ABX_*. */
bool abx_policy_env_check(const struct abx_policy_rule *rule, struct abx_str name,
                          struct abx_str value, struct abx_policy_verdict *v);
/** Names that no process may be given: secrets, and where a command list is in force those that
 *  choose what is run (security.md S13). */
bool abx_policy_exec_env_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                               struct abx_str name, struct abx_policy_verdict *v);
/** Names that a narrow identity beside others may set for no process, its own included (security.md
 * S13). */
bool abx_policy_env_overlay_check(const struct abx_policy_rule *rule,
                                  const struct abx_policy_identity *who, struct abx_str name,
                                  struct abx_policy_verdict *v);
/** POST /env: the same names, for whoever does not run what it likes anyway: what is set there
 * reaches the programs of command lists, and those that the server runs for itself. */
bool abx_policy_env_base_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                               const struct abx_policy_identity *who, struct abx_str name,
                               struct abx_policy_verdict *v);
/** Whether GET /env shows @name. */
bool abx_policy_env_visible(const struct abx_policy *p, const struct abx_policy_rule *rule,
                            struct abx_str name);
/** Whether a value is of a form that only credentials have (D15). */
bool abx_policy_env_value_is_secret(struct abx_str value);
/** POST /env, after abx_policy_env_check(). */
bool abx_policy_env_set_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                              struct abx_str name, struct abx_policy_verdict *v);
/** The env names of a new terminal: env_deny, exact or glob (P26). */
bool abx_policy_pty_env_check(const struct abx_policy_rule *rule, struct abx_str name,
                              struct abx_policy_verdict *v);

/** allow_extensions, deny_extensions: the last suffix of @path's name. */
bool abx_policy_extension_check(const struct abx_policy_rule *rule, struct abx_str path,
                                struct abx_policy_verdict *v);
bool abx_policy_signal_check(const struct abx_policy_rule *rule, int64_t signal,
                             struct abx_policy_verdict *v);
bool abx_policy_shell_check(const struct abx_policy_rule *rule, struct abx_str shell,
                            struct abx_policy_verdict *v);
bool abx_policy_language_check(const struct abx_policy_rule *rule, struct abx_str language,
                               struct abx_policy_verdict *v);
