/* host/runtime/worker.c: the runtime side's process (security S66): its start, its answers, its
 * end. One loop; ends when the network side is gone. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/loop/fdcheck.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SEND_LIMIT_MS = 10000, LOCK_WAIT_MS = 20000, LOCK_PAUSE_MS = 10 };

void abx__worker_send(struct abx__worker *w, const void *message, size_t len)
{
    if (w->closing)
        return;
    ssize_t n = abx_fd_send(w->sock, message, len, NULL, 0);
    if (n == -EAGAIN) { /* the one peer reads all the time, or the engine is lost anyway */
        struct pollfd p = {w->sock, POLLOUT, 0};
        if (poll(&p, 1, SEND_LIMIT_MS) == 1)
            n = abx_fd_send(w->sock, message, len, NULL, 0);
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
    abx__worker_send(w, &m, sizeof(m));
}

void abx__worker_exited(struct abx__worker *w, const char *id, const struct abx_proc_status *st)
{
    struct abx__rt_reply m = {.magic = ABX__RT_MAGIC, .kind = ABX__RT_EXIT, .status = *st};
    snprintf(m.info.id, sizeof(m.info.id), "%s", id);
    abx__worker_send(w, &m, sizeof(m));
}

void abx__worker_may_end(struct abx__worker *w)
{
    if (w->closing && w->boxes.count == 0 && w->ending_count == 0)
        abx__children_let_go();
}

void abx__worker_close_down(struct abx__worker *w)
{
    w->closing = true;
    abx__pool_close(w);
    abx__unpacker_stop(w);
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

/* The runtime side of an engine that was killed ends a little later than that engine, and then
 * removes what it thinks nobody needs: the folder is one side's at a time. Held until the end. */
static int take_runtime(int fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000L};
    for (int tries = LOCK_WAIT_MS / LOCK_PAUSE_MS; flock(fd, LOCK_EX | LOCK_NB) < 0; tries--) {
        if (errno != EWOULDBLOCK || tries == 0)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return 0;
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
    int r = take_runtime(w->runtime_fd);
    return r < 0 ? abx_err_sys(err, r, "%s/runtime: the last engine has not ended",
                               w->options.state_dir)
                 : 0;
}

static int prepare(struct abx__worker *w, struct abx_error *err)
{
    if (abx__ids_enter(w->sock, &w->ids, err) < 0 || open_folders(w, err) < 0 ||
        abx__store_open(w, err) < 0 || abx__unpacker_start(w, err) < 0)
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
    if (abx_poll_init(&w->poll, &w->loop, w->sock, abx__worker_on_request, w, err) < 0)
        return -1;
    abx_poll_set(&w->poll, ABX_POLL_IN);
    abx__slots_scan(w);
    abx__folders_sweep(w);
    abx__pool_init(w);
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
    abx__worker_send(w, &m, sizeof(m));
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
    if (w->options.ids_folder == NULL)
        w->options.ids_folder = ABX__SLOTS_FOLDER;
    w->caller_uid = getuid();
    w->state_fd = w->sandboxes_fd = w->runtime_fd = w->layers_fd = w->unpacker_sock = -1;
    w->layers = (struct abx__layers){.top_fd = -1, .host_fd = -1, .step_fd = -1};
    abx_map_init(&w->boxes, ABX__RT_BOXES_MAX);
    abx_list_init(&w->warm);
    abx_list_init(&w->folders);
    int r = prepare(w, &err);
    report_ready(w, &err);
    if (r == 0)
        abx_loop_run(&w->loop);
    abx_loop_done(&w->loop);
    abx_map_done(&w->boxes);
    abx__cgroups_close(&w->cgroups);
    if (w->ids.level == ABX__IDS_PRIVATE)
        abx__slots_tidy(w->options.ids_folder);
    w->layers.name[0] = 0; /* ours too, unless a sandbox lives on it */
    if (w->sandboxes_fd >= 0 && w->runtime_fd >= 0)
        abx__gc_layers(w);
    abx__layers_done(&w->layers);
    int *fds[] = {&w->sock,       &w->state_fd,  &w->sandboxes_fd,
                  &w->runtime_fd, &w->layers_fd, &w->unpacker_sock};
    for (size_t i = 0; i < ABX_COUNTOF(fds); i++)
        abx_fd_close(fds[i]);
    if (w->unpacker_pid > 0)
        abx_proc_wait(w->unpacker_pid, NULL); /* it sees its socket closed */
    free(w);
    abx_fdcheck_report(&check);
    return r == 0 ? 0 : 1;
}
