/* guest/program_test.c: the guest program as it is shipped: PID 1 of a root that holds nothing but
 * /.fce2b, reached by the engine's socket (base-image.md 1, security S41). */
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "lib/loop/loop.h"
#include "lib/proc/proc.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 20000, ANSWER_MAX = 65536, ENGINE_FD = 3, NAME_MAX_TEXT = 600 };

static const char *build_dir(void)
{
    const char *dir = getenv("ABX_BUILD");
    return dir != NULL ? dir : "build/dev";
}

struct box {
    char root[32];
    int dir_fd, engine_fd, log_fd;
    const char *lock;                 /* "--locked" or NULL */
    const char *env;                  /* one more variable, or NULL */
    const char *command;              /* one argument after the options, or NULL */
    const char *log_wants;            /* must be in the log at the end */
    int (*fill)(const struct box *b); /* furnishes the root further, or NULL */
    pid_t pid;
};

static int make_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    return close(fd);
}

static int bind_in(const struct box *b, const char *from, const char *to, bool is_dir)
{
    char target[NAME_MAX_TEXT];
    snprintf(target, sizeof(target), "%s/%s", b->root, to);
    if (is_dir ? mkdir(target, 0755) : make_file(target))
        return -1;
    return mount(from, target, NULL, MS_BIND, NULL);
}

/* In the new namespaces: an empty root with /proc, three devices and the runtime. */
static int furnish(const struct box *b)
{
    char guest[PATH_MAX], libs[PATH_MAX], path[NAME_MAX_TEXT];
    snprintf(guest, sizeof(guest), "%s/bin/abx-guest", build_dir());
    snprintf(libs, sizeof(libs), "%s/guest-libs", build_dir());
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", b->root, "tmpfs", 0, NULL) < 0)
        return -1;
    static const char *const dirs[] = {"proc", "dev", "tmp", "etc", ".fce2b"};
    for (size_t i = 0; i < ABX_COUNTOF(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", b->root, dirs[i]);
        if (mkdir(path, 0755) < 0)
            return -1;
    }
    snprintf(path, sizeof(path), "%s/proc", b->root);
    if (mount("proc", path, "proc", 0, NULL) < 0 ||
        bind_in(b, "/dev/null", "dev/null", false) < 0 ||
        bind_in(b, "/dev/urandom", "dev/urandom", false) < 0 ||
        bind_in(b, guest, ".fce2b/entrypoint", false) < 0 ||
        bind_in(b, guest, ".fce2b/envd", false) < 0)
        return -1;
    if (b->fill != NULL && b->fill(b) < 0)
        return -1;
    return access(libs, F_OK) == 0 ? bind_in(b, libs, ".fce2b/lib", true) : 0;
}

static int set_loopback_up(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    ABX_AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &lo);
}

static int become_pid_one(void *arg)
{
    const struct box *b = arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (furnish(b) < 0 || set_loopback_up() < 0 || dup2(b->log_fd, STDERR_FILENO) < 0 ||
        dup2(b->engine_fd, ENGINE_FD) < 0 || chroot(b->root) < 0 || chdir("/") < 0)
        return 99;
    char program[] = ABX_GUEST_ENTRYPOINT, fd[] = "--engine-fd=3", lock[] = "--locked";
    char command[64] = "", variable[128] = "";
    char *argv[5] = {program, fd}, *env[] = {variable, NULL};
    size_t n = 2;
    if (b->lock != NULL)
        argv[n++] = lock;
    if (b->command != NULL) {
        snprintf(command, sizeof(command), "%s", b->command);
        argv[n++] = command;
    }
    if (b->env != NULL)
        snprintf(variable, sizeof(variable), "%s", b->env);
    execve(program, argv, env);
    return 98;
}

static void box_start(struct box *b)
{
    snprintf(b->root, sizeof(b->root), "/tmp/abx-box-XXXXXX");
    assert_non_null(mkdtemp(b->root));
    b->dir_fd = open(b->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int at = abx_fd_listen_unix(b->dir_fd, "s", SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 64);
    b->engine_fd = fcntl(at, F_DUPFD_CLOEXEC, 20); /* not the number it is passed under */
    close(at);
    b->log_fd = memfd_create("log", MFD_CLOEXEC);
    const int keep[] = {b->engine_fd, b->log_fd};
    struct abx_proc_role role = {.name = "box",
                                 .fn = become_pid_one,
                                 .arg = b,
                                 .keep_fds = keep,
                                 .keep_count = 2,
                                 .namespaces = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET};
    b->pid = abx_proc_clone_role(&role, NULL);
    assert_true(b->pid > 0);
}

/* Stops it; its log must show neither a sanitizer's report nor a descriptor left open. */
static void box_stop(struct box *b)
{
    static char log[ANSWER_MAX];
    static const char *const bad[] = {"Sanitizer", "runtime error", "left open"};
    struct abx_proc_status st;
    kill(b->pid, SIGTERM);
    assert_int_equal(abx_proc_wait(b->pid, &st), 0);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, 143);
    ssize_t n = pread(b->log_fd, log, sizeof(log) - 1, 0);
    log[n > 0 ? n : 0] = '\0';
    assert_non_null(strstr(log, "role=gateway stopping"));
    if (b->log_wants != NULL && strstr(log, b->log_wants) == NULL)
        fail_msg("no \"%s\" in: %s", b->log_wants, log);
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        if (strstr(log, bad[i]) != NULL)
            fail_msg("%s", log);
    close(b->log_fd);
    close(b->engine_fd);
    close(b->dir_fd);
    abx_fd_remove_tree(AT_FDCWD, b->root);
}

static char out[ANSWER_MAX];
static size_t out_len;

/* One request on a connection of its own; the answer is in `out`. */
static void ask(struct box *b, const char *method, const char *target, const char *headers,
                const char *body)
{
    char text[2048];
    int n = snprintf(text, sizeof(text),
                     "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n%s"
                     "\r\n%s",
                     method, target, strlen(body), headers, body);
    ABX_AUTO_FD fd = abx_fd_connect_unix(b->dir_fd, "s", SOCK_STREAM | SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    size_t len = 0;
    for (ssize_t got = 1; got > 0; len += (size_t)(got > 0 ? got : 0)) {
        struct pollfd p = {fd, POLLIN, 0};
        assert_int_equal(poll(&p, 1, GUARD_MS), 1);
        got = read(fd, out + len, ANSWER_MAX - 1 - len);
    }
    out[len] = '\0';
    out_len = len;
}

static void expect(const char *part)
{
    if (strstr(out, part) == NULL)
        fail_msg("no \"%s\" in: %s", part, out);
}

/* The same in an answer with bytes of zero. */
static void expect_in_stream(const char *part)
{
    if (memmem(out, out_len, part, strlen(part)) != NULL)
        return;
    for (size_t i = 0; i < out_len; i++)
        out[i] = out[i] == '\0' ? '.' : out[i];
    fail_msg("no \"%s\" in: %s", part, out);
}

/* The pid, as we see it, of a child of the box's PID 1 that is called @comm. */
static pid_t child_of(const struct box *b, const char *comm)
{
    char name[64], *text = NULL;
    snprintf(name, sizeof(name), "/proc/%d/task/%d/children", (int)b->pid, (int)b->pid);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, name, 4096, &text, NULL), 0);
    struct abx_str rest = abx_str(text), pid;
    pid_t found = 0;
    while (found == 0 && abx_str_split(&rest, ' ', &pid)) {
        char *got = NULL;
        snprintf(name, sizeof(name), "/proc/%.*s/comm", ABX_STR_FMT(pid));
        if (pid.len > 0 && abx_fd_read_file(AT_FDCWD, name, 64, &got, NULL) == 0 &&
            strncmp(got, comm, strlen(comm)) == 0)
            sscanf(pid.ptr, "%d", &found);
        free(got);
    }
    free(text);
    return found;
}

TEST(an_empty_root_is_a_sandbox)
{
    if (geteuid() != 0)
        skip();
    struct box b = {0};
    box_start(&b);
    ask(&b, "GET", "/health", "X-Sandbox-Port: 49983\r\n", "");
    expect("HTTP/1.1 204 ");
    ask(&b, "GET", "/.fce2b/health", "", "");
    expect("\"name\":\"envd\",\"state\":\"running\"");
    expect("\"name\":\"gateway\"");
    expect("\"hasUser\":false");
    expect("\"locked\":false");
    expect("\"version\":\"" ABX_VERSION "\"");
    box_stop(&b);
}

/* ---- T06: what a root file system may lack ---- */
static int put_file(const struct box *b, const char *name, const char *text)
{
    char path[NAME_MAX_TEXT];
    snprintf(path, sizeof(path), "%s/%s", b->root, name);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd < 0 ? -1 : abx_fd_write_all(fd, text, strlen(text));
}

static int put_folder(const struct box *b, const char *name)
{
    char path[NAME_MAX_TEXT];
    snprintf(path, sizeof(path), "%s/%s", b->root, name);
    return mkdir(path, 0755);
}

static int put_link(const struct box *b, const char *target, const char *name)
{
    char path[NAME_MAX_TEXT];
    snprintf(path, sizeof(path), "%s/%s", b->root, name);
    return symlink(target, path);
}

/* A program without libraries that ends with 1 when it is started by hand. */
static int put_static(const struct box *b, const char *name)
{
    char from[PATH_MAX];
    snprintf(from, sizeof(from), "%s/bin/abx-shim", build_dir());
    return bind_in(b, from, name, false);
}

/* One static program under two names, no accounts. */
static int fill_busybox(const struct box *b)
{
    if (put_folder(b, "bin") < 0 || put_static(b, "bin/busybox") < 0)
        return -1;
    return put_link(b, "busybox", "bin/sh");
}

/* A shell that is not bash, and what it needs: no accounts, no other program. */
static int fill_shell(const struct box *b)
{
    static const char *const folders[] = {"bin", "usr"};
    for (size_t i = 0; i < ABX_COUNTOF(folders); i++)
        if (put_folder(b, folders[i]) < 0)
            return -1;
    if (put_link(b, "usr/lib", "lib") < 0 || put_link(b, "usr/lib64", "lib64") < 0 ||
        bind_in(b, "/usr/lib", "usr/lib", true) < 0 ||
        bind_in(b, "/usr/lib64", "usr/lib64", true) < 0)
        return -1;
    return bind_in(b, "/bin/sh", "bin/sh", false);
}

/* Merged /usr, root as the only account, profiles, a read-only system. */
static int fill_debian(const struct box *b)
{
    static const char *const links[] = {"bin", "sbin", "lib", "lib64"};
    char target[32];
    for (size_t i = 0; i < ABX_COUNTOF(links); i++) {
        snprintf(target, sizeof(target), "usr/%s", links[i]);
        if (put_link(b, target, links[i]) < 0)
            return -1;
    }
    if (put_folder(b, "root") < 0 || put_folder(b, "etc/profile.d") < 0 ||
        put_file(b, "etc/profile", "for f in /etc/profile.d/*.sh; do . $f; done\n") < 0 ||
        put_file(b, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\n") < 0 ||
        put_file(b, "etc/group", "root:x:0:\n") < 0)
        return -1;
    return bind_in(b, "/usr", "usr", true);
}

/* Folders of its own, no bash, an account list whose last line is not ended. */
static int fill_alpine(const struct box *b)
{
    static const char *const folders[] = {"bin", "lib", "usr", "usr/bin", "root", "home"};
    for (size_t i = 0; i < ABX_COUNTOF(folders); i++)
        if (put_folder(b, folders[i]) < 0)
            return -1;
    if (put_file(b, "etc/passwd", "root:x:0:0:root:/root:/bin/ash\nnobody:x:65534:65534:::") < 0 ||
        put_file(b, "etc/group", "root:x:0:root\n") < 0 || put_static(b, "bin/busybox") < 0 ||
        put_link(b, "busybox", "bin/ash") < 0)
        return -1;
    return put_link(b, "/bin/busybox", "bin/sh");
}

/* Both account files are there and can not be written. */
static int fill_read_only(const struct box *b)
{
    static const char *const names[] = {"etc/passwd", "etc/group"};
    char path[NAME_MAX_TEXT];
    if (fill_debian(b) < 0)
        return -1;
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", b->root, names[i]);
        if (mount(path, path, NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
            return -1;
    }
    return 0;
}

static const char stream_json[] =
    "X-Sandbox-Port: 49983\r\nContent-Type: application/connect+json\r\n";
static const char stream_proto[] =
    "X-Sandbox-Port: 49983\r\nContent-Type: application/connect+proto\r\n";

TEST(t06_accounts_that_can_not_be_written)
{
    if (geteuid() != 0)
        skip();
    struct box b = {.fill = fill_read_only, .log_wants = "no account user"};
    box_start(&b);
    ask(&b, "GET", "/health?verbose", "X-Sandbox-Port: 49983\r\n", "");
    expect("\"hasUser\":false,\"noUser\":\"/etc/passwd: Read-only file system\"");
    expect("\"runsAs\":{\"name\":\"root\",\"uid\":0,\"home\":\"/root\"}");
    expect("\"name\":\"gateway\",\"state\":\""); /* it may answer before PID 1 has noted it */
    ask(&b, "POST", "/init", "X-Sandbox-Port: 49983\r\n",
        "{\"defaultUser\":\"user\",\"defaultWorkdir\":\"/home/user\"}");
    expect("HTTP/1.1 204 ");
    ask(&b, "POST", "/process.Process/Start", stream_json,
        "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-c\",\"echo $HOME:$UID\"]}}");
    expect_in_stream("L3Jvb3Q6MAo="); /* "/root:0": it runs on as root */
    ask(&b, "POST", "/process.Process/Start",
        "X-Sandbox-Port: 49983\r\nContent-Type: application/connect+json\r\n"
        "Authorization: Basic dXNlcjo=\r\n",
        "{\"process\":{\"cmd\":\"/bin/bash\"}}");
    expect_in_stream("\"unauthenticated\",\"message\":\"invalid username: 'user'\"");
    ask(&b, "GET", "/files?path=/etc/passwd", "X-Sandbox-Port: 49983\r\n", "");
    expect("\r\n\r\nroot:x:0:0:root:/root:/bin/bash\n");
    box_stop(&b);
}

TEST(t06_minimal_roots_are_sandboxes)
{
    static const struct {
        const char *name;
        int (*fill)(const struct box *b);
        const char *has_user; /* of /.fce2b/health */
        const char *start;    /* a process, as `user` */
        const char *event;    /* in its stream */
        const char *account;  /* in /etc/passwd afterwards; NULL: there is none */
    } rows[] = {
        {"scratch", NULL, "\"hasUser\":false", "{\"process\":{\"cmd\":\"/bin/sh\"}}",
         "\"exitCode\":127", NULL},
        {"busybox", fill_busybox, "\"hasUser\":false", "{\"process\":{\"cmd\":\"/bin/sh\"}}",
         "\"exitCode\":1", NULL},
        {"shell", fill_shell, "\"hasUser\":false",
         "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo hi\"]}}", "aGkK",
         NULL},
        {"debian", fill_debian, "\"hasUser\":true",
         "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo $HOME\"]}}",
         "L2hvbWUvdXNlcgo=", "user:x:1000:1000::/home/user:/bin/bash\n"},
        {"alpine", fill_alpine, "\"hasUser\":true", "{\"process\":{\"cmd\":\"/bin/ash\"}}",
         "\"exitCode\":1", "nobody:x:65534:65534:::\nuser:x:1000:1000::/home/user:/bin/sh\n"},
    };
    static const char port[] = "X-Sandbox-Port: 49983\r\n";
    static const char rpc[] = "X-Sandbox-Port: 49983\r\nContent-Type: application/connect+json\r\n"
                              "Authorization: Basic dXNlcjo=\r\n"; /* "user:" */
    static const char raw[] = "X-Sandbox-Port: 49983\r\n"
                              "Content-Type: application/octet-stream\r\n";
    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct box b = {.fill = rows[i].fill};
        print_message("%s\n", rows[i].name);
        box_start(&b);
        ask(&b, "GET", "/health", port, "");
        expect("HTTP/1.1 204 ");
        ask(&b, "GET", "/.fce2b/health", "", "");
        expect("\"name\":\"envd\",\"state\":\"running\"");
        expect(rows[i].has_user);
        ask(&b, "POST", "/process.Process/Start", rpc, rows[i].start);
        expect("HTTP/1.1 200 ");
        expect_in_stream(rows[i].event);
        ask(&b, "POST", "/process.Process/Start", stream_proto, "\x0a\x0c\x0a\x0a/no/such/x");
        expect_in_stream("exit status 127");
        expect_in_stream("/no/such/x: not found"); /* names what is missing */
        ask(&b, "POST", "/process.Process/Start", stream_json,
            "{\"process\":{\"cmd\":\"/.fce2b/envd\",\"args\":[\"--version\"]}}");
        expect_in_stream("\"exit status 0\""); /* argv alone needs no shell */
        ask(&b, "POST", "/process.Process/Start", stream_json,
            "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-c\",\"exit\"]},\"pty\":{}}");
        expect("HTTP/1.1 200 ");
        ask(&b, "POST", "/files?path=/tmp/t06&username=root", raw, "kept");
        expect("HTTP/1.1 200 ");
        ask(&b, "GET", "/files?path=/tmp/t06&username=root", port, "");
        expect("\r\n\r\nkept");
        ask(&b, "GET", "/files?path=/etc/passwd&username=root", port, "");
        expect(rows[i].account != NULL ? rows[i].account : "HTTP/1.1 404 ");
        box_stop(&b);
    }
}

TEST(a_locked_sandbox_stays_provisioned_over_a_killed_envd)
{
    if (geteuid() != 0)
        skip();
    static const char with_token[] = "X-Sandbox-Port: 49983\r\nX-Access-Token: secret\r\n";
    static const char without[] = "X-Sandbox-Port: 49983\r\n";
    struct box b = {.lock = "--locked"};
    box_start(&b);
    ask(&b, "GET", "/envs", with_token, "");
    expect("HTTP/1.1 503 "); /* locked: nothing before /init */
    ask(&b, "POST", "/init", "X-Sandbox-Port: 49983\r\nContent-Type: application/json\r\n",
        "{\"accessToken\":\"secret\",\"envVars\":{\"A\":\"b\"}}");
    expect("HTTP/1.1 204 ");
    ask(&b, "GET", "/envs", with_token, "");
    expect("\"A\":\"b\"");
    pid_t envd = child_of(&b, "envd");
    assert_true(envd > 1);
    assert_int_equal(kill(envd, SIGKILL), 0);
    ask(&b, "GET", "/envs", without, "");
    expect("HTTP/1.1 401 "); /* waited for, and the token is not forgotten */
    ask(&b, "GET", "/envs", with_token, "");
    expect("\"A\":\"b\"");
    assert_true(child_of(&b, "envd") != envd);
    box_stop(&b);
}

TEST(the_command_runs_only_when_asked_for)
{
    if (geteuid() != 0)
        skip();
    struct box asked = {.command = "/no/such/program",
                        .env = ABX_ENV_RUN_CMD "=1",
                        .log_wants = "role=command exec failed program=/no/such/program errno=2"};
    box_start(&asked);
    ask(&asked, "GET", "/health", "X-Sandbox-Port: 49983\r\n", "");
    expect("HTTP/1.1 204 ");
    const char *row = NULL; /* until it was tried once */
    for (int i = 0; i < GUARD_MS / 10 && (row == NULL || strstr(row, "\"restarts\":0")); i++) {
        usleep(10000);
        ask(&asked, "GET", "/.fce2b/health", "", "");
        row = strstr(out, "\"name\":\"command\"");
    }
    assert_non_null(row);
    box_stop(&asked);
    struct box not_asked = {.command = "/no/such/program", .log_wants = "ignored without"};
    box_start(&not_asked);
    ask(&not_asked, "GET", "/health", "X-Sandbox-Port: 49983\r\n", "");
    expect("HTTP/1.1 204 ");
    box_stop(&not_asked);
}

TEST(another_envd_is_supervised_and_reached_by_its_port)
{
    if (geteuid() != 0)
        skip();
    struct box b = {.env = ABX_ENV_ENVD_BIN "=" ABX_GUEST_DIR "/envd"};
    box_start(&b);
    ask(&b, "GET", "/health", "X-Sandbox-Port: 49983\r\n", "");
    expect("HTTP/1.1 204 ");
    ask(&b, "POST", "/init", "X-Sandbox-Port: 49983\r\n", "{\"accessToken\":\"secret\"}");
    expect("HTTP/1.1 204 "); /* a daemon of its own: whoever provisions it comes by TCP */
    ask(&b, "GET", "/envs", "X-Sandbox-Port: 49983\r\n", "");
    expect("HTTP/1.1 401 ");
    ask(&b, "GET", "/envs", "X-Sandbox-Port: 49983\r\nX-Access-Token: secret\r\n", "");
    expect("HTTP/1.1 200 ");
    ask(&b, "POST", "/init", "X-Sandbox-Port: 49983\r\n", "{\"accessToken\":\"mine\"}");
    expect("access token validation failed");
    box_stop(&b);
    struct box locked = {.env = ABX_ENV_ENVD_BIN "=/no/such/envd",
                         .lock = "--locked",
                         .log_wants = ABX_ENV_ENVD_BIN " is passed over"};
    box_start(&locked);
    ask(&locked, "GET", "/health", "X-Sandbox-Port: 49983\r\n", "");
    expect("HTTP/1.1 204 ");
    box_stop(&locked);
}

/* Debian's shape, and a policy of the image's. */
static int fill_server(const struct box *b)
{
    if (fill_debian(b) < 0 || put_folder(b, "etc/agent-sandbox") < 0)
        return -1;
    return put_file(b, &ABX_SERVER_POLICY_PATH[1], "{}");
}

static void wait_healthy(struct box *b)
{
    static const char up[] = "HTTP/1.1 200 ";
    for (int i = 0; i < GUARD_MS / 10; i++) {
        ask(b, "GET", "/health", "X-Sandbox-Port: 9000\r\n", "");
        if (strncmp(out, up, sizeof(up) - 1) == 0)
            return;
        usleep(10000);
    }
    fail_msg("the server is not healthy: %s", out);
}

/* As a start command's: the account `user`, at its home. */
static void expect_of_user(pid_t pid)
{
    char name[64], cwd[PATH_MAX] = "", *status = NULL;
    snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, name, 16384, &status, NULL), 0);
    assert_non_null(strstr(status, "Uid:\t1000\t1000\t1000\t1000\n"));
    assert_non_null(strstr(status, "Gid:\t1000\t1000\t1000\t1000\n"));
    assert_non_null(strstr(status, "Groups:\t1000 \n"));
    assert_non_null(strstr(status, "CapEff:\t0000000000000000\n"));
    free(status);
    snprintf(name, sizeof(name), "/proc/%d/cwd", (int)pid);
    ssize_t n = readlink(name, cwd, sizeof(cwd) - 1);
    assert_true(n > (ssize_t)strlen(ABX_USER_HOME));
    assert_string_equal(cwd + n - strlen(ABX_USER_HOME), ABX_USER_HOME);
}

TEST(the_server_is_a_service_where_it_is_asked_for)
{
    if (geteuid() != 0)
        skip();
    struct box b = {.fill = fill_server,
                    .env = ABX_ENV_SERVER_AUTOSTART "=1",
                    .log_wants = "policy=" ABX_SERVER_POLICY_PATH};
    box_start(&b);
    wait_healthy(&b);
    pid_t server = child_of(&b, "agent-sandbox-s");
    assert_true(server > 1);
    expect_of_user(server);
    assert_int_equal(kill(server, SIGKILL), 0);
    while (child_of(&b, "agent-sandbox-s") == server)
        usleep(1000);
    wait_healthy(&b);
    const char *row = NULL; /* it may answer before PID 1 has noted it */
    for (int i = 0; i < GUARD_MS / 10 && row == NULL; i++) {
        ask(&b, "GET", "/.fce2b/health", "", "");
        row = strstr(out, "\"name\":\"server\",\"state\":\"running\"");
        usleep(10000);
    }
    assert_non_null(row);
    assert_non_null(strstr(row, "\"restarts\":1}"));
    box_stop(&b);
}

TEST(the_server_is_no_service_where_it_could_not_serve)
{
    if (geteuid() != 0)
        skip();
    static const struct {
        int (*fill)(const struct box *b);
        const char *env, *log;
    } rows[] = {
        {fill_debian, ABX_ENV_SERVER_AUTOSTART "=1",
         "agent-sandbox-server is not started: " ABX_ENV_SERVER_AUTOSTART "=1 needs a policy"},
        {fill_server, ABX_ENV_SERVER_AUTOSTART "=0", "role=gateway stopping"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct box b = {.fill = rows[i].fill, .env = rows[i].env, .log_wants = rows[i].log};
        box_start(&b);
        ask(&b, "GET", "/.fce2b/health", "", "");
        expect("\"name\":\"gateway\"");
        assert_null(strstr(out, "\"server\""));
        ask(&b, "GET", "/health", "X-Sandbox-Port: 9000\r\n", "");
        expect("HTTP/1.1 502 ");
        box_stop(&b);
    }
}

static void on_exit_store(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    (void)p;
    *(struct abx_proc_status *)arg = *st;
}

/* Runs the program on the host: what it printed on either stream is in `out`, its code returned. */
static int run_program(char *const *args)
{
    char program[PATH_MAX];
    snprintf(program, sizeof(program), "%s/bin/abx-guest-host", build_dir());
    if (access(program, X_OK) < 0) /* static: the one program runs everywhere */
        snprintf(program, sizeof(program), "%s/bin/abx-guest", build_dir());
    int ends[2];
    struct abx_loop loop;
    struct abx_error err = {0};
    struct abx_proc *p = NULL;
    struct abx_proc_status st = {0};
    char *env[] = {NULL};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    struct abx_proc_spec spec = {.path = program,
                                 .argv = args,
                                 .envp = env,
                                 .stdio = {-1, ends[1], ends[1]},
                                 .oom_score_adj = INT_MIN};
    if (abx_proc_spawn(&loop, &spec, on_exit_store, &st, &p, &err) < 0)
        fail_msg("%s", err.msg);
    close(ends[1]);
    ssize_t n = abx_fd_read_all(ends[0], out, ANSWER_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    for (int i = 0; i < GUARD_MS && abx_proc_is_running(p); i++)
        uv_run(&loop.uv, UV_RUN_ONCE);
    abx_proc_close(p);
    uv_run(&loop.uv, UV_RUN_DEFAULT);
    abx_loop_done(&loop);
    assert_true(st.exited);
    return st.exit_code;
}

TEST(every_role_prints_the_same_version)
{
    static const char *const names[] = {"abx-guest", "entrypoint", "gateway", "envd",
                                        "/.fce2b/envd"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        char name[32], option[] = "--version";
        snprintf(name, sizeof(name), "%s", names[i]);
        if (run_program((char *[]){name, option, NULL}) != 0)
            fail_msg("%s: %s", names[i], out);
        assert_string_equal(out, ABX_VERSION "\n");
    }
}

TEST(wrong_arguments_are_said)
{
    char name[] = "abx-guest", role[] = "gateway", bad[] = "--bogus", no[] = "nothing";
    assert_int_equal(run_program((char *[]){name, role, bad, NULL}), 2);
    expect("--bogus");
    expect("--engine-socket"); /* the options it has */
    assert_int_equal(run_program((char *[]){name, no, NULL}), 2);
    expect("entrypoint");
    assert_int_equal(run_program((char *[]){name, NULL}), 2);
}

#ifdef ABX_GUEST_BYTES_MAX /* where it is linked as it is shipped */
TEST(the_program_is_as_small_as_promised)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof(path), "%s/bin/abx-guest", build_dir());
    assert_int_equal(stat(path, &st), 0);
    print_message("abx-guest: %lld bytes of %d\n", (long long)st.st_size, ABX_GUEST_BYTES_MAX);
    if (st.st_size > ABX_GUEST_BYTES_MAX)
        fail_msg("abx-guest has %lld bytes, more than %d; `size -A`, or -Wl,-Map, tells what grew",
                 (long long)st.st_size, ABX_GUEST_BYTES_MAX);
}
#endif
