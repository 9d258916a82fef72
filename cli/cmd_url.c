/* cli/cmd_url.c: abx url ID PORT: where a port of a sandbox answers. */
#include "cli/cli.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--form", 0, CLI_STR, CLI_VALUE(form), 0, "host|path",
     "path (default) needs no name to resolve; host is what the clouds have"},
    {0}};

static int run(struct cli *cli)
{
    uint32_t port;
    const char *form = cli->v.form ? cli->v.form : "path";
    bool is_host = strcmp(form, "host") == 0;
    if (abx_parse_u32(abx_str(cli->args[1]), &port) < 0 || port < 1 || port > 65535)
        return cli_usage(&cmd_url, "'%s' is no port", cli->args[1]);
    if (!is_host && strcmp(form, "path") != 0)
        return cli_usage(&cmd_url, "--form is host or path, not '%s'", form);
    struct abx_sandbox *sb;
    if (cli_client(cli) < 0 ||
        abx_sandbox_connect(cli->client, cli->args[0], 1, &sb, &cli->err) < 0)
        return cli_fail(cli);
    ABX_AUTO_FREE char *url = NULL;
    int r =
        abx_sandbox_url(sb, (uint16_t)port, is_host ? ABX_URL_HOST : ABX_URL_PATH, &url, &cli->err);
    abx_sandbox_free(sb);
    if (r < 0)
        return cli_fail(cli);
    puts(url);
    return 0;
}

const struct cli_command cmd_url = {.name = "url",
                                    .args = "ID PORT",
                                    .help = "Print the URL of a port in a sandbox",
                                    .options = options,
                                    .min_args = 2,
                                    .max_args = 2,
                                    .run = run};
