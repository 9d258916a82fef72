/* cli/server.c: a sandbox's server and the token for it. */
#include "cli/server.h"
#include "lib/base/fd.h"

#include <jansson.h>

#include "lib/base/banned.h"

const struct cli_option cli_server_options[] = {
    {"--port", 'p', CLI_COUNT, CLI_VALUE(port), 0, "PORT", "of the server (9000)"},
    {"--token", 0, CLI_STR, CLI_VALUE(token), 0, "TOKEN", "the server's; '' sends none"},
    {"--token-env", 0, CLI_STR, CLI_VALUE(token_env), 0, "NAME",
     "the token that the engine made for this variable of the policy (the first one)"},
    {0}};

/* The engine's tokens as an object; NULL when it made none or is no engine of ours. */
static int read_tokens(struct cli *cli, const char *id, json_t **ret)
{
    char path[160];
    int status;
    ABX_AUTO_FREE char *body = NULL;
    snprintf(path, sizeof(path), "/abx/v1/sandboxes/%.100s/server-tokens", id);
    *ret = NULL;
    if (abx_client_request(cli->client, "GET", path, NULL, &status, &body, &cli->err) < 0)
        return -1;
    json_t *doc = status == 200 ? json_loads(body, 0, NULL) : NULL;
    *ret = json_incref(json_object_get(doc, "tokens"));
    json_decref(doc);
    return 0;
}

static int pick(struct cli *cli, json_t *tokens, char **ret_env, char **ret_token)
{
    const char *name;
    json_t *value;
    json_object_foreach(tokens, name, value)
    {
        if (cli->v.token_env && strcmp(cli->v.token_env, name) != 0)
            continue;
        *ret_env = abx_str_dup(abx_str(name));
        *ret_token = abx_str_dup(abx_str(json_string_value(value)));
        return 0;
    }
    if (cli->v.token_env == NULL)
        return 0;
    fprintf(stderr, "abx: the engine made no token for %s in this sandbox\n", cli->v.token_env);
    fputs("     next: whoever set the variable at its creation has it: --token\n", stderr);
    return 4;
}

static int choose_token(struct cli *cli, const char *id, char **ret_env, char **ret_token)
{
    json_t *tokens = NULL;
    if (cli->v.token != NULL) {
        *ret_token = cli->v.token[0] ? abx_str_dup(abx_str(cli->v.token)) : NULL;
        return 0;
    }
    if (read_tokens(cli, id, &tokens) < 0)
        return cli_fail(cli);
    int code = pick(cli, tokens, ret_env, ret_token);
    json_decref(tokens);
    return code;
}

int cli_server_open(struct cli *cli, const char *id, struct cli_server *s)
{
    ABX_AUTO_FREE char *token = NULL;
    *s = (struct cli_server){0};
    if (cli->v.port > 65535) {
        fprintf(stderr, "abx: --port: %u is no port\n", cli->v.port);
        return 2;
    }
    if (cli_client(cli) < 0 || abx_sandbox_connect(cli->client, id, 1, &s->sb, &cli->err) < 0)
        return cli_fail(cli);
    int code = choose_token(cli, id, &s->token_env, &token);
    if (code != 0)
        return code;
    if (abx_sandbox_server_at(s->sb, (uint16_t)cli->v.port, token, &s->server, &cli->err) < 0)
        return cli_fail(cli);
    return 0;
}

void cli_server_close(struct cli_server *s)
{
    abx_server_close(s->server);
    abx_sandbox_free(s->sb);
    free(s->token_env);
    *s = (struct cli_server){0};
}
