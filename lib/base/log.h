/* lib/base/log.h: one line per event on stderr, "level=info role=envd msg=... key=value".
 * Libraries log at debug only; the layer that ends an error logs it once. No secrets, no bodies. */
#pragma once
#include "lib/base/err.h"

#include <stdbool.h>

enum abx_log_level { ABX_LOG_DEBUG, ABX_LOG_INFO, ABX_LOG_WARN, ABX_LOG_ERROR };

/** Names the process in each line and sets the least level shown. Once, before threads. */
void abx_log_init(const char *role, enum abx_log_level least);
/** Lines as JSON objects {"time","level","role","msg"} from now on. Once, before threads. */
void abx_log_set_json(bool is_json);
/** @fmt gives "msg text key=value ...". */
void abx_log(enum abx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
