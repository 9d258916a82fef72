/* cli/cmd_server_routes.c: abx server routes: what the caller's token may ask of a server. */
#include "cli/server.h"
#include "lib/base/fd.h"

#include <jansson.h>

#include "lib/base/banned.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? cli_plain((char *)(uintptr_t)text) : ""; /* the document is ours */
}

static void print_endpoints(const struct cli *cli, const json_t *endpoints)
{
    const char *id;
    json_t *e;
    if (!cli->v.quiet)
        printf("%-24s %-7s %-30s %s\n", "ENDPOINT", "METHOD", "PATH", "");
    json_object_foreach((json_t *)(uintptr_t)endpoints, id, e)
    {
        char name[256];
        bool is_allowed = json_is_true(json_object_get(e, "allowed"));
        if (!is_allowed && !cli->v.all)
            continue;
        snprintf(name, sizeof(name), "%s", id);
        if (cli->v.quiet)
            puts(cli_plain(name));
        else
            printf("%-24s %-7s %-30s %s\n", cli_plain(name), text_of(e, "method"),
                   text_of(e, "path"), is_allowed ? "" : text_of(e, "reason"));
    }
}

static void print_commands(const struct cli *cli, const json_t *doc)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(doc, "commands"), i, row)
    {
        if (!cli->v.quiet)
            printf("%-24s %-7s %-30s %s\n", text_of(row, "name"), "command", "",
                   text_of(row, "description"));
    }
}

/* The commands, where the token may list them. */
static int show_commands(struct cli *cli, struct cli_server *s)
{
    ABX_AUTO_FREE char *body = NULL;
    if (abx_server_get(s->server, "/commands", &body, &cli->err) < 0)
        return strcmp(cli->err.id, "E9002") == 0 || strcmp(cli->err.id, "E9003") == 0
                   ? 0
                   : cli_fail(cli);
    json_t *doc = json_loads(body, 0, NULL);
    print_commands(cli, doc);
    json_decref(doc);
    return 0;
}

static int show(struct cli *cli, struct cli_server *s)
{
    ABX_AUTO_FREE char *body = NULL;
    if (abx_server_get(s->server, "/capabilities", &body, &cli->err) < 0)
        return cli_fail(cli);
    if (cli->v.json) {
        puts(body);
        return 0;
    }
    json_t *doc = json_loads(body, 0, NULL);
    print_endpoints(cli, json_object_get(doc, "endpoints"));
    json_decref(doc);
    return show_commands(cli, s);
}

static int run(struct cli *cli)
{
    struct cli_server s;
    int code = cli_server_open(cli, cli->args[0], &s);
    if (code == 0)
        code = show(cli, &s);
    cli_server_close(&s);
    return code;
}

static const struct cli_option options[] = {
    {"--port", 'p', CLI_COUNT, CLI_VALUE(port), 0, "PORT", "of the server (9000)"},
    {"--token", 0, CLI_STR, CLI_VALUE(token), 0, "TOKEN", "the server's; '' sends none"},
    {"--token-env", 0, CLI_STR, CLI_VALUE(token_env), 0, "NAME",
     "the token that the engine made for this variable of the policy (the first one)"},
    {"--all", 'a', CLI_FLAG, CLI_VALUE(all), 0, NULL, "those that it may not, too"},
    {0}};

const struct cli_command cmd_server_routes = {
    .name = "server routes",
    .args = "ID",
    .help = "List the endpoints and commands of a sandbox's server that a token may use",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
