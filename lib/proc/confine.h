/* lib/proc/confine.h: what the kernel holds a child to: Landlock (files, ports, signals), seccomp,
 * resource limits, no privileges.
 *
 * A confinement is compiled once, by the parent; abx_proc_spawn() applies it between fork and exec
 * by system calls alone, and everything that the program starts inherits it. Constant after
 * abx_confine_new(): any thread may read it. Which layer a kernel has is asked once. Security S04-S07,
 * S10. */
#pragma once
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { /* layers, as bits */
    ABX_CONFINE_FILES = 1,
    ABX_CONFINE_SIGNALS = 2, /* signals and abstract unix sockets */
    ABX_CONFINE_NETWORK = 4, /* TCP ports, and by seccomp what Landlock does not look at */
    ABX_CONFINE_SECCOMP = 8,
    ABX_CONFINE_LAYERS = 4 /* how many there are */
};
const char *abx_confine_layer_name(unsigned layer); /* "files", "signals", "network", "seccomp" */
/** The layers that this kernel has. */
unsigned abx_confine_supported(void);
/** Version of Landlock; 0: none. */
int abx_confine_abi(void);

enum abx_confine_access {
    ABX_CONFINE_READ,  /* read, list, execute */
    ABX_CONFINE_WRITE, /* that, and write, make, remove, rename within */
    ABX_CONFINE_DEVICE /* read, write, ioctl */
};
struct abx_confine_root {
    int fd; /* O_PATH; a folder with all beneath it, or a single file. Must outlive the confinement */
    enum abx_confine_access access;
};
struct abx_confine_ports {
    const uint16_t *items;
    size_t count;
    bool is_limited; /* else every port */
};
enum { ABX_CONFINE_LIMITS_MAX = 8 };
struct abx_confine_limit {
    int resource; /* RLIMIT_* */
    uint64_t value;
};
struct abx_confine_spec {
    unsigned layers; /* to apply; those that the kernel lacks are left out */
    /* Up to two lists, so that the system's can be shared. Copied; the descriptors are not. */
    const struct abx_confine_root *roots, *more_roots;
    size_t root_count, more_root_count;
    struct abx_confine_ports connect, bind; /* with ABX_CONFINE_NETWORK */
    bool no_udp, no_unix;
    bool keeps_privileges; /* sudo works: no no_new_privs, no seccomp, capabilities stay */
    struct abx_confine_limit limits[ABX_CONFINE_LIMITS_MAX]; /* core is always 0 */
    size_t limit_count;
};
struct abx_confine; /* opaque */
/** One reference in *ret. */
int abx_confine_new(const struct abx_confine_spec *spec, const struct abx_confine **ret,
                    struct abx_error *err);
/** Counted from any thread; both accept NULL. */
const struct abx_confine *abx_confine_ref(const struct abx_confine *c);
void abx_confine_unref(const struct abx_confine *c);
/** The layers that a child gets. */
unsigned abx_confine_layers(const struct abx_confine *c);
