/* guest/server/table_words_test.c: what fills what. */
#include "guest/server/table_words.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static struct abx_arg declared_items[] = {{.name = {"a", 1}, .type = ABX_ARG_STRING},
                                          {.name = {"n", 1}, .type = ABX_ARG_INTEGER},
                                          {.name = {"l", 1}, .type = ABX_ARG_STRING_ARRAY}};
static const struct abx_args declared = {declared_items, ABX_COUNTOF(declared_items)};

/* The words of @text under @args, joined by '|'; or the error. */
static void expect(const char *text, const char *args, const char *want)
{
    struct abx_arena a;
    struct abx__word w;
    struct abx__word_value *values;
    struct abx_error err = {0};
    char got[512] = "";
    char *words[8];
    size_t count = 0;
    bool has_nul;
    struct abx_buf b = {.ptr = got, .cap = sizeof(got), .max = sizeof(got) - 1};
    abx_arena_init(&a, 1 << 20);
    if (abx__word_parse(abx_str(text), &declared, &a, &w, &err) < 0) {
        abx_buf_putf(&b, "error: %s", err.msg);
    } else if (abx__word_values(&declared, abx_str(args), &a, &values, &has_nul) < 0) {
        abx_buf_put_c(&b, has_nul ? "NUL" : "no memory");
    } else if (abx__word_add(&w, values, &a, words, &count, ABX_COUNTOF(words)) < 0) {
        abx_buf_put_c(&b, "too many");
    }
    for (size_t i = 0; i < count; i++)
        abx_buf_putf(&b, "%s<%s>", i ? "|" : "", words[i]);
    if (strcmp(got, want))
        fail_msg("%s with %s: want %s, got %s", text, args, want, got);
    abx_arena_done(&a);
}

TEST(arguments_stay_inside_of_their_word)
{
    expect("T={a}", "{\"a\":\"x y; $(z)\"}", "<T=x y; $(z)>");
    expect("{a}{n}", "{\"a\":\"-\",\"n\":-5}", "<--5>");
    expect("{a}", "{\"a\":\"\"}", "<>");
    expect("plain", "{}", "<plain>");
    expect("", "{}", "<>");
    expect("x{a}", "{}", "<x>");
    expect("{a}", "{\"a\":\"{n}\",\"n\":1}", "<{n}>"); /* filled once */
}

TEST(words_that_are_one_argument_may_be_none_or_many)
{
    expect("{a}", "{}", "");
    expect("{l}", "{\"l\":[]}", "");
    expect("{l}", "{\"l\":[\"a b\",\"\",\"c\\n\"]}", "<a b>|<>|<c\n>");
    expect("{l}", "{\"l\":\"no list\"}", "<no list>"); /* a default that did not convert */
    expect("{l}", "{\"l\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}",
           "too many<1>|<2>|<3>|<4>|<5>|<6>|<7>|<8>");
}

TEST(other_braces_are_text)
{
    expect("{print $1}", "{}", "<{print $1}>");
    expect("{{a}}", "{\"a\":\"x\"}", "<{a}>");
    expect("{{a}}{a}{}{", "{\"a\":\"x\"}", "<{a}x{}{>");
    expect("{{{a}}}", "{\"a\":\"x\"}", "<{{a}}>");
    expect("{{a}", "{\"a\":\"x\"}", "<{x>");
}

TEST(what_can_not_be_filled_is_said)
{
    expect("{b}", "{}", "error: {b} is no argument; write {{b}} for the text itself");
    expect("x{l}", "{}", "error: {l} is a list: it stands alone in a word");
    expect("{a}", "{\"a\":\"\\u0000\"}", "NUL");
    expect("{l}", "{\"l\":[\"x\\u0000\"]}", "NUL");
}
