/* guest/server/describe.h: the endpoints told to people and programs: the verb routes, OpenAPI, the
 * page and the man page of the docs. All from lib/policy's tables. */
#pragma once
#include "guest/server/server_priv.h"
#include "lib/policy/fields.h"

/** "read", "write" or "exec" (security S02). */
const char *abx__effect(const struct abx_endpoint *e);
/** A JSON schema of the field, as one object. */
void abx__put_schema(struct abx_json_writer *w, const struct abx_endpoint_field *f);
/** The OpenAPI document of what @who may call, custom routes included. */
void abx__openapi_write(struct abx_buf *out, const struct abx_policy *p,
                        const struct abx_policy_identity *who);
/** docs/server-api.md, from the policy of an empty document. reference.c */
void abx__reference_write(struct abx_buf *out, const struct abx_policy *p);
/** docs/agent-sandbox-server.1. man.c */
void abx__man_write(struct abx_buf *out);
/** The empty document: what holds where nothing is said. NULL without memory. */
struct abx_policy *abx__default_policy(void);
