/* guest/server/parts.c: parts of PUT /files/raw that nobody goes on with: removed when a day old,
 * at the start and once an hour. The walk is on the pool, and bounded; the rest is the loop's. */
#include "guest/caps/draft.h"
#include "guest/server/server_priv.h"

#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/policy/paths.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    PART_AGE_S = 24 * 3600,
    EVERY_MS = 3600 * 1000,
    DEPTH = 64,
    ENTRIES_MAX = 200000, /* of each root */
    ARENA_MAX = 4 << 20,
};

struct abx__parts {
    struct abx_work work;
    struct abx__server *server;
    struct abx_policy *policy; /* counted */
    const struct abx_policy_rule *rule;
    struct abx_arena arena;
    atomic_bool cancel;
    size_t removed, cut; /* files; roots that were not walked to their end */
};

/* Pool thread. */
static void walk(struct abx_work *w)
{
    struct abx__parts *p = w->owner;
    struct abx__bounds bounds;
    const struct abx_draft_expiry spec = {.before_s = abx_time_wall_ms() / 1000 - PART_AGE_S,
                                          .depth = DEPTH,
                                          .entries_max = ENTRIES_MAX,
                                          .cancel = &p->cancel};
    if (abx__bounds_init(&bounds, p->policy, p->rule, &p->arena) < 0)
        return;
    for (size_t i = 0; i < bounds.root_count && !atomic_load(&p->cancel); i++) {
        size_t removed;
        p->cut += abx_draft_expire(bounds.roots[i].real, &spec, &removed) == 1;
        p->removed += removed;
    }
}

static void parts_free(struct abx__parts *p)
{
    abx_policy_unref(p->policy);
    abx_arena_done(&p->arena);
    free(p);
}

static void on_walked(struct abx_work *w)
{
    struct abx__parts *p = w->owner;
    p->server->parts = NULL;
    if (p->removed)
        abx_log(ABX_LOG_INFO, "parts of uploads removed that nobody went on with count=%zu",
                p->removed);
    if (p->cut)
        abx_log(ABX_LOG_INFO,
                "parts of uploads: only the first %d entries of a root were looked at",
                (int)ENTRIES_MAX);
    parts_free(p);
}

void abx__parts_sweep(struct abx__server *s)
{
    int64_t now = abx_time_mono_ms();
    const struct abx_policy_rule *rule = abx_policy_rule(s->policy, ABX_STR("files_raw_put"));
    if (!s->is_listening || s->is_stopping || s->parts || now < s->parts_due_ms)
        return;
    s->parts_due_ms = now + EVERY_MS;
    if (rule == NULL || !rule->enabled)
        return;
    struct abx__parts *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return; /* in an hour */
    p->server = s;
    p->policy = abx_policy_ref(s->policy);
    p->rule = rule;
    abx_arena_init(&p->arena, ARENA_MAX);
    if (abx_work_start(&p->work, &s->loop, walk, on_walked, p, NULL) < 0)
        parts_free(p);
    else
        s->parts = p;
}

void abx__parts_stop(struct abx__server *s)
{
    if (s->parts)
        atomic_store(&s->parts->cancel, true);
}
