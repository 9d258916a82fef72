/* cli/parse.c: the command line by tables: commands, options, help. */
#include "lib/base/parse.h"
#include "cli/cli.h"
#include "lib/base/assert.h"
#include "lib/contract/contract.h"

#include "lib/base/banned.h"

const struct cli_option cli_global_options[] = {
    {"--json", 0, CLI_FLAG, CLI_VALUE(json), 0, NULL, "results as JSON"},
    {"--quiet", 'q', CLI_FLAG, CLI_VALUE(quiet), 0, NULL, "no notices on stderr"},
    {"--verbose", 'v', CLI_FLAG, CLI_VALUE(verbose), 0, NULL, "more on stderr"},
    {"--url", 0, CLI_STR, CLI_VALUE(url), 0, "URL",
     "the platform's API instead of the local engine"},
    {"--api-key", 0, CLI_STR, CLI_VALUE(api_key), 0, "KEY", "its key"},
    {"--state", 0, CLI_STR, CLI_VALUE(state), 0, "DIR", "state folder of the local engine"},
    {"--help", 'h', CLI_FLAG, CLI_VALUE(help), 0, NULL, "this text"},
    {"--version", 0, CLI_FLAG, CLI_VALUE(is_version), 0, NULL, "the version"},
    {"--man", 0, CLI_FLAG, CLI_VALUE(man), 0, NULL, "the man page"},
    {0}};

const struct cli_command *const cli_commands[] = {&cmd_up,
                                                  &cmd_down,
                                                  &cmd_env,
                                                  &cmd_create,
                                                  &cmd_list,
                                                  &cmd_info,
                                                  &cmd_exec,
                                                  &cmd_kill,
                                                  &cmd_cp,
                                                  &cmd_url,
                                                  &cmd_template_init,
                                                  &cmd_template_lint,
                                                  &cmd_template_build,
                                                  &cmd_template_deploy,
                                                  &cmd_template_list,
                                                  &cmd_template_info,
                                                  &cmd_template_delete,
                                                  &cmd_template_export,
                                                  &cmd_image_build,
                                                  &cmd_image_list,
                                                  &cmd_image_import,
                                                  &cmd_image_export,
                                                  &cmd_server_start,
                                                  &cmd_server_call,
                                                  &cmd_server_routes,
                                                  &cmd_server_policy,
                                                  &cmd_provider_serve,
                                                  &cmd_status,
                                                  &cmd_doctor,
                                                  &cmd_gc,
                                                  &cmd_version,
                                                  NULL};

/* Other names of commands: "abx ls", and the noun-verb forms ("abx sandbox create"). */
static const struct {
    const char *other, *name;
} aliases[] = {{"ls", "list"}};

static const struct cli_option *find_option(const struct cli_option *table, const char *word,
                                            size_t len)
{
    for (; table && table->name; table++) {
        bool is_long = strlen(table->name) == len && strncmp(table->name, word, len) == 0;
        bool is_short = len == 2 && word[0] == '-' && word[1] == table->letter && table->letter;
        if (is_long || is_short)
            return table;
    }
    return NULL;
}

static int set_pair(struct cli_values *v, const struct cli_option *o, char *value)
{
    struct abx_pair *pairs = (struct abx_pair *)(void *)((char *)v + o->offset);
    size_t *count = (size_t *)(void *)((char *)v + o->count_offset);
    char *equals = strchr(value, '=');
    if (equals == NULL || equals == value || *count >= CLI_PAIRS_MAX)
        return -1;
    *equals = '\0';
    pairs[(*count)++] = (struct abx_pair){value, equals + 1};
    return 0;
}

static int set_value(struct cli_values *v, const struct cli_option *o, char *value)
{
    void *at = (char *)v + o->offset;
    switch (o->type) {
    case CLI_FLAG:
        *(bool *)at = true;
        return 0;
    case CLI_STR:
        *(const char **)at = value;
        return 0;
    case CLI_U32:
        return abx_parse_u32(abx_str(value), at);
    case CLI_COUNT:
        return abx_parse_u32(abx_str(value), at) < 0 || *(uint32_t *)at == 0 ? -1 : 0;
    case CLI_I64:
        return abx_parse_i64(abx_str(value), at);
    case CLI_PAIR:
        return set_pair(v, o, value);
    }
    return -1;
}

/* Takes one option (and its value) at argv[*i]. */
static int take_option(const struct cli_command *cmd, char **argv, int *i, struct cli_values *v)
{
    char *word = argv[*i], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const struct cli_option *o = find_option(cmd ? cmd->options : NULL, word, len);
    if (o == NULL)
        o = find_option(cli_global_options, word, len);
    if (o == NULL)
        return cli_usage(cmd, "no option %.*s", (int)len, word);
    char *value = equals ? equals + 1 : NULL;
    if (o->type == CLI_FLAG && value != NULL)
        return cli_usage(cmd, "%s takes no value", o->name);
    if (o->type != CLI_FLAG && value == NULL && (value = argv[++*i]) == NULL)
        return cli_usage(cmd, "%s needs %s", o->name, o->value);
    if (set_value(v, o, value) < 0)
        return cli_usage(cmd, "%s: '%s' is no %s", o->name, value, o->value);
    return 0;
}

static bool name_matches(const char *name, char **words, int count, int *ret_used)
{
    struct abx_str rest = abx_str(name), part;
    int used = 0;
    while (abx_str_split(&rest, ' ', &part)) {
        if (used >= count || !abx_str_is(part, words[used]))
            return false;
        used++;
    }
    *ret_used = used;
    return true;
}

static const struct cli_command *find_command(char **words, int count, int *ret_used)
{
    int skipped = count > 0 && strcmp(words[0], "sandbox") == 0;
    for (size_t i = 0; i < ABX_COUNTOF(aliases); i++)
        if (count > skipped && strcmp(words[skipped], aliases[i].other) == 0)
            words[skipped] = (char *)(uintptr_t)aliases[i].name;
    for (size_t i = 0; cli_commands[i]; i++)
        if (name_matches(cli_commands[i]->name, words + skipped, count - skipped, ret_used)) {
            *ret_used += skipped;
            return cli_commands[i];
        }
    return NULL;
}

/* Whether @cmd is "WORD something". */
static bool is_of_group(const struct cli_command *cmd, const char *word)
{
    size_t len = strlen(word);
    return strncmp(cmd->name, word, len) == 0 && cmd->name[len] == ' ';
}

/* No command of these @words: what there is beside it, where the first one is half a name. */
static int fail_unknown(char **words, int count, struct cli *cli)
{
    ABX_AUTO_BUF known = {.max = 1024};
    for (size_t i = 0; cli_commands[i]; i++)
        if (is_of_group(cli_commands[i], words[0]))
            abx_buf_putf(&known, "%s%s", known.len ? ", " : "",
                         cli_commands[i]->name + strlen(words[0]) + 1);
    if (known.len == 0)
        return cli_usage(NULL, "no command '%s'", words[0]);
    if (count > 1 && (strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0)) {
        cli->group = words[0];
        cli->v.help = true;
        return 0;
    }
    return cli_usage(NULL, "%s: no command '%s'; there are: %s", words[0],
                     count > 1 ? words[1] : "", known.ptr);
}

/* Everything after the command's name. */
static int parse_words(const struct cli_command *cmd, int argc, char **argv, struct cli *cli)
{
    cli->args = argv;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            if (!cmd->takes_rest)
                return cli_usage(cmd, "'--' has no meaning here");
            cli->rest = argv + i + 1;
            break;
        }
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            int r = take_option(cmd, argv, &i, &cli->v);
            if (r != 0)
                return r;
            continue;
        }
        if (cmd->takes_rest && cli->arg_count >= cmd->max_args) {
            cli->rest = argv + i; /* the "--" may be left out */
            break;
        }
        argv[cli->arg_count++] = argv[i]; /* never overtakes i */
    }
    if (cli->v.help)
        return 0;
    if (cli->arg_count < cmd->min_args)
        return cli_usage(cmd, "too few arguments");
    if (cli->arg_count > cmd->max_args)
        return cli_usage(cmd, "too many arguments: %s", argv[cmd->max_args]);
    return 0;
}

int cli_parse(int argc, char **argv, struct cli *cli, const struct cli_command **ret)
{
    int first = 1, used = 0;
    *ret = NULL;
    cli->v.replay_from = -1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        int r = take_option(NULL, argv, &first, &cli->v);
        if (r != 0)
            return r;
    }
    if (first >= argc)
        return cli->v.help || cli->v.is_version || cli->v.man ? 0 : cli_usage(NULL, "no command");
    *ret = find_command(argv + first, argc - first, &used);
    if (*ret == NULL)
        return fail_unknown(argv + first, argc - first, cli);
    return parse_words(*ret, argc - first - used, argv + first + used, cli);
}

static void help_options(const struct cli_option *o, FILE *out)
{
    for (; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof(left), "%s%c%s %s%s", o->letter ? "-" : "  ",
                 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name, "");
        if (o->value)
            snprintf(left + strlen(left), sizeof(left) - strlen(left), " %s", o->value);
        fprintf(out, "  %-32s %s\n", left, o->help);
    }
}

void cli_help(const struct cli_command *cmd, const char *group, FILE *out)
{
    if (cmd != NULL) {
        fprintf(out, "Usage: abx %s%s%s\n%s.\n", cmd->name, cmd->args[0] ? " " : "", cmd->args,
                cmd->help);
        if (cmd->options)
            fputs("\nOptions:\n", out);
        help_options(cmd->options, out);
    } else {
        fprintf(out, "Usage: abx %s%sCOMMAND [ARGUMENTS]\n", group ? group : "", group ? " " : "");
        fputs("Sandboxes for AI agents on this machine.\n\n", out);
        for (size_t i = 0; cli_commands[i]; i++)
            if (group == NULL || is_of_group(cli_commands[i], group))
                fprintf(out, "  %-18s %s\n", cli_commands[i]->name, cli_commands[i]->help);
    }
    fputs("\nEverywhere:\n", out);
    help_options(cli_global_options, out);
}
