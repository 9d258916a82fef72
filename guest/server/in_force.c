/* guest/server/in_force.c: the policy in force: loaded at the start, once the hosts are ready, and
 * again on SIGHUP; what a caller loses by that ends (security S21). Loop thread. */
#include "guest/server/as_user.h"
#include "guest/server/terminals.h"
#include "guest/server/view.h"

#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/proc/confine.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { EXIT_MISTAKE = 1, EXIT_FORBIDDEN = 2 };

/* A document that other sources bound (S23) comes with report->errors 0 and -1. */
static int load_one(const struct abx__policy_source *source, const struct abx__policy_args *args,
                    struct abx_policy **ret, struct abx_report *report)
{
    struct abx_error err = {0};
    struct abx_policy *p = NULL;
    if (abx__policy_source_load(source, args, &p, report) < 0)
        return -1;
    if (abx__policy_source_check(source, args, p, &err) < 0) {
        fprintf(stderr, "policy error: %s\n", err.msg);
        abx_policy_unref(p);
        return -1;
    }
    *ret = p;
    return 0;
}

/* A policy given in code: instead of the document, or compiled beside it. */
static int load_documents(struct abx__server *s, struct abx__policy_source *source,
                          const struct abx__policy_args *args, struct abx_policy **ret,
                          struct abx_report *report)
{
    struct abx__policy_source code = {.kind = ABX__POLICY_TEXT,
                                      .text = s->code_text,
                                      .name = "code",
                                      .confine = source->confine,
                                      .confine_len = source->confine_len};
    struct abx__policy_args beside = *args;
    struct abx_policy *next = NULL;
    if (s->code_text == NULL)
        return load_one(source, args, ret, report);
    code.len = strlen(s->code_text);
    if (s->is_code_alone) {
        source->name = code.name;
        return load_one(&code, args, ret, report);
    }
    beside.preset = NULL;
    beside.with_token = false;
    if (abx__policy_source_load(&code, &beside, &next, report) < 0)
        return -1;
    abx_policy_unref(s->code_policy);
    s->code_policy = next;
    return load_one(source, args, ret, report);
}

static int say_mistake(const struct abx_error *err)
{
    fprintf(stderr, "policy error: policy.confine: %s\n", err->msg);
    return EXIT_MISTAKE;
}

/* A user of the list that nobody can be here. */
static int check_users(const struct abx_policy *p)
{
    const char *why;
    if (abx_policy_confine(p) != ABX_CONFINE_REQUIRE)
        return 0; /* the start line warns, and a request is told */
    struct abx_str user = abx__user_out_of_reach(p, &why);
    if (user.ptr == NULL)
        return 0;
    fprintf(stderr,
            "policy error: policy.confine.users: \"require\", and programs can not run as '%.*s': "
            "%s\n",
            (int)(user.len < 80 ? user.len : 80), user.ptr, why);
    return EXIT_MISTAKE;
}

/* What `confine` asks for is there, and the views are made. 0, or how the program ends. */
static int confine(struct abx_policy *p)
{
    struct abx_error err = {0};
    int rc = check_users(p);
    if (rc != 0)
        return rc;
    if (abx_policy_confine(p) == ABX_CONFINE_OFF)
        return abx__self_admits(p, &err) == 0 ? 0 : say_mistake(&err);
    struct abx_str token = abx_policy_short_token(p);
    unsigned missing = abx_policy_missing_layers(p, abx_confine_supported());
    if (token.ptr != NULL) {
        fprintf(stderr,
                "policy error: policy.auth.tokens[%.*s]: with \"confine\" a token has at least 24 "
                "bytes; `agent-sandbox-server token` prints one\n",
                (int)(token.len < 80 ? token.len : 80), token.ptr);
        return EXIT_FORBIDDEN;
    }
    const char *strangers = abx_policy_anonymous_fault(p);
    if (strangers) {
        fprintf(stderr, "policy error: policy.auth.allow_anonymous: with \"confine\": %s\n",
                strangers);
        return EXIT_MISTAKE;
    }
    if (abx_policy_confine(p) == ABX_CONFINE_REQUIRE && missing != 0) {
        fputs("policy error: policy.confine: \"require\", and this kernel lacks", stderr);
        for (unsigned i = 0; i < ABX_CONFINE_LAYERS; i++)
            if (missing & 1U << i)
                fprintf(stderr, " %s", abx_confine_layer_name(1U << i));
        fprintf(stderr, " (Landlock ABI %d)\n", abx_confine_abi());
        return EXIT_MISTAKE;
    }
    if (abx__views_make(p, &err) == 0 && abx__self_admits(p, &err) == 0 &&
        abx__views_bound(p, &err) == 0)
        return 0;
    return say_mistake(&err);
}

struct abx_str abx__server_policy_text(const struct abx__server *s)
{
    return abx_str_n(s->source.text ? s->source.text : "", s->source.len);
}

static int load_from(struct abx__server *s, struct abx__policy_source *source,
                     const struct abx__policy_args *args, struct abx_policy **ret)
{
    struct abx_report report;
    struct abx_policy *next = NULL;
    abx_report_init(&report);
    int rc = load_documents(s, source, args, &next, &report);
    if (rc < 0) {
        abx__policy_print_errors(stderr, &report, source->name, s->on_loaded == NULL);
        rc = report.errors > 0 ? EXIT_MISTAKE : EXIT_FORBIDDEN;
    } else {
        rc = confine(next);
    }
    abx_report_done(&report);
    if (rc == 0)
        *ret = abx_policy_ref(next);
    abx_policy_unref(next);
    return rc;
}

/* The policy of @source; 0, or how the program ends. */
static int load(struct abx__server *s, struct abx__policy_source *source, bool routes_unknown,
                struct abx_policy **ret)
{
    uint16_t ports[] = {(uint16_t)s->o.port, (uint16_t)s->o.pty_port, ABX_PORT_SERVER,
                        ABX_PORT_SERVER_PTY};
    struct abx_policy_route *routes = calloc(s->custom_count + 1, sizeof(*routes));
    struct abx__policy_args args = {.with_token = true,
                                    .preset = s->o.preset,
                                    .confine = s->o.confine,
                                    .no_env = s->o.no_env,
                                    .routes = routes,
                                    .route_count = s->custom_count,
                                    .routes_unknown = routes_unknown,
                                    .previous = s->policy,
                                    .own_ports = ports,
                                    .own_port_count = sizeof(ports) / sizeof(*ports),
                                    .code_groups = s->code_groups,
                                    .code_group_count = s->code_group_count};
    if (routes == NULL) {
        fputs("policy error: out of memory\n", stderr);
        return EXIT_MISTAKE;
    }
    for (size_t i = 0; i < s->custom_count; i++)
        routes[i] = s->custom[i].spec;
    int rc = load_from(s, source, &args, ret);
    free(routes);
    return rc;
}

int abx__policy_take(struct abx__server *s, bool routes_unknown)
{
    struct abx_policy *next = NULL;
    int rc = load(s, &s->source, routes_unknown, &next);
    if (rc != 0)
        return rc;
    abx_policy_unref(s->policy);
    s->policy = next;
    return 0;
}

/* ---- what is lost by a change ---- */

bool abx__owner_is_still(const struct abx__change *c, struct abx_str owner)
{
    struct abx_policy_identity who, now;
    for (size_t i = 0; abx_policy_identity_at(c->old, i, &who); i++)
        if (abx_str_eq(who.id, owner))
            return abx_policy_is_still(c->old, &who, c->now, &now);
    return true; /* of an older policy, and left alone then: its identity has the same powers */
}

/* An exchange that goes on: cut where its caller may not have begun it now. */
static bool is_still_allowed(const struct abx__call *c, const struct abx_policy *now)
{
    struct abx_policy_identity who;
    struct abx_policy_verdict v;
    const struct abx_policy_rule *rule = c->rule ? abx_policy_rule(now, c->rule->id) : NULL;
    return c->rule == NULL || (rule != NULL && abx_policy_is_still(c->policy, &c->who, now, &who) &&
                               abx_policy_judge(now, rule, &who, &v));
}

static void cut_calls(struct abx__server *s, const struct abx_policy *now)
{
    enum { SWITCHED = 101 }; /* a terminal's socket: terminals.c closes it */
    struct abx_list *node, *next;
    for (node = s->calls.next; node != &s->calls; node = next) {
        struct abx__call *c = ABX_CONTAINER_OF(node, struct abx__call, node);
        next = node->next;
        if (c->status != SWITCHED && c->policy != now && !is_still_allowed(c, now))
            abx_http_abort(c->req);
    }
}

/* Makes @next (taken) the policy in force. */
static int replace(struct abx__server *s, struct abx_policy *next)
{
    struct abx_policy_meter *meter = abx_policy_meter_new(next);
    if (meter == NULL) {
        abx_policy_unref(next);
        return -1;
    }
    struct abx__change change = {s->policy, next};
    abx_policy_meter_unref(s->meter);
    s->meter = meter;
    s->policy = next;
    abx__processes_revoke(s, &change);
    abx__terminals_revoke(s, &change);
    abx__code_contexts_revoke(s, &change);
    cut_calls(s, next);
    abx_policy_unref(change.old);
    return 0;
}

void abx__server_reload(struct abx__server *s)
{
    struct abx_policy *next = NULL;
    if (s->is_listening && !s->is_stopping && load(s, &s->source, false, &next) == 0)
        replace(s, next);
}

void abx__policy_again(struct abx__server *s)
{
    struct abx__policy_source source;
    struct abx_policy *next = NULL;
    struct abx__policy_args args = {.confine = s->o.confine};
    struct abx_error err = {0};
    if (!s->is_listening || s->is_stopping)
        return;
    int r = abx__policy_source_again(&s->source, &args, &source, &err);
    if (r < 0)
        fprintf(stderr, "policy error: %s\n", err.msg);
    else
        r = load(s, &source, false, &next);
    if (r == 0 && replace(s, next) == 0) {
        abx__policy_source_done(&s->source);
        s->source = source;
        abx_log(ABX_LOG_INFO, "policy reloaded source=%s revision=%s", s->source.name,
                abx_policy_revision(s->policy));
        return;
    }
    abx__policy_source_done(&source);
    abx_log(ABX_LOG_WARN, "the policy can not be reloaded, the old one stays revision=%s",
            abx_policy_revision(s->policy));
}
