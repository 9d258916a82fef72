/* host/image/export_test.c: an image as an OCI layout, and back again. */
#include "host/image/export.h"
#include "host/image/testkit_priv.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "lib/base/banned.h"

static struct abx_oci_archive *saved;

static void on_saved(void *arg, struct abx_oci_archive *take_archive, const struct abx_error *err)
{
    abx_oci_archive_free(saved);
    saved = take_archive;
    kit_end(arg, err);
}

/* The archive as a file at its start, or -1. */
static int save(struct kit *k, const struct abx_image *img)
{
    static const struct abx_oci_label labels[] = {{"abx.start", "serve"}, {"abx.none", ""}, {0}};
    ABX_AUTO_FD dir = open(k->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct abx_oci_options o = {.labels = labels, .dir_fd = dir};
    k->done = false;
    abx_image_save(k->rt, img, &o, on_saved, k);
    if (kit_wait(k) < 0)
        return -1;
    int fd = memfd_create("layout", MFD_CLOEXEC);
    uint64_t total = 0;
    for (size_t i = 0; i < saved->count; i++) {
        const struct abx_oci_part *p = &saved->parts[i];
        static char chunk[65536];
        if (p->text != NULL) {
            assert_int_equal(abx_fd_write_all(fd, p->text, (size_t)p->bytes), 0);
        } else {
            uint64_t at = 0;
            for (ssize_t n; (n = pread(p->fd, chunk, sizeof(chunk), (off_t)at)) > 0;
                 at += (uint64_t)n)
                assert_int_equal(abx_fd_write_all(fd, chunk, (size_t)n), 0);
            assert_true(at == p->bytes);
        }
        total += p->bytes;
    }
    assert_true(total == saved->bytes);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Whether the archive has @name; its text, cut, goes to @text. */
static bool has_member(int archive, const char *name, char *text, size_t cap)
{
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    bool found = false;
    lseek(archive, 0, SEEK_SET);
    assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
    assert_int_equal(archive_read_open_fd(a, archive, 10240), ARCHIVE_OK);
    while (!found && archive_read_next_header(a, &e) == ARCHIVE_OK) {
        found = strcmp(archive_entry_pathname(e), name) == 0;
        la_ssize_t n = found && text != NULL ? archive_read_data(a, text, cap - 1) : 0;
        if (text != NULL)
            text[n > 0 ? n : 0] = 0;
    }
    archive_read_free(a);
    return found;
}

static const struct kit_entry low[] = {
    {.name = "./", .type = AE_IFDIR, .mode = 0755},
    {.name = "a", .text = "low", .mode = 04755, .uid = 1000},
    {.name = "hard", .hardlink = "a"},
    {.name = "d/gone", .text = "x"},
    {.name = "opaque/hidden", .text = "x"},
    {.name = "link", .type = AE_IFLNK, .link = "../outside"},
    {.name = "fifo", .type = AE_IFIFO},
    {.name = "attr", .text = "x", .xattr = "user.kept"},
    {.name = "gr\xc3\xbc\xc3\x9f", .text = "utf-8"},
    {.name = "empty"},
};
static const struct kit_entry high[] = {
    {.name = "d/.wh.gone"}, {.name = "opaque/.wh..wh..opq"}, {.name = "opaque/new", .text = "n"}};

/* The image of @low under @high: two layers, imported one by one. */
static struct abx_image *make_image(struct kit *k)
{
    struct abx_image *img = NULL;
    if (kit_import(k, ABX_IMPORT_ROOTFS, kit_tar_of(NULL, low, ABX_COUNTOF(low))) < 0)
        return NULL;
    img = abx_image_copy(k->image);
    if (kit_import(k, ABX_IMPORT_ROOTFS, kit_tar_of(NULL, high, ABX_COUNTOF(high))) < 0 ||
        abx__image_add_layer(img, &k->image->layers[0], &k->err) < 0 ||
        abx_image_set_env(img, ABX_STR("A"), ABX_STR("1 \"2\"")) < 0 ||
        abx_image_set_user(img, "user") < 0 || abx_image_set_workdir(img, "/home/user") < 0) {
        abx_image_free(img);
        return NULL;
    }
    return img;
}

static const char *in_layer(const struct kit *k, uint32_t layer, const char *name)
{
    static char path[512];
    char hex[65];
    abx_hex_encode(k->image->layers[layer].bytes, ABX_DIGEST_LEN, hex);
    snprintf(path, sizeof(path), "%s/layers/%s/%s", k->state, hex, name);
    return path;
}

/* What the layers hold, as root sees it: layer 0 is the runtime's, 1 high, 2 low. */
static int look(struct kit *k)
{
    struct stat st, other;
    char value[8], link[32];
    CHECK(lstat(in_layer(k, 2, "a"), &st) == 0 && (st.st_mode & 07777) == 04755);
    uid_t storage = st.st_uid - 1000;
    CHECK(lstat(in_layer(k, 2, "hard"), &other) == 0 && other.st_ino == st.st_ino);
    CHECK(st.st_mtime == 1000000000 && st.st_size == 3);
    CHECK(readlink(in_layer(k, 2, "link"), link, sizeof(link)) == 10);
    CHECK(lstat(in_layer(k, 2, "fifo"), &st) == 0 && S_ISFIFO(st.st_mode) && st.st_uid == storage);
    CHECK(lgetxattr(in_layer(k, 2, "attr"), "user.kept", value, 8) == 1);
    CHECK(lstat(in_layer(k, 2, "gr\xc3\xbc\xc3\x9f"), &st) == 0 && st.st_size == 5);
    CHECK(lstat(in_layer(k, 1, "d/gone"), &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0);
    CHECK(lgetxattr(in_layer(k, 1, "opaque"), "user.overlay.opaque", value, 8) == 1);
    CHECK(lstat(in_layer(k, 1, "opaque/new"), &st) == 0);
    CHECK(lstat(in_layer(k, 0, ".fce2b/entrypoint"), &st) == 0 && (st.st_mode & 0111) == 0111);
    CHECK(lstat(in_layer(k, 0, "etc/profile.d/fce2b.sh"), &st) == 0);
    CHECK(lstat(in_layer(k, 0, ".fce2b/agent-sandbox-server"), &st) < 0);
    CHECK(lstat(in_layer(k, 0, "usr/local/bin/agent-sandbox-server"), &st) < 0);
    CHECK(lstat(in_layer(k, 0, ".fce2b/python"), &st) < 0);
    return 0;
}

static int body_round_trip(struct kit *k)
{
    char index[4096];
    CHECK(kit_start(k) == 0);
    struct abx_image *img = make_image(k);
    CHECK(img != NULL);
    int first = save(k, img), again = save(k, img);
    CHECK(first >= 0 && again >= 0);
    struct abx_digest one = kit_digest(first), other = kit_digest(again);
    CHECK(memcmp(&one, &other, sizeof(one)) == 0); /* the same image, the same archive */
    close(again);
    CHECK(has_member(first, "oci-layout", NULL, 0));
    CHECK(has_member(first, "index.json", index, sizeof(index)));
    CHECK(strstr(index, "\"os\":\"linux\"") != NULL);
    lseek(first, 0, SEEK_SET);
    CHECK(kit_import(k, ABX_IMPORT_OCI, first) == 0);
    CHECK(k->image->layer_count == 3 && kit_missing(k, k->image) == 0);
    CHECK(strcmp(abx_image_env(k->image, "A"), "1 \"2\"") == 0);
    CHECK(strcmp(k->image->user, "root") == 0 && strcmp(k->image->workdir, "/home/user") == 0);
    CHECK(k->image->entrypoint.count == 1 &&
          strcmp(k->image->entrypoint.items[0], "/.fce2b/entrypoint") == 0);
    if (geteuid() == 0)
        CHECK(look(k) == 0);
    abx_image_free(img);
    abx_oci_archive_free(saved);
    saved = NULL;
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(export_and_import_give_the_same_image)
{
    kit_run(false, body_round_trip);
}

TEST(export_works_as_an_ordinary_user)
{
    kit_run(true, body_round_trip);
}

/* A step's layer: made by overlayfs, with deletions and what a command left. */
static int body_step(struct kit *k)
{
    static const char command[] =
        "cd /tmp && echo x > kept && mkdir dir && rm /etc/group && rm -r /etc/skel && "
        "mkdir /etc/skel && echo y > /etc/skel/new && ln kept twice";
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_build *b = kit_build(k, k->image);
    CHECK(b != NULL && kit_run_step(k, b, command) == 0);
    int archive = save(k, abx_build_image(b));
    CHECK(archive >= 0);
    CHECK(kit_import(k, ABX_IMPORT_OCI, archive) == 0);
    abx_build_close(b);
    struct abx_build *on = kit_build(k, k->image);
    CHECK(on != NULL);
    CHECK(kit_run_step(k, on,
                       "cat /tmp/kept /tmp/twice /etc/skel/new; ls -A /etc/skel; "
                       "[ ! -e /etc/group ] && [ /tmp/kept -ef /tmp/twice ] && echo gone") == 0);
    CHECK(strcmp(k->text, "x\nx\ny\nnew\ngone\n") == 0);
    abx_build_close(on);
    abx_oci_archive_free(saved);
    saved = NULL;
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(export_keeps_what_steps_deleted)
{
    kit_run(false, body_step);
}

static int body_refuses(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_build *b = kit_build(k, k->image);
    CHECK(b != NULL && kit_run_step(k, b, "echo x > /tmp/.wh.odd") == 0);
    CHECK(save(k, abx_build_image(b)) < 0);
    CHECK(strstr(k->err.msg, "tmp/.wh.odd: a name that begins with .wh.") != NULL);
    abx_build_close(b);
    struct abx_image *unknown = abx_image_copy(k->image);
    memset(unknown->layers[0].bytes, 9, ABX_DIGEST_LEN);
    CHECK(save(k, unknown) < 0 && strstr(k->err.msg, "open the layer") != NULL);
    abx_image_free(unknown);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(export_refuses_what_would_be_another_image)
{
    kit_run(false, body_refuses);
}
