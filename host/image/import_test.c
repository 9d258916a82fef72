/* host/image/import_test.c: archives that become layers, and those that must not (S52, S53). */
#include "host/image/testkit_priv.h"
#include "host/image/unpack_priv.h"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "lib/base/banned.h"

/* The path of @name in the image's topmost layer. */
static const char *in_layer(const struct kit *k, uint32_t layer, const char *name)
{
    static char path[512];
    char hex[65];
    abx_hex_encode(k->image->layers[layer].bytes, ABX_DIGEST_LEN, hex);
    snprintf(path, sizeof(path), "%s/layers/%s/%s", k->state, hex, name);
    return path;
}

static int count_layers(const struct kit *k)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof(path), "%s/layers", k->state);
    return stat(path, &st) < 0 ? -1 : (int)st.st_nlink - 2;
}

/* ---- what is refused ---- */
static const struct refused {
    struct kit_entry entries[3];
    const char *want;
} refused[] = {
    {{{.name = "../x", .text = "x"}}, "name with .."},
    {{{.name = "a/b/../../../x", .text = "x"}}, "name with .."},
    {{{.name = "/etc/x", .text = "x"}}, "absolute name"},
    {{{.name = "null", .type = AE_IFCHR, .rdev = 0x103}}, "device"},
    {{{.name = "sda", .type = AE_IFBLK, .rdev = 0x800}}, "device"},
    {{{.name = "l", .type = AE_IFLNK, .link = "/etc"}, {.name = "l/x", .text = "x"}},
     "behind a symbolic link"},
    {{{.name = "l", .type = AE_IFLNK, .link = ".."}, {.name = "l/a/x", .text = "x"}},
     "behind a symbolic link"},
    {{{.name = "h", .hardlink = "../../etc/passwd"}}, "name with .."},
    {{{.name = "h", .hardlink = "/etc/passwd"}}, "absolute name"},
    {{{.name = "h", .hardlink = "absent"}}, "h: "},
    {{{.name = "l", .type = AE_IFLNK, .link = "/etc"}, {.name = "h", .hardlink = "l"}}, "h: "},
    {{{.name = "l", .type = AE_IFLNK, .link = "/etc"}, {.name = "h", .hardlink = "l/passwd"}},
     "h: "},
    {{{.name = "d", .type = AE_IFDIR}, {.name = "h", .hardlink = "d"}}, "h: "},
    {{{.name = ".wh."}}, "bad whiteout"},
    {{{.name = "d/.wh..."}}, "bad whiteout"},
    {{{.name = "d/.wh..wh.x"}}, "bad whiteout"},
    {{{.name = "x", .text = "x"}, {.name = ".wh.x"}}, "an entry and a whiteout"},
    {{{.name = ".wh.x"}, {.name = "x", .text = "x"}}, "an entry and a whiteout"},
    {{{.name = "d/f", .text = "x"}, {.name = "d", .text = "x"}}, "d: "},
    {{{.name = "f", .text = "x"}, {.name = "f/g", .text = "x"}}, "f/g"},
    {{{.name = "u", .text = "x", .uid = 70000}}, "u: "},
};

static int body_refuses(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        size_t count = 1;
        while (count < 3 && refused[i].entries[count].name != NULL)
            count++;
        snprintf(k->text, sizeof(k->text), "row %zu", i);
        CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_tar_of("gzip", refused[i].entries, count)) < 0);
        CHECK(strstr(k->err.msg, refused[i].want) != NULL);
        CHECK(count_layers(k) == 0);
    }
    CHECK(access("/etc/x", F_OK) < 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s53_import_refuses)
{
    kit_run(false, body_refuses);
}

TEST(t_sec_s53_import_refuses_for_a_user)
{
    kit_run(true, body_refuses);
}

/* Not a tar at all, one that is cut, and bombs. */
static int body_broken(struct kit *k)
{
    static const struct kit_entry one[] = {{.name = "f", .text = "some text"}};
    CHECK(kit_start(k) == 0);
    int fd = memfd_create("x", MFD_CLOEXEC);
    CHECK(write(fd, "no archive, just words that are long enough", 43) == 43);
    lseek(fd, 0, SEEK_SET);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, fd) < 0 && k->err.code == ABX_INVALID_ARGUMENT);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, memfd_create("empty", MFD_CLOEXEC)) < 0);
    fd = kit_tar_of("gzip", one, 1);
    CHECK(ftruncate(fd, 60) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, fd) < 0);
    struct kit_tar t = kit_tar_new("gzip");
    static char zeros[1 << 20];
    struct kit_entry big = {.name = "zeros"};
    struct archive_entry *e = archive_entry_new();
    archive_entry_copy_pathname(e, big.name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0644);
    archive_entry_set_size(e, (la_int64_t)200 << 20);
    CHECK(archive_write_header(t.a, e) == ARCHIVE_OK);
    for (int i = 0; i < 200; i++)
        CHECK(archive_write_data(t.a, zeros, sizeof(zeros)) == (la_ssize_t)sizeof(zeros));
    archive_entry_free(e);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_tar_end(&t)) < 0);
    CHECK(k->err.code == ABX_RESOURCE_EXHAUSTED && strstr(k->err.msg, "200 times"));
    CHECK(count_layers(k) == 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s53_broken_archives_and_bombs)
{
    kit_run(false, body_broken);
}

/* ---- what is kept and what is stripped ---- */
static int body_keeps(struct kit *k)
{
    static const struct kit_entry entries[] = {
        {.name = "./", .type = AE_IFDIR, .mode = 0755},
        {.name = "./f", .text = "first", .uid = 7},
        {.name = "f", .text = "last wins", .mode = 04755, .uid = 1000},
        {.name = "deep/er/x", .text = "x", .xattr = "user.kept"},
        {.name = "o", .text = "x", .xattr = "user.overlay.redirect"},
        {.name = "t", .text = "x", .xattr = "trusted.overlay.metacopy"},
        {.name = "s", .text = "x", .xattr = "security.selinux"},
        {.name = "link", .type = AE_IFLNK, .link = "../../outside"},
        {.name = "hard", .hardlink = "f"},
        {.name = "fifo", .type = AE_IFIFO},
        {.name = "deep/.wh.gone"},
        {.name = "opaque/.wh..wh..opq"},
        {.name = "hidden", .type = AE_IFCHR, .rdev = 0},
    };
    struct stat st, other;
    char value[8];
    CHECK(kit_start(k) == 0);
    const char *const filters[] = {NULL, "gzip", "zstd"};
    struct abx_digest first = {{0}};
    for (size_t i = 0; i < 3; i++) {
        int fd = kit_tar_of(filters[i], entries, sizeof(entries) / sizeof(entries[0]));
        struct abx_digest plain = kit_digest(fd);
        CHECK(kit_import(k, ABX_IMPORT_ROOTFS, fd) == 0);
        CHECK(k->image->layer_count == 1);
        if (i == 0)
            first = plain; /* named by the tar, whatever it is packed in */
        CHECK(memcmp(&k->image->layers[0], &first, sizeof(first)) == 0);
    }
    CHECK(count_layers(k) == 1);
    if (geteuid() == 0) {
        CHECK(lstat(in_layer(k, 0, "f"), &st) == 0 && st.st_size == 9);
        uid_t storage = st.st_uid - 1000;
        CHECK((st.st_mode & 07777) == 04755 && storage >= 100000); /* S51: nobody's here */
        CHECK(lstat(in_layer(k, 0, "hard"), &other) == 0 && other.st_ino == st.st_ino);
        CHECK(lstat(in_layer(k, 0, "deep/er"), &st) == 0 && st.st_uid == storage);
        CHECK(lgetxattr(in_layer(k, 0, "deep/er/x"), "user.kept", value, 8) == 1);
        CHECK(lgetxattr(in_layer(k, 0, "o"), "user.overlay.redirect", value, 8) < 0);
        CHECK(lgetxattr(in_layer(k, 0, "t"), "trusted.overlay.metacopy", value, 8) < 0);
        CHECK(lgetxattr(in_layer(k, 0, "s"), "security.selinux", value, 8) < 0);
        CHECK(lstat(in_layer(k, 0, "link"), &st) == 0 && S_ISLNK(st.st_mode));
        CHECK(lstat(in_layer(k, 0, "fifo"), &st) == 0 && S_ISFIFO(st.st_mode));
        CHECK(lstat(in_layer(k, 0, "deep/gone"), &st) == 0 && S_ISCHR(st.st_mode) &&
              st.st_rdev == makedev(0, 0));
        CHECK(lstat(in_layer(k, 0, "hidden"), &st) == 0 && S_ISCHR(st.st_mode));
        CHECK(lgetxattr(in_layer(k, 0, "opaque"), "user.overlay.opaque", value, 8) == 1);
    }
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s52_import_keeps_and_strips)
{
    kit_run(false, body_keeps);
}

TEST(import_keeps_as_an_ordinary_user)
{
    kit_run(true, body_keeps);
}

/* ---- OCI layouts ---- */
enum { OCI_LAYERS = 3 };
struct oci {
    struct kit_tar out;
    char layers[2048], diff_ids[512];
    bool bad_diff, bad_blob;
};

static void add_text(struct oci *o, const char *name, const char *text)
{
    struct kit_entry e = {.name = name, .text = text};
    kit_tar_add(&o->out, &e);
}

static void blob_name(const struct abx_digest *d, char out[128])
{
    char hex[65];
    abx_hex_encode(d->bytes, sizeof(d->bytes), hex);
    snprintf(out, 128, "blobs/sha256/%s", hex);
}

static void add_layer(struct oci *o, const struct kit_entry *entries, size_t count)
{
    int plain = kit_tar_of(NULL, entries, count), packed = kit_tar_of("gzip", entries, count);
    struct abx_digest diff = kit_digest(plain), blob = kit_digest(packed);
    char name[128], diff_hex[65], *data = NULL;
    struct stat st;
    assert_int_equal(fstat(packed, &st), 0);
    data = malloc((size_t)st.st_size);
    assert_int_equal(pread(packed, data, (size_t)st.st_size, 0), st.st_size);
    if (o->bad_blob)
        blob.bytes[0] ^= 1;
    if (o->bad_diff)
        diff.bytes[0] ^= 1;
    blob_name(&blob, name);
    struct kit_entry e = {.name = name};
    kit_tar_put(&o->out, &e, data, (size_t)st.st_size);
    abx_hex_encode(diff.bytes, sizeof(diff.bytes), diff_hex);
    size_t at = strlen(o->layers), more = strlen(o->diff_ids);
    snprintf(o->layers + at, sizeof(o->layers) - at,
             "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:"
             "%s\"}",
             at ? "," : "", name + 13);
    snprintf(o->diff_ids + more, sizeof(o->diff_ids) - more, "%s\"sha256:%s\"", more ? "," : "",
             diff_hex);
    free(data);
    close(plain);
    close(packed);
}

static const char *add_blob(struct oci *o, const char *text)
{
    static char name[128];
    struct abx_digest d;
    crypto_hash_sha256(d.bytes, (const unsigned char *)text, strlen(text));
    blob_name(&d, name);
    add_text(o, name, text);
    return name + 13;
}

static int oci_end(struct oci *o)
{
    char text[4096], config[65], manifest[65];
    snprintf(
        text, sizeof(text),
        "{\"config\":{\"Env\":[\"A=1\",\"PATH=/x\"],\"Entrypoint\":[\"/e\"],\"Cmd\":[\"c\"],"
        "\"User\":\"u\",\"WorkingDir\":\"/w\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[%s"
        "]}}",
        o->diff_ids);
    snprintf(config, sizeof(config), "%s", add_blob(o, text));
    snprintf(text, sizeof(text), "{\"config\":{\"digest\":\"sha256:%s\"},\"layers\":[%s]}", config,
             o->layers);
    snprintf(manifest, sizeof(manifest), "%s", add_blob(o, text));
    snprintf(
        text, sizeof(text),
        "{\"manifests\":[{\"digest\":\"sha256:%s\",\"platform\":{\"architecture\":\"amd64\","
        "\"os\":\"linux\"}},{\"digest\":\"sha256:%s\",\"platform\":{\"architecture\":\"arm64\","
        "\"os\":\"linux\"}}]}",
        manifest, config);
    add_text(o, "index.json", text);
    add_text(o, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
    return kit_tar_end(&o->out);
}

static struct oci oci_new(void)
{
    return (struct oci){.out = kit_tar_new(NULL)};
}

static int body_oci(struct kit *k)
{
    static const struct kit_entry low[] = {{.name = "a", .text = "low"},
                                           {.name = "b", .text = "b"}};
    static const struct kit_entry high[] = {{.name = "a", .text = "high"}, {.name = ".wh.b"}};
    CHECK(kit_start(k) == 0);
    struct oci o = oci_new();
    add_layer(&o, low, 2);
    add_layer(&o, high, 2);
    add_layer(&o, low, 1); /* another, and one of it twice */
    add_layer(&o, low, 1);
    CHECK(kit_import(k, ABX_IMPORT_OCI, oci_end(&o)) == 0);
    CHECK(k->image->layer_count == 4 && kit_missing(k, k->image) == 0);
    CHECK(memcmp(&k->image->layers[0], &k->image->layers[1], ABX_DIGEST_LEN) != 0);
    CHECK(strcmp(k->image->user, "u") == 0 && strcmp(k->image->workdir, "/w") == 0);
    CHECK(strcmp(abx_image_env(k->image, "A"), "1") == 0 && k->image->env.count == 2);
    CHECK(strcmp(k->image->entrypoint.items[0], "/e") == 0 && k->image->cmd.count == 1);
    ABX_AUTO_BUF json;
    abx_buf_init(&json, ABX_IMAGE_ENCODED_MAX);
    abx_image_encode(k->image, &json);
    struct abx_image *again = NULL;
    CHECK(abx_image_decode(abx_buf_str(&json), &again, &k->err) == 0);
    CHECK(memcmp(again->layers, k->image->layers, sizeof(again->layers)) == 0);
    CHECK(strcmp(again->env.items[1], "PATH=/x") == 0 && strcmp(again->user, "u") == 0);
    abx_image_free(again);
    for (int i = 0; i < 2; i++) {
        int before = count_layers(k);
        o = oci_new();
        o.bad_blob = i == 0;
        o.bad_diff = i == 1;
        add_layer(&o, high, 1);
        CHECK(kit_import(k, ABX_IMPORT_OCI, oci_end(&o)) < 0 && k->err.code == ABX_DATA_LOSS);
        CHECK(count_layers(k) == before);
    }
    static const struct kit_entry none[] = {{.name = "f", .text = "x"}};
    CHECK(kit_import(k, ABX_IMPORT_OCI, kit_tar_of(NULL, none, 1)) < 0);
    CHECK(strstr(k->err.msg, "is this an OCI layout or") != NULL);
    static const struct kit_entry odd[] = {{.name = "index.json", .type = AE_IFLNK, .link = "/x"}};
    CHECK(kit_import(k, ABX_IMPORT_OCI, kit_tar_of(NULL, odd, 1)) < 0);
    CHECK(strstr(k->err.msg, "is no file or folder") != NULL);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(import_takes_an_oci_layout)
{
    kit_run(false, body_oci);
}

/* Documents that came with the archive: hostile. "%s" in an index is the digest of the blob. */
static const struct {
    const char *blob, *index, *want;
} documents[] = {
    {NULL, "{}", "0 layers (1 to 127)"},
    {NULL, "{\"manifests\":[]}", "0 layers (1 to 127)"},
    {NULL, "[]", ""},
    {NULL, "{\"manifests\":[{\"digest\":\"sha512:ab\"}]}", "no sha256 digest"},
    {NULL, "{\"manifests\":[{\"digest\":\"sha256:../../../etc/passwd\"}]}", "no sha256 digest"},
    {NULL,
     "{\"manifests\":[{\"digest\":\"sha256:"
     "0000000000000000000000000000000000000000000000000000000000000000\"}]}",
     "blob 000000000000"},
    {"{}", "{\"manifests\":[{\"digest\":\"sha256:%s\"},{\"digest\":\"sha256:%s\"}]}",
     "2 images, 0 of them for linux/amd64"},
    {"{}", "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", "0 layers (1 to 127)"},
    {"{\"layers\":[{\"digest\":\"sha256:00\"}]}", "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}",
     "1 layers (1 to 127)"}, /* no configuration */
    {"{\"config\":{\"digest\":\"sha256:00\"},\"layers\":[{\"digest\":\"x\"}]}",
     "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", "no sha256 digest"},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
     "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", "OCI: "},
    {"not json", "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", "OCI: "},
};

static int layout_of(size_t row)
{
    struct oci o = oci_new();
    char index[1024], hex[65] = "";
    if (documents[row].blob != NULL)
        snprintf(hex, sizeof(hex), "%s", add_blob(&o, documents[row].blob));
    size_t n = 0;
    for (const char *at = documents[row].index; *at != 0; at++) {
        bool is_mark = at[0] == '%' && at[1] == 's';
        n += (size_t)snprintf(index + n, sizeof(index) - n, "%.*s", is_mark ? 64 : 1,
                              is_mark ? hex : at);
        at += is_mark;
    }
    add_text(&o, "index.json", index);
    return kit_tar_end(&o.out);
}

/* An index in an index in an index ..., and more layers than an image may have. */
static int layout_deep(void)
{
    struct oci o = oci_new();
    char text[256];
    snprintf(text, sizeof(text), "%s", "{\"layers\":[]}");
    for (int depth = 0; depth < 5; depth++) {
        char hex[65];
        snprintf(hex, sizeof(hex), "%s", add_blob(&o, text));
        snprintf(text, sizeof(text), "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", hex);
    }
    add_text(&o, "index.json", text);
    return kit_tar_end(&o.out);
}

static int layout_wide(int layers)
{
    static char manifest[65536];
    struct oci o = oci_new();
    char index[256];
    size_t n = (size_t)snprintf(manifest, sizeof(manifest),
                                "{\"config\":{\"digest\":\"sha256:00\"},\"layers\":[");
    for (int i = 0; i < layers; i++)
        n += (size_t)snprintf(manifest + n, sizeof(manifest) - n, "%s{\"digest\":\"sha256:00\"}",
                              i ? "," : "");
    snprintf(manifest + n, sizeof(manifest) - n, "]}");
    snprintf(index, sizeof(index), "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}",
             add_blob(&o, manifest));
    add_text(&o, "index.json", index);
    return kit_tar_end(&o.out);
}

static int body_documents(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        snprintf(k->text, sizeof(k->text), "row %zu", i);
        CHECK(kit_import(k, ABX_IMPORT_OCI, layout_of(i)) < 0);
        CHECK(strstr(k->err.msg, documents[i].want) != NULL && count_layers(k) == 0);
    }
    CHECK(kit_import(k, ABX_IMPORT_OCI, layout_deep()) < 0);
    CHECK(strstr(k->err.msg, "indexes of indexes") != NULL);
    CHECK(kit_import(k, ABX_IMPORT_OCI, layout_wide(ABX_LAYERS_MAX + 1)) < 0);
    CHECK(strstr(k->err.msg, "128 layers (1 to 127)") != NULL);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s53_documents_of_a_layout)
{
    kit_run(false, body_documents);
}

/* More than 64 KiB of attributes on one entry; a capability is for the storage range only (S51). */
static int with_xattr(const char *name, const void *value, size_t len, int count)
{
    struct kit_tar t = kit_tar_new(NULL);
    struct archive_entry *e = archive_entry_new();
    archive_entry_copy_pathname(e, "f");
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0755);
    archive_entry_set_size(e, 0);
    for (int i = 0; i < count; i++) {
        char numbered[64];
        snprintf(numbered, sizeof(numbered), count > 1 ? "%s%d" : "%s", name, i);
        archive_entry_xattr_add_entry(e, numbered, value, len);
    }
    assert_int_equal(archive_write_header(t.a, e), ARCHIVE_OK);
    archive_entry_free(e);
    return kit_tar_end(&t);
}

static int body_xattrs(struct kit *k)
{
    static char large[30000];
    /* cap_net_raw, version 2: no owner */
    static const unsigned char raw[20] = {1, 0, 0, 2, 0, 0x20, 0, 0};
    unsigned char value[64];
    CHECK(kit_start(k) == 0);
    memset(large, 'v', sizeof(large));
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, with_xattr("user.a", large, sizeof(large), 3)) < 0);
    CHECK(strstr(k->err.msg, "f: ") != NULL && count_layers(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, with_xattr("security.capability", raw, 20, 1)) == 0);
    if (geteuid() == 0) {
        struct stat st;
        CHECK(lstat(in_layer(k, 0, "f"), &st) == 0);
        CHECK(lgetxattr(in_layer(k, 0, "f"), "security.capability", value, sizeof(value)) == 24);
        uint32_t owner;
        memcpy(&owner, value + 20, sizeof(owner));
        CHECK(value[3] == 3 && owner == st.st_uid && owner != 0); /* version 3, its root's id */
    }
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s51_s52_attributes_of_an_entry)
{
    kit_run(false, body_xattrs);
}

/* ---- docker-archives ---- */
struct docker {
    const char *manifest, *diff_ids; /* the layer's digest stands where "%s" does */
    struct kit_entry more[2];
    const char *want; /* part of the refusal; NULL: it is taken */
    enum abx_code code;
};

#define DOCKER_MANIFEST(layers)                                                                    \
    "[{\"Config\":\"c.json\",\"RepoTags\":[\"x:1\"],\"Layers\":[" layers "]}]"

static const struct docker dockers[] = {
    {DOCKER_MANIFEST("\"a/layer.tar\",\"b/layer.tar\""),
     "\"%s\",\"%s\"",
     {{.name = "b/layer.tar", .type = AE_IFLNK, .link = "../a/layer.tar"}},
     NULL,
     ABX_OK},
    {DOCKER_MANIFEST("\"b/layer.tar\""),
     "\"%s\"",
     {{.name = "b/layer.tar", .type = AE_IFLNK, .link = "/etc/passwd"}},
     "b/layer.tar",
     ABX_CODE__COUNT},
    {DOCKER_MANIFEST("\"b/layer.tar\""),
     "\"%s\"",
     {{.name = "b/layer.tar", .type = AE_IFLNK, .link = "../../../../etc/passwd"}},
     "b/layer.tar",
     ABX_CODE__COUNT},
    {DOCKER_MANIFEST("\"../a/layer.tar\""), "\"%s\"", {{0}}, "a/layer.tar", ABX_CODE__COUNT},
    {DOCKER_MANIFEST("\"a\""), "\"%s\"", {{0}}, "a is no file", ABX_INVALID_ARGUMENT},
    {DOCKER_MANIFEST("\"a/layer.tar\""),
     "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
     {{0}},
     "does not have the digest",
     ABX_DATA_LOSS},
    {DOCKER_MANIFEST("\"a/layer.tar\""),
     "\"md5:x\"",
     {{0}},
     "no sha256 digest",
     ABX_INVALID_ARGUMENT},
    {DOCKER_MANIFEST("\"a/layer.tar\""), "", {{0}}, "1 layers, 0 diff_ids", ABX_INVALID_ARGUMENT},
    {DOCKER_MANIFEST(""), "", {{0}}, "0 layers (1 to", ABX_INVALID_ARGUMENT},
    {"[]", "", {{0}}, "0 images", ABX_INVALID_ARGUMENT},
    {"{}", "", {{0}}, "0 images", ABX_INVALID_ARGUMENT},
    {"[{},{}]", "", {{0}}, "2 images", ABX_INVALID_ARGUMENT},
    {"[{\"Config\":\"c.json\"}]", "", {{0}}, "Layers", ABX_INVALID_ARGUMENT},
    {"not json", "", {{0}}, "manifest.json", ABX_INVALID_ARGUMENT},
    {DOCKER_MANIFEST("\"a/layer.tar\""),
     "\"%s\"",
     {{.name = "odd", .type = AE_IFLNK, .link = "a"}},
     "is no file or folder",
     ABX_INVALID_ARGUMENT},
};

static int docker_of(const struct docker *d)
{
    static const struct kit_entry files[] = {{.name = "a", .text = "text"}};
    struct kit_tar t = kit_tar_new(NULL);
    int layer = kit_tar_of(NULL, files, 1);
    struct abx_digest digest = kit_digest(layer);
    char hex[72] = "sha256:", diff_ids[256], config[512], data[65536];
    abx_hex_encode(digest.bytes, sizeof(digest.bytes), hex + 7);
    ssize_t n = pread(layer, data, sizeof(data), 0);
    assert_true(n > 0 && n < (ssize_t)sizeof(data));
    close(layer);
    struct kit_entry e = {.name = "a/layer.tar"};
    kit_tar_put(&t, &e, data, (size_t)n);
    for (size_t i = 0, at = 0; d->diff_ids[i] != 0 || (diff_ids[at] = 0); i++) {
        if (d->diff_ids[i] == '%') {
            memcpy(diff_ids + at, hex, sizeof(hex) - 1);
            at += strlen(hex);
            i++;
        } else {
            diff_ids[at++] = d->diff_ids[i];
        }
    }
    snprintf(config, sizeof(config),
             "{\"config\":{\"User\":\"u\",\"Env\":[\"A=1\"]},\"rootfs\":{\"diff_ids\":[%s]}}",
             diff_ids);
    kit_tar_add(&t, &(struct kit_entry){.name = "c.json", .text = config});
    kit_tar_add(&t, &(struct kit_entry){.name = "manifest.json", .text = d->manifest});
    for (size_t i = 0; i < 2 && d->more[i].name != NULL; i++)
        kit_tar_add(&t, &d->more[i]);
    return kit_tar_end(&t);
}

static int body_docker(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    for (size_t i = 0; i < sizeof(dockers) / sizeof(dockers[0]); i++) {
        const struct docker *d = &dockers[i];
        int before = count_layers(k);
        snprintf(k->text, sizeof(k->text), "row %zu", i);
        int r = kit_import(k, ABX_IMPORT_OCI, docker_of(d));
        CHECK(r == (d->want == NULL ? 0 : -1));
        if (d->want != NULL) {
            CHECK(strstr(k->err.msg, d->want) != NULL && count_layers(k) == before);
            CHECK(d->code == ABX_CODE__COUNT || d->code == k->err.code);
            continue;
        }
        CHECK(k->image->layer_count == 2 && kit_missing(k, k->image) == 0);
        CHECK(memcmp(&k->image->layers[0], &k->image->layers[1], ABX_DIGEST_LEN) != 0);
        CHECK(strcmp(k->image->user, "u") == 0 && strcmp(abx_image_env(k->image, "A"), "1") == 0);
    }
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s53_docker_archives)
{
    kit_run(false, body_docker);
}

/* ---- pure parts ---- */
TEST(names_of_archives_are_cleaned)
{
    static const struct {
        const char *raw, *want;
    } rows[] = {{"a", "a"},     {"./a//b/./c/", "a/b/c"}, {".", "."},    {"./", "."},
                {"..", NULL},   {"a/..", NULL},           {"/", NULL},   {"", NULL},
                {"...", "..."}, {"a/...", "a/..."},       {"..a", "..a"}};
    char out[ABX__TAR_PATH], deep[2 * 130 + 1], longer[300];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int r = abx__tar_clean(rows[i].raw, out, NULL);
        assert_int_equal(r, rows[i].want ? 0 : -1);
        if (rows[i].want)
            assert_string_equal(out, rows[i].want);
    }
    for (size_t i = 0; i < 130; i++)
        memcpy(deep + 2 * i, "d/", 3);
    assert_int_equal(abx__tar_clean(deep, out, NULL), -1);
    memset(longer, 'n', sizeof(longer));
    longer[256] = 0;
    assert_int_equal(abx__tar_clean(longer, out, NULL), -1);
    longer[255] = 0;
    assert_int_equal(abx__tar_clean(longer, out, NULL), 0);
}

TEST(limits_of_archives_hold)
{
    struct abx__tar_budget ok = {.in = 1 << 20, .out = 200 << 20, .entries = 10};
    assert_int_equal(abx__tar_afford(&ok, NULL), 0);
    struct abx__tar_budget rows[] = {{.in = 1 << 20, .out = 202 << 20},
                                     {.in = UINT64_C(9) << 30},
                                     {.in = UINT64_C(8) << 30, .out = UINT64_C(33) << 30},
                                     {.entries = 2000001}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(abx__tar_afford(&rows[i], NULL), -1);
}

struct slow_reader {
    int fd;
    size_t got;
};

static void *read_slowly(void *arg)
{
    struct slow_reader *r = arg;
    char chunk[4096];
    ssize_t n;
    usleep(100000); /* long enough for the line to be full */
    while ((n = read(r->fd, chunk, sizeof(chunk))) > 0)
        r->got += (size_t)n;
    return NULL;
}

/* The engine reads the step's line by its event loop: the worker's end is non-blocking too. */
TEST(feed_waits_for_a_step_that_writes_slowly)
{
    static char data[4 << 20];
    struct kit_tar t = kit_tar_new("gzip");
    struct kit_entry big = {.name = "big"};
    kit_tar_put(&t, &big, data, sizeof(data));
    int in = kit_tar_end(&t), line[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line), 0);
    assert_int_equal(abx_fd_set_nonblock(line[0], true), 0);
    struct slow_reader r = {.fd = line[1]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &r), 0);
    struct abx_error err = {0};
    int fed = abx__copy_feed(in, line[0], &err);
    close(line[0]);
    pthread_join(thread, NULL);
    close(line[1]);
    if (fed < 0)
        fail_msg("%s", err.msg);
    assert_true(r.got > sizeof(data));
}
