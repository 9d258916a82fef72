/* guest/init/state_page.h: what PID 1 knows about its services, in one page shared with the roles.
 *
 * PID 1 alone writes; the roles map it read-only (abx_state_page_seal()). Any process reads without
 * locks: single values are atomic, the hash of envd's token has a sequence number. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ABX_STATE_SERVICES_MAX = 8,
    ABX_STATE_NAME_MAX = 16,
    ABX_STATE_HASH = 32,
    ABX_STATE_WHY_MAX = 160
};

enum abx_service_state {
    ABX_SERVICE_DOWN,    /* waits for its restart, or was never started */
    ABX_SERVICE_RUNNING, /* the process exists */
    ABX_SERVICE_STOPPING,
    ABX_SERVICE_STATE__COUNT
};

struct abx_state_service {
    char name[ABX_STATE_NAME_MAX]; /* written before the first fork */
    _Atomic int32_t pid;           /* 0: none */
    _Atomic uint32_t state;        /* enum abx_service_state */
    _Atomic uint32_t restarts;
};
struct abx_state_page {
    uint32_t service_count;
    char no_user[ABX_STATE_WHY_MAX]; /* why the account `user` is missing; empty: it is there.
                                      * Written before the first fork */
    bool locked;                     /* under the engine: only its channel provisions envd */
    _Atomic uint32_t provisions;     /* accepted so far */
    _Atomic uint32_t token_seq;      /* odd while the hash changes */
    _Atomic uint32_t has_token;
    _Atomic uint64_t token_hash[ABX_STATE_HASH / sizeof(uint64_t)];
    struct abx_state_service services[ABX_STATE_SERVICES_MAX];
};

/** A zeroed page that children share; NULL without memory. */
struct abx_state_page *abx_state_page_new(void);
void abx_state_page_free(struct abx_state_page *p);
/** Makes this process's view read-only. 0 or -errno. */
int abx_state_page_seal(struct abx_state_page *p);
/** @hash NULL: envd has no token. For PID 1. */
void abx_state_page_set_token(struct abx_state_page *p, const unsigned char *hash);
/** SHA-256 of envd's access token; false when it has none (yet). */
bool abx_state_page_token(const struct abx_state_page *p, unsigned char ret_hash[ABX_STATE_HASH]);
/** For PID 1, after it kept a provisioning: counts it and wakes those who wait for it. */
void abx_state_page_provisioned(struct abx_state_page *p);
/** Blocks until the page shows @hash (NULL: a provisioning without a token), at most @limit_ms.
 *  False: it does not. For services; the page may be sealed. */
bool abx_state_page_wait(const struct abx_state_page *p, const unsigned char *hash,
                         unsigned limit_ms);
/** "down", "running", "stopping". */
const char *abx_service_state_name(enum abx_service_state s);
