/* host/store/store_priv.h: the open database, and one change of it. */
#pragma once
#include "host/store/db_priv.h"
#include "host/store/store.h"

#include <sodium.h>

enum { ABX__KEYS_MAX = 64 };

struct abx_store {
    sqlite3 *db;
    unsigned char keys[ABX__KEYS_MAX][crypto_hash_sha256_BYTES];
    size_t key_count;
};

/* What runs between BEGIN IMMEDIATE and COMMIT. */
struct abx__change {
    int (*body)(struct abx_store *s, const void *arg, struct abx_error *err);
    const void *arg;
};
/** All of it or nothing. */
int abx__store_change(struct abx_store *s, struct abx__change c, struct abx_error *err);
