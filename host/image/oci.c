/* host/image/oci.c: an OCI image layout (a tar of it) into layers; a docker-archive goes to
 * docker.c. Every blob is hashed as it is read and must have the name it goes by; each layer's tar
 * must be the one its configuration names (security S53). */
#include "host/image/unpack_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MANIFEST_MAX = 4 << 20, ARENA_MAX = 16 << 20, DEPTH_MAX = 32, NESTING_MAX = 2 };

struct platform {
    struct abx_str architecture, os;
};
struct descriptor {
    struct abx_str media_type, digest;
    struct platform platform;
};
struct index {
    struct abx_json_array manifests;
};
struct manifest {
    struct descriptor config;
    struct abx_json_array layers, manifests;
};
struct rootfs {
    struct abx_json_array diff_ids;
};
struct config {
    struct rootfs rootfs;
};

static const struct abx_json_field platform_fields[] = {
    {"architecture", ABX_JSON_STR, offsetof(struct platform, architecture)},
    {"os", ABX_JSON_STR, offsetof(struct platform, os)},
    {0}};
static const struct abx_json_field descriptor_fields[] = {
    {"mediaType", ABX_JSON_STR, offsetof(struct descriptor, media_type)},
    {"digest", ABX_JSON_STR, offsetof(struct descriptor, digest), ABX_JSON_REQUIRED},
    {"platform", ABX_JSON_OBJECT, offsetof(struct descriptor, platform), 0, platform_fields,
     sizeof(struct platform)},
    {0}};
static const struct abx_json_field manifest_fields[] = {
    {"config", ABX_JSON_OBJECT, offsetof(struct manifest, config), 0, descriptor_fields,
     sizeof(struct descriptor)},
    {"layers", ABX_JSON_ARRAY, offsetof(struct manifest, layers), 0, descriptor_fields,
     sizeof(struct descriptor)},
    {"manifests", ABX_JSON_ARRAY, offsetof(struct manifest, manifests), 0, descriptor_fields,
     sizeof(struct descriptor)},
    {0}};
static const struct abx_json_field rootfs_fields[] = {{"diff_ids", ABX_JSON_ARRAY,
                                                       offsetof(struct rootfs, diff_ids),
                                                       ABX_JSON_REQUIRED, .item = ABX_JSON_STR},
                                                      {0}};
static const struct abx_json_field config_fields[] = {
    {"rootfs", ABX_JSON_OBJECT, offsetof(struct config, rootfs), ABX_JSON_REQUIRED, rootfs_fields,
     sizeof(struct rootfs)},
    {0}};

struct oci {
    int at_fd, dir_fd; /* the layers' folder; the unpacked layout */
    struct abx_arena arena;
    struct abx_unpack_result *result;
};

int abx__digest_parse(struct abx_str text, struct abx_digest *ret, struct abx_error *err)
{
    if (!abx_str_starts(text, "sha256:") ||
        abx_hex_decode(abx_str_sub(text, 7, text.len), ret->bytes, sizeof(ret->bytes)) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "image: \"%.80s\" is no sha256 digest",
                           text.len > 0 ? text.ptr : "");
    return 0;
}

static int open_blob(const struct oci *o, const struct abx_digest *d, struct abx_error *err)
{
    char hex[2 * ABX_DIGEST_LEN + 1], path[96];
    abx_hex_encode(d->bytes, sizeof(d->bytes), hex);
    snprintf(path, sizeof(path), "blobs/sha256/%s", hex);
    int fd = openat(o->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? abx_err_sys(err, -errno, "OCI: blob %.12s", hex) : fd;
}

static int read_blob(const struct oci *o, const struct abx_digest *d, size_t max,
                     struct abx_buf *out, struct abx_error *err)
{
    ABX_AUTO_FD fd = open_blob(o, d, err);
    if (fd < 0)
        return -1;
    char *room = abx_buf_room(out, max + 1);
    if (room == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    ssize_t n = abx_fd_read_all(fd, room, max + 1);
    if (n < 0 || (size_t)n > max)
        return n < 0 ? abx_err_sys(err, (int)n, "OCI: read a blob")
                     : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "OCI: a document is over %zu bytes",
                                   max);
    abx_buf_wrote(out, (size_t)n);
    struct abx_digest is;
    crypto_hash_sha256(is.bytes, (const unsigned char *)out->ptr, out->len);
    if (memcmp(&is, d, sizeof(is)) != 0)
        return abx_err_set(err, ABX_DATA_LOSS, "OCI: a blob does not have its name's digest");
    return 0;
}

static int decode(struct oci *o, struct abx_str text, const struct abx_json_field *fields,
                  void *out, struct abx_error *err)
{
    const struct abx_json_limits limits = {MANIFEST_MAX, DEPTH_MAX};
    struct json_t *doc;
    if (abx_json_parse(text, &limits, &doc, err) < 0)
        return abx_err_wrap(err, "OCI");
    int r = abx_json_decode(doc, fields, out, &o->arena, err);
    abx_json_free(doc);
    return r < 0 ? abx_err_wrap(err, "OCI") : 0;
}

/* The one image, or the one for this machine. */
static const struct descriptor *choose(const struct abx_json_array *list, struct abx_error *err)
{
    const struct descriptor *items = list->items, *found = NULL;
    size_t count = 0;
    if (list->count == 1)
        return items;
    for (size_t i = 0; i < list->count; i++) {
        if (!abx_str_is(items[i].platform.os, "linux") ||
            !abx_str_is(items[i].platform.architecture, "amd64"))
            continue;
        found = &items[i];
        count++;
    }
    if (count != 1)
        abx_err_set(err, ABX_INVALID_ARGUMENT,
                    "OCI: %zu images, %zu of them for linux/amd64: one is needed", list->count,
                    count);
    return count == 1 ? found : NULL;
}

/* From index.json through nested indexes to a manifest. */
static int find_manifest(struct oci *o, struct manifest *ret, struct abx_error *err)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    int r = abx_fd_read_file(o->dir_fd, "index.json", MANIFEST_MAX, &text, &len);
    if (r < 0)
        return abx_err_sys(err, r, "OCI: index.json (is this an OCI layout or a docker-archive?)");
    if (decode(o, abx_str_n(text, len), manifest_fields, ret, err) < 0)
        return -1;
    for (int nested = 0; ret->manifests.count > 0; nested++) {
        const struct descriptor *d = choose(&ret->manifests, err);
        struct abx_digest digest;
        ABX_AUTO_BUF blob;
        abx_buf_init(&blob, MANIFEST_MAX + 1);
        if (d == NULL || abx__digest_parse(d->digest, &digest, err) < 0 ||
            read_blob(o, &digest, MANIFEST_MAX, &blob, err) < 0)
            return -1;
        *ret = (struct manifest){0};
        if (decode(o, abx_buf_str(&blob), manifest_fields, ret, err) < 0)
            return -1;
        if (nested >= NESTING_MAX)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "OCI: indexes of indexes");
    }
    if (ret->layers.count == 0 || ret->layers.count > ABX_LAYERS_MAX || ret->config.digest.len == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "OCI: a manifest with %zu layers (1 to %d)",
                           ret->layers.count, ABX_LAYERS_MAX);
    return 0;
}

void abx__layers_name_apart(struct abx_unpack_result *r, uint32_t at)
{
    for (uint32_t i = at + 1; i < r->layer_count; i++) {
        if (memcmp(&r->layers[i].digest, &r->layers[at].digest, sizeof(struct abx_digest)) != 0)
            continue;
        struct {
            struct abx_digest digest;
            uint32_t height;
        } again = {r->layers[at].digest, r->layer_count - at};
        crypto_hash_sha256(r->layers[at].digest.bytes, (const unsigned char *)&again,
                           sizeof(again));
        return;
    }
}

static int unpack_layer(struct oci *o, const struct descriptor *d, struct abx_str diff_id,
                        uint32_t at, struct abx_error *err)
{
    struct abx_digest named, is, tar;
    char name[16];
    if (abx__digest_parse(d->digest, &named, err) < 0 || abx__digest_parse(diff_id, &tar, err) < 0)
        return -1;
    ABX_AUTO_FD fd = open_blob(o, &named, err);
    if (fd < 0)
        return -1;
    snprintf(name, sizeof(name), "l%u", at);
    struct abx_layer_info *info = &o->result->layers[at];
    if (abx__disk_unpack(fd, o->at_fd, name, ABX__DISK_LAYER, info, &is, err) < 0)
        return -1;
    if (memcmp(&is, &named, sizeof(is)) != 0 || memcmp(&info->digest, &tar, sizeof(tar)) != 0)
        return abx_err_set(err, ABX_DATA_LOSS, "OCI: a layer does not have its digest");
    abx__layers_name_apart(o->result, at);
    return 0;
}

static bool has(const struct oci *o, const char *name)
{
    return faccessat(o->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int unpack_image(struct oci *o, struct abx_error *err)
{
    struct manifest m = {0};
    struct config c = {0};
    struct abx_digest digest;
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX_IMPORT_CONFIG_MAX + 1);
    if (find_manifest(o, &m, err) < 0 || abx__digest_parse(m.config.digest, &digest, err) < 0 ||
        read_blob(o, &digest, ABX_IMPORT_CONFIG_MAX, &text, err) < 0 ||
        decode(o, abx_buf_str(&text), config_fields, &c, err) < 0)
        return -1;
    if (c.rootfs.diff_ids.count != m.layers.count)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "OCI: %zu layers, %zu diff_ids",
                           m.layers.count, c.rootfs.diff_ids.count);
    o->result->layer_count = (uint32_t)m.layers.count;
    o->result->config_bytes = (uint32_t)text.len;
    memcpy(o->result->config, text.ptr, text.len);
    const struct descriptor *layers = m.layers.items;
    const struct abx_str *diff_ids = c.rootfs.diff_ids.items;
    for (size_t i = 0; i < m.layers.count; i++) /* the lowest comes first */
        if (unpack_layer(o, &layers[i], diff_ids[i], (uint32_t)(m.layers.count - 1 - i), err) < 0)
            return -1;
    return 0;
}

int abx__oci_unpack(int fd, int at_fd, struct abx_unpack_result *ret, struct abx_error *err)
{
    struct oci o = {.at_fd = at_fd, .dir_fd = -1, .result = ret};
    struct abx_layer_info unused;
    if (abx__disk_unpack(fd, at_fd, "oci", ABX__DISK_FILES, &unused, NULL, err) < 0)
        return -1;
    o.dir_fd = openat(at_fd, "oci", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (o.dir_fd < 0)
        return abx_err_sys(err, -errno, "open the layout");
    int r;
    if (!has(&o, "index.json") && has(&o, "manifest.json")) {
        r = abx__docker_unpack(o.dir_fd, at_fd, ret, err);
    } else {
        abx_arena_init(&o.arena, ARENA_MAX);
        r = unpack_image(&o, err);
        abx_arena_done(&o.arena);
    }
    abx_fd_close(&o.dir_fd);
    return r;
}
