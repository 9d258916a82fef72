/* host/store/templates_test.c: templates, builds and their ends, tags, logs, uploads, images. */
#include "host/store/templates.h"

#include "lib/base/assert.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"

#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static char dir[64], path[128];
static struct abx_store *store;
static struct abx_error err;

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/abx-store-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/abx.db", dir);
    assert_int_equal(abx_store_open(path, &store, &err), 0);
}

static void reopen(void)
{
    abx_store_close(store);
    assert_int_equal(abx_store_open(path, &store, &err), 0);
}

static void teardown(void)
{
    abx_store_close(store);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, dir), 0);
}

static const char build_a[] = "00000000-0000-4000-8000-00000000000a";
static const char build_b[] = "00000000-0000-4000-8000-00000000000b";

static struct abx_store_template make(const char *alias, const char *id, const char *build,
                                      const char *tags)
{
    struct abx_store_template t = {0};
    struct abx_store_build b = {.cpu = 2, .memory_mb = 1024, .tags = abx_str(tags)};
    snprintf(t.id, sizeof(t.id), "%s", id);
    snprintf(t.alias, sizeof(t.alias), "%s", alias);
    snprintf(b.id, sizeof(b.id), "%s", build);
    if (abx_store_build_new(store, &t, &b, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(b.template_id, t.id);
    return t;
}

struct seen_build {
    int count;
    struct abx_store_build b;
    char request[64], state[64], reason[64], step[16];
};

static void see_build(void *arg, const struct abx_store_build *b)
{
    struct seen_build *s = arg;
    s->count++;
    s->b = *b;
    snprintf(s->request, sizeof(s->request), "%.*s", ABX_STR_FMT(b->request));
    snprintf(s->state, sizeof(s->state), "%.*s", ABX_STR_FMT(b->state));
    snprintf(s->reason, sizeof(s->reason), "%.*s", ABX_STR_FMT(b->reason));
    snprintf(s->step, sizeof(s->step), "%.*s", ABX_STR_FMT(b->reason_step));
}

static struct seen_build look(const char *id)
{
    struct seen_build s = {0};
    if (abx_store_build_get(store, "", abx_str(id), see_build, &s, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(s.count, 1);
    return s;
}

TEST(templates_second_build_joins_the_first)
{
    setup();
    struct abx_store_template a = make("hello", "aaaa", build_a, "default");
    struct abx_store_template b = make("hello", "bbbb", build_b, "v1");
    struct abx_store_template got = {0};
    assert_string_equal(a.id, "aaaa");
    assert_string_equal(b.id, "aaaa");
    assert_int_equal(abx_store_template_get(store, ABX_STR("hello"), &got, &err), 0);
    assert_int_equal(got.build_count, 2);
    assert_int_equal(abx_store_template_get(store, ABX_STR("aaaa"), &got, &err), 0);
    assert_string_equal(got.alias, "hello");
    assert_int_equal(abx_store_template_get(store, ABX_STR("bbbb"), &got, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    teardown();
}

TEST(templates_build_life_survives_a_reopening)
{
    setup();
    make("hello", "aaaa", build_a, "default,v1");
    assert_int_equal(look(build_a).b.status, ABX_STORE_WAITING);
    assert_int_equal(abx_store_build_start(store, build_a, ABX_STR("{\"steps\":[]}"), &err), 0);
    assert_int_equal(abx_store_build_start(store, build_a, ABX_STR("{}"), &err), -1);
    assert_int_equal(err.code, ABX_FAILED_PRECONDITION);
    assert_int_equal(abx_store_build_progress(store, build_a, 3, ABX_STR("{\"n\":3}"), &err), 0);
    reopen();
    struct seen_build s = {0};
    assert_int_equal(abx_store_build_each_status(store, ABX_STORE_BUILDING, see_build, &s, &err),
                     0);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.b.steps_done, 3);
    assert_string_equal(s.request, "{\"steps\":[]}");
    assert_string_equal(s.state, "{\"n\":3}");
    char found[ABX_STORE_BUILD_LEN + 1];
    assert_int_equal(abx_store_tag_get(store, "aaaa", ABX_STR("v1"), found, &err), -1);
    struct abx_store_build_end end = {.status = ABX_STORE_READY, .state = ABX_STR("{\"n\":4}")};
    assert_int_equal(abx_store_build_finish(store, build_a, &end, &err), 0);
    assert_string_equal(look(build_a).state, "{\"n\":4}");
    assert_int_equal(abx_store_tag_get(store, "aaaa", ABX_STR("v1"), found, &err), 0);
    assert_string_equal(found, build_a);
    assert_int_equal(abx_store_tag_get(store, "aaaa", ABX_STR("default"), found, &err), 0);
    teardown();
}

TEST(templates_old_builds_are_forgotten_but_tagged_ones)
{
    setup();
    struct abx_store_build_end end = {.status = ABX_STORE_READY, .state = ABX_STR("{}")};
    struct abx_store_template t = {0};
    char id[ABX_STORE_BUILD_LEN + 1];
    for (int i = 0; i < ABX_STORE_BUILDS_KEPT + 10; i++) {
        snprintf(id, sizeof(id), "00000000-0000-4000-8000-%012d", i);
        make("hello", "aaaa", id, i == 0 ? "first" : "default");
        assert_int_equal(abx_store_build_finish(store, id, &end, &err), 0);
    }
    assert_int_equal(abx_store_template_get(store, ABX_STR("hello"), &t, &err), 0);
    assert_int_equal(t.build_count, ABX_STORE_BUILDS_KEPT + 3); /* first, default, the newest */
    assert_int_equal(abx_store_tag_get(store, "aaaa", ABX_STR("first"), id, &err), 0);
    assert_int_equal(look(id).b.status, ABX_STORE_READY);
    teardown();
}

TEST(templates_a_failed_build_names_nothing)
{
    setup();
    make("hello", "aaaa", build_a, "default");
    struct abx_store_build_end end = {
        .status = ABX_STORE_ERROR, .reason = ABX_STR("no"), .reason_step = ABX_STR("2")};
    assert_int_equal(abx_store_build_start(store, build_a, ABX_STR("{}"), &err), 0);
    assert_int_equal(abx_store_build_finish(store, build_a, &end, &err), 0);
    struct seen_build s = look(build_a);
    assert_int_equal(s.b.status, ABX_STORE_ERROR);
    assert_string_equal(s.reason, "no");
    assert_string_equal(s.step, "2");
    assert_true(s.b.finished_ms > 0);
    char found[ABX_STORE_BUILD_LEN + 1];
    assert_int_equal(abx_store_tag_get(store, "aaaa", ABX_STR("default"), found, &err), -1);
    teardown();
}

static void count_tag(void *arg, struct abx_str tag, struct abx_str build_id, int64_t created_ms)
{
    assert_true(tag.len != 0 && build_id.len == ABX_STORE_BUILD_LEN && created_ms > 0);
    ++*(int *)arg;
}

TEST(templates_tags_and_deletion)
{
    setup();
    int count = 0;
    make("hello", "aaaa", build_a, "default");
    make("other", "bbbb", build_b, "default");
    assert_int_equal(abx_store_tag_set(store, "aaaa", ABX_STR("x"), build_a, &err), 0);
    assert_int_equal(abx_store_tag_set(store, "aaaa", ABX_STR("y"), build_a, &err), 0);
    assert_int_equal(abx_store_tag_each(store, "aaaa", count_tag, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(abx_store_tag_delete(store, "aaaa", ABX_STR("x"), &err), 0);
    assert_int_equal(abx_store_tag_delete(store, "aaaa", ABX_STR("x"), &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(abx_store_template_delete(store, "aaaa", &err), 0);
    count = 0;
    assert_int_equal(abx_store_tag_each(store, "aaaa", count_tag, &count, &err), 0);
    assert_int_equal(count, 0);
    struct seen_build s = {0};
    assert_int_equal(abx_store_build_get(store, "", ABX_STR(build_a), see_build, &s, &err), -1);
    assert_int_equal(abx_store_build_get(store, "bbbb", ABX_STR(build_b), see_build, &s, &err), 0);
    assert_int_equal(abx_store_build_get(store, "aaaa", ABX_STR(build_b), see_build, &s, &err), -1);
    teardown();
}

struct seen_logs {
    int count;
    int64_t first, last;
};

static void see_log(void *arg, const struct abx_store_log *e)
{
    struct seen_logs *s = arg;
    s->first = s->count == 0 ? e->seq : s->first;
    s->last = e->seq;
    s->count++;
}

TEST(templates_logs_page_both_ways_and_by_level)
{
    setup();
    struct abx_store_log logs[250];
    for (int i = 0; i < 250; i++)
        logs[i] = (struct abx_store_log){i, 1000 + i, i % 4, ABX_STR("1"), ABX_STR("line")};
    assert_int_equal(abx_store_log_add(store, build_a, logs, 250, &err), 0);
    static const struct {
        struct abx_store_log_query q;
        int count;
        int64_t first, last;
    } rows[] = {
        {{0, 100, 0, false, 0}, 100, 0, 99},    {{200, 100, 0, false, 0}, 50, 200, 249},
        {{250, 100, 0, false, 0}, 0, 0, 0},     {{250, 10, 0, true, 0}, 10, 249, 240},
        {{0, 1000, 3, false, 0}, 62, 3, 247},   {{0, 1000, 0, false, 1200}, 50, 200, 249},
        {{250, 1000, 0, true, 1009}, 10, 9, 0},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct seen_logs s = {0};
        assert_int_equal(abx_store_log_each(store, build_a, &rows[i].q, see_log, &s, &err), 0);
        assert_int_equal(s.count, rows[i].count);
        assert_int_equal(s.first, rows[i].first);
        assert_int_equal(s.last, rows[i].last);
    }
    int64_t next = 0;
    assert_int_equal(abx_store_log_next(store, build_a, &next, &err), 0);
    assert_int_equal(next, 250);
    assert_int_equal(abx_store_log_next(store, build_b, &next, &err), 0);
    assert_int_equal(next, 0);
    assert_int_equal(abx_store_log_add(store, build_a, logs, 1, &err), -1); /* no number twice */
    teardown();
}

TEST(templates_uploads_know_the_oldest)
{
    setup();
    char oldest[ABX_STORE_HASH_LEN + 1];
    char got[ABX_STORE_HASH_LEN + 1] = "", digest[ABX_STORE_HASH_LEN + 1];
    int64_t total = -1;
    memset(digest, 'd', ABX_STORE_HASH_LEN);
    digest[ABX_STORE_HASH_LEN] = '\0';
    assert_int_equal(abx_store_upload_oldest(store, &total, oldest, &err), 0);
    assert_int_equal(total, 0);
    assert_string_equal(oldest, "");
    assert_int_equal(abx_store_upload_put(store, ABX_STR("aa"), 10, digest, &err), 0);
    assert_int_equal(abx_store_upload_put(store, ABX_STR("bb"), 5, digest, &err), 0);
    assert_int_equal(abx_store_upload_use(store, ABX_STR("cc"), got, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(abx_store_upload_use(store, ABX_STR("bb"), got, &err), 0);
    assert_int_equal(abx_store_upload_oldest(store, &total, oldest, &err), 0);
    assert_int_equal(total, 15);
    assert_string_equal(oldest, "aa");
    assert_string_equal(got, digest);
    assert_int_equal(abx_store_upload_forget(store, ABX_STR("aa"), &err), 0);
    assert_int_equal(abx_store_upload_use(store, ABX_STR("aa"), got, &err), -1);
    teardown();
}

static void see_image(void *arg, const struct abx_store_image *image)
{
    snprintf(arg, 64, "%.*s/%.*s", ABX_STR_FMT(image->recipe), ABX_STR_FMT(image->state));
}

TEST(templates_images_are_replaced_by_name)
{
    setup();
    char text[64] = "";
    struct abx_store_image image = {ABX_STR("base"), ABX_STR("r1"), ABX_STR("{}"), 0};
    assert_int_equal(abx_store_image_get(store, image.name, see_image, text, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(abx_store_image_put(store, &image, &err), 0);
    image.recipe = ABX_STR("r2");
    assert_int_equal(abx_store_image_put(store, &image, &err), 0);
    assert_int_equal(abx_store_image_get(store, image.name, see_image, text, &err), 0);
    assert_string_equal(text, "r2/{}");
    teardown();
}

struct seen_template {
    int count;
    struct abx_store_template t;
};

static void see_template(void *arg, const struct abx_store_template *t)
{
    struct seen_template *s = arg;
    s->count++;
    s->t = *t;
}

TEST(templates_pages_are_stable)
{
    setup();
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        char build[ABX_STORE_BUILD_LEN + 1];
        snprintf(build, sizeof(build), "00000000-0000-4000-8000-00000000000%zu", i);
        make(names[i], names[i], build, "default");
    }
    struct abx_store_page page = {INT64_MAX, ABX_STR(""), 2};
    struct abx_store_template last;
    int total = 0;
    for (int pages = 0; pages < 5; pages++) {
        struct seen_template s = {0};
        assert_int_equal(abx_store_template_each(store, &page, see_template, &s, &err), 0);
        total += s.count;
        last = s.t;
        if (s.count == 0)
            break;
        page.before_ms = last.created_ms;
        page.after_id = abx_str(last.id);
    }
    assert_int_equal(total, 5);
    teardown();
}
