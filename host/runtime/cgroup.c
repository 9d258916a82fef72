/* host/runtime/cgroup.c: a cgroup folder per sandbox and hierarchy (engine 2, security S67).
 *
 * v1: memory, pids, cpu, freezer, as root. v2: the same through one folder where it has
 * controllers, else only for cgroup.kill; always fresh, since one kill poisons a v2 cgroup for
 * later members. Names are TOP/abx-HASH/sSLOT, HASH of the state folder, so two engines never meet.
 * TOP is where the hierarchy is mounted; of v2 rather the cgroup that the engine was started in, if
 * that was handed to it (Delegate=yes), the only one for an ordinary user. Then the engine's own
 * processes move to TOP/abx-HASH/engine, since one with processes hands no controllers down. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/proc/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { TEXT_MAX = 1024 * 1024, PERIOD_US = 100000 };
static const char all_controllers[] = "+memory +pids +cpu", level_none[] = "per-process",
                  level_v2[] = "cgroup-v2";

static const char *const controllers[] = {[ABX__CG_MEMORY] = "memory",
                                          [ABX__CG_PIDS] = "pids",
                                          [ABX__CG_CPU] = "cpu",
                                          [ABX__CG_FREEZER] = "freezer",
                                          [ABX__CG_UNIFIED] = "cgroup2"};
_Static_assert(ABX_COUNTOF(controllers) == ABX__CG__COUNT, "one name per hierarchy");

/* Knobs of a limit; the first rows must be writable, the optional ones follow where they exist. */
enum limit { LIMIT_MEMORY, LIMIT_SWAP, LIMIT_PIDS, LIMIT_CPU };
static const struct knob {
    enum abx__cgroup_kind kind;
    enum limit limit;
    const char *file;
    bool optional;
} knobs[] = {
    {ABX__CG_MEMORY, LIMIT_MEMORY, "memory.limit_in_bytes", false},
    {ABX__CG_MEMORY, LIMIT_MEMORY, "memory.memsw.limit_in_bytes", true},
    {ABX__CG_MEMORY, LIMIT_MEMORY, "memory.kmem.limit_in_bytes", true},
    {ABX__CG_MEMORY, LIMIT_MEMORY, "memory.kmem.tcp.limit_in_bytes", true},
    {ABX__CG_PIDS, LIMIT_PIDS, "pids.max", false},
    {ABX__CG_CPU, LIMIT_CPU, "cpu.cfs_quota_us", false},
};
static const struct knob unified_knobs[] = {
    {ABX__CG_UNIFIED, LIMIT_MEMORY, "memory.max", false},
    {ABX__CG_UNIFIED, LIMIT_SWAP, "memory.swap.max", true}, /* v1 counts both together */
    {ABX__CG_UNIFIED, LIMIT_PIDS, "pids.max", false},
    {ABX__CG_UNIFIED, LIMIT_CPU, "cpu.max", false},
};

/* FNV-1a: a name, not a secret. */
static uint64_t hash_path(const char *path)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *path != 0; path++)
        h = (h ^ (unsigned char)*path) * UINT64_C(1099511628211);
    return h;
}

/* One line of mountinfo: "... MOUNTPOINT OPTS ... - TYPE SOURCE SUPEROPTS". */
static void read_mount(struct abx_str line, uint64_t hash, struct abx__cgroups *ret)
{
    struct abx_str point = {0}, part, rest = line, type, source, super;
    for (int field = 0; field < 5 && abx_str_split(&rest, ' ', &part); field++)
        point = part;
    ptrdiff_t dash = abx_str_find(rest, ABX_STR(" - "));
    if (dash < 0)
        return;
    rest = abx_str_sub(rest, (size_t)dash + 3, rest.len);
    if (!abx_str_split(&rest, ' ', &type) || !abx_str_split(&rest, ' ', &source) ||
        !abx_str_split(&rest, ' ', &super))
        return;
    bool v1 = abx_str_is(type, "cgroup"), v2 = abx_str_is(type, "cgroup2");
    for (int i = 0; i < ABX__CG__COUNT; i++) {
        bool match = i == ABX__CG_UNIFIED ? v2 : v1 && abx_str_has_item(super, ',', controllers[i]);
        if (!match || ret->parents[i][0] != 0 || point.len > 128)
            continue;
        snprintf(ret->parents[i], sizeof(ret->parents[i]), "%.*s/abx-%016llx", ABX_STR_FMT(point),
                 (unsigned long long)hash);
    }
}

/* Whether the root of the hierarchy that @parent lies in is ours to write. */
static bool can_make(const char *parent)
{
    if (parent[0] == 0)
        return false;
    bool made = mkdir(parent, 0755) == 0;
    if (!made && errno != EEXIST)
        return false;
    if (made)
        rmdir(parent);
    return true;
}

/* ---- v2 ---- */

static bool has_controllers(const char *cgroup)
{
    return abx_cgroup_has(cgroup, "memory") && abx_cgroup_has(cgroup, "pids") &&
           abx_cgroup_has(cgroup, "cpu");
}

static bool name_ours(const char *top, uint64_t hash, char out[192])
{
    return snprintf(out, 192, "%s/abx-%016llx", top, (unsigned long long)hash) < 192;
}

/* All the engine's processes are called abx... */
static struct abx_cgroup_room room_of(const struct abx__cgroups *cg, char leaf[256])
{
    snprintf(leaf, 256, "%s/engine", cg->parents[ABX__CG_UNIFIED]);
    return (struct abx_cgroup_room){
        .path = cg->own, .leaf = leaf, .program = "abx", .controllers = abx_str(all_controllers)};
}

static void leave_own(const struct abx__cgroups *cg)
{
    char leaf[256], control[256];
    struct abx_cgroup_room room = room_of(cg, leaf);
    snprintf(control, sizeof(control), "%s/cgroup.subtree_control", cg->parents[ABX__CG_UNIFIED]);
    (void)abx_fd_write_file(AT_FDCWD, control, ABX_STR("-memory -pids -cpu"));
    abx_cgroup_give_back(&room);
    (void)rmdir(leaf); /* stays while a sandbox, and with it a shim, lives */
}

/* In the cgroup @own that the engine was started in, if it may have others there. */
static bool settle_in_own(struct abx__cgroups *cg, const char *own, uint64_t hash, bool rootful)
{
    char *parent = cg->parents[ABX__CG_UNIFIED], before[sizeof(cg->parents[0])], leaf[256];
    if (strlen(own) >= sizeof(cg->own) || !abx_cgroup_is_given(own, !rootful) ||
        !has_controllers(own))
        return false;
    memcpy(before, parent, sizeof(before));
    memcpy(cg->own, own, strlen(own) + 1);
    struct abx_cgroup_room room = room_of(cg, leaf);
    bool made = name_ours(own, hash, parent) && (mkdir(parent, 0755) == 0 || errno == EEXIST);
    if (made) {
        room = room_of(cg, leaf);
        if ((mkdir(leaf, 0755) == 0 || errno == EEXIST) && abx_cgroup_make_room(&room) == 0)
            return true;
        (void)rmdir(leaf);
        (void)rmdir(parent);
    }
    memcpy(parent, before, sizeof(before));
    cg->own[0] = 0;
    return false;
}

/* Whether the top of the hierarchy, where @parent lies, hands all controllers down. They stay
 * handed down: somebody else may count on them by the time that we end. */
static bool settle_at_top(const char *parent)
{
    char top[192], control[256];
    snprintf(top, sizeof(top), "%s", parent);
    char *slash = strrchr(top, '/');
    if (slash == NULL)
        return false;
    *slash = 0;
    snprintf(control, sizeof(control), "%s/cgroup.subtree_control", top);
    return has_controllers(top) &&
           abx_fd_write_file(AT_FDCWD, control, abx_str(all_controllers)) >= 0;
}

/* ---- what there is ---- */

void abx__cgroups_read(struct abx_str mounts, const char *own, const char *state_dir, bool rootful,
                       struct abx__cgroups *ret)
{
    struct abx_str line;
    uint64_t hash = hash_path(state_dir);
    *ret = (struct abx__cgroups){.level = level_none};
    while (rootful && abx_str_split(&mounts, '\n', &line))
        read_mount(line, hash, ret);
    for (int i = 0; i < ABX__CG__COUNT; i++)
        if (!can_make(ret->parents[i]))
            ret->parents[i][0] = 0;
    if (ret->parents[ABX__CG_MEMORY][0] && ret->parents[ABX__CG_PIDS][0])
        ret->level = "cgroup-v1";
    else if ((own != NULL && settle_in_own(ret, own, hash, rootful)) ||
             settle_at_top(ret->parents[ABX__CG_UNIFIED]))
        ret->level = level_v2;
}

void abx__cgroups_find(const char *state_dir, bool rootful, struct abx__cgroups *ret)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    char own[PATH_MAX];
    bool has_own = abx_cgroup_own(own, sizeof(own)) == 0;
    (void)abx_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", TEXT_MAX, &text, &len);
    abx__cgroups_read(abx_str_n(text, len), has_own ? own : NULL, state_dir, rootful, ret);
}

static void limit_text(enum abx__cgroup_kind kind, enum limit what, const struct abx__limits *l,
                       char out[48])
{
    switch (what) {
    case LIMIT_MEMORY:
        snprintf(out, 48, "%llu", (unsigned long long)l->memory_mb << 20);
        return;
    case LIMIT_SWAP:
        snprintf(out, 48, "0");
        return;
    case LIMIT_PIDS:
        snprintf(out, 48, "%u", l->pids_max);
        return;
    case LIMIT_CPU:
        snprintf(out, 48, kind == ABX__CG_UNIFIED ? "%u 100000" : "%u", l->cpu_count * PERIOD_US);
        return;
    }
}

bool abx__cgroups_knob(const struct abx__cgroups *cg, size_t index, uint32_t slot,
                       const struct abx__limits *l, struct abx__knob *ret)
{
    bool unified = strcmp(cg->level, level_v2) == 0;
    const struct knob *rows = unified ? unified_knobs : knobs;
    size_t count = unified ? ABX_COUNTOF(unified_knobs) : ABX_COUNTOF(knobs);
    if (index >= count || strcmp(cg->level, level_none) == 0)
        return false;
    const struct knob *k = &rows[index];
    ret->path[0] = 0;
    ret->is_optional = k->optional;
    if (cg->parents[k->kind][0] != 0)
        snprintf(ret->path, sizeof(ret->path), "%s/s%u/%s", cg->parents[k->kind], slot, k->file);
    limit_text(k->kind, k->limit, l, ret->text);
    return true;
}

int abx__cgroups_open(const struct abx__cgroups *cg, struct abx_error *err)
{
    for (int i = 0; i < ABX__CG__COUNT; i++) {
        if (cg->parents[i][0] == 0)
            continue;
        if (mkdir(cg->parents[i], 0755) < 0 && errno != EEXIST)
            return abx_err_sys(err, -errno, "cgroup %s", cg->parents[i]);
        char control[256];
        snprintf(control, sizeof(control), "%s/cgroup.subtree_control", cg->parents[i]);
        int r = i == ABX__CG_UNIFIED && strcmp(cg->level, level_v2) == 0
                    ? abx_fd_write_file(AT_FDCWD, control, abx_str(all_controllers))
                    : 0;
        if (r < 0) /* without them the level would be a lie */
            return abx_err_sys(err, r, "cgroup %s", control);
    }
    return 0;
}

void abx__cgroups_close(const struct abx__cgroups *cg)
{
    if (cg->own[0] != 0)
        leave_own(cg);
    for (int i = 0; i < ABX__CG__COUNT; i++)
        if (cg->parents[i][0] != 0)
            (void)rmdir(cg->parents[i]); /* stays while a sandbox lives */
}

bool abx__cgroups_folder(const struct abx__cgroups *cg, enum abx__cgroup_kind kind, uint32_t slot,
                         char out[256])
{
    if (cg->parents[kind][0] == 0)
        return false;
    snprintf(out, 256, "%s/s%u", cg->parents[kind], slot);
    return true;
}

void abx__cgroups_kill(const struct abx__cgroups *cg, uint32_t slot)
{
    if (cg->parents[ABX__CG_UNIFIED][0] == 0)
        return;
    char path[256];
    snprintf(path, sizeof(path), "%s/s%u/cgroup.kill", cg->parents[ABX__CG_UNIFIED], slot);
    (void)abx_fd_write_file(AT_FDCWD, path, ABX_STR("1"));
}

int abx__cgroups_remove(const struct abx__cgroups *cg, uint32_t slot)
{
    int result = 0;
    for (int i = 0; i < ABX__CG__COUNT; i++) {
        char path[256];
        if (abx__cgroups_folder(cg, (enum abx__cgroup_kind)i, slot, path) && rmdir(path) < 0 &&
            errno != ENOENT)
            result = -errno;
    }
    return result;
}

void abx__cgroups_each(const struct abx__cgroups *cg, void (*fn)(void *arg, uint32_t slot),
                       void *arg)
{
    for (int i = 0; i < ABX__CG__COUNT; i++) {
        DIR *dir = cg->parents[i][0] ? opendir(cg->parents[i]) : NULL;
        if (dir == NULL)
            continue;
        const struct dirent *e;
        while ((e = readdir(dir)) != NULL) {
            struct abx_str name = abx_str(e->d_name);
            uint32_t slot;
            if (abx_str_starts(name, "s") &&
                abx_parse_u32(abx_str_sub(name, 1, name.len), &slot) == 0 && slot < ABX__IDS_SLOTS)
                fn(arg, slot);
        }
        closedir(dir);
    }
}
