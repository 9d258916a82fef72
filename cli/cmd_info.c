/* cli/cmd_info.c: abx info ID: what the engine knows of a sandbox, isolation level included. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <jansson.h>

#include "lib/base/banned.h"

/* "network.rules: x" per line: the answer's keys are the API's, whatever it grows. */
static void print_value(const char *prefix, const char *key, json_t *value)
{
    char name[256];
    snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] ? "." : "", key);
    const char *sub;
    json_t *item;
    if (json_is_object(value)) {
        json_object_foreach(value, sub, item) print_value(name, sub, item);
        return;
    }
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 1 << 20);
    abx_json_writer_init(&w, &b);
    abx_json_value(&w, value);
    if (json_is_string(value))
        printf("%-24s %s\n", name, json_string_value(value));
    else
        printf("%-24s %s\n", name, b.ptr);
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
    if (status != 200) {
        cli->err = (struct abx_client_error){.http_status = status, .hop = "engine"};
        snprintf(cli->err.id, sizeof(cli->err.id), "%s",
                 status == 404   ? "E2009"
                 : status == 401 ? "E1001"
                                 : "E9000");
        snprintf(cli->err.message, sizeof(cli->err.message), "sandbox %s: %s", cli->args[0], body);
        return cli_fail(cli);
    }
    struct abx_error base;
    json_t *doc;
    if (cli->v.json)
        puts(body);
    else if (abx_json_parse(abx_str(body), NULL, &doc, &base) < 0)
        return cli_fail_base(&base);
    else {
        const char *key;
        json_t *value;
        json_object_foreach(doc, key, value) print_value("", key, value);
        abx_json_free(doc);
    }
    return 0;
}

const struct cli_command cmd_info = {.name = "info",
                                     .args = "ID",
                                     .help = "Show a sandbox, with the isolation level it has",
                                     .min_args = 1,
                                     .max_args = 1,
                                     .run = run};
