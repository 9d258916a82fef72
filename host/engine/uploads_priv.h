/* host/engine/uploads_priv.h: archives for COPY, by hash: links and what comes by them. */
#pragma once
#include "host/engine/api_priv.h"

enum {
    ABX__LINK_S = 3600,
};
#define ABX__UPLOAD_MAX_BYTES  ((uint64_t)4 << 30)
#define ABX__UPLOADS_MAX_BYTES ((int64_t)16 << 30) /* of all; the longest unused go first */

/** GET: whether the files are there, and a link to put them: one template, one hash, one hour. */
abx__route_fn abx__upload_link;
/** PUT by that link, without a key. */
abx__route_fn abx__upload_put;
/** "TEMPLATE HASH EXPIRY MAX" signed with the engine's key, in hex; for the tests too. */
struct abx__link {
    struct abx_str template_id, hash;
    int64_t expires_s;
    uint64_t max_bytes;
};
void abx__link_sign(const struct abx__engine *e, const struct abx__link *l, char out[65]);
