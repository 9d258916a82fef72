/* host/store/store.h: what the engine remembers: keys, sandboxes, and the intents of half-done
 * work.
 *
 * SQLite in WAL mode with synchronous=FULL (security S65). Every operation with effects outside the
 * database writes its intent row before the first of them and removes it with the last; whoever
 * opens the store after a crash undoes what intents are left. Ids read back are checked like ids
 * from the wire. Loop thread only; each call is one transaction. */
#pragma once
#include "lib/base/str.h"

#include <stdint.h>

struct abx_error;
struct abx_store; /* opaque */

enum {
    ABX_STORE_ID_LEN = 21,    /* "i" + 20 of [a-z0-9] */
    ABX_STORE_NONCE_LEN = 16, /* known to the shim; tells our sandbox from another */
    ABX_STORE_TOKEN_LEN = 64, /* 256 random bits as hex */
};

struct abx_store_sandbox {
    char id[ABX_STORE_ID_LEN + 1];
    unsigned char nonce[ABX_STORE_NONCE_LEN];
    char state[16]; /* a name of the engine's state table */
    char template_name[64];
    char build_id[37];            /* of the template; "" for "host" */
    char alias[132];              /* what the template was called at that time */
    struct abx_str server_tokens; /* JSON object: variable to token; "" when there are none */
    char token[ABX_STORE_TOKEN_LEN + 1];         /* envd's access token; "" when not secured */
    char traffic_token[ABX_STORE_TOKEN_LEN + 1]; /* of all other ports; "" when they are public */
    struct abx_str metadata, envs;               /* JSON objects */
    int64_t started_ns, end_ms;                  /* wall clock */
    int64_t shim_pid, init_pid;
    uint64_t shim_start; /* field 22 of /proc/PID/stat */
};

/** Opens or makes the database file @path (0600) and brings its schema up to date. A name without
 *  "/" lies in the working directory, which must not change while the store is open. Errors:
 *  FAILED_PRECONDITION the schema is newer than this program, DATA_LOSS the file is damaged. */
int abx_store_open(const char *path, struct abx_store **ret, struct abx_error *err);
/** Checkpoints and closes. NULL is fine. */
void abx_store_close(struct abx_store *s);

/** Whether @id is "i" and 20 of [a-z0-9]. */
bool abx_store_id_is_valid(struct abx_str id);

/** Remembers the SHA-256 of @key under @name, in place of an earlier one. */
int abx_store_key_put(struct abx_store *s, const char *name, struct abx_str key,
                      struct abx_error *err);
/** Compares with every stored key, in constant time for each, without an early exit. */
bool abx_store_key_matches(const struct abx_store *s, struct abx_str key);

/** Intents of sandboxes that will be made, with no row yet: a creation then writes once. */
int abx_store_reserve(struct abx_store *s, char (*ids)[ABX_STORE_ID_LEN + 1], size_t count,
                      struct abx_error *err);
/** Drops the intents of sandboxes that have no row: once nothing of them is left. */
int abx_store_unreserve_all(struct abx_store *s, struct abx_error *err);
/** Intent and row of a new sandbox whose id was not reserved, before anything of it is made. */
int abx_store_create_begin(struct abx_store *s, const struct abx_store_sandbox *sb,
                           struct abx_error *err);
/** The sandbox, which was reserved or begun, runs: the row as @sb says, the intent is gone. */
int abx_store_create_commit(struct abx_store *s, const struct abx_store_sandbox *sb,
                            struct abx_error *err);
/** The sandbox is about to be destroyed: intent, and the row's state set to @state; one that has no
 *  row yet keeps the intent of its creation. */
int abx_store_destroy_begin(struct abx_store *s, const char *id, const char *state,
                            struct abx_error *err);
/** Nothing of the sandbox is left: row and intents go. An unknown id is fine. */
int abx_store_destroy_commit(struct abx_store *s, const char *id, struct abx_error *err);
int abx_store_set_end(struct abx_store *s, const char *id, int64_t end_ms, struct abx_error *err);

/** Calls @fn for each sandbox, oldest first; the strings live during the call only. A row whose id
 *  or sizes are not what we write ends the walk with DATA_LOSS. @fn must not change the store. */
int abx_store_each(struct abx_store *s,
                   void (*fn)(void *arg, const struct abx_store_sandbox *sb, bool has_intent),
                   void *arg, struct abx_error *err);
