/* host/store/store.c: the engine's database: keys (hashed), sandboxes, intents. Loop thread.
 *
 * Each public call is one transaction that is on the disk when it returns (WAL, synchronous=FULL;
 * security S65). Keys are few, so their hashes are also held in memory. */
#include "host/store/store_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

enum { BUSY_MS = 2000 };

/* Row N brings the schema from version N to N + 1; rows are only ever added. */
static const char *const migrations[] = {
    "CREATE TABLE keys(name TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE,"
    " created_ms INTEGER NOT NULL) STRICT;"
    "CREATE TABLE sandboxes(id TEXT PRIMARY KEY, nonce BLOB NOT NULL, state TEXT NOT NULL,"
    " template TEXT NOT NULL, token TEXT UNIQUE, metadata TEXT NOT NULL, envs TEXT NOT NULL,"
    " started_ns INTEGER NOT NULL, end_ms INTEGER NOT NULL, shim_pid INTEGER NOT NULL,"
    " init_pid INTEGER NOT NULL, shim_start INTEGER NOT NULL) STRICT;"
    "CREATE TABLE intents(id INTEGER PRIMARY KEY AUTOINCREMENT, sandbox_id TEXT NOT NULL,"
    " op TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT;"
    "CREATE INDEX intents_sandbox ON intents(sandbox_id);",
    "CREATE TABLE templates(id TEXT PRIMARY KEY, alias TEXT NOT NULL UNIQUE,"
    " is_public INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " spawned_ms INTEGER NOT NULL, spawn_count INTEGER NOT NULL) STRICT;"
    "CREATE TABLE builds(id TEXT PRIMARY KEY, template_id TEXT NOT NULL, status TEXT NOT NULL,"
    " cpu INTEGER NOT NULL, memory_mb INTEGER NOT NULL, tags TEXT NOT NULL, request TEXT NOT NULL,"
    " steps_done INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,"
    " reason_step TEXT NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " finished_ms INTEGER NOT NULL) STRICT;"
    "CREATE INDEX builds_template ON builds(template_id);"
    "CREATE TABLE build_logs(build_id TEXT NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL,"
    " level INTEGER NOT NULL, step TEXT NOT NULL, message TEXT NOT NULL,"
    " PRIMARY KEY(build_id, seq)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE tags(template_id TEXT NOT NULL, tag TEXT NOT NULL, build_id TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, PRIMARY KEY(template_id, tag)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE uploads(hash TEXT PRIMARY KEY, bytes INTEGER NOT NULL,"
    " digest TEXT NOT NULL, used_ms INTEGER NOT NULL) STRICT;"
    "CREATE TABLE images(name TEXT PRIMARY KEY, recipe TEXT NOT NULL, state TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL) STRICT;"
    "ALTER TABLE sandboxes ADD COLUMN build_id TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sandboxes ADD COLUMN alias TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sandboxes ADD COLUMN server_tokens TEXT NOT NULL DEFAULT '';",
    "ALTER TABLE sandboxes ADD COLUMN traffic_token TEXT NOT NULL DEFAULT '';",
};

bool abx_store_id_is_valid(struct abx_str id)
{
    if (id.len != ABX_STORE_ID_LEN || id.ptr[0] != 'i')
        return false;
    for (size_t i = 1; i < id.len; i++) {
        char c = id.ptr[i];
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9'))
            return false;
    }
    return true;
}

static int schema_version(sqlite3 *db, int64_t *ret, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, db, "SELECT coalesce(max(version), 0) FROM migrations");
    int r = abx__stmt_step(&st, "schema version", err);
    if (r > 0)
        *ret = sqlite3_column_int64(st.stmt, 0);
    abx__stmt_close(&st);
    return r < 0 ? -1 : 0;
}

static int apply_migration(sqlite3 *db, size_t version, struct abx_error *err)
{
    struct abx__stmt st;
    if (abx__db_exec(db, "BEGIN IMMEDIATE", err) < 0)
        return -1;
    if (abx__db_exec(db, migrations[version], err) < 0)
        goto undo;
    abx__stmt_open(&st, db, "INSERT INTO migrations(version, applied_ms) VALUES(?, ?)");
    abx__stmt_i64(&st, (int64_t)version + 1);
    abx__stmt_i64(&st, abx_time_wall_ms());
    if (abx__stmt_run(&st, "note migration", err) < 0)
        goto undo;
    if (abx__db_exec(db, "COMMIT", err) == 0)
        return 0;
undo:
    abx__db_exec(db, "ROLLBACK", NULL);
    return -1;
}

static int migrate(sqlite3 *db, struct abx_error *err)
{
    int64_t version = 0;
    if (abx__db_exec(db,
                     "CREATE TABLE IF NOT EXISTS migrations(version INTEGER PRIMARY KEY,"
                     " applied_ms INTEGER NOT NULL) STRICT",
                     err) < 0 ||
        schema_version(db, &version, err) < 0)
        return -1;
    if (version < 0 || (size_t)version > ABX_COUNTOF(migrations))
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "database: schema %lld is newer than this program; use a newer abx",
                           (long long)version);
    for (size_t i = (size_t)version; i < ABX_COUNTOF(migrations); i++) {
        if (apply_migration(db, i, err) < 0)
            return -1;
    }
    return 0;
}

static int load_keys(struct abx_store *s, struct abx_error *err)
{
    struct abx__stmt st;
    int r;
    s->key_count = 0;
    abx__stmt_open(&st, s->db, "SELECT hash FROM keys ORDER BY name");
    while ((r = abx__stmt_step(&st, "read keys", err)) > 0) {
        struct abx_str hash = abx__stmt_col(&st, 0);
        if (hash.len != sizeof(s->keys[0]) || s->key_count == ABX__KEYS_MAX) {
            r = abx_err_set(err, ABX_DATA_LOSS, "database: keys: a hash of %zu bytes or over %d",
                            hash.len, ABX__KEYS_MAX);
            break;
        }
        memcpy(s->keys[s->key_count++], hash.ptr, hash.len);
    }
    abx__stmt_close(&st);
    return r;
}

/* The file is made by us, so that its mode never depends on the umask; the WAL files follow it. */
static int make_file(const char *path, struct abx_error *err)
{
    ABX_AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return abx_err_sys(err, -errno, "open database %s", path);
    if (fchmod(fd, 0600) < 0)
        return abx_err_sys(err, -errno, "chmod database %s", path);
    return 0;
}

int abx_store_open(const char *path, struct abx_store **ret, struct abx_error *err)
{
    if (sodium_init() < 0)
        return abx_err_set(err, ABX_INTERNAL, "libsodium does not start");
    if (make_file(path, err) < 0)
        return -1;
    struct abx_store *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the store");
    if (abx__db_open(path, &s->db, err) < 0)
        goto fail;
    sqlite3_busy_timeout(s->db, BUSY_MS);
    if (abx__db_exec(s->db,
                     "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;"
                     " PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON",
                     err) < 0 ||
        migrate(s->db, err) < 0 || load_keys(s, err) < 0)
        goto fail;
    *ret = s;
    return 0;
fail:
    sqlite3_close(s->db);
    free(s);
    return -1;
}

void abx_store_close(struct abx_store *s)
{
    if (s == NULL)
        return;
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_close(s->db);
    sodium_memzero(s->keys, sizeof(s->keys));
    free(s);
}

int abx_store_key_put(struct abx_store *s, const char *name, struct abx_str key,
                      struct abx_error *err)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    struct abx__stmt st;
    crypto_hash_sha256(hash, (const unsigned char *)key.ptr, key.len);
    abx__stmt_open(&st, s->db,
                   "INSERT INTO keys(name, hash, created_ms) VALUES(?, ?, ?) ON CONFLICT(name) DO "
                   "UPDATE SET hash = excluded.hash, created_ms = excluded.created_ms"
                   " WHERE hash <> excluded.hash");
    abx__stmt_str(&st, abx_str(name));
    abx__stmt_blob(&st, hash, sizeof(hash));
    abx__stmt_i64(&st, abx_time_wall_ms());
    if (abx__stmt_run(&st, "put key", err) < 0)
        return -1;
    return load_keys(s, err);
}

bool abx_store_key_matches(const struct abx_store *s, struct abx_str key)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    unsigned found = 0;
    crypto_hash_sha256(hash, (const unsigned char *)key.ptr, key.len);
    for (size_t i = 0; i < s->key_count; i++)
        found |= sodium_memcmp(hash, s->keys[i], sizeof(hash)) == 0;
    return found != 0;
}

int abx__store_change(struct abx_store *s, struct abx__change c, struct abx_error *err)
{
    if (abx__db_exec(s->db, "BEGIN IMMEDIATE", err) < 0)
        return -1;
    if (c.body(s, c.arg, err) == 0 && abx__db_exec(s->db, "COMMIT", err) == 0)
        return 0;
    abx__db_exec(s->db, "ROLLBACK", NULL);
    return -1;
}

static int put_intent(struct abx_store *s, const char *id, const char *op, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "INSERT INTO intents(sandbox_id, op, at_ms) VALUES(?, ?, ?)");
    abx__stmt_str(&st, abx_str(id));
    abx__stmt_str(&st, abx_str(op));
    abx__stmt_i64(&st, abx_time_wall_ms());
    return abx__stmt_run(&st, "put intent", err);
}

static int drop_intents(struct abx_store *s, const char *id, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "DELETE FROM intents WHERE sandbox_id = ?");
    abx__stmt_str(&st, abx_str(id));
    return abx__stmt_run(&st, "drop intents", err);
}

static bool has_intent(struct abx_store *s, const char *id)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "SELECT 1 FROM intents WHERE sandbox_id = ?");
    abx__stmt_str(&st, abx_str(id));
    bool found = abx__stmt_step(&st, "read intents", NULL) > 0;
    abx__stmt_close(&st);
    return found;
}

struct reservation {
    char (*ids)[ABX_STORE_ID_LEN + 1];
    size_t count;
};

static int reserve(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct reservation *r = arg;
    for (size_t i = 0; i < r->count; i++)
        if (put_intent(s, r->ids[i], "create", err) < 0)
            return -1;
    return 0;
}

int abx_store_reserve(struct abx_store *s, char (*ids)[ABX_STORE_ID_LEN + 1], size_t count,
                      struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){reserve, &(struct reservation){ids, count}},
                             err);
}

int abx_store_unreserve_all(struct abx_store *s, struct abx_error *err)
{
    return abx__db_exec(
        s->db, "DELETE FROM intents WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)", err);
}

static int put_row(struct abx_store *s, const struct abx_store_sandbox *sb, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db,
                   "INSERT INTO sandboxes(id, nonce, state, template, token, metadata, envs,"
                   " started_ns, end_ms, build_id, alias, shim_pid, init_pid, shim_start,"
                   " server_tokens, traffic_token)"
                   " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                   " ON CONFLICT(id) DO UPDATE SET state = excluded.state,"
                   " started_ns = excluded.started_ns, end_ms = excluded.end_ms,"
                   " shim_pid = excluded.shim_pid, init_pid = excluded.init_pid,"
                   " shim_start = excluded.shim_start, server_tokens = excluded.server_tokens");
    abx__stmt_str(&st, abx_str(sb->id));
    abx__stmt_blob(&st, sb->nonce, sizeof(sb->nonce));
    abx__stmt_str(&st, abx_str(sb->state));
    abx__stmt_str(&st, abx_str(sb->template_name));
    if (sb->token[0] == '\0')
        abx__stmt_null(&st);
    else
        abx__stmt_str(&st, abx_str(sb->token));
    abx__stmt_str(&st, sb->metadata);
    abx__stmt_str(&st, sb->envs);
    abx__stmt_i64(&st, sb->started_ns);
    abx__stmt_i64(&st, sb->end_ms);
    abx__stmt_str(&st, abx_str(sb->build_id));
    abx__stmt_str(&st, abx_str(sb->alias));
    abx__stmt_i64(&st, sb->shim_pid);
    abx__stmt_i64(&st, sb->init_pid);
    abx__stmt_i64(&st, (int64_t)sb->shim_start);
    abx__stmt_str(&st, sb->server_tokens);
    abx__stmt_str(&st, abx_str(sb->traffic_token));
    return abx__stmt_run(&st, "put sandbox", err);
}

static int create_begin(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct abx_store_sandbox *sb = arg;
    if (put_row(s, sb, err) < 0)
        return -1;
    return put_intent(s, sb->id, "create", err);
}

int abx_store_create_begin(struct abx_store *s, const struct abx_store_sandbox *sb,
                           struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){create_begin, sb}, err);
}

static int create_commit(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct abx_store_sandbox *sb = arg;
    if (drop_intents(s, sb->id, err) < 0)
        return -1;
    if (sqlite3_changes(s->db) == 0)
        return abx_err_set(err, ABX_NOT_FOUND, "database: no sandbox %s was begun", sb->id);
    return put_row(s, sb, err);
}

int abx_store_create_commit(struct abx_store *s, const struct abx_store_sandbox *sb,
                            struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){create_commit, sb}, err);
}

struct destroy {
    const char *id, *state;
};

static int destroy_begin(struct abx_store *s, const void *arg, struct abx_error *err)
{
    const struct destroy *d = arg;
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "UPDATE sandboxes SET state = ? WHERE id = ?");
    abx__stmt_str(&st, abx_str(d->state));
    abx__stmt_str(&st, abx_str(d->id));
    if (abx__stmt_run(&st, "set state", err) < 0)
        return -1;
    if (sqlite3_changes(s->db) == 1)
        return put_intent(s, d->id, "destroy", err);
    /* One whose creation failed has its intent only. */
    return has_intent(s, d->id) ? 0
                                : abx_err_set(err, ABX_NOT_FOUND, "database: no sandbox %s", d->id);
}

int abx_store_destroy_begin(struct abx_store *s, const char *id, const char *state,
                            struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){destroy_begin, &(struct destroy){id, state}},
                             err);
}

static int destroy_commit(struct abx_store *s, const void *arg, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "DELETE FROM sandboxes WHERE id = ?");
    abx__stmt_str(&st, abx_str(arg));
    if (abx__stmt_run(&st, "delete sandbox", err) < 0)
        return -1;
    return drop_intents(s, arg, err);
}

int abx_store_destroy_commit(struct abx_store *s, const char *id, struct abx_error *err)
{
    return abx__store_change(s, (struct abx__change){destroy_commit, id}, err);
}

int abx_store_set_end(struct abx_store *s, const char *id, int64_t end_ms, struct abx_error *err)
{
    struct abx__stmt st;
    abx__stmt_open(&st, s->db, "UPDATE sandboxes SET end_ms = ? WHERE id = ?");
    abx__stmt_i64(&st, end_ms);
    abx__stmt_str(&st, abx_str(id));
    if (abx__stmt_run(&st, "set end", err) < 0)
        return -1;
    if (sqlite3_changes(s->db) != 1)
        return abx_err_set(err, ABX_NOT_FOUND, "database: no sandbox %s", id);
    return 0;
}

/* Columns in the order of the SELECT below. */
enum {
    ID,
    NONCE,
    STATE,
    TEMPLATE,
    TOKEN,
    METADATA,
    ENVS,
    STARTED,
    END,
    SHIM,
    INIT,
    START,
    BUILD,
    ALIAS,
    SERVER_TOKENS,
    TRAFFIC_TOKEN,
    INTENT
};

static int read_row(const struct abx__stmt *st, struct abx_store_sandbox *sb, struct abx_error *err)
{
    struct abx_str id = abx__stmt_col(st, ID), nonce = abx__stmt_col(st, NONCE);
    struct abx_str token = abx__stmt_col(st, TOKEN), traffic = abx__stmt_col(st, TRAFFIC_TOKEN);
    struct abx_str name = abx__stmt_col(st, TEMPLATE), state = abx__stmt_col(st, STATE);
    *sb = (struct abx_store_sandbox){0};
    if (!abx_store_id_is_valid(id) || nonce.len != sizeof(sb->nonce) ||
        (token.len != 0 && token.len != ABX_STORE_TOKEN_LEN) ||
        (traffic.len != 0 && traffic.len != ABX_STORE_TOKEN_LEN))
        return abx_err_set(err, ABX_DATA_LOSS, "database: a sandbox row is not one of ours");
    memcpy(sb->nonce, nonce.ptr, nonce.len);
    if (abx_str_to_c(id, sb->id, sizeof(sb->id)) < 0 ||
        abx_str_to_c(state, sb->state, sizeof(sb->state)) < 0 ||
        abx_str_to_c(name, sb->template_name, sizeof(sb->template_name)) < 0 ||
        abx_str_to_c(token, sb->token, sizeof(sb->token)) < 0 ||
        abx_str_to_c(traffic, sb->traffic_token, sizeof(sb->traffic_token)) < 0 ||
        abx_str_to_c(abx__stmt_col(st, BUILD), sb->build_id, sizeof(sb->build_id)) < 0 ||
        abx_str_to_c(abx__stmt_col(st, ALIAS), sb->alias, sizeof(sb->alias)) < 0)
        return abx_err_set(err, ABX_DATA_LOSS, "database: sandbox %.*s: a field is too long",
                           ABX_STR_FMT(id));
    sb->metadata = abx__stmt_col(st, METADATA);
    sb->envs = abx__stmt_col(st, ENVS);
    sb->server_tokens = abx__stmt_col(st, SERVER_TOKENS);
    sb->started_ns = sqlite3_column_int64(st->stmt, STARTED);
    sb->end_ms = sqlite3_column_int64(st->stmt, END);
    sb->shim_pid = sqlite3_column_int64(st->stmt, SHIM);
    sb->init_pid = sqlite3_column_int64(st->stmt, INIT);
    sb->shim_start = (uint64_t)sqlite3_column_int64(st->stmt, START);
    return 0;
}

int abx_store_each(struct abx_store *s,
                   void (*fn)(void *arg, const struct abx_store_sandbox *sb, bool has_intent),
                   void *arg, struct abx_error *err)
{
    struct abx__stmt st;
    int r;
    abx__stmt_open(&st, s->db,
                   "SELECT id, nonce, state, template, token, metadata, envs, started_ns, end_ms,"
                   " shim_pid, init_pid, shim_start, build_id, alias, server_tokens,"
                   " traffic_token,"
                   " EXISTS(SELECT 1 FROM intents WHERE sandbox_id = sandboxes.id)"
                   " FROM sandboxes ORDER BY started_ns, id");
    while ((r = abx__stmt_step(&st, "read sandboxes", err)) > 0) {
        struct abx_store_sandbox sb;
        r = read_row(&st, &sb, err);
        if (r < 0)
            break;
        fn(arg, &sb, sqlite3_column_int(st.stmt, INTENT) != 0);
    }
    abx__stmt_close(&st);
    return r;
}
