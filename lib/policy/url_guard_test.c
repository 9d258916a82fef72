/* lib/policy/url_guard_test.c: the URL guard. */
#include "lib/policy/url_guard.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static struct abx_policy *load(const char *params)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"endpoints\":{\"browser_navigate\":{\"enabled\":true,\"params\":{%s}}}}", params);
    struct abx_policy_facts facts = {.text = abx_str(text), .has_text = true};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        fail_msg("%s: %s", text, abx_report_first_error(&report)->text);
    abx_report_done(&report);
    return p;
}

struct row {
    const char *url;
    enum abx_policy_code want;
};

static void check(const char *params, const struct row *rows, size_t count)
{
    struct abx_policy *p = load(params);
    const struct abx_policy_rule *rule = abx_policy_rule(p, ABX_STR("browser_navigate"));
    for (size_t i = 0; i < count; i++) {
        struct abx_policy_verdict v = {0};
        struct abx_policy_url u;
        struct abx_arena a;
        abx_arena_init(&a, 1 << 20);
        bool ok = abx_policy_url_check(rule, abx_str(rows[i].url), &a, &u, &v);
        if (v.code != rows[i].want || ok != (rows[i].want == ABX_POLICY_OK))
            fail_msg("{%s} %s: %d (%s), not %d", params, rows[i].url, v.code, v.text, rows[i].want);
        abx_arena_done(&a);
    }
    abx_policy_unref(p);
}

#define OK          ABX_POLICY_OK
#define INVALID     ABX_POLICY_URL_INVALID
#define DENIED      ABX_POLICY_URL_DENIED
#define NOT_ALLOWED ABX_POLICY_URL_NOT_ALLOWED

/* P23, D98. */
TEST(p23_addresses_are_known_in_every_spelling)
{
    static const struct row rows[] = {
        {"https://example.com/", OK},
        {"http://example.com:8080/a?b#c", OK},
        {"HTTP://EXAMPLE.com", OK},
        {"http://93.184.216.34/", OK},
        {"http://[2606:2800:220:1::1]/", OK},
        {"http://127.0.0.1/", DENIED},
        {"http://127.1/", DENIED},
        {"http://2130706433/", DENIED},
        {"http://0x7f.1/", DENIED},
        {"http://0x7f000001/", DENIED},
        {"http://0177.0.0.1/", DENIED},
        {"http://127.0.0.1./", DENIED},
        {"http://%31%32%37.0.0.1/", DENIED},
        {"http://0/", DENIED},
        {"http://0.0.0.0/", DENIED},
        {"http://10.0.0.1/", DENIED},
        {"http://172.31.255.255/", DENIED},
        {"http://172.32.0.1/", OK},
        {"http://192.168.1.1/", DENIED},
        {"http://169.254.169.254/", DENIED},
        {"http://100.100.100.200/", DENIED},
        {"http://224.0.0.1/", DENIED},
        {"http://255.255.255.255/", DENIED},
        {"http://[::1]/", DENIED},
        {"http://[::]/", DENIED},
        {"http://[::ffff:127.0.0.1]/", DENIED},
        {"http://[::ffff:7f00:1]/", DENIED},
        {"http://[::127.0.0.1]/", DENIED},
        {"http://[64:ff9b::7f00:1]/", DENIED},
        {"http://[64:ff9b::10.0.0.1]/", DENIED},
        {"http://[64:ff9b::5db8:d822]/", OK},
        {"http://[2002:7f00:1::]/", DENIED},
        {"http://[fe80::1]/", DENIED},
        {"http://[fd00::1]/", DENIED},
        {"http://[ff02::1]/", DENIED},
        {"http://[2001:db8::1]/", DENIED},
        {"http://localhost/", DENIED},
        {"http://LOCALHOST./", DENIED},
        {"http://a.localhost:3000/", DENIED},
        {"http://u@127.0.0.1/", DENIED},
        {"https://localhost@example.com/", OK},
        {"https://example.com@localhost/", DENIED},
        {"http://127.0.0.1\\@example.com/", DENIED},
    };
    check("", rows, ABX_COUNTOF(rows));
}

TEST(what_is_no_page_is_invalid)
{
    static const struct row rows[] = {
        {"", INVALID},
        {"example.com", INVALID},
        {"file:///etc/passwd", INVALID},
        {"javascript:1", INVALID},
        {"ftp://example.com/", INVALID},
        {"about:blank", INVALID},
        {"view-source:http://example.com/", INVALID},
        {"http:example.com", INVALID},
        {"http:/example.com", INVALID},
        {"https:///example.com", INVALID},
        {"http://", INVALID},
        {"http://:80/", INVALID},
        {"http://exa mple/", INVALID},
        {"http://example.com/\n", INVALID},
        {" http://example.com/", INVALID},
        {"http://example.com:0/", INVALID},
        {"http://example.com:65536/", INVALID},
        {"http://example.com:x/", INVALID},
        {"http://example.com:4294967376/", INVALID},
        {"http://1.2.3.4.5/", INVALID},
        {"http://1.2.3.256/", INVALID},
        {"http://256.1/", INVALID},
        {"http://4294967296/", INVALID},
        {"http://[::1/", INVALID},
        {"http://[1:2:3:4:5:6:7:8:9]/", INVALID},
        {"http://[1::2::3]/", INVALID},
        {"http://[12345::]/", INVALID},
        {"http://[::1%25eth0]/", INVALID},
        {"http://[::1]x/", INVALID},
        {"http://exa\xef\xbc\x91mple.com/", INVALID},
        {"http://a%00b.com/", INVALID},
    };
    check("", rows, ABX_COUNTOF(rows));
}

TEST(p23_patterns_are_held_against_scheme_host_and_path)
{
    static const struct row rows[] = {
        {"https://a.example.com/", OK},
        {"HTTPS://A.example.com/x", OK},
        {"https://example.org/", NOT_ALLOWED},
        {"https://example.com/", NOT_ALLOWED},
        {"http://a.example.com/", NOT_ALLOWED},
        {"https://evil.net/x.example.com/", NOT_ALLOWED},
        {"https://evil.net/?.example.com/", NOT_ALLOWED},
        {"https://evil.net#.example.com/", NOT_ALLOWED},
        {"https://a.example.com@evil.net/", NOT_ALLOWED},
        {"https://evil.net\\.example.com/", NOT_ALLOWED},
        {"https://a.example.com:8443/", NOT_ALLOWED},
        {"https://a.example.com:443/", OK},
        {"https://a.example.com/secret", NOT_ALLOWED},
        {"https://secret.example.com/", NOT_ALLOWED},
        {"file:///etc/passwd", NOT_ALLOWED},
        {"https://a.example.com/ x", INVALID},
    };
    check("\"url_allow\":[\"https://*.example.com/*\"],\"url_deny\":[\"*secret*\"]", rows,
          ABX_COUNTOF(rows));
    static const struct row denied[] = {
        {"https://evil.net/", NOT_ALLOWED}, {"https://evil.net:8443/", NOT_ALLOWED},
        {"HTTPS://EVIL.net/", NOT_ALLOWED}, {"https://x@evil.net/", NOT_ALLOWED},
        {"https://good.net/evil", OK},      {"https://good.net/a/secret", NOT_ALLOWED},
        {"https://127.0.0.1/", DENIED},
    };
    check("\"url_deny\":[\"https://evil.net/*\",\"*://*secret*\"]", denied, ABX_COUNTOF(denied));
    static const struct row ports[] = {{"http://a.net:8080/x", OK},
                                       {"http://a.net/x", NOT_ALLOWED}};
    check("\"url_allow\":[\"http://a.net:8080/*\"]", ports, ABX_COUNTOF(ports));
    static const struct row all[] = {{"https://a.net:1/x", OK}, {"http://a.net/x", NOT_ALLOWED}};
    check("\"url_allow\":[\"https://*\"]", all, ABX_COUNTOF(all));
}

TEST(connections_go_to_public_addresses)
{
    static const struct {
        unsigned char address[16];
        bool open, blocked; /* allowed without, with block_private_networks */
    } rows[] = {
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 93, 184, 216, 34}, true, true},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1}, true, false},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 100, 100, 100, 200}, true, false},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1}, false, false},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 169, 254, 169, 254}, false, false},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, false, false},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, false, false},
        {{0xfe, 0x80, [15] = 1}, false, false},
        {{0xfd, 0x00, [15] = 1}, true, false},
        {{0x26, 0x06, [15] = 1}, true, true},
        {{0x00, 0x64, 0xff, 0x9b, [12] = 127, [15] = 1}, false, false},
        {{0x20, 0x02, 10, 0, 0, 1}, true, false},
    };
    struct abx_policy *p = load(""), *q = load("\"block_private_networks\":true");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_verdict v = {0};
        assert_int_equal(abx_policy_address_check(abx_policy_rule(p, ABX_STR("browser_navigate")),
                                                  rows[i].address, &v),
                         rows[i].open);
        assert_int_equal(abx_policy_address_check(abx_policy_rule(q, ABX_STR("browser_navigate")),
                                                  rows[i].address, &v),
                         rows[i].blocked);
    }
    abx_policy_unref(p);
    abx_policy_unref(q);
}

TEST(origins_are_judged_without_their_paths)
{
    static const char lists[] =
        "\"url_allow\":[\"https://a.test/docs/*\",\"https://*.b.test\",\"http://c.test:8080/*\"],"
        "\"url_deny\":[\"https://x.b.test/*\",\"https://y.b.test/private/*\"]";
    static const struct row rows[] = {
        {"https://a.test/", OK},
        {"https://a.test:444/", NOT_ALLOWED},
        {"https://z.b.test/", OK},
        {"https://x.b.test/", NOT_ALLOWED},
        {"https://y.b.test/", OK},
        {"https://c.test/", NOT_ALLOWED},
        {"http://c.test:8080/", OK},
        {"https://other.test/", NOT_ALLOWED},
        {"https://127.0.0.1/", NOT_ALLOWED},
        {"https://a.test:0/", NOT_ALLOWED},
    };
    struct abx_policy *p = load(lists);
    const struct abx_policy_rule *rule = abx_policy_rule(p, ABX_STR("browser_navigate"));
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_verdict v = {0};
        struct abx_arena a;
        abx_arena_init(&a, 1 << 20);
        abx_policy_origin_check(rule, abx_str(rows[i].url), &a, &v);
        if (v.code != rows[i].want)
            fail_msg("%s: %d (%s), not %d", rows[i].url, v.code, v.text, rows[i].want);
        abx_arena_done(&a);
    }
    abx_policy_unref(p);
    p = load("\"block_private_networks\":false");
    rule = abx_policy_rule(p, ABX_STR("browser_navigate"));
    struct abx_policy_verdict v = {0};
    struct abx_arena a;
    abx_arena_init(&a, 1 << 20);
    assert_false(abx_policy_origin_check(rule, ABX_STR("https://localhost:9000/"), &a, &v));
    assert_int_equal(v.code, DENIED);
    assert_true(abx_policy_origin_check(rule, ABX_STR("https://d.test/x"), &a, &v));
    abx_arena_done(&a);
    abx_policy_unref(p);
}
