/* cli/embed.h: the guest and the shim carried inside abx (release builds); empty elsewhere. */
#pragma once
#include "lib/base/str.h"

struct abx_str abx_embedded_guest(void);
struct abx_str abx_embedded_shim(void);
