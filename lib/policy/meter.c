/* lib/policy/meter.c: token buckets and slots, one pair per (identity, endpoint) that has a limit.
 *
 * The table is identities x endpoints, made at once: nothing a caller sends makes it grow.
 * Spec: policy.md A11. */
#include "lib/policy/meter.h"

#include "lib/base/buf.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

struct cell {
    bool is_used;
    double tokens;
    int64_t filled_ms;
    uint64_t in_flight;
};
struct abx_policy_meter {
    unsigned refs;
    struct abx_policy *policy;
    size_t rule_count, identity_count; /* the last identity is anonymous */
    struct cell *cells;
};

struct abx_policy_meter *abx_policy_meter_new(struct abx_policy *p)
{
    struct abx_policy_meter *m = calloc(1, sizeof(*m));
    struct abx_policy_identity who;
    size_t count;
    if (m == NULL)
        return NULL;
    while (abx_policy_identity_at(p, m->identity_count, &who) && who.index != ABX_POLICY_ANONYMOUS)
        m->identity_count++;
    m->identity_count++; /* open routes run as anonymous, allowed or not */
    (void)abx_policy_rules(p, &m->rule_count);
    if (abx_size_mul(m->identity_count, m->rule_count, &count))
        m->cells = calloc(count, sizeof(*m->cells));
    if (m->cells == NULL) {
        free(m);
        return NULL;
    }
    m->policy = abx_policy_ref(p);
    m->refs = 1;
    return m;
}

struct abx_policy_meter *abx_policy_meter_ref(struct abx_policy_meter *m)
{
    m->refs++;
    return m;
}

void abx_policy_meter_unref(struct abx_policy_meter *m)
{
    if (m == NULL || --m->refs > 0)
        return;
    abx_policy_unref(m->policy);
    free(m->cells);
    free(m);
}

static struct cell *find(struct abx_policy_meter *m, const struct abx_policy_rule *rule,
                         const struct abx_policy_identity *who)
{
    size_t row = who->index < m->identity_count - 1 ? who->index : m->identity_count - 1;
    return &m->cells[row * m->rule_count + rule->index];
}

/* P14: probes of /health are not counted. */
static bool is_counted(const struct abx_policy_rule *rule)
{
    return rule->endpoint == NULL || !rule->is_open;
}

static void refill(struct cell *c, double capacity, int64_t now_ms)
{
    if (!c->is_used) {
        *c = (struct cell){true, capacity, now_ms, c->in_flight};
        return;
    }
    int64_t passed = now_ms > c->filled_ms ? now_ms - c->filled_ms : 0;
    c->tokens = fmin(capacity, c->tokens + (double)passed * capacity / 60000.0);
    c->filled_ms = now_ms;
}

static bool take_token(struct cell *c, double capacity, int64_t now_ms,
                       struct abx_policy_verdict *v)
{
    refill(c, capacity, now_ms);
    if (c->tokens >= 1) {
        c->tokens -= 1;
        return true;
    }
    double wait = ceil((1 - c->tokens) * 60.0 / capacity);
    v->retry_after_s = wait > 1 ? (uint64_t)wait : 1;
    return false;
}

bool abx_policy_meter_enter(struct abx_policy_meter *m, const struct abx_policy_rule *rule,
                            const struct abx_policy_identity *who, int64_t now_ms,
                            struct abx_policy_verdict *v)
{
    struct cell *c = find(m, rule, who);
    const struct abx_policy_limit *rate = &rule->limits[ABX_LIMIT_RATE_PER_MINUTE],
                                  *slots = &rule->limits[ABX_LIMIT_MAX_CONCURRENCY];
    if (!is_counted(rule))
        return true;
    if (rate->is_set && !take_token(c, rate->number, now_ms, v)) {
        v->endpoint = rule->id;
        return abx_policy_deny(v, ABX_POLICY_RATE_LIMITED, "%.*s takes %.*s requests a minute",
                               ABX_STR_FMT(rule->id), ABX_STR_FMT(rate->text));
    }
    if (slots->is_set && c->in_flight >= slots->integer) {
        if (rate->is_set)
            c->tokens += 1; /* P16: a request that never ran spends nothing */
        v->endpoint = rule->id;
        v->retry_after_s = 1;
        return abx_policy_deny(v, ABX_POLICY_CONCURRENCY_LIMITED,
                               "%.*s takes %.*s requests at a time", ABX_STR_FMT(rule->id),
                               ABX_STR_FMT(slots->text));
    }
    c->in_flight++;
    return true;
}

void abx_policy_meter_leave(struct abx_policy_meter *m, const struct abx_policy_rule *rule,
                            const struct abx_policy_identity *who)
{
    struct cell *c = find(m, rule, who);
    if (is_counted(rule) && c->in_flight > 0)
        c->in_flight--;
}
