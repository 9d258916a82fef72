/* host/runtime/worker.c: the runtime side's process (security S66): takes a closed set of typed
 * requests from the network side, checks every field again, and parses nothing else. One loop;
 * ends when the network side is gone. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/loop/fdcheck.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    MEMORY_MIN_MB = 16,
    MEMORY_MAX_MB = 1024 * 1024,
    CPUS_MAX = 1024,
    PIDS_MIN = 8,
    PIDS_MAX = 65536,
    SEND_LIMIT_MS = 10000,
    REQUEST_MAX = sizeof(struct abx__rt_request) + ABX__RT_KEEP_MAX * ABX_SANDBOX_ID_LEN
};

static const char *const templates[] = {"host"};

bool abx__id_is_valid(const char id[ABX_SANDBOX_ID_LEN + 1])
{
    if (id[0] != 'i' || id[ABX_SANDBOX_ID_LEN] != 0)
        return false;
    for (int i = 1; i < ABX_SANDBOX_ID_LEN; i++)
        if (!((id[i] >= 'a' && id[i] <= 'z') || (id[i] >= '0' && id[i] <= '9')))
            return false;
    return true;
}

static bool is_template(const char name[64])
{
    for (size_t i = 0; i < ABX_COUNTOF(templates); i++)
        if (strnlen(name, 64) < 64 && strcmp(name, templates[i]) == 0)
            return true;
    return false;
}

static bool in_range(uint32_t v, uint32_t least, uint32_t most)
{
    return v >= least && v <= most;
}

static void send_reply(struct abx__worker *w, const struct abx__rt_reply *m)
{
    if (w->closing)
        return;
    ssize_t n = abx_fd_send(w->sock, m, sizeof(*m), NULL, 0);
    if (n == -EAGAIN) { /* the one peer reads all the time, or the engine is lost anyway */
        struct pollfd p = {w->sock, POLLOUT, 0};
        if (poll(&p, 1, SEND_LIMIT_MS) == 1)
            n = abx_fd_send(w->sock, m, sizeof(*m), NULL, 0);
    }
    if (n < 0)
        abx_log(ABX_LOG_WARN, "answer lost errno=%d", (int)-n);
}

void abx__worker_reply(struct abx__worker *w, uint64_t tag, const struct abx_sandbox_info *info,
                       const struct abx_error *err)
{
    struct abx__rt_reply m = {.magic = ABX__RT_MAGIC, .kind = ABX__RT_DONE, .tag = tag};
    if (info != NULL)
        m.info = *info;
    if (err != NULL)
        m.err = *err;
    send_reply(w, &m);
}

void abx__worker_exited(struct abx__worker *w, const char *id, const struct abx_proc_status *st)
{
    struct abx__rt_reply m = {.magic = ABX__RT_MAGIC, .kind = ABX__RT_EXIT, .status = *st};
    snprintf(m.info.id, sizeof(m.info.id), "%s", id);
    send_reply(w, &m);
}

/* The text of what is wrong with a request, or NULL. */
static const char *refusal(const struct abx__rt_request *r, size_t len)
{
    const struct abx_sandbox_spec *s = &r->spec;
    if (r->verb == ABX__RT_GC) {
        if (r->keep_count > ABX__RT_KEEP_MAX ||
            len != sizeof(*r) + (size_t)r->keep_count * ABX_SANDBOX_ID_LEN)
            return "list of ids";
        return NULL;
    }
    if (len != sizeof(*r))
        return "length";
    if (!abx__id_is_valid(s->id))
        return "sandbox id";
    if (r->verb == ABX__RT_ADOPT && (r->known.shim_pid <= 1 || r->known.shim_start_time == 0))
        return "known shim";
    if (r->verb != ABX__RT_CREATE)
        return NULL;
    if (!is_template(s->template_name))
        return "template (only host is built)";
    if (!in_range(s->memory_mb, MEMORY_MIN_MB, MEMORY_MAX_MB))
        return "memory";
    if (!in_range(s->cpu_count, 1, CPUS_MAX))
        return "cpu count";
    if (!in_range(s->pids_max, PIDS_MIN, PIDS_MAX))
        return "pids";
    return NULL;
}

static void dispatch(struct abx__worker *w, const struct abx__rt_request *r, const char *tail,
                     size_t len)
{
    struct abx_error err;
    const char *wrong = refusal(r, len);
    if (wrong != NULL) {
        abx_err_set(&err, ABX_INVALID_ARGUMENT, "runtime: bad %s", wrong);
        abx__worker_reply(w, r->tag, NULL, &err);
        return;
    }
    switch ((enum abx__rt_verb)r->verb) {
    case ABX__RT_CREATE:
        abx__box_create(w, r);
        return;
    case ABX__RT_ADOPT:
        abx__box_adopt(w, r);
        return;
    case ABX__RT_DESTROY:
        abx__box_destroy(w, r->spec.id, r->tag);
        return;
    case ABX__RT_GC:
        abx__gc_start(w, r, tail);
        return;
    }
    abx_err_set(&err, ABX_INVALID_ARGUMENT, "runtime: unknown request %u", r->verb);
    abx__worker_reply(w, r->tag, NULL, &err);
}

void abx__worker_may_end(struct abx__worker *w)
{
    if (w->closing && w->boxes.count == 0 && w->ending_count == 0)
        abx__children_let_go();
}

static void close_down(struct abx__worker *w)
{
    w->closing = true;
    abx__pool_close(w);
    abx_poll_close(&w->poll, NULL);
    abx_fd_close(&w->sock);
    /* let_go() changes the map: start again after each */
    for (bool more = true; more;) {
        size_t it = 0, before = w->boxes.count;
        struct abx_str key;
        void *box;
        more = false;
        while (abx_map_next(&w->boxes, &it, &key, &box)) {
            abx__box_let_go(box);
            if (w->boxes.count != before) {
                more = true;
                break;
            }
        }
    }
    abx__worker_may_end(w);
}

static void on_request(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct abx__worker *w = p->owner;
    static union {
        struct abx__rt_request request;
        char bytes[REQUEST_MAX];
    } m;
    ssize_t n = recv(w->sock, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < (ssize_t)sizeof(m.request) || n > (ssize_t)sizeof(m) ||
        m.request.magic != ABX__RT_MAGIC) { /* EOF, or not the peer we were forked by */
        close_down(w);
        return;
    }
    dispatch(w, &m.request, m.bytes + sizeof(m.request), (size_t)n);
}

static int open_folder(int at, const char *name, mode_t mode, gid_t gid)
{
    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* Made by another user it could be swapped under us: the state folder is the network side's. */
    struct stat st;
    bool is_ours = fstat(fd, &st) == 0 && st.st_uid == geteuid();
    if (!is_ours || fchown(fd, (uid_t)-1, gid) < 0 || fchmod(fd, mode) < 0) {
        int r = is_ours ? -errno : -EPERM;
        close(fd);
        return r;
    }
    return fd;
}

static int open_folders(struct abx__worker *w, struct abx_error *err)
{
    bool is_private = w->ids.level == ABX__IDS_PRIVATE;
    gid_t gid = is_private ? w->options.network_gid : (gid_t)-1;
    w->state_fd = open(w->options.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->state_fd < 0)
        return abx_err_sys(err, -errno, "state folder %s", w->options.state_dir);
    w->sandboxes_fd = open_folder(w->state_fd, "sandboxes", is_private ? 0710 : 0700, gid);
    if (w->sandboxes_fd < 0)
        return abx_err_sys(err, w->sandboxes_fd, "%s/sandboxes", w->options.state_dir);
    w->runtime_fd = open_folder(w->state_fd, "runtime", 0700, (gid_t)-1);
    if (w->runtime_fd < 0)
        return abx_err_sys(err, w->runtime_fd, "%s/runtime", w->options.state_dir);
    return 0;
}

static int prepare(struct abx__worker *w, struct abx_error *err)
{
    if (abx__ids_enter(w->sock, &w->ids, err) < 0 || open_folders(w, err) < 0)
        return -1;
    abx__cgroups_find(w->options.state_dir, w->ids.level == ABX__IDS_PRIVATE, &w->cgroups);
    struct abx__layer_spec layers = {.guest_path = w->options.guest_path,
                                     .guest_libs = w->options.guest_libs,
                                     .runtime_fd = w->runtime_fd,
                                     .ids = &w->ids};
    if (abx__layers_make(&layers, &w->layers, err) < 0)
        return -1;
    if (access(w->options.shim_path, X_OK) < 0)
        return abx_err_sys(err, -errno, "shim %s", w->options.shim_path);
    if (abx__cgroups_open(&w->cgroups, err) < 0 || abx_loop_init(&w->loop, err) < 0)
        return -1;
    if (abx_poll_init(&w->poll, &w->loop, w->sock, on_request, w, err) < 0)
        return -1;
    abx_poll_set(&w->poll, ABX_POLL_IN);
    abx__slots_scan(w);
    abx__pool_fill(w);
    return 0;
}

static void report_ready(struct abx__worker *w, const struct abx_error *err)
{
    struct abx__rt_reply m = {.magic = ABX__RT_MAGIC, .kind = ABX__RT_READY, .err = *err};
    struct abx_isolation *i = &m.isolation;
    snprintf(i->driver, sizeof(i->driver), "ns");
    snprintf(i->ids, sizeof(i->ids), "%s", abx__ids_names[w->ids.level]);
    snprintf(i->limits, sizeof(i->limits), "%s", w->cgroups.level ? w->cgroups.level : "");
    snprintf(i->disk, sizeof(i->disk), "none");
    snprintf(i->network, sizeof(i->network), "loopback");
    snprintf(i->filesystem, sizeof(i->filesystem), "overlay");
    i->rootful = w->ids.level == ABX__IDS_PRIVATE;
    send_reply(w, &m);
}

int abx__worker_main(void *arg)
{
    const struct abx__worker_start *start = arg;
    struct abx_error err = {0};
    struct abx_fdcheck check;
    abx_fdcheck_note(&check);
    struct abx__worker *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return 1;
    w->sock = start->sock;
    w->options = *start->options;
    w->state_fd = w->sandboxes_fd = w->runtime_fd = w->layers.top_fd = w->layers.host_fd = -1;
    abx_map_init(&w->boxes, ABX__RT_BOXES_MAX);
    abx_list_init(&w->warm);
    int r = prepare(w, &err);
    report_ready(w, &err);
    if (r == 0)
        abx_loop_run(&w->loop);
    abx_loop_done(&w->loop);
    abx_map_done(&w->boxes);
    abx__cgroups_close(&w->cgroups);
    w->layers.name[0] = 0; /* ours too, unless a sandbox lives on it */
    if (w->sandboxes_fd >= 0 && w->runtime_fd >= 0)
        abx__gc_layers(w);
    abx__layers_done(&w->layers);
    int *fds[] = {&w->sock, &w->state_fd, &w->sandboxes_fd, &w->runtime_fd};
    for (size_t i = 0; i < ABX_COUNTOF(fds); i++)
        abx_fd_close(fds[i]);
    free(w);
    abx_fdcheck_report(&check);
    return r == 0 ? 0 : 1;
}
