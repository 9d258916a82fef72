/* host/engine/metrics_test.c: GET /sandboxes/{id}/metrics over a gateway that is ours. */
#include "host/engine/testkit_priv.h"

static const char figures[] =
    "{\"ts\":1,\"cpu_count\":8,\"cpu_used_pct\":12.5,\"mem_total_mib\":9,\"mem_used_mib\":1,"
    "\"mem_total\":9,\"mem_used\":1048576,\"mem_cache\":77,\"disk_used\":5,\"disk_total\":10}";

static struct abx__sandbox *the_sandbox(const char *id)
{
    struct abx__sandbox *sb = abx__sandbox_find(&kit.e, abx_str(id));
    assert_non_null(sb);
    return sb;
}

static int ask_metrics(const char *prefix, const char *id, const char *query)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/sandboxes/%s/metrics%s", prefix, id, query);
    return kit_ask("GET", path, NULL, NULL);
}

TEST(metrics_are_asked_of_envd_and_told_as_the_sandbox_was_given)
{
    static const char *const prefixes[] = {"", "/v2"};
    static const char *const parts[] = {
        "[{\"timestamp\":\"20", "\"timestampUnix\":",  "\"cpuCount\":2",
        "\"cpuUsedPct\":50",    "\"memUsed\":1048576", "\"memTotal\":1073741824",
        "\"memCache\":77",      "\"diskUsed\":5",      "\"diskTotal\":10}]"};
    kit_setup();
    kit.metrics = figures;
    for (size_t p = 0; p < ABX_COUNTOF(prefixes); p++) {
        char id[32], token[80];
        kit_create("{\"templateID\":\"host\"}", id, token);
        assert_int_equal(ask_metrics(prefixes[p], id, ""), 200);
        for (size_t i = 0; i < ABX_COUNTOF(parts); i++)
            if (!kit_said(parts[i]))
                fail_msg("no %s in %s", parts[i], kit.body.ptr);
    }
    kit_teardown();
}

TEST(a_sample_is_taken_every_five_seconds_at_most_and_ranges_are_kept_to)
{
    kit_setup();
    kit.metrics = figures;
    char id[32], token[80], query[96];
    int64_t now_s = abx_time_wall_ns() / 1000000000;
    kit_create("{\"templateID\":\"host\"}", id, token);
    snprintf(query, sizeof(query), "?start=%lld&end=%lld", (long long)now_s - 3600,
             (long long)now_s - 1800);
    assert_int_equal(ask_metrics("", id, query), 200); /* before it existed: nobody is asked */
    assert_string_equal(kit.body.ptr, "[]");
    assert_int_equal(kit.metrics_count, 0);
    snprintf(query, sizeof(query), "?start=%lld", (long long)now_s);
    assert_int_equal(ask_metrics("", id, query), 200);
    assert_true(kit_said("\"cpuUsedPct\""));
    assert_int_equal(ask_metrics("", id, ""), 200);
    assert_true(kit_said("\"cpuUsedPct\""));
    assert_int_equal(kit.metrics_count, 1);
    the_sandbox(id)->samples->last_ms -= 5000;
    assert_int_equal(ask_metrics("", id, ""), 200);
    assert_int_equal(kit.metrics_count, 2);
    the_sandbox(id)->samples->taken += ABX__SAMPLES_MAX; /* the ring has gone round */
    the_sandbox(id)->samples->last_ms -= 5000;
    assert_int_equal(ask_metrics("", id, ""), 200);
    assert_true(kit_said("\"memUsed\":1048576"));
    static const char *const bad[] = {"?start=x", "?end=-1", "?start=1.5"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        assert_int_equal(ask_metrics("", id, bad[i]), 400);
    kit_teardown();
}

/* What comes back is a sandbox's word. */
TEST(figures_that_make_no_sense_are_an_error)
{
    static const char *const rows[] = {
        "",
        "[]",
        "{}",
        "{\"cpu_count\":1}",
        "{\"cpu_count\":1,\"cpu_used_pct\":-1,\"mem_used\":1,\"mem_cache\":1,\"disk_used\":1,"
        "\"disk_total\":1}",
        "{\"cpu_count\":1,\"cpu_used_pct\":1,\"mem_used\":-1,\"mem_cache\":1,\"disk_used\":1,"
        "\"disk_total\":1}",
        "{\"cpu_count\":1,\"cpu_used_pct\":\"1\",\"mem_used\":1,\"mem_cache\":1,\"disk_used\":1,"
        "\"disk_total\":1}"};
    kit_setup();
    char id[32], token[80], large[8192];
    kit_create("{\"templateID\":\"host\"}", id, token);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        kit.metrics = rows[i];
        if (ask_metrics("", id, "") != 503)
            fail_msg("row %zu: %s", i, kit.body.ptr);
        assert_true(kit_said("does not tell its metrics"));
    }
    memset(large, ' ', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    kit.metrics = large;
    assert_int_equal(ask_metrics("", id, ""), 503);
    kit.metrics = figures;
    assert_int_equal(ask_metrics("", id, ""), 200);
    assert_int_equal(ask_metrics("", "iaaaaaaaaaaaaaaaaaaaa", ""), 404);
    kit_teardown();
}

static int send_question(const char *id)
{
    char text[256];
    int fd = kit_connect();
    snprintf(text, sizeof(text),
             "GET /sandboxes/%s/metrics HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n\r\n", id,
             kit_key);
    kit_send(fd, text, strlen(text));
    KIT_UNTIL(kit.hanging != NULL);
    return fd;
}

TEST(a_silent_envd_a_gone_client_and_a_kill_end_the_question)
{
    kit_setup();
    char id[32], token[80], path[96];
    kit_create("{\"templateID\":\"host\"}", id, token);
    int fd = send_question(id);
    assert_int_equal(kit_read(fd), 503); /* after 5 s */
    assert_true(kit_said("no answer in 5 s"));
    close(fd);
    KIT_UNTIL(kit.hanging == NULL);
    fd = send_question(id);
    int aborts = kit.hang_aborts;
    close(fd);
    KIT_UNTIL(kit.hang_aborts > aborts);
    fd = send_question(id);
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    assert_int_equal(kit_ask("DELETE", path, NULL, NULL), 204);
    assert_int_equal(kit_read(fd), 404);
    close(fd);
    kit_teardown();
}
