/* host/store/db_priv.h: a few words over SQLite: run, prepare, bind in order, step. */
#pragma once
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <sqlite3.h>
#include <stdint.h>

/* A statement being bound and stepped; the first failure sticks. */
struct abx__stmt {
    sqlite3 *db;
    sqlite3_stmt *stmt;
    int rc;
    int next; /* index of the next parameter */
};

/** Fills @err from the database's last failure; returns -1. */
int abx__db_fail(sqlite3 *db, const char *what, struct abx_error *err);
/** Opens an existing file; *ret is to be closed also on failure. */
int abx__db_open(const char *path, sqlite3 **ret, struct abx_error *err);
int abx__db_exec(sqlite3 *db, const char *sql, struct abx_error *err);
void abx__stmt_open(struct abx__stmt *st, sqlite3 *db, const char *sql);
void abx__stmt_str(struct abx__stmt *st, struct abx_str s);
void abx__stmt_blob(struct abx__stmt *st, const void *data, size_t len);
void abx__stmt_i64(struct abx__stmt *st, int64_t v);
void abx__stmt_null(struct abx__stmt *st);
/** 1 a row, 0 done, -1 failed. */
int abx__stmt_step(struct abx__stmt *st, const char *what, struct abx_error *err);
/** Steps to the end and closes. */
int abx__stmt_run(struct abx__stmt *st, const char *what, struct abx_error *err);
void abx__stmt_close(struct abx__stmt *st);
struct abx_str abx__stmt_col(const struct abx__stmt *st, int column);
