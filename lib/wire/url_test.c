/* lib/wire/url_test.c: URLs, targets, queries, percent-encoding, the normal path. */
#include "lib/wire/url.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static void expect_str(struct abx_str got, const char *want)
{
    if (!abx_str_is(got, want))
        fail_msg("got <%.*s>, want <%s>", ABX_STR_FMT(got), want);
}

TEST(url_parses_absolute_urls)
{
    static const struct {
        const char *text, *host, *path, *query;
        uint16_t port; /* host NULL: refused */
    } rows[] = {
        {"http://a", "a", "/", "", 0},
        {"https://a.b:8443/x/y?q=1#f", "a.b", "/x/y", "q=1", 8443},
        {"http://[::1]:80/", "::1", "/", "", 80},
        {"http://[::1]", "::1", "/", "", 0},
        {"http://h?x", "h", "/", "x", 0},
        {"http://h#/x", "h", "/", "", 0},
        {"http://h/a?b?c", "h", "/a", "b?c", 0},
        {"", NULL},
        {"a", NULL},
        {"http:/a", NULL},
        {"://a", NULL},
        {"http://", NULL},
        {"http:///x", NULL},
        {"1ttp*://h", NULL},
        {"http://u@h/", NULL},
        {"http://u:p@h/", NULL},
        {"http://h:0/", NULL},
        {"http://h:65536/", NULL},
        {"http://h:/", NULL},
        {"http://h:8x/", NULL},
        {"http://h:080000/", NULL},
        {"http://[::1", NULL},
        {"http://[::1]x", NULL},
        {"http://[g]", NULL},
        {"http://::1/", NULL},
        {"http://h /", NULL},
        {"http://h/\x01", NULL},
        {"http://h/\xc3\xa9", NULL},
        {"http://h%41/", NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_url url;
        struct abx_error err = {0};
        int got = abx_url_parse(abx_str(rows[i].text), &url, &err);
        if ((got == 0) != (rows[i].host != NULL))
            fail_msg("<%s>: %d %s", rows[i].text, got, err.msg);
        if (got < 0) {
            assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
            continue;
        }
        expect_str(url.host, rows[i].host);
        expect_str(url.path, rows[i].path);
        expect_str(url.query, rows[i].query);
        assert_int_equal(url.port, rows[i].port);
    }
}

TEST(url_splits_targets)
{
    static const struct {
        const char *target, *path, *query;
    } rows[] = {
        {"/", "/", ""},
        {"/a?b=c", "/a", "b=c"},
        {"/a?", "/a", ""},
        {"//init", "//init", ""},
        {"http://h/x?y", "/x", "y"},
        {"http://h", "/", ""},
        {"http://h?q", "/", "q"},
        {"*", "*", ""},
        {"", NULL, NULL},
        {"x", NULL, NULL},
        {"http://", NULL, NULL},
        {"http:///x", NULL, NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str path = {0}, query = {0};
        int got = abx_url_split_target(abx_str(rows[i].target), &path, &query);
        if ((got == 0) != (rows[i].path != NULL))
            fail_msg("<%s>: %d", rows[i].target, got);
        if (got == 0) {
            expect_str(path, rows[i].path);
            expect_str(query, rows[i].query);
        }
    }
}

TEST(url_decodes_once_and_refuses_nul_and_halves)
{
    static const struct {
        const char *text, *want;
        bool plus;
    } rows[] = {
        {"a%20b", "a b", false},
        {"%2541", "%41", false},
        {"a+b", "a+b", false},
        {"a+b", "a b", true},
        {"%c3%A9", "\xc3\xa9", false},
        {"", "", false},
        {"%", NULL, false},
        {"%4", NULL, false},
        {"%4g", NULL, false},
        {"%00", NULL, false},
        {"a%", NULL, true},
        {"%-1", NULL, false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_str out;
        abx_arena_init(&a, 4096);
        int got = abx_url_decode(abx_str(rows[i].text), rows[i].plus, &a, &out);
        if ((got == 0) != (rows[i].want != NULL))
            fail_msg("<%s>: %d", rows[i].text, got);
        if (got == 0)
            expect_str(out, rows[i].want);
        abx_arena_done(&a);
    }
    struct abx_arena none;
    struct abx_str out;
    abx_arena_init(&none, 4);
    assert_int_equal(abx_url_decode(ABX_STR("longer than the cap"), false, &none, &out), -1);
}

TEST(url_encode_then_decode_gives_the_same_bytes)
{
    char all[255];
    for (int i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 4096);
    abx_url_encode(&b, abx_str_n(all, sizeof(all)), "/");
    struct abx_arena a;
    struct abx_str out;
    abx_arena_init(&a, 8192);
    assert_int_equal(abx_url_decode(abx_buf_str(&b), true, &a, &out), 0);
    assert_int_equal(out.len, sizeof(all));
    assert_memory_equal(out.ptr, all, sizeof(all));
    abx_buf_clear(&b);
    abx_url_encode(&b, ABX_STR("a/b c~\0"), "/");
    assert_string_equal(b.ptr, "a/b%20c~%00");
    abx_arena_done(&a);
}

TEST(url_query_finds_the_first_of_a_name)
{
    static const struct {
        const char *query, *want;
        int got;
    } rows[] = {
        {"a=1&b=2&a=3", "1", 1}, {"a", "", 1},          {"a=", "", 1},       {"&&a=x+y", "x y", 1},
        {"%61=z", "z", 1},       {"a=b=c", "b=c", 1},   {"b=1", NULL, 0},    {"", NULL, 0},
        {"aa=1", NULL, 0},       {"x=%&a=1", NULL, -1}, {"a=%zz", NULL, -1}, {"A=1", NULL, 0},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_str out = {0};
        abx_arena_init(&a, 4096);
        int got = abx_url_query_get(abx_str(rows[i].query), "a", &a, &out);
        if (got != rows[i].got)
            fail_msg("<%s>: %d", rows[i].query, got);
        if (got == 1)
            expect_str(out, rows[i].want);
        abx_arena_done(&a);
    }
}

TEST(url_normal_path_sees_through_disguises_of_init)
{
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"/init", "/init"},
        {"//init", "/init"},
        {"/init/", "/init"},
        {"/./init", "/init"},
        {"/%69nit", "/init"},
        {"/init;x", "/init"},
        {"/a/../init", "/init"},
        {"/a/..;x/init", "/init"},
        {"/%2e%2e/init", "/init"},
        {"/init%3bx", "/init"},
        {"/%2finit", "/init"},
        {"/../../init//", "/init"},
        {"/;/init", "/init"},
        {"/INIT", "/INIT"},
        {"/init2", "/init2"},
        {"/%2569nit", "/%69nit"},
        {"/", "/"},
        {"", "/"},
        {"/..", "/"},
        {"/a/b/../c", "/a/c"},
        {"/...", "/..."},
        {"/%", NULL},
        {"/a%00", NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_str out;
        abx_arena_init(&a, 4096);
        int got = abx_url_normal_path(abx_str(rows[i].path), &a, &out);
        if ((got == 0) != (rows[i].want != NULL))
            fail_msg("<%s>: %d", rows[i].path, got);
        if (got == 0)
            expect_str(out, rows[i].want);
        abx_arena_done(&a);
    }
}

TEST(url_knows_ip_literals)
{
    static const char *const yes[] = {"127.0.0.1", "::1", "[::1]", "0.0.0.0", "fe80::1"};
    static const char *const no[] = {"localhost",   "1.2.3", "1.2.3.4.5", "",
                                     "[127.0.0.1]", "[",     "a"};
    for (size_t i = 0; i < ABX_COUNTOF(yes); i++)
        assert_true(abx_url_is_ip_literal(abx_str(yes[i])));
    for (size_t i = 0; i < ABX_COUNTOF(no); i++)
        assert_false(abx_url_is_ip_literal(abx_str(no[i])));
}
