/* lib/proc/status.c: exit statuses and their texts (envd.md 5.6, Go's names of signals). */
#include "lib/proc/proc_priv.h"

#include "lib/base/assert.h"

#include <stdio.h>
#include <sys/wait.h>

#include "lib/base/banned.h"

static const char *const signal_names[] = {
    [SIGHUP] = "hangup",
    [SIGINT] = "interrupt",
    [SIGQUIT] = "quit",
    [SIGILL] = "illegal instruction",
    [SIGTRAP] = "trace/breakpoint trap",
    [SIGABRT] = "aborted",
    [SIGBUS] = "bus error",
    [SIGFPE] = "floating point exception",
    [SIGKILL] = "killed",
    [SIGUSR1] = "user defined signal 1",
    [SIGSEGV] = "segmentation fault",
    [SIGUSR2] = "user defined signal 2",
    [SIGPIPE] = "broken pipe",
    [SIGALRM] = "alarm clock",
    [SIGTERM] = "terminated",
};

void abx_proc_status_text(const struct abx_proc_status *st, char out[64])
{
    if (st->exited) {
        snprintf(out, 64, "exit status %d", st->exit_code);
        return;
    }
    const char *core = st->core_dumped ? " (core dumped)" : "";
    size_t sig = (size_t)st->signum;
    if (sig < ABX_COUNTOF(signal_names) && signal_names[sig] != NULL)
        snprintf(out, 64, "signal: %s%s", signal_names[sig], core);
    else
        snprintf(out, 64, "signal: signal %d%s", st->signum, core);
}

void abx__proc_status_from(const siginfo_t *info, struct abx_proc_status *ret)
{
    *ret = (struct abx_proc_status){0};
    if (info->si_code == CLD_EXITED) {
        ret->exited = true;
        ret->exit_code = info->si_status;
        return;
    }
    ret->signum = info->si_status;
    ret->core_dumped = info->si_code == CLD_DUMPED;
}
