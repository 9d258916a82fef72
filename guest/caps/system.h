/* guest/caps/system.h: facts of the machine: memory, load, disk, control group, listening ports.
 * Protocol-free. They read /proc and /sys: pool threads. */
#pragma once
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/utsname.h>

struct abx_system_group { /* of the control group; what is not limited or not told is absent */
    bool has_memory_limit, has_memory_used, has_cpu_limit;
    uint64_t memory_limit, memory_used; /* bytes */
    double cpu_limit;                   /* CPUs */
};
struct abx_system_facts {
    struct utsname uts;
    uint32_t cpus;
    uint64_t memory_total_kb, memory_available_kb;
    double load[3];                            /* 1, 5, 15 minutes */
    uint64_t disk_total, disk_used, disk_free; /* bytes, of / */
    struct abx_system_group group;
};
/** 0 or -errno. */
int abx_system_read(struct abx_system_facts *ret);
/** "MemTotal:   123 kB" of /proc/meminfo; 0 when absent. */
uint64_t abx_system_meminfo(struct abx_str text, const char *name);

enum { ABX_PORTS_MAX = 4096, ABX_PORT_ADDRESS = 64 };
struct abx_system_port {
    uint16_t port;
    bool is_v6;
    char address[ABX_PORT_ADDRESS]; /* "127.0.0.1", "[::1]" */
    uint64_t inode;
    pid_t pid; /* 0: not seen */
};
/** The listening rows of /proc/net/tcp or tcp6 in @text, appended to @out from *count on. */
void abx_system_ports_parse(struct abx_str text, bool is_v6, struct abx_system_port *out,
                            size_t *count);
/** All listening TCP ports of this network namespace, with the processes that this one may see.
 * @out has room for ABX_PORTS_MAX. 0 or -errno. */
int abx_system_ports(struct abx_system_port *out, size_t *ret_count);
