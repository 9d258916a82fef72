/* guest/server/view_system.h: the folders and devices that every confined process may use, opened
 * when a policy is loaded, and anew when /etc has changed (security S06). */
#pragma once
#include "lib/base/err.h"
#include "lib/policy/policy.h"
#include "lib/proc/confine.h"

struct abx__system_roots {
    struct abx_confine_root *items;
    size_t count;
    char **paths; /* of items */
    int *fds;     /* all that abx__system_open() gave out */
    size_t fd_count, fd_cap;
};
/** A descriptor of the path itself, closed with @s; or -errno. @no_link: -ELOOP for a link. */
int abx__system_open(struct abx__system_roots *s, const char *path, bool no_link);
void abx__system_roots_done(struct abx__system_roots *s);

/* The system as it was at one time: shared by all views that were made, or renewed, while it was
 * that. Counted from any thread. */
struct abx__system;
/** As it is now, for a policy that is loaded. One reference in *ret. -1. Loop thread. */
int abx__system_take(struct abx__system **ret, struct abx_error *err);
/** Before a start: a reference to what it is now where that is not @known, else NULL. Some calls
 * of stat() as long as nothing has changed. Loop thread. */
struct abx__system *abx__system_newer(const struct abx__system *known);
/** Nothing is newer for @ms. */
void abx__system_rest(int64_t ms);
void abx__system_unref(struct abx__system *s); /* accepts NULL */
const struct abx_confine_root *abx__system_items(const struct abx__system *s, size_t *ret_count);
/** What may not be read in /etc the modes of its files keep from this process, and so from all that
 * it starts: an ordinary user, without capabilities against modes. Then its own layer leaves the
 * names there to the layers of its children, and theirs follow what /etc becomes (S26). */
bool abx__system_is_held_by_modes(void);

/** The mount namespace in which @hidden can not be opened; kept for all policies that hide the
 * same. Borrowed, or -errno. */
int abx__mounts_of(struct abx_str_list hidden);

/** Of who has that name: a scope and a cgroup (NULL: there are none to be had), the same for each
 * policy. -1 without memory. */
int abx__caller_bounds(struct abx_str name, struct abx_confine_scope **ret_scope,
                       struct abx_confine_group **ret_group);
