/* lib/policy/guards.h: what handlers ask before they act: commands, variables, names. Pure.
 * Every function: true = allowed; false = denied, with the answer in @v. Spec: policy.md A9, A12.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/policy/policy.h"

enum { ABX_ARGV_MAX = 256, ABX_ARGV_WORD_MAX = 4096 };

/** Splits a command line as a POSIX shell does, without expansion. Words are copied to @a. 0; -1
 *  for an open quote or a trailing backslash. */
int abx_policy_words_split(struct abx_str line, struct abx_arena *a, struct abx_str_list *ret);

/** Asks whether a word that stands for {path} may be used; fills @ret_path (in @a) with its
 * canonical form, which replaces the word (P3). False with the verdict set. */
typedef bool (*abx_policy_path_fn)(void *ctx, struct abx_str word, struct abx_arena *a,
                                   struct abx_str *ret_path, struct abx_policy_verdict *v);
struct abx_policy_command {
    struct abx_str_list argv;
    struct abx_str program; /* what argv[0] is: the file found by the server's PATH, real path */
    struct abx_str path_program; /* what the server's PATH gives for argv[0]'s base name (P4) */
    abx_policy_path_fn path;
    void *path_ctx;
};
/** Word counts, /proc-like programs, deny_commands, allow_commands. *ret_argv (in @a) is the argv
 * to run: canonical paths in place of {path} words. */
bool abx_policy_command_check(const struct abx_policy_rule *rule,
                              const struct abx_policy_command *command, struct abx_arena *a,
                              struct abx_str_list *ret_argv, struct abx_policy_verdict *v);

/** One variable of a request's `env` for a process. @narrowed: allow_commands is in force. */
bool abx_policy_exec_env_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                               struct abx_str name, struct abx_str value,
                               struct abx_policy_verdict *v);
/** GET /env shows @name, POST /env may set it. */
bool abx_policy_env_visible(const struct abx_policy *p, const struct abx_policy_rule *rule,
                            struct abx_str name);
bool abx_policy_env_set_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                              struct abx_str name, struct abx_policy_verdict *v);
/** allow_extensions and deny_extensions on the last suffix of @path. */
bool abx_policy_extension_check(const struct abx_policy_rule *rule, struct abx_str path,
                                struct abx_policy_verdict *v);
bool abx_policy_signal_check(const struct abx_policy_rule *rule, int64_t signal,
                             struct abx_policy_verdict *v);
bool abx_policy_shell_check(const struct abx_policy_rule *rule, struct abx_str shell,
                            struct abx_policy_verdict *v);
bool abx_policy_language_check(const struct abx_policy_rule *rule, struct abx_str language,
                               struct abx_policy_verdict *v);
/** The env names of a new terminal: env_deny, exact or glob (P26). */
bool abx_policy_pty_env_check(const struct abx_policy_rule *rule, struct abx_str name,
                              struct abx_policy_verdict *v);
