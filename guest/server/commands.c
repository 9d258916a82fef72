/* guest/server/commands.c: commands of user code. No host is built: a server without --commands has
 * none, which is what it says; --commands ends the start. server-api.md 4.2. */
#include "guest/server/server_priv.h"

#include "lib/base/banned.h"

int abx__commands_start(struct abx__server *s, abx__commands_ready_fn *ready, struct abx_error *err)
{
    if (s->o.commands.count > 0)
        return abx_err_set(err, ABX_UNIMPLEMENTED,
                           "--commands %s: command hosts are not built yet; start without it",
                           s->o.commands.items[0]);
    ready(s, 0, NULL);
    return 0;
}

void abx__commands_stop(struct abx__server *s)
{
    (void)s;
}

size_t abx__commands_count(const struct abx__server *s)
{
    (void)s;
    return 0;
}

static void list_get(struct abx__call *c)
{
    abx__call_answer_status(c, 200, NULL, ABX_STR("{\"commands\": []}"));
}

static void run_post(struct abx__call *c)
{
    struct abx_str name = abx__call_param(c, "name");
    abx__call_fail(c, 404, "ValueError", "unknown command '%.*s'; there are none",
                   (int)(name.len < 128 ? name.len : 128), name.ptr);
}

const struct abx__route abx__commands_routes[] = {
    {"list_commands", list_get}, {"run_command", run_post}, {0}};
