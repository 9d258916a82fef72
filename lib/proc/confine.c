/* lib/proc/confine.c: confinements: what is prepared by the parent (confine.h); confine_child.c
 * applies it. */
#include "lib/proc/confine.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/proc/proc_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"
#include "lib/proc/confine_filters.h"

/* Landlock as of ABI 7; Debian's headers stop at 6.1. */
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_CHAR = 1 << 6,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_BLOCK = 1 << 11,
    FS_MAKE_SYM = 1 << 12,
    FS_REFER = 1 << 13,
    FS_TRUNCATE = 1 << 14,
    FS_IOCTL_DEV = 1 << 15,
    FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
    NET_BIND = 1 << 0,
    NET_CONNECT = 1 << 1,
    SCOPE_ABSTRACT = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
    RULE_PATH = 1,
    RULE_PORT = 2,
    ASK_VERSION = 1
};
struct ruleset {
    uint64_t fs, net, scoped;
};
struct port_rule {
    uint64_t access, port;
};
struct path_rule {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

static const struct {
    int abi;
    uint64_t fs;
    size_t ruleset_bytes; /* that this version takes */
} versions[] = {{1, (1U << 13) - 1, 8}, {2, FS_REFER, 8}, {3, FS_TRUNCATE, 8}, {4, 0, 16},
                {5, FS_IOCTL_DEV, 16},  {6, 0, 24}};
enum { LOW_FDS = 10 /* the child puts others there */ };
enum { FILES_ABI = 3, NETWORK_ABI = 4, SIGNALS_ABI = 6 };

/* MAKE_CHAR and MAKE_BLOCK belong to nobody. */
static const uint64_t rights[] = {
    [ABX_CONFINE_READ] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
    [ABX_CONFINE_WRITE] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE |
                          FS_MAKE_REG | FS_MAKE_DIR | FS_MAKE_SYM | FS_MAKE_FIFO | FS_MAKE_SOCK |
                          FS_REMOVE_DIR | FS_REMOVE_FILE | FS_REFER,
    [ABX_CONFINE_DEVICE] = FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV | FS_READ_DIR,
    [ABX_CONFINE_CHANGE] = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE,
    [ABX_CONFINE_REMOVE] = FS_REMOVE_DIR,
};

#define FILTER(name)                                                                               \
    {                                                                                              \
        ABX_COUNTOF(confine_##name), (struct sock_filter *)(uintptr_t)confine_##name               \
    }
static const struct sock_fprog filters[] = {
    [ABX__FILTER_BASE] = FILTER(base),       [ABX__FILTER_CHROMIUM] = FILTER(chromium),
    [ABX__FILTER_NETWORK] = FILTER(network), [ABX__FILTER_NO_UDP] = FILTER(no_udp),
    [ABX__FILTER_NO_UNIX] = FILTER(no_unix), [ABX__FILTER_NO_LISTEN] = FILTER(no_listen),
};
_Static_assert(ABX_COUNTOF(filters) == ABX__FILTERS, "one row per filter");

struct abx_confine {
    _Atomic unsigned refs;
    struct abx__confine_child child; /* without its own terminal */
    struct abx_confine_root *roots;  /* its own, then those of the second list */
    size_t own_count, root_count;
    struct abx_confine_ports connect, bind; /* items: heap */
    unsigned layers;
    struct abx_confine_scope *scope; /* NULL: none */
    struct abx_confine_group *group; /* NULL: none */
};

/* ---- what the kernel has ---- */

const char *abx_confine_layer_name(unsigned layer)
{
    static const char *const names[ABX_CONFINE_LAYERS] = {"files", "signals", "network", "seccomp"};
    for (unsigned i = 0; i < ABX_CONFINE_LAYERS; i++)
        if (layer == 1U << i)
            return names[i];
    return NULL;
}

int abx_confine_abi(void)
{
    static _Atomic int known = -1;
    if (known < 0) {
        long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
        known = abi > 0 ? (int)abi : 0;
    }
    return known;
}

unsigned abx_confine_supported(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    bool has_seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    int abi = abx_confine_abi();
    return (abi >= FILES_ABI ? ABX_CONFINE_FILES : 0U) |
           (abi >= SIGNALS_ABI ? ABX_CONFINE_SIGNALS : 0U) |
           (abi >= NETWORK_ABI && has_seccomp ? ABX_CONFINE_NETWORK : 0U) |
           (has_seccomp ? ABX_CONFINE_SECCOMP : 0U);
}

/* ---- the ruleset ---- */

static int add_path(int ruleset, const struct abx_confine_root *root, uint64_t handled)
{
    struct stat st;
    struct path_rule rule = {rights[root->access] & handled, root->fd};
    if (fstat(root->fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        rule.access &= FS_OF_FILES;
    if (rule.access == 0)
        return 0;
    return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH, &rule, 0) < 0 ? -errno : 0;
}

static int add_ports(int ruleset, const struct abx_confine_ports *ports, uint64_t access)
{
    for (size_t i = 0; ports->is_limited && i < ports->count; i++) {
        struct port_rule rule = {access, ports->items[i]};
        if (syscall(SYS_landlock_add_rule, ruleset, RULE_PORT, &rule, 0) < 0)
            return -errno;
    }
    return 0;
}

static struct ruleset attributes(const struct abx_confine *c, size_t *ret_bytes)
{
    struct ruleset attr = {0};
    for (size_t i = 0; i < ABX_COUNTOF(versions); i++)
        if (abx_confine_abi() >= versions[i].abi) {
            *ret_bytes = versions[i].ruleset_bytes;
            if (c->layers & ABX_CONFINE_FILES)
                attr.fs |= versions[i].fs;
        }
    if (c->layers & ABX_CONFINE_NETWORK)
        attr.net =
            (c->connect.is_limited ? NET_CONNECT : 0U) | (c->bind.is_limited ? NET_BIND : 0U);
    if ((c->layers & ABX_CONFINE_SIGNALS) && c->scope == NULL)
        attr.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
    return attr;
}

/* A descriptor, -errno, or -ENODATA: nothing to hold by Landlock. */
static int make_ruleset(const struct abx_confine *c, int tty_fd)
{
    size_t bytes = 0;
    struct ruleset attr = attributes(c, &bytes);
    if (attr.fs == 0 && attr.net == 0 && attr.scoped == 0)
        return -ENODATA;
    ABX_AUTO_FD fd = (int)syscall(SYS_landlock_create_ruleset, &attr, bytes, 0);
    if (fd < 0)
        return -errno;
    int r = 0;
    for (size_t i = 0; attr.fs != 0 && r == 0 && i < c->root_count; i++)
        r = add_path(fd, &c->roots[i], attr.fs);
    if (attr.fs != 0 && r == 0 && tty_fd > 0)
        r = add_path(fd, &(struct abx_confine_root){tty_fd, ABX_CONFINE_DEVICE}, attr.fs);
    if (r == 0 && (attr.net & NET_CONNECT))
        r = add_ports(fd, &c->connect, NET_CONNECT);
    if (r == 0 && (attr.net & NET_BIND))
        r = add_ports(fd, &c->bind, NET_BIND);
    return r < 0 ? r : abx_fd_take(&fd);
}

int abx__confine_scope_rules(void)
{
    struct abx_confine c = {.layers = ABX_CONFINE_SIGNALS};
    return make_ruleset(&c, -1);
}

struct abx_confine_scope *abx__confine_scope(const struct abx_confine *c)
{
    return c->scope;
}

struct abx_confine_group *abx_confine_group_of(const struct abx_confine *c)
{
    return c->group;
}

int abx_confine_reserve(const struct abx_confine *c)
{
    struct abx__group_fds fds;
    int r = c->group ? abx__confine_group_enter(c->group, &fds) : 0;
    return r < 0 || c->scope == NULL ? r : abx__scope_reserve(c->scope);
}

int abx__confine_prepare(const struct abx_confine *c, int tty_fd, struct abx__confine_child *ret,
                         int *ret_own_fd)
{
    *ret = c->child;
    *ret_own_fd = -1;
    int r = c->group ? abx__confine_group_enter(c->group, &ret->group) : 0;
    if (r < 0)
        return r;
    if (tty_fd <= 0 || !(c->layers & ABX_CONFINE_FILES))
        return 0;
    /* The slave as a path of its own: opening it again, by name, is what is granted (S07). */
    int fd = make_ruleset(c, tty_fd);
    if (fd < 0)
        return fd;
    ret->ruleset_fd = *ret_own_fd = fd;
    return 0;
}

/* ---- making one ---- */

static int copy_ports(struct abx_confine_ports *to, const struct abx_confine_ports *from)
{
    *to = (struct abx_confine_ports){.is_limited = from->is_limited};
    if (!from->is_limited || from->count == 0)
        return 0;
    uint16_t *items = calloc(from->count, sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    memcpy(items, from->items, from->count * sizeof(*items));
    to->items = items;
    to->count = from->count;
    return 0;
}

static int copy_roots(struct abx_confine *c, const struct abx_confine_spec *spec)
{
    size_t n = spec->root_count + spec->more_root_count;
    c->roots = calloc(n + 1, sizeof(*c->roots));
    if (c->roots == NULL)
        return -ENOMEM;
    if (spec->root_count)
        memcpy(c->roots, spec->roots, spec->root_count * sizeof(*c->roots));
    if (spec->more_root_count)
        memcpy(c->roots + spec->root_count, spec->more_roots,
               spec->more_root_count * sizeof(*c->roots));
    c->own_count = spec->root_count;
    c->root_count = n;
    return 0;
}

static int copy_mounts(struct abx_confine *c, int fd)
{
    if (fd <= 0)
        return 0;
    c->child.mounts_fd = fcntl(fd, F_DUPFD_CLOEXEC, LOW_FDS);
    return c->child.mounts_fd < 0 ? -errno : 0;
}

static void add_filter(struct abx__confine_child *child, enum abx__filter which)
{
    child->filters[child->filter_count++] = &filters[which];
}

static void choose_filters(struct abx_confine *c, const struct abx_confine_spec *spec)
{
    if (c->layers & ABX_CONFINE_SECCOMP)
        add_filter(&c->child, spec->is_chromium ? ABX__FILTER_CHROMIUM : ABX__FILTER_BASE);
    if (!(c->layers & ABX_CONFINE_NETWORK))
        return;
    add_filter(&c->child, ABX__FILTER_NETWORK);
    if (spec->no_udp)
        add_filter(&c->child, ABX__FILTER_NO_UDP);
    if (spec->no_unix)
        add_filter(&c->child, ABX__FILTER_NO_UNIX);
    if (spec->bind.is_limited && spec->bind.count == 0)
        add_filter(&c->child, ABX__FILTER_NO_LISTEN);
}

static int fill(struct abx_confine *c, const struct abx_confine_spec *spec)
{
    c->layers = spec->layers & abx_confine_supported();
    if (c->layers & ABX_CONFINE_SIGNALS)
        c->scope = abx_confine_scope_ref(spec->scope);
    c->group = abx_confine_group_ref(spec->group);
    if (spec->keeps_privileges) /* a filter would need no_new_privs, or be undone by root */
        c->layers &= ABX_CONFINE_FILES | ABX_CONFINE_SIGNALS;
    c->child.keeps_privileges = spec->keeps_privileges;
    c->child.keeps_capabilities = spec->keeps_capabilities;
    c->child.limit_count = spec->limit_count;
    memcpy(c->child.limits, spec->limits, sizeof(c->child.limits));
    int r = copy_roots(c, spec);
    if (r == 0)
        r = copy_ports(&c->connect, &spec->connect);
    if (r == 0)
        r = copy_ports(&c->bind, &spec->bind);
    if (r == 0)
        r = copy_mounts(c, spec->mounts_fd);
    if (r < 0)
        return r;
    choose_filters(c, spec);
    c->child.ruleset_fd = make_ruleset(c, -1);
    return c->child.ruleset_fd == -ENODATA ? 0 : c->child.ruleset_fd;
}

int abx_confine_new(const struct abx_confine_spec *spec, const struct abx_confine **ret,
                    struct abx_error *err)
{
    ABX_ASSERT(spec->limit_count <= ABX_CONFINE_LIMITS_MAX);
    struct abx_confine *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    c->refs = 1;
    c->child.ruleset_fd = c->child.mounts_fd = -1;
    c->child.group = (struct abx__group_fds){-1, -1};
    int r = fill(c, spec);
    if (r < 0) {
        abx_confine_unref(c);
        return abx_err_sys(err, r, "confinement: the kernel takes no such rules");
    }
    *ret = c;
    return 0;
}

const struct abx_confine *abx_confine_ref(const struct abx_confine *c)
{
    if (c != NULL)
        ((struct abx_confine *)(uintptr_t)c)->refs++;
    return c;
}

void abx_confine_unref(const struct abx_confine *shared)
{
    struct abx_confine *c = (struct abx_confine *)(uintptr_t)shared;
    if (c == NULL || --c->refs > 0)
        return;
    if (c->child.ruleset_fd >= 0)
        close(c->child.ruleset_fd);
    if (c->child.mounts_fd >= 0)
        close(c->child.mounts_fd);
    abx_confine_scope_unref(c->scope);
    abx_confine_group_unref(c->group);
    free(c->roots);
    free((void *)(uintptr_t)c->connect.items);
    free((void *)(uintptr_t)c->bind.items);
    free(c);
}

/* What takes the place of the same of a confinement. */
struct renewal {
    struct abx_confine_root *roots;
    size_t root_count;
    int ruleset_fd; /* -1: none */
};

static int make_renewal(const struct abx_confine *c, const struct abx_confine_root *more,
                        size_t more_count, struct renewal *ret)
{
    struct abx_confine next = {
        .connect = c->connect, .bind = c->bind, .layers = c->layers, .scope = c->scope};
    int r = copy_roots(&next, &(struct abx_confine_spec){.roots = c->roots,
                                                         .root_count = c->own_count,
                                                         .more_roots = more,
                                                         .more_root_count = more_count});
    if (r < 0)
        return r;
    int fd = make_ruleset(&next, -1);
    if (fd < 0 && fd != -ENODATA) {
        free(next.roots);
        return fd;
    }
    *ret = (struct renewal){next.roots, next.root_count, fd < 0 ? -1 : fd};
    return 0;
}

/* What was there before, or what comes to nothing. */
static void drop_renewals(struct renewal *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (all[i].ruleset_fd >= 0)
            close(all[i].ruleset_fd);
        free(all[i].roots);
    }
    free(all);
}

static void exchange(struct abx_confine *c, struct renewal *with)
{
    struct renewal was = {c->roots, c->root_count, c->child.ruleset_fd};
    c->roots = with->roots;
    c->root_count = with->root_count;
    c->child.ruleset_fd = with->ruleset_fd;
    *with = was;
}

int abx_confine_renew(const struct abx_confine *const *all, size_t count,
                      const struct abx_confine_root *more, size_t more_count)
{
    size_t made = 0;
    int r = 0;
    struct renewal *next = calloc(count + 1, sizeof(*next));
    if (next == NULL)
        return -ENOMEM;
    while (made < count && (r = make_renewal(all[made], more, more_count, &next[made])) == 0)
        made++;
    for (size_t i = 0; r == 0 && i < count; i++)
        exchange((struct abx_confine *)(uintptr_t)all[i], &next[i]);
    drop_renewals(next, made);
    return r;
}

unsigned abx_confine_layers(const struct abx_confine *c)
{
    return c->layers;
}

/* ---- this process itself ---- */

/* Landlock holds the calling thread and what it starts. */
static bool is_only_thread(void)
{
#ifdef __SANITIZE_THREAD__
    return true; /* its own thread is there from the first moment */
#else
    enum { DOT_AND_DOTDOT = 2 };
    struct stat st;
    return stat("/proc/self/task", &st) == 0 && st.st_nlink == DOT_AND_DOTDOT + 1;
#endif
}

int abx_confine_self(const struct abx_confine_root *roots, size_t count)
{
    struct abx_confine c = {.roots = (struct abx_confine_root *)(uintptr_t)roots,
                            .root_count = count,
                            .layers = ABX_CONFINE_FILES};
    if (!(abx_confine_supported() & ABX_CONFINE_FILES))
        return -EOPNOTSUPP;
    if (!is_only_thread())
        return -EBUSY;
    ABX_AUTO_FD fd = make_ruleset(&c, -1);
    if (fd < 0)
        return fd;
    if (syscall(SYS_landlock_restrict_self, fd, 0) == 0)
        return 0;
    /* Without CAP_SYS_ADMIN the kernel wants a promise that no program brings new rights. */
    if (errno != EPERM || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return -errno;
    return 0;
}

int abx_confine_enter(const struct abx_confine_spec *spec, struct abx_error *err)
{
    const struct abx_confine *c;
    ABX_ASSERT(spec->scope == NULL && spec->group == NULL && spec->mounts_fd <= 0);
    if (!is_only_thread())
        return abx_err_sys(err, -EBUSY, "confinement: this process has other threads");
    if (abx_confine_new(spec, &c, err) < 0)
        return -1;
    bool is_held = abx__confine_limit(&c->child) == 0 && abx__confine_apply(&c->child) == 0;
    int saved = errno;
    abx_confine_unref(c);
    return is_held ? 0 : abx_err_sys(err, -saved, "confinement: the kernel refuses it");
}
