/* guest/kernels/protocol_test.c: lines, ASCII, cells, and the table of languages. */
#include "guest/kernels/language.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include "lib/base/banned.h"

static void expect_text(struct abx_buf *b, const char *wanted)
{
    assert_false(abx_buf_failed(b));
    assert_string_equal(b->ptr, wanted);
    abx_buf_clear(b);
}

TEST(only_events_in_ascii_json_are_lines)
{
    static const struct {
        const char *line;
        int event; /* -1: refused */
    } rows[] = {
        {"{\"type\":\"ready\"}", ABX_KERNEL_READY},
        {"{ \"text\": \"{}\", \"type\": \"stdout\" }", ABX_KERNEL_STDOUT},
        {"{\"type\":\"stderr\",\"text\":\"\\u00e9\"}", ABX_KERNEL_STDERR},
        {"{\"type\":\"result\",\"png\":\"AA==\"}", ABX_KERNEL_RESULT},
        {"{\"type\":\"error\"}", ABX_KERNEL_ERROR},
        {"{\"type\":\"sync\"}", ABX_KERNEL_SYNC},
        {"{\"type\":\"done\"}", ABX_KERNEL_DONE},
        {"{\"type\":\"end_of_execution\"}", -1},
        {"{\"type\":\"keepalive\"}", -1},
        {"{\"type\":1}", -1},
        {"{}", -1},
        {"", -1},
        {"[\"type\"]", -1},
        {"{\"type\":\"done\"} x", -1},
        {"{\"type\":\"done\"", -1},
        {"{\"type\":\"stdout\",\"text\":\"\xc3\xa9\"}", -1},
        {"{\"type\":\"stdout\",\"text\":\"\t\"}", -1},
        {"{\"type\":\"stdout\",\"text\":NaN}", -1},
        {"{\"type\":\"done\"}\r", -1},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        enum abx_kernel_event e = ABX_KERNEL__EVENTS;
        struct abx_error err = {0};
        int r = abx_kernel_line_parse(abx_str(rows[i].line), &e, &err);
        if ((r < 0 ? -1 : (int)e) != rows[i].event)
            fail_msg("%s: %d, not %d", rows[i].line, r < 0 ? -1 : (int)e, rows[i].event);
        assert_true(r == 0 || err.msg[0] != '\0');
    }
}

TEST(text_becomes_ascii)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 4096);
    abx_kernel_put_ascii(&b, ABX_STR("a\"\\\b\f\n\r\t\x01\x7f/"));
    expect_text(&b, "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f/\"");
    abx_kernel_put_ascii(&b, ABX_STR("\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80"));
    expect_text(&b, "\"\\u00e9\\u2028\\ud83d\\ude00\"");
    abx_kernel_put_ascii(&b, ABX_STR("\xff\xc3x\xed\xa0\x80"));
    expect_text(&b, "\"\\ufffd\\ufffdx\\ufffd\\ufffd\\ufffd\"");
    abx_kernel_put_ascii(&b, abx_str_n("a\0b", 3));
    expect_text(&b, "\"a\\u0000b\"");
    abx_kernel_write_error(&b, "A", "b\n");
    expect_text(&b, "{\"type\":\"error\",\"name\":\"A\",\"value\":\"b\\n\",\"traceback\":\"\"}");
}

TEST(a_cut_character_is_found)
{
    static const struct {
        const char *text;
        size_t tail;
    } rows[] = {{"", 0},
                {"a", 0},
                {"\xc3", 1},
                {"\xc3\xa9", 0},
                {"a\xe2\x80", 2},
                {"\xf0\x9f\x98", 3},
                {"\xf0\x9f\x98\x80", 0},
                {"\xff", 0},
                {"\x80\x80\x80\x80", 0}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_int_equal(abx_kernel_utf8_tail(abx_str(rows[i].text)), rows[i].tail);
}

TEST(a_cell_is_one_line_of_json)
{
    const struct abx_variable own = {ABX_STR("A"), ABX_STR("1\n")};
    const struct abx_variable sandbox = {ABX_STR("B"), ABX_STR("2")};
    struct abx_cell cell = {.code = ABX_STR("x\ny"),
                            .number = 3,
                            .own = &own,
                            .own_count = 1,
                            .sandbox = &sandbox,
                            .sandbox_count = 1};
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 4096);
    abx_kernel_write_cell(&b, &cell);
    expect_text(&b,
                "{\"n\":3,\"strip_types\":false,\"envs\":{\"A\":\"1\\n\"},\"code\":\"x\\ny\"}\n");
    cell.sets_sandbox = cell.strip_types = true;
    abx_kernel_write_cell(&b, &cell);
    expect_text(&b,
                "{\"n\":3,\"strip_types\":true,\"globals\":{\"B\":\"2\"},\"envs\":{\"A\":\"1\\n\"},"
                "\"code\":\"x\\ny\"}\n");
}

TEST(a_cell_of_bash_can_not_leave_its_quotes)
{
    const struct abx_variable own[] = {{ABX_STR("A"), ABX_STR("'; rm x\n\\")},
                                       {ABX_STR("B"), ABX_STR("over")}};
    const struct abx_variable sandbox = {ABX_STR("B"), ABX_STR("2")};
    const struct abx_cell cell = {.code = ABX_STR("echo 'hi'\n\\\x7f"),
                                  .own = own,
                                  .own_count = 2,
                                  .sandbox = &sandbox,
                                  .sandbox_count = 1,
                                  .sets_sandbox = true};
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 4096);
    abx_kernel_write_shell(&b, &cell);
    expect_text(&b, "builtin export $'B=2'\n"
                    "builtin export $'A=\\'; rm x\\012\\\\'\n"
                    "builtin export $'B=over'\n"
                    "__abx_run $'echo \\'hi\\'\\012\\\\\\177'\n"
                    "builtin unset -v $'A'\n"
                    "builtin export $'B=2'\n"
                    "builtin printf '{\"type\":\"done\"}\\n' >&3\n");
}

TEST(languages_by_their_names)
{
    static const struct {
        const char *name;
        int language;
        enum abx_code code;
    } rows[] = {
        {"", ABX_PYTHON, ABX_OK},          {"Python", ABX_PYTHON, ABX_OK},
        {" js\n", ABX_JAVASCRIPT, ABX_OK}, {"javascript", ABX_JAVASCRIPT, ABX_OK},
        {"TS", ABX_TYPESCRIPT, ABX_OK},    {"typescript", ABX_TYPESCRIPT, ABX_OK},
        {"bash", ABX_BASH, ABX_OK},        {"r", -1, ABX_UNIMPLEMENTED},
        {"java", -1, ABX_UNIMPLEMENTED},   {"python3", -1, ABX_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        enum abx_language_id id = ABX_LANGUAGE__COUNT;
        struct abx_error err = {0};
        int r = abx_language_find(abx_str(rows[i].name), &id, &err);
        if (r == 0)
            assert_int_equal(id, rows[i].language);
        assert_int_equal(err.code, rows[i].code);
    }
}

TEST(a_program_is_an_executable_file_on_the_path)
{
    char program[ABX_PROGRAM_MAX];
    struct abx_error err = {0};
    const struct abx_language *bash = abx_language(ABX_BASH);
    assert_int_equal(abx_language_program(bash, "/nowhere::/etc:/bin", program, &err), 0);
    assert_string_equal(program, "/bin/bash");
    assert_int_equal(abx_language_program(bash, "/etc:", program, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_non_null(strstr(err.msg, "bash"));
}
