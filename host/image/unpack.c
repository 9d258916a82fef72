/* host/image/unpack.c: what the confined worker does: the working directory is the folder to fill,
 * or the layer to pack. */
#include "host/image/unpack_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>

#include "lib/base/banned.h"

static int unpack(const struct abx_unpack_job *job, int at_fd, struct abx_unpack_result *ret)
{
    switch (job->kind) {
    case ABX_UNPACK_ROOTFS:
        ret->layer_count = 1;
        return abx__disk_unpack(job->in_fd, at_fd, "l0", ABX__DISK_LAYER, &ret->layers[0], NULL,
                                &ret->err);
    case ABX_UNPACK_OCI:
        return abx__oci_unpack(job->in_fd, at_fd, ret, &ret->err);
    case ABX_UNPACK_COPY:
        return abx__copy_feed(job->in_fd, job->out_fd, &ret->err);
    case ABX_PACK_LAYER:
    case ABX_PACK_RUNTIME:
        ret->layer_count = 1;
        return abx__pack_layer(at_fd, job->out_fd, job->kind == ABX_PACK_RUNTIME, &ret->layers[0],
                               &ret->err);
    }
    return abx_err_set(&ret->err, ABX_INVALID_ARGUMENT, "unknown kind of archive");
}

void abx_image_unpack(const struct abx_unpack_job *job, struct abx_unpack_result *ret)
{
    ABX_AUTO_FD at = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        abx_err_sys(&ret->err, -errno, "open the folder");
    else if (unpack(job, at, ret) < 0 && ret->err.code == ABX_OK)
        abx_err_set(&ret->err, ABX_INTERNAL, "unpacking failed");
}
