/* lib/policy/lint.c: what is valid and yet likely not meant: the published findings L1-L4 and those
 * of ours (LX) that need no file system. Spec: policy.md A17, C6. */
#include "lib/policy/lint_priv.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static bool narrows(const struct abx_policy_rule *r)
{
    return r->takes_paths && (r->paths.allow.count > 0 || r->paths.deny.count > 0 ||
                              r->paths.read_only || r->paths.never_links);
}

bool abx__reaches(const struct abx_policy_rule *r, const struct abx_policy_identity *who)
{
    return r->enabled && abx_scope_missing(who->scopes, r->scopes).ptr == NULL;
}

enum { FINDING_TEXT = 512 };

static void find(const struct abx__lint *l, struct abx__finding f, const char *text)
{
    f.kind = ABX_FINDING_WARNING;
    f.at_key = true;
    abx__report_add(l->report, l->policy->text, &f, "%s", text);
}

void abx__warn(const struct abx__lint *l, const char *rule, const struct abx_json_node *node,
               const char *fmt, ...)
{
    char text[FINDING_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    find(l, (struct abx__finding){.rule = rule, .node = node}, text);
}

void abx__fault(const struct abx__lint *l, const char *rule, const struct abx_json_node *node,
                const char *fmt, ...)
{
    char text[FINDING_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    find(l, (struct abx__finding){.rule = rule, .node = node, .is_error_level = true}, text);
}

/* ---- L1 ---- */

static int compare_ids(const void *left, const void *right)
{
    const struct abx_policy_rule *a = *(const struct abx_policy_rule *const *)left,
                                 *b = *(const struct abx_policy_rule *const *)right;
    return strcmp(a->id.ptr, b->id.ptr);
}

enum { SHOWN = 3, RULES_MAX = 256 };

/* The IDs that @who reaches and @wanted picks, sorted; how many. */
static size_t collect(const struct abx_policy *p, const struct abx_policy_identity *who,
                      bool (*wanted)(const struct abx_policy_rule *),
                      const struct abx_policy_rule **out)
{
    size_t count = 0;
    for (size_t i = 0; i < p->rule_count && count < RULES_MAX; i++)
        if (p->rules[i].endpoint != NULL && !abx_policy_is_extension(&p->rules[i]) &&
            wanted(&p->rules[i]) && abx__reaches(&p->rules[i], who))
            out[count++] = &p->rules[i];
    qsort(out, count, sizeof(*out), compare_ids);
    return count;
}

static bool is_exec(const struct abx_policy_rule *r)
{
    return r->endpoint->flags & ABX_EP_EXEC;
}

static void put_ids(struct abx_buf *out, const struct abx_policy_rule *const *rules, size_t count)
{
    for (size_t i = 0; i < count && i < SHOWN; i++)
        abx_buf_putf(out, "%s%.*s", i ? ", " : "", ABX_STR_FMT(rules[i]->id));
    if (count > SHOWN)
        abx_buf_putf(out, " and %zu more", count - SHOWN);
}

static void lint_paths_beside_exec(const struct abx__lint *l)
{
    const struct abx_policy_rule *files[RULES_MAX], *programs[RULES_MAX];
    struct abx_policy_identity who;
    for (size_t i = 0; abx_policy_identity_at(l->policy, i, &who); i++) {
        size_t file_count = collect(l->policy, &who, narrows, files),
               program_count = collect(l->policy, &who, is_exec, programs);
        if (file_count == 0 || program_count == 0)
            continue;
        ABX_AUTO_BUF text;
        abx_buf_init(&text, 1024);
        put_ids(&text, files, file_count);
        abx_buf_put_c(&text, ") and can also run programs (");
        put_ids(&text, programs, program_count);
        abx__warn(l, "L1", NULL,
                  "identity '%.*s' is bound to paths (%s), which the path rules do not bind",
                  (int)(who.id.len < 80 ? who.id.len : 80), who.id.ptr,
                  text.failed ? "" : text.ptr);
    }
}

/* ---- L2 to L4 ---- */

static bool is_filesystem_root(struct abx_str path)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, path.len + 2);
    if (abx_str_starts(path, "//") && !abx_str_starts(path, "///"))
        return false; /* exactly two slashes stay two: missed as published */
    return abx_policy_path_normalise(path, ABX_STR("/"), &out) && out.len == 1;
}

static void lint_roots(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_policy_rule *r = &p->rules[i];
        if (abx_policy_is_extension(r)) /* its parents are named */
            continue;
        for (size_t k = 0; k < r->paths.allow.count; k++) {
            if (!is_filesystem_root(r->paths.allow.items[k]))
                continue;
            abx__warn(l, "L2", NULL, "endpoint '%.*s' allows the root of the file system",
                      ABX_STR_FMT(r->id));
            break;
        }
    }
}

static bool holds_all(struct abx_str_list scopes)
{
    for (size_t i = 0; i < scopes.count; i++)
        if (abx_str_is(scopes.items[i], "*"))
            return true;
    return false;
}

static void lint_wide_tokens(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    bool any = false;
    for (size_t i = 0; i < p->token_count; i++)
        any |= holds_all(p->tokens[i].scopes);
    if (p->token_count > 1 && any)
        abx__warn(l, "L3", NULL, "a token with the scope \"*\" stands beside other tokens");
}

static void lint_overwrite(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_policy_rule *r = &p->rules[i];
        const struct abx_policy_param *overwrite = &r->params[ABX_PARAM_OVERWRITE];
        if (overwrite->is_set && !overwrite->flag && r->paths.allow.count == 0 &&
            !abx_policy_is_extension(r))
            abx__warn(l, "L4", NULL,
                      "endpoint '%.*s' forbids overwriting but has no paths.allow to hold it",
                      ABX_STR_FMT(r->id));
    }
}

void abx_policy_lint(const struct abx_policy *p, bool pedantic, struct abx_report *report)
{
    const struct abx__lint l = {p, report};
    lint_paths_beside_exec(&l);
    lint_roots(&l);
    lint_wide_tokens(&l);
    lint_overwrite(&l);
    if (pedantic) {
        abx__lint_more(&l);
        abx__lint_confine(&l);
    }
}
