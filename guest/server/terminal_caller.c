/* guest/server/terminal_caller.c: who opens the socket of a terminal: headers as everywhere; for
 * browsers, which can send none, a token as subprotocol or in the query, or a ticket that holds no
 * token at all. POST /pty/ticket. D13, D82, security S12, S16. */
#include "guest/server/terminals.h"
#include "guest/server/terminals_priv.h"

#include "lib/base/time.h"
#include "lib/contract/contract.h"

#include <errno.h>

#include "lib/base/banned.h"

enum { VALUES_MAX = 16, ANSWER_BYTES = 4096 };
#define TOKEN_PREFIX "abx.token."

/* ---- by token ---- */

static size_t header_values(const struct abx__call *c, const char *name,
                            struct abx_str out[VALUES_MAX])
{
    const struct abx_http_head *head = c->req->head;
    size_t n = 0;
    for (size_t i = 0; i < head->header_count && n < VALUES_MAX; i++)
        if (abx_str_is_nocase(head->headers[i].name, name) && head->headers[i].value.len)
            out[n++] = head->headers[i].value;
    return n;
}

bool abx__terminal_next_protocol(struct abx_str *rest, struct abx_str *ret)
{
    if (rest->ptr == NULL || !abx_str_split(rest, ',', ret))
        return false;
    *ret = abx_str_trim(*ret);
    return true;
}

static struct abx_str token_elsewhere(const struct abx__call *c)
{
    struct abx_str rest = abx_http_header(c->req->head, "Sec-WebSocket-Protocol"), one;
    struct abx_str token = abx__call_query(c, "token");
    while (abx__terminal_next_protocol(&rest, &one))
        if (abx_str_starts(one, TOKEN_PREFIX) && token.ptr == NULL)
            token = abx_str_sub(one, strlen(TOKEN_PREFIX), one.len);
    return token;
}

/* "Bearer TOKEN"; not printed, for a printf leaves copies on the stack. ptr NULL: no memory. */
static struct abx_str as_bearer(struct abx_arena *a, struct abx_str token)
{
    static const struct abx_str scheme = {"Bearer ", 7};
    char *text = abx_arena_alloc(a, scheme.len + token.len);
    if (text == NULL)
        return (struct abx_str){0};
    memcpy(text, scheme.ptr, scheme.len);
    memcpy(text + scheme.len, token.ptr, token.len);
    return abx_str_n(text, scheme.len + token.len);
}

static void wipe(struct abx_str s)
{
    if (s.ptr)
        explicit_bzero((char *)(uintptr_t)s.ptr, s.len);
}

static bool identify_by_token(struct abx__call *c, struct abx_policy_verdict *v)
{
    struct abx_str authorization[VALUES_MAX], access_token[VALUES_MAX];
    struct abx_policy_credentials given = {.authorization = authorization,
                                           .access_token = access_token};
    given.authorization_count = header_values(c, "Authorization", authorization);
    given.access_token_count = header_values(c, ABX_HEADER_ACCESS_TOKEN, access_token);
    struct abx_str token = token_elsewhere(c), bearer = {0};
    if (given.authorization_count + given.access_token_count == 0 && token.len)
        bearer = as_bearer(c->req->arena, token);
    if (bearer.ptr)
        authorization[given.authorization_count++] = bearer;
    bool is_known = abx_policy_identify(c->policy, c->rule, &given, &c->who, v);
    wipe(bearer);
    return is_known;
}

/* ---- by ticket ---- */

static struct abx_str ticket_of(const struct abx__call *c)
{
    return abx__call_query(c, "ticket");
}

bool abx__terminal_has_ticket(const struct abx__call *c)
{
    return ticket_of(c).len > 0;
}

/* A session that has ended has no tickets: what it said last is for those who have a token. */
static bool redeem(struct abx__call *c, struct abx_policy_identity *ret)
{
    struct abx__ticket_bond bond = {.policy = c->policy,
                                    .session = abx__call_query(c, "session_id")};
    if (!abx__tickets_redeem(&c->server->tickets, ticket_of(c), c->began_ms, &bond))
        return false;
    const struct abx__terminal *t = abx__terminal_find(c->server, bond.session, &bond.who);
    *ret = bond.who;
    return t && abx__terminal_is_alive(t);
}

/* The ticket alone says who calls: a token beside it that is nobody's (of a gateway, say) is as if
 * absent. One of somebody else says that the ticket was taken from who holds it (S12). */
static bool identify_by_ticket(struct abx__call *c, struct abx_policy_verdict *v)
{
    struct abx_policy_identity holder;
    bool is_good = redeem(c, &holder);
    bool is_named = identify_by_token(c, v);
    if (v->code == ABX_POLICY_AMBIGUOUS_CREDENTIALS)
        return false;
    if (is_good && is_named && c->who.index != ABX_POLICY_ANONYMOUS)
        is_good = c->who.index == holder.index;
    if (!is_good)
        return abx_policy_deny(v, ABX_POLICY_UNAUTHORIZED,
                               "The ticket is not good: each opens one socket of the session that "
                               "it was made for, once, within %d seconds",
                               ABX__TICKET_LIFE_MS / 1000);
    *v = (struct abx_policy_verdict){0};
    c->who = holder;
    return true;
}

/* The copies that the query was decoded to; the head is wiped when its request is over (S15). */
static void wipe_query(struct abx__call *c)
{
    for (size_t i = 0; i < c->query_count; i++)
        if (abx_str_is(c->query[i].name, "token") || abx_str_is(c->query[i].name, "ticket"))
            wipe(c->query[i].value);
}

bool abx__terminal_identify(struct abx__call *c, struct abx_policy_verdict *v)
{
    bool is_known =
        abx__terminal_has_ticket(c) ? identify_by_ticket(c, v) : identify_by_token(c, v);
    wipe_query(c);
    return is_known;
}

/* ---- POST /pty/ticket ---- */

static void answer_ticket(struct abx__call *c, const struct abx__terminal *t, const char *ticket)
{
    static const struct abx_http_extra extra[] = {{"Cache-Control", {"no-store", 8}}, {0}};
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "ticket", ticket);
    abx_json_kv_c(&w, "session_id", t->id);
    abx_json_kv_i64(&w, "expires_in", ABX__TICKET_LIFE_MS / 1000);
    abx_json_end_object(&w);
    if (abx_buf_failed(&body))
        abx__call_fail(c, 500, "MemoryError", "out of memory");
    else
        abx__call_answer_status(c, 200, extra, abx_buf_str(&body));
    if (body.ptr)
        explicit_bzero(body.ptr, body.len);
}

static void refuse_more(struct abx__call *c, int why)
{
    struct abx_policy_verdict v = {.endpoint = c->rule->id,
                                   .retry_after_s = ABX__TICKET_LIFE_MS / 1000};
    abx_policy_deny(&v, ABX_POLICY_CONCURRENCY_LIMITED,
                    why == -EDQUOT ? "%d tickets of this caller are not used yet"
                                   : "%d tickets of all callers are not used yet",
                    why == -EDQUOT ? (int)ABX__TICKETS_OF_ONE : (int)ABX__TICKETS_ALL);
    abx__call_deny(c, &v);
}

void abx__terminal_ticket_post(struct abx__call *c)
{
    struct abx_str id;
    char ticket[ABX__TICKET_TEXT + 1];
    struct abx__ticket_bond bond = {c->policy, c->who, {0}};
    if (!abx__call_string(c, "session_id", &id))
        return;
    const struct abx__terminal *t = abx__terminal_find(c->server, id, &c->who);
    if (t == NULL || !abx__terminal_is_alive(t)) {
        abx__call_fail(c, 404, "ValueError",
                       t ? "the terminal has ended" : "there is no such terminal session");
        return;
    }
    bond.session = abx_str(t->id);
    int r = abx__tickets_issue(&c->server->tickets, &bond, abx_time_mono_ms(), ticket);
    if (r == 0)
        answer_ticket(c, t, ticket);
    else if (r == -EDQUOT || r == -ENOSPC)
        refuse_more(c, r);
    else
        abx__call_fail_errno(c, -r, "a ticket");
    explicit_bzero(ticket, sizeof(ticket));
}
