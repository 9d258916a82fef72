/* lib/proc/latency.c: how long a process runs at a time, which decides how soon it runs (EEVDF).
 * Loop thread. */
#include "lib/proc/proc_priv.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SLICE_NS = 100000, USUAL = 0 };

/* As linux/sched/types.h has it, which can not stand beside <sched.h>. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static bool prefers_latency;

/* All else stays as it is. */
static void set_slice(pid_t pid, uint64_t ns)
{
    errno = 0;
    struct attributes a = {.size = sizeof(a), .policy = SCHED_OTHER, .runtime = ns};
    a.nice = getpriority(PRIO_PROCESS, (id_t)pid);
    if (errno == 0 && sched_getscheduler(pid) == SCHED_OTHER)
        (void)syscall(SYS_sched_setattr, pid, &a, 0);
}

void abx_proc_prefer_latency(void)
{
    prefers_latency = true;
    set_slice(0, SLICE_NS);
}

void abx__proc_usual_slice(pid_t pid)
{
    if (prefers_latency)
        set_slice(pid, USUAL);
}
