/* host/engine/metrics_priv.h: what sandboxes used lately (control-plane 5.1, 5.2). Loop thread.
 *
 * A sample is taken when somebody asks and the last one is 5 s old: a sandbox that nobody watches
 * is left alone. The latest 360 are kept while the sandbox lives. */
#pragma once
#include "host/engine/api_priv.h"

enum {
    ABX__METRICS_EVERY_MS = 5000,
    ABX__METRICS_WAIT_MS = 5000, /* for the answer of a sandbox */
    ABX__METRICS_BODY_MAX = 4096,
    ABX__METRICS_AT_ONCE = 100, /* sandboxes of one request */
};

/** GET of one sandbox: samples of the query's start..end, in seconds, oldest first. */
void abx__metrics_get(struct abx__call *c, struct abx__sandbox *sb);
/** GET of those that the query's sandbox_ids names, commas between: the latest sample of each by
 *  its id. One that is not there, or has never told its figures, is left out. */
abx__route_fn abx__metrics_get_many;

/** Whether the latest sample still stands for now. */
bool abx__metrics_is_fresh(const struct abx__sandbox *sb);
/** NULL: there is none. */
const struct abx__sample *abx__metrics_latest(const struct abx__sandbox *sb);
/** Keeps what envd told at GET /metrics. */
int abx__metrics_add(struct abx__sandbox *sb, struct abx_str text, struct abx_error *err);
void abx__metrics_write(struct abx_json_writer *w, const struct abx__sandbox *sb,
                        const struct abx__sample *s);
