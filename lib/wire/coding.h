/* lib/wire/coding.h: which content coding an Accept-Encoding asks for (RFC 9110 12.5.3). Pure. */
#pragma once
#include "lib/base/str.h"

#include <stdbool.h>

enum abx_coding { ABX_CODING_IDENTITY, ABX_CODING_GZIP, ABX_CODING_NONE };
/** What an Accept-Encoding value makes of a file (envd.md 3.3). Identity wins unless it is refused,
 *  is wanted less than gzip, or gzip is all that is named: a list of several codings is a client's
 *  default, and near it packing only costs. @identity_only: a range or a condition. */
enum abx_coding abx_coding_pick(struct abx_str accept_encoding, bool identity_only);
