/* cli/template_yaml.h: template.yaml, specification 5 of the published packages and our own keys.
 */
#pragma once
#include "cli/findings.h"
#include "lib/yaml/yaml.h"

struct cli_template {
    const struct cli_source *source;
    struct abx_yaml *root;
    const char *name, *version, *description; /* "" when absent, as all strings here */
    const char *start_cmd, *ready_cmd;
    const char *image, *provider, *template_id;
    const char *dockerfile;        /* default "Dockerfile" */
    const char *envd_inject;       /* auto, true, false */
    const char *proc_hidepid;      /* true, false; NULL: not said */
    const char *network;           /* of RUN; "none" */
    uint32_t cpu_count, memory_mb; /* 0: the platform's */
    const struct abx_yaml *env, *build_args, *provides, *ports, *server, *tags; /* NULL: absent */
    const char *policy_json; /* `server` as canonical JSON; NULL without one */
    char revision[17];       /* of the policy; "" while it has faults */
    uint32_t server_port;    /* of the service in `provides`; 9000 by default */
};

/** Reads and checks @source; everything lives in @a. Faults, warnings and policy findings go to @f.
 *  0, or -1 when there was an error. */
int cli_template_read(const struct cli_source *source, struct abx_arena *a, struct cli_findings *f,
                      struct cli_template *ret);
/** The structural rules of a `server` block (published-client.md 5); 0 or -1. */
int cli_server_block_check(const struct cli_source *source, const struct abx_yaml *server,
                           struct cli_findings *f);
/** Checks a policy document in JSON by the policy library; prints what is wrong to stderr. */
bool cli_policy_check(const char *name, struct abx_str json);
