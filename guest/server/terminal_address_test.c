/* guest/server/terminal_address_test.c: what a client is told to connect to. */
#include "guest/server/terminals.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

TEST(terminal_address_is_made_from_the_request)
{
    static const struct {
        const char *host;
        bool is_tls;
        int64_t pty_port;
        const char *want;
    } rows[] = {
        {NULL, false, 9001, "ws://localhost:9001/pty?session_id=ab"},
        {"", false, 9001, "ws://localhost:9001/pty?session_id=ab"},
        {"127.0.0.1:9000", false, 19001, "ws://127.0.0.1:19001/pty?session_id=ab"},
        {"box", false, 9001, "ws://box:9001/pty?session_id=ab"},
        {"[::1]:9000", false, 9001, "ws://[::1]:9001/pty?session_id=ab"},
        {"[::1]", false, 9001, "ws://[::1]:9001/pty?session_id=ab"},
        {"9000-id.example.com", true, 9001, "wss://9001-id.example.com/pty?session_id=ab"},
        {"9000-id.abx.localhost:3000", false, 9001,
         "ws://9001-id.abx.localhost:3000/pty?session_id=ab"},
        {"9000-id.example.com", true, 0, "wss://9000-id.example.com/pty?session_id=ab"},
        {"127.0.0.1:9000", false, 0, "ws://127.0.0.1:9000/pty?session_id=ab"},
        {NULL, false, 0, "ws://localhost:9000/pty?session_id=ab"},
        {"evil/\"path?x", false, 9001, "ws://localhost:9001/pty?session_id=ab"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char url[ABX__TERMINAL_URL];
        struct abx__terminal_address a = {.host = abx_str(rows[i].host),
                                          .is_tls = rows[i].is_tls,
                                          .http_port = 9000,
                                          .pty_port = rows[i].pty_port};
        abx__terminal_address(&a, "ab", url);
        assert_string_equal(url, rows[i].want);
    }
}

TEST(terminal_address_of_a_long_host_is_cut_to_the_usual_one)
{
    char host[400], url[ABX__TERMINAL_URL];
    memset(host, 'a', sizeof(host));
    struct abx__terminal_address a = {
        .host = abx_str_n(host, sizeof(host)), .http_port = 9000, .pty_port = 9001};
    abx__terminal_address(&a, "ab", url);
    assert_string_equal(url, "ws://localhost:9001/pty?session_id=ab");
}
