/* host/engine/builds_memory_test.c: whichever allocation fails, a build comes to an end, and the
 * engine serves on. */
#include "host/engine/testkit_priv.h"

#include "tests/unit/alloc.h"

#include "lib/base/banned.h"

enum { BUILDS = 400 };

static void build_id(unsigned n, char out[ABX_STORE_BUILD_LEN + 1])
{
    snprintf(out, ABX_STORE_BUILD_LEN + 1, "00000000-0000-4000-8000-%012u", n);
}

static void declare(unsigned n)
{
    struct abx_error err = {0};
    struct abx_store_template t = {0};
    struct abx_store_build b = {.cpu = 1, .memory_mb = 512, .tags = ABX_STR("default")};
    snprintf(t.id, sizeof(t.id), "t%u", n);
    snprintf(t.alias, sizeof(t.alias), "name%u", n);
    build_id(n, b.id);
    assert_int_equal(abx_store_build_new(kit.e.store, &t, &b, &err), 0);
}

static void note_status(void *arg, const struct abx_store_build *b)
{
    *(enum abx_store_status *)arg = b->status;
}

static enum abx_store_status status_of(unsigned n)
{
    char id[ABX_STORE_BUILD_LEN + 1];
    struct abx_error err = {0};
    enum abx_store_status status = ABX_STORE_STATUS__COUNT;
    build_id(n, id);
    assert_int_equal(abx_store_build_get(kit.e.store, "", abx_str(id), note_status, &status, &err),
                     0);
    return status;
}

/* Sends the start of build @n, without an allocation of our own, and waits for its end. */
static void run(unsigned n)
{
    static const char body[] =
        "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"A\",\"1\"]},"
        "{\"type\":\"RUN\",\"args\":[\"x\"]}],\"startCmd\":\"serve\",\"readyCmd\":\"is ready\"}";
    char text[1024], id[ABX_STORE_BUILD_LEN + 1];
    build_id(n, id);
    snprintf(text, sizeof(text),
             "POST /v2/templates/t%u/builds/%s HTTP/1.1\r\nHost: localhost\r\n"
             "Connection: close\r\nX-API-KEY: %s\r\nContent-Length: %zu\r\n\r\n%s",
             n, id, kit_key, sizeof(body) - 1, body);
    int fd = kit_connect();
    char sink[256];
    ssize_t got = -1;
    kit_send(fd, text, strlen(text));
    KIT_UNTIL((got = recv(fd, sink, sizeof(sink), 0)) == 0 || (got < 0 && errno != EAGAIN));
    close(fd);
    KIT_UNTIL(abx__builds_count(&kit.e) == 0 && kit.e.sandboxes.count == 0);
    kit.command_count = kit.start_count = kit.step_count = kit.made_count = 0;
}

TEST(builds_survive_any_failed_allocation)
{
    kit_setup();
    assert_int_equal(kit_ask("POST", "/abx/v1/images/base", NULL, "a tar"), 201);
    for (unsigned n = 1; n <= BUILDS; n++)
        declare(n);
    unsigned n = 1;
    for (; n < BUILDS && abx_alloc_fail(n); n++)
        run(n);
    assert_true(n > 20 && n < BUILDS);
    run(BUILDS);
    assert_int_equal(status_of(BUILDS), ABX_STORE_READY); /* as ever */
    unsigned ended = 0;
    for (unsigned i = 1; i < n; i++)
        ended += status_of(i) != ABX_STORE_BUILDING ? 1 : 0;
    assert_int_equal(ended, n - 1); /* none hangs */
    kit_teardown();
}
