/* guest/caps/system.c: memory, load, disk and control group (system.h). */
#include "guest/caps/system.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SMALL_FILE = 16384, CPUS_MAX = 65536 };

/* The file's text in @out; empty when it can not be read. */
static struct abx_str read_small(const char *path, char *out, size_t cap)
{
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_fd_read_all(fd, out, cap);
    return abx_str_n(out, n > 0 ? (size_t)n : 0);
}

static struct abx_str first_word(struct abx_str s)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] != ' ' && s.ptr[n] != '\n' && s.ptr[n] != '\t')
        n++;
    return abx_str_sub(s, 0, n);
}

uint64_t abx_system_meminfo(struct abx_str text, const char *name)
{
    struct abx_str line;
    uint64_t kb;
    while (abx_str_split(&text, '\n', &line)) {
        ptrdiff_t colon = abx_str_chr(line, ':');
        if (colon < 0 || !abx_str_is(abx_str_sub(line, 0, (size_t)colon), name))
            continue;
        struct abx_str value = abx_str_trim(abx_str_sub(line, (size_t)colon + 1, line.len));
        return abx_parse_u64(first_word(value), &kb) == 0 ? kb : 0;
    }
    return 0;
}

static int read_memory(struct abx_system_facts *f)
{
    char text[SMALL_FILE];
    struct abx_str info = read_small("/proc/meminfo", text, sizeof(text));
    f->memory_total_kb = abx_system_meminfo(info, "MemTotal");
    f->memory_available_kb = abx_system_meminfo(info, "MemAvailable");
    if (f->memory_total_kb == 0)
        return -EIO;
    if (f->memory_available_kb > f->memory_total_kb)
        f->memory_available_kb = f->memory_total_kb;
    return 0;
}

static int read_disk(struct abx_system_facts *f)
{
    struct statvfs fs;
    if (statvfs("/", &fs) < 0)
        return -errno;
    f->disk_total = (uint64_t)fs.f_blocks * fs.f_frsize;
    f->disk_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    f->disk_used = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    return 0;
}

/* ---- the control group ---- */

/* The path of this process in the hierarchy that has @controller: version 1 names it, the line
 * "0::" is version 2. */
static bool find_group(struct abx_str cgroup, const char *controller, struct abx_str *ret)
{
    struct abx_str line, number, names, one;
    while (abx_str_split(&cgroup, '\n', &line)) {
        if (!abx_str_split(&line, ':', &number) || !abx_str_split(&line, ':', &names))
            continue;
        if (controller == NULL && abx_str_is(number, "0") && names.len == 0) {
            *ret = line;
            return true;
        }
        while (controller && abx_str_split(&names, ',', &one))
            if (abx_str_is(one, controller)) {
                *ret = line;
                return true;
            }
    }
    return false;
}

static struct abx_str read_knob(const char *hierarchy, struct abx_str group, const char *knob,
                                char *out, size_t cap)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "/sys/fs/cgroup%s%.*s/%s", hierarchy, ABX_STR_FMT(group),
                     knob);
    if (n < 0 || (size_t)n >= sizeof(path))
        return (struct abx_str){0};
    struct abx_str text = read_small(path, out, cap);
    if (text.len == 0) { /* a container sees its own group as the root */
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", hierarchy, knob);
        text = read_small(path, out, cap);
    }
    return text;
}

static bool read_number(const char *hierarchy, struct abx_str group, const char *knob,
                        uint64_t *ret)
{
    char text[64];
    struct abx_str value = read_knob(hierarchy, group, knob, text, sizeof(text));
    return abx_parse_u64(first_word(value), ret) == 0;
}

static void read_memory_group(struct abx_system_group *g, const char *hierarchy,
                              struct abx_str group, const char *limit, const char *used)
{
    const uint64_t no_limit = (uint64_t)1 << 60; /* version 1 prints the largest page count */
    g->has_memory_limit =
        read_number(hierarchy, group, limit, &g->memory_limit) && g->memory_limit < no_limit;
    g->has_memory_used = read_number(hierarchy, group, used, &g->memory_used);
}

static void read_group_v2(struct abx_system_group *g, struct abx_str group)
{
    char text[64];
    uint64_t quota, period;
    read_memory_group(g, "", group, "memory.max", "memory.current");
    struct abx_str max = read_knob("", group, "cpu.max", text, sizeof(text)), word;
    if (abx_str_split(&max, ' ', &word) && abx_parse_u64(word, &quota) == 0 &&
        abx_parse_u64(first_word(max), &period) == 0 && period > 0) {
        g->cpu_limit = (double)quota / (double)period;
        g->has_cpu_limit = true;
    }
}

static void read_cpu_v1(struct abx_system_group *g, struct abx_str group)
{
    uint64_t quota, period;
    if (!read_number("/cpu", group, "cpu.cfs_quota_us", &quota) ||
        !read_number("/cpu", group, "cpu.cfs_period_us", &period) || period == 0)
        return; /* "-1" is no number here: not limited */
    g->cpu_limit = (double)quota / (double)period;
    g->has_cpu_limit = true;
}

static void read_group(struct abx_system_group *g)
{
    char text[SMALL_FILE];
    struct abx_str cgroup = read_small("/proc/self/cgroup", text, sizeof(text)), group;
    if (find_group(cgroup, "memory", &group))
        read_memory_group(g, "/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes");
    else if (find_group(cgroup, NULL, &group))
        read_group_v2(g, group);
    if (find_group(cgroup, "cpu", &group))
        read_cpu_v1(g, group);
}

int abx_system_read(struct abx_system_facts *ret)
{
    struct abx_system_facts f = {0};
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    f.cpus = online > 0 && online < CPUS_MAX ? (uint32_t)online : 1;
    if (online <= 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
        f.cpus = (uint32_t)CPU_COUNT(&set);
    if (uname(&f.uts) < 0)
        return -errno;
    if (getloadavg(f.load, 3) != 3)
        f.load[0] = f.load[1] = f.load[2] = 0;
    int rc = read_memory(&f);
    if (rc == 0)
        rc = read_disk(&f);
    if (rc < 0)
        return rc;
    read_group(&f.group);
    *ret = f;
    return 0;
}
