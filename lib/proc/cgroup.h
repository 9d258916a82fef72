/* lib/proc/cgroup.h: the cgroup v2 that this process is in, and room in it for others. */
#pragma once
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>

/** Its folder: where v2 is mounted, and the way from there. 0; -EOPNOTSUPP: there is none here. */
int abx_cgroup_own(char *path, size_t size);
/** Where v2 is mounted whole. 0, or as above. */
int abx_cgroup_top(char *path, size_t size);
/** What abx_cgroup_own() tells, by the text of mountinfo and of /proc/self/cgroup. */
int abx_cgroup_find(struct abx_str mounts, struct abx_str cgroups, char *path, size_t size);
/** Whether it was handed to whoever runs in it (Delegate=yes of a unit, whose mark it carries).
 *  @is_user: an ordinary user, for whom it is enough that he may write it. */
bool abx_cgroup_is_given(const char *path, bool is_user);
/** Whether it has @controller ("cpu") for cgroups in it. */
bool abx_cgroup_has(const char *path, const char *controller);

/* In v2 a cgroup hands controllers down only while no process is in it. */
struct abx_cgroup_room {
    const char *path; /* of the cgroup */
    const char *leaf; /* a cgroup below it, there already: where its processes go */
    /* What the names of all its processes begin with: with others in it nothing is done. */
    const char *program;
    struct abx_str controllers; /* "+memory +pids" */
};
/** 0, -EBUSY: somebody else is in it; or -errno. Then its processes are where they were. */
int abx_cgroup_make_room(const struct abx_cgroup_room *room);
/** They go back, when no cgroup below needs a controller any more. */
void abx_cgroup_give_back(const struct abx_cgroup_room *room);
