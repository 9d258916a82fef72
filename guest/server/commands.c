/* guest/server/commands.c: the endpoints of commands. Loop thread. server-api.md 4.2. */
#include "guest/server/commands_priv.h"
#include "guest/server/mcp_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { LIST_BYTES = 16 << 20, AVAILABLE_BYTES = 700 };

/* ---- the endpoints ---- */

static bool is_seen(const struct abx__command *command, const struct abx__call *c)
{
    return !command->is_hidden && abx_scope_missing(c->who.scopes, command->scopes).ptr == NULL;
}

bool abx__command_visible_at(const struct abx__call *c, size_t index, struct abx__command_view *ret)
{
    const struct abx__commands *s = c->server->commands;
    for (size_t i = 0; s && i < s->command_count; i++) {
        const struct abx__command *command = &s->commands[i];
        if (!is_seen(command, c) || index-- > 0)
            continue;
        *ret = (struct abx__command_view){
            .name = command->name, .description = command->description, .args = command->args};
        return true;
    }
    return false;
}

static void list_get(struct abx__call *c)
{
    const struct abx__commands *s = c->server->commands;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("commands"));
    abx_json_begin_array(&w);
    for (size_t i = 0; s && i < s->command_count; i++) {
        const struct abx__command *command = &s->commands[i];
        if (!is_seen(command, c))
            continue;
        abx_json_begin_object(&w);
        abx_json_kv_str(&w, "name", command->name);
        abx_json_key(&w, ABX_STR("args"));
        if (command->args)
            abx_json_value(&w, command->args);
        else
            abx_json_raw(&w, ABX_STR("[]"));
        abx_json_kv_str(&w, "description", command->description);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static int compare_names(const void *a, const void *b)
{
    const struct abx_str *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->ptr, y->ptr, n);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void answer_unknown(struct abx__call *c, struct abx_str name)
{
    const struct abx__commands *s = c->server->commands;
    size_t n = 0, count = s ? s->command_count : 0;
    char text[AVAILABLE_BYTES];
    struct abx_buf b = {.ptr = text, .cap = sizeof(text), .max = sizeof(text) - 1};
    struct abx_str *names = abx_arena_array(c->req->arena, count + 1, sizeof(*names));
    for (size_t i = 0; names && i < count; i++)
        if (is_seen(&s->commands[i], c))
            names[n++] = s->commands[i].name;
    if (names)
        qsort(names, n, sizeof(*names), compare_names);
    text[0] = '\0';
    for (size_t i = 0; i < n && b.len + names[i].len + 8 < sizeof(text); i++)
        abx_buf_putf(&b, "%s%.*s", i ? ", " : "", ABX_STR_FMT(names[i]));
    abx__call_fail(c, 404, "ValueError", "Unknown command '%.*s'; available: %s",
                   (int)(name.len < 256 ? name.len : 256), name.ptr, text);
}

/* The name as it stands in the path, then decoded. */
static const struct abx__command *find(struct abx__call *c, struct abx_str *ret_name)
{
    ptrdiff_t slash = abx_str_rchr(c->path, '/');
    struct abx_str raw = abx_str_sub(c->path, (size_t)(slash + 1), c->path.len);
    const struct abx__command *command = abx__command_find(c->server->commands, raw);
    *ret_name = raw;
    return command ? command : abx__command_find(c->server->commands, abx__call_param(c, "name"));
}

static void run_post(struct abx__call *c)
{
    struct abx_str name;
    const struct abx__command *command = find(c, &name);
    if (command == NULL) {
        answer_unknown(c, name);
        return;
    }
    struct abx_str missing = abx_scope_missing(c->who.scopes, command->scopes);
    if (missing.ptr) {
        struct abx_policy_verdict v = {.endpoint = c->rule->id, .scope = missing};
        abx_policy_deny(&v, ABX_POLICY_MISSING_SCOPE, "Missing required scope '%.*s'",
                        (int)(missing.len < 128 ? missing.len : 128), missing.ptr);
        abx__call_deny(c, &v);
        return;
    }
    abx__command_call(c, command);
}

const struct abx__route abx__commands_routes[] = {
    {"list_commands", list_get}, {"run_command", run_post}, {0}};
