/* guest/envd/envd_terminal_test.c: GET /terminal over the wire (published-client.md 4.2, C22). */
#include "guest/envd/envd_rig_priv.h"
#include "lib/base/assert.h"
#include "lib/wire/ws.h"

static const struct abx_envd_options plain = {.tcp_port = 0};

#define HANDSHAKE                                                                                  \
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                                          \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

/* A client: what came, by kind, and the close frame. */
struct client {
    int fd;
    struct abx_ws_parser parser;
    struct abx_buf text, bytes, all;
    unsigned code; /* 0: not closed */
    char reason[64];
};

static void say(struct client *c, enum abx_ws_opcode opcode, const char *message)
{
    static const unsigned char mask[] = {1, 2, 3, 4};
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1 << 20);
    abx_ws_write(&out, opcode, abx_str(message), mask);
    send_text(c->fd, abx_buf_str(&out));
}

static void open_client(struct client *c, const char *headers)
{
    ABX_AUTO_BUF request;
    ABX_AUTO_BUF head;
    *c = (struct client){.fd = dial()};
    abx_ws_parser_init(&c->parser, false, 1 << 20);
    abx_buf_init(&c->text, 8 << 20);
    abx_buf_init(&c->bytes, 8 << 20);
    abx_buf_init(&c->all, 8 << 20);
    abx_buf_init(&request, 4096);
    abx_buf_init(&head, 1 << 16);
    abx_buf_putf(&request, "GET /terminal HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n%s%s\r\n",
                 HANDSHAKE, headers);
    send_text(c->fd, abx_buf_str(&request));
    for (char byte; !has(&head, "\r\n\r\n");) { /* what follows the head is frames */
        assert_int_equal(read(c->fd, &byte, 1), 1);
        abx_buf_put_byte(&head, byte);
    }
    assert_true(has(&head, "HTTP/1.1 101 "));
}

static void close_client(struct client *c)
{
    abx_fd_close(&c->fd);
    abx_ws_parser_done(&c->parser);
    abx_buf_done(&c->text);
    abx_buf_done(&c->bytes);
    abx_buf_done(&c->all);
}

static void take(struct client *c, const struct abx_ws_message *m)
{
    if (m->opcode == ABX_WS_CLOSE) {
        c->code = m->code;
        snprintf(c->reason, sizeof(c->reason), "%.*s", ABX_STR_FMT(m->data));
    } else if (m->opcode == ABX_WS_TEXT || m->opcode == ABX_WS_BINARY) {
        abx_buf_put_str(m->opcode == ABX_WS_TEXT ? &c->text : &c->bytes, m->data);
        abx_buf_put_str(&c->all, m->data);
    }
}

/* One read; false at the end of the connection. */
static bool hear(struct client *c)
{
    ABX_AUTO_BUF in;
    struct abx_ws_message m;
    struct abx_error err = {0};
    abx_buf_init(&in, 1 << 17);
    if (read_some(c->fd, &in) == 0)
        return false;
    struct abx_str rest = abx_buf_str(&in);
    for (;;) {
        enum abx_ws_event event = abx_ws_parse(&c->parser, &rest, &m, &err);
        assert_int_not_equal(event, ABX_WS_ERROR);
        if (event == ABX_WS_MORE)
            return true;
        take(c, &m);
    }
}

static void hear_until(struct client *c, const struct abx_buf *where, const char *wanted)
{
    while (!has(where, wanted) && hear(c))
        ;
    if (!has(where, wanted))
        print_error("wanted: %s\ngot: %s\n", wanted, c->all.len ? c->all.ptr : "");
    assert_true(has(where, wanted));
}

TEST(c22_a_terminal_is_a_login_shell_of_the_user_with_a_size)
{
    struct client c;
    begin(&plain);
    open_client(&c, "Authorization: Basic dXNlcjo=\r\n");
    say(&c, ABX_WS_TEXT, "{\"type\":\"resize\",\"cols\":101,\"rows\":33}");
    say(&c, ABX_WS_TEXT, "shopt -q login_shell && echo log\"\"in $USER $TERM $(stty size).\n");
    hear_until(&c, &c.text, "login user xterm-256color 33 101.");
    say(&c, ABX_WS_TEXT, "{\"type\":\"resize\",\"cols\":80,\"rows\":24}");
    say(&c, ABX_WS_BINARY, "echo now $(stty size).\n");
    hear_until(&c, &c.text, "now 24 80.");
    close_client(&c);
    end();
}

/* What is no resize is typed; a size that no terminal has changes nothing. */
TEST(c22_only_a_resize_is_a_resize)
{
    static const char *const typed[] = {"{\"type\":\"size\",\"cols\":1,\"rows\":2}",
                                        "{\"type\":\"resize\",\"cols\":\"1\",\"rows\":2}",
                                        "{\"type\":\"resize\",\"cols\":1}",
                                        "{\"type\":\"resize\",\"cols\":-1,\"rows\":2}",
                                        "{",
                                        "[1]"};
    static const char *const kept[] = {"{\"type\":\"resize\",\"cols\":0,\"rows\":9}",
                                       "{\"type\":\"resize\",\"cols\":70000,\"rows\":9}"};
    struct client c;
    begin(&plain);
    open_client(&c, "");
    say(&c, ABX_WS_TEXT, "PS1=; stty -echo; echo re\"\"ady; cat\n");
    hear_until(&c, &c.text, "ready\r\n"); /* cooked from here on */
    for (size_t i = 0; i < ABX_COUNTOF(typed); i++) {
        say(&c, ABX_WS_TEXT, typed[i]);
        say(&c, ABX_WS_TEXT, "\n");
        hear_until(&c, &c.text, typed[i]);
    }
    for (size_t i = 0; i < ABX_COUNTOF(kept); i++)
        say(&c, ABX_WS_TEXT, kept[i]);
    say(&c, ABX_WS_TEXT, "\x04");
    say(&c, ABX_WS_TEXT, "echo still\"\" up.\n");
    hear_until(&c, &c.text, "still up.");
    say(&c, ABX_WS_TEXT, "stty size\n");
    hear_until(&c, &c.text, "24 80\r\n");
    assert_false(has(&c.all, "70000"));
    close_client(&c);
    end();
}

/* T27 on this stream: a character in pieces is one text, a lone byte stays the byte it is. */
TEST(t27_text_where_it_is_text_and_bytes_otherwise)
{
    struct client c;
    begin(&plain);
    open_client(&c, "");
    say(&c, ABX_WS_TEXT,
        "stty -echo; for p in 342 211 244; do printf \"\\\\$p\"; sleep 0.1; done; echo .\n");
    hear_until(&c, &c.text, "\xe2\x89\xa4.");
    assert_int_equal(c.bytes.len, 0);
    say(&c, ABX_WS_TEXT, "printf '\\377|'\n");
    hear_until(&c, &c.bytes, "\xff|");
    assert_false(has(&c.all, "\xef\xbf\xbd")); /* U+FFFD */
    close_client(&c);
    end();
}

TEST(c22_the_end_of_the_shell_closes_the_socket)
{
    struct client c;
    begin(&plain);
    open_client(&c, "");
    say(&c, ABX_WS_TEXT, "printf '\\342'; exit 3\n");
    while (c.code == 0 && hear(&c))
        ;
    assert_int_equal(c.code, ABX_WS_NORMAL);
    assert_string_equal(c.reason, "exit status 3");
    assert_true(has(&c.all, "\xe2"));
    close_client(&c);
    end();
}

TEST(c22_a_client_that_goes_hangs_up)
{
    struct client c;
    ABX_AUTO_BUF answer;
    abx_buf_init(&answer, 1 << 20);
    begin(&plain);
    open_client(&c, "");
    say(&c, ABX_WS_TEXT, "PS1=; stty -echo\n");
    say(&c, ABX_WS_TEXT, "sleep 1000 & nohup sleep 1001 >/dev/null 2>&1 & echo up.\n");
    hear_until(&c, &c.text, "up.");
    assert_int_equal(call("process.Process/List", "{}", &answer), 200);
    pid_t shell = (pid_t)pid_in(&answer);
    assert_true(has(&answer, "\"args\":[\"-i\",\"-l\"]"));
    close_client(&c);
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    while (kill(shell, 0) == 0 && abx_time_mono_ms() < limit)
        usleep(10000);
    assert_int_equal(kill(shell, 0), -1);
    end();
}

/* A client that does not read stops the shell, and gets all of it later. */
TEST(c22_a_slow_client_loses_nothing)
{
    enum { BYTES = 4 << 20 };
    struct client c;
    begin(&plain);
    open_client(&c, "");
    say(&c, ABX_WS_TEXT, "PS1=; stty -echo -onlcr\n");
    say(&c, ABX_WS_TEXT, "echo up.\n");
    hear_until(&c, &c.text, "up.\n");
    abx_buf_clear(&c.all);
    say(&c, ABX_WS_TEXT, "head -c 4194304 /dev/zero | tr '\\0' x; echo '|'\n");
    usleep(300000);
    hear_until(&c, &c.all, "|");
    size_t count = 0;
    for (size_t i = 0; i < c.all.len; i++)
        count += c.all.ptr[i] == 'x';
    assert_int_equal(count, BYTES);
    close_client(&c);
    end();
}

TEST(c22_who_may_open_a_terminal)
{
    static const struct {
        const char *what, *headers;
        int status;
        const char *expect;
    } rows[] = {
        {"GET /terminal", "", 426, "Sec-WebSocket-Version: 13"},
        {"GET /terminal", "Upgrade: websocket\r\n", 426, ""},
        {"POST /terminal", HANDSHAKE, 405, "Allow: GET"},
        {"GET /terminal", HANDSHAKE "Authorization: Basic bm9ib2R5MTI6\r\n", 401,
         "invalid username: 'nobody12'"},
        {"GET /terminal/", HANDSHAKE, 404, ""},
    };
    ABX_AUTO_BUF answer;
    abx_buf_init(&answer, 1 << 20);
    begin(&plain);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int status = ask(rows[i].what, rows[i].headers, NO_BODY, &answer);
        if (status != rows[i].status || !has(&answer, rows[i].expect))
            print_error("row %zu: %s\n", i, answer.ptr);
        assert_int_equal(status, rows[i].status);
        assert_true(has(&answer, rows[i].expect));
    }
    assert_int_equal(ask("POST /init", JSON_TYPE, ABX_STR("{\"accessToken\":\"a0\"}"), &answer),
                     204);
    assert_int_equal(ask("GET /terminal", HANDSHAKE, NO_BODY, &answer), 401);
    assert_int_equal(ask("GET /terminal", HANDSHAKE "X-Access-Token: a1\r\n", NO_BODY, &answer),
                     401);
    struct client c;
    open_client(&c, "X-Access-Token: a0\r\n");
    close_client(&c);
    end();
}
