/* lib/policy/guards_test.c: command lists, variables, extensions. */
#include "lib/policy/guards.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

struct rig {
    struct abx_policy *policy;
    const struct abx_policy_rule *rule;
    struct abx_arena arena;
};

static struct rig *rig_new(const char *id, const char *params)
{
    static struct rig r;
    char text[1024];
    struct abx_report report;
    abx_report_init(&report);
    snprintf(text, sizeof(text), "{\"endpoints\":{\"%s\":{\"params\":%s}}}", id, params);
    struct abx_policy_facts facts = {.text = abx_str(text), .has_text = true};
    if (abx_policy_load(&facts, &r.policy, &report) < 0)
        fail_msg("%s", abx_report_first_error(&report)->text);
    abx_report_done(&report);
    r.rule = abx_policy_rule(r.policy, abx_str(id));
    abx_arena_init(&r.arena, 1 << 22);
    return &r;
}

static void rig_free(struct rig *r)
{
    abx_policy_unref(r->policy);
    abx_arena_done(&r->arena);
}

/* "/in/x" is allowed and becomes "/real/x"; the rest is refused. */
static bool judge_path(void *ctx, struct abx_str word, struct abx_arena *a, struct abx_str *ret,
                       struct abx_policy_verdict *v)
{
    (void)ctx;
    if (!abx_str_starts(word, "/in/"))
        return abx_policy_deny(v, ABX_POLICY_PATH_NOT_ALLOWED, "argv: outside");
    *ret = abx_str(abx_arena_printf(a, "/real/%.*s", (int)(word.len - 4), word.ptr + 4));
    return true;
}

static enum abx_policy_code check(struct rig *r, const char *line, struct abx_str_list *ret)
{
    struct abx_policy_command command = {.path = judge_path};
    struct abx_policy_verdict v = {0};
    assert_int_equal(abx_policy_words_split(abx_str(line), &r->arena, &command.argv), 0);
    if (abx_str_is(command.argv.items[0], "/bin/ls"))
        command.program = command.path_program = ABX_STR("/usr/bin/ls");
    if (abx_str_is(command.argv.items[0], "./ls")) {
        command.program = ABX_STR("/in/ls");
        command.path_program = ABX_STR("/usr/bin/ls");
    }
    abx_policy_command_check(r->rule, &command, &r->arena, ret, &v);
    return v.code;
}

static enum abx_policy_code check_line(struct rig *r, const char *shell, const char *line)
{
    const struct abx_str words[] = {abx_str(shell), ABX_STR("-c"), abx_str(line)};
    struct abx_policy_command command = {
        .argv = {words, ABX_COUNTOF(words)}, .path = judge_path, .is_shell_line = true};
    struct abx_policy_verdict v = {0};
    struct abx_str_list argv;
    bool is_allowed = abx_policy_command_check(r->rule, &command, &r->arena, &argv, &v);
    assert_int_equal(is_allowed, v.code == ABX_POLICY_OK);
    return v.code;
}

TEST(d35_a_line_for_a_shell_passes_only_where_its_words_do)
{
    static const struct {
        const char *params;
        enum abx_policy_code code; /* of sh -c "rm -rf /" */
    } rows[] = {
        {"{}", ABX_POLICY_OK},
        {"{\"allow_commands\":[]}", ABX_POLICY_OK},
        {"{\"allow_commands\":[\"sh\"]}", ABX_POLICY_OK},
        {"{\"allow_commands\":[\"s*\"]}", ABX_POLICY_OK},
        {"{\"allow_commands\":[\"sh -c ...\"]}", ABX_POLICY_OK},
        {"{\"allow_commands\":[\"rm ...\"]}", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"{\"allow_commands\":[\"sh -c ls\"]}", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"{\"allow_commands\":[\"sh -c {path}\"]}", ABX_POLICY_PATH_NOT_ALLOWED},
        {"{\"deny_commands\":[\"unrelated\"]}", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"{\"allow_commands\":[\"sh\"],\"deny_commands\":[\"rm\"]}",
         ABX_POLICY_COMMAND_NOT_ALLOWED},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct rig *r = rig_new("shell", rows[i].params);
        enum abx_policy_code got = check_line(r, "sh", "rm -rf /");
        if (got != rows[i].code)
            fail_msg("%s: %d", rows[i].params, (int)got);
        struct abx_str_list argv; /* never more than the words alone */
        if (got == ABX_POLICY_OK)
            assert_int_equal(check(r, "sh -c 'rm -rf /'", &argv), ABX_POLICY_OK);
        rig_free(r);
    }
}

TEST(command_lists_decide_as_published)
{
    static const char *const lists =
        "{\"allow_commands\":[\"git status ...\",\"ls\",\"echo\",\"grep -n {word} {path}\","
        "\"head -n {int} *.txt\",\"kill -9 ...\",\"/bin/true\",\"tail -l x\",\"tar -a -b\","
        "\"a ... b ... c ... d\",\"[ab-d]z\"],"
        "\"deny_commands\":[\"echo secret\",\"rm\"]}";
    static const struct {
        const char *line;
        enum abx_policy_code code;
    } rows[] = {
        {"ls -la /", ABX_POLICY_OK},
        {"id", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"echo secret", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"echo secret x", ABX_POLICY_OK},
        {"git status", ABX_POLICY_OK},
        {"git status -s --porcelain", ABX_POLICY_OK},
        {"git push", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"git -C / status", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"/bin/ls", ABX_POLICY_OK},                  /* what PATH gives */
        {"./ls", ABX_POLICY_COMMAND_NOT_ALLOWED},    /* P4 */
        {"/any/ls", ABX_POLICY_COMMAND_NOT_ALLOWED}, /* P4: not found */
        {"/bin/true", ABX_POLICY_OK},
        {"true", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"head -n 5 a.txt", ABX_POLICY_OK},
        {"head -n x a.txt", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"head -n 1234567890 a.txt", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"head -n 1 sub/b.txt", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"head -n 1 -x.txt", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"head -n 1 ..a.txt", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"grep -n hello /in/a.txt", ABX_POLICY_OK},
        {"grep -n root /etc/passwd", ABX_POLICY_PATH_NOT_ALLOWED},
        {"grep -n hello -r", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"grep -n 'a b' /in/a.txt", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"tail -lx", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"tail -l x", ABX_POLICY_OK},
        {"tar -ab", ABX_POLICY_OK},
        {"tar -ba", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"\"l\"s /", ABX_POLICY_OK},
        {"ls;id", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"rm", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"/x/rm y", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"a b c d", ABX_POLICY_OK},
        {"a x b b x c x x d", ABX_POLICY_OK},
        {"a x b x d", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"a b c d e", ABX_POLICY_COMMAND_NOT_ALLOWED},
        {"bz", ABX_POLICY_OK},
        {"ez", ABX_POLICY_COMMAND_NOT_ALLOWED},
    };
    struct rig *r = rig_new("shell", lists);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str_list argv;
        enum abx_policy_code code = check(r, rows[i].line, &argv);
        if (code != rows[i].code)
            fail_msg("%s: code %u, wanted %u", rows[i].line, code, rows[i].code);
    }
    rig_free(r);
}

TEST(the_canonical_path_takes_the_place_of_the_word)
{
    struct rig *r = rig_new("shell", "{\"allow_commands\":[\"cat -a -b {path}\"]}");
    struct abx_str_list argv;
    assert_int_equal(check(r, "cat -ab /in/a.txt", &argv), ABX_POLICY_OK);
    assert_int_equal(argv.count, 3);
    assert_true(abx_str_is(argv.items[1], "-ab"));
    assert_true(abx_str_is(argv.items[2], "/real/a.txt"));
    rig_free(r);
}

TEST(a_pattern_that_can_not_be_read_is_400)
{
    static const char *const rows[] = {
        "{\"allow_commands\":[\"'\"]}", "{\"allow_commands\":[\"\"]}",
        "{\"deny_commands\":[\"a ... ... ... ...\"]}", "{\"allow_commands\":[\"ls\",\"a\\\\\"]}"};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct rig *r = rig_new("shell", rows[i]);
        struct abx_str_list argv;
        assert_int_equal(check(r, "ls", &argv), ABX_POLICY_BAD_PATTERN);
        rig_free(r);
    }
}

TEST(words_are_split_as_a_shell_does)
{
    static const struct {
        const char *line;
        int result;
        size_t count;
        const char *last;
    } rows[] = {
        {"a  b\tc\n", 0, 3, "c"},
        {"", 0, 0, NULL},
        {"''", 0, 1, ""},
        {"'a b'\"c d\"", 0, 1, "a bc d"},
        {"\"a\\\"b\\\\c\\d\"", 0, 1, "a\"b\\c\\d"},
        {"a\\ b", 0, 1, "a b"},
        {"'a\\'", 0, 1, "a\\"},
        {"a #b|c;d&e>f<g$h*`", 0, 2, "#b|c;d&e>f<g$h*`"},
        {"'a", -1, 0, NULL},
        {"a\\", -1, 0, NULL},
        {"\"a\\\"", -1, 0, NULL},
    };
    struct abx_arena a;
    abx_arena_init(&a, 1 << 20);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str_list words = {0};
        assert_int_equal(abx_policy_words_split(abx_str(rows[i].line), &a, &words), rows[i].result);
        assert_int_equal(words.count, rows[i].count);
        if (rows[i].last != NULL)
            assert_true(abx_str_is(words.items[words.count - 1], rows[i].last));
    }
    abx_arena_done(&a);
}

TEST(too_many_or_too_long_words_are_refused_with_or_without_lists)
{
    struct rig *r = rig_new("shell", "{}");
    struct abx_str words[ABX_ARGV_MAX + 1];
    struct abx_str_list argv;
    struct abx_policy_verdict v = {0};
    char word[ABX_ARGV_WORD_MAX + 2];
    memset(word, 'a', sizeof(word));
    for (size_t i = 0; i < ABX_COUNTOF(words); i++)
        words[i] = ABX_STR("x");
    struct abx_policy_command c = {.argv = {words, ABX_ARGV_MAX}};
    assert_true(abx_policy_command_check(r->rule, &c, &r->arena, &argv, &v));
    words[1] = abx_str_n(word, ABX_ARGV_WORD_MAX);
    assert_true(abx_policy_command_check(r->rule, &c, &r->arena, &argv, &v));
    words[1].len++;
    assert_false(abx_policy_command_check(r->rule, &c, &r->arena, &argv, &v));
    assert_int_equal(v.code, ABX_POLICY_COMMAND_INVALID);
    words[1] = abx_str_n("a\0b", 3);
    assert_false(abx_policy_command_check(r->rule, &c, &r->arena, &argv, &v));
    words[1] = ABX_STR("x");
    c.argv.count++;
    assert_false(abx_policy_command_check(r->rule, &c, &r->arena, &argv, &v));
    rig_free(r);
}

TEST(programs_of_the_kernel_are_never_run)
{
    static const struct {
        const char *argv0, *program;
        enum abx_policy_code code;
    } rows[] = {
        {"ls", "/usr/bin/ls", ABX_POLICY_OK},
        {"", NULL, ABX_POLICY_PROCESS_INVALID},
        {"/proc/self/exe", NULL, ABX_POLICY_PROCESS_DENIED},
        {"/usr/../dev/null", NULL, ABX_POLICY_PROCESS_DENIED},
        {"x", "/sys/x", ABX_POLICY_PROCESS_DENIED},
        {"/process", NULL, ABX_POLICY_OK},
    };
    struct rig *r = rig_new("shell", "{}");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_verdict v = {0};
        abx_policy_program_check(r->rule, abx_str(rows[i].argv0), abx_str(rows[i].program), &v);
        assert_int_equal(v.code, rows[i].code);
    }
    rig_free(r);
}

TEST(variables_are_judged_by_name)
{
    struct rig *r = rig_new("shell", "{\"allow_commands\":[\"ls\"]}");
    struct abx_policy_verdict v = {0};
    assert_true(abx_policy_env_check(r->rule, ABX_STR("A_1"), ABX_STR("x"), &v));
    assert_false(abx_policy_env_check(r->rule, ABX_STR("A-B"), ABX_STR("x"), &v));
    assert_int_equal(v.code, ABX_POLICY_ENV_INVALID);
    assert_false(abx_policy_env_check(r->rule, ABX_STR(""), ABX_STR("x"), &v));
    assert_false(abx_policy_env_check(r->rule, ABX_STR("A"), abx_str_n("\0", 1), &v));
    assert_false(abx_policy_env_check(r->rule, ABX_STR("abx_x"), ABX_STR("x"), &v));
    assert_int_equal(v.code, ABX_POLICY_ENV_VAR_DENIED);
    assert_true(abx_policy_exec_env_check(r->policy, r->rule, ABX_STR("PLAIN"), &v));
    assert_false(abx_policy_exec_env_check(r->policy, r->rule, ABX_STR("PATH"), &v));
    assert_false(abx_policy_exec_env_check(r->policy, r->rule, ABX_STR("LD_PRELOAD"), &v));
    assert_false(abx_policy_exec_env_check(r->policy, r->rule, ABX_STR("TAR_OPTIONS"), &v));
    assert_false(
        abx_policy_exec_env_check(r->policy, r->rule, ABX_STR("npm_config_script_shell"), &v));
    assert_int_equal(v.code, ABX_POLICY_ENV_VAR_NOT_ALLOWED);
    rig_free(r);
}

TEST(environment_lists_hide_and_refuse)
{
    struct rig *r =
        rig_new("env_*", "{\"allow_vars\":[\"LANG\",\"P*\"],\"deny_vars\":[\"PRIV*\"]}");
    const struct abx_policy_rule *get = abx_policy_rule(r->policy, ABX_STR("env_get")),
                                 *set = abx_policy_rule(r->policy, ABX_STR("env_set"));
    static const struct {
        const char *name;
        bool visible, settable;
    } rows[] = {{"LANG", true, true},   {"PLAIN", true, true}, {"PRIVATE", false, false},
                {"HOME", false, false}, {"PKEY", false, true}, {"PToken_x", false, true},
                {"lang", false, false}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_verdict v = {0};
        assert_int_equal(abx_policy_env_visible(r->policy, get, abx_str(rows[i].name)),
                         rows[i].visible);
        assert_int_equal(abx_policy_env_set_check(r->policy, set, abx_str(rows[i].name), &v),
                         rows[i].settable);
    }
    rig_free(r);
}

TEST(the_last_suffix_decides)
{
    static const struct {
        const char *params, *path;
        bool ok;
    } rows[] = {
        {"{\"deny_extensions\":[\".SH\"]}", "/w/x.sh", false},
        {"{\"deny_extensions\":[\".SH\"]}", "/w/x.sh.txt", true},
        {"{\"deny_extensions\":[\".SH\"]}", "/w/.sh", true},
        {"{\"deny_extensions\":[\".SH\"]}", "/w.sh/x", true},
        {"{\"deny_extensions\":[\"\"]}", "/w/x", false},
        {"{\"allow_extensions\":[\".txt\",\".CSV\"]}", "/w/n.csv", true},
        {"{\"allow_extensions\":[\".txt\",\".CSV\"]}", "/w/N.TXT", true},
        {"{\"allow_extensions\":[\".txt\",\".CSV\"]}", "/w/Makefile", false},
        {"{\"allow_extensions\":[]}", "/w/Makefile", true},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct rig *r = rig_new("files_upload_stream", rows[i].params);
        struct abx_policy_verdict v = {0};
        assert_int_equal(abx_policy_extension_check(r->rule, abx_str(rows[i].path), &v),
                         rows[i].ok);
        rig_free(r);
    }
}

TEST(an_empty_list_of_signals_forbids_all)
{
    struct rig *r = rig_new("process_signal", "{\"allowed_signals\":[]}");
    struct abx_policy_verdict v = {0};
    assert_false(abx_policy_signal_check(r->rule, 9, &v));
    rig_free(r);
    r = rig_new("process_signal", "{\"allowed_signals\":[9,-1]}");
    assert_true(abx_policy_signal_check(r->rule, 9, &v));
    assert_false(abx_policy_signal_check(r->rule, 15, &v));
    rig_free(r);
    r = rig_new("process_signal", "{}");
    assert_true(abx_policy_signal_check(r->rule, 15, &v));
    rig_free(r);
}

TEST(env_d15_values_that_only_credentials_have)
{
    static const struct {
        const char *value;
        bool is_secret;
    } rows[] = {{"ghp_0123456789abcdefghijklmnopqrstuvwxyz", true},
                {"AKIAIOSFODNN7EXAMPLE", true},
                {"-----BEGIN PRIVATE KEY-----\nx", true},
                {"sk-0123456789abcdefghijklmn", true},
                {"sk-short", false},
                {"eyJ", false},
                {"postgres://u:p@h/db", false}, /* the published corpus shows it */
                {"", false}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_int_equal(abx_policy_env_value_is_secret(abx_str(rows[i].value)), rows[i].is_secret);
}

TEST(env_s13_a_narrow_identity_sets_nothing_that_chooses_code)
{
    static const struct {
        const char *name;
        bool is_good;
    } rows[] = {{"PYTHONSTARTUP", false}, {"GIT_SSH_COMMAND", false}, {"NODE_OPTIONS", false},
                {"LD_PRELOAD", false},    {"PAGER", false},           {"BASH_FUNC_x", false},
                {"APP_MODE", true},       {"PATHOLOGY", true}};
    struct abx_policy_rule rule = {.id = ABX_STR("env_set")};
    struct abx_policy_identity narrow = {.id = ABX_STR("n")}, wide = {.is_wide = true};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_verdict v = {0};
        struct abx_str name = abx_str(rows[i].name);
        assert_int_equal(abx_policy_env_overlay_check(&rule, &narrow, name, &v), rows[i].is_good);
        assert_int_equal(v.code, rows[i].is_good ? ABX_POLICY_OK : ABX_POLICY_ENV_VAR_NOT_ALLOWED);
        assert_true(abx_policy_env_overlay_check(&rule, &wide, name, &v));
    }
}
