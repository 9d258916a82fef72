/* guest/init/services.c: start, restart with backoff, reap and stop of the services. */
#include "guest/init/init_priv.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/loop/fdcheck.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DEFAULT_STOP_MS = 5000, ORPHAN_WINDOW_MS = 2000, MAX_FDS = 8 };

/* What a role is started with; lives on the stack of PID 1, copied by the fork. */
struct start {
    const struct abx_init_service *def;
    struct abx_init_context context;
};

static int run_service(void *arg)
{
    struct start *s = arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* when PID 1 is only a subreaper */
    signal(SIGPIPE, SIG_IGN);
    abx_log_init(s->def->name, ABX_LOG_INFO);
    int r = abx_state_page_seal(s->context.page);
    if (r < 0) {
        abx_log(ABX_LOG_ERROR, "state page: seal failed errno=%d", -r);
        return 1;
    }
    r = s->def->run(&s->context);
    abx_fdcheck_report(&(struct abx_fdcheck){.was_open = {true, true, true}});
    return r;
}

uint32_t abx__service_delay(uint32_t *inout_backoff_ms, int64_t up_ms)
{
    if (up_ms >= ABX__BACKOFF_RESET_MS || *inout_backoff_ms < ABX__BACKOFF_MIN_MS)
        *inout_backoff_ms = ABX__BACKOFF_MIN_MS;
    uint32_t delay = *inout_backoff_ms;
    *inout_backoff_ms = delay * 2 < ABX__BACKOFF_MAX_MS ? delay * 2 : ABX__BACKOFF_MAX_MS;
    return delay;
}

static void set_state(struct abx__service *s, enum abx_service_state to)
{
    atomic_store(&s->shared->pid, s->pid);
    atomic_store(&s->shared->state, to);
}

static void plan_restart(struct abx__service *s, int64_t up_ms)
{
    uint32_t delay = abx__service_delay(&s->backoff_ms, up_ms);
    s->restart_at_ms = abx_time_mono_ms() + delay;
}

static size_t collect_fds(const struct abx__init *in, const struct abx_init_service *def,
                          struct abx_init_context *c, int out[MAX_FDS])
{
    const struct {
        unsigned need;
        int fd;
        int *slot;
    } rows[] = {
        {ABX_INIT_LISTENERS, in->o->engine_fd, &c->engine_fd},
        {ABX_INIT_LISTENERS, in->o->tcp_fd, &c->tcp_fd},
        {ABX_INIT_CHANNEL_OUT, in->channel[0], &c->channel_fd},
        {ABX_INIT_CHANNEL_IN, in->channel[1], &c->channel_fd},
        {ABX_INIT_INTERPRETER_OUT, in->interpreter[0], &c->interpreter_fd},
        {ABX_INIT_INTERPRETER_IN, in->interpreter[1], &c->interpreter_fd},
        {ABX_INIT_PROVISION, in->init_pair[1], &c->init_fd},
        {ABX_INIT_PROVISION, in->provision_fd, &c->provision_fd},
    };
    size_t count = 0;
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        if ((def->needs & rows[i].need) == 0 || rows[i].fd < 0)
            continue;
        *rows[i].slot = rows[i].fd;
        out[count++] = rows[i].fd;
    }
    return count;
}

void abx__service_start(struct abx__init *in, struct abx__service *s)
{
    struct start start = {.def = s->def,
                          .context = {.page = in->page,
                                      .engine_fd = -1,
                                      .tcp_fd = -1,
                                      .channel_fd = -1,
                                      .interpreter_fd = -1,
                                      .init_fd = -1,
                                      .provision_fd = -1,
                                      .locked = in->o->locked,
                                      .arg = in->o->arg}};
    int fds[MAX_FDS];
    size_t count = collect_fds(in, s->def, &start.context, fds);
    pid_t pid = abx_proc_fork_role(s->def->name, run_service, &start, fds, count, NULL);
    s->started_ms = abx_time_mono_ms();
    if (pid < 0) {
        abx_log(ABX_LOG_ERROR, "fork failed service=%s errno=%d", s->def->name, (int)-pid);
        plan_restart(s, 0);
        return;
    }
    s->pid = pid;
    s->restart_at_ms = 0;
    set_state(s, ABX_SERVICE_RUNNING);
}

int abx__services_start_due(struct abx__init *in)
{
    int64_t now = abx_time_mono_ms(), next = -1;
    for (size_t i = 0; i < in->count && !in->stopping; i++) {
        struct abx__service *s = &in->services[i];
        if (s->pid != 0)
            continue;
        if (s->restart_at_ms <= now)
            abx__service_start(in, s);
        if (s->pid == 0 && (next < 0 || s->restart_at_ms - now < next))
            next = s->restart_at_ms - now;
    }
    return next < 0 ? -1 : (int)next;
}

static void note_exit(struct abx__init *in, struct abx__service *s,
                      const struct abx_proc_status *st)
{
    char text[64];
    int64_t now = abx_time_mono_ms(), up_ms = now - s->started_ms;
    abx_proc_status_text(st, text);
    s->pid = 0;
    if (s->def->kills_children)
        in->kill_orphans_until_ms = now + ORPHAN_WINDOW_MS;
    set_state(s, ABX_SERVICE_DOWN);
    if (in->stopping)
        return;
    atomic_fetch_add(&s->shared->restarts, 1);
    plan_restart(s, up_ms);
    abx_log(ABX_LOG_WARN, "service ended name=%s status=\"%s\" up_ms=%lld restart_in_ms=%lld",
            s->def->name, text, (long long)up_ms, (long long)(s->restart_at_ms - now));
}

static struct abx__service *find_service(struct abx__init *in, pid_t pid)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->services[i].pid == pid)
            return &in->services[i];
    return NULL;
}

/* A child of a dead envd got SIGKILL with it (die_with_parent) and now waits to be reaped; the rest
 * of its process group dies too. The number is still taken: it was only peeked at. */
static void kill_left_group(const struct abx__init *in, pid_t pid)
{
    if (in->kill_orphans_until_ms > abx_time_mono_ms() && getpgid(pid) == pid)
        kill(-pid, SIGKILL);
}

void abx__services_reap(struct abx__init *in)
{
    pid_t pid;
    while ((pid = abx_proc_peek_any()) > 0) {
        struct abx__service *s = find_service(in, pid);
        if (s == NULL)
            kill_left_group(in, pid);
        struct abx_proc_status st;
        if (abx_proc_wait(pid, &st) == 0 && s != NULL)
            note_exit(in, s, &st);
    }
}

static void stop_next(struct abx__init *in)
{
    while (in->stop_left > 0) {
        struct abx__service *s = &in->services[in->stop_left - 1];
        if (s->pid == 0) {
            in->stop_left--;
            continue;
        }
        if (atomic_load(&s->shared->state) != ABX_SERVICE_STOPPING) {
            kill(s->pid, SIGCONT); /* first: after TERM it would disturb a leak check at exit */
            kill(s->pid, SIGTERM);
            set_state(s, ABX_SERVICE_STOPPING);
        }
        return;
    }
}

void abx__services_stop(struct abx__init *in)
{
    if (in->stopping)
        return;
    in->stopping = true;
    in->stop_left = in->count;
    uint32_t ms = in->o->stop_ms != 0 ? in->o->stop_ms : DEFAULT_STOP_MS;
    in->stop_deadline_ms = abx_time_mono_ms() + ms;
    abx_log(ABX_LOG_INFO, "stopping services=%zu limit_ms=%u", in->count, ms);
}

bool abx__services_stopped(struct abx__init *in)
{
    stop_next(in);
    if (in->stop_left == 0)
        return true;
    return abx_time_mono_ms() >= in->stop_deadline_ms;
}
