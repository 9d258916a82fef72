/* host/engine/edge_target_test.c: which sandbox and port a request means. */
#include "host/engine/edge_priv.h"

#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

TEST(host_is_told_apart)
{
    static const struct {
        const char *host;
        enum abx__host kind;
        const char *label;
    } rows[] = {
        {"localhost", ABX__HOST_OWN, ""},
        {"localhost:3000", ABX__HOST_OWN, ""},
        {"LOCALHOST:1", ABX__HOST_OWN, ""},
        {"127.0.0.1:3000", ABX__HOST_OWN, ""},
        {"[::1]:3000", ABX__HOST_OWN, ""},
        {"127.0.0.2", ABX__HOST_FOREIGN, ""},
        {"10.0.0.1", ABX__HOST_FOREIGN, ""},
        {"abx.localhost:3000", ABX__HOST_OWN, ""},
        {"api.abx.localhost", ABX__HOST_OWN, ""},
        {"sandbox.abx.localhost:3000", ABX__HOST_OWN, ""},
        {"49983-iabc.abx.localhost:3000", ABX__HOST_LABEL, "49983-iabc"},
        {"a.b.ABX.localhost", ABX__HOST_LABEL, "a.b"},
        {".abx.localhost", ABX__HOST_FOREIGN, ""},
        {"xabx.localhost", ABX__HOST_FOREIGN, ""},
        {"evil.example", ABX__HOST_FOREIGN, ""},
        {"abx.localhost.evil.example", ABX__HOST_FOREIGN, ""},
        {"localhost.evil.example", ABX__HOST_FOREIGN, ""},
        {"", ABX__HOST_FOREIGN, ""},
        {"localhost:x", ABX__HOST_FOREIGN, ""},
        {"localhost@evil", ABX__HOST_FOREIGN, ""},
    };
    struct abx__engine e = {.domain = "abx.localhost:3000"};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str label = ABX_STR("");
        enum abx__host kind = abx__host_classify(&e, abx_str(rows[i].host), &label);
        if (kind != rows[i].kind || (kind == ABX__HOST_LABEL && !abx_str_is(label, rows[i].label)))
            fail_msg("%s: %d %.*s", rows[i].host, kind, ABX_STR_FMT(label));
    }
}

TEST(host_of_a_named_or_wildcard_listener)
{
    struct abx__engine named = {.domain = "abx.localhost:1", .listen_host = "10.1.2.3"};
    struct abx__engine any = {
        .domain = "abx.localhost:1", .listen_host = "0.0.0.0", .any_ip = true};
    struct abx_str label;
    assert_int_equal(abx__host_classify(&named, ABX_STR("10.1.2.3:1"), &label), ABX__HOST_OWN);
    assert_int_equal(abx__host_classify(&named, ABX_STR("127.0.0.1"), &label), ABX__HOST_FOREIGN);
    assert_int_equal(abx__host_classify(&any, ABX_STR("10.9.9.9"), &label), ABX__HOST_OWN);
    assert_int_equal(abx__host_classify(&any, ABX_STR("evil.example"), &label), ABX__HOST_FOREIGN);
}

TEST(label_names_port_and_sandbox)
{
    static const struct {
        const char *label;
        const char *why; /* NULL: good */
        uint16_t port;
        const char *id;
    } rows[] = {
        {"3000-iabc", NULL, 3000, "iabc"},
        {"49983-iabc-client", NULL, 49983, "iabc"},
        {"1-0", NULL, 1, "0"},
        {"65535-a", NULL, 65535, "a"},
        {"iabc", "Invalid host", 0, NULL},
        {"", "Invalid host", 0, NULL},
        {"0-iabc", "Invalid sandbox port", 0, NULL},
        {"65536-iabc", "Invalid sandbox port", 0, NULL},
        {"000003-iabc", "Invalid sandbox port", 0, NULL},
        {"+3-iabc", "Invalid sandbox port", 0, NULL},
        {"x-iabc", "Invalid sandbox port", 0, NULL},
        {"3000-", "Invalid sandbox ID", 0, NULL},
        {"3000-iABC", "Invalid sandbox ID", 0, NULL},
        {"3000-i.bc", "Invalid sandbox ID", 0, NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx__target t = {0};
        const char *why = NULL;
        int r = abx__target_from_label(abx_str(rows[i].label), &t, &why);
        if (rows[i].why != NULL) {
            assert_int_equal(r, -1);
            assert_string_equal(why, rows[i].why);
            continue;
        }
        assert_int_equal(r, 0);
        assert_int_equal(t.port, rows[i].port);
        assert_true(abx_str_is(t.id, rows[i].id));
    }
}

static int headers(const char *ids[2], const char *ports[2], struct abx__target *t,
                   const char **why)
{
    struct abx_http_header h[4];
    struct abx_http_head head = {.headers = h};
    for (size_t i = 0; i < 2; i++) {
        if (ids[i] != NULL)
            h[head.header_count++] =
                (struct abx_http_header){ABX_STR("E2b-Sandbox-Id"), abx_str(ids[i])};
        if (ports[i] != NULL)
            h[head.header_count++] =
                (struct abx_http_header){ABX_STR("e2b-sandbox-port"), abx_str(ports[i])};
    }
    return abx__target_from_headers(&head, t, why);
}

TEST(headers_name_port_and_sandbox)
{
    struct abx__target t = {0};
    const char *why = NULL;
    assert_int_equal(headers((const char *[2]){0}, (const char *[2]){0}, &t, &why), 0);
    assert_int_equal(headers((const char *[2]){"iabc"}, (const char *[2]){"49999"}, &t, &why), 1);
    assert_int_equal(t.port, 49999);
    assert_true(abx_str_is(t.id, "iabc"));
    assert_int_equal(headers((const char *[2]){"iabc-c"}, (const char *[2]){"1"}, &t, &why), 1);
    assert_true(abx_str_is(t.id, "iabc"));
    assert_int_equal(headers((const char *[2]){"iabc"}, (const char *[2]){0}, &t, &why), -1);
    assert_string_equal(why, "missing header");
    assert_int_equal(headers((const char *[2]){0}, (const char *[2]){"1"}, &t, &why), -1);
    assert_string_equal(why, "missing header");
    assert_int_equal(headers((const char *[2]){"ia", "ib"}, (const char *[2]){"1"}, &t, &why), -1);
    assert_string_equal(why, "repeated header");
    assert_int_equal(headers((const char *[2]){"ia"}, (const char *[2]){"1", "1"}, &t, &why), -1);
    assert_string_equal(why, "repeated header");
    assert_int_equal(headers((const char *[2]){"ia"}, (const char *[2]){"x"}, &t, &why), -1);
    assert_string_equal(why, "Invalid sandbox port");
    assert_int_equal(headers((const char *[2]){"../x"}, (const char *[2]){"1"}, &t, &why), -1);
    assert_string_equal(why, "Invalid sandbox ID");
}

TEST(path_names_port_and_sandbox)
{
    static const struct {
        const char *path, *query;
        int r;
        const char *rewritten, *why;
    } rows[] = {
        {"/.p/iabc/3000/", NULL, 1, "/", NULL},
        {"/.p/iabc/3000", NULL, 1, "/", NULL},
        {"/.p/iabc/3000/a/b", "x=1", 1, "/a/b?x=1", NULL},
        {"/.p/iabc/3000//init", NULL, 1, "//init", NULL},
        {"/.p", NULL, 0, NULL, NULL},
        {"/x/.p/iabc/3000/", NULL, 0, NULL, NULL},
        {"/.p/iabc", NULL, -1, NULL, "Invalid sandbox port"},
        {"/.p/iabc/0/", NULL, -1, NULL, "Invalid sandbox port"},
        {"/.p/i%41/3000/", NULL, -1, NULL, "Invalid sandbox ID"},
        {"/.p//3000/", NULL, -1, NULL, "Invalid sandbox ID"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_http_head head = {0};
        struct abx__target t = {0};
        const char *why = NULL;
        abx_arena_init(&a, 65536);
        struct abx_http_req req = {.head = &head,
                                   .path = abx_str(rows[i].path),
                                   .query = abx_str(rows[i].query),
                                   .arena = &a};
        int r = abx__target_from_path(&req, &t, &why);
        if (r != rows[i].r || (r > 0 && !abx_str_is(t.rewritten, rows[i].rewritten)) ||
            (r < 0 && strcmp(why, rows[i].why) != 0))
            fail_msg("%s: %d %s", rows[i].path, r, why == NULL ? "" : why);
        abx_arena_done(&a);
    }
}

TEST(headers_beside_a_path_may_only_repeat_it)
{
    struct abx_arena a;
    struct abx_http_header h[] = {{ABX_STR("E2b-Sandbox-Id"), ABX_STR("iabc")},
                                  {ABX_STR("E2b-Sandbox-Port"), ABX_STR("3000")}};
    struct abx_http_head head = {.headers = h, .header_count = 2};
    struct abx__target t = {0};
    const char *why = NULL;
    abx_arena_init(&a, 65536);
    struct abx_http_req req = {.head = &head, .path = ABX_STR("/.p/iabc/3000/"), .arena = &a};
    assert_int_equal(abx__target_from_path(&req, &t, &why), 1);
    h[1].value = ABX_STR("49983");
    assert_int_equal(abx__target_from_path(&req, &t, &why), -1);
    h[1].value = ABX_STR("3000");
    h[0].value = ABX_STR("iabd");
    assert_int_equal(abx__target_from_path(&req, &t, &why), -1);
    abx_arena_done(&a);
}
