/* guest/caps/process_table.c: which processes exist and for how long; what is kept of each. */
#include "guest/caps/process_priv.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <signal.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static void forget(struct abx_process *p)
{
    struct abx_procs *t = p->table;
    ABX_ASSERT(p->in_table);
    p->in_table = false;
    abx_list_remove(&p->node);
    if (p->state == ABX__ENDED)
        t->ended_count--;
    else
        t->live_count--;
    p->discards = true; /* a grandchild may still write: drained, not kept */
    if (abx_list_empty(&p->subs) && p->delivering == 0)
        abx_journal_forget(&p->journal);
    abx_process_unref(p);
}

static void arm_expiry(struct abx_procs *t)
{
    struct abx_process *oldest = abx_list_first(&t->ended, struct abx_process, node);
    if (oldest == NULL || t->closing) {
        abx_timer_stop(&t->expiry);
        return;
    }
    int64_t left = oldest->ended_at + (int64_t)t->keep_ms - abx_time_mono_ms();
    abx_timer_start(&t->expiry, left > 0 ? (uint64_t)left : 0, 0);
}

static void on_expiry(struct abx_timer *timer)
{
    struct abx_procs *t = timer->owner;
    int64_t now = abx_time_mono_ms();
    struct abx_process *p;
    while ((p = abx_list_first(&t->ended, struct abx_process, node)) != NULL &&
           p->ended_at + (int64_t)t->keep_ms <= now)
        forget(p);
    arm_expiry(t);
}

/* --- the throttle --- */

void abx__procs_throttle(struct abx_procs *t, struct abx_process *p)
{
    if (!abx_list_empty(&p->throttle) || t->closing)
        return;
    if (t->drain_left == ABX__DRAIN_TURN)
        abx_timer_start(&t->drain, ABX__DRAIN_MS, 0);
    if (t->drain_left > 0) {
        t->drain_left--;
        return;
    }
    abx_list_push(&t->throttled, &p->throttle);
    abx__process_apply_reading(p);
}

void abx__procs_unthrottle(struct abx_process *p)
{
    if (abx_list_empty(&p->throttle))
        return;
    abx_list_remove(&p->throttle);
    if (p->io)
        abx__process_apply_reading(p);
}

static void on_drain_turn(struct abx_timer *timer)
{
    struct abx_procs *t = timer->owner;
    struct abx_process *p;
    t->drain_left = ABX__DRAIN_TURN;
    for (int i = 0; i < ABX__DRAIN_TURN; i++)
        if ((p = abx_list_first(&t->throttled, struct abx_process, throttle)) != NULL)
            abx__procs_unthrottle(p);
    if (!abx_list_empty(&t->throttled))
        abx_timer_start(&t->drain, ABX__DRAIN_MS, 0);
}

int abx_procs_new(struct abx_loop *l, const struct abx_procs_config *config, struct abx_procs **ret,
                  struct abx_error *err)
{
    struct abx_procs *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "process table: out of memory");
    t->loop = l;
    t->path = abx_str_dup(abx_str(config && config->path ? config->path : ABX_SANDBOX_PATH));
    t->spill_dir = abx_str_dup(abx_str(config && config->spill_dir ? config->spill_dir : "/tmp"));
    t->scratch = malloc(ABX_DATA_CHUNK_BYTES);
    if (t->path == NULL || t->spill_dir == NULL || t->scratch == NULL) {
        t->refs = 1;
        abx__procs_unref(t);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "process table: out of memory");
    }
    t->keep_ms = config && config->keep_ms ? config->keep_ms : ABX_PROCESS_KEPT_S * 1000ull;
    t->next_made_up_pid = ABX__PID_MADE_UP;
    abx_list_init(&t->live);
    abx_list_init(&t->ended);
    abx_timer_init(&t->expiry, l, on_expiry, t);
    abx_timer_unref(&t->expiry);
    abx_list_init(&t->throttled);
    t->drain_left = ABX__DRAIN_TURN;
    abx_timer_init(&t->drain, l, on_drain_turn, t);
    t->refs = 3; /* the owner, two timers */
    *ret = t;
    return 0;
}

void abx__procs_unref(struct abx_procs *t)
{
    if (--t->refs > 0)
        return;
    free(t->path);
    free(t->spill_dir);
    free(t->scratch);
    free(t);
}

static void on_timer_closed(void *owner)
{
    abx__procs_unref(owner);
}

static void end_with_table(struct abx_process *p)
{
    if (p->proc) {
        abx_proc_signal_group(p->proc, SIGKILL);
        abx_process_ref(p); /* until it is reaped */
    }
    if (!abx_list_empty(&p->failed.node)) {
        abx_defer_cancel(&p->failed);
        abx_process_unref(p);
    }
    abx__process_close_io(p);
    forget(p);
}

void abx_procs_close(struct abx_procs *t)
{
    if (t == NULL)
        return;
    t->closing = true;
    struct abx_process *p;
    while ((p = abx_list_first(&t->live, struct abx_process, node)) != NULL)
        end_with_table(p);
    while ((p = abx_list_first(&t->ended, struct abx_process, node)) != NULL)
        end_with_table(p);
    abx_timer_close(&t->expiry, on_timer_closed);
    abx_timer_close(&t->drain, on_timer_closed);
    abx__procs_unref(t);
}

void abx__procs_add(struct abx_procs *t, struct abx_process *p)
{
    p->in_table = true;
    abx_list_push(&t->live, &p->node);
    t->live_count++;
}

/* All ended journals share one bound: the oldest lose theirs first (readers see a gap). */
static void bound_journals(struct abx_procs *t)
{
    uint64_t total = 0;
    struct abx_process *p;
    abx_list_foreach(p, &t->ended, struct abx_process, node)
    {
        total += abx_journal_held(&p->journal);
    }
    abx_list_foreach(p, &t->ended, struct abx_process, node)
    {
        if (total <= ABX__ENDED_BYTES)
            return;
        total -= abx_journal_held(&p->journal);
        abx_journal_forget(&p->journal);
    }
}

void abx__procs_on_ended(struct abx_procs *t, struct abx_process *p)
{
    abx__process_shrink(p);
    if (!p->in_table)
        return;
    abx_list_remove(&p->node);
    t->live_count--;
    abx_list_push(&t->ended, &p->node);
    t->ended_count++;
    bound_journals(t);
    if (t->ended_count > ABX__ENDED_MAX)
        forget(abx_list_first(&t->ended, struct abx_process, node));
    arm_expiry(t);
}

/* --- look-ups --- */

struct abx_process *abx_procs_by_pid(struct abx_procs *t, uint32_t pid)
{
    struct abx_process *p, *found = NULL;
    abx_list_foreach(p, &t->live, struct abx_process, node)
    {
        if (p->pid == pid)
            return p;
    }
    abx_list_foreach(p, &t->ended, struct abx_process, node)
    {
        if (p->pid == pid)
            found = p;
    }
    return found;
}

static bool has_tag(const struct abx_process *p, struct abx_str tag)
{
    return p->config.tag.ptr != NULL && abx_str_eq(p->config.tag, tag);
}

struct abx_process *abx_procs_by_tag(struct abx_procs *t, struct abx_str tag)
{
    struct abx_process *p, *found = NULL;
    abx_list_foreach(p, &t->live, struct abx_process, node)
    {
        if (has_tag(p, tag))
            return p;
    }
    abx_list_foreach(p, &t->ended, struct abx_process, node)
    {
        if (has_tag(p, tag))
            found = p;
    }
    return found;
}

struct abx_process *abx_procs_next_live(struct abx_procs *t, struct abx_process *after)
{
    struct abx_list *it = after ? after->node.next : t->live.next;
    for (; it != &t->live; it = it->next) {
        struct abx_process *p = ABX_CONTAINER_OF(it, struct abx_process, node);
        if (p->state == ABX__RUNNING)
            return p;
    }
    return NULL;
}

size_t abx_procs_live_count(const struct abx_procs *t)
{
    return t->live_count;
}

/* --- one process --- */

struct abx_process *abx_process_ref(struct abx_process *p)
{
    p->refs++;
    return p;
}

void abx_process_unref(struct abx_process *p)
{
    if (p == NULL || --p->refs > 0)
        return;
    ABX_ASSERT(p->io == NULL && abx_list_empty(&p->subs));
    abx_proc_close(p->proc);
    abx_journal_done(&p->journal);
    free(p->config_memory);
    abx__procs_unref(p->table);
    free(p);
}

/* One block for arrays and texts. */
struct packer {
    char *texts;
};

static struct abx_str pack_str(struct packer *k, struct abx_str s)
{
    if (s.ptr == NULL)
        return s;
    char *to = k->texts;
    if (s.len > 0)
        memcpy(to, s.ptr, s.len);
    to[s.len] = '\0';
    k->texts += s.len + 1;
    return abx_str_n(to, s.len);
}

static size_t texts_size(const struct abx_process_spec *s)
{
    size_t total = s->cmd.len + s->cwd_given.len + s->tag.len + 3;
    for (size_t i = 0; i < s->arg_count; i++)
        total += s->args[i].len + 1;
    for (size_t i = 0; i < s->env_count; i++)
        total += s->envs[i].name.len + s->envs[i].value.len + 2;
    return total;
}

int abx__process_pack(struct abx_process *p, const struct abx_process_spec *spec,
                      struct abx_error *err)
{
    size_t args_size = spec->arg_count * sizeof(struct abx_str);
    size_t envs_size = spec->env_count * sizeof(struct abx_env_pair);
    char *memory = malloc(args_size + envs_size + texts_size(spec));
    if (memory == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "start process: out of memory");
    struct abx_str *args = (struct abx_str *)(void *)memory;
    struct abx_env_pair *envs = (struct abx_env_pair *)(void *)(memory + args_size);
    struct packer k = {.texts = memory + args_size + envs_size};
    struct abx_process_spec c = {.args = args, .arg_count = spec->arg_count, .envs = envs};
    c.env_count = spec->env_count;
    c.cmd = pack_str(&k, spec->cmd);
    for (size_t i = 0; i < spec->arg_count; i++)
        args[i] = pack_str(&k, spec->args[i]);
    for (size_t i = 0; i < spec->env_count; i++)
        envs[i] = (struct abx_env_pair){pack_str(&k, spec->envs[i].name),
                                        pack_str(&k, spec->envs[i].value)};
    c.cwd_given = pack_str(&k, spec->cwd_given);
    c.tag = pack_str(&k, spec->tag);
    c.has_stdin = spec->has_stdin;
    c.has_pty = spec->has_pty;
    c.cols = spec->cols;
    c.rows = spec->rows;
    c.deadline_ms = spec->deadline_ms;
    p->config = c;
    p->config_memory = memory;
    return 0;
}

void abx__process_shrink(struct abx_process *p)
{
    void *old = p->config_memory;
    struct abx_process_spec kept = p->config;
    kept.args = NULL;
    kept.envs = NULL;
    kept.arg_count = kept.env_count = 0;
    kept.cwd_given = (struct abx_str){0};
    if (abx__process_pack(p, &kept, NULL) == 0)
        free(old); /* else the long form stays */
}
