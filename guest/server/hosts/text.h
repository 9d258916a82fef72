/* guest/server/hosts/text.h: JSON strings as the text they stand for. Pure. */
#pragma once
#include "lib/base/buf.h"

/** A slice that is a JSON string (its grammar checked, scan.h), decoded into @out. -1: no string,
 * or no room. A lone surrogate becomes U+FFFD. */
int abx_host_text(struct abx_str json, struct abx_buf *out);
