/* cli/cmd_server_call.c: abx server call ID NAME k=v k:=json: one named command. */
#include "cli/server.h"
#include "lib/base/fd.h"

#include <jansson.h>

#include "lib/base/banned.h"

/* "k=v" is the string v, "k:=v" the JSON v. */
static int add_argument(json_t *arguments, char *word)
{
    char *equals = strchr(word, '=');
    if (equals == NULL || equals == word)
        return cli_usage(&cmd_server_call, "'%s' is neither k=v nor k:=json", word);
    bool is_json = equals[-1] == ':';
    equals[is_json ? -1 : 0] = '\0';
    if (word[0] == '\0' || json_object_get(arguments, word) != NULL)
        return cli_usage(&cmd_server_call, "argument '%s': %s", word,
                         word[0] ? "it is there twice" : "no name");
    json_t *value = is_json ? json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL)
                            : json_string(equals + 1);
    if (value == NULL)
        return cli_usage(&cmd_server_call, "argument %s: %s", word,
                         is_json ? "no JSON" : "not UTF-8");
    return json_object_set_new(arguments, word, value) < 0 ? 1 : 0;
}

static int collect(struct cli *cli, char **ret_json)
{
    json_t *arguments = json_object();
    int code = arguments ? 0 : 1;
    for (char **word = cli->rest; code == 0 && word && *word; word++)
        code = add_argument(arguments, *word);
    if (code == 0 && (*ret_json = json_dumps(arguments, JSON_COMPACT | JSON_ENCODE_ANY)) == NULL)
        code = 1;
    json_decref(arguments);
    return code;
}

/* Strings bare, anything else as JSON. */
static void print_result(const struct cli *cli, const char *json)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!cli->v.json && json_is_string(value)) {
        fwrite(json_string_value(value), 1, json_string_length(value), stdout);
        fputc('\n', stdout);
    } else
        puts(json);
    json_decref(value);
}

static int run(struct cli *cli)
{
    struct cli_server s;
    ABX_AUTO_FREE char *arguments = NULL;
    ABX_AUTO_FREE char *result = NULL;
    int code = collect(cli, &arguments);
    if (code != 0)
        return code;
    code = cli_server_open(cli, cli->args[0], &s);
    if (code == 0 && abx_server_run(s.server, cli->args[1], arguments, &result, &cli->err) < 0)
        code = cli_fail(cli);
    if (code == 0)
        print_result(cli, result);
    cli_server_close(&s);
    return code;
}

const struct cli_command cmd_server_call = {
    .name = "server call",
    .args = "ID NAME [k=v | k:=JSON]...",
    .help = "Run a named command of a sandbox's server; options stand before NAME",
    .options = cli_server_options,
    .min_args = 2,
    .max_args = 2,
    .takes_rest = true,
    .run = run,
};
