/* host/runtime/start.c: from a validated spec and a prepared shim to a sandbox: its folder, sockets
 * and limits, and the request that the shim executes. Nothing here waits for the shim. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    GATEWAY_BACKLOG = 512,
    RECORD_MAX = 256 + ABX_LAYERS_MAX * (2 * ABX_DIGEST_LEN + 1),
    ENGINE_LAYERS = 2 /* of this engine, over those of the image */
};

/* What a start holds; all of it is closed at the end, the shim has its own by then. */
struct start {
    struct abx__worker *w;
    const struct abx_sandbox_spec *spec;
    int folder, run, fs, extra;
    int gateway, listen, log; /* gateway: of a step its line, which is the caller's */
    int lowers[ABX_LAYERS_MAX + ENGINE_LAYERS]; /* O_PATH; the first `shared` are not ours */
    uint32_t lower_count, shared;
};

static void start_done(struct start *s)
{
    int *fds[] = {&s->folder, &s->run, &s->fs, &s->extra, &s->listen, &s->log};
    for (size_t i = 0; i < ABX_COUNTOF(fds); i++)
        abx_fd_close(fds[i]);
    if (!s->spec->is_step)
        abx_fd_close(&s->gateway);
    for (uint32_t i = s->shared; i < s->lower_count; i++)
        abx_fd_close(&s->lowers[i]);
}

int abx__record_write(int dir_fd, const struct abx__box_record *r)
{
    char nonce[2 * ABX_NONCE_LEN + 1], digest[2 * ABX_DIGEST_LEN + 1];
    ABX_AUTO_BUF text;
    abx_buf_init(&text, RECORD_MAX);
    abx_hex_encode(r->nonce, sizeof(r->nonce), nonce);
    abx_buf_putf(&text, "%u %s %s", r->slot, nonce, r->layers);
    for (uint32_t i = 0; i < r->digest_count; i++) {
        abx_hex_encode(r->digests[i].bytes, ABX_DIGEST_LEN, digest);
        abx_buf_putf(&text, " %s", digest);
    }
    if (abx_buf_failed(&text))
        return -ENOMEM;
    ABX_AUTO_FD fd =
        openat(dir_fd, "shim", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : abx_fd_write_all(fd, text.ptr, text.len);
}

int abx__record_read(int dir_fd, struct abx__box_record *ret)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    int r = abx_fd_read_file(dir_fd, "shim", RECORD_MAX, &text, &len);
    if (r < 0)
        return r;
    struct abx_str rest = {text, len}, slot, nonce, layers;
    if (!abx_str_split(&rest, ' ', &slot) || !abx_str_split(&rest, ' ', &nonce) ||
        !abx_str_split(&rest, ' ', &layers) || abx_parse_u32(slot, &ret->slot) < 0 ||
        abx_hex_decode(nonce, ret->nonce, sizeof(ret->nonce)) < 0 ||
        abx_str_to_c(layers, ret->layers, sizeof(ret->layers)) < 0)
        return -EINVAL;
    struct abx_str digest;
    for (ret->digest_count = 0; abx_str_split(&rest, ' ', &digest); ret->digest_count++)
        if (ret->digest_count == ABX_LAYERS_MAX ||
            abx_hex_decode(digest, ret->digests[ret->digest_count].bytes, ABX_DIGEST_LEN) < 0)
            return -EINVAL;
    return 0;
}

/* A folder for the runtime side and, when rootful, for the network side to pass through. */
static int private_folder(struct start *s, int at, const char *name, int *ret_fd)
{
    const struct abx_runtime_options *o = &s->w->options;
    if (mkdirat(at, name, 0700) < 0)
        return -errno;
    if (s->w->ids.level == ABX__IDS_PRIVATE &&
        (fchownat(at, name, 0, o->network_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
         fchmodat(at, name, 0710, 0) < 0))
        return -errno;
    *ret_fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

/* A folder that belongs to the sandbox's root, as it lies on disk. */
static int owned_folder(struct start *s, int at, const char *name, mode_t mode)
{
    if (mkdirat(at, name, 0700) < 0 || fchmodat(at, name, mode, 0) < 0)
        return -errno;
    return abx__ids_chown(&s->w->ids, at, name, 0, 0);
}

static int owned_file(struct start *s, int at, const char *name, const char *text)
{
    ABX_AUTO_FD fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = abx_fd_write_all(fd, text, strlen(text));
    if (r < 0 || fchmod(fd, 0644) < 0)
        return r < 0 ? r : -errno;
    return abx__ids_chown(&s->w->ids, at, name, 0, 0);
}

/* What an image leaves to the sandbox (S63): its own machine-id, and no resolver. */
static int make_image_etc(struct start *s)
{
    unsigned char id[16];
    char text[2 * sizeof(id) + 2];
    if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
        return -EIO;
    abx_hex_encode(id, sizeof(id), text);
    text[2 * sizeof(id)] = '\n';
    text[2 * sizeof(id) + 1] = 0;
    int r = owned_file(s, s->folder, "fs/upper/etc/machine-id", text);
    return r < 0
               ? r
               : owned_file(s, s->folder, "fs/upper/etc/resolv.conf", "# network: loopback only\n");
}

static int make_etc(struct start *s)
{
    char text[160];
    snprintf(text, sizeof(text), "%s\n", s->spec->id);
    int r = owned_folder(s, s->folder, "fs/upper/etc", 0755);
    if (r == 0)
        r = owned_file(s, s->folder, "fs/upper/etc/hostname", text);
    if (r == 0 && s->spec->layer_count > 0)
        r = make_image_etc(s);
    snprintf(text, sizeof(text),
             "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 %s\n",
             s->spec->id);
    return r < 0 ? r : owned_file(s, s->folder, "fs/upper/etc/hosts", text);
}

/* fs/{upper,work}, with what is this sandbox's own of /etc. A step's upper becomes a layer: it
 * starts empty. */
static int make_upper(struct start *s)
{
    static const char *const names[] = {"fs", "fs/upper", "fs/work"};
    static const mode_t modes[] = {0700, 0755, 0700};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        int r = owned_folder(s, s->folder, names[i], modes[i]);
        if (r < 0)
            return r;
    }
    s->fs = openat(s->folder, "fs", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fs < 0)
        return -errno;
    return s->spec->is_step ? 0 : make_etc(s);
}

/* The engine's own layers, then the template's or the image's. */
static int open_lowers(struct start *s, struct abx_error *err)
{
    const struct abx__layers *own = &s->w->layers;
    bool is_image = s->spec->layer_count > 0 || s->spec->is_step;
    s->lowers[s->lower_count++] = own->top_fd;
    if (!is_image)
        s->lowers[s->lower_count++] = own->host_fd;
    if (s->spec->is_step)
        s->lowers[s->lower_count++] = own->step_fd;
    s->shared = s->lower_count;
    for (uint32_t i = 0; i < s->spec->layer_count; i++) {
        int fd = abx__store_layer(s->w, &s->spec->layers[i]);
        char hex[2 * ABX_DIGEST_LEN + 1];
        abx_hex_encode(s->spec->layers[i].bytes, ABX_DIGEST_LEN, hex);
        if (fd < 0)
            return abx_err_sys(err, fd, "layer %.12s", hex);
        s->lowers[s->lower_count++] = fd;
    }
    return 0;
}

static int make_gateway(struct start *s)
{
    s->gateway = abx_fd_listen_unix(s->run, "gateway.sock", SOCK_STREAM, GATEWAY_BACKLOG);
    if (s->gateway < 0)
        return s->gateway;
    if (s->w->ids.level == ABX__IDS_PRIVATE &&
        (fchownat(s->run, "gateway.sock", 0, s->w->options.network_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
         fchmodat(s->run, "gateway.sock", 0660, 0) < 0))
        return -errno;
    return 0;
}

static int make_sockets(struct start *s)
{
    int r = s->spec->is_step ? 0 : make_gateway(s);
    if (r < 0)
        return r;
    s->listen = abx_fd_listen_unix(s->folder, "shim.sock", SOCK_SEQPACKET, ABX_SHIM_CLIENTS);
    if (s->listen < 0)
        return s->listen;
    s->log = openat(s->folder, "console.log",
                    O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return s->log < 0 ? -errno : 0;
}

static int make_folder(struct start *s, uint32_t slot, struct abx_error *err)
{
    struct abx__box_record record = {.slot = slot};
    memcpy(record.nonce, s->spec->nonce, sizeof(record.nonce));
    memcpy(record.layers, s->w->layers.name, sizeof(record.layers));
    record.digest_count = s->spec->layer_count;
    memcpy(record.digests, s->spec->layers, sizeof(record.digests));
    int r = private_folder(s, s->w->sandboxes_fd, s->spec->id, &s->folder);
    if (r == -EEXIST)
        return abx_err_set(err, ABX_ALREADY_EXISTS, "there is a folder of this sandbox already");
    if (r == 0)
        r = abx__record_write(s->folder, &record);
    if (r >= 0)
        r = private_folder(s, s->folder, "run", &s->run);
    if (r == 0)
        r = make_upper(s);
    if (r == 0 && s->w->options.guest_libs != NULL)
        r = owned_folder(s, s->folder, "asan", 01777);
    if (r == 0 && s->w->options.guest_libs != NULL) {
        s->extra = openat(s->folder, "asan", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = s->extra < 0 ? -errno : 0;
    }
    if (r == 0)
        r = make_sockets(s);
    return r < 0 ? abx_err_sys(err, r, "sandbox folder") : 0;
}

/* NOFILE: the contract's figure or half of what we may have (S67). */
static uint32_t file_limit(void)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max / 2 < ABX_SANDBOX_NOFILE)
        return (uint32_t)(now.rlim_max / 2);
    return ABX_SANDBOX_NOFILE;
}

_Static_assert(ABX_LAYERS_MAX + ENGINE_LAYERS <= ABX_SHIM_LOWERS_MAX, "the shim takes them all");

static int send_request(struct start *s, const struct abx__started *shim, struct abx_error *err)
{
    const struct abx__worker *w = s->w;
    bool single = w->ids.level == ABX__IDS_SHARED;
    struct abx_shim_request head = {
        .magic = ABX_SHIM_MAGIC,
        .flags = s->extra >= 0 ? ABX_SHIM_HAS_EXTRA : 0,
        .lower_count = s->lower_count,
        .peer_uid = geteuid(),
        .uid = single ? ABX_USER_ID : 0,
        .gid = single ? ABX_USER_ID : 0,
        .nofile = file_limit(),
        .nproc = strcmp(w->cgroups.level, "per-process") == 0 ? s->spec->pids_max : 0};
    memcpy(head.nonce, s->spec->nonce, sizeof(head.nonce));
    struct abx__ops_spec ops = {.w = w, .spec = s->spec, .slot = shim->slot};
    ABX_AUTO_BUF message;
    abx_buf_init(&message, sizeof(head) + ABX_SHIM_OPS_MAX);
    abx_buf_put(&message, &head, sizeof(head));
    abx__ops_sandbox(&ops, &message);
    if (abx_buf_failed(&message))
        return abx_err_set(err, ABX_INTERNAL, "the list of operations is too long");
    head.op_bytes = (uint32_t)(message.len - sizeof(head));
    memcpy(message.ptr, &head, sizeof(head));
    int fds[ABX_SHIM_FD_MAX] = {
        [ABX_SHIM_FD_GATEWAY] = s->gateway, [ABX_SHIM_FD_LISTEN] = s->listen,
        [ABX_SHIM_FD_FOLDER] = s->folder,   [ABX_SHIM_FD_LOG] = s->log,
        [ABX_SHIM_FD_FS] = s->fs,           [ABX_SHIM_FD_EXTRA] = s->extra >= 0 ? s->extra : s->fs};
    memcpy(fds + ABX_SHIM_FD_LOWER0, s->lowers, s->lower_count * sizeof(int));
    ssize_t n = abx_fd_send(shim->control_fd, message.ptr, message.len, fds,
                            ABX_SHIM_FD_LOWER0 + s->lower_count);
    return n < 0 ? abx_err_sys(err, (int)n, "send the request to the shim") : 0;
}

int abx__box_start(struct abx__worker *w, const struct abx_sandbox_spec *spec,
                   const struct abx__started *shim, int line_fd, struct abx_error *err)
{
    struct start s __attribute__((cleanup(start_done))) = {.w = w,
                                                           .spec = spec,
                                                           .folder = -1,
                                                           .run = -1,
                                                           .fs = -1,
                                                           .extra = -1,
                                                           .gateway = line_fd,
                                                           .listen = -1,
                                                           .log = -1};
    if (make_folder(&s, shim->slot, err) < 0 || open_lowers(&s, err) < 0)
        return -1;
    return send_request(&s, shim, err);
}
