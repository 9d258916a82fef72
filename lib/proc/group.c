/* lib/proc/group.c: cgroups of what a caller starts (confine.h): bounds on how many processes it
 * has and on their memory, and a way to end all of them, also those that left every session and
 * parent. Security S22.
 *
 * A group is made when somebody is to start in it, and there are so many at a time: one in which
 * nobody lives makes room. A child joins by descriptors that are open already, before it gives
 * anything up; in v1 by "tasks", as the one thread that it is: a write to "cgroup.procs" would wait
 * for all threads of the machine, some 20 ms; v2 knows no other way. */
#include "lib/proc/confine.h"

#include "lib/base/fd.h"
#include "lib/base/list.h"
#include "lib/base/parse.h"
#include "lib/base/str.h"
#include "lib/proc/hierarchy_priv.h"
#include "lib/proc/proc_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    TEXT_BYTES = 1 << 20,
    PIDS_BYTES = 1 << 20,
    ROUNDS_MAX = 100,
    ROUND_MS = 5,
    NUMBER_TEXT = 32,
    GROUP_NAME = 24
};

struct abx_confine_group {
    struct abx_list node; /* of those that are there, the least recently used first */
    _Atomic unsigned refs;
    bool is_there, is_ended;
    char name[GROUP_NAME];
    struct abx_confine_bounds bounds;
    struct abx__group_fds join;
    int dir_fd, memory_fd; /* of its folders; the second -1: memory was never bounded */
};

static struct abx__hierarchy by_count = {
    .controller = "pids", .v1_file = "pids.max", .file = "pids.max", .parent_fd = -1, .fd = -1};
static struct abx__hierarchy by_memory = {.controller = "memory",
                                          .v1_file = "memory.limit_in_bytes",
                                          .file = "memory.max",
                                          .parent_fd = -1,
                                          .fd = -1};
static _Atomic unsigned groups; /* folders of this process: made by the first, gone with the last */
static unsigned numbers;
static struct abx_list there = {&there, &there};
static size_t there_count;

static void close_own(void)
{
    abx__hierarchy_close(&by_memory);
    abx__hierarchy_close(&by_count);
}

/* ---- bounds ---- */

static int write_bound(int dir_fd, const char *file, uint64_t value, const char *unbounded)
{
    char text[NUMBER_TEXT];
    int n = value == 0 || value > INT64_MAX
                ? snprintf(text, sizeof(text), "%s", unbounded)
                : snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return abx_fd_write_file(dir_fd, file, abx_str_n(text, (size_t)n));
}

/* What the kernel was not built with is no bound. */
static int write_swap(int dir_fd, const char *file, struct abx_str text)
{
    return faccessat(dir_fd, file, F_OK, 0) < 0 ? 0 : abx_fd_write_file(dir_fd, file, text);
}

/* Memory and swap together in v1, each apart in v2: none of it goes to swap. */
static int write_memory(const struct abx_confine_group *g)
{
    static const char both[] = "memory.memsw.limit_in_bytes";
    uint64_t bytes = g->bounds.memory_bytes;
    int r;
    if (by_memory.is_v2) {
        r = write_bound(g->memory_fd, "memory.max", bytes, "max");
        return r < 0 ? r
                     : write_swap(g->memory_fd, "memory.swap.max",
                                  bytes ? ABX_STR("0") : ABX_STR("max"));
    }
    r = write_swap(g->memory_fd, both, ABX_STR("-1")); /* it is never below the other one */
    if (r == 0)
        r = write_bound(g->memory_fd, "memory.limit_in_bytes", bytes, "-1");
    if (r == 0 && bytes && faccessat(g->memory_fd, both, F_OK, 0) == 0)
        r = write_bound(g->memory_fd, both, bytes, "-1");
    return r;
}

/* Where one joins: of v1 a thread, of v2 a process. */
static int open_join(const struct abx__hierarchy *h, int dir_fd)
{
    int fd = openat(dir_fd, h->is_v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int make_folder(const struct abx__hierarchy *h, const char *name)
{
    if (mkdirat(h->fd, name, 0700) < 0 && !(h->is_shared && errno == EEXIST))
        return -errno;
    int fd = openat(h->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Who runs already is not moved: what it has is counted elsewhere. */
static int bound_memory(struct abx_confine_group *g)
{
    if (g->bounds.memory_bytes == 0 && g->memory_fd < 0)
        return 0;
    if (g->memory_fd < 0) {
        g->memory_fd = make_folder(&by_memory, g->name);
        if (g->memory_fd < 0)
            return g->memory_fd;
    }
    if (g->join.memory_fd < 0 && !by_memory.is_shared) {
        g->join.memory_fd = open_join(&by_memory, g->memory_fd);
        if (g->join.memory_fd < 0)
            return g->join.memory_fd;
    }
    return write_memory(g);
}

static int apply(struct abx_confine_group *g)
{
    int r = g->is_ended
                ? abx_fd_write_file(g->dir_fd, "pids.max", ABX_STR("0"))
                : write_bound(g->dir_fd, "pids.max",
                              g->bounds.processes > INT32_MAX ? 0 : g->bounds.processes, "max");
    return r < 0 ? r : bound_memory(g);
}

int abx_confine_group_bound(struct abx_confine_group *g, const struct abx_confine_bounds *bounds)
{
    if (bounds->memory_bytes && by_memory.fd < 0)
        return -EOPNOTSUPP;
    g->bounds = *bounds;
    g->is_ended = false;
    return g->is_there ? apply(g) : 0;
}

/* ---- coming and going ---- */

static void close_fds(struct abx_confine_group *g)
{
    abx_fd_close(&g->join.count_fd);
    abx_fd_close(&g->join.memory_fd);
    abx_fd_close(&g->memory_fd);
    abx_fd_close(&g->dir_fd);
}

/* -EBUSY: somebody lives in it. */
static int leave(struct abx_confine_group *g)
{
    if (!g->is_there)
        return 0;
    if (unlinkat(by_count.fd, g->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    if (g->memory_fd >= 0 && !by_memory.is_shared)
        unlinkat(by_memory.fd, g->name, AT_REMOVEDIR);
    close_fds(g);
    abx_list_remove(&g->node);
    there_count--;
    g->is_there = false;
    return 0;
}

static int come(struct abx_confine_group *g)
{
    snprintf(g->name, sizeof(g->name), "%u", numbers++);
    int r = g->dir_fd = make_folder(&by_count, g->name);
    if (r >= 0)
        r = g->join.count_fd = open_join(&by_count, g->dir_fd);
    if (r >= 0)
        r = apply(g);
    abx_list_push(&there, &g->node);
    there_count++;
    g->is_there = true;
    if (r < 0)
        (void)leave(g); /* nobody lives in it */
    return r < 0 ? r : 0;
}

static int make_room(void)
{
    struct abx_confine_group *g;
    if (there_count < ABX_CONFINE_GROUPS_MAX)
        return 0;
    abx_list_foreach(g, &there, struct abx_confine_group, node)
    {
        if (leave(g) == 0)
            return 0;
    }
    return -EUSERS;
}

int abx__confine_group_enter(struct abx_confine_group *g, struct abx__group_fds *ret)
{
    int r = 0;
    if (g->is_there) {
        abx_list_remove(&g->node);
        abx_list_push(&there, &g->node);
    } else {
        r = make_room();
        if (r == 0)
            r = come(g);
    }
    if (r == 0)
        *ret = g->join;
    return r;
}

bool abx__confine_group_is_idle(const struct abx_confine_group *g)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    return !g->is_there ||
           (abx_fd_read_file(g->dir_fd, "cgroup.procs", PIDS_BYTES, &text, &len) >= 0 && len == 0);
}

int abx_confine_group_new(struct abx_confine_group **ret)
{
    int r = abx__hierarchy_open(&by_count, NULL);
    if (r < 0)
        return r;
    (void)abx__hierarchy_open(&by_memory, &by_count); /* abx_confine_bounds_memory() tells */
    struct abx_confine_group *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        if (groups == 0)
            close_own();
        return -ENOMEM;
    }
    *g = (struct abx_confine_group){
        .refs = 1, .dir_fd = -1, .memory_fd = -1, .join = {.count_fd = -1, .memory_fd = -1}};
    groups++;
    *ret = g;
    return 0;
}

bool abx_confine_bounds_memory(void)
{
    return by_memory.fd >= 0;
}

struct abx_confine_group *abx_confine_group_ref(struct abx_confine_group *g)
{
    if (g != NULL)
        g->refs++;
    return g;
}

void abx_confine_group_unref(struct abx_confine_group *g)
{
    if (g == NULL || --g->refs > 0)
        return;
    if (leave(g) < 0) { /* its folder stays for who lives in it */
        abx_list_remove(&g->node);
        there_count--;
        close_fds(g);
    }
    free(g);
    if (--groups == 0)
        close_own();
}

unsigned abx_confine_group_refs(const struct abx_confine_group *g)
{
    return g->refs;
}

/* ---- what the kernel ended at the bound ---- */

uint64_t abx_confine_group_oom_kills(const struct abx_confine_group *g)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    struct abx_str rest, line;
    uint64_t count = 0;
    if (g == NULL || g->memory_fd < 0 ||
        abx_fd_read_file(g->memory_fd, by_memory.is_v2 ? "memory.events" : "memory.oom_control",
                         TEXT_BYTES, &text, &len) < 0)
        return 0;
    rest = abx_str_n(text, len);
    while (abx_str_split(&rest, '\n', &line))
        if (abx_str_starts(line, "oom_kill "))
            (void)abx_parse_u64(abx_str_sub(line, strlen("oom_kill "), line.len), &count);
    return count;
}

/* ---- the end of all in it ---- */

/* The number may have gone to another process since: it is asked again once it is held. */
static void kill_one(const struct abx_confine_group *g, uint32_t pid)
{
    char path[64], place[ABX__CGROUP_NAME + GROUP_NAME + 4];
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    ABX_AUTO_FD fd = pidfd_open((pid_t)pid, 0);
    snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
    int n = snprintf(place, sizeof(place), "/%s/%s\n", by_count.name, g->name);
    if (fd >= 0 && abx_fd_read_file(AT_FDCWD, path, TEXT_BYTES, &text, &len) >= 0 &&
        abx_str_find(abx_str_n(text, len), abx_str_n(place, (size_t)n)) >= 0)
        (void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
}

/* How many were there. */
static size_t kill_round(const struct abx_confine_group *g)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len, count = 0;
    struct abx_str rest, line;
    uint32_t pid;
    if (abx_fd_read_file(g->dir_fd, "cgroup.procs", PIDS_BYTES, &text, &len) < 0)
        return 0;
    rest = abx_str_n(text, len);
    while (abx_str_split(&rest, '\n', &line))
        if (abx_parse_u32(line, &pid) == 0 && pid > 1) {
            kill_one(g, pid);
            count++;
        }
    return count;
}

size_t abx_confine_group_kill(struct abx_confine_group *g)
{
    size_t left = 0;
    g->is_ended = true;
    if (!g->is_there)
        return 0;
    (void)apply(g); /* it does not grow meanwhile */
    for (int round = 0; round < ROUNDS_MAX && (left = kill_round(g)) > 0; round++)
        poll(NULL, 0, ROUND_MS);
    return left;
}

size_t abx_confine_group_folders(int ret_own_fds[2], int ret_parent_fds[2])
{
    const struct abx__hierarchy *all[] = {&by_count, &by_memory};
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNTOF(all); i++)
        if (all[i]->fd >= 0 && !all[i]->is_shared) {
            ret_own_fds[n] = all[i]->fd;
            ret_parent_fds[n++] = all[i]->parent_fd;
        }
    return n;
}

CHILD_CODE int abx__confine_join(int fd)
{
    return syscall(SYS_write, fd, "0", 1) == 1 ? 0 : -1; /* as child.c does */
}
