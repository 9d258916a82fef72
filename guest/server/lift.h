/* guest/server/lift.h: one string member leaves a JSON object while its text comes: the value goes
 * on in pieces, the rest is kept. For bodies that are too long to be held. Pure. */
#pragma once
#include "lib/base/buf.h"

struct abx__lift_ops {
    void (*begin)(void *ctx); /* a value begins; what came of an earlier one does not count */
    /** Of the value, its escapes undone; one of anything but a printable ASCII character is "\x01".
     */
    void (*piece)(void *ctx, struct abx_str piece);
};

struct abx__lift {
    struct abx_buf rest; /* the text, with the marker in the place of every value that was lifted */
    /* private */
    const char *field;
    struct abx_str marker;
    const struct abx__lift_ops *ops;
    void *ctx;
    unsigned where, depth, escape, code;
    size_t name_len;
    bool is_object, is_name_due, is_named, is_value_due;
};

/** @field and @marker (which needs no escape) stay the caller's. The rest is at most @rest_max
 * bytes: `rest.failed` tells. */
void abx__lift_init(struct abx__lift *l, const char *field, struct abx_str marker, size_t rest_max,
                    const struct abx__lift_ops *ops, void *ctx);
void abx__lift_done(struct abx__lift *l);
/** The next bytes of the text. Lifted is each string member @field of the outermost object; whether
 * all is JSON is said by who parses the rest in the end: where the member then is @marker, the
 * value that was lifted last stands for it. A name that is spelled with escapes is not lifted. */
void abx__lift_feed(struct abx__lift *l, struct abx_str text);
