/* lib/policy/policy_fuzz.c: any document: it is refused with a sentence and a place, or it decides
 * the same twice, and a narrower document put on top never allows more. The first byte picks the
 * overlay, the rest is the text. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy.h"

#include "lib/base/banned.h"

enum { TEXT_MAX = 32768 };

static const char *getenv_some(void *ctx, const char *name)
{
    (void)ctx;
    return name[0] == 'A' ? "value-of-a-variable-long-enough" : NULL;
}

static struct abx_policy *load(struct abx_str text, const char *preset)
{
    struct abx_policy_facts facts = {
        .text = text, .has_text = true, .preset = abx_str(preset), .getenv = getenv_some};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    int rc = abx_policy_load(&facts, &p, &report);
    if (rc == 0)
        abx_policy_lint(p, true, &report);
    ABX_ASSERT((rc == 0) == (report.errors == 0) && (rc == 0) == (p != NULL));
    const struct abx_finding *first = abx_report_first_error(&report);
    ABX_ASSERT((first == NULL) == (rc == 0) && (first == NULL || first->text[0] != '\0'));
    for (size_t i = 0; i < report.count; i++)
        ABX_ASSERT(report.items[i].text != NULL &&
                   (report.items[i].line > 0) == (report.items[i].column > 0));
    abx_report_done(&report);
    return p;
}

/* With the groups of "hardened" off nothing is allowed that was not, whoever asks: a preset only
 * takes away where the document says nothing itself, so it is compared with "default". */
static void check_narrower(struct abx_str text)
{
    struct abx_policy *wide = load(text, "default"), *narrow = load(text, "hardened");
    ABX_ASSERT((wide == NULL) == (narrow == NULL));
    size_t count;
    const struct abx_policy_rule *rules = wide ? abx_policy_rules(wide, &count) : NULL;
    for (size_t i = 0; rules != NULL && i < count; i++) {
        const struct abx_policy_rule *other = abx_policy_rule(narrow, rules[i].id);
        ABX_ASSERT(rules[i].enabled || !other->enabled);
        ABX_ASSERT(rules[i].enabled == (rules[i].disabled_by.ptr == NULL));
        ABX_ASSERT(other->paths.deny.count >= rules[i].paths.deny.count);
        struct abx_policy_identity who;
        struct abx_policy_verdict v;
        for (size_t k = 0; k < 4 && abx_policy_identity_at(wide, k, &who); k++)
            ABX_ASSERT(abx_policy_judge(wide, &rules[i], &who, &v) ||
                       !abx_policy_judge(narrow, other, &who, &v));
    }
    abx_policy_unref(wide);
    abx_policy_unref(narrow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > TEXT_MAX)
        return 0;
    struct abx_str text = abx_str_n((const char *)data + 1, size - 1);
    if (data[0] & 1) {
        check_narrower(text);
        return 0;
    }
    struct abx_policy *a = load(text, NULL), *b = load(text, NULL);
    ABX_ASSERT((a == NULL) == (b == NULL));
    if (a != NULL)
        ABX_ASSERT(strcmp(abx_policy_revision(a), abx_policy_revision(b)) == 0 &&
                   strlen(abx_policy_revision(a)) == 16);
    abx_policy_unref(a);
    abx_policy_unref(b);
    return 0;
}
