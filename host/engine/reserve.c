/* host/engine/reserve.c: ids of sandboxes to come, whose intents are on the disk already (security
 * S65: an intent before the first side effect), so that a creation waits for the disk once, for the
 * row that its answer promises. Refilled when no sandbox was made for a while. */
#include "host/engine/engine_priv.h"

#include "lib/base/log.h"

#include <sodium.h>

#include "lib/base/banned.h"

enum { REFILL_BELOW = ABX__RESERVED / 2, REFILL_PAUSE_MS = 30 };

void abx__reserve_mint(char out[ABX_STORE_ID_LEN + 1])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    out[0] = 'i';
    for (size_t i = 1; i < ABX_STORE_ID_LEN; i++)
        out[i] = alphabet[randombytes_uniform(sizeof(alphabet) - 1)];
    out[ABX_STORE_ID_LEN] = '\0';
}

static int refill(struct abx__engine *e, struct abx_error *err)
{
    struct abx__reserve *r = &e->reserve;
    size_t more = ABX__RESERVED - r->count;
    for (size_t i = r->count; i < ABX__RESERVED; i++)
        abx__reserve_mint(r->ids[i]);
    if (abx_store_reserve(e->store, &r->ids[r->count], more, err) < 0)
        return -1;
    r->count = ABX__RESERVED;
    return 0;
}

static void on_refill(struct abx_timer *t)
{
    struct abx__engine *e = t->owner;
    struct abx_error err = {0};
    if (refill(e, &err) < 0) /* the next creation tries again, and fails if it must */
        abx_log(ABX_LOG_WARN, "no ids reserved error=\"%s\"", err.msg);
}

void abx__reserve_open(struct abx__engine *e)
{
    abx_timer_init(&e->reserve.timer, &e->loop, on_refill, e);
    abx_timer_unref(&e->reserve.timer);
}

void abx__reserve_close(struct abx__engine *e)
{
    abx_timer_close(&e->reserve.timer, NULL);
}

void abx__reserve_plan(struct abx__engine *e)
{
    if (e->reserve.count < REFILL_BELOW && !e->stopping)
        abx_timer_start(&e->reserve.timer, REFILL_PAUSE_MS, 0);
}

int abx__reserve_take(struct abx__engine *e, char ret_id[ABX_STORE_ID_LEN + 1],
                      struct abx_error *err)
{
    struct abx__reserve *r = &e->reserve;
    if (r->count == 0 && refill(e, err) < 0)
        return -1;
    memcpy(ret_id, r->ids[--r->count], ABX_STORE_ID_LEN + 1);
    abx__reserve_plan(e);
    return 0;
}

void abx__reserve_give_back(struct abx__engine *e, const char id[ABX_STORE_ID_LEN + 1])
{
    struct abx__reserve *r = &e->reserve;
    if (r->count < ABX__RESERVED)
        memcpy(r->ids[r->count++], id, ABX_STORE_ID_LEN + 1);
}
