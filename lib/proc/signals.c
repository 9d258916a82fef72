/* lib/proc/signals.c: the signal state of a child about to start, by system calls alone. */
#include "lib/proc/proc_priv.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SIGNAL_COUNT = 64 };

void abx__proc_block_signals(sigset_t *ret_old)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, ret_old);
}

void abx__proc_restore_signals(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

void abx__proc_reset_signals(void)
{
    /* The kernel's struct sigaction: handler (SIG_DFL is 0), flags, restorer, mask. The C library
     * refuses its own two signals, which an ancestor may have left ignored. */
    uint64_t action[4] = {0};
    for (int sig = 1; sig <= SIGNAL_COUNT; sig++)
        syscall(SYS_rt_sigaction, sig, action, NULL, sizeof(uint64_t));
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}
