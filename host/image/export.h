/* host/image/export.h: an image as an OCI layout in a tar, for other machines. Loop thread.
 *
 * Its last layer is the runtime layer of this engine (decisions.md), so that it runs where no
 * engine of ours lays it over; the server is in no image. */
#pragma once
#include "host/image/image.h"

enum { ABX_OCI_PARTS_MAX = 4 * (ABX_LAYERS_MAX + 10) };

/* A stretch of the archive: text, or the @bytes of a file. */
struct abx_oci_part {
    char *text; /* owned; NULL: the file */
    int fd;     /* owned; -1: the text */
    uint64_t bytes;
};
struct abx_oci_archive {
    struct abx_oci_part parts[ABX_OCI_PARTS_MAX];
    size_t count;
    uint64_t bytes;
};
void abx_oci_archive_free(struct abx_oci_archive *a);

struct abx_oci_label {
    const char *name, *value;
};
struct abx_oci_options {
    const struct abx_oci_label *labels; /* a NULL name ends; empty values are left out */
    int dir_fd; /* where the layers lie meanwhile, in files without a name; borrowed for the call */
};
typedef void abx_oci_saved_fn(void *arg, struct abx_oci_archive *take_archive,
                              const struct abx_error *err); /* take_archive NULL on error */
/** Packs the image's layers, one after the other, and makes the archive's documents. @img is
 *  copied; no gc may remove its layers before @done. */
void abx_image_save(struct abx_runtime *rt, const struct abx_image *img,
                    const struct abx_oci_options *o, abx_oci_saved_fn *done, void *arg);
