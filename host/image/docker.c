/* host/image/docker.c: a docker-archive (`docker save`, skopeo, podman) into layers. It has no
 * digests of its files: each layer's tar must be the one that the image's configuration names
 * (S53). */
#include "host/image/unpack_priv.h"

#include "lib/base/arena.h"
#include "lib/base/fd.h"
#include "lib/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MANIFEST_MAX = 4 << 20, ARENA_MAX = 16 << 20, DEPTH_MAX = 32 };

struct manifest {
    struct abx_str config;
    struct abx_json_array layers; /* the lowest comes first */
};
static const struct abx_json_field manifest_fields[] = {
    {"Config", ABX_JSON_STR, offsetof(struct manifest, config), ABX_JSON_REQUIRED},
    {"Layers", ABX_JSON_ARRAY, offsetof(struct manifest, layers), ABX_JSON_REQUIRED,
     .item = ABX_JSON_STR},
    {0}};
struct rootfs {
    struct abx_json_array diff_ids;
};
struct config {
    struct rootfs rootfs;
};
static const struct abx_json_field rootfs_fields[] = {{"diff_ids", ABX_JSON_ARRAY,
                                                       offsetof(struct rootfs, diff_ids),
                                                       ABX_JSON_REQUIRED, .item = ABX_JSON_STR},
                                                      {0}};
static const struct abx_json_field config_fields[] = {
    {"rootfs", ABX_JSON_OBJECT, offsetof(struct config, rootfs), ABX_JSON_REQUIRED, rootfs_fields,
     sizeof(struct rootfs)},
    {0}};

struct docker {
    int dir_fd, at_fd;
    struct abx_arena arena;
    struct abx_unpack_result *result;
};

/* A file that the archive's own documents name: links may lead to it, but not out of the folder. */
static int open_named(const struct docker *d, struct abx_str name, struct abx_error *err)
{
    char path[ABX__TAR_PATH];
    struct stat st;
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    if (abx_str_to_c(name, path, sizeof(path)) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "docker-archive: a file's name is no path");
    ABX_AUTO_FD fd = (int)syscall(SYS_openat2, d->dir_fd, path, &how, sizeof(how));
    if (fd < 0)
        return abx_err_sys(err, -errno, "docker-archive: %.100s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "docker-archive: %.100s is no file", path);
    return abx_fd_take(&fd);
}

static int read_document(const struct docker *d, struct abx_str name, size_t max,
                         struct abx_buf *out, struct abx_error *err)
{
    ABX_AUTO_FD fd = open_named(d, name, err);
    if (fd < 0)
        return -1;
    char *room = abx_buf_room(out, max + 1);
    if (room == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    ssize_t n = abx_fd_read_all(fd, room, max + 1);
    if (n < 0 || (size_t)n > max)
        return n < 0 ? abx_err_sys(err, (int)n, "docker-archive: read %.100s", name.ptr)
                     : abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                                   "docker-archive: %.100s is over %zu bytes", name.ptr, max);
    abx_buf_wrote(out, (size_t)n);
    return 0;
}

/* manifest.json is a list; only one image has a place here. */
static int read_manifest(struct docker *d, struct manifest *ret, struct abx_error *err)
{
    const struct abx_json_limits limits = {MANIFEST_MAX, DEPTH_MAX};
    struct json_t *doc;
    ABX_AUTO_BUF text;
    abx_buf_init(&text, MANIFEST_MAX + 1);
    if (read_document(d, ABX_STR("manifest.json"), MANIFEST_MAX, &text, err) < 0)
        return -1;
    if (abx_json_parse(abx_buf_str(&text), &limits, &doc, err) < 0)
        return abx_err_wrap(err, "docker-archive: manifest.json");
    size_t count = json_array_size(doc);
    int r = count == 1
                ? abx_json_decode(json_array_get(doc, 0), manifest_fields, ret, &d->arena, err)
                : abx_err_set(err, ABX_INVALID_ARGUMENT, "%zu images: one is needed", count);
    abx_json_free(doc);
    if (r == 0 && (ret->layers.count == 0 || ret->layers.count > ABX_LAYERS_MAX))
        r = abx_err_set(err, ABX_INVALID_ARGUMENT, "%zu layers (1 to %d)", ret->layers.count,
                        ABX_LAYERS_MAX);
    return r < 0 ? abx_err_wrap(err, "docker-archive: manifest.json") : 0;
}

static int unpack_layer(struct docker *d, struct abx_str name, struct abx_str diff_id, uint32_t at,
                        struct abx_error *err)
{
    struct abx_digest want;
    char folder[16];
    if (abx__digest_parse(diff_id, &want, err) < 0)
        return -1;
    ABX_AUTO_FD fd = open_named(d, name, err);
    if (fd < 0)
        return -1;
    snprintf(folder, sizeof(folder), "l%u", at);
    struct abx_layer_info *info = &d->result->layers[at];
    if (abx__disk_unpack(fd, d->at_fd, folder, ABX__DISK_LAYER, info, NULL, err) < 0)
        return -1;
    if (memcmp(&info->digest, &want, sizeof(want)) != 0)
        return abx_err_set(err, ABX_DATA_LOSS,
                           "docker-archive: %.100s does not have the digest of its configuration",
                           name.ptr);
    abx__layers_name_apart(d->result, at);
    return 0;
}

static int unpack_image(struct docker *d, struct abx_error *err)
{
    struct manifest m = {0};
    struct config c = {0};
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX_IMPORT_CONFIG_MAX + 1);
    if (read_manifest(d, &m, err) < 0 ||
        read_document(d, m.config, ABX_IMPORT_CONFIG_MAX, &text, err) < 0 ||
        abx_json_decode_text(abx_buf_str(&text), false, config_fields, &c, &d->arena, err) < 0)
        return -1;
    uint32_t count = (uint32_t)m.layers.count;
    if (c.rootfs.diff_ids.count != count)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "docker-archive: %u layers, %zu diff_ids",
                           count, c.rootfs.diff_ids.count);
    d->result->layer_count = count;
    d->result->config_bytes = (uint32_t)text.len;
    memcpy(d->result->config, text.ptr, text.len);
    const struct abx_str *names = m.layers.items, *diff_ids = c.rootfs.diff_ids.items;
    for (uint32_t i = 0; i < count; i++)
        if (unpack_layer(d, names[i], diff_ids[i], count - 1 - i, err) < 0)
            return -1;
    return 0;
}

int abx__docker_unpack(int dir_fd, int at_fd, struct abx_unpack_result *ret, struct abx_error *err)
{
    struct docker d = {.dir_fd = dir_fd, .at_fd = at_fd, .result = ret};
    abx_arena_init(&d.arena, ARENA_MAX);
    int r = unpack_image(&d, err);
    abx_arena_done(&d.arena);
    return r;
}
