/* guest/caps/packages.h: which packages are installed, by their metadata files: nothing of theirs
 * is run (security S18). Protocol-free; it blocks: pool threads. */
#pragma once
#include "lib/base/arena.h"

enum { ABX_PACKAGES_MAX = 10000 };
struct abx_package {
    struct abx_str name, version;
};
struct abx_packages { /* sorted by name, each name once */
    struct abx_package *items;
    size_t count;
};
struct abx_packages_where {
    const char *interpreter; /* of Python, absolute, links not followed; NULL: none */
    const char *home;        /* for the user's own; NULL: none */
    const char *folder;      /* where npm would look from */
};
/** Python's: the folders that the interpreter would import from, the first of a name wins.
 * 0, -ENOMEM. What can not be read is not there. */
int abx_packages_python(const struct abx_packages_where *w, struct abx_arena *a,
                        struct abx_packages *ret);
/** npm's at depth 0: node_modules of the folder or of the next one above that has one. */
int abx_packages_npm(const struct abx_packages_where *w, struct abx_arena *a,
                     struct abx_packages *ret);
/** Name and Version of a METADATA or PKG-INFO text; ptr NULL: absent. Slices of @text. */
struct abx_package abx_package_of_metadata(struct abx_str text);
