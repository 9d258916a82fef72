/* host/store/db.c: a few words over SQLite, so that each operation reads as its SQL. Loop thread.
 */
#include "host/store/db_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

static const struct {
    int rc;
    enum abx_code code;
} codes[] = {
    {SQLITE_CORRUPT, ABX_DATA_LOSS},         {SQLITE_NOTADB, ABX_DATA_LOSS},
    {SQLITE_FULL, ABX_RESOURCE_EXHAUSTED},   {SQLITE_NOMEM, ABX_RESOURCE_EXHAUSTED},
    {SQLITE_CONSTRAINT, ABX_ALREADY_EXISTS}, {SQLITE_BUSY, ABX_UNAVAILABLE},
    {SQLITE_LOCKED, ABX_UNAVAILABLE},        {SQLITE_CANTOPEN, ABX_PERMISSION_DENIED},
    {SQLITE_PERM, ABX_PERMISSION_DENIED},    {SQLITE_READONLY, ABX_PERMISSION_DENIED},
};

int abx__db_fail(sqlite3 *db, const char *what, struct abx_error *err)
{
    int rc = db == NULL ? SQLITE_NOMEM : sqlite3_errcode(db);
    enum abx_code code = ABX_INTERNAL;
    for (size_t i = 0; i < ABX_COUNTOF(codes); i++) {
        if (codes[i].rc == (rc & 0xff))
            code = codes[i].code;
    }
    return abx_err_set(err, code, "database: %s: %s", what,
                       db == NULL ? "out of memory" : sqlite3_errmsg(db));
}

/* The name as it is: relative to the working directory, not made absolute. */
static int keep_name(sqlite3_vfs *vfs, const char *name, int cap, char *out)
{
    (void)vfs;
    return abx_str_to_c(abx_str(name), out, (size_t)cap) < 0 ? SQLITE_CANTOPEN : SQLITE_OK;
}

/* A process without the right to walk to its folder from / can still use it as working directory;
 * SQLite's own VFS would make the name absolute first. */
static const char *relative_vfs(void)
{
    static sqlite3_vfs vfs;
    if (vfs.zName == NULL) {
        vfs = *sqlite3_vfs_find(NULL);
        vfs.zName = "abx-relative";
        vfs.xFullPathname = keep_name;
        vfs.pNext = NULL;
        sqlite3_vfs_register(&vfs, 0);
    }
    return vfs.zName;
}

int abx__db_open(const char *path, sqlite3 **ret, struct abx_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    const char *vfs = strchr(path, '/') == NULL ? relative_vfs() : NULL;
    if (sqlite3_open_v2(path, ret, flags, vfs) != SQLITE_OK)
        return abx__db_fail(*ret, path, err);
    return 0;
}

int abx__db_exec(sqlite3 *db, const char *sql, struct abx_error *err)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return abx__db_fail(db, sql, err);
    return 0;
}

void abx__stmt_open(struct abx__stmt *st, sqlite3 *db, const char *sql)
{
    *st = (struct abx__stmt){.db = db, .next = 1};
    st->rc = sqlite3_prepare_v2(db, sql, -1, &st->stmt, NULL);
}

void abx__stmt_str(struct abx__stmt *st, struct abx_str s)
{
    if (st->rc == SQLITE_OK)
        st->rc = sqlite3_bind_text64(st->stmt, st->next++, s.ptr == NULL ? "" : s.ptr, s.len,
                                     SQLITE_TRANSIENT, SQLITE_UTF8);
}

void abx__stmt_blob(struct abx__stmt *st, const void *data, size_t len)
{
    if (st->rc == SQLITE_OK)
        st->rc = sqlite3_bind_blob64(st->stmt, st->next++, data, len, SQLITE_TRANSIENT);
}

void abx__stmt_i64(struct abx__stmt *st, int64_t v)
{
    if (st->rc == SQLITE_OK)
        st->rc = sqlite3_bind_int64(st->stmt, st->next++, v);
}

void abx__stmt_null(struct abx__stmt *st)
{
    if (st->rc == SQLITE_OK)
        st->rc = sqlite3_bind_null(st->stmt, st->next++);
}

int abx__stmt_step(struct abx__stmt *st, const char *what, struct abx_error *err)
{
    if (st->rc != SQLITE_OK)
        return abx__db_fail(st->db, what, err);
    int rc = sqlite3_step(st->stmt);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    st->rc = rc;
    return abx__db_fail(st->db, what, err);
}

int abx__stmt_run(struct abx__stmt *st, const char *what, struct abx_error *err)
{
    int r;
    do {
        r = abx__stmt_step(st, what, err);
    } while (r > 0);
    abx__stmt_close(st);
    return r;
}

void abx__stmt_close(struct abx__stmt *st)
{
    sqlite3_finalize(st->stmt);
    st->stmt = NULL;
}

struct abx_str abx__stmt_col(const struct abx__stmt *st, int column)
{
    const void *data = sqlite3_column_blob(st->stmt, column);
    int len = sqlite3_column_bytes(st->stmt, column);
    return (struct abx_str){data, len < 0 ? 0 : (size_t)len};
}
