/* host/engine/page.c: pages of lists; the cursor is "MS.ID" in base64. Loop thread. */
#include "host/engine/page_priv.h"

#include "lib/base/parse.h"
#include "lib/wire/url.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { TOKEN_MAX = 256 };

bool abx__query_int(struct abx__call *c, const char *name, int64_t min, int64_t max, int64_t *ret)
{
    struct abx_str text;
    int64_t v;
    int found = abx_url_query_get(c->req->query, name, c->req->arena, &text);
    if (found == 0)
        return true;
    if (found < 0 || abx_parse_i64(text, &v) < 0 || v < min || v > max) {
        abx__api_fail(c, 400, "validation error: %s: a number from %" PRId64 " to %" PRId64, name,
                      min, max);
        return false;
    }
    *ret = v;
    return true;
}

static bool read_token(struct abx__call *c, struct abx_str text, struct abx__cursor *ret)
{
    ABX_AUTO_BUF b = {.max = TOKEN_MAX};
    struct abx_str rest, ms;
    if (abx_base64_decode(text, &b) == 0) {
        rest = abx_buf_str(&b);
        if (abx_str_split(&rest, '.', &ms) && abx_parse_i64(ms, &ret->page.before_ms) == 0) {
            ret->page.after_id = abx_arena_str(c->req->arena, rest);
            return true;
        }
    }
    abx__api_fail(c, 400, "validation error: nextToken: not one that this engine gave");
    return false;
}

bool abx__cursor_read(struct abx__call *c, uint32_t max, struct abx__cursor *ret)
{
    struct abx_str token;
    int64_t limit = max;
    *ret = (struct abx__cursor){.page = {INT64_MAX, ABX_STR(""), 0}};
    if (!abx__query_int(c, "limit", 1, max, &limit))
        return false;
    ret->page.limit = (uint32_t)limit + 1;
    int found = abx_url_query_get(c->req->query, "nextToken", c->req->arena, &token);
    return found == 0 || (found > 0 && token.len == 0) ||
           read_token(c, found < 0 ? ABX_STR("?") : token, ret);
}

bool abx__cursor_take(struct abx__cursor *p, int64_t created_ms, const char *id)
{
    if (p->taken == p->page.limit - 1) {
        p->has_more = true;
        return false;
    }
    p->taken++;
    p->last_ms = created_ms;
    snprintf(p->last_id, sizeof(p->last_id), "%s", id);
    return true;
}

void abx__cursor_answer(struct abx__call *c, const struct abx__cursor *p,
                        const struct abx_buf *json)
{
    ABX_AUTO_BUF token = {.max = TOKEN_MAX};
    char text[96];
    struct abx_http_extra extra[2] = {{0}, {0}};
    if (p->has_more) {
        int n = snprintf(text, sizeof(text), "%" PRId64 ".%s", p->last_ms, p->last_id);
        abx_base64_encode(text, (size_t)n, false, &token);
        extra[0] = (struct abx_http_extra){"X-Next-Token", abx_buf_str(&token)};
    }
    abx__api_answer_buf(c, 200, json, p->has_more ? extra : NULL);
}
