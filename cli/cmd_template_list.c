/* cli/cmd_template_list.c: abx template list, info, delete. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <jansson.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static const char *name_of(const json_t *row)
{
    const char *name = json_string_value(json_array_get(json_object_get(row, "names"), 0));
    if (name == NULL)
        name = json_string_value(json_array_get(json_object_get(row, "aliases"), 0));
    return name ? name : text_of(row, "templateID");
}

static int run_list(struct cli *cli)
{
    struct abx_json_limits limits = {.max_bytes = 16 << 20, .max_depth = 32};
    struct abx_error base;
    ABX_AUTO_FREE char *body = NULL;
    json_t *doc, *row;
    size_t i;
    if (cli_client(cli) < 0 || abx_template_list(cli->client, &body, &cli->err) < 0)
        return cli_fail(cli);
    if (cli->v.json) {
        puts(body);
        return 0;
    }
    if (abx_json_parse(abx_str(body), &limits, &doc, &base) < 0)
        return cli_fail_base(&base);
    if (json_array_size(doc) > 0 && !cli->v.quiet)
        printf("%-24s %-22s %-9s %s\n", "NAME", "ID", "BUILD", "UPDATED");
    json_array_foreach(doc, i, row)
    {
        if (cli->v.quiet)
            puts(name_of(row));
        else
            printf("%-24s %-22s %-9s %.24s\n", name_of(row), text_of(row, "templateID"),
                   text_of(row, "buildStatus"), text_of(row, "updatedAt"));
    }
    abx_json_free(doc);
    return 0;
}

const struct cli_command cmd_template_list = {.name = "template list",
                                              .args = "",
                                              .help = "List the templates (--quiet: names only)",
                                              .run = run_list};

/* The newest build that is ready, flat; the whole list is for --json. */
static int print_info(const struct cli *cli, const char *body)
{
    json_t *doc = json_loads(body, 0, NULL), *builds = json_object_get(doc, "builds"), *row;
    size_t i;
    json_t *newest = NULL;
    json_array_foreach(builds, i, row)
    {
        if (newest == NULL && strcmp(text_of(row, "status"), "ready") == 0)
            newest = row;
    }
    json_object_set_new(doc, "buildCount", json_integer((json_int_t)json_array_size(builds)));
    if (newest != NULL)
        json_object_update(doc, newest);
    json_object_del(doc, "builds");
    char *text = json_dumps(doc, JSON_ENCODE_ANY);
    int code = text ? cli_print_json(cli, text) : 1;
    free(text);
    json_decref(doc);
    return code;
}

static int run_info(struct cli *cli)
{
    ABX_AUTO_FREE char *body = NULL;
    if (cli_client(cli) < 0 || abx_template_get(cli->client, cli->args[0], &body, &cli->err) < 0)
        return cli_fail(cli);
    if (!cli->v.json)
        return print_info(cli, body);
    puts(body);
    return 0;
}

const struct cli_command cmd_template_info = {
    .name = "template info",
    .args = "NAME",
    .help = "Show a template: its base, commands, sizes and builds",
    .min_args = 1,
    .max_args = 1,
    .run = run_info};

static int run_delete(struct cli *cli)
{
    if (cli_client(cli) < 0 || abx_template_delete(cli->client, cli->args[0], &cli->err) < 0)
        return cli_fail(cli);
    if (!cli->v.quiet)
        fprintf(stderr, "abx: deleted %s\n", cli->args[0]);
    return 0;
}

const struct cli_command cmd_template_delete = {.name = "template delete",
                                                .args = "NAME",
                                                .help = "Delete a template and its builds",
                                                .min_args = 1,
                                                .max_args = 1,
                                                .run = run_delete};
