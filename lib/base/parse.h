/* lib/base/parse.h: numbers, hex and base64 from text, whole string or nothing. 0 or -1. */
#pragma once
#include "lib/base/buf.h"

int abx_parse_u32(struct abx_str s, uint32_t *ret);
int abx_parse_u64(struct abx_str s, uint64_t *ret);
int abx_parse_i64(struct abx_str s, int64_t *ret);
/** Hexadecimal digits only, no prefix. */
int abx_parse_hex64(struct abx_str s, uint64_t *ret);
/** Standard or URL-safe alphabet, padding optional; appends to @out. */
int abx_base64_decode(struct abx_str s, struct abx_buf *out);
/** Standard alphabet; with padding if @padded. Appends. */
void abx_base64_encode(const void *data, size_t len, bool padded, struct abx_buf *out);
/** Lower-case hex of @len bytes into @out (2*len+1 bytes). */
void abx_hex_encode(const void *data, size_t len, char *out);
int abx_hex_decode(struct abx_str s, void *out, size_t len);
