/* lib/policy/policy.h: a policy document and what it decides. Pure: facts in, verdict out.
 *
 * No descriptor, clock or environment is touched here. A loaded policy never changes and is
 * counted: a request keeps a reference, so that bounds stay what they were (security.md S80). One
 * thread per reference count change; reading from any thread. Spec: policy.md A. */
#pragma once
#include "lib/policy/endpoints.h"
#include "lib/policy/report.h"

#include <stdint.h>

struct abx_buf;
struct abx_json_writer;
struct abx_policy; /* opaque */

struct abx_str_list {
    const struct abx_str *items;
    size_t count;
};

/* ---- Loading ---- */

/** A route that user code registered. The first of a name gives the scopes; those of later ones are
 *  united with it. */
struct abx_policy_route {
    struct abx_str id; /* its name, else "METHOD /pattern" as registered */
    struct abx_str method, path, summary;
    enum abx_group group;
    struct abx_str_list scopes;
    bool is_open; /* asks for no credential */
    bool is_streaming;
};
/** enable_group()/disable_group() of a commands module, in the order of the calls. */
struct abx_policy_code_group {
    enum abx_group group;
    bool enabled;
};

struct abx_policy_facts {
    struct abx_str text; /* the JSON document; empty with has_text false: {} */
    bool has_text;
    struct abx_str preset;         /* a --preset: replaces the document's key; ptr NULL = none */
    struct abx_str enabled_groups; /* ABX_SERVER_ENABLED_GROUPS; ptr NULL or empty = none */
    struct abx_str base_dir;       /* ABX_SERVER_BASE_DIR; ptr NULL or empty: /home/user */
    const struct abx_policy_route *routes;
    size_t route_count;
    const struct abx_policy_code_group *code_groups;
    size_t code_group_count;
    /** The environment variable @name, or NULL. NULL here: no variable is set. */
    const char *(*getenv)(void *ctx, const char *name);
    void *getenv_ctx;
    bool no_env;                 /* check-config --no-env: a missing variable is a warning */
    bool routes_unknown;         /* user code is not loaded yet: an ID may be a route of it */
    struct abx_str legacy_token; /* serve: ABX_SERVER_TOKEN; ptr NULL = not looked at */
    uint64_t upload_cap;         /* ABX_MAX_UPLOAD_SIZE; 0 = 104857600 */
    /* The policy in force before a reload: it has the hashes of token variables that have left the
     * environment since. NULL: the start. */
    const struct abx_policy *previous;
    /* A `confine` from elsewhere, an object or a mode's name as JSON; it stands in the place of the
     * document's. ptr NULL = none. */
    struct abx_str confine_text;
    unsigned layers;           /* of confinement that the kernel has: ABX_LAYER_* of confine.h */
    const uint16_t *own_ports; /* where the server listens */
    size_t own_port_count;
};

/** Reads, checks and compiles a document. All mistakes go to @report (initialised by the caller).
 *  0 and *ret with one reference, or -1 with report->errors > 0 and nothing in *ret. */
int abx_policy_load(const struct abx_policy_facts *facts, struct abx_policy **ret,
                    struct abx_report *report);
struct abx_policy *abx_policy_ref(struct abx_policy *p);
void abx_policy_unref(struct abx_policy *p);

const char *abx_policy_revision(const struct abx_policy *p); /* 16 hex digits */
const char *abx_policy_preset(const struct abx_policy *p);
struct abx_str abx_policy_base_dir(const struct abx_policy *p);
bool abx_policy_is_configured(const struct abx_policy *p); /* any key beside `version` */
bool abx_policy_has_tokens(const struct abx_policy *p);
/** Hangs something on the policy that goes with it, once, before anybody else has it. */
void abx_policy_attach(struct abx_policy *p, void *data, void (*free_data)(void *data));
void *abx_policy_attached(const struct abx_policy *p);
/** The identity of a token that is shorter than 24 bytes, or a slice with ptr NULL (S15). */
struct abx_str abx_policy_short_token(const struct abx_policy *p);
/** Whether a token of the document is the environment variable @name. */
bool abx_policy_has_token_of(const struct abx_policy *p, struct abx_str name);
/** What `allow_anonymous` lets happen and its author likely does not want (LX20), or NULL. */
const char *abx_policy_anonymous_fault(const struct abx_policy *p);

/** The published server takes the document too: it has nothing of ours. */
bool abx_policy_is_portable(const struct abx_policy *p);

enum abx_confine_mode {
    ABX_CONFINE_OFF,
    ABX_CONFINE_AUTO,     /* what can not be confined is closed */
    ABX_CONFINE_REQUIRE,  /* the server does not start then */
    ABX_CONFINE_ADVISORY, /* it is served all the same */
};
/** The mode of `confine`; all of it: confine.h. */
enum abx_confine_mode abx_policy_confine(const struct abx_policy *p);

/* ---- Rules: what holds for one endpoint, all layers merged ---- */

enum abx_audit { ABX_AUDIT_OFF, ABX_AUDIT_DENY, ABX_AUDIT_ALL };

struct abx_policy_limit {
    bool is_set;
    bool is_integer;
    double number;       /* the value as a number */
    uint64_t integer;    /* cut to an integer, 2^64-1 when it is greater */
    struct abx_str text; /* as JSON prints it */
};
struct abx_policy_param {
    bool is_set;
    bool flag;                 /* overwrite, block_private_networks */
    struct abx_str_list words; /* the lists of strings */
    const int64_t *numbers;    /* allowed_signals */
    size_t number_count;
};
struct abx_policy_paths {
    struct abx_str_list allow; /* empty: the base directory alone */
    struct abx_str_list deny;  /* as written; /proc, /sys, /dev come on top */
    bool read_only;
    bool never_links; /* symlinks: never */
};
struct abx_policy_rule {
    struct abx_str id;
    const struct abx_endpoint *endpoint;  /* NULL: a custom route */
    const struct abx_policy_route *route; /* NULL: a published endpoint */
    enum abx_group group;
    bool enabled;
    bool is_open;
    bool takes_paths;
    struct abx_str disabled_by; /* the rule that says no; ptr NULL while enabled */
    struct abx_str_list scopes;
    enum abx_audit audit;
    struct abx_policy_limit limits[ABX_LIMIT__COUNT];
    struct abx_policy_param params[ABX_PARAM__COUNT];
    struct abx_policy_paths paths;
    size_t index; /* position in abx_policy_rules() */
};
/** All rules: the published endpoints in table order, the extensions, then custom routes. */
const struct abx_policy_rule *abx_policy_rules(const struct abx_policy *p, size_t *ret_count);
/** Whether it is an endpoint that the published server does not have (policy.md C5). */
static inline bool abx_policy_is_extension(const struct abx_policy_rule *r)
{
    return r->endpoint != NULL && (r->endpoint->flags & ABX_EP_EXTENSION);
}
/** NULL: no such endpoint. */
const struct abx_policy_rule *abx_policy_rule(const struct abx_policy *p, struct abx_str id);
/** The limit as an integer, @fallback when it is not set. */
uint64_t abx_policy_limit_u64(const struct abx_policy_rule *r, enum abx_limit limit,
                              uint64_t fallback);
double abx_policy_limit_f64(const struct abx_policy_rule *r, enum abx_limit limit, double fallback);

/* ---- Verdicts ---- */

enum abx_policy_code {
    ABX_POLICY_OK,
    ABX_POLICY_AMBIGUOUS_CREDENTIALS,
    ABX_POLICY_DUPLICATE_PARAMETER,
    ABX_POLICY_UNSUPPORTED_ENCODING,
    ABX_POLICY_INVALID_PATH,
    ABX_POLICY_PROCESS_INVALID,
    ABX_POLICY_ENV_INVALID,
    ABX_POLICY_COMMAND_INVALID,
    ABX_POLICY_URL_INVALID,
    ABX_POLICY_UNAUTHORIZED,
    ABX_POLICY_MISSING_SCOPE,
    ABX_POLICY_PATH_NOT_ALLOWED,
    ABX_POLICY_SYMLINK_DENIED,
    ABX_POLICY_PATH_DENIED,
    ABX_POLICY_READ_ONLY,
    ABX_POLICY_EXTENSION_NOT_ALLOWED,
    ABX_POLICY_COMMAND_NOT_ALLOWED,
    ABX_POLICY_PROCESS_DENIED,
    ABX_POLICY_ENV_VAR_DENIED,
    ABX_POLICY_ENV_VAR_NOT_ALLOWED,
    ABX_POLICY_SHELL_NOT_ALLOWED,
    ABX_POLICY_SIGNAL_NOT_ALLOWED,
    ABX_POLICY_LANGUAGE_NOT_ALLOWED,
    ABX_POLICY_URL_NOT_ALLOWED,
    ABX_POLICY_URL_DENIED,
    ABX_POLICY_USER_NOT_ALLOWED,
    ABX_POLICY_CONFINEMENT_UNAVAILABLE,
    ABX_POLICY_ENDPOINT_DISABLED,
    ABX_POLICY_FILE_EXISTS,
    ABX_POLICY_PAYLOAD_TOO_LARGE,
    ABX_POLICY_RATE_LIMITED,
    ABX_POLICY_CONCURRENCY_LIMITED,
    ABX_POLICY_UNKNOWN_ENDPOINT,
    ABX_POLICY_BAD_PATTERN, /* an unreadable command pattern: 400 without code */
    ABX_POLICY__COUNT
};
const char *abx_policy_code_name(enum abx_policy_code code); /* NULL for OK and BAD_PATTERN */
int abx_policy_code_status(enum abx_policy_code code);
const char *abx_policy_code_type(enum abx_policy_code code); /* "PolicyDenied" */

/** Zeroed = allowed. The slices borrow from the policy, the identity and the facts. */
struct abx_policy_verdict {
    enum abx_policy_code code;
    struct abx_str endpoint; /* ptr NULL = not in the answer */
    struct abx_str rule, scope, identity;
    uint64_t retry_after_s, limit_bytes;
    char text[240];
};
/** Fills @v. Returns false, so that it can stand in a return statement. */
bool abx_policy_deny(struct abx_policy_verdict *v, enum abx_policy_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** The body of the denial: {"error","type","code",...} as policy.md A15 says. */
void abx_policy_verdict_write(struct abx_json_writer *w, const struct abx_policy_verdict *v);

/* ---- Identities ---- */

enum { ABX_POLICY_ANONYMOUS = INT32_MAX };

struct abx_policy_identity {
    struct abx_str id; /* ptr NULL: before authentication */
    struct abx_str_list scopes;
    uint32_t index; /* of the token, or ABX_POLICY_ANONYMOUS */
    bool is_wide;   /* holds "*", or is the only identity */
};
/** The header values of a request, each as it came, outer blanks trimmed by the HTTP layer. */
struct abx_policy_credentials {
    const struct abx_str *authorization;
    size_t authorization_count;
    const struct abx_str *access_token;
    size_t access_token_count;
};
/** Who calls. Looks at all tokens in constant time. @rule with is_open: anonymous without scopes,
 *  whatever is presented. False: 400 or 401 in @v. */
bool abx_policy_identify(const struct abx_policy *p, const struct abx_policy_rule *rule,
                         const struct abx_policy_credentials *given,
                         struct abx_policy_identity *ret, struct abx_policy_verdict *v);
/** The identities of the document, tokens in order, then anonymous where it may call. Index from 0;
 *  false at the end. */
bool abx_policy_identity_at(const struct abx_policy *p, size_t index,
                            struct abx_policy_identity *ret);
/** Who the credential of @who, an identity of @old, is under @now (security S21). False: nobody any
 *  more, or somebody with fewer scopes. */
bool abx_policy_is_still(const struct abx_policy *old, const struct abx_policy_identity *who,
                         const struct abx_policy *now, struct abx_policy_identity *ret);
/** Whether the environment variable @name must not reach children or callers: with tokens the
 *  token_env names and the policy variables (A7); ABX_* are refused elsewhere. */
bool abx_policy_is_secret_env(const struct abx_policy *p, struct abx_str name);

/* ---- The decision ---- */

/** Steps 3 and 4 of policy.md A8: enabled, confinement, scopes. */
bool abx_policy_judge(const struct abx_policy *p, const struct abx_policy_rule *rule,
                      const struct abx_policy_identity *who, struct abx_policy_verdict *v);
bool abx_scope_held(struct abx_str_list held, struct abx_str required);
/** The first of @required that is not held, or a slice with ptr NULL. */
struct abx_str abx_scope_missing(struct abx_str_list held, struct abx_str_list required);
bool abx_scope_is_valid(struct abx_str scope);
/** policy.md A3: whole text, case counts, * ? [...]; linear in practice, no recursion. */
bool abx_glob_match(struct abx_str pattern, struct abx_str text);

/* ---- Lint (policy.md A17, C6) ---- */

/** Adds L1-L4 (published) and, with @pedantic, the LX findings that need no file system. */
void abx_policy_lint(const struct abx_policy *p, bool pedantic, struct abx_report *report);
