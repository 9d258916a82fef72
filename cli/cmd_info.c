/* cli/cmd_info.c: abx info ID: what the engine knows of a sandbox, isolation level included. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <jansson.h>

#include "lib/base/banned.h"

static const struct {
    int status;
    const char *id, *next;
} errors[] = {{404, "E2009", "abx list shows what is running"},
              {401, "E1001", "check the API key: eval \"$(abx env)\""},
              {0, "E9000", ""}};

/* What the engine answered instead: its sentence, not its JSON. */
static int fail_answer(struct cli *cli, int status, const char *body)
{
    json_t *doc = json_loads(body, 0, NULL);
    const char *message = json_string_value(json_object_get(doc, "message"));
    size_t i = 0;
    while (errors[i].status != 0 && errors[i].status != status)
        i++;
    cli->err = (struct abx_client_error){.http_status = status, .hop = "engine"};
    snprintf(cli->err.id, sizeof(cli->err.id), "%s", errors[i].id);
    snprintf(cli->err.message, sizeof(cli->err.message), "sandbox %s: %s", cli->args[0],
             message ? message : body);
    snprintf(cli->err.next, sizeof(cli->err.next), "%s", errors[i].next);
    json_decref(doc);
    return cli_fail(cli);
}

static int run(struct cli *cli)
{
    char path[160];
    int status;
    ABX_AUTO_FREE char *body = NULL;
    if (strspn(cli->args[0], "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(cli->args[0]))
        return cli_usage(&cmd_info, "'%s' is no sandbox id", cli->args[0]);
    snprintf(path, sizeof(path), "/sandboxes/%s", cli->args[0]);
    if (cli_client(cli) < 0 ||
        abx_client_request(cli->client, "GET", path, NULL, &status, &body, &cli->err) < 0)
        return cli_fail(cli);
    return status == 200 ? cli_print_json(cli, body) : fail_answer(cli, status, body);
}

const struct cli_command cmd_info = {.name = "info",
                                     .args = "ID",
                                     .help = "Show a sandbox, with the isolation level it has",
                                     .min_args = 1,
                                     .max_args = 1,
                                     .run = run};
