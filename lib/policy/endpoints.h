/* lib/policy/endpoints.h: the one table of endpoints: the published ones, and those of ours.
 *
 * Server routes, policy documents, capabilities, check-config and docs read the same rows.
 * Selectors are IDs, never methods or paths. Constant data: any thread. Spec: policy.md A4. */
#pragma once
#include "lib/base/str.h"

#include <stdint.h>

enum abx_group {
    ABX_GROUP_CORE,
    ABX_GROUP_COMMANDS,
    ABX_GROUP_FILE_OPS,
    ABX_GROUP_PROCESS,
    ABX_GROUP_TERMINAL,
    ABX_GROUP_SYSTEM,
    ABX_GROUP_DEV_TOOLS,
    ABX_GROUP_BROWSER,
    ABX_GROUP_AGENTS,
    ABX_GROUP__COUNT
};

enum abx_limit {
    ABX_LIMIT_MAX_BYTES,
    ABX_LIMIT_MAX_CONCURRENCY,
    ABX_LIMIT_MAX_DEPTH,
    ABX_LIMIT_MAX_DURATION_SECONDS,
    ABX_LIMIT_MAX_ENTRIES,
    ABX_LIMIT_MAX_FILES,
    ABX_LIMIT_MAX_OUTPUT_BYTES,
    ABX_LIMIT_MAX_PROCESSES,
    ABX_LIMIT_MAX_REQUEST_BYTES,
    ABX_LIMIT_MAX_RESULTS,
    ABX_LIMIT_MAX_SESSIONS,
    ABX_LIMIT_RATE_PER_MINUTE,
    ABX_LIMIT_TIMEOUT_SECONDS,
    ABX_LIMIT__COUNT
};

enum abx_param {
    ABX_PARAM_ALLOW_COMMANDS,
    ABX_PARAM_ALLOW_EXTENSIONS,
    ABX_PARAM_ALLOW_VARS,
    ABX_PARAM_ALLOWED_SIGNALS, /* integers */
    ABX_PARAM_BLOCK_PRIVATE_NETWORKS,
    ABX_PARAM_DENY_COMMANDS,
    ABX_PARAM_DENY_EXTENSIONS,
    ABX_PARAM_DENY_VARS,
    ABX_PARAM_ENV_DENY,
    ABX_PARAM_LANGUAGES,
    ABX_PARAM_OVERWRITE,
    ABX_PARAM_SHELLS,
    ABX_PARAM_URL_ALLOW,
    ABX_PARAM_URL_DENY,
    ABX_PARAM__COUNT
};

enum abx_path_op { ABX_OP_READ, ABX_OP_WRITE, ABX_OP_DELETE, ABX_OP_EXEC, ABX_OP__COUNT };

enum {
    ABX_EP_PATHS = 1,      /* takes `paths` */
    ABX_EP_EXEC = 2,       /* counts as executing */
    ABX_EP_STREAMING = 4,  /* answers with a stream */
    ABX_EP_OPEN = 8,       /* asks for no credential */
    ABX_EP_VIRTUAL = 16,   /* no HTTP route: the terminal's WebSocket */
    ABX_EP_ALWAYS = 32,    /* can not be disabled */
    ABX_EP_EXTENSION = 64, /* not a published endpoint: bounded by its parents (policy.md C5) */
    ABX_EP_YIELDS = 128,   /* a custom route of the same path is asked first (security S31) */
};

enum { ABX_ENDPOINT_SCOPES = 2, ABX_ENDPOINT_PARENTS = 4 };

struct abx_endpoint {
    const char *id;
    const char *method;                      /* "WS" for the WebSocket */
    const char *path;                        /* "{name}" stands for one segment */
    const char *scopes[ABX_ENDPOINT_SCOPES]; /* default scopes; NULL ends */
    uint32_t limits;                         /* bits 1u << enum abx_limit */
    uint32_t params;                         /* bits 1u << enum abx_param */
    enum abx_group group;
    unsigned flags;      /* ABX_EP_* */
    enum abx_path_op op; /* what it does to the path it is given */
    const char *summary;
    /* of an extension: published IDs, NULL ends. It is enabled only where all of them are, takes
     * the union of their scopes and the narrower of their and its own bounds. */
    const char *parents[ABX_ENDPOINT_PARENTS];
};

/** The published endpoints, in the order of listing. */
const struct abx_endpoint *abx_endpoints(size_t *ret_count);
/** Those that only this server has. */
const struct abx_endpoint *abx_endpoint_extensions(size_t *ret_count);
/** Published or not; NULL when no endpoint has this ID (case counts). */
const struct abx_endpoint *abx_endpoint_find(struct abx_str id);

const char *abx_group_name(enum abx_group group);
const char *abx_limit_name(enum abx_limit limit);
const char *abx_param_name(enum abx_param param);
const char *abx_path_op_name(enum abx_path_op op);
/** The value, or -1 when there is none of that name. */
int abx_group_parse(struct abx_str name);
int abx_limit_parse(struct abx_str name);
int abx_param_parse(struct abx_str name);
int abx_path_op_parse(struct abx_str name);
/** True for the groups that start disabled: dev_tools, browser, agents. */
bool abx_group_is_opt_in(enum abx_group group);
