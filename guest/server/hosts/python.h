/* guest/server/hosts/python.h: how a Python command host is started. The shim travels in this
 * binary. */
#pragma once
#include "guest/server/hosts/host.h"
#include "lib/base/arena.h"

struct abx_python_host {
    const char *program;     /* NULL: python3 */
    const char *search_path; /* PATH */
    char *const *envp;
    const char *const *files; /* files or dotted modules, in order */
    size_t file_count;
    const char *python_path; /* "dir:dir", may be NULL */
    bool is_isolated;        /* -I: no user site, no PYTHON* (security.md S34) */
    const char *base_dir, *version;
};
/** Fills *ret; what it points to is in @a or in @p. */
int abx_python_host_options(const struct abx_python_host *p, struct abx_arena *a,
                            struct abx_host_options *ret, struct abx_error *err);
