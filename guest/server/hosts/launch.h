/* guest/server/hosts/launch.h: which command host a FILE of --commands gets, and how each kind is
 * started. Shims travel in this binary. command-hosts.md 1, 4, 6. */
#pragma once
#include "guest/server/hosts/host.h"
#include "lib/base/arena.h"

enum abx_host_kind {
    ABX_HOST_PYTHON, /* all Python files share one process */
    ABX_HOST_NODE,   /* so do all of Node */
    ABX_HOST_NATIVE, /* a shared object; a process for each */
    ABX_HOST_TABLE,  /* YAML: no process */
    ABX_HOST_PROGRAM,
    ABX_HOST_BROWSER, /* of no file: the browser group's, in Node */
    ABX_HOST__KINDS
};
/** By its suffix; else an executable file is a program, all else Python's business. */
enum abx_host_kind abx_host_kind_of(const char *file);
/** Whether several files of the kind share a host. */
bool abx_host_kind_is_shared(enum abx_host_kind kind);

struct abx_host_launch {
    enum abx_host_kind kind;
    const char *program;     /* the interpreter; NULL: python3, node */
    const char *search_path; /* PATH */
    char *const *envp;
    const char *const *files; /* in order; what "-" says of Python: or dotted modules */
    size_t file_count;
    const char *module_path; /* "dir:dir", of Python; may be NULL */
    /* nothing of a user's own is loaded (security.md S34): Python's -I, no NODE_* variables */
    bool is_isolated;
    const char *base_dir, *version;
    /* of ABX_HOST_BROWSER: */
    bool is_in_sandbox;      /* of ours */
    const char *home, *wall; /* its folder, and the program that holds Chromium; NULL: not held */
};
/** Fills *ret; what it points to is in @a or in @l. */
int abx_host_launch_options(const struct abx_host_launch *l, struct abx_arena *a,
                            struct abx_host_options *ret, struct abx_error *err);
