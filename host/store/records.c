/* host/store/records.c: log lines of builds, uploaded archives, images. Loop thread. */
#include "host/store/store_priv.h"
#include "host/store/templates.h"
#include "lib/base/err.h"
#include "lib/base/time.h"

#include "lib/base/banned.h"

/* Logs. */

struct log_batch {
    const char *build_id;
    const struct abx_store_log *logs;
    size_t count;
};

static int log_add(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct log_batch *b = arg;
    for (size_t i = 0; i < b->count; i++) {
        struct abx__stmt st;
        abx__stmt_open(&st, s->db,
                       "INSERT INTO build_logs(build_id, seq, at_ms, level, step, message)"
                       " VALUES(?, ?, ?, ?, ?, ?)");
        abx__stmt_str(&st, abx_str(b->build_id));
        abx__stmt_i64(&st, b->logs[i].seq);
        abx__stmt_i64(&st, b->logs[i].at_ms);
        abx__stmt_i64(&st, b->logs[i].level);
        abx__stmt_str(&st, b->logs[i].step);
        abx__stmt_str(&st, b->logs[i].message);
        if (abx__stmt_run(&st, "put log line", err) < 0)
            return -1;
    }
    return 0;
}

int abx_store_log_add(struct abx_store *s, const char *build_id, const struct abx_store_log *logs,
                      size_t count, struct abx_error *err)
{
    struct log_batch b = {build_id, logs, count};
    return abx__store_change(s, (struct abx__change){log_add, &b}, err);
}

int abx_store_log_each(struct abx_store *s, const char *build_id,
                       const struct abx_store_log_query *q, abx_store_log_fn *fn, void *arg,
                       struct abx_error *err)
{
    struct abx__stmt st;
    int r;
    abx__stmt_open(&st, s->db,
                   q->is_backward
                       ? "SELECT seq, at_ms, level, step, message FROM build_logs WHERE"
                         " build_id = ? AND seq < ? AND level >= ? AND (?4 = 0 OR at_ms <= ?4)"
                         " ORDER BY seq DESC LIMIT ?"
                       : "SELECT seq, at_ms, level, step, message FROM build_logs WHERE"
                         " build_id = ? AND seq >= ? AND level >= ? AND at_ms >= ?4"
                         " ORDER BY seq LIMIT ?");
    abx__stmt_str(&st, abx_str(build_id));
    abx__stmt_i64(&st, q->from);
    abx__stmt_i64(&st, q->level);
    abx__stmt_i64(&st, q->at_ms);
    abx__stmt_i64(&st, q->limit);
    while ((r = abx__stmt_step(&st, "read log", err)) > 0) {
        struct abx_store_log e = {.seq = sqlite3_column_int64(st.stmt, 0),
                                  .at_ms = sqlite3_column_int64(st.stmt, 1),
                                  .level = sqlite3_column_int(st.stmt, 2),
                                  .step = abx__stmt_col(&st, 3),
                                  .message = abx__stmt_col(&st, 4)};
        fn(arg, &e);
    }
    abx__stmt_close(&st);
    return r;
}

int abx_store_log_next(struct abx_store *s, const char *build_id, int64_t *ret,
                       struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "SELECT coalesce(max(seq) + 1, 0) FROM build_logs WHERE build_id = ?");
    abx__stmt_str(&st, abx_str(build_id));
    int r = abx__stmt_step(&st, "read log", err);
    if (r > 0)
        *ret = sqlite3_column_int64(st.stmt, 0);
    abx__stmt_close(&st);
    return r < 0 ? -1 : 0;
}

/* Uploads. */

int abx_store_upload_put(struct abx_store *s, struct abx_str hash, int64_t bytes,
                         const char *digest, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "INSERT INTO uploads(hash, bytes, digest, used_ms) VALUES(?, ?, ?, ?)"
                   " ON CONFLICT(hash) DO UPDATE SET bytes = excluded.bytes,"
                   " digest = excluded.digest, used_ms = excluded.used_ms");
    abx__stmt_str(&st, hash);
    abx__stmt_i64(&st, bytes);
    abx__stmt_str(&st, abx_str(digest));
    abx__stmt_i64(&st, abx_time_wall_ms());
    return abx__stmt_run(&st, "put upload", err);
}

int abx_store_upload_use(struct abx_store *s, struct abx_str hash,
                         char ret_digest[ABX_STORE_HASH_LEN + 1], struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "UPDATE uploads SET used_ms = ? WHERE hash = ? RETURNING digest");
    abx__stmt_i64(&st, abx_time_wall_ms());
    abx__stmt_str(&st, hash);
    int r = abx__stmt_step(&st, "use upload", err);
    if (r == 0)
        r = abx_err_set(err, ABX_NOT_FOUND, "no files of that hash were uploaded");
    else if (r > 0 && abx_str_to_c(abx__stmt_col(&st, 0), ret_digest, ABX_STORE_HASH_LEN + 1) < 0)
        r = abx_err_set(err, ABX_DATA_LOSS, "database: an upload row is not one of ours");
    if (r > 0)
        r = abx__stmt_step(&st, "use upload", err); /* to its end */
    abx__stmt_close(&st);
    return r;
}

int abx_store_upload_forget(struct abx_store *s, struct abx_str hash, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "DELETE FROM uploads WHERE hash = ?");
    abx__stmt_str(&st, hash);
    return abx__stmt_run(&st, "forget upload", err);
}

int abx_store_upload_oldest(struct abx_store *s, int64_t *ret_total,
                            char ret_hash[ABX_STORE_HASH_LEN + 1], struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "SELECT coalesce(sum(bytes), 0), coalesce((SELECT hash FROM uploads ORDER BY"
                   " used_ms, hash LIMIT 1), '') FROM uploads");
    int r = abx__stmt_step(&st, "read uploads", err);
    if (r > 0) {
        *ret_total = sqlite3_column_int64(st.stmt, 0);
        r = abx_str_to_c(abx__stmt_col(&st, 1), ret_hash, ABX_STORE_HASH_LEN + 1) < 0
                ? abx_err_set(err, ABX_DATA_LOSS, "database: an upload row is not one of ours")
                : 0;
    }
    abx__stmt_close(&st);
    return r;
}

/* Images. */

int abx_store_image_put(struct abx_store *s, const struct abx_store_image *image,
                        struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "INSERT INTO images(name, recipe, state, created_ms) VALUES(?, ?, ?, ?)"
                   " ON CONFLICT(name) DO UPDATE SET recipe = excluded.recipe,"
                   " state = excluded.state, created_ms = excluded.created_ms");
    abx__stmt_str(&st, image->name);
    abx__stmt_str(&st, image->recipe);
    abx__stmt_str(&st, image->state);
    abx__stmt_i64(&st, abx_time_wall_ms());
    return abx__stmt_run(&st, "put image", err);
}

static struct abx_store_image image_row(const struct abx__stmt *st)
{
    return (struct abx_store_image){abx__stmt_col(st, 0), abx__stmt_col(st, 1),
                                    abx__stmt_col(st, 2), sqlite3_column_int64(st->stmt, 3)};
}

int abx_store_image_get(struct abx_store *s, struct abx_str name, abx_store_image_fn *fn, void *arg,
                        struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "SELECT name, recipe, state, created_ms FROM images WHERE name = ?");
    abx__stmt_str(&st, name);
    int r = abx__stmt_step(&st, "read image", err);
    if (r > 0) {
        struct abx_store_image row = image_row(&st);
        fn(arg, &row);
        r = 0;
    } else if (r == 0) {
        r = abx_err_set(err, ABX_NOT_FOUND, "image '%.*s' not found",
                        (int)(name.len < ABX_STORE_NAME_MAX ? name.len : ABX_STORE_NAME_MAX),
                        name.ptr);
    }
    abx__stmt_close(&st);
    return r;
}

int abx_store_image_each(struct abx_store *s, abx_store_image_fn *fn, void *arg,
                         struct abx_error *err)
{
    struct abx__stmt st;
    int r;
    abx__stmt_open(&st, s->db, "SELECT name, recipe, state, created_ms FROM images ORDER BY name");
    while ((r = abx__stmt_step(&st, "read images", err)) > 0) {
        struct abx_store_image row = image_row(&st);
        fn(arg, &row);
    }
    abx__stmt_close(&st);
    return r;
}
