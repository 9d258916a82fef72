/* lib/wire/envelope.h: Connect's five-byte envelope (flags, big-endian length). Pure. */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"

enum { ABX_ENVELOPE_HEAD = 5, ABX_ENVELOPE_COMPRESSED = 1, ABX_ENVELOPE_END = 2 };

/** Writes the head for a payload of @len bytes. */
void abx_envelope_head(uint8_t flags, uint32_t len, unsigned char out[ABX_ENVELOPE_HEAD]);

/* Collects one payload at a time from a stream of bytes. */
struct abx_envelope_reader {
    unsigned char head[ABX_ENVELOPE_HEAD];
    size_t head_len;
    struct abx_buf payload; /* its max is the ceiling */
    uint32_t want;
};
void abx_envelope_reader_init(struct abx_envelope_reader *r, size_t max_payload);
void abx_envelope_reader_done(struct abx_envelope_reader *r);
/** Consumes input. 1: *ret_flags and *ret_payload hold one message (valid until the next call);
 *  0: needs more; -1: err (unknown flags, too long). */
int abx_envelope_read(struct abx_envelope_reader *r, struct abx_str *inout_input,
                      uint8_t *ret_flags, struct abx_str *ret_payload, struct abx_error *err);
/** True when no partial message is held. */
bool abx_envelope_reader_idle(const struct abx_envelope_reader *r);
