/* guest/server/policy_ask.c: what ServerPolicy asks in a command host: is this document right, and
 * what would it say to a call. Loop thread. command-hosts.md 2 ("policy objects ask the server").
 */
#include "guest/server/commands_priv.h"
#include "guest/server/explain.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { TEXT_BYTES = 4096, SCOPES_MAX = 64, ARENA_BYTES = 1 << 20 };

static int load(struct abx_str document, struct abx_policy **ret, struct abx_error *err)
{
    struct abx_report report;
    struct abx_policy_facts facts = {.text = document, .has_text = true, .no_env = true};
    abx_report_init(&report);
    int r = abx_policy_load(&facts, ret, &report);
    const struct abx_finding *f = r < 0 ? abx_report_first_error(&report) : NULL;
    if (f)
        abx_err_set(err, ABX_INVALID_ARGUMENT, "%s%s%s", f->place ? f->place : "",
                    f->place ? ": " : "", f->text);
    bool is_early =
        f && f->kind == ABX_FINDING_CONFIGURATION; /* names routes that are not registered yet */
    abx_report_done(&report);
    if (r < 0 && is_early)
        *ret = NULL;
    return r < 0 && !is_early ? -1 : 0;
}

static void put_check(struct abx_buf *out, const struct abx_policy *p)
{
    struct abx_report report;
    struct abx_json_writer w;
    abx_report_init(&report);
    abx_json_writer_init(&w, out);
    if (p)
        abx_policy_lint(p, false, &report);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("revision"));
    if (p)
        abx_json_str(&w, abx_str(abx_policy_revision(p)));
    else
        abx_json_null(&w);
    abx_json_key(&w, ABX_STR("warnings"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < report.count; i++)
        abx_json_str(&w, abx_str(report.items[i].text));
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx_report_done(&report);
}

/* A JSON string, in the arena; ptr NULL: none. */
static struct abx_str text_of(struct abx_str json, struct abx_arena *a)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, TEXT_BYTES);
    if (json.len == 0 || abx_host_text(json, &b) < 0)
        return (struct abx_str){0};
    return abx_arena_str(a, abx_buf_str(&b));
}

static size_t scopes_of(struct abx_str json, struct abx_arena *a, struct abx_str out[SCOPES_MAX])
{
    size_t n = 0;
    struct json_t *doc = NULL;
    struct holder {
        struct abx_json_array scopes;
    } h = {0};
    static const struct abx_json_field fields[] = {
        {"scopes", ABX_JSON_ARRAY, offsetof(struct holder, scopes), 0, NULL, 0, ABX_JSON_STR}, {0}};
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 65536);
    abx_buf_put_c(&b, "{\"scopes\":");
    abx_buf_put_str(&b, json.len ? json : ABX_STR("null"));
    abx_buf_put_byte(&b, '}');
    if (abx_json_parse(abx_buf_str(&b), NULL, &doc, NULL) == 0 &&
        abx_json_decode(doc, fields, &h, a, NULL) == 0)
        for (; n < h.scopes.count && n < SCOPES_MAX; n++)
            out[n] = ((const struct abx_str *)h.scopes.items)[n];
    abx_json_free(doc);
    return n;
}

static void put_explain(struct abx_buf *out, const struct abx_policy *p,
                        const struct abx_host_message *m, struct abx_arena *a)
{
    struct abx_json_writer w;
    struct abx_str scopes[SCOPES_MAX] = {ABX_STR("*")};
    size_t n = scopes_of(m->scopes, a, scopes);
    struct abx_policy_identity who = {
        .id = ABX_STR("explain"), .scopes = {scopes, n ? n : 1}, .index = ABX_POLICY_ANONYMOUS};
    struct abx_str op = text_of(m->access, a);
    struct abx__explain ask = {.endpoint = text_of(m->endpoint, a),
                               .who = &who,
                               .path = text_of(m->path, a),
                               .op = op.ptr ? abx_path_op_parse(op) : -1};
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("answer"));
    abx__explain_write(p, &ask, &w);
    abx_json_end_object(&w);
}

int abx__policy_answer(const struct abx_host_message *m, struct abx_buf *out, struct abx_error *err)
{
    struct abx_policy *p = NULL;
    struct abx_arena a;
    bool is_explain = abx_str_is(m->ask_do, "\"explain\"");
    if (!is_explain && !abx_str_is(m->ask_do, "\"check\""))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "no such question");
    if (load(m->document, &p, err) < 0)
        return -1;
    if (is_explain && p == NULL)
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "the policy names endpoints that are not known");
    abx_arena_init(&a, ARENA_BYTES);
    if (is_explain)
        put_explain(out, p, m, &a);
    else
        put_check(out, p);
    abx_arena_done(&a);
    abx_policy_unref(p);
    return abx_buf_failed(out) ? abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory") : 0;
}
