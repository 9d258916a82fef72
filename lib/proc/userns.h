/* lib/proc/userns.h: why this machine lets nobody, or only root, make user namespaces. */
#pragma once
#include <stdbool.h>

struct abx_userns_bar {
    const char *what; /* "user namespaces are off" */
    const char *next; /* the command, for root, that lifts it */
};
/** The first thing in the way; NULL: nothing that is known. @sys: "/proc/sys". */
const struct abx_userns_bar *abx_userns_bar(const char *sys, bool is_root);
