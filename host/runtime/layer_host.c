/* host/runtime/layer_host.c: the lower layer of the template `host` (security S50): an allow-list.
 * Mount points for the machine's read-only system folders, a generated /etc with copies of what is
 * world-readable there and named here, and the folders that a Linux system has. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/contract/contract.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ETC_DEPTH = 6, ETC_ENTRIES = 8192, ETC_FILE_MAX = 8 * 1024 * 1024 };

/* Links stay links, folders are bound; what this machine lacks is left out. */
const char *const abx__host_dirs[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", NULL};

static const struct {
    const char *name;
    mode_t mode;
    uint32_t uid;
} folders[] = {
    {"usr", 0755, 0},          {"opt", 0755, 0},
    {"proc", 0555, 0},         {"sys", 0555, 0},
    {"dev", 0755, 0},          {"mnt", 0755, 0},
    {"media", 0755, 0},        {"srv", 0755, 0},
    {"run", 0755, 0},          {"run/lock", 01777, 0},
    {"tmp", 01777, 0},         {"root", 0700, 0},
    {"home", 0755, 0},         {"home/user", 0755, ABX_USER_ID},
    {"var", 0755, 0},          {"var/tmp", 01777, 0},
    {"var/log", 0755, 0},      {"var/lib", 0755, 0},
    {"var/cache", 0755, 0},    {"var/spool", 0755, 0},
    {"var/lib/misc", 0755, 0}, {"etc", 0755, 0},
    {"etc/ssl", 0755, 0},
};

static const struct {
    const char *name, *text;
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                   "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "user:x:1000:1000:user:/home/user:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nsudo:x:27:\nusers:x:100:\nuser:x:1000:\n"
                  "nogroup:x:65534:\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                          "networks: files\nprotocols: files\nservices: files\n"},
    {"etc/resolv.conf", "# network: loopback only\n"},
};

/* What is copied of the machine's /etc, where it is world-readable. */
static const char *const etc_names[] = {
    "ld.so.cache",     "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs",
    "ca-certificates", "localtime",  "profile",      "profile.d",    "bash.bashrc",
    "services",        "protocols",  "mime.types",
};

struct copy {
    const struct abx__ids *ids;
    int entries;
};

static int own(const struct abx__ids *ids, int dir_fd, const char *name, uint32_t uid)
{
    return abx__ids_chown(ids, dir_fd, name, uid, uid);
}

static int write_new(const struct abx__ids *ids, int dir_fd, const char *name, const char *text)
{
    ABX_AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = abx_fd_write_all(fd, text, strlen(text));
    if (r < 0 || fchmod(fd, 0644) < 0)
        return r < 0 ? r : -errno;
    return own(ids, dir_fd, name, 0);
}

static int copy_regular(const struct copy *c, int from_dir, int to_dir, const char *name, int flags)
{
    ABX_AUTO_FD from = openat(from_dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
    struct stat st;
    if (from < 0 || fstat(from, &st) < 0)
        return errno == EACCES ? 0 : -errno;
    /* Only what any user of this machine may read (S50). */
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > ETC_FILE_MAX)
        return 0;
    ABX_AUTO_FD to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    for (ssize_t left = st.st_size, n; left > 0; left -= n) {
        n = sendfile(to, from, NULL, (size_t)left);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
    }
    if (fchmod(to, (st.st_mode & 0111) ? 0755 : 0644) < 0)
        return -errno;
    return own(c->ids, to_dir, name, 0);
}

static int copy_link(const struct copy *c, int from_dir, int to_dir, const char *name)
{
    char target[1024];
    ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = 0;
    if (symlinkat(target, to_dir, name) < 0)
        return -errno;
    return own(c->ids, to_dir, name, 0);
}

static int copy_entry(struct copy *c, int from_dir, int to_dir, const char *name, int depth);

static int copy_children(struct copy *c, int from, int to, int depth)
{
    DIR *dir = fdopendir(from);
    if (dir == NULL) {
        close(from);
        return -errno;
    }
    int r = 0;
    const struct dirent *e;
    while (r == 0 && (e = readdir(dir)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = copy_entry(c, dirfd(dir), to, e->d_name, depth + 1);
    closedir(dir);
    return r;
}

static int copy_folder(struct copy *c, int from_dir, int to_dir, const char *name, int depth)
{
    struct stat st;
    int from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return errno == EACCES ? 0 : -errno;
    if (fstat(from, &st) < 0 || (st.st_mode & 05) != 05 || depth >= ETC_DEPTH) {
        close(from);
        return 0;
    }
    ABX_AUTO_FD to = -1;
    if (mkdirat(to_dir, name, 0755) == 0 && fchmodat(to_dir, name, 0755, 0) == 0)
        to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = to < 0 ? -errno : own(c->ids, to_dir, name, 0);
    if (r < 0) {
        close(from);
        return r;
    }
    return copy_children(c, from, to, depth);
}

static int copy_entry(struct copy *c, int from_dir, int to_dir, const char *name, int depth)
{
    struct stat st;
    if (++c->entries > ETC_ENTRIES)
        return -E2BIG;
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(st.st_mode))
        return copy_folder(c, from_dir, to_dir, name, depth);
    if (S_ISLNK(st.st_mode))
        return copy_link(c, from_dir, to_dir, name);
    return copy_regular(c, from_dir, to_dir, name, O_NOFOLLOW);
}

static int copy_etc(const struct abx__ids *ids, int dir_fd, struct abx_error *err)
{
    struct copy c = {.ids = ids};
    for (size_t i = 0; i < ABX_COUNTOF(etc_names); i++) {
        char path[64];
        snprintf(path, sizeof(path), "/etc/%s", etc_names[i]);
        char *slash = strrchr(path, '/');
        *slash = 0;
        ABX_AUTO_FD from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from < 0 && errno == ENOENT)
            continue;
        ABX_AUTO_FD to = openat(dir_fd, path + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = from < 0 || to < 0 ? -errno : copy_entry(&c, from, to, slash + 1, 0);
        if (r < 0)
            return abx_err_sys(err, r, "copy %s/%s", path, slash + 1);
    }
    return 0;
}

/* /bin and its like: a link is copied, a folder becomes a mount point. */
static int mirror_dirs(const struct abx__layer_spec *spec, int dir_fd, struct abx__layers *l)
{
    struct copy c = {.ids = spec->ids};
    ABX_AUTO_FD root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    for (size_t i = 0; abx__host_dirs[i] != NULL; i++) {
        struct stat st;
        if (fstatat(root, abx__host_dirs[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        l->exists[i] = true;
        l->is_link[i] = S_ISLNK(st.st_mode);
        int r = l->is_link[i] ? copy_link(&c, root, dir_fd, abx__host_dirs[i])
                              : (mkdirat(dir_fd, abx__host_dirs[i], 0755) < 0 ? -errno : 0);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Shell start-up files of a new home, from the machine's skeleton. */
static int copy_skeleton(const struct abx__ids *ids, int dir_fd)
{
    static const char *const names[] = {".bashrc", ".profile", ".bash_logout"};
    struct copy c = {.ids = ids};
    ABX_AUTO_FD skel = open("/etc/skel", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD home = openat(dir_fd, "home/user", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (skel < 0 || home < 0)
        return home < 0 ? -errno : 0;
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        int r = copy_regular(&c, skel, home, names[i], O_NOFOLLOW);
        if (r == 0 && faccessat(home, names[i], F_OK, 0) == 0)
            r = own(ids, home, names[i], ABX_USER_ID);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    return 0;
}

int abx__layer_host(const struct abx__layer_spec *spec, int dir_fd, struct abx__layers *l,
                    struct abx_error *err)
{
    for (size_t i = 0; i < ABX_COUNTOF(folders); i++) {
        int r = mkdirat(dir_fd, folders[i].name, 0700) < 0 ||
                        fchmodat(dir_fd, folders[i].name, folders[i].mode, 0) < 0
                    ? -errno
                    : own(spec->ids, dir_fd, folders[i].name, folders[i].uid);
        if (r < 0)
            return abx_err_sys(err, r, "host template: %s", folders[i].name);
    }
    for (size_t i = 0; i < ABX_COUNTOF(files); i++) {
        int r = write_new(spec->ids, dir_fd, files[i].name, files[i].text);
        if (r < 0)
            return abx_err_sys(err, r, "host template: %s", files[i].name);
    }
    int r = mirror_dirs(spec, dir_fd, l);
    if (r == 0)
        r = copy_skeleton(spec->ids, dir_fd);
    if (r < 0)
        return abx_err_sys(err, r, "host template");
    return copy_etc(spec->ids, dir_fd, err);
}
