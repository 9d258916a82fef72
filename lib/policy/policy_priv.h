/* lib/policy/policy_priv.h: between the files of this folder: the document as read, its layers, the
 * compiled policy. Everything lives in one arena, the policy's. */
#pragma once
#include "lib/json/tree.h"
#include "lib/policy/confine.h"
#include "lib/policy/policy.h"

/* ---- what a document says ---- */

enum { ABX__ABSENT = -1 };

struct abx__rule_doc {
    int enabled; /* ABX__ABSENT, 0, 1; so the next ones */
    int audit;
    int read_only;
    int never_links;
    bool has_scopes, has_paths, has_allow, has_deny;
    struct abx_str_list scopes, allow, deny;
    struct abx_policy_limit limits[ABX_LIMIT__COUNT];
    struct abx_policy_param params[ABX_PARAM__COUNT];
    const struct abx_json_node *node; /* NULL: built in */
};

enum abx__kind { ABX__DEFAULTS, ABX__BY_GROUP, ABX__BY_GLOB, ABX__EXACT };
enum abx__rank { ABX__BUILT_IN, ABX__CODE, ABX__PRESET, ABX__DOCUMENT, ABX__ENVIRONMENT };

struct abx__layer {
    enum abx__kind kind;
    enum abx__rank rank;
    struct abx_str selector; /* glob or ID */
    int group;               /* of ABX__BY_GROUP; -1: there is none of that name */
    size_t prefix;           /* characters before the first "*" */
    size_t order;
    const char *origin;
    const struct abx__rule_doc *rule;
    const struct abx_json_node *node; /* the rule in the document; NULL elsewhere */
};

struct abx__token {
    struct abx_str id;
    struct abx_str_list scopes;
    struct abx_str env; /* ptr NULL: by hash */
    unsigned char hash[32];
    size_t value_bytes; /* of the variable; 0 = by hash */
    bool has_hash;
};

struct abx_policy {
    unsigned refs;
    struct abx_arena arena;
    char revision[17];
    const char *preset;
    struct abx_str base_dir;
    bool is_configured, is_legacy;
    struct abx_policy_confine confine;
    unsigned supported; /* layers of the kernel */
    void *attached;
    void (*attached_free)(void *data);
    struct abx__token *tokens;
    size_t token_count;
    bool allow_anonymous, has_anonymous_scopes, has_allow_anonymous;
    struct abx_str_list anonymous_scopes;
    struct abx__layer *layers;
    size_t layer_count;
    struct abx_policy_rule *rules;
    size_t rule_count;
    struct abx_json_node *root; /* {} without a document */
    struct abx_str text;
};

/* What the readers share while a document is loaded. */
struct abx__load {
    const struct abx_policy_facts *facts;
    struct abx_policy *policy;
    struct abx_report *report;
    struct abx_arena *arena; /* the policy's */
    size_t layer_cap;
    bool no_memory;
};

/* ---- report.c ---- */

/* One finding to be. @node gives pointer and position; @at_key: of the key, not of the value. */
struct abx__finding {
    enum abx_finding_kind kind;
    const char *rule;
    const struct abx_json_node *node;
    const char *place; /* NULL: from the node; "": none */
    bool at_key, is_error_level;
};
void abx__report_add(struct abx_report *r, struct abx_str text, const struct abx__finding *f,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* A mistake at @node, at its value or at its key. Both return false. */
bool abx__mistake(struct abx__load *l, const struct abx_json_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool abx__mistake_at_key(struct abx__load *l, const struct abx_json_node *node, const char *fmt,
                         ...) __attribute__((format(printf, 3, 4)));
/* The name of @names (count) that @word was likely meant to be, or NULL. */
const char *abx__nearest(struct abx_str word, const char *const *names, size_t count);
/* "a, b, c" into @out. */
void abx__put_names(struct abx_buf *out, const char *const *names, size_t count);
/* Says that the key of @node is unknown, what was meant, what is allowed. Returns false. */
bool abx__unknown_key(struct abx__load *l, const struct abx_json_node *node,
                      const char *const *names, size_t count);

/* ---- values.c ---- */

/* Sizes of policy.md A3. False: no size. */
bool abx__size_parse(struct abx_str text, double *ret);
/* A number as Python's json prints it. */
void abx__put_real(struct abx_buf *out, double v);
void abx__put_integer(struct abx_buf *out, struct abx_str digits);
/* A value as Python's str() prints it; for `description`. */
void abx__put_python(struct abx_buf *out, const struct abx_json_node *n, bool quoted);
/* A string as Python's json prints it: ASCII only. */
void abx__put_json_string(struct abx_buf *out, struct abx_str s);
/* One character of WTF-8 at *at, which moves on; a stray byte is a character of its own. */
uint32_t abx__next_char(struct abx_str s, size_t *at);

/* ---- glob.c ---- */

enum { ABX__GLOB_MAX = 4096 };
/* Whether @pattern, after "*" + "/" when @anywhere, matches @path or one of its ancestors ("/"
 * among them when @anywhere). One pass, whatever the path's depth. */
bool abx__glob_match_ancestors(struct abx_str pattern, struct abx_str path, bool anywhere);

/* ---- document.c, rule_doc.c, auth.c, revision.c ---- */

const char *abx__preset_find(struct abx_str name);
/* @n: the key's value, NULL for a flag. */
void abx__unknown_preset(struct abx__load *l, const struct abx_json_node *n, struct abx_str name);
void abx__read_document(struct abx__load *l, const struct abx_json_node *root);
struct abx__rule_doc *abx__rule_doc_new(struct abx__load *l);
/* NULL when @node is no object; else what could be read. */
const struct abx__rule_doc *abx__read_rule(struct abx__load *l, const struct abx_json_node *node);
void abx__read_auth(struct abx__load *l, const struct abx_json_node *auth);
enum { ABX__LIST_MAX = 1024, ABX__UNION_MAX = 4096 };
/* A list of strings; false (with a mistake said) when it is not one. */
bool abx__read_strings(struct abx__load *l, const struct abx_json_node *node,
                       struct abx_str_list *ret, const char *wanted);
bool abx__read_scopes(struct abx__load *l, const struct abx_json_node *node,
                      struct abx_str_list *ret);
bool abx__read_bool(struct abx__load *l, const struct abx_json_node *node, bool *ret);
void abx__check_token_env(struct abx__load *l);
int abx__revision(struct abx__load *l);

/* ---- layers.c, presets.c, merge.c ---- */

struct abx__layer *abx__layer_add(struct abx__load *l, enum abx__rank rank, const char *origin,
                                  const struct abx__rule_doc *rule);
/* A layer "group:G" that switches the group; its rule, or NULL. */
struct abx__rule_doc *abx__layer_group(struct abx__load *l, enum abx__rank rank,
                                       enum abx_group group, bool enabled, const char *origin);
/* A layer for a selector of `endpoints`; unknown groups and IDs are said later. */
struct abx__layer *abx__layer_select(struct abx__load *l, enum abx__rank rank,
                                     struct abx_str selector, const struct abx__rule_doc *rule);
extern const char *const abx__preset_names[];
enum { ABX__PRESETS = 5 };
void abx__preset_layers(struct abx__load *l, const char *preset);
void abx__check_selectors(struct abx__load *l);
bool abx__layer_selects(const struct abx__layer *layer, const struct abx_policy_rule *rule);
/* The document names an endpoint that the published server does not have. */
bool abx__names_extension(const struct abx__layer *layer);
/* *into := *into united with @more, in order of first sight. */
void abx__unite(struct abx__load *l, struct abx_str_list *into, struct abx_str_list more);
int abx__merge(struct abx__load *l);
/* What the parents of @r allow bounds it too; they are merged already. Nothing for other rules. */
void abx__inherit(struct abx__load *l, struct abx_policy_rule *r);

/* ---- confine_doc.c, view.c, hide.c ---- */

/* What a view is made from. */
struct abx__hiding {
    const struct abx_policy *policy;
    const struct abx_policy_rule *rule; /* NULL: of no endpoint in particular */
    const struct abx_policy_identity *who;
    abx_policy_resolve_fn *resolve;
    void *ctx;
    struct abx_arena *arena;
};
/* Fills hidden, has_deny and is_advisory of @ret, whose roots are there. -1 without memory. */
int abx__view_hide(const struct abx__hiding *h, struct abx_policy_view *ret);
/* @path is @root or lies beneath it; both without a slash at the end. */
bool abx__root_holds(struct abx_str root, struct abx_str path);
/* A published file endpoint that @who may call. */
bool abx__shows_files(const struct abx_policy_rule *r, const struct abx_policy_identity *who);

void abx__confine_defaults(struct abx_policy_confine *c);
void abx__read_confine(struct abx__load *l, const struct abx_json_node *n);
/* The list `users` of it. */
void abx__read_users(struct abx__load *l, const struct abx_json_node *n);
unsigned abx__view_needs(const struct abx_policy *p, const struct abx_policy_rule *rule,
                         const struct abx_policy_identity *who);

/* ---- lint.c ---- */

enum { ABX__TOKEN_MIN = 24 }; /* bytes */
bool abx__reaches(const struct abx_policy_rule *r, const struct abx_policy_identity *who);
