/* guest/server/view.h: the confinement of what the server starts: one for each caller and endpoint,
 * compiled when a policy is loaded, kept with it. policy.md C2, security S06, S10, S14, S17, S30.
 */
#pragma once
#include "lib/base/err.h"
#include "lib/policy/confine.h"
#include "lib/proc/confine.h"

/** Compiles the views of @p and hangs them on it. Roots are opened here and mean, from now on, what
 *  they mean now. Nothing to do while `confine` is off. 0, or -1: the policy can not be held. */
int abx__views_make(struct abx_policy *p, struct abx_error *err);
/** Bounds what the callers of @p have running and will have, once nothing refuses it any more. 0,
 * or -1. Nothing to do while `confine` is off. */
int abx__views_bound(const struct abx_policy *p, struct abx_error *err);
/** How the memory of a caller is bounded: "off" (not asked for), "by caller", "unsupported". */
const char *abx__views_memory(const struct abx_policy *p);
/** Before a start: what the views of @p grant of /etc becomes what /etc is now, where this process
 * can tell (view_system.c). Cheap while nothing has changed there. Loop thread. */
void abx__views_refresh(const struct abx_policy *p);
/** What a process is held to that is started for @who through @rule: lib/proc/confine.h. NULL: not
 *  held, `confine` is off. Lives as long as the policy. Any thread. */
const struct abx_confine *abx__view_of(const struct abx_policy *p,
                                       const struct abx_policy_rule *rule,
                                       const struct abx_policy_identity *who);
/** Whether what file endpoints deny is denied to such a process too (S08). */
enum abx__deny { ABX__DENY_NONE /* nothing is denied */, ABX__DENY_HELD, ABX__DENY_ADVISORY };
enum abx__deny abx__view_deny(const struct abx_policy *p, const struct abx_policy_rule *rule,
                              const struct abx_policy_identity *who);
/** What a mount takes: CAP_SYS_ADMIN. */
bool abx__view_may_mount(void);
/** Of command hosts: they run for all callers, under the document (S30). */
const struct abx_confine *abx__view_of_hosts(const struct abx_policy *p);
/** Of the host of the browser group (chromium.c). */
const struct abx_confine *abx__view_of_browser(const struct abx_policy *p);
/** The first root of the endpoint's own rule, where a process starts that names no folder (C2);
 * NULL: the server's. */
const char *abx__view_folder(const struct abx_policy *p, const struct abx_policy_rule *rule);
/* Texts that abx__view_environment() points to; live as long as its array. */
struct abx__view_env {
    char home[128], tmp[128];
};
/** @envp for a process of @who: a narrow identity has a HOME and a TMPDIR of its own in the place
 * of the server's (S14). *ret_envp is heap, its strings are those of @envp and of @own; NULL: @envp
 *  is right as it is. -1 without memory. */
int abx__view_environment(const struct abx_policy *p, const struct abx_policy_identity *who,
                          char *const *envp, struct abx__view_env *own, char ***ret_envp);

#define ABX__HOMES "/tmp" /* where the folders of narrow identities are */
/** Makes or takes the folder @name of ABX__HOMES: ours and nobody else's. Loop thread. */
int abx__home_open(const char *name, struct abx_error *err);
/** At the end: removes those that this server made and no other one holds. Links are not followed.
 */
void abx__homes_remove(void);

/* ---- the server itself: self.c ---- */

struct abx__view_root {
    const char *path; /* as the policy and its links mean it */
    enum abx_confine_access access;
    int fd; /* O_PATH */
};
/** The roots of all views of @p, each once, in no order. False: @at is past the last. */
bool abx__views_root_at(const struct abx_policy *p, size_t at, struct abx__view_root *ret);
/** Some view of @p holds every file, or privileges; true as well while `confine` is off. */
bool abx__views_are_unbounded(const struct abx_policy *p);
/** The folders, files and devices of the system that all views of @p have; until
 * abx__views_refresh().
 */
const struct abx_confine_root *abx__views_system(const struct abx_policy *p, size_t *ret_count);

/* What the server uses beside the views, by path; NULL: not there. */
struct abx__self_needs {
    const char *policy_file, *confine_file, *audit_file;
};
/** Holds the server, and so all that it starts from now on, to what the views of @p reach and its
 * own needs (S26). Once, before other threads. Nothing to do where a view is unbounded, or on a
 * kernel without Landlock: abx__self_level() tells. -1: "require" and it can not be held, or an
 * error. */
int abx__self_confine(const struct abx_policy *p, const struct abx__self_needs *needs,
                      struct abx_error *err);
bool abx__self_is_on(void);
/** "on", "off", "unsupported". */
const char *abx__self_level(void);
/** Whether a policy that is loaded later asks for nothing that the server gave away. -1 with what
 * it is, and that the server has to be started anew. */
int abx__self_admits(const struct abx_policy *p, struct abx_error *err);

/* ---- what callers have started: callers.c ---- */

/** Whether @who may start something through @rule now: of no more than ABX_CONFINE_GROUPS_MAX
 * callers something runs at a time, each in a cgroup and a scope of its own. 0 or -errno, -EUSERS:
 * there is no room. */
int abx__view_reserve(const struct abx_policy *p, const struct abx_policy_rule *rule,
                      const struct abx_policy_identity *who);

/** Each caller has a cgroup: its processes are counted, and found, apart from those of others. */
bool abx__callers_are_counted(void);
/** SIGKILL to all that callers have started whom @p does not know any more, however it hid (S21).
 */
void abx__callers_kill_strangers(const struct abx_policy *p);
/** At the end: to all that was started. */
void abx__callers_end(void);
