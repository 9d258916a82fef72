/* host/runtime/pool.c: shims made ahead of need: PID 1 cloned into its namespaces, ids mapped, in
 * its cgroups, waiting for a sandbox. What is slow in a create is then done (a join of a cgroup can
 * wait for a grace period of RCU). A slot numbers an id range, a creator uid (S55) and the cgroups.
 */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    PLAIN_SIZE = 3,
    ROOTED_SIZE = 4,
    FOLDERS_SIZE = 2, /* besides those of the rooted ones */
    POOL_LOW = 2,     /* with fewer left a pause is not waited for */
    POOL_PAUSE_MS = 25,
    REMOVE_RETRY_MS = 5,
    REMOVE_RETRIES = 4000,
    PATIENCE = 1000
};

struct warm {
    struct abx_list node;
    struct abx__started shim;
};

/* A slot whose processes are ending: its cgroups go as soon as they can, then the folder, which a
 * shim may be mounting in until it has ended. */
struct ending {
    struct abx__worker *w;
    struct abx_timer timer;
    pid_t shim_pid; /* 0: none of ours */
    uint32_t slot;
    int tries;
    bool is_gc;
    char folder[sizeof(((struct abx__folder *)0)->name)]; /* empty: none */
};

/* The shims that are our children, until they are reaped; when the engine goes they live on. */
static struct abx_list children = {&children, &children};
struct child {
    struct abx_list node;
    struct abx_proc *proc;
};

static void on_shim_exit(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct child *c = arg;
    (void)st;
    abx_list_remove(&c->node);
    abx_proc_close(p);
    free(c);
}

void abx__children_let_go(void)
{
    struct child *c;
    abx_list_foreach(c, &children, struct child, node)
    {
        abx_list_remove(&c->node);
        abx_proc_disown(c->proc);
        free(c);
    }
}

static bool child_is_running(pid_t pid)
{
    const struct child *c;
    abx_list_foreach(c, &children, const struct child, node)
    {
        if (abx_proc_pid(c->proc) == pid)
            return true;
    }
    return false;
}

void abx__child_kill(pid_t pid)
{
    struct child *c;
    abx_list_foreach(c, &children, struct child, node)
    {
        if (abx_proc_pid(c->proc) == pid)
            (void)abx_proc_signal(c->proc, SIGKILL);
    }
}

/* @lock_fd, where there is one, stays open in the shim: the slot is taken while it lives. */
static int spawn_shim(struct abx__worker *w, int control_fd, int lock_fd, pid_t *ret,
                      struct abx_error *err)
{
    char name[] = "abx-shim";
    char *argv[] = {name, NULL}, *envp[] = {NULL};
    struct abx_proc_spec spec = {.path = w->options.shim_path,
                                 .argv = argv,
                                 .envp = envp,
                                 .cwd = "/",
                                 .stdio = {control_fd, -1, -1},
                                 .exec_fd = lock_fd,
                                 .oom_score_adj = INT_MIN,
                                 .new_session = true};
    struct child *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    if (abx_proc_spawn(&w->loop, &spec, on_shim_exit, c, &c->proc, err) < 0) {
        free(c);
        return -1;
    }
    abx_list_push(&children, &c->node);
    *ret = abx_proc_pid(c->proc);
    return 0;
}

/* The descriptors of a root that is made ahead, in their order. */
static uint32_t root_fds(const struct abx__folder *f, const struct abx__lowers *l,
                         int fds[ABX_SHIM_FD_MAX])
{
    fds[0] = f->fs;
    fds[1] = f->extra >= 0 ? f->extra : f->fs;
    memcpy(fds + 2, l->fds, l->count * sizeof(int));
    return 2 + l->count;
}

/* @lowers: of a sandbox like w->likely, whose root is made in the folder of @s; NULL: none. */
static int send_prepare(struct abx__worker *w, const struct abx__started *s,
                        const struct abx__lowers *lowers, struct abx_error *err)
{
    bool is_private = w->ids.level == ABX__IDS_PRIVATE, single = w->ids.level == ABX__IDS_SHARED;
    struct abx_shim_prepare head = {
        .magic = ABX_SHIM_MAGIC,
        .creator_uid = is_private ? ABX__IDS_CREATORS + s->slot : 0,
        .uid = single ? ABX_USER_ID : 0,
        .gid = single ? ABX_USER_ID : 0,
        .lower_count = lowers != NULL ? lowers->count : 0,
        .flags = s->folder.extra >= 0 ? ABX_SHIM_HAS_EXTRA : 0,
        .storage_base = is_private ? ABX__IDS_STORAGE : 0,
        .private_base = is_private ? ABX__IDS_PRIVATE_BASE + s->slot * ABX__IDS_RANGE : 0};
    ABX_AUTO_BUF message;
    abx_buf_init(&message, sizeof(head) + ABX_SHIM_PREPARE_MAX);
    abx_buf_put(&message, &head, sizeof(head));
    abx__ops_prepare(w, s->slot, lowers != NULL ? &w->likely : NULL, &message);
    if (abx_buf_failed(&message))
        return abx_err_set(err, ABX_INTERNAL, "the list of operations is too long");
    head.op_bytes = (uint32_t)(message.len - sizeof(head));
    memcpy(message.ptr, &head, sizeof(head));
    int fds[ABX_SHIM_FD_MAX];
    uint32_t fd_count = lowers != NULL ? root_fds(&s->folder, lowers, fds) : 0;
    ssize_t n = abx_fd_send(s->control_fd, message.ptr, message.len, fds, fd_count);
    return n < 0 ? abx_err_sys(err, (int)n, "prepare a shim") : 0;
}

/* A slot that no sandbox of this engine has, nor, where it means ids, one of any other. */
static int take_slot(struct abx__worker *w, uint32_t *ret, int *ret_lock_fd, struct abx_error *err)
{
    *ret_lock_fd = -1;
    for (uint32_t i = 0; i < ABX__IDS_SLOTS; i++) {
        uint32_t slot = w->next_slot++ % ABX__IDS_SLOTS;
        if (abx__slot_is_taken(w, slot))
            continue;
        int fd =
            w->ids.level == ABX__IDS_PRIVATE ? abx__slot_lock(w->options.ids_folder, slot) : -1;
        if (fd == -EBUSY)
            continue;
        if (fd < 0 && w->ids.level == ABX__IDS_PRIVATE)
            return abx_err_sys(err, fd, "lock an id range in %s", w->options.ids_folder);
        abx__slot_mark(w, slot, true);
        *ret = slot;
        *ret_lock_fd = fd;
        return 0;
    }
    return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no free id range");
}

bool abx__slot_is_taken(const struct abx__worker *w, uint32_t slot)
{
    return (w->slots[slot / 8] & 1u << slot % 8) != 0;
}

void abx__slot_mark(struct abx__worker *w, uint32_t slot, bool taken)
{
    unsigned bit = 1u << slot % 8;
    unsigned char *byte = &w->slots[slot / 8];
    *byte = (unsigned char)(taken ? *byte | bit : *byte & ~bit);
}

/* Where @lowers are given ret->folder is there, and goes when this fails. */
static int prepare(struct abx__worker *w, const struct abx__lowers *lowers,
                   struct abx__started *ret, struct abx_error *err)
{
    int ends[2];
    ret->is_rooted = lowers != NULL;
    ABX_AUTO_FD lock_fd = -1;
    int r = take_slot(w, &ret->slot, &lock_fd, err);
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        r = abx_err_sys(err, -errno, "socketpair");
        abx__slot_mark(w, ret->slot, false);
    }
    if (r < 0) {
        if (ret->is_rooted)
            abx__folder_drop(w, &ret->folder);
        return -1;
    }
    ret->control_fd = ends[0];
    ret->shim_pid = 0;
    ABX_AUTO_FD theirs = ends[1];
    if (spawn_shim(w, theirs, lock_fd, &ret->shim_pid, err) == 0 &&
        send_prepare(w, ret, lowers, err) == 0)
        return 0;
    abx__shim_end(w, ret);
    return -1;
}

/* ---- ending ---- */
static void on_ending_closed(void *owner)
{
    free(owner);
}

/* Whether something of it is left. A prepared shim ends by itself when its socket is closed, with
 * its PID 1; one that does not is killed. */
static bool is_busy(struct ending *e)
{
    if (e->shim_pid > 0 && child_is_running(e->shim_pid)) {
        if (e->tries >= PATIENCE)
            abx__child_kill(e->shim_pid);
        return true;
    }
    if (abx__cgroups_remove(&e->w->cgroups, e->slot) == -EBUSY) {
        abx__cgroups_kill(&e->w->cgroups, e->slot);
        return true;
    }
    /* Without cgroups a PID 1 whose shim was killed may outlive it for a moment. */
    int r = e->folder[0] != 0 ? abx_fd_remove_tree(e->w->sandboxes_fd, e->folder) : 0;
    return r == -ENOTEMPTY || r == -EBUSY;
}

static void on_ending(struct abx_timer *t)
{
    struct ending *e = t->owner;
    bool was_busy = is_busy(e);
    if (was_busy && ++e->tries < REMOVE_RETRIES) {
        abx_timer_start(t, REMOVE_RETRY_MS, 0);
        return;
    }
    if (was_busy)
        abx_log(ABX_LOG_WARN, "what was prepared does not end slot=%u folder=%s", e->slot,
                e->folder);
    abx__slot_mark(e->w, e->slot, false);
    if (e->is_gc)
        abx__worker_gc_step(e->w);
    e->w->ending_count--;
    abx_timer_close(t, on_ending_closed);
    abx__worker_may_end(e->w);
}

/* False: no memory. */
static bool end_later(const struct ending *what)
{
    struct ending *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return false;
    *e = *what;
    e->w->ending_count++;
    abx_timer_init(&e->timer, &e->w->loop, on_ending, e);
    abx_timer_start(&e->timer, 0, 0);
    return true;
}

void abx__slot_end_gc(struct abx__worker *w, uint32_t slot)
{
    if (end_later(&(struct ending){.w = w, .slot = slot, .is_gc = true}))
        return;
    (void)abx__cgroups_remove(&w->cgroups, slot);
    abx__worker_gc_step(w);
}

void abx__shim_end(struct abx__worker *w, struct abx__started *s)
{
    struct ending e = {.w = w, .slot = s->slot, .shim_pid = s->shim_pid};
    abx_fd_close(&s->control_fd);
    if (s->is_rooted) {
        abx__folder_done(&s->folder);
        memcpy(e.folder, s->folder.name, sizeof(e.folder));
    }
    if (end_later(&e))
        return;
    abx__child_kill(s->shim_pid);
    (void)is_busy(&e); /* once; what is left is removed at the next start */
}

/* ---- the pool ---- */
static bool are_alike(const struct abx_sandbox_spec *a, const struct abx_sandbox_spec *b)
{
    return a->layer_count == b->layer_count && a->host_opt == b->host_opt && !a->is_step &&
           !b->is_step && memcmp(a->layers, b->layers, a->layer_count * sizeof(a->layers[0])) == 0;
}

static int *count_of(struct abx__worker *w, const struct warm *p)
{
    return p->shim.is_rooted ? &w->rooted_count : &w->plain_count;
}

/* Takes it out of the pool; the caller frees it. */
static void unlist(struct abx__worker *w, struct warm *p)
{
    abx_list_remove(&p->node);
    --*count_of(w, p);
}

static void end_warm(struct abx__worker *w, struct warm *p)
{
    unlist(w, p);
    abx__shim_end(w, &p->shim);
    free(p);
}

static int add_plain(struct abx__worker *w, struct warm *p, struct abx_error *err)
{
    p->shim.folder = (struct abx__folder)ABX__FOLDER_NONE;
    return prepare(w, NULL, &p->shim, err);
}

static int add_rooted(struct abx__worker *w, struct warm *p, struct abx_error *err)
{
    struct abx__lowers lowers = {0};
    if (abx__lowers_open(w, &w->likely, &lowers, err) < 0)
        return -1;
    int r = abx__folder_take(w, false, &p->shim.folder);
    if (r < 0)
        abx_err_sys(err, r, "sandbox folder");
    else
        r = prepare(w, &lowers, &p->shim, err);
    abx__lowers_close(&lowers);
    return r;
}

static int add(struct abx__worker *w,
               int (*fn)(struct abx__worker *, struct warm *, struct abx_error *))
{
    struct abx_error err; /* the next create tells why */
    struct warm *p = calloc(1, sizeof(*p));
    if (p == NULL || fn(w, p, &err) < 0) {
        free(p);
        return -1;
    }
    abx_list_push(&w->warm, &p->node);
    ++*count_of(w, p);
    return 0;
}

static void fill(struct abx__worker *w)
{
    if (w->closing)
        return;
    while (w->rooted_count < ROOTED_SIZE && w->folder_count > 0 && add(w, add_rooted) == 0)
        ;
    while (w->plain_count < PLAIN_SIZE && add(w, add_plain) == 0)
        ;
    abx__folders_fill(w, FOLDERS_SIZE + ROOTED_SIZE - w->rooted_count);
}

static void on_fill(struct abx_defer *d)
{
    fill(d->owner);
}

static void on_fill_later(struct abx_timer *t)
{
    fill(t->owner);
}

void abx__pool_init(struct abx__worker *w)
{
    abx_timer_init(&w->fill_later, &w->loop, on_fill_later, w);
    abx_timer_unref(&w->fill_later);
}

void abx__pool_fill(struct abx__worker *w)
{
    if (w->plain_count < POOL_LOW || w->rooted_count < POOL_LOW)
        abx_defer_start(&w->fill, &w->loop, on_fill, w);
    else if (!w->closing)
        abx_timer_start(&w->fill_later, POOL_PAUSE_MS, 0);
}

static void forget_roots(struct abx__worker *w)
{
    struct warm *p;
    abx_list_foreach(p, &w->warm, struct warm, node)
    {
        if (p->shim.is_rooted)
            end_warm(w, p);
    }
}

void abx__pool_forget_layers(struct abx__worker *w)
{
    if (w->likely.layer_count > 0)
        forget_roots(w);
    w->likely = w->last = (struct abx_sandbox_spec){0};
}

/* One that is used once is not what the next will be. */
static void learn(struct abx__worker *w, const struct abx_sandbox_spec *spec)
{
    if (!spec->is_step && are_alike(spec, &w->last) && !are_alike(spec, &w->likely)) {
        w->likely = *spec;
        forget_roots(w);
    }
    if (!spec->is_step)
        w->last = *spec;
}

static struct warm *pick(struct abx__worker *w, bool rooted)
{
    struct warm *p;
    abx_list_foreach(p, &w->warm, struct warm, node)
    {
        if (p->shim.is_rooted == rooted)
            return p;
    }
    return NULL;
}

int abx__pool_take(struct abx__worker *w, const struct abx_sandbox_spec *spec,
                   struct abx__started *ret, struct abx_error *err)
{
    struct warm *p;
    bool may_be_rooted = are_alike(spec, &w->likely);
    learn(w, spec);
    while ((may_be_rooted && (p = pick(w, true)) != NULL) || (p = pick(w, false)) != NULL) {
        struct abx_shim_reply why = {0};
        /* It says nothing unless it failed or is gone. */
        ssize_t n = recv(p->shim.control_fd, &why, sizeof(why), MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            unlist(w, p);
            *ret = p->shim;
            free(p);
            return 0;
        }
        abx_log(ABX_LOG_WARN, "prepared shim failed rooted=%d errno=%d step=\"%.*s\"",
                (int)p->shim.is_rooted, (int)why.error, (int)sizeof(why.step), why.step);
        end_warm(w, p);
    }
    *ret = (struct abx__started){.folder = ABX__FOLDER_NONE};
    return prepare(w, NULL, ret, err);
}

void abx__pool_close(struct abx__worker *w)
{
    struct warm *p;
    abx_defer_cancel(&w->fill);
    abx_timer_close(&w->fill_later, NULL);
    abx__folders_close(w);
    while ((p = abx_list_first(&w->warm, struct warm, node)) != NULL)
        end_warm(w, p);
}
