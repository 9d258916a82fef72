/* host/image/unpack.h: archives to layers (security S52, S53). Runs in the runtime side's confined
 * worker only: goes into abx_runtime_options.unpack. */
#pragma once
#include "host/runtime/unpack.h"

abx_unpack_fn abx_image_unpack;
