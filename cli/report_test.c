/* cli/report_test.c: what a sandbox says is shown without what a terminal would obey. */
#include "cli/cli.h"
#include "tests/unit/test.h"

#include <stdio.h>

TEST(texts_of_sandboxes_hold_no_orders_for_a_terminal)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {{"plain \xc3\xa9 \xe2\x82\xac\n\ttext", "plain \xc3\xa9 \xe2\x82\xac\n\ttext"},
                {"\x1b]52;c;eA==\x07", "?]52;c;eA==?"},
                {"a\rb\x08"
                 "c\x7f",
                 "a?b?c?"},
                {"\xc2\x9b"
                 "31m \xc2\xa0",
                 "??31m \xc2\xa0"},
                {"cut \xc2", "cut \xc2"},
                {"", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s", rows[i].text);
        assert_string_equal(cli_plain(text), rows[i].shown);
    }
}
