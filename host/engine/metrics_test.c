/* host/engine/metrics_test.c: GET /sandboxes/{id}/metrics and /sandboxes/metrics over a gateway
 * that is ours. */
#include "host/engine/metrics_priv.h"
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

static int send_question(const char *path)
{
    char text[512];
    int fd = kit_connect();
    snprintf(text, sizeof(text),
             "GET /sandboxes/%s HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n\r\n", path,
             kit_key);
    kit_send(fd, text, strlen(text));
    KIT_UNTIL(kit.hanging != NULL);
    return fd;
}

TEST(a_silent_envd_a_gone_client_and_a_kill_end_the_question)
{
    kit_setup();
    char id[32], token[80], path[96], question[64];
    kit_create("{\"templateID\":\"host\"}", id, token);
    snprintf(question, sizeof(question), "%s/metrics", id);
    int fd = send_question(question);
    assert_int_equal(kit_read(fd), 503); /* after 5 s */
    assert_true(kit_said("no answer in 5 s"));
    close(fd);
    KIT_UNTIL(kit.hanging == NULL);
    fd = send_question(question);
    int aborts = kit.hang_aborts;
    close(fd);
    KIT_UNTIL(kit.hang_aborts > aborts);
    fd = send_question(question);
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    assert_int_equal(kit_ask("DELETE", path, NULL, NULL), 204);
    assert_int_equal(kit_read(fd), 404);
    close(fd);
    kit_teardown();
}

/* ---- several ---- */

static const char *query_of(const char *const *ids, size_t count)
{
    static char query[4096];
    size_t n = (size_t)snprintf(query, sizeof(query), "metrics?sandbox_ids=");
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(query + n, sizeof(query) - n, "%s%s", i ? "," : "", ids[i]);
    return query;
}

static int ask_many(const char *const *ids, size_t count)
{
    char path[4200];
    snprintf(path, sizeof(path), "/sandboxes/%s", query_of(ids, count));
    return kit_ask("GET", path, NULL, NULL);
}

static bool told_of(const char *id)
{
    char key[64];
    snprintf(key, sizeof(key), "\"%s\":{\"timestamp\":\"20", id);
    return kit_said(key);
}

TEST(several_are_told_at_once_by_their_ids)
{
    static const char unknown[] = "iaaaaaaaaaaaaaaaaaaaa";
    char a[32], b[32], token[80], path[160];
    kit_setup();
    kit.metrics = figures;
    kit_create("{\"templateID\":\"host\"}", a, token);
    kit_create("{\"templateID\":\"host\"}", b, token);
    assert_int_equal(ask_many((const char *const[]){a, unknown, b, a}, 4), 200);
    assert_true(told_of(a) && told_of(b) && !kit_said(unknown));
    assert_true(kit_said("\"cpuUsedPct\":50") && kit_said("\"memTotal\":1073741824"));
    assert_int_equal(kit.metrics_count, 2);
    snprintf(path, sizeof(path), "/sandboxes/metrics?sandbox_ids=%s&x=1&sandbox_ids=%s", a, b);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 200); /* these are fresh: nobody is asked */
    assert_true(told_of(a) && told_of(b));
    assert_int_equal(kit.metrics_count, 2);
    assert_int_equal(ask_many((const char *const[]){unknown}, 1), 200);
    assert_string_equal(kit.body.ptr, "{\"sandboxes\":{}}");
    the_sandbox(a)->samples->last_ms -= 5000;
    kit.metrics = "{}"; /* nonsense: what it told before stands */
    assert_int_equal(ask_many((const char *const[]){a}, 1), 200);
    assert_true(told_of(a));
    assert_int_equal(kit.metrics_count, 3);
    kit_teardown();
}

TEST(a_question_of_several_names_a_bounded_number)
{
    static const char *const bad[] = {"",
                                      "?sandbox_ids=",
                                      "?sandbox_ids=a,,b",
                                      "?sandbox_ids=A",
                                      "?sandbox_ids=a-b",
                                      "?sandbox_ids=%zz",
                                      "?sandbox_ids=iaaaaaaaaaaaaaaaaaaaaa"};
    char names[ABX__METRICS_AT_ONCE + 1][8], path[160];
    const char *ids[ABX__METRICS_AT_ONCE + 1];
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        snprintf(path, sizeof(path), "/sandboxes/metrics%s", bad[i]);
        if (kit_ask("GET", path, NULL, NULL) != 400 || !kit_said("sandbox_ids: 1 to 100"))
            fail_msg("%s: %s", bad[i], kit.body.ptr);
    }
    for (size_t i = 0; i < ABX_COUNTOF(ids); i++) {
        snprintf(names[i], sizeof(names[i]), "i%zu", i);
        ids[i] = names[i];
    }
    assert_int_equal(ask_many(ids, ABX__METRICS_AT_ONCE), 200);
    assert_int_equal(ask_many(ids, ABX__METRICS_AT_ONCE + 1), 400);
    kit_teardown();
}

TEST(a_silent_one_of_several_takes_no_others_figures_away)
{
    char a[32], b[32], token[80], path[96];
    kit_setup();
    kit.metrics = figures;
    kit_create("{\"templateID\":\"host\"}", a, token);
    kit_create("{\"templateID\":\"host\"}", b, token);
    assert_int_equal(ask_many((const char *const[]){a}, 1), 200);
    kit.metrics = NULL;
    const char *question = query_of((const char *const[]){a, b}, 2);
    int fd = send_question(question);
    assert_int_equal(kit_read(fd), 200); /* after 5 s */
    assert_true(told_of(a) && !told_of(b));
    close(fd);
    KIT_UNTIL(kit.hanging == NULL);
    the_sandbox(a)->samples->last_ms = abx_time_mono_ms(); /* only b is asked */
    fd = send_question(question);
    int aborts = kit.hang_aborts;
    close(fd);
    KIT_UNTIL(kit.hang_aborts > aborts);
    fd = send_question(question);
    snprintf(path, sizeof(path), "/sandboxes/%s", b);
    assert_int_equal(kit_ask("DELETE", path, NULL, NULL), 204);
    assert_int_equal(kit_read(fd), 200);
    assert_false(told_of(b));
    close(fd);
    kit_teardown();
}
