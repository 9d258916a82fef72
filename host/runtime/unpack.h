/* host/runtime/unpack.h: what the runtime side's confined worker is given and gives back (S53).
 *
 * The function itself comes with the options: only host/image knows archives. It runs in a process
 * of its own: own namespaces with one range of ids, its root is the folder it fills or packs, no
 * network, no descriptors but these, a system call filter, limits. */
#pragma once
#include "host/runtime/runtime.h"

enum abx_unpack_kind {
    ABX_UNPACK_ROOTFS = ABX_IMPORT_ROOTFS, /* writes the layer /l0 */
    ABX_UNPACK_OCI = ABX_IMPORT_OCI,       /* writes the layers /l0 (topmost) ... */
    ABX_UNPACK_COPY,                       /* writes struct abx_step_entry to out_fd */
    ABX_PACK_LAYER,                        /* reads the layer that is its root, tars it to out_fd */
    ABX_PACK_RUNTIME                       /* so too the runtime layer, without the server */
};
struct abx_unpack_job {
    enum abx_unpack_kind kind;
    int in_fd;  /* the archive: a file or a pipe; PACK: -1 */
    int out_fd; /* COPY: the line of a build step; PACK: a file; else -1 */
};
struct abx_unpack_result {
    struct abx_error err; /* code 0: done */
    uint32_t layer_count, config_bytes;
    struct abx_layer_info layers[ABX_LAYERS_MAX]; /* topmost first */
    char config[ABX_IMPORT_CONFIG_MAX];           /* the image's JSON, as it came */
};
