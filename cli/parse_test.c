/* cli/parse_test.c: the command line: what is understood, what is refused, and the tables. */
#include "cli/cli.h"
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#define PARSE(cli, cmd, ...) parse((cli), (cmd), (const char *const[]){"abx", __VA_ARGS__, NULL})

/* Copies the words, as main() owns its argv and the parser writes to it. */
static int parse(struct cli *cli, const struct cli_command **cmd, const char *const *words)
{
    static char text[2048];
    static char *argv[64];
    int argc = 0;
    size_t used = 0;
    for (; words[argc]; argc++) {
        argv[argc] = text + used;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", words[argc]) + 1;
    }
    argv[argc] = NULL;
    memset(cli, 0, sizeof(*cli));
    return cli_parse(argc, argv, cli, cmd);
}

TEST(exec_takes_options_before_and_after_the_id)
{
    struct cli cli;
    const struct cli_command *cmd;
    assert_int_equal(
        PARSE(&cli, &cmd, "exec", "-u", "root", "iabc", "-e", "A=b=c", "--", "ls", "-l"), 0);
    assert_ptr_equal(cmd, &cmd_exec);
    assert_string_equal(cli.args[0], "iabc");
    assert_string_equal(cli.v.user, "root");
    assert_string_equal(cli.v.env[0].key, "A");
    assert_string_equal(cli.v.env[0].value, "b=c");
    assert_string_equal(cli.rest[0], "ls");
    assert_string_equal(cli.rest[1], "-l");
}

TEST(exec_needs_no_dashes_before_the_command)
{
    struct cli cli;
    const struct cli_command *cmd;
    assert_int_equal(PARSE(&cli, &cmd, "exec", "iabc", "echo", "hi"), 0);
    assert_string_equal(cli.rest[0], "echo");
    assert_int_equal(cli.arg_count, 1);
}

TEST(noun_verb_forms_and_aliases_find_the_same_command)
{
    struct cli cli;
    const struct cli_command *cmd;
    assert_int_equal(PARSE(&cli, &cmd, "sandbox", "list"), 0);
    assert_ptr_equal(cmd, &cmd_list);
    assert_int_equal(PARSE(&cli, &cmd, "ls", "--json"), 0);
    assert_ptr_equal(cmd, &cmd_list);
    assert_true(cli.v.json);
    assert_int_equal(PARSE(&cli, &cmd, "engine", "doctor"), 0);
    assert_ptr_equal(cmd, &cmd_doctor);
}

TEST(misuse_is_a_usage_error)
{
    static const char *const bad[][6] = {
        {"abx", NULL},
        {"abx", "nope", NULL},
        {"abx", "engine", NULL},
        {"abx", "create", NULL},
        {"abx", "create", "a", "b", NULL},
        {"abx", "create", "a", "--nope", NULL},
        {"abx", "create", "a", "--timeout", NULL},
        {"abx", "create", "a", "--timeout", "x", NULL},
        {"abx", "create", "a", "--timeout", "0", NULL},
        {"abx", "exec", "a", "--attach", "0", NULL},
        {"abx", "template", NULL},
        {"abx", "template", "nope", NULL},
        {"abx", "create", "a", "--env", "novalue", NULL},
        {"abx", "create", "a", "--json=1", NULL},
        {"abx", "list", "--", "x", NULL},
    };
    struct cli cli;
    const struct cli_command *cmd;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse(&cli, &cmd, bad[i]), 2);
}

TEST(half_a_name_shows_what_there_is)
{
    struct cli cli;
    const struct cli_command *cmd;
    assert_int_equal(PARSE(&cli, &cmd, "image", "--help"), 0);
    assert_null(cmd);
    assert_true(cli.v.help);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    cli_help(cmd, cli.group, out);
    fclose(out);
    assert_non_null(strstr(text, "image build"));
    assert_non_null(strstr(text, "image export"));
    assert_null(strstr(text, "template build"));
    free(text);
}

TEST(values_may_follow_an_equals_sign)
{
    struct cli cli;
    const struct cli_command *cmd;
    assert_int_equal(PARSE(&cli, &cmd, "create", "host", "--timeout=9"), 0);
    assert_int_equal(cli.v.timeout_s, 9);
}

TEST(every_command_is_complete_and_named_once)
{
    for (size_t i = 0; cli_commands[i]; i++) {
        const struct cli_command *c = cli_commands[i];
        assert_non_null(c->name);
        assert_non_null(c->run);
        assert_true(strlen(c->help) > 0 && c->help[strlen(c->help) - 1] != '.');
        assert_true(c->min_args <= c->max_args);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(c->name, cli_commands[k]->name);
    }
}

TEST(the_man_page_in_docs_is_the_one_of_the_tables)
{
    char *made = NULL, *kept = NULL;
    size_t made_len = 0, kept_len = 0;
    FILE *out = open_memstream(&made, &made_len);
    cli_man(out);
    fclose(out);
    FILE *f = fopen("docs/abx.1", "r");
    assert_non_null(f);
    assert_true(getdelim(&kept, &kept_len, '\0', f) > 0);
    fclose(f);
    assert_string_equal(made, kept); /* stale: build/release/bin/abx --man > docs/abx.1 */
    free(made);
    free(kept);
}
