/* host/image/testkit_priv.h: for tests: archives made in memory, and an engine's network side in a
 * temporary state folder with the real guest, its calls made synchronous. */
#pragma once
#include "host/image/image_priv.h"
#include "host/image/unpack.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "tests/unit/test.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <locale.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define KIT __attribute__((unused)) static

enum { KIT_GUARD_S = 200, KIT_TEXT = 64 * 1024 };

/* ---- archives ---- */
struct kit_tar {
    struct archive *a;
    int fd;
};
struct kit_entry {
    const char *name;
    unsigned type; /* AE_IF*; 0: a file */
    unsigned mode; /* 0: 0644, folders 0755 */
    const char *text, *link, *hardlink;
    int64_t uid;
    unsigned rdev;
    const char *xattr;
};

KIT struct kit_tar kit_tar_new(const char *filter)
{
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8")); /* for names beyond ASCII */
    struct kit_tar t = {archive_write_new(), memfd_create("tar", MFD_CLOEXEC)};
    assert_non_null(t.a);
    assert_true(t.fd >= 0);
    assert_int_equal(archive_write_set_format_pax(t.a), ARCHIVE_OK);
    if (filter != NULL)
        assert_int_equal(archive_write_add_filter_by_name(t.a, filter), ARCHIVE_OK);
    assert_int_equal(archive_write_open_fd(t.a, t.fd), ARCHIVE_OK);
    return t;
}

KIT void kit_tar_put(struct kit_tar *t, const struct kit_entry *k, const void *data, size_t len)
{
    struct archive_entry *e = archive_entry_new();
    unsigned type = k->type ? k->type : AE_IFREG;
    archive_entry_copy_pathname(e, k->name);
    archive_entry_set_filetype(e, type);
    archive_entry_set_perm(e, k->mode ? k->mode : (type == AE_IFDIR ? 0755 : 0644));
    archive_entry_set_uid(e, k->uid);
    archive_entry_set_gid(e, k->uid);
    archive_entry_set_mtime(e, 1000000000, 0);
    archive_entry_set_size(e, (la_int64_t)len);
    if (k->link)
        archive_entry_copy_symlink(e, k->link);
    if (k->hardlink)
        archive_entry_copy_hardlink(e, k->hardlink);
    if (type == AE_IFCHR)
        archive_entry_set_rdev(e, k->rdev);
    if (k->xattr)
        archive_entry_xattr_add_entry(e, k->xattr, "x", 1);
    assert_int_equal(archive_write_header(t->a, e), ARCHIVE_OK);
    if (len > 0)
        assert_int_equal(archive_write_data(t->a, data, len), (la_ssize_t)len);
    archive_entry_free(e);
}

KIT void kit_tar_add(struct kit_tar *t, const struct kit_entry *k)
{
    kit_tar_put(t, k, k->text ? k->text : "", k->text ? strlen(k->text) : 0);
}

/* A descriptor of the archive, at its start. */
KIT int kit_tar_end(struct kit_tar *t)
{
    assert_int_equal(archive_write_close(t->a), ARCHIVE_OK);
    archive_write_free(t->a);
    assert_int_equal(lseek(t->fd, 0, SEEK_SET), 0);
    return t->fd;
}

KIT int kit_tar_of(const char *filter, const struct kit_entry *entries, size_t count)
{
    struct kit_tar t = kit_tar_new(filter);
    for (size_t i = 0; i < count; i++)
        kit_tar_add(&t, &entries[i]);
    return kit_tar_end(&t);
}

KIT struct abx_digest kit_digest(int fd)
{
    struct abx_digest d;
    crypto_hash_sha256_state h;
    unsigned char data[4096];
    ssize_t n;
    crypto_hash_sha256_init(&h);
    for (off_t at = 0; (n = pread(fd, data, sizeof(data), at)) > 0; at += n)
        crypto_hash_sha256_update(&h, data, (unsigned long long)n);
    crypto_hash_sha256_final(&h, d.bytes);
    return d;
}

/* A root file system with bash, a few programs of this machine and their libraries. */
KIT int kit_rootfs(void)
{
    static const char *const files[] = {"/bin/bash",
                                        "/bin/cat",
                                        "/bin/ls",
                                        "/usr/bin/id",
                                        "/usr/bin/stat",
                                        "/bin/sleep",
                                        "/bin/mkdir",
                                        "/bin/chmod",
                                        "/bin/ln",
                                        "/bin/rm",
                                        "/usr/bin/head",
                                        "/usr/bin/env",
                                        "/lib64/ld-linux-x86-64.so.2",
                                        "/lib/x86_64-linux-gnu/libc.so.6",
                                        "/lib/x86_64-linux-gnu/libtinfo.so.6",
                                        "/lib/x86_64-linux-gnu/libselinux.so.1",
                                        "/lib/x86_64-linux-gnu/libpcre2-8.so.0"};
    static const struct kit_entry links[] = {
        {.name = "bin", .type = AE_IFLNK, .link = "usr/bin"},
        {.name = "lib", .type = AE_IFLNK, .link = "usr/lib"},
        {.name = "lib64", .type = AE_IFLNK, .link = "usr/lib64"},
        {.name = "home", .type = AE_IFDIR},
        {.name = "root", .type = AE_IFDIR, .mode = 0700},
        {.name = "tmp", .type = AE_IFDIR, .mode = 01777},
        {.name = "etc", .type = AE_IFDIR},
        {.name = "etc/passwd", .text = "root:x:0:0:root:/root:/bin/bash\n"},
        {.name = "etc/group", .text = "root:x:0:\nstaff:x:50:\n"},
        {.name = "etc/skel/.profile", .text = "# profile\n"},
        {.name = "etc/sudoers.d", .type = AE_IFDIR, .mode = 0750}};
    struct kit_tar t = kit_tar_new(NULL);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        kit_tar_add(&t, &links[i]);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        ABX_AUTO_FREE char *data = NULL;
        size_t len;
        char name[128];
        if (abx_fd_read_file(AT_FDCWD, files[i], 16 << 20, &data, &len) < 0)
            continue; /* not linked against here */
        const char *from = strncmp(files[i], "/usr/", 5) == 0 ? files[i] + 5 : files[i] + 1;
        snprintf(name, sizeof(name), "usr/%s", from);
        struct kit_entry e = {.name = name, .mode = 0755};
        kit_tar_put(&t, &e, data, len);
    }
    return kit_tar_end(&t);
}

/* ---- an engine ---- */
struct kit {
    char dir[64], state[80], guest[80], shim[80], libs[300];
    struct abx_loop loop;
    struct abx_runtime *rt;
    struct abx_isolation isolation;
    struct abx_error err;
    struct abx_image *image;
    struct abx_step_result result;
    abx_unpack_fn *unpack; /* NULL: abx_image_unpack */
    pid_t pid;
    bool done, lost;
    uint32_t missing;
    char text[KIT_TEXT];
    size_t len;
};

#define CHECK(expr)                                                                                \
    do {                                                                                           \
        if (!(expr)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (err: %s) (text: %.900s)\n", __FILE__, __LINE__, #expr,     \
                    k->err.msg, k->text);                                                          \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

KIT int kit_copy(const char *from, const char *to)
{
    ABX_AUTO_FREE char *data = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, from, 64 << 20, &data, &len) < 0)
        return -1;
    ABX_AUTO_FD fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    return fd < 0 || abx_fd_write_all(fd, data, len) < 0 || fchmod(fd, 0755) < 0 ? -1 : 0;
}

KIT void kit_init(struct kit *k, uid_t uid)
{
    char path[512];
    const char *build = getenv("ABX_BUILD");
    assert_non_null(build);
    *k = (struct kit){.dir = "/tmp/abx-im-XXXXXX"};
    assert_non_null(mkdtemp(k->dir));
    snprintf(k->state, sizeof(k->state), "%s/state", k->dir);
    snprintf(k->guest, sizeof(k->guest), "%s/guest", k->dir);
    snprintf(k->shim, sizeof(k->shim), "%s/shim", k->dir);
    snprintf(k->libs, sizeof(k->libs), "%s/guest-libs", build);
    if (access(k->libs, F_OK) < 0)
        k->libs[0] = 0;
    snprintf(path, sizeof(path), "%s/bin/abx-guest", build);
    assert_int_equal(kit_copy(path, k->guest), 0);
    snprintf(path, sizeof(path), "%s/bin/abx-shim", build);
    assert_int_equal(kit_copy(path, k->shim), 0);
    assert_int_equal(mkdir(k->state, 0700), 0);
    assert_int_equal(chmod(k->dir, 0755), 0);
    assert_int_equal(chown(k->state, uid, uid), 0);
}

KIT void kit_on_lost(void *arg)
{
    struct kit *k = arg;
    k->lost = true;
    abx_loop_stop(&k->loop);
}

KIT int kit_start(struct kit *k)
{
    struct abx_runtime_options o = {.state_dir = k->state,
                                    .guest_path = k->guest,
                                    .guest_libs = k->libs[0] ? k->libs : NULL,
                                    .shim_path = k->shim,
                                    .unpack = k->unpack ? k->unpack : abx_image_unpack,
                                    .network_uid = getuid(),
                                    .network_gid = getgid()};
    int sock;
    alarm(KIT_GUARD_S);
    k->lost = false;
    if (abx_runtime_start(&o, &k->isolation, &sock, &k->pid, &k->err) < 0 ||
        abx_loop_init(&k->loop, &k->err) < 0)
        return -1;
    struct abx_runtime_events ev = {.on_lost = kit_on_lost, .arg = k};
    return abx_runtime_attach(&k->loop, sock, &ev, &k->rt, &k->err);
}

KIT int kit_stop(struct kit *k)
{
    struct abx_proc_status st;
    abx_image_free(k->image);
    k->image = NULL;
    abx_runtime_close(k->rt);
    abx_loop_run(&k->loop);
    abx_loop_done(&k->loop);
    alarm(0);
    return abx_proc_wait(k->pid, &st) == 0 && st.exited ? st.exit_code : -1;
}

KIT int kit_wait(struct kit *k)
{
    while (!k->done && !k->lost)
        abx_loop_run(&k->loop);
    return k->done && k->err.code == ABX_OK ? 0 : -1;
}

KIT void kit_end(struct kit *k, const struct abx_error *err)
{
    k->err = err ? *err : (struct abx_error){0};
    k->done = true;
    abx_loop_stop(&k->loop);
}

KIT void kit_on_done(void *arg, const struct abx_error *err)
{
    kit_end(arg, err);
}

KIT void kit_on_imported(void *arg, struct abx_image *take_img, const struct abx_error *err)
{
    struct kit *k = arg;
    abx_image_free(k->image);
    k->image = take_img;
    kit_end(k, err);
}

KIT int kit_import(struct kit *k, enum abx_import_kind kind, int take_fd)
{
    k->done = false;
    abx_image_load(&k->loop, k->rt, kind, take_fd, kit_on_imported, k);
    return kit_wait(k);
}

KIT void kit_on_found(void *arg, uint32_t missing, const struct abx_error *err)
{
    struct kit *k = arg;
    k->missing = missing;
    kit_end(k, err);
}

KIT int kit_missing(struct kit *k, const struct abx_image *img)
{
    k->done = false;
    abx_runtime_layers_find(k->rt, img->layers, img->layer_count, kit_on_found, k);
    return kit_wait(k) < 0 ? -1 : (int)k->missing;
}

KIT int kit_gc(struct kit *k, const struct abx_image *keep)
{
    k->done = false;
    abx_runtime_gc(k->rt, NULL, 0, kit_on_done, k);
    if (kit_wait(k) < 0)
        return -1;
    k->done = false;
    abx_runtime_layers_gc(k->rt, keep ? keep->layers : NULL, keep ? keep->layer_count : 0,
                          kit_on_done, k);
    return kit_wait(k);
}

KIT void kit_on_output(void *arg, enum abx_build_stream stream, struct abx_str text)
{
    struct kit *k = arg;
    (void)stream;
    size_t room = KIT_TEXT - 1 - k->len, n = text.len < room ? text.len : room;
    memcpy(k->text + k->len, text.ptr, n);
    k->len += n;
    k->text[k->len] = 0;
}

KIT void kit_on_step(void *arg, const struct abx_step_result *r, const struct abx_error *err)
{
    struct kit *k = arg;
    k->result = *r;
    kit_end(k, err);
}

KIT struct abx_build *kit_build(struct kit *k, const struct abx_image *base)
{
    struct abx_build *b = NULL;
    struct abx_build_options o = {.events = {kit_on_output, kit_on_step, k}};
    return abx_build_open(&k->loop, k->rt, base, &o, &b, &k->err) < 0 ? NULL : b;
}

KIT int kit_step(struct kit *k, struct abx_build *b, const struct abx_step *s)
{
    k->done = false;
    k->len = 0;
    k->text[0] = 0;
    abx_build_step(b, s);
    return kit_wait(k);
}

KIT int kit_run_step(struct kit *k, struct abx_build *b, const char *command)
{
    struct abx_step s = {.type = ABX_STEP_RUN, .command = command};
    return kit_step(k, b, &s);
}

/* ---- as another user ---- */
struct kit_body {
    struct kit *k;
    uid_t uid;
    int (*body)(struct kit *k);
    int *line;
};

KIT int kit_run_body(void *arg)
{
    const struct kit_body *b = arg;
    if (b->uid != getuid() && (setgroups(0, NULL) < 0 || setresgid(b->uid, b->uid, b->uid) < 0 ||
                               setresuid(b->uid, b->uid, b->uid) < 0))
        return 1;
    *b->line = b->body(b->k);
    return 0;
}

KIT int kit_as(struct kit *k, uid_t uid, int (*body)(struct kit *k))
{
    int *line = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(line, MAP_FAILED);
    *line = -1;
    struct kit_body b = {k, uid, body, line};
    struct abx_proc_status st = {0};
    pid_t pid = abx_proc_fork_role("kit", kit_run_body, &b, NULL, 0, NULL);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    int result = st.exited && st.exit_code == 0 ? *line : -1;
    munmap(line, sizeof(int));
    return result;
}

KIT int kit_exec(void *argv)
{
    char *const *args = argv;
    execv(args[0], args);
    return 127;
}

KIT bool kit_run_ok(char **argv)
{
    struct abx_proc_status st = {0};
    pid_t pid = abx_proc_fork_role("run", kit_exec, argv, NULL, 0, NULL);
    return pid > 0 && abx_proc_wait(pid, &st) == 0 && st.exited && st.exit_code == 0;
}

/* Without root the layers' files belong to the range of ids: only the runtime side can remove them.
 */
KIT int kit_empty(struct kit *k)
{
    abx_err_set(&k->err, ABX_OK, "%s", "");
    if (kit_start(k) < 0)
        return strcmp(k->isolation.ids, "subuid") == 0 ? -1 : 0;
    int r = kit_gc(k, NULL);
    return kit_stop(k) < 0 ? -1 : r;
}

KIT char **remove_argv(char *dir)
{
    static char path[] = "/usr/bin/unshare", root[] = "--map-root-user", ids[] = "--map-auto",
                rm[] = "rm", flags[] = "-rf";
    static char *argv[7];
    memcpy(argv, (char *[]){path, root, ids, rm, flags, dir, NULL}, sizeof(argv));
    return argv;
}

/* @body as the caller. As root: is_user makes it an account of its own with a subuid range. */
KIT void kit_run(bool is_user, int (*body)(struct kit *k))
{
    char add[] = "/usr/sbin/useradd", del[] = "/usr/sbin/userdel", m[] = "-M", u[] = "-u";
    char uid[] = "59236", name[] = "abximage", force[] = "-f";
    char *add_argv[] = {add, m, u, uid, name, NULL}, *del_argv[] = {del, force, name, NULL};
    struct kit k;
    if (is_user && (geteuid() != 0 || access("/usr/bin/newuidmap", X_OK) < 0))
        skip();
    if (is_user) {
        (void)kit_run_ok(del_argv); /* of a run that was cut off */
        assert_true(kit_run_ok(add_argv));
    }
    uid_t who = is_user ? 59236 : getuid();
    kit_init(&k, who);
    int line = kit_as(&k, who, body), empty = geteuid() != 0 ? kit_as(&k, who, kit_empty) : 0;
    bool is_gone = !is_user || kit_run_ok(del_argv);
    int removed = abx_fd_remove_tree(AT_FDCWD, k.dir);
    /* Sanitizers write as ids of the range, which only a root of it can remove. */
    if (removed < 0 && geteuid() != 0 && access(k.libs, F_OK) == 0 &&
        kit_run_ok(remove_argv(k.dir)))
        removed = 0;
    assert_int_equal(line, 0); /* first: the others may follow from it */
    assert_int_equal(empty, 0);
    assert_int_equal(removed, 0);
    assert_true(is_gone);
}
