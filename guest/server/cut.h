/* guest/server/cut.h: a long string member is taken out of a JSON object before it is parsed, so
 * that megabytes of base64 do not go through the parser character by character. Pure. */
#pragma once
#include "lib/base/buf.h"

enum { ABX__CUT_MIN = 4096 };

/** Looks for the last member @field of the object @text whose value is a string of at least
 * ABX__CUT_MIN printable ASCII bytes without an escape. True: *ret_value is that string (in @text),
 * and @out is @text with @marker (which needs no escape) in its place. The caller parses @out; only
 * where the member then is @marker does the value hold: any doubt means to parse @text itself. */
bool abx__cut_member(struct abx_str text, const char *field, struct abx_str marker,
                     struct abx_buf *out, struct abx_str *ret_value);
