/* host/engine/names_test.c: references to templates; output as lines. */
#include "host/engine/lines_priv.h"
#include "host/engine/names_priv.h"

#include "lib/base/assert.h"
#include "lib/base/err.h"

#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

TEST(names_references)
{
    static const struct {
        const char *text, *name, *tag;
        int code;
    } rows[] = {
        {"hello", "hello", "", 0},
        {"Hello-World_1", "hello-world_1", "", 0},
        {"hello:v1.2", "hello", "v1.2", 0},
        {"local/hello:prod", "hello", "prod", 0},
        {"other/hello", NULL, NULL, ABX_PERMISSION_DENIED},
        {"", NULL, NULL, ABX_INVALID_ARGUMENT},
        {":x", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"hello:", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"hello:a:b", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"local/", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"/hello", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"a/b/c", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"hel lo", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"hel.lo", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"../etc", NULL, NULL, ABX_INVALID_ARGUMENT},
        {"a:b/c", NULL, NULL, ABX_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx__ref r = {0};
        struct abx_error err = {0};
        int got = abx__ref_parse(abx_str(rows[i].text), &r, &err);
        if ((got == 0) != (rows[i].code == 0) || (int)err.code != rows[i].code)
            fail_msg("%s: %d %s", rows[i].text, (int)err.code, err.msg);
        if (got == 0) {
            assert_string_equal(r.name, rows[i].name);
            assert_string_equal(r.tag, rows[i].tag);
        }
    }
    char longest[ABX_STORE_NAME_MAX + 2];
    struct abx__ref r;
    struct abx_error err = {0};
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(abx__ref_parse(abx_str_n(longest, ABX_STORE_NAME_MAX), &r, &err), 0);
    assert_int_equal(abx__ref_parse(abx_str_n(longest, ABX_STORE_NAME_MAX + 1), &r, &err), -1);
}

TEST(names_of_images_are_what_from_says)
{
    static const char *const good[] = {"base", "python:3.12-slim", "team/app:v1", "a.b/c/d:1",
                                       "-x"};
    static const char *const bad[] = {
        "", "A", "a b", ":a", "a:", "/a", "a/", "a//b", "a@sha256", "a%2f"};
    char longest[65];
    for (size_t i = 0; i < ABX_COUNTOF(good); i++)
        assert_true(abx__image_name_is_valid(abx_str(good[i])));
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        assert_false(abx__image_name_is_valid(abx_str(bad[i])));
    memset(longest, 'a', sizeof(longest));
    assert_true(abx__image_name_is_valid(abx_str_n(longest, 63)));
    assert_false(abx__image_name_is_valid(abx_str_n(longest, 64)));
}

TEST(names_hashes_and_build_ids)
{
    char hash[65];
    memset(hash, 'a', 64);
    hash[64] = '\0';
    assert_true(abx__hash_is_valid(abx_str(hash)));
    assert_false(abx__hash_is_valid(abx_str_n(hash, 63)));
    hash[3] = 'G';
    assert_false(abx__hash_is_valid(abx_str(hash)));
    hash[3] = '/';
    assert_false(abx__hash_is_valid(abx_str(hash)));
    assert_true(abx__build_id_is_valid(ABX_STR("00000000-0000-4000-8000-00000000000a")));
    assert_false(abx__build_id_is_valid(ABX_STR("00000000-0000-4000-8000-00000000000A")));
    assert_false(abx__build_id_is_valid(ABX_STR("00000000x0000-4000-8000-00000000000a")));
}

static void put_line(void *arg, struct abx_str line)
{
    struct abx_buf *b = arg;
    abx_buf_putf(b, "[%.*s]", ABX_STR_FMT(line));
}

TEST(lines_at_every_split)
{
    static const char text[] = "one\r\n\ntwo three\nend";
    for (size_t i = 0; i < sizeof(text); i++) { /* the terminator is not fed */
        ABX_AUTO_BUF b = {.max = 1024};
        struct abx__lines l = {0};
        abx__lines_feed(&l, abx_str_n(text, i < sizeof(text) - 1 ? i : sizeof(text) - 1), put_line,
                        &b);
        abx__lines_feed(
            &l,
            abx_str_n(text + i, sizeof(text) - 1 - (i < sizeof(text) - 1 ? i : sizeof(text) - 1)),
            put_line, &b);
        abx__lines_end(&l, put_line, &b);
        abx__lines_done(&l);
        assert_string_equal(b.ptr, "[one][][two three][end]");
    }
}

static void measure(void *arg, struct abx_str line)
{
    size_t *max = arg;
    *max = line.len > *max ? line.len : *max;
}

TEST(lines_have_a_bound)
{
    static char big[3 * ABX__LINE_MAX + 5];
    struct abx__lines l = {0};
    size_t max = 0;
    memset(big, 'x', sizeof(big));
    abx__lines_feed(&l, abx_str_n(big, sizeof(big)), measure, &max);
    assert_int_equal(max, ABX__LINE_MAX);
    assert_int_equal(l.partial.len, 5);
    abx__lines_done(&l);
}

TEST(tail_keeps_the_last_fifty)
{
    struct abx__tail t = {0};
    ABX_AUTO_BUF b = {.max = ABX__TAIL_TEXT_MAX};
    for (int i = 0; i < 73; i++) {
        char line[16];
        snprintf(line, sizeof(line), "line %d", i);
        abx__tail_add(&t, abx_str(line));
    }
    abx__tail_write(&t, &b);
    abx__tail_clear(&t);
    assert_int_equal(strncmp(b.ptr, "\nline 23\nline 24\n", 17), 0);
    assert_true(abx_str_ends(abx_buf_str(&b), "\nline 72"));
}
