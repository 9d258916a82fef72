/* lib/policy/paths.h: which path an endpoint may touch. Pure: the caller resolves links and passes
 * the result in, best the path of the object that it has already opened (security.md S17).
 *
 * Order of use: abx_policy_path_lexical(), resolve, abx_policy_path_judge(). Spec: policy.md A10.
 */
#pragma once
#include "lib/policy/policy.h"

enum { ABX_POLICY_PATH_MAX = 4096 }; /* characters */

/** One root, as written and with all links followed (missing parts kept). */
struct abx_policy_root {
    struct abx_str given; /* normalised by abx_policy_path_normalise() */
    struct abx_str real;
};
struct abx_policy_path_facts {
    const struct abx_policy_root *roots; /* those of the rule, in its order; at least one */
    size_t root_count;
    struct abx_str lexical;  /* from abx_policy_path_lexical() */
    struct abx_str resolved; /* all links followed, missing parts kept, a loop left as it is */
    /* absolute deny patterns with the links of their heads followed (abx_policy_deny_head), same
     * order as paths.deny; NULL, or an item with ptr NULL: none (P5) */
    const struct abx_str *resolved_deny;
    enum abx_path_op op;
    const char *field; /* prefix of the text: "cwd"; NULL = none */
};
/** The roots of @rule as written: `allow`, else the base directory. Index from 0; false at the end.
 */
bool abx_policy_root_at(const struct abx_policy *p, const struct abx_policy_rule *rule,
                        size_t index, struct abx_str *ret);
/** ".", ".." and "//" by text alone; the result is absolute. @base: for a relative path. Exactly
 *  two leading slashes are folded too (P28). False without room. */
bool abx_policy_path_normalise(struct abx_str path, struct abx_str base, struct abx_buf *out);
/** Step 1 and 2: the lexical path into @out. @first_root: the real path of the rule's first root
 *  (relative paths start there, P27). False: 400 in @v. */
bool abx_policy_path_lexical(const struct abx_policy_rule *rule, struct abx_str path,
                             struct abx_str first_root, struct abx_buf *out,
                             struct abx_policy_verdict *v);
/** Steps 4-7. False: 403 in @v. On true *ret_root (may be NULL) is the root that holds it. */
bool abx_policy_path_judge(const struct abx_policy_rule *rule,
                           const struct abx_policy_path_facts *facts, struct abx_policy_verdict *v,
                           size_t *ret_root);
/** Whether a deny pattern of @rule (or /proc, /sys, /dev) hits @path; for entries of listings. */
bool abx_policy_path_is_denied(const struct abx_policy_rule *rule, struct abx_str path);
/** The literal folders of an absolute @pattern ("/a/b" of "/a/b/c*" and of "/a/b/c": the last part
 *  is a name, not followed) and the rest. A caller that resolves the head's links builds
 *  abx_policy_path_facts.resolved_deny from it, the head escaped by abx_policy_glob_escape() (P5).
 *  False: no such head. */
bool abx_policy_deny_head(struct abx_str pattern, struct abx_str *ret_head,
                          struct abx_str *ret_tail);
void abx_policy_glob_escape(struct abx_buf *out, struct abx_str literal);
/** As above for one pattern. */
bool abx_policy_deny_matches(struct abx_str pattern, struct abx_str path);
bool abx_policy_path_is_root(const struct abx_policy_path_facts *facts, struct abx_str resolved);
