/* lib/base/address_test.c */
#include "lib/base/address.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <errno.h>

TEST(literals_of_both_families_are_read)
{
    static const struct {
        const char *host;
        int family; /* 0: refused */
        bool loopback, wildcard;
    } rows[] = {
        {"127.0.0.1", AF_INET, true, false},
        {"127.9.9.9", AF_INET, true, false},
        {"localhost", 0, false, false},
        {"0.0.0.0", AF_INET, false, true},
        {"10.1.2.3", AF_INET, false, false},
        {"128.0.0.1", AF_INET, false, false},
        {"::1", AF_INET6, true, false},
        {"::", AF_INET6, false, true},
        {"fe80::1", AF_INET6, false, false},
        {"[::1]", 0, false, false},
        {"", 0, false, false},
        {"example.org", 0, false, false},
        {"1.2.3", 0, false, false},
        {"0x7f.1", 0, false, false},
        {"127.0.0.1:80", 0, false, false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        union abx_address a;
        int r = abx_address_parse(rows[i].host, 8080, &a);
        assert_int_equal(r, rows[i].family == 0 ? -EINVAL : 0);
        if (r < 0)
            continue;
        assert_int_equal(a.any.sa_family, rows[i].family);
        assert_int_equal(abx_address_port(&a), 8080);
        assert_int_equal(abx_address_is_loopback(&a), rows[i].loopback);
        assert_int_equal(abx_address_is_wildcard(&a), rows[i].wildcard);
        abx_address_set_port(&a, 1);
        assert_int_equal(abx_address_port(&a), 1);
    }
    union abx_address a;
    assert_int_equal(abx_address_of_host("localhost", 80, &a), 0);
    assert_true(abx_address_is_loopback(&a));
    assert_int_equal(abx_address_of_host("::1", 80, &a), 0);
    assert_int_equal(abx_address_of_host("example.org", 80, &a), -EINVAL);
}

TEST(a_taken_port_is_refused_and_a_peer_on_this_machine_is_known)
{
    union abx_address a;
    assert_int_equal(abx_address_parse("127.0.0.1", 0, &a), 0);
    ABX_AUTO_FD listener = abx_address_bind(&a, false, 4);
    assert_true(listener >= 0);
    uint16_t port = abx_address_bound_port(listener);
    assert_true(port != 0);
    abx_address_set_port(&a, port);
    assert_int_equal(abx_address_bind(&a, false, 4), -EADDRINUSE);

    ABX_AUTO_FD client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, &a.any, abx_address_len(&a)), 0);
    ABX_AUTO_FD server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(server >= 0);
    assert_true(abx_address_is_local_peer(server));
    assert_true(abx_address_is_local_peer(-1)); /* what can not be told */
}
