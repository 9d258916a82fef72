/* host/engine/metrics_priv.h: what a sandbox used lately (control-plane 5.1). Loop thread. */
#pragma once
#include "host/engine/api_priv.h"

/** GET of one sandbox: samples of the query's start..end, in seconds, oldest first.
 *
 * A sample is taken when somebody asks and the last one is 5 s old: a sandbox that nobody watches
 * is left alone. The latest 360 are kept while the sandbox lives. */
void abx__metrics_get(struct abx__call *c, struct abx__sandbox *sb);
