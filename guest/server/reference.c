/* guest/server/reference.c: the page docs/server-api.md from the tables of endpoints and fields.
 * Pure.
 */
#include "guest/server/describe.h"

#include "lib/contract/contract.h"

#include "lib/base/banned.h"

static const char intro[] =
    "# The server's endpoints\n"
    "\n"
    "Made by `agent-sandbox-server routes --markdown` from the tables that the server itself reads "
    "(`lib/policy/endpoints.c`,\n"
    "`lib/policy/endpoints_ours.c`, `lib/policy/fields.c`); a test compares. Every endpoint takes "
    "the "
    "limits `max_request_bytes`,\n"
    "`rate_per_minute` and `max_concurrency`; the column lists the others, with the parameters of "
    "the "
    "policy behind a semicolon.\n"
    "Fields: `name` is required, `name?` is not; those of a body travel as one JSON object. "
    "What answers mean, and how ours differ from\n"
    "the published server's: [compatibility.md](compatibility.md). The language of policies: "
    "[policy.md](policy.md).\n"
    "\n"
    "Credentials travel as `Authorization: Bearer TOKEN` or `" ABX_HEADER_ACCESS_TOKEN
    "`. A refusal "
    "is `{\"error\", \"type\"}` with `code`, `endpoint`,\n"
    "`rule` and `scope` where there are such. Effect: what a call may do; `exec` starts programs.\n"
    "An endpoint marked *ours* is not in the published server: it is on only where the endpoints "
    "it "
    "builds on are, and takes\n"
    "their scopes and bounds too.\n";

static void put_scopes(struct abx_buf *out, const struct abx_policy_rule *r)
{
    for (size_t i = 0; i < r->scopes.count; i++)
        abx_buf_putf(out, "%s`%.*s`", i ? " " : "", ABX_STR_FMT(r->scopes.items[i]));
    if (r->scopes.count == 0)
        abx_buf_put_c(out, r->is_open ? "none asked" : "-");
}

static void put_bounds(struct abx_buf *out, const struct abx_endpoint *e)
{
    const uint32_t common = 1u << ABX_LIMIT_MAX_REQUEST_BYTES | 1u << ABX_LIMIT_RATE_PER_MINUTE |
                            1u << ABX_LIMIT_MAX_CONCURRENCY;
    const char *between = "";
    for (int i = 0; i < ABX_LIMIT__COUNT; i++)
        if ((e->limits & ~common) >> i & 1) {
            abx_buf_putf(out, "%s%s", between, abx_limit_name((enum abx_limit)i));
            between = ", ";
        }
    between = e->params ? "; " : "";
    for (int i = 0; i < ABX_PARAM__COUNT; i++)
        if (e->params >> i & 1) {
            abx_buf_putf(out, "%s%s", between, abx_param_name((enum abx_param)i));
            between = ", ";
        }
    if (e->flags & ABX_EP_PATHS)
        abx_buf_put_c(out, " (paths)");
}

static void put_fields(struct abx_buf *out, const struct abx_endpoint *e)
{
    static const char *const places[] = {"path", "query", "body"};
    size_t count;
    const struct abx_endpoint_field *f = abx_endpoint_fields_of(e->id, &count);
    const char *place = "";
    for (size_t i = 0; i < count; i++) {
        const char *now = places[f[i].in];
        if (strcmp(now, place) != 0)
            abx_buf_putf(out, "%s%s:", i ? "; " : "", now);
        place = now;
        abx_buf_putf(out, " `%s%s`", f[i].name, f[i].is_required ? "" : "?");
    }
}

static void put_row(struct abx_buf *out, const struct abx_policy_rule *r)
{
    const struct abx_endpoint *e = r->endpoint;
    abx_buf_putf(out, "| `%s`%s | %s `%s` | ", e->id, abx_policy_is_extension(r) ? " *ours*" : "",
                 e->method, e->path);
    put_scopes(out, r);
    abx_buf_putf(out, " | %s | ", abx__effect(e));
    put_bounds(out, e);
    abx_buf_put_c(out, " | ");
    put_fields(out, e);
    abx_buf_putf(out, " | %s |\n", e->summary);
}

static void put_group(struct abx_buf *out, const struct abx_policy *p, enum abx_group group)
{
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(p, &count);
    abx_buf_putf(out, "\n## %s%s\n\n", abx_group_name(group),
                 abx_group_is_opt_in(group) ? " (off until it is turned on)" : "");
    if (group == ABX_GROUP_AGENTS) {
        abx_buf_put_c(out, "The published group of agents is answered as switched off: it is not "
                           "built. `agent-sandbox-server routes` lists its IDs.\n");
        return;
    }
    abx_buf_put_c(out, "| ID | route | scopes | effect | limits; params | fields | |\n"
                       "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++)
        if (rules[i].group == group)
            put_row(out, &rules[i]);
}

void abx__reference_write(struct abx_buf *out, const struct abx_policy *p)
{
    abx_buf_put_c(out, intro);
    for (int g = 0; g < ABX_GROUP__COUNT; g++)
        put_group(out, p, (enum abx_group)g);
}
