/* tests/attacks/guest.c: stands in for the guest in tests of host/runtime: PID 1 that runs the
 * named attack for whoever connects to its engine socket, and prints what came of it. */
#include "tests/attacks/attacks.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENGINE_FD = 3, USER_ID = 1000 };

static const struct attack *find(const char *name)
{
    for (const struct attack *a = attacks; a->name != NULL; a++)
        if (strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

static _Noreturn void run(int s, char *line)
{
    char *arg = strchr(line, ' ');
    if (arg != NULL)
        *arg++ = 0;
    bool as_user = line[0] == '@';
    if (as_user && getuid() != USER_ID &&
        (setgroups(0, NULL) < 0 || setresgid(USER_ID, USER_ID, USER_ID) < 0 ||
         setresuid(USER_ID, USER_ID, USER_ID) < 0))
        _exit(1);
    FILE *out = fdopen(s, "w");
    const struct attack *a = find(line + as_user);
    if (out == NULL || a == NULL)
        _exit(1);
    a->run(out, arg ? arg : "");
    fflush(out);
    _exit(0);
}

static void serve(int s)
{
    char line[512];
    size_t n = 0;
    while (n < sizeof(line) - 1 && read(s, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = 0;
    if (line[0] == '!') /* "!7": PID 1 ends */
        _exit((int)strtol(line + 1, NULL, 10));
    if (fork() == 0)
        run(s, line);
}

int main(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "--engine-fd=3") != 0 || strcmp(argv[2], "--locked") != 0)
        return 2;
    note_descriptors();
    signal(SIGCHLD, SIG_IGN); /* reaped by the kernel */
    signal(SIGPIPE, SIG_IGN);
    printf("guest: up\n");
    fflush(stdout);
    for (;;) {
        int s = accept(ENGINE_FD, NULL, NULL);
        if (s >= 0) {
            serve(s);
            close(s);
        } else if (errno != EINTR) {
            return 3;
        }
    }
}
