/* guest/server/describe.c: the verbs routes and token, the route GET /openapi.json, and what they
 * share (describe.h). server.md 1, 5. */
#include "guest/server/describe.h"

#include "guest/server/rule_json.h"
#include "guest/server/verbs.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include <sodium.h>
#include <stdio.h>
#include <sys/random.h>

#include "lib/base/banned.h"

enum { TABLE_MAX = 1 << 20, DOCUMENT_MAX = 8 << 20, TOKEN_BYTES = 32 };

static bool is_exec(const struct abx_endpoint *e)
{
    return (e->flags & ABX_EP_EXEC) || e->op == ABX_OP_EXEC || e->group == ABX_GROUP_DEV_TOOLS ||
           e->group == ABX_GROUP_BROWSER || e->group == ABX_GROUP_TERMINAL ||
           e->group == ABX_GROUP_AGENTS || strcmp(e->id, "packages") == 0 ||
           strcmp(e->id, "run_command") == 0;
}

const char *abx__effect(const struct abx_endpoint *e)
{
    if (is_exec(e))
        return "exec";
    if (e->op == ABX_OP_WRITE || e->op == ABX_OP_DELETE || strcmp(e->id, "env_set") == 0 ||
        strcmp(e->id, "process_signal") == 0 || strcmp(e->id, "process_stdin") == 0)
        return "write";
    return "read";
}

void abx__put_schema(struct abx_json_writer *w, const struct abx_endpoint_field *f)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "type", abx_field_type_name(f->type));
    if (f->type == ABX_FIELD_STRINGS || f->type == ABX_FIELD_MAP) {
        abx_json_key(w, abx_str(f->type == ABX_FIELD_STRINGS ? "items" : "additionalProperties"));
        abx_json_begin_object(w);
        abx_json_kv_c(w, "type", "string");
        abx_json_end_object(w);
    }
    abx_json_kv_c(w, "description", f->help);
    abx_json_end_object(w);
}

/* ---- the verb routes ---- */

static void put_scopes(struct abx_buf *out, const struct abx_policy_rule *r)
{
    for (size_t i = 0; i < r->scopes.count; i++)
        abx_buf_putf(out, "%s%.*s", i ? "," : "", ABX_STR_FMT(r->scopes.items[i]));
    if (r->scopes.count == 0)
        abx_buf_put_byte(out, '-');
}

static void put_limits(struct abx_buf *out, uint32_t limits)
{
    bool is_first = true;
    for (int i = 0; i < ABX_LIMIT__COUNT; i++)
        if (limits >> i & 1) {
            abx_buf_putf(out, "%s%s", is_first ? "" : ",", abx_limit_name((enum abx_limit)i));
            is_first = false;
        }
}

static void put_row(struct abx_buf *out, const struct abx_policy_rule *r)
{
    const struct abx_endpoint *e = r->endpoint;
    abx_buf_putf(out, "%-24s %-6s %-32s %-9s %-5s ", e->id, e->method, e->path,
                 abx_group_name(e->group), abx__effect(e));
    put_scopes(out, r);
    abx_buf_put_byte(out, ' ');
    put_limits(out, e->limits);
    abx_buf_put_byte(out, '\n');
}

static void put_row_json(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    const struct abx_endpoint *e = r->endpoint;
    abx_json_begin_object(w);
    abx_json_kv_c(w, "endpoint", e->id);
    abx_json_kv_c(w, "method", e->method);
    abx_json_kv_c(w, "path", e->path);
    abx_json_kv_c(w, "group", abx_group_name(e->group));
    abx_json_kv_c(w, "effect", abx__effect(e));
    abx_json_kv_bool(w, "published", !abx_policy_is_extension(r));
    abx__put_list(w, "scopes", r->scopes);
    abx_json_key(w, ABX_STR("limits"));
    abx_json_begin_array(w);
    for (int i = 0; i < ABX_LIMIT__COUNT; i++)
        if (e->limits >> i & 1)
            abx_json_str(w, abx_str(abx_limit_name((enum abx_limit)i)));
    abx_json_end_array(w);
    abx_json_kv_c(w, "summary", e->summary);
    abx_json_end_object(w);
}

struct abx_policy *abx__default_policy(void)
{
    struct abx_policy_facts facts = {0};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        p = NULL;
    abx_report_done(&report);
    return p;
}

static void put_routes(struct abx_buf *out, const struct abx_policy *p, bool is_json)
{
    size_t count;
    struct abx_json_writer w;
    const struct abx_policy_rule *rules = abx_policy_rules(p, &count);
    abx_json_writer_init(&w, out);
    if (is_json)
        abx_json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        if (is_json)
            put_row_json(&w, &rules[i]);
        else
            put_row(out, &rules[i]);
    }
    if (!is_json)
        return;
    abx_json_end_array(&w);
    abx_buf_put_byte(out, '\n');
}

static int print(const struct abx_buf *out)
{
    if (abx_buf_failed(out)) {
        fputs("agent-sandbox-server: out of memory\n", stderr);
        return 1;
    }
    return fwrite(out->ptr, 1, out->len, stdout) == out->len && fflush(stdout) == 0 ? 0 : 1;
}

struct routes_options {
    bool is_json, is_markdown, is_man;
};
static const struct abx__option routes_options[] = {
    {"--json", ABX__OPTION_FLAG, offsetof(struct routes_options, is_json), NULL, "as JSON", 0},
    {"--markdown", ABX__OPTION_FLAG, offsetof(struct routes_options, is_markdown), NULL,
     "as the page docs/server-api.md", 0},
    {"--man", ABX__OPTION_FLAG, offsetof(struct routes_options, is_man), NULL,
     "the man page of this program", 0},
    {0}};

const struct abx__option *abx__routes_rows(void)
{
    return routes_options;
}

int abx__routes_main(int argc, char **argv)
{
    struct routes_options o = {0};
    int rc = abx__options_read(routes_options, argc, argv, &o);
    if (rc != ABX__OPTIONS_OK)
        return rc;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, TABLE_MAX);
    struct abx_policy *p = abx__default_policy();
    if (p == NULL)
        out.failed = true;
    else if (o.is_man)
        abx__man_write(&out);
    else if (o.is_markdown)
        abx__reference_write(&out, p);
    else
        put_routes(&out, p, o.is_json);
    abx_policy_unref(p);
    return print(&out);
}

/* ---- the verb token ---- */

int abx__token_main(int argc, char **argv)
{
    static const struct abx__option none[] = {{0}};
    unsigned char random[TOKEN_BYTES], hash[crypto_hash_sha256_BYTES];
    char token[2 * TOKEN_BYTES + 1], hex[2 * crypto_hash_sha256_BYTES + 1];
    int rc = abx__options_read(none, argc, argv, NULL);
    if (rc != ABX__OPTIONS_OK)
        return rc;
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
        fputs("agent-sandbox-server token: the kernel gives no random bytes\n", stderr);
        return 1;
    }
    abx_hex_encode(random, sizeof(random), token);
    crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
    abx_hex_encode(hash, sizeof(hash), hex);
    printf("token  %s\nsha256 %s\n", token, hex);
    explicit_bzero(token, sizeof(token));
    return 0;
}

/* ---- GET /openapi.json ---- */

static void openapi_get(struct abx__call *c)
{
    ABX_AUTO_BUF body;
    abx_buf_init(&body, DOCUMENT_MAX);
    abx__openapi_write(&body, c->policy, &c->who);
    abx__call_answer(c, &body);
}

const struct abx__route abx__describe_routes[] = {{"openapi", openapi_get}, {0}};
