/* host/runtime/box.c: the life of one sandbox on the runtime side: a state machine over messages
 * of its shim. Requests about one sandbox are serial: what can not be done yet waits for the step
 * that makes it possible. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    MAKE_LIMIT_MS = 30000, /* hang guards */
    KILL_LIMIT_MS = 20000,
    TERM_LIMIT_MS = 8000,
    LEAVE_LIMIT_MS = 5000,
    REACH_LIMIT_MS = 20000,
    CGROUP_RETRY_MS = 10,
    CGROUP_RETRIES = 500,
    WAITERS_MAX = 4
};

enum state { MAKING, ADOPTING, RUNNING, ENDED, KILLING, LEAVING, REMOVING, GONE, STATE__COUNT };
static const struct {
    const char *name;
    unsigned next;
} states[] = {
    [MAKING] = {"making", 1u << RUNNING | 1u << REMOVING | 1u << GONE},
    [ADOPTING] = {"adopting", 1u << RUNNING | 1u << ENDED | 1u << REMOVING | 1u << GONE},
    [RUNNING] = {"running", 1u << ENDED | 1u << KILLING},
    [ENDED] = {"ended", 1u << LEAVING | 1u << REMOVING},
    [KILLING] = {"killing", 1u << RUNNING | 1u << LEAVING | 1u << REMOVING},
    [LEAVING] = {"leaving", 1u << REMOVING},
    [REMOVING] = {"removing", 1u << GONE},
    [GONE] = {"gone", 0},
};
_Static_assert(ABX_COUNTOF(states) == STATE__COUNT, "one row per state");

struct abx__box {
    char id[ABX_SANDBOX_ID_LEN + 1];
    enum state state;
    struct abx__worker *w;
    struct abx_poll poll;
    struct abx_timer timer;
    struct abx_work work;
    pid_t making_pid; /* the shim, until it has answered; else 0 */
    int control_fd;
    int32_t slot; /* -1: none */
    unsigned char nonce[ABX_NONCE_LEN];
    struct abx_sandbox_info info, known;
    uint64_t make_tag;             /* of create or adopt; 0: none */
    uint64_t waiters[WAITERS_MAX]; /* tags of destroys */
    int waiter_count, tries, removed, sealed, handles;
    bool is_asked;          /* KILLING by TERM first */
    bool is_step, has_seal; /* has_seal: its upper becomes the layer `seal` */
    struct abx_digest seal;
    struct abx_error failure; /* why a create failed */
};

static void step_kill(struct abx__box *b);
static void step_leave(struct abx__box *b);
static void step_remove(struct abx__box *b);

static void set_state(struct abx__box *b, enum state next)
{
    ABX_ASSERT(states[b->state].next & 1u << next);
    abx_log(ABX_LOG_DEBUG, "sandbox id=%s state=%s next=%s", b->id, states[b->state].name,
            states[next].name);
    b->state = next;
}

static void on_handle_closed(void *owner)
{
    struct abx__box *b = owner;
    if (--b->handles == 0)
        free(b);
}

static void close_control(struct abx__box *b)
{
    if (b->control_fd < 0)
        return;
    abx_poll_close(&b->poll, on_handle_closed);
    abx_fd_close(&b->control_fd);
}

/* Forgets the sandbox; the memory goes with its last handle. */
static void drop(struct abx__box *b)
{
    close_control(b);
    if (b->slot >= 0)
        abx__slot_mark(b->w, (uint32_t)b->slot, false);
    abx_map_remove(&b->w->boxes, abx_str(b->id));
    abx__worker_may_end(b->w);
    abx_timer_close(&b->timer, on_handle_closed);
}

static int command(struct abx__box *b, enum abx_shim_verb verb)
{
    struct abx_shim_command c = {.magic = ABX_SHIM_MAGIC, .verb = verb};
    memcpy(c.nonce, b->nonce, sizeof(c.nonce));
    ssize_t n = b->control_fd < 0 ? -ENOTCONN : abx_fd_send(b->control_fd, &c, sizeof(c), NULL, 0);
    return n < 0 ? (int)n : 0;
}

static void answer_make(struct abx__box *b, const struct abx_error *err)
{
    uint64_t tag = b->make_tag;
    b->make_tag = 0;
    if (tag != 0)
        abx__worker_reply(b->w, tag, err ? NULL : &b->info, err);
}

static void answer_waiters(struct abx__box *b, const struct abx_error *err)
{
    for (int i = 0; i < b->waiter_count; i++) {
        if (b->waiters[i] != 0)
            abx__worker_reply(b->w, b->waiters[i], NULL, err);
        else
            abx__worker_gc_step(b->w);
    }
    b->waiter_count = 0;
}

/* Field 22 of /proc/PID/stat; the name in field 2 may hold anything, so count from its end. */
static uint64_t start_time(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, path, 4096, &text, &len) < 0)
        return 0;
    struct abx_str rest = {text, len}, part = {0};
    ptrdiff_t paren = abx_str_rchr(rest, ')');
    if (paren < 0)
        return 0;
    rest = abx_str_sub(rest, (size_t)paren + 2, rest.len);
    uint64_t value = 0;
    for (int field = 3; field <= 22; field++)
        if (!abx_str_split(&rest, ' ', &part))
            return 0;
    return abx_parse_u64(part, &value) < 0 ? 0 : value;
}

static struct abx_proc_status status_of(const struct abx_shim_reply *m)
{
    return (struct abx_proc_status){.exited = m->signum == 0,
                                    .exit_code = m->exit_code,
                                    .signum = m->signum,
                                    .core_dumped = m->core_dumped != 0};
}

/* ---- removing ---- */
/* On the pool: both can wait long in the kernel. */
static void remove_run(struct abx_work *work)
{
    struct abx__box *b = work->owner;
    if (b->slot >= 0) {
        abx__cgroups_kill(&b->w->cgroups, (uint32_t)b->slot);
        b->removed = abx__cgroups_remove(&b->w->cgroups, (uint32_t)b->slot);
        if (b->removed == -EBUSY && b->tries < CGROUP_RETRIES)
            return;
    }
    b->sealed = b->has_seal ? abx__store_seal(b->w, b->id, &b->seal) : 0;
    char reports[64];
    snprintf(reports, sizeof(reports), "%s/asan", b->id);
    /* Sanitizer reports outlive the sandbox; an empty folder goes with it. */
    if (unlinkat(b->w->sandboxes_fd, reports, AT_REMOVEDIR) < 0 && errno == ENOTEMPTY) {
        (void)mkdirat(b->w->state_fd, "asan", 0700);
        char kept[64];
        snprintf(kept, sizeof(kept), "asan/%s", b->id);
        (void)renameat(b->w->sandboxes_fd, reports, b->w->state_fd, kept);
    }
    b->removed = abx_fd_remove_tree(b->w->sandboxes_fd, b->id);
}

static void remove_done(struct abx_work *work)
{
    struct abx__box *b = work->owner;
    struct abx_error err = {0};
    /* A shim that was killed at making the root may add to it for a moment. */
    bool is_busy = b->removed == -EBUSY || (b->removed == -ENOTEMPTY && !b->has_seal);
    if (is_busy && b->tries++ < CGROUP_RETRIES) {
        abx_timer_start(&b->timer, CGROUP_RETRY_MS, 0);
        return;
    }
    if (b->removed < 0)
        abx_err_sys(&err, b->removed, "remove the folder of sandbox %s", b->id);
    else if (b->sealed < 0)
        abx_err_sys(&err, b->sealed, "seal the layer of step %s", b->id);
    answer_make(b, &b->failure);
    answer_waiters(b, err.code != ABX_OK ? &err : NULL);
    set_state(b, GONE);
    drop(b);
}

static void remove_files(struct abx__box *b)
{
    struct abx_error err = {0};
    b->work = (struct abx_work){0};
    if (abx_work_start(&b->work, &b->w->loop, remove_run, remove_done, b, &err) == 0)
        return;
    b->work.owner = b;
    remove_run(&b->work);
    remove_done(&b->work);
}

static void step_remove(struct abx__box *b)
{
    set_state(b, REMOVING);
    close_control(b);
    abx_timer_stop(&b->timer);
    b->tries = 0;
    remove_files(b);
}

/* ---- ending ---- */
static void step_leave(struct abx__box *b)
{
    set_state(b, LEAVING);
    if (command(b, ABX_SHIM_GO) < 0)
        step_remove(b);
    else
        abx_timer_start(&b->timer, LEAVE_LIMIT_MS, 0);
}

static void step_kill(struct abx__box *b)
{
    /* A sanitized guest reports its leaks when its daemons end by themselves. */
    b->is_asked = b->w->options.guest_libs != NULL && !b->is_step;
    set_state(b, KILLING);
    if (command(b, b->is_asked ? ABX_SHIM_TERM : ABX_SHIM_KILL) < 0)
        step_remove(b);
    else
        abx_timer_start(&b->timer, b->is_asked ? TERM_LIMIT_MS : KILL_LIMIT_MS, 0);
}

/* Does what the waiting destroys want, if the state allows it. */
static void pursue_destroy(struct abx__box *b)
{
    if (b->waiter_count == 0)
        return;
    if (b->state == RUNNING)
        step_kill(b);
    else if (b->state == ENDED)
        step_leave(b);
}

static void fail_make(struct abx__box *b, int neg_errno, const char *what)
{
    abx_err_sys(&b->failure, neg_errno, "sandbox %s: %s", b->id, what);
    if (b->making_pid > 0)
        abx__child_kill(b->making_pid); /* PID 1 follows by its death signal */
    step_remove(b);
}

static void fail_adopt(struct abx__box *b, const char *why)
{
    struct abx_error err = {0};
    if (b->waiter_count > 0) { /* a destroy: nobody to ask, so by cgroup and by force of rmdir */
        if (b->slot >= 0)
            abx__cgroups_kill(&b->w->cgroups, (uint32_t)b->slot);
        step_remove(b);
        return;
    }
    abx_err_set(&err, ABX_NOT_FOUND, "sandbox %s: %s", b->id, why);
    answer_make(b, &err);
    set_state(b, GONE);
    b->slot = -1; /* its files are there until a destroy */
    drop(b);
}

/* ---- messages of the shim ---- */
static void now_running(struct abx__box *b, const struct abx_shim_reply *m)
{
    bool adopting = b->state == ADOPTING;
    if (adopting && b->make_tag != 0 && m->shim_pid != b->known.shim_pid) {
        fail_adopt(b, "another shim answers");
        return;
    }
    memcpy(b->info.id, b->id, sizeof(b->info.id));
    b->info.shim_pid = m->shim_pid;
    b->info.init_pid = m->init_pid;
    b->info.shim_start_time = start_time(m->shim_pid);
    if (adopting && b->make_tag != 0 && b->info.shim_start_time != b->known.shim_start_time) {
        fail_adopt(b, "its shim's pid belongs to another process now");
        return;
    }
    b->making_pid = 0;
    abx_timer_stop(&b->timer);
    set_state(b, RUNNING);
    answer_make(b, NULL);
    if (!adopting)
        abx__pool_fill(b->w);
    pursue_destroy(b);
}

void abx__box_let_go(struct abx__box *b)
{
    switch (b->state) {
    case MAKING: /* its caller has gone: undone */
        if (b->waiter_count < WAITERS_MAX)
            b->waiters[b->waiter_count++] = UINT64_MAX;
        return;
    case ADOPTING:
    case RUNNING:
    case ENDED:
        if (b->is_step && b->waiter_count == 0) { /* nobody will ever want it */
            b->waiters[b->waiter_count++] = UINT64_MAX;
            pursue_destroy(b);
        }
        if (b->waiter_count == 0)
            drop(b);
        return;
    case KILLING:
    case LEAVING:
    case REMOVING:
    case GONE:
    case STATE__COUNT:
        return;
    }
}

static void now_ended(struct abx__box *b, const struct abx_proc_status *st)
{
    char text[64], why[96];
    switch (b->state) {
    case MAKING:
        fail_make(b, -ECHILD, "PID 1 ended at once");
        return;
    case ADOPTING:
        abx_proc_status_text(st, text);
        if (b->waiter_count == 0) {
            snprintf(why, sizeof(why), "ended: %s", text);
            fail_adopt(b, why);
            return;
        }
        set_state(b, ENDED);
        break;
    case RUNNING:
        set_state(b, ENDED);
        abx__worker_exited(b->w, b->id, st);
        break;
    case KILLING:
        step_leave(b);
        return;
    case ENDED:
    case LEAVING:
    case REMOVING:
    case GONE:
    case STATE__COUNT:
        return;
    }
    pursue_destroy(b);
}

static void shim_gone(struct abx__box *b)
{
    struct abx_proc_status killed = {.signum = SIGKILL};
    switch (b->state) {
    case MAKING:
        fail_make(b, -EPIPE, "its shim died");
        return;
    case ADOPTING:
        fail_adopt(b, "its shim refuses us or is gone");
        return;
    case RUNNING: /* PID 1 died with it */
        close_control(b);
        set_state(b, ENDED);
        abx__worker_exited(b->w, b->id, &killed);
        pursue_destroy(b);
        return;
    case ENDED:
        close_control(b);
        return;
    case KILLING:
    case LEAVING:
        step_remove(b);
        return;
    case REMOVING:
    case GONE:
    case STATE__COUNT:
        return;
    }
}

static void take_message(struct abx__box *b, const struct abx_shim_reply *m)
{
    struct abx_proc_status st = status_of(m);
    char step[sizeof(m->step) + 1];
    switch ((enum abx_shim_state)m->state) {
    case ABX_SHIM_FAILED:
        snprintf(step, sizeof(step), "%.*s", (int)sizeof(m->step), m->step);
        if (b->state == MAKING)
            fail_make(b, m->error > 0 ? -m->error : -EIO, step);
        return;
    case ABX_SHIM_RUNNING:
        if (b->state == MAKING || b->state == ADOPTING)
            now_running(b, m);
        return;
    case ABX_SHIM_EXITED:
        now_ended(b, &st);
        return;
    }
}

static void on_control(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct abx__box *b = p->owner;
    struct abx_shim_reply m;
    ssize_t n = recv(b->control_fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof(m) && m.magic == ABX_SHIM_MAGIC)
        take_message(b, &m);
    else
        shim_gone(b);
}

static void on_timer(struct abx_timer *t)
{
    struct abx__box *b = t->owner;
    struct abx_error err = {0};
    switch (b->state) {
    case MAKING:
        fail_make(b, -ETIMEDOUT, "its shim does not answer");
        return;
    case ADOPTING:
        fail_adopt(b, "its shim does not answer");
        return;
    case KILLING:
        if (b->is_asked) {
            b->is_asked = false;
            (void)command(b, ABX_SHIM_KILL);
            abx_timer_start(t, KILL_LIMIT_MS, 0);
            return;
        }
        abx_err_set(&err, ABX_DEADLINE_EXCEEDED, "sandbox %s does not die", b->id);
        set_state(b, RUNNING);
        answer_waiters(b, &err);
        return;
    case LEAVING:
        step_remove(b);
        return;
    case REMOVING:
        remove_files(b);
        return;
    case RUNNING:
    case ENDED:
    case GONE:
    case STATE__COUNT:
        return;
    }
}

/* ---- requests ---- */
static struct abx__box *new_box(struct abx__worker *w, const char *id, enum state state,
                                struct abx_error *err)
{
    struct abx__box *b = calloc(1, sizeof(*b));
    if (b == NULL || abx_map_set(&w->boxes, abx_str(id), b, NULL) < 0) {
        free(b);
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "too many sandboxes (%u)",
                    (unsigned)ABX__RT_BOXES_MAX);
        return NULL;
    }
    memcpy(b->id, id, sizeof(b->id));
    b->state = state;
    b->w = w;
    b->control_fd = b->slot = -1;
    abx_timer_init(&b->timer, &w->loop, on_timer, b);
    b->handles = 1;
    return b;
}

static int watch_control(struct abx__box *b, int take_fd, uint64_t limit_ms, struct abx_error *err)
{
    b->control_fd = take_fd;
    if (abx_poll_init(&b->poll, &b->w->loop, take_fd, on_control, b, err) < 0) {
        abx_fd_close(&b->control_fd);
        return -1;
    }
    b->handles++;
    abx_poll_set(&b->poll, ABX_POLL_IN);
    abx_timer_start(&b->timer, limit_ms, 0);
    return 0;
}

void abx__box_create(struct abx__worker *w, const struct abx__rt_request *req, int take_line_fd)
{
    ABX_AUTO_FD line = take_line_fd;
    struct abx_error err = {0};
    const char *id = req->spec.id;
    if (abx_map_get(&w->boxes, abx_str(id)) != NULL) {
        abx_err_set(&err, ABX_ALREADY_EXISTS, "sandbox %s exists", id);
        abx__worker_reply(w, req->tag, NULL, &err);
        return;
    }
    struct abx__box *b = new_box(w, id, MAKING, &err);
    if (b == NULL) {
        abx__worker_reply(w, req->tag, NULL, &err);
        return;
    }
    b->make_tag = req->tag;
    b->is_step = req->spec.is_step;
    memcpy(b->nonce, req->spec.nonce, sizeof(b->nonce));
    struct abx__started shim;
    if (faccessat(w->sandboxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) { /* not ours to remove */
        abx_err_set(&err, ABX_ALREADY_EXISTS, "there is a folder of sandbox %s already", id);
        answer_make(b, &err);
        set_state(b, GONE);
        drop(b);
        return;
    }
    if (abx__pool_take(w, &req->spec, &shim, &b->failure) < 0) {
        step_remove(b);
        return;
    }
    b->slot = (int32_t)shim.slot;
    b->making_pid = shim.shim_pid;
    if (abx__box_start(w, &req->spec, &shim, line, &b->failure) < 0) {
        abx_err_wrap(&b->failure, "sandbox %s", id);
        abx__child_kill(shim.shim_pid);
        abx__shim_end(w, &shim);
        b->slot = -1; /* frees itself with the shim */
        step_remove(b);
        return;
    }
    if (watch_control(b, shim.control_fd, MAKE_LIMIT_MS, &b->failure) < 0)
        fail_make(b, -ENOMEM, "watch its shim");
}

/* Connects to the shim of a sandbox that an earlier engine made and asks for its status. */
static int reach(struct abx__box *b, const unsigned char nonce[ABX_NONCE_LEN],
                 struct abx_error *err)
{
    ABX_AUTO_FD folder =
        openat(b->w->sandboxes_fd, b->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return abx_err_sys(err, -errno, "its folder");
    struct abx__box_record record;
    if (abx__record_read(folder, &record) < 0 || record.slot >= ABX__IDS_SLOTS)
        return abx_err_set(err, ABX_NOT_FOUND, "its folder is incomplete");
    memcpy(b->nonce, nonce ? nonce : record.nonce, sizeof(b->nonce));
    b->slot = (int32_t)record.slot;
    b->is_step = faccessat(folder, "run/gateway.sock", F_OK, AT_SYMLINK_NOFOLLOW) < 0;
    abx__slot_mark(b->w, record.slot, true);
    ABX_AUTO_FD fd = abx_fd_connect_unix(folder, "shim.sock", SOCK_SEQPACKET | SOCK_NONBLOCK);
    if (fd < 0)
        return abx_err_set(err, ABX_NOT_FOUND, "its shim is gone");
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != geteuid())
        return abx_err_set(err, ABX_NOT_FOUND, "its socket belongs to another user");
    if (watch_control(b, abx_fd_take(&fd), REACH_LIMIT_MS, err) < 0)
        return -1;
    int r = command(b, ABX_SHIM_STATUS);
    return r < 0 ? abx_err_sys(err, r, "ask its shim") : 0;
}

void abx__box_adopt(struct abx__worker *w, const struct abx__rt_request *req)
{
    struct abx_error err = {0};
    struct abx__box *b = NULL;
    if (abx_map_get(&w->boxes, abx_str(req->spec.id)) != NULL)
        abx_err_set(&err, ABX_ALREADY_EXISTS, "sandbox %s is adopted", req->spec.id);
    else
        b = new_box(w, req->spec.id, ADOPTING, &err);
    if (b == NULL) {
        abx__worker_reply(w, req->tag, NULL, &err);
        return;
    }
    b->make_tag = req->tag;
    b->known = req->known;
    if (reach(b, req->spec.nonce, &err) < 0)
        fail_adopt(b, err.msg);
}

void abx__box_seal(struct abx__worker *w, const struct abx__rt_request *req)
{
    struct abx_error err;
    struct abx__box *b = abx_map_get(&w->boxes, abx_str(req->spec.id));
    if (b == NULL || !b->is_step || b->has_seal || b->waiter_count > 0 ||
        (b->state != RUNNING && b->state != ENDED)) {
        abx_err_set(&err, ABX_NOT_FOUND, "%s is no build step that can be sealed", req->spec.id);
        abx__worker_reply(w, req->tag, NULL, &err);
        return;
    }
    b->has_seal = true;
    b->seal = req->digest;
    abx__box_destroy(w, req->spec.id, req->tag);
}

void abx__box_destroy(struct abx__worker *w, const char *id, uint64_t tag)
{
    struct abx_error err = {0};
    struct abx__box *b = abx_map_get(&w->boxes, abx_str(id));
    bool fresh = b == NULL;
    if (fresh)
        b = new_box(w, id, ADOPTING, &err);
    else if (b->waiter_count == WAITERS_MAX)
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "sandbox %s is being destroyed", id);
    if (b == NULL || err.code != ABX_OK) {
        if (tag != 0)
            abx__worker_reply(w, tag, NULL, &err);
        else
            abx__worker_gc_step(w);
        return;
    }
    b->waiters[b->waiter_count++] = tag;
    if (fresh && reach(b, NULL, &err) < 0)
        fail_adopt(b, err.msg);
    else
        pursue_destroy(b);
}
