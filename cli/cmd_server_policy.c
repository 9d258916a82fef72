/* cli/cmd_server_policy.c: abx server policy: the policy in force at a server, and whether it is
 * that of a template's folder. */
#include "cli/project.h"
#include "cli/server.h"
#include "lib/base/fd.h"

#include <jansson.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void print_list(const char *title, const json_t *list)
{
    size_t i;
    json_t *item;
    printf("%-12s", title);
    json_array_foreach(list, i, item)
    {
        printf(" %s", json_is_string(item) ? json_string_value(item) : "");
    }
    puts("");
}

static void print_groups(const json_t *groups)
{
    const char *name;
    json_t *on;
    printf("%-12s", "groups");
    json_object_foreach((json_t *)(uintptr_t)groups, name, on)
    {
        if (json_is_true(on))
            printf(" %s", name);
    }
    puts("");
}

static void print_document(const struct cli_server *s, const json_t *doc)
{
    const json_t *policy = json_object_get(doc, "policy"), *who = json_object_get(doc, "identity");
    printf("%-12s %s\n", "preset", text_of(policy, "preset"));
    printf("%-12s %s\n", "revision", text_of(policy, "revision"));
    printf("%-12s %s%s%s%s\n", "identity", text_of(who, "id"), s->token_env ? " (" : "",
           s->token_env ? s->token_env : "", s->token_env ? ")" : "");
    print_list("scopes", json_object_get(who, "scopes"));
    print_groups(json_object_get(doc, "groups"));
    if (json_array_size(json_object_get(doc, "warnings")) > 0)
        print_list("warnings", json_object_get(doc, "warnings"));
}

/* Whether the folder's policy is the one in force. 0 or 1. */
static int compare(struct cli *cli, const char *dir, const char *revision)
{
    struct cli_project *p = calloc(1, sizeof(*p));
    struct abx_error err;
    int code = 1;
    if (p == NULL)
        return 1;
    if (cli_project_open(cli, dir, p, &err) < 0)
        code = cli_fail_base(&err);
    else if (p->t.revision[0] == '\0')
        fprintf(stderr, "abx: %s has no policy without faults; abx template lint %s\n", dir, dir);
    else {
        code = strcmp(p->t.revision, revision) == 0 ? 0 : 1;
        printf("%-12s %s: %s\n", "folder", dir,
               code == 0 ? "the same policy" : "another policy; abx template deploy");
    }
    cli_project_close(p);
    free(p);
    return code;
}

static int show(struct cli *cli, struct cli_server *s)
{
    ABX_AUTO_FREE char *body = NULL;
    if (abx_server_get(s->server, "/capabilities", &body, &cli->err) < 0)
        return cli_fail(cli);
    json_t *doc = json_loads(body, 0, NULL);
    int code = 0;
    if (cli->v.json) {
        char *text = json_dumps(json_object_get(doc, "policy"), JSON_ENCODE_ANY);
        puts(text ? text : "null");
        free(text);
    } else
        print_document(s, doc);
    if (cli->arg_count > 1)
        code = compare(cli, cli->args[1], text_of(json_object_get(doc, "policy"), "revision"));
    json_decref(doc);
    return code;
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

const struct cli_command cmd_server_policy = {
    .name = "server policy",
    .args = "ID [DIR]",
    .help = "Show the policy in force at a sandbox's server, and whether DIR has the same",
    .options = cli_server_options,
    .min_args = 1,
    .max_args = 2,
    .run = run,
};
