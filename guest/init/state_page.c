/* guest/init/state_page.c: the page that PID 1 shares with its services. */
#include "guest/init/state_page.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { READ_TRIES = 1000 };

static const char *const state_names[] = {
    [ABX_SERVICE_DOWN] = "down",
    [ABX_SERVICE_RUNNING] = "running",
    [ABX_SERVICE_STOPPING] = "stopping",
};
_Static_assert(ABX_COUNTOF(state_names) == ABX_SERVICE_STATE__COUNT, "one name per state");
_Static_assert(sizeof(struct abx_state_page) <= 4096, "one page");

struct abx_state_page *abx_state_page_new(void)
{
    void *p = mmap(NULL, sizeof(struct abx_state_page), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void abx_state_page_free(struct abx_state_page *p)
{
    if (p != NULL)
        munmap(p, sizeof(*p));
}

int abx_state_page_seal(struct abx_state_page *p)
{
    return mprotect(p, sizeof(*p), PROT_READ) < 0 ? -errno : 0;
}

void abx_state_page_set_token(struct abx_state_page *p, const unsigned char *hash)
{
    uint64_t words[ABX_STATE_HASH / sizeof(uint64_t)] = {0};
    if (hash != NULL)
        memcpy(words, hash, sizeof(words));
    atomic_fetch_add(&p->token_seq, 1);
    for (size_t i = 0; i < ABX_COUNTOF(words); i++)
        atomic_store(&p->token_hash[i], words[i]);
    atomic_store(&p->has_token, hash != NULL);
    atomic_fetch_add(&p->token_seq, 1);
}

bool abx_state_page_token(const struct abx_state_page *p, unsigned char ret_hash[ABX_STATE_HASH])
{
    uint64_t words[ABX_STATE_HASH / sizeof(uint64_t)];
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t before = atomic_load(&p->token_seq);
        bool has = atomic_load(&p->has_token) != 0;
        for (size_t w = 0; w < ABX_COUNTOF(words); w++)
            words[w] = atomic_load(&p->token_hash[w]);
        if (before % 2 != 0 || before != atomic_load(&p->token_seq))
            continue;
        if (has)
            memcpy(ret_hash, words, sizeof(words));
        return has;
    }
    return false; /* PID 1 died in the middle of a change: so does everything else */
}

void abx_state_page_provisioned(struct abx_state_page *p)
{
    atomic_fetch_add(&p->provisions, 1);
    syscall(SYS_futex, &p->provisions, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool shows(const struct abx_state_page *p, const unsigned char *hash)
{
    unsigned char now[ABX_STATE_HASH];
    bool has_token = abx_state_page_token(p, now);
    return hash != NULL ? has_token && memcmp(now, hash, sizeof(now)) == 0 : !has_token;
}

bool abx_state_page_wait(const struct abx_state_page *p, const unsigned char *hash,
                         unsigned limit_ms)
{
    int64_t end_ms = abx_time_mono_ms() + limit_ms;
    for (;;) {
        uint32_t seen = atomic_load(&p->provisions); /* before the look: a later change is seen */
        if (seen > 0 && shows(p, hash))
            return true;
        int64_t left_ms = end_ms - abx_time_mono_ms();
        if (left_ms <= 0)
            return false;
        struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
        syscall(SYS_futex, &p->provisions, FUTEX_WAIT, seen, &left, NULL, 0);
    }
}

const char *abx_service_state_name(enum abx_service_state s)
{
    return s < ABX_SERVICE_STATE__COUNT ? state_names[s] : "unknown";
}
