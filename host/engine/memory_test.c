/* host/engine/memory_test.c: whichever allocation fails, the engine answers or resets, undoes what
 * it had begun, and serves the next request. */
#include "host/engine/testkit_priv.h"

#include "tests/unit/alloc.h"

#include "lib/base/banned.h"

/* Sends @text and reads until the engine closes; the status, 0 when there was none. No allocation
 * of its own. */
static int ask(const char *text)
{
    char answer[8192] = {0};
    size_t len = 0;
    int status = 0;
    int fd = kit_connect();
    int64_t end = abx_time_mono_ms() + KIT_HANG_MS;
    kit_send(fd, text, strlen(text));
    for (;;) {
        assert_true(abx_time_mono_ms() < end);
        kit_turn();
        ssize_t n = recv(fd, answer + len, sizeof(answer) - 1 - len, 0);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    sscanf(answer, "HTTP/1.1 %d", &status);
    return status;
}

static bool is_settled(void)
{
    size_t it = 0;
    struct abx_str id;
    void *value;
    while (abx_map_next(&kit.e.sandboxes, &it, &id, &value)) {
        if (((struct abx__sandbox *)value)->state != ABX__RUNNING)
            return false;
    }
    return kit.pending_count == 0;
}

static void kill_all(void)
{
    while (kit.e.sandboxes.count > 0) {
        size_t it = 0, before = kit.e.sandboxes.count;
        struct abx_str id;
        void *value;
        assert_true(abx_map_next(&kit.e.sandboxes, &it, &id, &value));
        abx__sandbox_kill(value, NULL);
        KIT_UNTIL(kit.e.sandboxes.count < before);
    }
}

static void check(const char *text, int good)
{
    unsigned runs = 0;
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        int status = ask(text);
        KIT_UNTIL(is_settled());
        bool failed = abx_alloc_failed();
        if (!failed && status != good)
            fail_msg("allocation %u: %d", n, status);
        /* 0 and 500: an answer that got lost on the way may leave what it told of; no refusal does
         */
        if (status >= 400 && status != 500 && kit.e.sandboxes.count != 0)
            fail_msg("allocation %u: %d and a sandbox is left", n, status);
        kill_all();
        runs++;
    }
    assert_true(runs > 3);
    assert_int_equal(ask(text), good); /* as ever */
    KIT_UNTIL(is_settled());
    kill_all();
}

TEST(create_survives_any_failed_allocation)
{
    kit_setup();
    char text[512];
    const char body[] = "{\"templateID\":\"host\",\"metadata\":{\"a\":\"b\"}}";
    snprintf(text, sizeof(text),
             "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "X-API-KEY: %s\r\nContent-Length: %zu\r\n\r\n%s",
             kit_key, sizeof(body) - 1, body);
    check(text, 201);
    kit_teardown();
}

TEST(list_and_info_survive_any_failed_allocation)
{
    static const char *const paths[] = {"/v2/sandboxes?metadata=a%3Db&limit=3", "/sandboxes",
                                        "/abx/v1/info"};
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(paths); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-API-KEY: %s\r\n\r\n",
                 paths[i], kit_key);
        check(text, 200);
    }
    kit_teardown();
}

TEST(edge_survives_any_failed_allocation)
{
    kit_setup();
    char id[32], token[80], text[512], signature[64];
    kit_create("{\"templateID\":\"host\"}", id, token);
    struct abx__sandbox *sb = abx__sandbox_find(&kit.e, abx_str(id));
    struct abx_str fields[4] = {ABX_STR("a"), ABX_STR("read"), ABX_STR(""), abx_str(token)};
    abx__sign(fields, (struct abx_str){0}, signature);
    for (char *c = signature; (c = strchr(c, '+')) != NULL;) /* a plus would read as a space */
        memcpy(c, "-", 1);
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            snprintf(text, sizeof(text),
                     "POST /.p/%s/3000/x?y=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Length: 2\r\n\r\nhi",
                     id);
        else
            snprintf(text, sizeof(text),
                     "GET /files?path=a&signature=%s HTTP/1.1\r\nHost: localhost\r\n"
                     "Connection: close\r\n\r\n",
                     signature);
        int good = strchr(signature, '-') != NULL && i == 1 ? 401 : 200;
        for (unsigned n = 1; abx_alloc_fail(n); n++) {
            memset(kit.e.bad_signatures, 0, sizeof(kit.e.bad_signatures));
            int status = ask(text);
            if (!abx_alloc_failed() && status != good)
                fail_msg("allocation %u: %d", n, status);
            KIT_UNTIL(sb->edge_conns == 0);
            assert_int_equal(sb->state, ABX__RUNNING);
        }
        assert_int_equal(ask(text), good);
    }
    kit_teardown();
}
