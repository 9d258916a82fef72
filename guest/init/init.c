/* guest/init/init.c: the loop of PID 1: signals, deaths, provisioning, restarts, the stop. */
#include "guest/init/init_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXIT_STOPPED = 128 + SIGTERM, MAX_SIGNALS_PER_TURN = 16 };

static struct abx__init state; /* PID 1 has one; nothing of it is on the heap */

static void pass_signal(struct abx__init *in, int signum)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->services[i].def->gets_signals && in->services[i].pid > 0)
            kill(in->services[i].pid, signum);
}

static void on_signal(struct abx__init *in, int signum)
{
    switch (signum) {
    case SIGCHLD: /* every turn reaps */
    case SIGPIPE:
        return;
    case SIGTERM:
    case SIGINT:
    case SIGQUIT:
        abx__services_stop(in);
        return;
    default:
        pass_signal(in, signum);
    }
}

static void read_signals(struct abx__init *in)
{
    struct signalfd_siginfo info[MAX_SIGNALS_PER_TURN];
    ssize_t n = read(in->signal_fd, info, sizeof(info));
    for (ssize_t i = 0; i < n / (ssize_t)sizeof(info[0]); i++)
        on_signal(in, (int)info[i].ssi_signo);
}

/* Errors of the program itself stay deadly; all else waits in the descriptor. */
static int open_signals(void)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < ABX_COUNTOF(deadly); i++)
        sigdelset(&set, deadly[i]);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int setup(struct abx__init *in, const struct abx_init_options *o)
{
    ABX_ASSERT(o->service_count <= ABX_STATE_SERVICES_MAX);
    *in = (struct abx__init){.o = o,
                             .count = o->service_count,
                             .signal_fd = -1,
                             .channel = {-1, -1},
                             .interpreter = {-1, -1},
                             .init_pair = {-1, -1},
                             .provision_fd = -1,
                             .is_pid_one = getpid() == 1};
    in->page = abx_state_page_new();
    if (in->page == NULL)
        return -ENOMEM;
    in->signal_fd = open_signals();
    if (in->signal_fd < 0)
        return in->signal_fd;
    int *const pairs[] = {in->channel, in->interpreter, in->init_pair};
    for (size_t i = 0; i < ABX_COUNTOF(pairs); i++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pairs[i]) < 0)
            return -errno;
    if (!in->is_pid_one && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -errno;
    in->page->service_count = (uint32_t)o->service_count;
    snprintf(in->page->no_user, sizeof(in->page->no_user), "%s", o->no_user ? o->no_user : "");
    in->page->locked = o->locked;
    for (size_t i = 0; i < in->count; i++) {
        struct abx__service *s = &in->services[i];
        s->def = &o->services[i];
        s->shared = &in->page->services[i];
        snprintf(s->shared->name, sizeof(s->shared->name), "%s", s->def->name);
    }
    return 0;
}

static void teardown(struct abx__init *in)
{
    abx_fd_close(&in->signal_fd);
    abx_fd_close(&in->provision_fd);
    for (int i = 0; i < 2; i++) {
        abx_fd_close(&in->channel[i]);
        abx_fd_close(&in->interpreter[i]);
        abx_fd_close(&in->init_pair[i]);
    }
    abx_state_page_free(in->page);
}

static int next_wait_ms(struct abx__init *in)
{
    int restart = abx__services_start_due(in);
    if (!in->stopping)
        return restart;
    int64_t left = in->stop_deadline_ms - abx_time_mono_ms();
    return left < 0 ? 0 : (int)left;
}

static void turn(struct abx__init *in)
{
    struct pollfd fds[] = {{in->signal_fd, POLLIN, 0}, {in->init_pair[0], POLLIN, 0}};
    int n = poll(fds, ABX_COUNTOF(fds), next_wait_ms(in));
    if (n > 0 && fds[0].revents != 0)
        read_signals(in);
    if (n > 0 && fds[1].revents != 0)
        abx__provision_receive(in);
    abx__services_reap(in);
}

/* As PID 1 everything that is left; otherwise only what we started. */
static void kill_rest(struct abx__init *in)
{
    if (in->is_pid_one)
        kill(-1, SIGKILL);
    for (size_t i = 0; i < in->count; i++)
        if (in->services[i].pid > 0)
            kill(in->services[i].pid, SIGKILL);
    int64_t until = abx_time_mono_ms() + ABX__BACKOFF_MIN_MS * 10;
    while (abx_time_mono_ms() < until) {
        bool left = false;
        abx__services_reap(in);
        for (size_t i = 0; i < in->count; i++)
            left = left || in->services[i].pid > 0;
        if (!left)
            return;
        poll(&(struct pollfd){in->signal_fd, POLLIN, 0}, 1, 10);
        read_signals(in);
    }
}

int abx_init_run(const struct abx_init_options *o)
{
    struct abx__init *in = &state;
    int r = setup(in, o);
    if (r < 0) {
        abx_log(ABX_LOG_ERROR, "init: set-up failed errno=%d", -r);
        teardown(in);
        return 1;
    }
    while (!in->stopping || !abx__services_stopped(in))
        turn(in);
    kill_rest(in);
    teardown(in);
    return EXIT_STOPPED;
}
