/* guest/caps/watch_network_test.c: network mounts are refused unless allowed (the watch line of the
 * cases): a FUSE file system of an empty folder, served by a thread of this test. */
#include "guest/caps/files_rig_priv.h"
#include "guest/caps/watch.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { REQUEST_MAX = 1 << 18 };

union answer {
    struct fuse_init_out init;
    struct fuse_attr_out attr;
    struct fuse_statfs_out statfs;
    struct fuse_open_out open;
};

/* The body of the answer to @in: its size, or -errno. */
static int answer_to(const struct fuse_in_header *in, union answer *out)
{
    *out = (union answer){0};
    switch (in->opcode) {
    case FUSE_INIT:
        out->init = (struct fuse_init_out){
            .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
        return sizeof(out->init);
    case FUSE_GETATTR:
        out->attr.attr = (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
        return sizeof(out->attr);
    case FUSE_STATFS:
        return sizeof(out->statfs);
    case FUSE_OPENDIR:
        return sizeof(out->open);
    case FUSE_READDIR:
    case FUSE_RELEASEDIR:
        return 0;
    default:
        return -ENOSYS;
    }
}

static void *serve(void *arg)
{
    static _Alignas(struct fuse_in_header) char request[REQUEST_MAX];
    int fd = *(int *)arg;
    ssize_t n;
    while ((n = read(fd, request, sizeof(request))) > 0 || (n < 0 && errno == EINTR)) {
        const struct fuse_in_header *in = (const struct fuse_in_header *)(const void *)request;
        struct {
            struct fuse_out_header head;
            union answer body;
        } out;
        if (n < (ssize_t)sizeof(*in) || in->opcode == FUSE_FORGET)
            continue;
        int size = answer_to(in, &out.body);
        out.head = (struct fuse_out_header){
            .len = (uint32_t)(sizeof(out.head) + (size > 0 ? (size_t)size : 0)),
            .error = size < 0 ? size : 0,
            .unique = in->unique};
        if (write(fd, &out, out.head.len) < 0 && errno != ENOENT) /* ENOENT: it was interrupted */
            break;
    }
    return NULL;
}

static void on_start(struct abx_watcher *w, const struct abx_error *err)
{
    struct abx_error *ret = abx_watcher_owner(w);
    *ret = err ? *err : (struct abx_error){.msg = "armed"};
}

static void try_watch(struct abx_watches *ws, bool allows, bool recursive, struct abx_error *ret)
{
    static const struct abx_watch_ops ops = {.on_start = on_start};
    const struct abx_watch_spec spec = {
        .path = at("net"), .is_recursive = recursive, .allows_network = allows};
    struct abx_watcher *w = NULL;
    *ret = (struct abx_error){0};
    assert_int_equal(abx_watcher_open(ws, &spec, &ops, ret, &w, NULL), 0);
    while (ret->msg[0] == '\0')
        uv_run(&loop.uv, UV_RUN_ONCE);
    abx_watcher_close(w);
}

TEST(t41_network_mounts_are_refused_unless_allowed)
{
    char options[96];
    struct abx_watches *ws;
    struct abx_error err;
    pthread_t server;
    ABX_AUTO_FD fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (geteuid() != 0 || fd < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        skip();
    set_up();
    make_dir("net");
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    assert_int_equal(mount("abx", at("net"), "fuse", MS_NOSUID | MS_NODEV, options), 0);
    assert_int_equal(pthread_create(&server, NULL, serve, &fd), 0);
    assert_int_equal(abx_watches_new(&loop, &ws, NULL), 0);
    for (int recursive = 0; recursive < 2; recursive++) {
        try_watch(ws, false, recursive, &err);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
        assert_non_null(strstr(err.msg, "cannot watch path on network filesystem: "));
        try_watch(ws, true, recursive, &err);
        assert_string_equal(err.msg, "armed");
    }
    abx_watches_close(ws);
    assert_int_equal(umount2(at("net"), MNT_DETACH), 0); /* the server reads ENODEV and ends */
    tear_down();
    assert_int_equal(pthread_join(server, NULL), 0);
}
