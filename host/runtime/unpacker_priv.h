/* host/runtime/unpacker_priv.h: between the runtime side and the process that makes its confined
 * workers. That one is forked before there are threads, and clones one worker per archive. */
#pragma once
#include "host/runtime/runtime_priv.h"
#include "host/runtime/unpack.h"

/* One message; with it: the archive and, for COPY, where to write; else the archive (PACK: the file
 * to write), the folder that becomes the root and a SEQPACKET socket for struct abx_unpack_result.
 */
struct abx__unpacker_ask {
    uint32_t magic, kind;
};
struct abx__unpacker_main {
    int sock;
    abx_unpack_fn *unpack;
    uint32_t storage_base;
};
/** The role: ends, with its workers, when @sock is closed at the other end. */
int abx__unpacker_main(void *main);
