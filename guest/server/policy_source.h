/* guest/server/policy_source.h: which document is in force, read and compiled; how its mistakes are
 * printed. Shared by serve and check-config. Spec: policy.md A1; server.md 1. */
#pragma once
#include "lib/base/err.h"
#include "lib/policy/policy.h"

#include <stdio.h>

struct abx__policy_args {
    const char *file, *preset;         /* --policy, --preset; NULL = not given */
    const char *confine;               /* --confine FILE or a mode; NULL = not given */
    bool routes_unknown;               /* of user code: they come later */
    bool without_groups;               /* ABX_SERVER_ENABLED_GROUPS is not looked at */
    const struct abx_policy *previous; /* of a reload */
    bool any_kernel;                   /* check-config without --kernel: every layer is there */
    const uint16_t *own_ports;         /* where the server listens; NULL: the usual ones */
    size_t own_port_count;
    bool no_env;     /* check-config --no-env */
    bool with_token; /* serve: ABX_SERVER_TOKEN becomes an identity */
    const struct abx_policy_route *routes;
    size_t route_count;
    const struct abx_policy_code_group *code_groups;
    size_t code_group_count;
};

/* Where a document comes from. */
enum abx__policy_kind {
    ABX__POLICY_NONE,
    ABX__POLICY_FLAG,       /* --policy */
    ABX__POLICY_PRESET,     /* --preset alone */
    ABX__POLICY_TEXT,       /* ABX_SERVER_POLICY, or code */
    ABX__POLICY_FILE,       /* ABX_SERVER_POLICY_FILE */
    ABX__POLICY_WELL_KNOWN, /* /etc/agent-sandbox/server-policy.json */
};

/* A document as found. */
struct abx__policy_source {
    enum abx__policy_kind kind;
    char *path; /* heap; of a file; NULL: none */
    char *text; /* heap; NULL: none, the empty document */
    size_t len;
    const char *name; /* file name or variable, for messages; "default" without a document */
    char *confine;    /* heap; a confinement from a file of its own or a flag; NULL: none */
    size_t confine_len;
    char *yaml; /* heap; what `text` was made from; NULL: it was JSON */
    size_t yaml_len;
};

/** Finds and reads the document: --policy, --preset alone, ABX_SERVER_POLICY,
 * ABX_SERVER_POLICY_FILE, the well-known file, none. 0, or -1 with a sentence in @err: the start
 * ends with exit 1. */
int abx__policy_source_read(const struct abx__policy_args *args, struct abx__policy_source *ret,
                            struct abx_error *err);
void abx__policy_source_done(struct abx__policy_source *s);
/** The same source once more: a file is read again, what came by a variable stays. */
int abx__policy_source_again(const struct abx__policy_source *old,
                             const struct abx__policy_args *args, struct abx__policy_source *ret,
                             struct abx_error *err);
/** Security S23: whether @p, loaded from @source, lies within what the well-known files say, where
 *  they bound other sources. 0; -1: it does not, with a sentence in @err (exit 2). */
int abx__policy_source_check(const struct abx__policy_source *source,
                             const struct abx__policy_args *args, const struct abx_policy *p,
                             struct abx_error *err);
/** Compiles @source against the routes in @args and the process environment, as abx_policy_load().
 */
int abx__policy_source_load(const struct abx__policy_source *source,
                            const struct abx__policy_args *args, struct abx_policy **ret,
                            struct abx_report *report);
/** One line per mistake: "policy error: PLACE: TEXT (FILE:LINE:COLUMN POINTER)"; what was found
 * only against routes and environment reads "configuration error" when @serving. */
void abx__policy_print_errors(FILE *out, const struct abx_report *report, const char *source,
                              bool serving);
