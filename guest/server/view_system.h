/* guest/server/view_system.h: the folders and devices that every confined process may use, opened
 * once (security S06). */
#pragma once
#include "lib/base/err.h"
#include "lib/policy/policy.h"
#include "lib/proc/confine.h"

struct abx__system_roots {
    struct abx_confine_root *items;
    size_t count;
    int *fds; /* all that abx__system_open() gave out */
    size_t fd_count, fd_cap;
};
/** 0, or -1 with nothing open. */
int abx__system_roots_open(struct abx__system_roots *s, struct abx_error *err);
/** A descriptor of the path itself, closed with @s; or -errno. @no_link: -ELOOP for a link. */
int abx__system_open(struct abx__system_roots *s, const char *path, bool no_link);
void abx__system_roots_done(struct abx__system_roots *s);
/** The same files and folders, in the same order, with the same rights. */
bool abx__system_roots_equal(const struct abx__system_roots *a, const struct abx__system_roots *b);

/** The mount namespace in which @hidden can not be opened; kept for all policies that hide the
 * same. Borrowed, or -errno. */
int abx__mounts_of(struct abx_str_list hidden);

/** Of who has that name: a scope and a cgroup (NULL: there are none to be had), the same for each
 * policy. -1 without memory. */
int abx__caller_bounds(struct abx_str name, struct abx_confine_scope **ret_scope,
                       struct abx_confine_group **ret_group);
