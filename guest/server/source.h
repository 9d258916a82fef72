/* guest/server/source.h: where the policy document comes from (policy.md A1, server.md 1). */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/policy/policy.h"

struct abx__source {
    struct abx_buf text;
    bool has_text;
    struct abx_str preset; /* a --preset; ptr NULL: none */
    const char *origin;    /* for the start line: a path, "--preset", "ABX_SERVER_POLICY", "none" */
};
/** The first source that is present; nothing is merged. -1 for one that can not be read. Then
 *  abx__source_done(). */
int abx__source_read(const char *policy_file, const char *preset, struct abx__source *ret,
                     struct abx_error *err);
void abx__source_done(struct abx__source *s);
/** The facts of a document: source and environment; the caller adds routes and the legacy token. */
struct abx_policy_facts abx__source_facts(const struct abx__source *s);
/** Every mistake of @r, one a line: "policy error: PLACE: TEXT" or "configuration error: ...". */
void abx__source_print_errors(const struct abx_report *r);
