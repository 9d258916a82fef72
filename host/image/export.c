/* host/image/export.c: an image as an OCI layout. The confined worker packs each layer into a file
 * without a name; here are the documents around them and the outer tar's heads. Loop thread. */
#include "host/image/export.h"

#include "host/image/image_priv.h"
#include "host/image/tar_write.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DOCUMENT_MAX = 2 << 20, LAYERS = ABX_LAYERS_MAX + 1, HEX = 65 };

struct save {
    struct abx_runtime *rt;
    struct abx_image *img;
    struct abx_oci_label *labels; /* with the texts behind it, one block each */
    int dir_fd;
    int fds[LAYERS]; /* lowest first; the runtime layer is the last one */
    struct abx_layer_info layers[LAYERS];
    uint32_t count, done_count;
    struct abx_oci_archive *archive;
    abx_oci_saved_fn *done;
    void *arg;
};

void abx_oci_archive_free(struct abx_oci_archive *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->count; i++) {
        free(a->parts[i].text);
        abx_fd_close(&a->parts[i].fd);
    }
    free(a);
}

static void labels_free(struct abx_oci_label *labels)
{
    for (struct abx_oci_label *l = labels; l != NULL && l->name != NULL; l++) {
        free((char *)(uintptr_t)l->name);
        free((char *)(uintptr_t)l->value);
    }
    free(labels);
}

static struct abx_oci_label *labels_copy(const struct abx_oci_label *from)
{
    size_t count = 0;
    while (from != NULL && from[count].name != NULL)
        count++;
    struct abx_oci_label *to = calloc(count + 1, sizeof(*to));
    for (size_t i = 0; to != NULL && i < count; i++) {
        char *name = abx_str_dup(abx_str(from[i].name));
        char *value = abx_str_dup(abx_str(from[i].value ? from[i].value : ""));
        if (name == NULL || value == NULL) {
            free(name);
            free(value);
            labels_free(to);
            return NULL;
        }
        to[i] = (struct abx_oci_label){name, value};
    }
    return to;
}

static void save_free(struct save *s)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        abx_fd_close(&s->fds[i]);
    abx_fd_close(&s->dir_fd);
    abx_oci_archive_free(s->archive);
    abx_image_free(s->img);
    labels_free(s->labels);
    free(s);
}

static void save_end(struct save *s, const struct abx_error *err)
{
    abx_oci_saved_fn *done = s->done;
    void *arg = s->arg;
    struct abx_oci_archive *archive = err == NULL ? ABX_TAKE(s->archive) : NULL;
    save_free(s);
    done(arg, archive, err);
}

/* ---- the outer tar ---- */
static int add(struct save *s, char *take_text, int take_fd, uint64_t bytes)
{
    struct abx_oci_archive *a = s->archive;
    if ((take_text == NULL && take_fd < 0) || a->count == ABX_OCI_PARTS_MAX) {
        free(take_text);
        abx_fd_close(&take_fd);
        return -1;
    }
    a->parts[a->count++] = (struct abx_oci_part){take_text, take_fd, bytes};
    a->bytes += bytes;
    return 0;
}

static int add_head(struct save *s, const char *name, char type, uint64_t bytes)
{
    struct abx_tar_entry e = {
        .path = name, .type = type, .mode = type == '5' ? 0755 : 0644, .bytes = bytes};
    struct abx_buf head;
    abx_buf_init(&head, 4 * ABX_TAR_BLOCK);
    abx_tar_head(&e, &head);
    size_t len = head.len;
    return add(s, abx_buf_take(&head), -1, len);
}

static int add_padding(struct save *s, uint64_t bytes)
{
    size_t zeros = abx_tar_padding(bytes);
    return zeros == 0 ? 0 : add(s, calloc(1, zeros), -1, zeros);
}

static int add_text(struct save *s, const char *name, struct abx_str text)
{
    return add_head(s, name, '0', text.len) < 0 || add(s, abx_str_dup(text), -1, text.len) < 0 ||
                   add_padding(s, text.len) < 0
               ? -1
               : 0;
}

static void blob_name(const struct abx_digest *d, char out[96])
{
    char hex[HEX];
    abx_hex_encode(d->bytes, sizeof(d->bytes), hex);
    snprintf(out, 96, "blobs/sha256/%s", hex);
}

/* Two layers of one content are one blob. */
static bool is_repeated(const struct save *s, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (memcmp(&s->layers[i].digest, &s->layers[at].digest, sizeof(s->layers[i].digest)) == 0)
            return true;
    return false;
}

static int add_layers(struct save *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        char name[96];
        uint64_t bytes = s->layers[i].bytes;
        if (is_repeated(s, i))
            continue;
        blob_name(&s->layers[i].digest, name);
        if (add_head(s, name, '0', bytes) < 0 || add(s, NULL, abx_fd_take(&s->fds[i]), bytes) < 0 ||
            add_padding(s, bytes) < 0)
            return -1;
    }
    return 0;
}

/* ---- documents ---- */
static void put_digest(struct abx_json_writer *w, const struct abx_digest *d)
{
    char text[8 + HEX] = "sha256:";
    abx_hex_encode(d->bytes, sizeof(d->bytes), text + 7);
    abx_json_str(w, abx_str(text));
}

static void put_descriptor(struct abx_json_writer *w, const char *type, const struct abx_digest *d,
                           uint64_t bytes)
{
    abx_json_kv_c(w, "mediaType", type);
    abx_json_key(w, ABX_STR("digest"));
    put_digest(w, d);
    abx_json_key(w, ABX_STR("size"));
    abx_json_u64(w, bytes);
}

static void put_container(struct abx_json_writer *w, const struct save *s)
{
    static const char *const ports[] = {"5000/tcp", "49983/tcp"};
    abx_json_begin_object(w);
    abx_json_kv_c(w, "User", "root");
    abx_json_key(w, ABX_STR("ExposedPorts"));
    abx_json_begin_object(w);
    for (size_t i = 0; i < ABX_COUNTOF(ports); i++) {
        abx_json_key(w, abx_str(ports[i]));
        abx_json_begin_object(w);
        abx_json_end_object(w);
    }
    abx_json_end_object(w);
    abx_json_key(w, ABX_STR("Env"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < s->img->env.count; i++)
        abx_json_str(w, abx_str(s->img->env.items[i]));
    abx_json_end_array(w);
    abx_json_key(w, ABX_STR("Entrypoint"));
    abx_json_begin_array(w);
    abx_json_str(w, ABX_STR(ABX_GUEST_ENTRYPOINT));
    abx_json_end_array(w);
    abx_json_kv_c(w, "WorkingDir", s->img->workdir);
    abx_json_key(w, ABX_STR("Labels"));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "abx.user", s->img->user);
    for (const struct abx_oci_label *l = s->labels; l->name != NULL; l++)
        if (l->value[0] != 0)
            abx_json_kv_c(w, l->name, l->value);
    abx_json_end_object(w);
    abx_json_end_object(w);
}

static void write_config(const struct save *s, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "architecture", "amd64");
    abx_json_kv_c(&w, "os", "linux");
    abx_json_key(&w, ABX_STR("config"));
    put_container(&w, s);
    abx_json_key(&w, ABX_STR("rootfs"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", "layers");
    abx_json_key(&w, ABX_STR("diff_ids"));
    abx_json_begin_array(&w);
    for (uint32_t i = 0; i < s->count; i++)
        put_digest(&w, &s->layers[i].digest);
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx_json_end_object(&w);
}

static void write_manifest(const struct save *s, const struct abx_digest *config,
                           uint64_t config_bytes, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "schemaVersion", 2);
    abx_json_kv_c(&w, "mediaType", "application/vnd.oci.image.manifest.v1+json");
    abx_json_key(&w, ABX_STR("config"));
    abx_json_begin_object(&w);
    put_descriptor(&w, "application/vnd.oci.image.config.v1+json", config, config_bytes);
    abx_json_end_object(&w);
    abx_json_key(&w, ABX_STR("layers"));
    abx_json_begin_array(&w);
    for (uint32_t i = 0; i < s->count; i++) {
        abx_json_begin_object(&w);
        put_descriptor(&w, "application/vnd.oci.image.layer.v1.tar", &s->layers[i].digest,
                       s->layers[i].bytes);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
}

static void write_index(const struct abx_digest *manifest, uint64_t bytes, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "schemaVersion", 2);
    abx_json_kv_c(&w, "mediaType", "application/vnd.oci.image.index.v1+json");
    abx_json_key(&w, ABX_STR("manifests"));
    abx_json_begin_array(&w);
    abx_json_begin_object(&w);
    put_descriptor(&w, "application/vnd.oci.image.manifest.v1+json", manifest, bytes);
    abx_json_key(&w, ABX_STR("platform"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "architecture", "amd64");
    abx_json_kv_c(&w, "os", "linux");
    abx_json_end_object(&w);
    abx_json_end_object(&w);
    abx_json_end_array(&w);
    abx_json_end_object(&w);
}

static int add_blob(struct save *s, const struct abx_buf *text, struct abx_digest *ret)
{
    char name[96];
    if (abx_buf_failed(text))
        return -1;
    crypto_hash_sha256(ret->bytes, (const unsigned char *)text->ptr, text->len);
    blob_name(ret, name);
    return add_text(s, name, abx_buf_str(text));
}

static int add_documents(struct save *s)
{
    struct abx_digest digest;
    ABX_AUTO_BUF config = {.max = DOCUMENT_MAX};
    ABX_AUTO_BUF manifest = {.max = DOCUMENT_MAX};
    ABX_AUTO_BUF index = {.max = DOCUMENT_MAX};
    write_config(s, &config);
    if (add_head(s, "blobs/", '5', 0) < 0 || add_head(s, "blobs/sha256/", '5', 0) < 0 ||
        add_blob(s, &config, &digest) < 0)
        return -1;
    write_manifest(s, &digest, config.len, &manifest);
    if (add_blob(s, &manifest, &digest) < 0)
        return -1;
    write_index(&digest, manifest.len, &index);
    return abx_buf_failed(&index) || add_text(s, "index.json", abx_buf_str(&index)) < 0 ||
                   add_text(s, "oci-layout", ABX_STR("{\"imageLayoutVersion\":\"1.0.0\"}")) < 0
               ? -1
               : 0;
}

static int make_archive(struct save *s)
{
    s->archive = calloc(1, sizeof(*s->archive));
    return s->archive == NULL || add_documents(s) < 0 || add_layers(s) < 0 ||
                   add(s, calloc(2, ABX_TAR_BLOCK), -1, 2 * (uint64_t)ABX_TAR_BLOCK) < 0
               ? -1
               : 0;
}

/* ---- layer after layer ---- */
static void next(struct save *s);

static void on_packed(void *arg, const struct abx_import_result *r, const struct abx_error *err)
{
    struct save *s = arg;
    if (err != NULL) {
        struct abx_error why = *err;
        save_end(s, &why);
        return;
    }
    s->layers[s->done_count++] = r->layers[0];
    next(s);
}

static void next(struct save *s)
{
    struct abx_error err = {0};
    if (s->done_count == s->count) {
        if (make_archive(s) == 0) {
            save_end(s, NULL);
            return;
        }
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory for the archive's documents");
        save_end(s, &err);
        return;
    }
    uint32_t at = s->done_count;
    s->fds[at] = openat(s->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int theirs = s->fds[at] < 0 ? -1 : fcntl(s->fds[at], F_DUPFD_CLOEXEC, 0);
    if (theirs < 0) {
        abx_err_sys(&err, -errno, "make a file for a layer");
        save_end(s, &err);
        return;
    }
    const struct abx_digest *layer =
        at + 1 < s->count ? &s->img->layers[s->count - 2 - at] : NULL; /* lowest first */
    abx_runtime_export(s->rt, layer, theirs, on_packed, s);
}

void abx_image_save(struct abx_runtime *rt, const struct abx_image *img,
                    const struct abx_oci_options *o, abx_oci_saved_fn *done, void *arg)
{
    struct abx_error err = {0};
    struct save *s = sodium_init() < 0 ? NULL : calloc(1, sizeof(*s));
    if (s == NULL) {
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory");
        done(arg, NULL, &err);
        return;
    }
    for (uint32_t i = 0; i < LAYERS; i++)
        s->fds[i] = -1;
    s->rt = rt;
    s->done = done;
    s->arg = arg;
    s->count = img->layer_count + 1;
    s->img = abx_image_copy(img);
    s->labels = labels_copy(o->labels);
    s->dir_fd = fcntl(o->dir_fd, F_DUPFD_CLOEXEC, 0);
    if (s->img != NULL && s->labels != NULL && s->dir_fd >= 0) {
        next(s);
        return;
    }
    abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory, or no descriptor");
    save_end(s, &err);
}
