/* lib/policy/within_test.c: one policy within another: a table, and the matrix of callers,
 * endpoints and path shapes for every preset and for documents narrowed step by step. */
#include "lib/policy/within.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/confine.h"
#include "lib/policy/paths.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

#define A "{\"id\":\"a\",\"scopes\":[\"*\"],\"token_env\":\"A\"}"
#define B "{\"id\":\"b\",\"scopes\":[\"files:*\"],\"token_env\":\"B\"}"

static struct abx_policy *load(const char *text)
{
    struct abx_policy_facts facts = {.text = abx_str(text),
                                     .has_text = true,
                                     .base_dir = ABX_STR("/srv"),
                                     .no_env = true,
                                     .layers = ABX_LAYER_ALL};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        fail_msg("%s: %s", text, abx_report_first_error(&report)->text);
    abx_report_done(&report);
    return p;
}

TEST(what_is_wider_is_told)
{
    static const struct {
        const char *narrow, *wide, *why; /* NULL: it is within */
    } rows[] = {
        {"{}", "{}", NULL},
        {"{\"preset\":\"locked\"}", "{}", NULL},
        {"{}", "{\"preset\":\"locked\"}", "enables"},
        {"{\"groups\":[\"dev_tools\"]}", "{}", "enables"},
        {"{\"endpoints\":{\"shell\":{\"scopes\":[]}}}", "{}", "fewer scopes"},
        {"{\"endpoints\":{\"shell\":{\"scopes\":[\"process:run\",\"x\"]}}}", "{}", NULL},
        {"{\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/srv/a\"]}}}}", "{}", NULL},
        {"{\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/srv/../etc\"]}}}}", "{}",
         "reaches"},
        {"{\"base_dir\":\"/\"}", "{}", "reaches"},
        {"{}", "{\"endpoints\":{\"files_*\":{\"paths\":{\"deny\":[\"*.pem\"]}}}}", "denies less"},
        {"{}", "{\"endpoints\":{\"files_*\":{\"paths\":{\"read_only\":true}}}}", "read only"},
        {"{}", "{\"endpoints\":{\"files_*\":{\"paths\":{\"symlinks\":\"never\"}}}}", "links"},
        {"{\"endpoints\":{\"shell\":{\"limits\":{\"rate_per_minute\":3}}}}", "{}", NULL},
        {"{\"endpoints\":{\"files_list\":{\"limits\":{\"max_depth\":30}}}}", "{}", "max_depth"},
        {"{}", "{\"endpoints\":{\"shell\":{\"limits\":{\"rate_per_minute\":3}}}}", "rate"},
        {"{}", "{\"endpoints\":{\"shell\":{\"params\":{\"allow_commands\":[\"ls\"]}}}}",
         "allow_commands"},
        {"{\"endpoints\":{\"shell\":{\"params\":{\"allow_commands\":[]}}}}",
         "{\"endpoints\":{\"shell\":{\"params\":{\"allow_commands\":[\"ls\"]}}}}",
         "allow_commands"},
        {"{}", "{\"endpoints\":{\"files_upload_stream\":{\"params\":{\"overwrite\":false}}}}",
         "overwrite"},
        {"{\"auth\":{\"tokens\":[" A "]}}", "{\"auth\":{\"tokens\":[" A "]}}", NULL},
        {"{\"auth\":{\"tokens\":[" B "]}}", "{\"auth\":{\"tokens\":[" A "," B "]}}",
         "only identity"},
        {"{\"auth\":{\"tokens\":[" A "]}}", "{\"auth\":{\"tokens\":[" A "," B "]}}", NULL},
        {"{\"auth\":{\"tokens\":[" A "," B "]}}", "{\"auth\":{\"tokens\":[" A "]}}", "lets 'b' in"},
        {"{}", "{\"auth\":{\"tokens\":[" A "]}}", "lets 'anonymous' in"},
        {"{\"auth\":{\"tokens\":[" A "]}}", "{}", "lets 'a' in"},
        {"{}", "{\"confine\":\"auto\"}", "confine is \"off\""},
        {"{\"confine\":\"require\"}", "{\"confine\":\"auto\"}", NULL},
        {"{\"confine\":{\"mode\":\"auto\",\"write\":[\"/data\"]}}", "{\"confine\":\"auto\"}",
         "reaches more"},
        {"{\"confine\":{\"mode\":\"auto\",\"write\":[\"/srv/x\"]}}", "{\"confine\":\"auto\"}",
         NULL},
        {"{\"confine\":{\"mode\":\"auto\",\"network\":{\"connect_ports\":[80]}}}",
         "{\"confine\":\"auto\"}", NULL},
        {"{\"confine\":\"auto\"}",
         "{\"confine\":{\"mode\":\"auto\",\"network\":{\"connect_ports\":[80]}}}", "reaches more"},
        {"{\"confine\":\"auto\"}", "{\"confine\":{\"mode\":\"auto\",\"rlimits\":{\"nofile\":9}}}",
         "rlimits"},
        {"{\"confine\":{\"mode\":\"auto\",\"rlimits\":{\"memory\":\"1GiB\"}}}",
         "{\"confine\":{\"mode\":\"auto\",\"rlimits\":{\"memory\":\"512MiB\"}}}", "rlimits"},
        {"{\"confine\":{\"users\":[\"a\"]}}", "{\"confine\":{\"users\":[\"b\",\"a\"]}}", NULL},
        {"{}", "{\"confine\":{\"users\":[\"a\"]}}", NULL},
        {"{\"confine\":{\"users\":[7]}}", "{\"confine\":{\"users\":[\"007\"]}}", NULL},
        {"{\"confine\":{\"users\":[\"a\"]}}", "{}", "as more users"},
        {"{\"confine\":{\"mode\":\"require\",\"users\":[\"a\"]}}", "{}", "as more users"},
        {"{\"confine\":{\"mode\":\"auto\",\"users\":[\"a\",\"b\"]}}",
         "{\"confine\":{\"mode\":\"auto\",\"users\":[\"a\"]}}", "as more users"},
        {"{\"confine\":{\"users\":[\"a\"],\"privileged\":true}}",
         "{\"confine\":{\"users\":[\"a\"]}}", "as more users"},
        {"{\"confine\":{\"users\":[],\"privileged\":true}}", "{}", NULL},
        {"{\"confine\":{\"mode\":\"auto\",\"nested_pty\":true}}", "{\"confine\":\"auto\"}",
         "terminals"},
        {"{\"confine\":{\"mode\":\"auto\",\"origins\":[\"https://a\"]}}", "{\"confine\":\"auto\"}",
         "origins"},
        /* without any file endpoint what runs has the base directory, to write */
        {"{\"confine\":\"auto\",\"groups\":{\"file_ops\":false}}",
         "{\"confine\":\"auto\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/srv/a\"],"
         "\"read_only\":true}}}}",
         "reaches more"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *n = load(rows[i].narrow), *w = load(rows[i].wide);
        char why[240];
        bool is = abx_policy_is_within(n, w, why);
        if (is != (rows[i].why == NULL) || (!is && strstr(why, rows[i].why) == NULL))
            fail_msg("%s in %s: %s", rows[i].narrow, rows[i].wide, is ? "is" : why);
        abx_policy_unref(n);
        abx_policy_unref(w);
    }
}

/* ---- the matrix ---- */

static const char *const shapes[] = {
    "/srv",
    "/srv/",
    "/srv/f",
    "/srv/a",
    "/srv/a/f",
    "/srv/a/../f",
    "/srv/../etc",
    "//srv/f",
    "/srv/./a//f",
    "f",
    "a/f",
    "../etc/passwd",
    "/",
    "",
    "/srvx",
    "/srv/.ssh/id",
    "/srv/k.pem",
    "/srv/.env",
    "/srv/a/.env.x/y",
    "/proc/self/environ",
    "/srv/..%2fetc",
    "/srv/a\nb",
    "/srv/\xff\xfe",
    "/data/x",
    "/srv/a/..",
};

static bool may_touch(const struct abx_policy *p, const struct abx_policy_rule *r, const char *path)
{
    struct abx_policy_root roots[8];
    struct abx_policy_verdict v = {0};
    struct abx_str root;
    struct abx_policy_path_facts f = {.roots = roots,
                                      .op = r->endpoint ? r->endpoint->op : ABX_OP_READ};
    for (; f.root_count < ABX_COUNTOF(roots) && abx_policy_root_at(p, r, f.root_count, &root);
         f.root_count++)
        roots[f.root_count] = (struct abx_policy_root){root, root};
    ABX_AUTO_BUF lexical;
    abx_buf_init(&lexical, 16384);
    if (!abx_policy_path_lexical(r, abx_str(path), roots[0].real, &lexical, &v))
        return false;
    f.lexical = f.resolved = abx_buf_str(&lexical);
    return abx_policy_path_judge(r, &f, &v, NULL);
}

/* How many of the matrix's cells are allowed; none that @wide does not allow. */
static size_t check_matrix(const struct abx_policy *n, const struct abx_policy *w)
{
    struct abx_policy_identity who, same;
    struct abx_policy_verdict v;
    size_t count, allowed = 0;
    const struct abx_policy_rule *rules = abx_policy_rules(n, &count);
    for (size_t c = 0; abx_policy_identity_at(n, c, &who); c++) {
        assert_true(abx_policy_identity_at(w, c, &same));
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < ABX_COUNTOF(shapes); k++) {
                const struct abx_policy_rule *other = abx_policy_rule(w, rules[i].id);
                bool mine = abx_policy_judge(n, &rules[i], &who, &v) &&
                            (!rules[i].takes_paths || may_touch(n, &rules[i], shapes[k]));
                bool theirs = abx_policy_judge(w, other, &same, &v) &&
                              (!other->takes_paths || may_touch(w, other, shapes[k]));
                if (mine && !theirs)
                    fail_msg("%.*s may %.*s %s, and could not before", ABX_STR_FMT(who.id),
                             ABX_STR_FMT(rules[i].id), shapes[k]);
                allowed += mine;
            }
    }
    return allowed;
}

#define TOKENS                                                                                     \
    "\"auth\":{\"tokens\":[" A "," B ",{\"id\":\"c\",\"scopes\":[\"process:*\",\"files:read\"],"   \
    "\"token_env\":\"C\"},{\"id\":\"d\",\"scopes\":[],\"token_env\":\"D\"}],"                      \
    "\"allow_anonymous\":true,\"anonymous_scopes\":[\"commands:*\"]}"

TEST(every_step_that_narrows_takes_from_the_matrix)
{
    static const char *const steps[] = {
        "{" TOKENS ",\"groups\":[\"dev_tools\",\"browser\",\"agents\"]}",
        "{" TOKENS "}",
        "{" TOKENS ",\"preset\":\"hardened\"}",
        "{" TOKENS ",\"preset\":\"hardened\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":"
        "[\"/srv/a\"]}}}}",
        "{" TOKENS ",\"preset\":\"hardened\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":"
        "[\"/srv/a\"],\"read_only\":true}}}}",
        "{" TOKENS ",\"preset\":\"hardened\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":"
        "[\"/srv/"
        "a\"],\"read_only\":true},\"scopes\":[\"files:read\",\"files:write\",\"files:delete\","
        "\"x\"]}}}",
    };
    size_t before = SIZE_MAX;
    for (size_t i = 0; i < ABX_COUNTOF(steps); i++) {
        struct abx_policy *n = load(steps[i]), *w = load(steps[i > 0 ? i - 1 : 0]);
        char why[240];
        if (!abx_policy_is_within(n, w, why))
            fail_msg("step %zu: %s", i, why);
        size_t allowed = check_matrix(n, w);
        assert_true(allowed > 0 && allowed < before);
        if (i > 0)
            assert_false(abx_policy_is_within(w, n, why));
        before = allowed;
        abx_policy_unref(n);
        abx_policy_unref(w);
    }
}

TEST(every_preset_is_within_default)
{
    static const char *const presets[] = {"transfer-only", "read-only", "hardened", "locked"};
    struct abx_policy *w = load("{" TOKENS "}");
    for (size_t i = 0; i < ABX_COUNTOF(presets); i++) {
        char text[1024], why[240];
        snprintf(text, sizeof(text), "{%s,\"preset\":\"%s\"}", TOKENS, presets[i]);
        struct abx_policy *n = load(text);
        if (!abx_policy_is_within(n, w, why))
            fail_msg("%s: %s", presets[i], why);
        assert_true(check_matrix(n, w) > 0);
        abx_policy_unref(n);
    }
    abx_policy_unref(w);
}
