/* host/engine/list.c: listing sandboxes: filters, order, stable pages (control-plane 4).
 *
 * Loop thread. "More" is known from one row beyond the page, so that X-Next-Token is absent exactly
 * on the last page. A cursor is the start and id of the last row shown. */
#include "host/engine/list_priv.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/wire/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100, PAIRS_MAX = 64, ANSWER_MAX = 64 * 1024 * 1024 };

struct query {
    struct abx_json_pair pairs[PAIRS_MAX];
    size_t pair_count;
    bool is_ascending, wants_running, has_after, has_cursor, is_all;
    int64_t after_us;
    struct abx_str template_name;
    uint32_t limit, offset; /* limit 0: all */
    int64_t cursor_ns;
    struct abx_str cursor_id;
};

/* The value was decoded once by the query; each part is form-decoded, then percent-decoded. */
static int decode_twice(struct abx_str part, struct abx_arena *a, struct abx_str *ret)
{
    struct abx_str once;
    if (abx_url_decode(part, true, a, &once) < 0)
        return -1;
    return abx_url_decode(once, false, a, ret);
}

static int read_metadata(struct query *q, struct abx_str text, struct abx_arena *a)
{
    struct abx_str pair;
    while (abx_str_split(&text, '&', &pair)) {
        if (pair.len == 0)
            continue;
        struct abx_str key, value = pair;
        abx_str_split(&value, '=', &key);
        if (q->pair_count == PAIRS_MAX)
            return -1;
        struct abx_json_pair *p = &q->pairs[q->pair_count++];
        if (decode_twice(key, a, &p->key) < 0 || decode_twice(value, a, &p->value) < 0)
            return -1;
    }
    return 0;
}

static int read_states(struct query *q, struct abx_str text, struct abx_arena *a)
{
    struct abx_str one;
    (void)a;
    q->wants_running = false;
    while (abx_str_split(&text, ',', &one)) {
        if (abx_str_is(one, "running"))
            q->wants_running = true;
        else if (!abx_str_is(one, "paused")) /* legal, but nothing is ever paused here */
            return -1;
    }
    return 0;
}

static int read_order(struct query *q, struct abx_str text, struct abx_arena *a)
{
    (void)a;
    q->is_ascending = abx_str_is(text, "asc");
    return q->is_ascending || abx_str_is(text, "desc") ? 0 : -1;
}

static int read_after(struct query *q, struct abx_str text, struct abx_arena *a)
{
    int64_t ns = 0;
    (void)a;
    if (abx_time_parse(text, &ns) < 0)
        return -1;
    q->has_after = true;
    q->after_us = ns / 1000;
    return 0;
}

static int read_template(struct query *q, struct abx_str text, struct abx_arena *a)
{
    (void)a;
    q->template_name = text;
    return 0;
}

static int read_limit(struct query *q, struct abx_str text, struct abx_arena *a)
{
    (void)a;
    if (abx_parse_u32(text, &q->limit) < 0 || q->limit == 0 || q->limit > LIMIT_MAX)
        return -1;
    return 0;
}

static int read_offset(struct query *q, struct abx_str text, struct abx_arena *a)
{
    (void)a;
    return abx_parse_u32(text, &q->offset);
}

/* As the published client names states; sandboxes of this engine run or are gone. */
static int read_status(struct query *q, struct abx_str text, struct abx_arena *a)
{
    static const char *const states[] = {"creating", "running", "paused", "pausing",
                                         "stopping", "stopped", "error"};
    (void)a;
    q->wants_running = abx_str_is(text, "running");
    for (size_t i = 0; i < ABX_COUNTOF(states); i++)
        if (abx_str_is(text, states[i]))
            return 0;
    return -1;
}

static int read_cursor(struct query *q, struct abx_str text, struct abx_arena *a)
{
    struct abx_str start;
    (void)a;
    if (text.len == 0)
        return 0;
    q->cursor_id = text;
    q->has_cursor = true;
    abx_str_split(&q->cursor_id, '_', &start);
    if (!abx_store_id_is_valid(q->cursor_id))
        return -1;
    return abx_parse_i64(start, &q->cursor_ns);
}

static const struct {
    const char *name;
    int (*read)(struct query *q, struct abx_str text, struct abx_arena *a);
    bool is_v1, is_v2;
} parameters[] = {
    {"metadata", read_metadata, true, true},     {"limit", read_limit, true, true},
    {"offset", read_offset, .is_v1 = true},      {"status", read_status, .is_v1 = true},
    {"state", read_states, .is_v2 = true},       {"order", read_order, .is_v2 = true},
    {"startedAfter", read_after, .is_v2 = true}, {"template", read_template, .is_v2 = true},
    {"nextToken", read_cursor, .is_v2 = true},
};

static bool read_query(struct abx__call *c, struct query *q)
{
    struct abx_str text;
    for (size_t i = 0; i < ABX_COUNTOF(parameters); i++) {
        if (q->is_all ? !parameters[i].is_v1 : !parameters[i].is_v2)
            continue;
        int r = abx_url_query_get(c->req->query, parameters[i].name, c->req->arena, &text);
        if (r == 0)
            continue;
        if (r < 0 || parameters[i].read(q, text, c->req->arena) < 0) {
            abx__api_fail(c, 400, "validation error: query parameter %s", parameters[i].name);
            return false;
        }
    }
    return true;
}

static bool has_pair(const struct abx__sandbox *sb, const struct abx_json_pair *want)
{
    for (size_t i = 0; i < sb->metadata.count; i++) {
        if (abx_str_eq(sb->metadata.pairs[i].key, want->key) &&
            abx_str_eq(sb->metadata.pairs[i].value, want->value))
            return true;
    }
    return false;
}

/* By start, then id: < 0 when (a_ns, a_id) is shown before (b_ns, b_id) in ascending order. */
static int compare_keys(int64_t a_ns, struct abx_str a_id, int64_t b_ns, struct abx_str b_id)
{
    if (a_ns != b_ns)
        return a_ns < b_ns ? -1 : 1;
    size_t n = a_id.len < b_id.len ? a_id.len : b_id.len;
    return memcmp(a_id.ptr, b_id.ptr, n);
}

static bool is_wanted(const struct abx__sandbox *sb, const struct query *q)
{
    if (sb->state != ABX__RUNNING || !q->wants_running)
        return false;
    if (q->template_name.ptr != NULL && !abx_str_is(q->template_name, sb->template_name) &&
        !abx_str_is(q->template_name, sb->alias))
        return false;
    if (q->has_after && sb->started_ns / 1000 < q->after_us)
        return false;
    for (size_t i = 0; i < q->pair_count; i++) {
        if (!has_pair(sb, &q->pairs[i]))
            return false;
    }
    if (!q->has_cursor)
        return true;
    int order = compare_keys(sb->started_ns, abx_str(sb->id), q->cursor_ns, q->cursor_id);
    return q->is_ascending ? order > 0 : order < 0;
}

static int ascending(const void *a, const void *b)
{
    const struct abx__sandbox *x = *(const struct abx__sandbox *const *)a;
    const struct abx__sandbox *y = *(const struct abx__sandbox *const *)b;
    return compare_keys(x->started_ns, abx_str(x->id), y->started_ns, abx_str(y->id));
}

static int descending(const void *a, const void *b)
{
    return ascending(b, a);
}

static void answer(struct abx__call *c, struct abx__sandbox *const *rows, size_t count,
                   const struct abx_http_extra *more)
{
    ABX_AUTO_BUF b = {.max = ANSWER_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        abx_json_begin_object(&w);
        abx__write_listed(&w, rows[i]);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx__api_answer_buf(c, 200, &b, more);
}

static void list(struct abx__call *c, struct query *q)
{
    struct abx__engine *e = c->engine;
    size_t it = 0, count = 0, running = 0;
    struct abx_str id;
    void *value;
    if (!read_query(c, q))
        return;
    struct abx__sandbox **rows =
        abx_arena_array(c->req->arena, e->sandboxes.count + 1, sizeof(*rows));
    if (rows == NULL) {
        abx__api_fail(c, 500, "no memory for the list");
        return;
    }
    while (abx_map_next(&e->sandboxes, &it, &id, &value)) {
        struct abx__sandbox *sb = value;
        if (sb->is_hidden)
            continue;
        running += sb->state == ABX__RUNNING ? 1 : 0;
        if (is_wanted(sb, q))
            rows[count++] = sb;
    }
    qsort(rows, count, sizeof(struct abx__sandbox *), q->is_ascending ? ascending : descending);
    struct abx_http_extra more[3] = {{0}};
    size_t n = 0;
    char total[24], next[64];
    if (!q->is_all) {
        snprintf(total, sizeof(total), "%zu", running);
        more[n++] = (struct abx_http_extra){"X-Total-Running", abx_str(total)};
    }
    if (!q->is_all && count > q->limit) {
        count = q->limit;
        snprintf(next, sizeof(next), "%" PRId64 "_%s", rows[count - 1]->started_ns,
                 rows[count - 1]->id);
        more[n++] = (struct abx_http_extra){"X-Next-Token", abx_str(next)};
    }
    size_t skipped = q->offset < count ? q->offset : count;
    count -= skipped;
    if (q->is_all && q->limit != 0 && count > q->limit)
        count = q->limit;
    answer(c, rows + skipped, count, more);
}

void abx__list_v1(struct abx__call *c)
{
    struct query q = {.wants_running = true, .is_all = true};
    list(c, &q);
}

void abx__list_v2(struct abx__call *c)
{
    struct query q = {.wants_running = true, .limit = LIMIT_DEFAULT};
    list(c, &q);
}
