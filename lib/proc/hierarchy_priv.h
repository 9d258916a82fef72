/* lib/proc/hierarchy_priv.h: a hierarchy of cgroups in which this process may make some, and its
 * own folder there. Security S22. */
#pragma once
#include "lib/base/str.h"

#include <limits.h>
#include <stdbool.h>

#define ABX__CGROUP_PREFIX "abx-server."
enum { ABX__CGROUP_NAME = sizeof(ABX__CGROUP_PREFIX) + 16 };

struct abx__hierarchy {
    const char *controller;     /* "pids" */
    const char *v1_file, *file; /* of its cgroups, that has to be writable; as v2 names it */
    char path[PATH_MAX];        /* the cgroup of this process */
    char name[ABX__CGROUP_NAME];
    int parent_fd, fd; /* that one, and the folder in it; -1: not open */
    bool is_v2;
    bool is_shared; /* the folder is that of another one */
    bool has_room;  /* v2: we left our cgroup for a leaf of the folder */
};
/** Finds the hierarchy and makes the folder, once; that of @other if both are one. 0, or -errno:
 * there is none that this process may write. Folders that servers left behind are removed. */
int abx__hierarchy_open(struct abx__hierarchy *h, const struct abx__hierarchy *other);
void abx__hierarchy_close(struct abx__hierarchy *h);
