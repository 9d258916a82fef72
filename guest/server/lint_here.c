/* guest/server/lint_here.c: what the files and the environment of this machine say of a policy
 * (lint_here.h). */
#include "guest/server/lint_here.h"

#include "guest/caps/tree.h"
#include "guest/server/as_user.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/contract/contract.h"
#include "lib/policy/confine.h"
#include "lib/policy/paths.h"
#include "lib/policy/within.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

enum { TEXT = 512, PATH_BYTES = 8192 };

struct here {
    const struct abx_policy *policy;
    struct abx_report *report;
    struct abx_arena arena;
};

__attribute__((format(printf, 4, 5))) static void add(struct here *h, const char *rule,
                                                      bool is_error, const char *fmt, ...)
{
    char text[TEXT];
    struct abx_report *r = h->report;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (r->items == NULL)
        r->items = abx_arena_array(&r->arena, ABX_REPORT_MAX, sizeof(*r->items));
    const char *kept = abx_arena_c(&r->arena, abx_str(text));
    if (r->items == NULL || r->count >= ABX_REPORT_MAX || kept == NULL) {
        r->dropped++;
        return;
    }
    r->items[r->count++] = (struct abx_finding){
        .kind = ABX_FINDING_WARNING, .rule = rule, .text = kept, .is_error_level = is_error};
}

static struct abx_str resolve(void *ctx, struct abx_str path, struct abx_arena *a)
{
    ABX_AUTO_BUF out = {0};
    (void)ctx;
    abx_buf_init(&out, PATH_BYTES);
    if (abx_tree_resolve(path, false, &out) < 0 || abx_buf_failed(&out))
        return (struct abx_str){0};
    return abx_arena_str(a, abx_buf_str(&out));
}

static bool exists(struct here *h, struct abx_str path)
{
    struct stat st;
    const char *text = abx_arena_c(&h->arena, path);
    return text != NULL && stat(text, &st) == 0;
}

/* ---- LX10 ---- */

static bool is_repeated(const struct abx_policy_rule *rules, size_t at, struct abx_str root)
{
    for (size_t i = 0; i < at; i++)
        for (size_t k = 0; k < rules[i].paths.allow.count; k++)
            if (abx_str_eq(rules[i].paths.allow.items[k], root))
                return true;
    return false;
}

static void lint_roots(struct here *h)
{
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(h->policy, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rules[i].paths.allow.count; k++) {
            struct abx_str root = rules[i].paths.allow.items[k];
            if (!is_repeated(rules, i, root) && !exists(h, root))
                add(h, "LX10", false, "the root %.*s does not exist here", ABX_STR_FMT(root));
        }
}

/* ---- LX17 ---- */

static bool is_beneath(struct abx_str path, struct abx_str root)
{
    return abx_str_is(root, "/") ||
           (path.len >= root.len && memcmp(path.ptr, root.ptr, root.len) == 0 &&
            (path.len == root.len || path.ptr[root.len] == '/'));
}

static void lint_file(struct here *h, const char *what, struct abx_str path)
{
    struct abx_policy_identity who;
    struct abx_policy_view view;
    struct abx_str real = resolve(NULL, path, &h->arena);
    for (size_t i = 0; real.ptr && abx_policy_identity_at(h->policy, i, &who); i++) {
        if (abx_policy_view(h->policy, NULL, &who, resolve, NULL, &h->arena, &view) < 0)
            return;
        for (size_t k = 0; k < view.write.count; k++)
            if (is_beneath(real, view.write.items[k])) {
                add(h, "LX17", true, "the %s %.*s lies where '%.*s' may write", what,
                    ABX_STR_FMT(path), (int)(who.id.len < 80 ? who.id.len : 80), who.id.ptr);
                return;
            }
    }
}

static void lint_files(struct here *h, const struct abx__policy_source *source)
{
    const struct abx_policy_confine *c = abx_policy_confinement(h->policy);
    if (source->path != NULL && source->path[0] == '/')
        lint_file(h, "policy", abx_str(source->path));
    if (c->audit.file.ptr != NULL)
        lint_file(h, "audit file", c->audit.file);
    lint_file(h, "server's program", resolve(NULL, ABX_STR("/proc/self/exe"), &h->arena));
}

/* ---- LX18 ---- */

/* Without the kernel a narrow caller's program reaches the services of the sandbox by loopback. */
static void lint_loopback(struct here *h)
{
    const char *guard = getenv(ABX_ENV_LOOPBACK_GUARD);
    struct abx_policy_identity who;
    struct abx_policy_verdict v;
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(h->policy, &count);
    if ((guard && strcmp(guard, "1") == 0) || abx_policy_confine(h->policy) != ABX_CONFINE_OFF)
        return;
    for (size_t i = 0; abx_policy_identity_at(h->policy, i, &who); i++)
        for (size_t k = 0; !who.is_wide && k < count; k++)
            if (abx_policy_runs_programs(&rules[k]) &&
                abx_policy_judge(h->policy, &rules[k], &who, &v)) {
                add(h, "LX18", false,
                    "'%.*s' may run programs (%.*s), which can reach other services by loopback "
                    "unless their guard (" ABX_ENV_LOOPBACK_GUARD "=1) or \"confine\" is on",
                    (int)(who.id.len < 80 ? who.id.len : 80), who.id.ptr, ABX_STR_FMT(rules[k].id));
                return;
            }
}

/* ---- LX27 ---- */

static void lint_users(struct here *h)
{
    const char *why;
    struct abx_str user = abx__user_out_of_reach(h->policy, &why);
    if (user.ptr)
        add(h, "LX27", false, "confine.users: programs can not run as '%.*s' here: %s",
            (int)(user.len < 80 ? user.len : 80), user.ptr, why);
}

/* ---- LX26 ---- */

static void lint_environment(struct here *h, const struct abx__policy_source *source,
                             const struct abx__policy_args *args)
{
    const char *groups = getenv("ABX_SERVER_ENABLED_GROUPS");
    struct abx__policy_args without = *args;
    struct abx_policy *plain = NULL;
    struct abx_report report;
    char why[240];
    if (groups == NULL || groups[0] == '\0')
        return;
    without.without_groups = true;
    without.routes_unknown = true;
    abx_report_init(&report);
    if (abx__policy_source_load(source, &without, &plain, &report) == 0 &&
        !abx_policy_is_within(h->policy, plain, why))
        add(h, "LX26", false, "ABX_SERVER_ENABLED_GROUPS widens the document: %s", why);
    abx_policy_unref(plain);
    abx_report_done(&report);
}

void abx__lint_here(const struct abx__policy_source *source, const struct abx__policy_args *args,
                    const struct abx_policy *p, struct abx_report *report)
{
    struct here h = {.policy = p, .report = report};
    abx_arena_init(&h.arena, 32 << 20);
    lint_roots(&h);
    lint_files(&h, source);
    lint_loopback(&h);
    lint_users(&h);
    lint_environment(&h, source, args);
    abx_arena_done(&h.arena);
}
