/* guest/server/hosts/unpack.h: what the binary brings along deflated: its size in four bytes,
 * little end first, and a zlib stream (pack/gen.c). */
#pragma once
#include "lib/base/err.h"

#include <stddef.h>

enum { ABX_HOST_UNPACKED_MAX = 1 << 20 };

/** Writes what @packed stands for to @fd. */
int abx__host_unpack(int fd, const void *packed, size_t len, struct abx_error *err);
