/* lib/proc/confine_child.c: a confinement is applied, between clone and exec: system calls only, as
 * in child.c. In this order: limits, then (the ids being set) capabilities, no_new_privs, Landlock,
 * seccomp. What needs a capability that goes with the ids comes before them. Security S06, S84. */
#include "lib/proc/proc_priv.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LAST_CAPABILITY = 63 };

/* Never above what is there: a limit is no gift. */
CHILD_CODE static int lower(int resource, uint64_t value)
{
    struct rlimit now;
    if (syscall(SYS_getrlimit, resource, &now) < 0)
        return -1;
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
        value = now.rlim_max;
    struct rlimit next = {value, value};
    return (int)syscall(SYS_setrlimit, resource, &next);
}

CHILD_CODE int abx__confine_limit(const struct abx__confine_child *c)
{
    if (lower(RLIMIT_CORE, 0) < 0)
        return -1;
    for (size_t i = 0; i < c->limit_count; i++)
        if (lower(c->limits[i].resource, c->limits[i].value) < 0)
            return -1;
    return 0;
}

/* CAP_SETPCAP takes them out of the bounding set, so it is done before the ids change. */
CHILD_CODE int abx__privileges_bound(void)
{
    for (unsigned long cap = 0; cap <= LAST_CAPABILITY; cap++)
        /* EINVAL: no such capability. EPERM: without CAP_SETPCAP there is none to give back either,
         * and no_new_privs keeps a set-id file from bringing one. */
        if (syscall(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL &&
            errno != EPERM)
            return -1;
    return 0;
}

CHILD_CODE int abx__privileges_drop(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        syscall(SYS_capset, &head, none) < 0)
        return -1;
    return (int)syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

CHILD_CODE static int give_up_privileges(const struct abx__confine_child *c)
{
    if (c->keeps_privileges)
        return 0;
    if (c->keeps_capabilities)
        return (int)syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return abx__privileges_bound() < 0 ? -1 : abx__privileges_drop();
}

CHILD_CODE int abx__confine_apply(const struct abx__confine_child *c)
{
    if (give_up_privileges(c) < 0)
        return ABX__STAGE_PRIVILEGES;
    if (c->ruleset_fd >= 0 && syscall(SYS_landlock_restrict_self, c->ruleset_fd, 0) < 0)
        return ABX__STAGE_LANDLOCK;
    for (size_t i = 0; i < c->filter_count; i++)
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, c->filters[i]) < 0)
            return ABX__STAGE_SECCOMP;
    return 0;
}
