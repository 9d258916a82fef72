/* host/engine/statedir.c: the state folder: its layout, its lock, the client's configuration. */
#include "host/engine/startup_priv.h"

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CONFIG_MAX = 4096 };

/* An existing folder of somebody else is not ours to use: its owner could swap what is below. */
static int own_dir(int parent, const char *name, struct stat *want, struct abx_error *err)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return abx_err_sys(err, -errno, "make folder %s", name);
    ABX_AUTO_FD fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return abx_err_sys(err, -errno, "open folder %s", name);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return abx_err_sys(err, -errno, "stat folder %s", name);
    if (st.st_uid != geteuid() && st.st_uid != want->st_uid)
        return abx_err_set(err, ABX_PERMISSION_DENIED,
                           "folder %s belongs to uid %u: give another --state, or remove it", name,
                           (unsigned)st.st_uid);
    bool moves = st.st_uid != want->st_uid || st.st_gid != want->st_gid;
    if (moves && fchown(fd, want->st_uid, want->st_gid) < 0)
        return abx_err_sys(err, -errno, "chown folder %s", name);
    if (fchmod(fd, want->st_mode) < 0)
        return abx_err_sys(err, -errno, "chmod folder %s", name);
    return abx_fd_take(&fd);
}

/* Only the network side's group may pass through, and only by exact names. */
static struct stat passage(gid_t gid)
{
    bool is_root = geteuid() == 0;
    return (struct stat){
        .st_uid = geteuid(), .st_gid = is_root ? gid : getegid(), .st_mode = is_root ? 0710 : 0700};
}

static int take_lock(struct abx__statedir *d, struct abx_error *err)
{
    char text[32] = {0};
    d->lock_fd = openat(d->fd, "abxd.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock_fd < 0)
        return abx_err_sys(err, -errno, "open %s/abxd.lock", d->path);
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return abx_err_sys(err, -errno, "lock %s/abxd.lock", d->path);
        ssize_t n = pread(d->lock_fd, text, sizeof(text) - 1, 0);
        struct abx_str pid = abx_str_n(text, n < 0 ? 0 : (size_t)n);
        return abx_err_set(err, ABX_ALREADY_EXISTS,
                           "another engine (pid %.*s) runs on %s: stop it with `abx down`, or give"
                           " another --state",
                           (int)(pid.len > 0 ? pid.len - 1 : 0), pid.ptr, d->path);
    }
    int len = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(d->lock_fd, 0) < 0 || pwrite(d->lock_fd, text, (size_t)len, 0) != len)
        return abx_err_sys(err, -errno, "write %s/abxd.lock", d->path);
    return 0;
}

int abx__statedir_open(struct abx__statedir *d, const char *path, uid_t uid, gid_t gid,
                       struct abx_error *err)
{
    *d = (struct abx__statedir){path, -1, -1, -1, -1, -1, {0}, NULL};
    if (path == NULL || path[0] != '/')
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "--state: an absolute path is needed");
    int r = abx_fd_mkdir_p(path, 0755);
    if (r < 0)
        return abx_err_sys(err, r, "make folder %s", path);
    struct stat pass = passage(gid);
    struct stat db = {.st_uid = uid, .st_gid = gid, .st_mode = 0700};
    d->fd = own_dir(AT_FDCWD, path, &pass, err);
    if (d->fd < 0 || take_lock(d, err) < 0)
        return -1;
    d->sandboxes_fd = own_dir(d->fd, "sandboxes", &pass, err);
    if (d->sandboxes_fd < 0)
        return -1;
    d->db_fd = own_dir(d->fd, "db", &db, err);
    return d->db_fd < 0 ? -1 : 0;
}

/* client.yaml is a list of "name: value" lines; ours to write, and to read back the key. */
static void find_key(struct abx__statedir *d, struct abx_str text)
{
    struct abx_str line;
    while (abx_str_split(&text, '\n', &line)) {
        if (!abx_str_starts(line, "api_key:"))
            continue;
        struct abx_str key = abx_str_trim(abx_str_sub(line, 8, line.len));
        unsigned char bytes[(ABX__KEY_LEN - 4) / 2];
        if (key.len == ABX__KEY_LEN && abx_str_starts(key, "e2b_") &&
            abx_hex_decode(abx_str_sub(key, 4, key.len), bytes, sizeof(bytes)) == 0)
            abx_str_to_c(key, d->key, sizeof(d->key));
    }
}

uint16_t abx__statedir_last_port(const struct abx__statedir *d)
{
    ABX_AUTO_FREE char *text = NULL;
    if (abx_fd_read_file(d->fd, "client.yaml", CONFIG_MAX, &text, NULL) < 0)
        return 0;
    struct abx_str rest = abx_str(text), line;
    uint32_t port;
    while (abx_str_split(&rest, '\n', &line)) {
        ptrdiff_t colon = abx_str_rchr(line, ':');
        if (abx_str_starts(line, "url: ") && colon > 4 &&
            abx_parse_u32(abx_str_sub(line, (size_t)colon + 1, line.len), &port) == 0 &&
            port <= UINT16_MAX)
            return (uint16_t)port;
    }
    return 0;
}

static int load_or_make_key(struct abx__statedir *d, struct abx_error *err)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    unsigned char secret[(ABX__KEY_LEN - 4) / 2];
    int r = abx_fd_read_file(d->fd, "client.yaml", CONFIG_MAX, &text, &len);
    if (r < 0 && r != -ENOENT)
        return abx_err_sys(err, r, "read %s/client.yaml", d->path);
    if (r >= 0) {
        find_key(d, abx_str_n(text, len));
        if (d->key[0] == '\0')
            return abx_err_set(err, ABX_FAILED_PRECONDITION,
                               "%s/client.yaml holds no api_key of ours: remove the file to have a"
                               " new key made",
                               d->path);
        return 0;
    }
    randombytes_buf(secret, sizeof(secret));
    memcpy(d->key, "e2b_", 4);
    abx_hex_encode(secret, sizeof(secret), d->key + 4);
    return 0;
}

static int write_info(struct abx__statedir *d, pid_t pid, const char *url)
{
    ABX_AUTO_BUF b = {.max = CONFIG_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "pid", pid);
    abx_json_kv_c(&w, "url", url);
    abx_json_kv_c(&w, "version", ABX_VERSION);
    abx_json_end_object(&w);
    abx_buf_put_byte(&b, '\n');
    if (abx_buf_failed(&b))
        return -ENOMEM;
    if (pwrite(d->info_fd, b.ptr, b.len, 0) != (ssize_t)b.len ||
        ftruncate(d->info_fd, (off_t)b.len) < 0)
        return -errno;
    return 0;
}

/* For libabx and abx where ABX_STATE is not set: the same lines in the user's own configuration. */
static int copy_config(const char *path, struct abx_str text)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL ||
        abx_str_to_c(abx_str_n(path, (size_t)(slash - path)), dir, sizeof(dir)) < 0)
        return -EINVAL;
    int r = abx_fd_mkdir_p(dir, 0700);
    ABX_AUTO_FD at = r < 0 ? -1 : open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return r < 0 ? r : -errno;
    return abx_fd_replace_file(at, slash + 1, text, 0600);
}

int abx__statedir_publish(struct abx__statedir *d, const char *url, const char *domain,
                          struct abx_error *err)
{
    ABX_AUTO_BUF b = {.max = CONFIG_MAX};
    if (load_or_make_key(d, err) < 0)
        return -1;
    abx_buf_putf(&b, "url: %s\napi_key: %s\ndomain: %s\n", url, d->key, domain);
    int r = abx_buf_failed(&b) ? -ENOMEM
                               : abx_fd_replace_file(d->fd, "client.yaml", abx_buf_str(&b), 0600);
    if (r < 0)
        return abx_err_sys(err, r, "write %s/client.yaml", d->path);
    if (d->client_config && (r = copy_config(d->client_config, abx_buf_str(&b))) < 0)
        return abx_err_sys(err, r, "write %s", d->client_config);
    /* Kept open: the confined network side can not open it again, but says when it ends. */
    d->info_fd = openat(d->fd, "abxd.json", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (d->info_fd < 0)
        return abx_err_sys(err, -errno, "open %s/abxd.json", d->path);
    r = write_info(d, getpid(), url);
    return r < 0 ? abx_err_sys(err, r, "write %s/abxd.json", d->path) : 0;
}

void abx__statedir_retire(struct abx__statedir *d)
{
    int r = d->info_fd < 0 ? 0 : write_info(d, 0, "");
    if (r < 0)
        abx_log(ABX_LOG_WARN, "abxd.json not updated errno=%d", -r);
}

void abx__statedir_close(struct abx__statedir *d)
{
    sodium_memzero(d->key, sizeof(d->key));
    abx_fd_close(&d->info_fd);
    abx_fd_close(&d->db_fd);
    abx_fd_close(&d->sandboxes_fd);
    abx_fd_close(&d->fd);
    abx_fd_close(&d->lock_fd); /* last: the next engine may start now */
}
