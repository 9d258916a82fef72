/* lib/policy/endpoints_priv.h: the rows that stand in a file of their own. */
#pragma once
#include "lib/policy/endpoints.h"

#define ABX__LIMITS_COMMON                                                                         \
    (1u << ABX_LIMIT_MAX_CONCURRENCY | 1u << ABX_LIMIT_MAX_REQUEST_BYTES |                         \
     1u << ABX_LIMIT_RATE_PER_MINUTE)

enum { ABX__ENDPOINTS_AGENTS = 70 };
extern const struct abx_endpoint abx__endpoints_agents[ABX__ENDPOINTS_AGENTS];
