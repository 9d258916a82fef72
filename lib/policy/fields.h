/* lib/policy/fields.h: what the endpoints of lib/policy/endpoints.h take: one row per field.
 * OpenAPI, tools of MCP and the docs are made from it; the handlers read by themselves. Constant
 * data: any thread. Spec: server-api.md 4, server.md 5. */
#pragma once
#include "lib/base/str.h"

enum abx_field_in { ABX_FIELD_PATH, ABX_FIELD_QUERY, ABX_FIELD_BODY };
enum abx_field_type {
    ABX_FIELD_STRING,
    ABX_FIELD_INTEGER,
    ABX_FIELD_NUMBER,
    ABX_FIELD_BOOLEAN,
    ABX_FIELD_STRINGS, /* a list of strings */
    ABX_FIELD_MAP,     /* an object of strings */
    ABX_FIELD__COUNT
};
struct abx_endpoint_field {
    const char *endpoint, *name;
    enum abx_field_in in;
    enum abx_field_type type;
    bool is_required;
    const char *help;
};
/** All rows; those of one endpoint stand together. */
const struct abx_endpoint_field *abx_endpoint_fields(size_t *ret_count);
/** The first row of the endpoint and how many there are; NULL and 0: it takes nothing. */
const struct abx_endpoint_field *abx_endpoint_fields_of(const char *endpoint, size_t *ret_count);
/** "string", "integer", "number", "boolean", "array", "object". */
const char *abx_field_type_name(enum abx_field_type type);

/* What an endpoint answers with, when that is not JSON, and what it takes as a body. */
struct abx_endpoint_media {
    const char *endpoint, *answer, *body; /* NULL: JSON, or none */
};
const struct abx_endpoint_media *abx_endpoint_media_of(const char *endpoint);
