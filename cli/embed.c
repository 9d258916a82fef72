/* cli/embed.c: symbols of the assembled blobs; weak, so that builds without them link. */
#include "cli/embed.h"

#include "lib/base/banned.h"

extern const char abx_blob_guest[] __attribute__((weak));
extern const char abx_blob_guest_end[] __attribute__((weak));
extern const char abx_blob_shim[] __attribute__((weak));
extern const char abx_blob_shim_end[] __attribute__((weak));

struct abx_str abx_embedded_guest(void)
{
    return abx_str_n(abx_blob_guest, (size_t)(abx_blob_guest_end - abx_blob_guest));
}

struct abx_str abx_embedded_shim(void)
{
    return abx_str_n(abx_blob_shim, (size_t)(abx_blob_shim_end - abx_blob_shim));
}
