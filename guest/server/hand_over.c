/* guest/server/hand_over.c: what user code gets of a request: its query, headers and the parts of
 * its path, as JSON. Credentials of this server stay here: security S32. Loop thread. */
#include "guest/server/commands_priv.h"
#include "lib/base/assert.h"
#include "lib/contract/contract.h"

#include "lib/base/banned.h"

/* ---- query and path ---- */

static void put_value(struct abx_json_writer *w, const struct abx__pair *pair, bool as_list)
{
    abx_json_key(w, pair->name);
    if (as_list)
        abx_json_begin_array(w);
    abx_json_str(w, pair->value);
    if (as_list)
        abx_json_end_array(w);
}

/* The two that open the socket of a terminal. */
static bool is_secret_parameter(struct abx_str name)
{
    return abx_str_is(name, "token") || abx_str_is(name, "ticket");
}

void abx__hand_over_query(struct abx_buf *out, const struct abx__call *c)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < c->query_count; i++)
        if (!is_secret_parameter(c->query[i].name))
            put_value(&w, &c->query[i], true);
    abx_json_end_object(&w);
}

void abx__hand_over_params(struct abx_buf *out, const struct abx__call *c)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < c->param_count; i++)
        put_value(&w, &c->params[i], false);
    abx_json_end_object(&w);
}

/* ---- headers ---- */

/* Whole headers; Authorization only where it named the caller: else it is the application's. */
static bool is_secret_header(const struct abx__call *c, struct abx_str name)
{
    if (abx_str_is_nocase(name, ABX_HEADER_ACCESS_TOKEN) || abx_str_is_nocase(name, "X-ABX-Token"))
        return true;
    return abx_str_is_nocase(name, "Authorization") && c->who.index != ABX_POLICY_ANONYMOUS;
}

/* Headers that are lists: items that begin so are left out. */
static const struct secret_item {
    const char *header, *prefix, *join;
    char sep;
} secret_items[] = {{"Cookie", "abx_", "; ", ';'},
                    {"Sec-WebSocket-Protocol", "abx.token.", ", ", ','}};

static bool has_secret_item(const struct secret_item *s, struct abx_str list)
{
    struct abx_str item;
    while (list.ptr && abx_str_split(&list, s->sep, &item))
        if (abx_str_starts(abx_str_trim(item), s->prefix))
            return true;
    return false;
}

static struct abx_str without_items(const struct secret_item *s, struct abx_str list,
                                    struct abx_arena *a)
{
    ABX_AUTO_BUF rest = {0};
    struct abx_str item;
    abx_buf_init(&rest, 2 * list.len + 2);
    while (list.ptr && abx_str_split(&list, s->sep, &item)) {
        item = abx_str_trim(item);
        if (item.len == 0 || abx_str_starts(item, s->prefix))
            continue;
        abx_buf_put_c(&rest, rest.len ? s->join : "");
        abx_buf_put_str(&rest, item);
    }
    return abx_buf_failed(&rest) ? (struct abx_str){0} : abx_arena_str(a, abx_buf_str(&rest));
}

/* What is left of a value; len 0: nothing, the header goes. One without secrets stays as it came.
 */
static struct abx_str without_secrets(const struct abx__call *c, const struct abx_http_header *h)
{
    for (size_t i = 0; i < ABX_COUNTOF(secret_items); i++)
        if (abx_str_is_nocase(h->name, secret_items[i].header) &&
            has_secret_item(&secret_items[i], h->value))
            return without_items(&secret_items[i], h->value, c->req->arena);
    return h->value;
}

static bool was_before(const struct abx_http_head *head, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (abx_str_eq_nocase(head->headers[i].name, head->headers[at].name))
            return true;
    return false;
}

void abx__hand_over_headers(struct abx_buf *out, const struct abx__call *c)
{
    const struct abx_http_head *head = c->req->head;
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < head->header_count; i++) {
        const struct abx_http_header *h = &head->headers[i];
        if (is_secret_header(c, h->name) || was_before(head, i))
            continue;
        struct abx_str value = without_secrets(c, h);
        if (value.len > 0 || h->value.len == 0)
            abx_json_kv_str(&w, abx_arena_c(c->req->arena, h->name), value);
    }
    abx_json_end_object(&w);
}
