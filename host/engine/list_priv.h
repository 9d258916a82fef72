/* host/engine/list_priv.h: GET /sandboxes and GET /v2/sandboxes. */
#pragma once
#include "host/engine/api_priv.h"

abx__route_fn abx__list_v1, abx__list_v2;
/** The fields that a list and the details of a sandbox share. */
void abx__write_listed(struct abx_json_writer *w, const struct abx__sandbox *sb);
