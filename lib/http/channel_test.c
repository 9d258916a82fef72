/* lib/http/channel_test.c: connections by descriptor, and the tag that a listener's get. */
#include "lib/http/channel.h"
#include "lib/http/testkit_priv.h"

#include "lib/base/banned.h"

#define GET_HELLO "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"

static struct kit k;
static const struct abx_http_server_options defaults;
static int gone;

static void on_gone(void *arg)
{
    (void)arg;
    gone++;
}

TEST(channel_adopts_what_comes_and_tells_its_end)
{
    enum { CONNECTIONS = 20 };
    int ends[2], theirs[CONNECTIONS];
    struct abx_http_channel c;
    struct abx_error err;
    gone = 0;
    kit_open(&k, defaults);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(abx_http_channel_open(&c, k.server, ends[0], 7, on_gone, NULL, &err), 0);
    for (int i = 0; i < CONNECTIONS; i += 2) { /* two to a message */
        int a[2], b[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, b), 0);
        assert_int_equal(abx_fd_send(ends[1], "c", 1, (int[]){a[0], b[0]}, 2), 1);
        close(a[0]);
        close(b[0]);
        abx_fd_set_nonblock(a[1], true);
        abx_fd_set_nonblock(b[1], true);
        theirs[i] = a[1];
        theirs[i + 1] = b[1];
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        kit_expect(&k, theirs[i], GET_HELLO, "\r\n\r\nhello");
        close(theirs[i]);
    }
    assert_int_equal(gone, 0);
    close(ends[1]);
    RUN_UNTIL(&k.loop, gone == 1);
    abx_http_channel_close(&c); /* idempotent */
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 0);
    close(ends[0]);
    kit_close(&k);
}

static int seen_tag, given_tag;

static int on_accept(void *user, int fd, int tag)
{
    (void)user;
    assert_true(fd >= 0);
    seen_tag = tag;
    return given_tag;
}

static void tell_tag(struct abx_http_req *req)
{
    char text[16];
    snprintf(text, sizeof(text), "tag %d.", req->listener_tag);
    abx_http_answer(req, 200, NULL, abx_str(text));
}

TEST(listener_tag_is_what_on_accept_says)
{
    struct abx_error err;
    uint16_t port;
    kit_open(&k, (struct abx_http_server_options){.on_request = tell_tag, .on_accept = on_accept});
    int listener = kit_listen_tcp(&port);
    assert_int_equal(abx_http_server_listen(k.server, listener, 3, &err), 0);
    given_tag = 5;
    int fd = kit_connect_tcp(port);
    kit_expect(&k, fd, GET_HELLO, "tag 5.");
    assert_int_equal(seen_tag, 3);
    close(fd);

    given_tag = -1; /* refused */
    fd = kit_connect_tcp(port);
    char byte;
    ssize_t n = -1;
    RUN_UNTIL(&k.loop, (n = read(fd, &byte, 1)) >= 0 || errno != EAGAIN);
    assert_true(n <= 0);
    close(fd);
    kit_close(&k);
}
