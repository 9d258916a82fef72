/* cli/cmd_env.c: abx env: the exports that make the E2B SDKs talk to this engine. */
#include "cli/cli.h"
#include "cli/client_home.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--format", 0, CLI_STR, CLI_VALUE(format), 0, "sh|fish|json", "how they are printed (sh)"},
    {"--save", 0, CLI_FLAG, CLI_VALUE(save), 0, NULL,
     "write them to ~/.abx/.env too, where the published client looks"},
    {0}};

enum source { URL, KEY, DOMAIN, TIMEOUT };
static const struct {
    const char *name;
    enum source from;
} exports[] = {
    {"E2B_API_URL", URL},           {"E2B_SANDBOX_URL", URL},
    {"E2B_VOLUME_API_URL", URL}, /* unset, a volume's token goes to a cloud */
    {"E2B_API_KEY", KEY},           {"E2B_DOMAIN", DOMAIN},
    {"ABX_SANDBOX_BASE_URL", URL},  {"ABX_SANDBOX_API_KEY", KEY},
    {"ABX_SANDBOX_DOMAIN", DOMAIN}, {"ABX_HTTP_TIMEOUT", TIMEOUT},
};

static const struct {
    const char *format, *line;
} formats[] = {{"sh", "export %s='%s'\n"}, {"fish", "set -gx %s '%s'\n"}, {"json", NULL}};

static int print_json(const char *const *values)
{
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 65536);
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < ABX_COUNTOF(exports); i++)
        abx_json_kv_c(&w, exports[i].name, values[exports[i].from]);
    abx_json_end_object(&w);
    puts(b.ptr);
    return 0;
}

static void print_line(const char *line, const char *name, const char *value)
{
    if (strcmp(line, formats[0].line) == 0)
        printf("export %s='%s'\n", name, value);
    else
        printf("set -gx %s '%s'\n", name, value);
}

static int save(const char *const *values)
{
    struct cli_export rows[ABX_COUNTOF(exports)];
    struct abx_error err;
    for (size_t i = 0; i < ABX_COUNTOF(exports); i++)
        rows[i] = (struct cli_export){exports[i].name, values[exports[i].from]};
    return cli_client_home_save(rows, ABX_COUNTOF(rows), &err) < 0 ? cli_fail_base(&err) : 0;
}

static int run(struct cli *cli)
{
    const char *format = cli->v.format ? cli->v.format : "sh", *line = NULL;
    bool known = false;
    for (size_t i = 0; i < ABX_COUNTOF(formats); i++)
        if (strcmp(formats[i].format, format) == 0) {
            known = true;
            line = formats[i].line;
        }
    if (!known)
        return cli_usage(&cmd_env, "--format is sh, fish or json, not '%s'", format);
    /* Not what the environment names: these lines are what it gets. */
    if (cli_engine_ensure(cli) < 0 ||
        (cli->v.url == NULL ? cli_local_client(cli) : cli_client(cli)) < 0)
        return cli_fail(cli);
    ABX_AUTO_FREE char *domain = cli->v.url == NULL ? cli_local_domain(cli) : NULL;
    const char *values[] = {[URL] = abx_client_url(cli->client),
                            [KEY] = abx_client_api_key(cli->client),
                            [DOMAIN] = domain ? domain : abx_client_domain(cli->client),
                            [TIMEOUT] = "60"};
    int code = cli->v.save ? save(values) : 0;
    if (code != 0)
        return code;
    if (line == NULL)
        return print_json(values);
    for (size_t i = 0; i < ABX_COUNTOF(exports); i++)
        print_line(line, exports[i].name, values[exports[i].from]);
    return 0;
}

const struct cli_command cmd_env = {.name = "env",
                                    .args = "",
                                    .help =
                                        "Print the exports for the E2B SDKs: eval \"$(abx env)\"",
                                    .options = options,
                                    .run = run};
