/* lib/proc/session.c: the end of a whole session: jobs that have left the leader's group. */
#include "lib/proc/proc.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { STAT_BYTES = 1024, SESSION_FIELD = 3 /* behind the name: state, parent, group, session */ };

/* The session of a process; 0: it is gone, or unreadable. The name may hold anything but ends at
 * the last ")". */
static uint32_t session_of(const char *pid)
{
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (n <= 0)
        return 0;
    struct abx_str rest = abx_str_n(text, (size_t)n), word;
    rest = abx_str_sub(rest, (size_t)(abx_str_rchr(rest, ')') + 2), rest.len);
    for (int i = 0; abx_str_split(&rest, ' ', &word); i++) {
        uint32_t session;
        if (i == SESSION_FIELD)
            return abx_parse_u32(word, &session) == 0 ? session : 0;
    }
    return 0;
}

/* The number may have gone to another process since: its session is asked again once it is held. */
static void kill_one(const char *name, uint32_t pid, uint32_t sid)
{
    ABX_AUTO_FD fd = pidfd_open((pid_t)pid, 0);
    if (fd >= 0 && session_of(name) == sid)
        (void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
}

void abx_proc_kill_session(pid_t sid)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return;
    const struct dirent *e;
    uint32_t pid;
    while ((e = readdir(dir)) != NULL)
        if (abx_parse_u32(abx_str(e->d_name), &pid) == 0 && pid > 1 && pid != (uint32_t)getpid() &&
            session_of(e->d_name) == (uint32_t)sid)
            kill_one(e->d_name, pid, (uint32_t)sid);
    closedir(dir);
}
