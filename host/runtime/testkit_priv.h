/* host/runtime/testkit_priv.h: for tests: an engine's network side in a temporary state folder,
 * its calls made synchronous, and a line to the attack guest (tests/attacks) in a sandbox. */
#pragma once
#include "host/runtime/runtime_priv.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIT __attribute__((unused)) static

enum { KIT_GUARD_S = 120, KIT_TEXT = 64 * 1024 };

struct kit {
    char dir[64]; /* state/, guest, shim */
    char state[80], guest[80], shim[80];
    const char *ids_folder; /* NULL: the machine's */
    struct abx_loop loop;
    struct abx_runtime *rt;
    struct abx_isolation isolation;
    struct abx_sandbox_info info;
    struct abx_error err;
    struct abx_proc_status exit;
    char exited[ABX_SANDBOX_ID_LEN + 1];
    pid_t pid;
    bool done, lost, stop_on_exit;
    char text[KIT_TEXT];
};

/* A step of a body that may run in a child of another user: gives the line that failed. */
#define CHECK(expr)                                                                                \
    do {                                                                                           \
        if (!(expr)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (err: %s) (text: %.300s)\n", __FILE__, __LINE__, #expr,     \
                    k->err.msg, k->text);                                                          \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

KIT const char *kit_id(unsigned n)
{
    static char ids[8][ABX_SANDBOX_ID_LEN + 1];
    char *id = ids[n % 8];
    snprintf(id, sizeof(ids[0]), "i%010dt%09u", (int)getpid(), n % 1000000000u);
    return id;
}

KIT int kit_copy(const char *from, const char *to)
{
    ABX_AUTO_FREE char *data = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, from, 64 << 20, &data, &len) < 0)
        return -1;
    ABX_AUTO_FD fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    return fd < 0 || abx_fd_write_all(fd, data, len) < 0 || fchmod(fd, 0755) < 0 ? -1 : 0;
}

/* The folder belongs to @uid, who may then start an engine in it. */
KIT void kit_init(struct kit *k, uid_t uid)
{
    char path[512];
    const char *build = getenv("ABX_BUILD");
    assert_non_null(build);
    *k = (struct kit){.dir = "/tmp/abx-rt-XXXXXX"};
    assert_non_null(mkdtemp(k->dir));
    snprintf(k->state, sizeof(k->state), "%s/state", k->dir);
    snprintf(k->guest, sizeof(k->guest), "%s/guest", k->dir);
    snprintf(k->shim, sizeof(k->shim), "%s/shim", k->dir);
    snprintf(path, sizeof(path), "%s/tests/attack-guest", build);
    assert_int_equal(kit_copy(path, k->guest), 0);
    snprintf(path, sizeof(path), "%s/bin/abx-shim", build);
    assert_int_equal(kit_copy(path, k->shim), 0);
    assert_int_equal(mkdir(k->state, 0700), 0);
    assert_int_equal(chmod(k->dir, 0755), 0);
    assert_int_equal(chown(k->state, uid, uid), 0);
}

KIT void kit_done(struct kit *k)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, k->dir), 0);
}

KIT void kit_on_exit(void *arg, const char *id, const struct abx_proc_status *st)
{
    struct kit *k = arg;
    snprintf(k->exited, sizeof(k->exited), "%s", id);
    k->exit = *st;
    if (k->stop_on_exit)
        abx_loop_stop(&k->loop);
}

KIT void kit_on_lost(void *arg)
{
    struct kit *k = arg;
    k->lost = true;
    abx_loop_stop(&k->loop);
}

KIT void kit_on_created(void *arg, const struct abx_sandbox_info *info, const struct abx_error *err)
{
    struct kit *k = arg;
    k->err = err ? *err : (struct abx_error){0};
    if (info != NULL)
        k->info = *info;
    k->done = true;
    abx_loop_stop(&k->loop);
}

KIT void kit_on_done(void *arg, const struct abx_error *err)
{
    kit_on_created(arg, NULL, err);
}

KIT int kit_wait(struct kit *k)
{
    while (!k->done && !k->lost)
        abx_loop_run(&k->loop);
    return k->err.code == ABX_OK ? 0 : -1;
}

KIT int kit_start(struct kit *k)
{
    struct abx_runtime_options o = {.state_dir = k->state,
                                    .guest_path = k->guest,
                                    .shim_path = k->shim,
                                    .ids_folder = k->ids_folder,
                                    .network_uid = getuid(),
                                    .network_gid = getgid()};
    int sock;
    alarm(KIT_GUARD_S);
    k->lost = false;
    if (abx_runtime_start(&o, &k->isolation, &sock, &k->pid, &k->err) < 0 ||
        abx_loop_init(&k->loop, &k->err) < 0)
        return -1;
    struct abx_runtime_events ev = {kit_on_exit, kit_on_lost, k};
    return abx_runtime_attach(&k->loop, sock, &ev, &k->rt, &k->err);
}

KIT void kit_let_go(struct kit *k)
{
    abx_runtime_close(k->rt);
    abx_loop_run(&k->loop);
    abx_loop_done(&k->loop);
}

KIT int kit_await(struct kit *k)
{
    struct abx_proc_status st;
    int r = abx_proc_wait(k->pid, &st);
    alarm(0);
    return r == 0 && st.exited ? st.exit_code : -1;
}

/* As a stopping engine: its sandboxes live on. */
KIT int kit_stop(struct kit *k)
{
    kit_let_go(k);
    return kit_await(k);
}

KIT struct abx_sandbox_spec kit_spec(const char *id)
{
    struct abx_sandbox_spec s = {.template_name = "host",
                                 .memory_mb = 256,
                                 .cpu_count = 1,
                                 .pids_max = 64,
                                 .nonce = "0123456789abcde"};
    memcpy(s.id, id, sizeof(s.id));
    return s;
}

KIT int kit_create_spec(struct kit *k, const struct abx_sandbox_spec *spec)
{
    k->done = false;
    abx_runtime_create(k->rt, spec, kit_on_created, k);
    return kit_wait(k);
}

KIT int kit_create(struct kit *k, const char *id)
{
    struct abx_sandbox_spec s = kit_spec(id);
    return kit_create_spec(k, &s);
}

KIT int kit_adopt(struct kit *k, const struct abx_sandbox_info *known, const char *nonce)
{
    k->done = false;
    abx_runtime_adopt(k->rt, known, (const unsigned char *)nonce, kit_on_created, k);
    return kit_wait(k);
}

KIT int kit_destroy(struct kit *k, const char *id)
{
    k->done = false;
    abx_runtime_destroy(k->rt, id, kit_on_done, k);
    return kit_wait(k);
}

KIT int kit_gc(struct kit *k, const char *const *keep, size_t count)
{
    k->done = false;
    abx_runtime_gc(k->rt, keep, count, kit_on_done, k);
    return kit_wait(k);
}

KIT int kit_connect(struct kit *k, const char *id)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/sandboxes/%s/run", k->state, id);
    ABX_AUTO_FD dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -errno : abx_fd_connect_unix(dir, "gateway.sock", SOCK_STREAM);
}

/* Runs the attack "name arg" ("@name arg" as the sandbox's user) and gives what it printed. */
KIT const char *kit_attack(struct kit *k, const char *id, const char *line)
{
    ABX_AUTO_FD s = kit_connect(k, id);
    k->text[0] = 0;
    if (s < 0 || abx_fd_write_all(s, line, strlen(line)) < 0 || abx_fd_write_all(s, "\n", 1) < 0)
        return "no answer";
    ssize_t n = abx_fd_read_all(s, k->text, sizeof(k->text) - 1);
    k->text[n > 0 ? n : 0] = 0;
    return k->text;
}

KIT bool kit_says(struct kit *k, const char *id, const char *line, const char *want)
{
    return strstr(kit_attack(k, id, line), want) != NULL;
}

/* Whether every line of the last answer ends in one of the two. */
KIT bool kit_all_lines(const struct kit *k, const char *suffix, const char *or_suffix)
{
    struct abx_str rest = abx_str(k->text), line;
    int lines = 0;
    while (abx_str_split(&rest, '\n', &line) && line.len > 0) {
        lines++;
        if (!abx_str_ends(line, suffix) && !(or_suffix && abx_str_ends(line, or_suffix)))
            return false;
    }
    return lines > 0;
}

struct kit_body {
    struct kit *k;
    uid_t uid;
    int (*body)(struct kit *k);
    int *line;
    int (*before)(void); /* as the caller, in the child; may be NULL */
};

KIT int kit_run_body(void *arg)
{
    const struct kit_body *b = arg;
    if (b->before != NULL && b->before() < 0)
        return 1;
    if (b->uid != getuid() && (setgroups(0, NULL) < 0 || setresgid(b->uid, b->uid, b->uid) < 0 ||
                               setresuid(b->uid, b->uid, b->uid) < 0))
        return 1;
    *b->line = b->body(b->k);
    return 0;
}

/* Runs @body(@k) in a child that is @uid and nothing else; 0 or the line that failed. */
KIT int kit_as_after(struct kit *k, uid_t uid, int (*before)(void), int (*body)(struct kit *k))
{
    int *line = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(line, MAP_FAILED);
    *line = -1;
    struct kit_body b = {k, uid, body, line, before};
    struct abx_proc_status st = {0};
    pid_t pid = abx_proc_fork_role("kit", kit_run_body, &b, NULL, 0, NULL);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    int result = st.exited && st.exit_code == 0 ? *line : -1;
    munmap(line, sizeof(int));
    return result;
}

KIT int kit_as(struct kit *k, uid_t uid, int (*body)(struct kit *k))
{
    return kit_as_after(k, uid, NULL, body);
}

/* One test: @body in an engine's folder of @uid. Bodies run in children: a process that has had a
 * loop must not fork a role that makes one. Needs root unless it is the caller's own uid. */
KIT void kit_run(uid_t uid, int (*body)(struct kit *k))
{
    struct kit k;
    if (geteuid() != 0 && uid != getuid())
        skip();
    kit_init(&k, uid);
    assert_int_equal(kit_as(&k, uid, body), 0);
    kit_done(&k);
}

/* A uid for tests that is in no passwd and no subuid file: level shared-uid. */
KIT uid_t kit_plain_uid(void)
{
    return geteuid() == 0 ? 61234 : getuid();
}
