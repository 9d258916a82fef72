/* host/store/templates.c: templates, their builds and tags. Loop thread. */
#include "host/store/templates.h"

#include "host/store/store_priv.h"
#include "lib/base/assert.h"
#include "lib/base/err.h"
#include "lib/base/time.h"

#include "lib/base/banned.h"

static const char *const status_names[] = {
    [ABX_STORE_WAITING] = "waiting",
    [ABX_STORE_BUILDING] = "building",
    [ABX_STORE_READY] = "ready",
    [ABX_STORE_ERROR] = "error",
};
_Static_assert(ABX_COUNTOF(status_names) == ABX_STORE_STATUS__COUNT, "one name per status");

const char *abx_store_status_name(enum abx_store_status status)
{
    return status_names[status];
}

static int too_long(struct abx_error *err)
{
    return abx_err_set(err, ABX_DATA_LOSS, "database: a field of a template is too long");
}

/* Templates. */

#define TEMPLATE_COLUMNS                                                                           \
    "id, alias, is_public, created_ms, updated_ms, spawned_ms, spawn_count,"                       \
    " (SELECT count(*) FROM builds WHERE template_id = templates.id)"

static int read_template(const struct abx__stmt *st, struct abx_store_template *t,
                         struct abx_error *err)
{
    *t = (struct abx_store_template){.is_public = sqlite3_column_int(st->stmt, 2) != 0,
                                     .created_ms = sqlite3_column_int64(st->stmt, 3),
                                     .updated_ms = sqlite3_column_int64(st->stmt, 4),
                                     .spawned_ms = sqlite3_column_int64(st->stmt, 5),
                                     .spawn_count = sqlite3_column_int64(st->stmt, 6),
                                     .build_count = sqlite3_column_int64(st->stmt, 7)};
    if (abx_str_to_c(abx__stmt_col(st, 0), t->id, sizeof(t->id)) < 0 ||
        abx_str_to_c(abx__stmt_col(st, 1), t->alias, sizeof(t->alias)) < 0)
        return too_long(err);
    return 0;
}

int abx_store_template_get(struct abx_store *s, struct abx_str ref, struct abx_store_template *ret,
                           struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "SELECT " TEMPLATE_COLUMNS " FROM templates WHERE id = ?1 OR alias = ?1"
                   " ORDER BY id = ?1 DESC LIMIT 1");
    abx__stmt_str(&st, ref);
    int r = abx__stmt_step(&st, "read template", err);
    if (r > 0)
        r = read_template(&st, ret, err);
    else if (r == 0)
        r = abx_err_set(err, ABX_NOT_FOUND, "template '%.*s' not found",
                        (int)(ref.len < ABX_STORE_NAME_MAX ? ref.len : ABX_STORE_NAME_MAX),
                        ref.ptr);
    abx__stmt_close(&st);
    return r;
}

int abx_store_template_each(struct abx_store *s, const struct abx_store_page *page,
                            abx_store_template_fn *fn, void *arg, struct abx_error *err)
{
    struct abx__stmt st;
    int r;
    abx__stmt_open(&st, s->db,
                   "SELECT " TEMPLATE_COLUMNS " FROM templates WHERE created_ms < ?1 OR"
                   " (created_ms = ?1 AND id > ?2) ORDER BY created_ms DESC, id LIMIT ?3");
    abx__stmt_i64(&st, page->before_ms);
    abx__stmt_str(&st, page->after_id);
    abx__stmt_i64(&st, page->limit);
    while ((r = abx__stmt_step(&st, "read templates", err)) > 0) {
        struct abx_store_template t;
        r = read_template(&st, &t, err);
        if (r < 0)
            break;
        fn(arg, &t);
    }
    abx__stmt_close(&st);
    return r;
}

int abx_store_template_set_public(struct abx_store *s, const char *id, bool is_public,
                                  struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "UPDATE templates SET is_public = ?, updated_ms = ? WHERE id = ?");
    abx__stmt_i64(&st, is_public);
    abx__stmt_i64(&st, abx_time_wall_ms());
    abx__stmt_str(&st, abx_str(id));
    return abx__stmt_run(&st, "publish template", err);
}

int abx_store_template_spawned(struct abx_store *s, const char *id, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "UPDATE templates SET spawn_count = spawn_count + 1, spawned_ms = ?"
                   " WHERE id = ?");
    abx__stmt_i64(&st, abx_time_wall_ms());
    abx__stmt_str(&st, abx_str(id));
    return abx__stmt_run(&st, "count sandbox", err);
}

static const char *const delete_sql[] = {
    "DELETE FROM build_logs WHERE build_id IN (SELECT id FROM builds WHERE template_id = ?)",
    "DELETE FROM builds WHERE template_id = ?",
    "DELETE FROM tags WHERE template_id = ?",
    "DELETE FROM templates WHERE id = ?",
};

static int template_delete(struct abx_store *s, const void *arg, struct abx_error *err)
{
    for (size_t i = 0; i < ABX_COUNTOF(delete_sql); i++) {
        struct abx__stmt st;
        abx__stmt_open(&st, s->db, delete_sql[i]);
        abx__stmt_str(&st, abx_str(arg));
        if (abx__stmt_run(&st, "delete template", err) < 0)
            return -1;
    }
    return 0;
}

int abx_store_template_delete(struct abx_store *s, const char *id, struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){template_delete, id}, err);
}

/* Builds. */

#define BUILD_COLUMNS                                                                              \
    "id, template_id, status, cpu, memory_mb, steps_done, tags, request, state, reason,"           \
    " reason_step, created_ms, updated_ms, finished_ms"

static int read_build(const struct abx__stmt *st, struct abx_store_build *b, struct abx_error *err)
{
    struct abx_str status = abx__stmt_col(st, 2);
    *b = (struct abx_store_build){.status = ABX_STORE_STATUS__COUNT,
                                  .cpu = (uint32_t)sqlite3_column_int64(st->stmt, 3),
                                  .memory_mb = (uint32_t)sqlite3_column_int64(st->stmt, 4),
                                  .steps_done = (uint32_t)sqlite3_column_int64(st->stmt, 5),
                                  .tags = abx__stmt_col(st, 6),
                                  .request = abx__stmt_col(st, 7),
                                  .state = abx__stmt_col(st, 8),
                                  .reason = abx__stmt_col(st, 9),
                                  .reason_step = abx__stmt_col(st, 10),
                                  .created_ms = sqlite3_column_int64(st->stmt, 11),
                                  .updated_ms = sqlite3_column_int64(st->stmt, 12),
                                  .finished_ms = sqlite3_column_int64(st->stmt, 13)};
    for (unsigned i = 0; i < ABX_STORE_STATUS__COUNT; i++)
        b->status = abx_str_is(status, status_names[i]) ? (enum abx_store_status)i : b->status;
    if (b->status == ABX_STORE_STATUS__COUNT ||
        abx_str_to_c(abx__stmt_col(st, 0), b->id, sizeof(b->id)) < 0 ||
        abx_str_to_c(abx__stmt_col(st, 1), b->template_id, sizeof(b->template_id)) < 0)
        return abx_err_set(err, ABX_DATA_LOSS, "database: a build row is not one of ours");
    return 0;
}

struct new_build {
    struct abx_store_template *t;
    struct abx_store_build *b;
};

static int template_insert(struct abx_store *s, struct abx_store_template *t, struct abx_error *err)
{
    struct abx__stmt st;
    t->created_ms = t->updated_ms = abx_time_wall_ms();
    abx__stmt_open(&st, s->db,
                   "INSERT INTO templates(id, alias, is_public, created_ms, updated_ms,"
                   " spawned_ms, spawn_count) VALUES(?, ?, 0, ?, ?, 0, 0)");
    abx__stmt_str(&st, abx_str(t->id));
    abx__stmt_str(&st, abx_str(t->alias));
    abx__stmt_i64(&st, t->created_ms);
    abx__stmt_i64(&st, t->updated_ms);
    return abx__stmt_run(&st, "put template", err);
}

/* Ended builds that no tag names, but for the newest, with their logs. */
#define OLD_BUILDS                                                                                 \
    "(SELECT id FROM builds WHERE template_id = ?1 AND status <> 'building' AND id NOT IN"         \
    " (SELECT build_id FROM tags WHERE template_id = ?1)"                                          \
    " ORDER BY created_ms DESC, id LIMIT -1 OFFSET ?2)"
static const char *const prune_sql[] = {
    "DELETE FROM build_logs WHERE build_id IN " OLD_BUILDS,
    "DELETE FROM builds WHERE id IN " OLD_BUILDS,
};

static int prune(struct abx_store *s, const char *template_id, struct abx_error *err)
{
    for (size_t i = 0; i < ABX_COUNTOF(prune_sql); i++) {
        struct abx__stmt st;
        abx__stmt_open(&st, s->db, prune_sql[i]);
        abx__stmt_str(&st, abx_str(template_id));
        abx__stmt_i64(&st, ABX_STORE_BUILDS_KEPT);
        if (abx__stmt_run(&st, "forget old builds", err) < 0)
            return -1;
    }
    return 0;
}

static int build_new(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct new_build *n = arg;
    struct abx_store_template found;
    struct abx_error none = {0};
    struct abx__stmt st;
    if (abx_store_template_get(s, abx_str(n->t->alias), &found, &none) == 0)
        *n->t = found;
    else if (none.code != ABX_NOT_FOUND || template_insert(s, n->t, err) < 0)
        return none.code != ABX_NOT_FOUND ? abx_err_set(err, none.code, "%s", none.msg) : -1;
    if (prune(s, n->t->id, err) < 0)
        return -1;
    memcpy(n->b->template_id, n->t->id, sizeof(n->b->template_id));
    n->b->created_ms = n->b->updated_ms = abx_time_wall_ms();
    abx__stmt_open(&st, s->db,
                   "INSERT INTO builds(" BUILD_COLUMNS ")"
                   " VALUES(?, ?, 'waiting', ?, ?, 0, ?, '', '', '', '', ?, ?, 0)");
    abx__stmt_str(&st, abx_str(n->b->id));
    abx__stmt_str(&st, abx_str(n->b->template_id));
    abx__stmt_i64(&st, n->b->cpu);
    abx__stmt_i64(&st, n->b->memory_mb);
    abx__stmt_str(&st, n->b->tags);
    abx__stmt_i64(&st, n->b->created_ms);
    abx__stmt_i64(&st, n->b->updated_ms);
    return abx__stmt_run(&st, "put build", err);
}

int abx_store_build_new(struct abx_store *s, struct abx_store_template *t,
                        struct abx_store_build *b, struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){build_new, &(struct new_build){t, b}}, err);
}

/* Calls @fn for each row of @st and closes it; the number of rows, or -1. */
static int walk_builds(struct abx__stmt *st, abx_store_build_fn *fn, void *arg,
                       struct abx_error *err)
{
    int r, count = 0;
    while ((r = abx__stmt_step(st, "read builds", err)) > 0) {
        struct abx_store_build b;
        r = read_build(st, &b, err);
        if (r < 0)
            break;
        fn(arg, &b);
        count++;
    }
    abx__stmt_close(st);
    return r < 0 ? -1 : count;
}

int abx_store_build_get(struct abx_store *s, const char *template_id, struct abx_str id,
                        abx_store_build_fn *fn, void *arg, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "SELECT " BUILD_COLUMNS " FROM builds WHERE id = ?1 AND"
                   " (?2 = '' OR template_id = ?2)");
    abx__stmt_str(&st, id);
    abx__stmt_str(&st, abx_str(template_id));
    int n = walk_builds(&st, fn, arg, err);
    if (n == 0)
        return abx_err_set(err, ABX_NOT_FOUND, "build '%.*s' not found",
                           (int)(id.len < 64 ? id.len : 64), id.ptr);
    return n < 0 ? -1 : 0;
}

int abx_store_build_each(struct abx_store *s, const char *template_id,
                         const struct abx_store_page *page, abx_store_build_fn *fn, void *arg,
                         struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "SELECT " BUILD_COLUMNS " FROM builds WHERE template_id = ?1 AND"
                   " (created_ms < ?2 OR (created_ms = ?2 AND id > ?3))"
                   " ORDER BY created_ms DESC, id LIMIT ?4");
    abx__stmt_str(&st, abx_str(template_id));
    abx__stmt_i64(&st, page->before_ms);
    abx__stmt_str(&st, page->after_id);
    abx__stmt_i64(&st, page->limit);
    return walk_builds(&st, fn, arg, err) < 0 ? -1 : 0;
}

int abx_store_build_each_status(struct abx_store *s, enum abx_store_status status,
                                abx_store_build_fn *fn, void *arg, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "SELECT " BUILD_COLUMNS " FROM builds WHERE status = ? ORDER BY created_ms, id");
    abx__stmt_str(&st, abx_str(status_names[status]));
    return walk_builds(&st, fn, arg, err) < 0 ? -1 : 0;
}

int abx_store_build_start(struct abx_store *s, const char *id, struct abx_str request,
                          struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "UPDATE builds SET status = 'building', request = ?, updated_ms = ?"
                   " WHERE id = ? AND status = 'waiting'");
    abx__stmt_str(&st, request);
    abx__stmt_i64(&st, abx_time_wall_ms());
    abx__stmt_str(&st, abx_str(id));
    if (abx__stmt_run(&st, "start build", err) < 0)
        return -1;
    if (sqlite3_changes(s->db) != 1)
        return abx_err_set(err, ABX_FAILED_PRECONDITION, "build is not in waiting state");
    return 0;
}

int abx_store_build_progress(struct abx_store *s, const char *id, uint32_t steps_done,
                             struct abx_str state, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "UPDATE builds SET steps_done = ?, state = ?, updated_ms = ? WHERE id = ?");
    abx__stmt_i64(&st, steps_done);
    abx__stmt_str(&st, state);
    abx__stmt_i64(&st, abx_time_wall_ms());
    abx__stmt_str(&st, abx_str(id));
    return abx__stmt_run(&st, "note step", err);
}

struct finish {
    const char *id;
    const struct abx_store_build_end *end;
};

/* On the stack: the end of a build must not fail for want of memory. */
struct named {
    char template_id[ABX_STORE_TEMPLATE_LEN + 1];
    char tags[ABX_STORE_TAGS_MAX];
    bool is_bad;
};

static void copy_tags(void *arg, const struct abx_store_build *b)
{
    struct named *n = arg;
    memcpy(n->template_id, b->template_id, sizeof(n->template_id));
    n->is_bad = abx_str_to_c(b->tags, n->tags, sizeof(n->tags)) < 0;
}

static int name_it(struct abx_store *s, const struct named *n, const char *id,
                   struct abx_error *err)
{
    struct abx_str rest = abx_str(n->tags), tag;
    while (abx_str_split(&rest, ',', &tag)) {
        if (tag.len != 0 && abx_store_tag_set(s, n->template_id, tag, id, err) < 0)
            return -1;
    }
    return 0;
}

static int build_finish(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct finish *f = arg;
    struct named n = {0};
    struct abx__stmt st;
    int64_t now = abx_time_wall_ms();
    if (abx_store_build_get(s, "", abx_str(f->id), copy_tags, &n, err) < 0)
        return -1;
    if (n.is_bad)
        return abx_err_set(err, ABX_DATA_LOSS, "database: the tags of a build are not ours");
    if (f->end->status == ABX_STORE_READY && name_it(s, &n, f->id, err) < 0)
        return -1;
    abx__stmt_open(&st, s->db,
                   "UPDATE builds SET status = ?, state = iif(?2 = '', state, ?2), reason = ?,"
                   " reason_step = ?, updated_ms = ?, finished_ms = ?5 WHERE id = ?");
    abx__stmt_str(&st, abx_str(status_names[f->end->status]));
    abx__stmt_str(&st, f->end->state);
    abx__stmt_str(&st, f->end->reason);
    abx__stmt_str(&st, f->end->reason_step);
    abx__stmt_i64(&st, now);
    abx__stmt_str(&st, abx_str(f->id));
    if (abx__stmt_run(&st, "end build", err) < 0)
        return -1;
    abx__stmt_open(&st, s->db, "UPDATE templates SET updated_ms = ? WHERE id = ?");
    abx__stmt_i64(&st, now);
    abx__stmt_str(&st, abx_str(n.template_id));
    return abx__stmt_run(&st, "touch template", err);
}

int abx_store_build_finish(struct abx_store *s, const char *id,
                           const struct abx_store_build_end *end, struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){build_finish, &(struct finish){id, end}}, err);
}

/* Tags. */

int abx_store_tag_get(struct abx_store *s, const char *template_id, struct abx_str tag,
                      char ret_build[ABX_STORE_BUILD_LEN + 1], struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "SELECT build_id FROM tags WHERE template_id = ? AND tag = ?");
    abx__stmt_str(&st, abx_str(template_id));
    abx__stmt_str(&st, tag);
    int r = abx__stmt_step(&st, "read tag", err);
    if (r == 0)
        r = abx_err_set(err, ABX_NOT_FOUND, "tag '%.*s' does not exist",
                        (int)(tag.len < ABX_STORE_NAME_MAX ? tag.len : ABX_STORE_NAME_MAX),
                        tag.ptr);
    else if (r > 0)
        r = abx_str_to_c(abx__stmt_col(&st, 0), ret_build, ABX_STORE_BUILD_LEN + 1) < 0
                ? too_long(err)
                : 0;
    abx__stmt_close(&st);
    return r;
}

int abx_store_tag_set(struct abx_store *s, const char *template_id, struct abx_str tag,
                      const char *build_id, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "INSERT INTO tags(template_id, tag, build_id, created_ms) VALUES(?, ?, ?, ?)"
                   " ON CONFLICT(template_id, tag) DO UPDATE SET build_id = excluded.build_id,"
                   " created_ms = excluded.created_ms");
    abx__stmt_str(&st, abx_str(template_id));
    abx__stmt_str(&st, tag);
    abx__stmt_str(&st, abx_str(build_id));
    abx__stmt_i64(&st, abx_time_wall_ms());
    return abx__stmt_run(&st, "put tag", err);
}

int abx_store_tag_delete(struct abx_store *s, const char *template_id, struct abx_str tag,
                         struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "DELETE FROM tags WHERE template_id = ? AND tag = ?");
    abx__stmt_str(&st, abx_str(template_id));
    abx__stmt_str(&st, tag);
    if (abx__stmt_run(&st, "delete tag", err) < 0)
        return -1;
    if (sqlite3_changes(s->db) == 0)
        return abx_err_set(err, ABX_NOT_FOUND, "tag '%.*s' does not exist",
                           (int)(tag.len < ABX_STORE_NAME_MAX ? tag.len : ABX_STORE_NAME_MAX),
                           tag.ptr);
    return 0;
}

int abx_store_tag_each(struct abx_store *s, const char *template_id, abx_store_tag_fn *fn,
                       void *arg, struct abx_error *err)
{
    struct abx__stmt st;
    int r;
    abx__stmt_open(&st, s->db,
                   "SELECT tag, build_id, created_ms FROM tags WHERE template_id = ?"
                   " ORDER BY created_ms DESC, tag");
    abx__stmt_str(&st, abx_str(template_id));
    while ((r = abx__stmt_step(&st, "read tags", err)) > 0)
        fn(arg, abx__stmt_col(&st, 0), abx__stmt_col(&st, 1), sqlite3_column_int64(st.stmt, 2));
    abx__stmt_close(&st);
    return r;
}
