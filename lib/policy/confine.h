/* lib/policy/confine.h: the key `confine` of a document, and the view that a process is held to.
 *
 * Pure: what the kernel must hold, not how. The caller resolves links (a root is what its path
 * means at the start, security S17) and says which layers its kernel has. Spec: policy.md C1, C2;
 * security.md S03-S11. */
#pragma once
#include "lib/base/arena.h"
#include "lib/policy/policy.h"

enum { /* layers, as bits; the same as those of lib/proc/confine.h */
       ABX_LAYER_FILES = 1,
       ABX_LAYER_SIGNALS = 2,
       ABX_LAYER_NETWORK = 4,
       ABX_LAYER_SECCOMP = 8,
       ABX_LAYER_ALL = 15
};

enum abx_rlimit {
    ABX_RLIMIT_NOFILE,
    ABX_RLIMIT_NPROC,
    ABX_RLIMIT_FSIZE,
    ABX_RLIMIT_AS,
    ABX_RLIMIT_CPU,
    ABX_RLIMIT_MEMORY, /* of all processes of a caller together: no limit of a process */
    ABX_RLIMIT__COUNT
};
const char *abx_rlimit_name(enum abx_rlimit which);

struct abx_policy_ports {
    const uint16_t *items;
    size_t count;
    bool is_limited; /* else every port */
};
struct abx_policy_network {
    struct abx_policy_ports connect, bind;
    bool is_set;           /* the document has the key */
    int udp, unix_sockets; /* 0, 1; -1: not said */
};
struct abx_policy_confine {
    enum abx_confine_mode mode;
    struct abx_str_list read, write;
    struct abx_policy_network network;
    struct {
        bool is_set;
        uint64_t value;
    } rlimits[ABX_RLIMIT__COUNT];
    bool nested_pty, privileged, allow_override;
    struct abx_str_list users; /* names, and numbers in decimal: users.h */
    struct abx_str_list hosts, origins;
    struct {
        struct abx_str file; /* ptr NULL: standard error */
        uint64_t max_bytes, keep;
    } audit;
    bool is_set; /* the document, a file of its own or a flag has it */
};
const struct abx_policy_confine *abx_policy_confinement(const struct abx_policy *p);
/** "off", "auto", "require", "advisory". */
const char *abx_confine_mode_name(enum abx_confine_mode mode);

/** What the kernel holds a process to that is started for an identity through an endpoint. Lists
 * and texts live in the arena or the policy. */
struct abx_policy_view {
    struct abx_str_list read, write; /* roots with their links followed; write can be read too */
    /* Files and folders that no process may see: denied by name wherever a file endpoint would show
     * them, or by the endpoint itself. Landlock can not subtract: a mount over each holds it (S08).
     */
    struct abx_str_list hidden;
    bool has_deny; /* some pattern denies */
    bool
        is_advisory; /* one of them is not among `hidden`: wildcards, nothing there, the system's */
    struct abx_policy_ports connect, bind;
    bool no_udp, no_unix;
    bool is_narrow;     /* neither holds "*" nor is the only identity */
    bool is_privileged; /* sudo works: only the roots are held */
    unsigned needs;     /* layers without which the view is not what it says (S10) */
    unsigned layers;    /* to apply; 0: mode off */
};
/** The path with its links followed, in @a; ptr NULL: there is no such file. NULL: text alone. */
typedef struct abx_str abx_policy_resolve_fn(void *ctx, struct abx_str path, struct abx_arena *a);
/** -1 without memory. */
int abx_policy_view(const struct abx_policy *p, const struct abx_policy_rule *rule,
                    const struct abx_policy_identity *who, abx_policy_resolve_fn *resolve,
                    void *ctx, struct abx_arena *a, struct abx_policy_view *ret);
/** The identity under which command hosts run: the document itself, wide (S30). */
struct abx_policy_identity abx_policy_document_identity(void);
/** The key `privileged`, for this caller: what it starts may gain privileges (S11). */
bool abx_policy_keeps_privileges(const struct abx_policy *p, const struct abx_policy_identity *who);
/** What is started through @rule runs code of the caller or of a repository (S02). */
bool abx_policy_runs_programs(const struct abx_policy_rule *rule);
/** Layers that some caller's view needs and @supported lacks. */
unsigned abx_policy_missing_layers(const struct abx_policy *p, unsigned supported);
