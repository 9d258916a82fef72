/* client/error.c: the published error identifiers, from HTTP answers and transport failures. */
#include "client/client_priv.h"
#include "lib/base/assert.h"
#include "lib/json/json.h"

#include <stdio.h>

#include "lib/base/banned.h"

static const struct {
    const char *id;
    int exit;
} exits[] = {
    {"E1001", 3}, {"E1002", 3}, {"E1003", 3}, {"E9001", 3}, {"E2001", 4}, {"E2002", 6},
    {"E2009", 4}, {"E2000", 1}, {"E3001", 5}, {"E3005", 4}, {"E3006", 1}, {"E4000", 1},
    {"E4001", 4}, {"E4002", 1}, {"E4003", 1}, {"E5001", 1}, {"E8002", 2}, {"E8004", 1},
};

int abx_client_error_exit(const struct abx_client_error *err)
{
    for (size_t i = 0; i < ABX_COUNTOF(exits); i++)
        if (strcmp(exits[i].id, err->id) == 0)
            return exits[i].exit;
    return 1;
}

int abx__client_fail(struct abx_client_error *err, const char *id, const char *hop, const char *fmt,
                     ...)
{
    *err = (struct abx_client_error){0};
    snprintf(err->id, sizeof(err->id), "%s", id);
    snprintf(err->hop, sizeof(err->hop), "%s", hop);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->message, sizeof(err->message), fmt, ap);
    va_end(ap);
    return -1;
}

int abx__client_fail_memory(struct abx_client_error *err)
{
    return abx__client_fail(err, "E9000", "client", "out of memory");
}

void abx__client_next(struct abx_client_error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->next, sizeof(err->next), fmt, ap);
    va_end(ap);
}

int abx__client_fail_base(struct abx_client_error *err, const char *id, const char *hop,
                          const struct abx_error *base)
{
    return abx__client_fail(err, id, hop, "%s", base->msg);
}

struct error_body {
    struct abx_str message;
};
static const struct abx_json_field error_fields[] = {
    {"message", ABX_JSON_STR, offsetof(struct error_body, message), 0}, {0}};

/* Which identifier an HTTP status stands for, per hop. */
static const struct {
    const char *hop;
    int status;
    const char *id;
    const char *next;
} statuses[] = {
    {"engine", 401, "E1001", "check the API key: eval \"$(abx env)\""},
    {"engine", 404, "E2009", "abx list shows what is running"},
    {"engine", 429, "E2002", "kill a sandbox, or wait"},
    {"engine", 501, "E8004", ""},
    {"envd", 401, "E1002", "connect to the sandbox again"},
    {"envd", 404, "E4001", ""},
    {"envd", 403, "E4002", ""},
    {"envd", 507, "E4000", "free space in the sandbox"},
    {"envd", 501, "E8004", ""},
    {"envd", 502, "E2009", "abx list shows what is running"},
};

int abx__client_fail_answer(struct abx_client_error *err, const char *hop, const char *subject,
                            int status, struct abx_str text)
{
    struct abx_arena arena;
    abx_arena_init(&arena, 1 << 20);
    struct error_body body = {0};
    if (abx_json_decode_text(text, true, error_fields, &body, &arena, NULL) < 0 ||
        body.message.len == 0)
        body.message = abx_str_sub(text, 0, 300);
    const char *id = strcmp(hop, "envd") == 0 ? "E3006" : "E9000", *next = "";
    for (size_t i = 0; i < ABX_COUNTOF(statuses); i++)
        if (statuses[i].status == status && strcmp(statuses[i].hop, hop) == 0) {
            id = statuses[i].id;
            next = statuses[i].next;
        }
    if (body.message.len == 0)
        abx__client_fail(err, id, hop, "%s: HTTP status %d", subject, status);
    else
        abx__client_fail(err, id, hop, "%s: %.*s", subject, ABX_STR_FMT(body.message));
    err->http_status = status;
    abx__client_next(err, "%s", next);
    abx_arena_done(&arena);
    return -1;
}
