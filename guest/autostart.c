/* guest/autostart.c: whether PID 1 runs agent-sandbox-server, and the way from a service of PID 1
 * to that program. */
#include "guest/autostart.h"

#include "guest/caps/environ.h"
#include "guest/caps/users.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXIT_NO_EXEC = 127 };

/* ---- what there is to serve ---- */

/* An empty one is none. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static bool is_file(int root_fd, const char *path)
{
    struct stat st;
    return path[0] == '/' && fstatat(root_fd, &path[1], &st, 0) == 0 && S_ISREG(st.st_mode);
}

/* In the order in which the server looks; a file that is named and missing ends its start. */
static int find_policy(int root_fd, bool *ret, struct abx_error *err)
{
    const char *file = variable(ABX_ENV_SERVER_POLICY_FILE);
    *ret = true;
    if (variable(ABX_ENV_SERVER_POLICY) != NULL)
        return 0;
    if (file == NULL)
        *ret = is_file(root_fd, ABX_SERVER_POLICY_PATH);
    else if (!is_file(root_fd, file))
        return abx_err_set(err, ABX_NOT_FOUND, ABX_ENV_SERVER_POLICY_FILE ": no file %.120s%s",
                           file, file[0] == '/' ? "" : " (an absolute path is needed)");
    return 0;
}

int abx_autostart_look(const char *root, struct abx_autostart *ret, struct abx_error *err)
{
    const char *asked = variable(ABX_ENV_SERVER_AUTOSTART);
    struct abx_autostart found = {0};
    if (asked == NULL || strcmp(asked, "1") != 0)
        return 0;
    ABX_AUTO_FD root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return abx_err_sys(err, -errno, "open %s", root);
    if (find_policy(root_fd, &found.has_policy, err) < 0)
        return -1;
    found.has_commands = is_file(root_fd, ABX_SERVER_COMMANDS_PATH);
    if (!found.has_policy && !found.has_commands)
        return abx_err_set(err, ABX_NOT_FOUND,
                           ABX_ENV_SERVER_AUTOSTART "=1 needs a policy (" ABX_ENV_SERVER_POLICY
                                                    ", " ABX_ENV_SERVER_POLICY_FILE
                                                    " or " ABX_SERVER_POLICY_PATH
                                                    ") or " ABX_SERVER_COMMANDS_PATH);
    *ret = found;
    return 1;
}

/* ---- the service ---- */

/* `user`, or root where there is none: so envd runs start commands. */
static int find_account(struct abx_user *ret, struct abx_error *err)
{
    if (abx_user_by_name("", ABX_STR(ABX_USER_NAME), ret, err) == 0)
        return 0;
    return err->code == ABX_NOT_FOUND ? abx_user_by_name("", ABX_STR("root"), ret, err) : -1;
}

static int set_variables(const struct abx_user *u)
{
    struct abx_env_pair own[ABX_ENVIRON_OF_USER];
    abx_environ_of_user(u, own);
    for (size_t i = 0; i < ABX_COUNTOF(own); i++)
        if (setenv(own[i].name.ptr, own[i].value.ptr, 1) < 0)
            return -errno;
    return setenv("SHELL", u->shell, 1) < 0 ? -errno : 0;
}

/* Last, what can not be taken back. */
static int become(const struct abx_user *u, struct abx_error *err)
{
    char adj[8];
    int n = snprintf(adj, sizeof(adj), "%d", (int)ABX_PROC_OOM_USER);
    (void)abx_fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", abx_str_n(adj, (size_t)n));
    if (setgroups(u->group_count, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
        setresuid(u->uid, u->uid, u->uid) < 0)
        return abx_err_sys(err, -errno, "become %s", u->name);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* that change has cleared it */
    return 0;
}

/* A session, variables, a folder and ids of its own, as a start command has them. */
static int leave_pid_one(struct abx_error *err)
{
    struct abx_user u;
    if (find_account(&u, err) < 0)
        return -1;
    int r = set_variables(&u);
    if (r < 0)
        abx_err_sys(err, r, "environment");
    else if (geteuid() == 0) /* without root all of the sandbox has one id */
        r = become(&u, err);
    if (r == 0 && chdir(u.home) < 0 && chdir("/") < 0)
        r = abx_err_sys(err, -errno, "folder %s", u.home);
    (void)setsid(); /* fails only for one that leads a group: then it needs none */
    abx_user_done(&u);
    return r < 0 ? -1 : 0;
}

int abx_autostart_serve(const struct abx_autostart *a)
{
    char program[] = "agent-sandbox-server", verb[] = "serve", option[] = "--commands";
    char file[] = ABX_SERVER_COMMANDS_PATH;
    char *argv[] = {program, verb, a->has_commands ? option : NULL, file, NULL};
    struct abx_error err = {0};
    if (leave_pid_one(&err) < 0) {
        abx_log(ABX_LOG_ERROR, "no start error=\"%s\"", err.msg);
        return 1;
    }
    execvp(program, argv); /* the one of the image, as its start command would find it */
    if (errno == ENOENT)
        execv("/proc/self/exe", argv);
    abx_log(ABX_LOG_ERROR, "exec failed program=%s errno=%d", program, errno);
    return EXIT_NO_EXEC;
}
