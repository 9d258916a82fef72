/* host/runtime/runtime_test.c: sandboxes made, adopted, ended and cleaned away (security S58, S65,
 * S66). */
#include "host/runtime/testkit_priv.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>

#include "lib/base/banned.h"

static int body_lives_and_dies(struct kit *k)
{
    const char *id = kit_id(1);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    CHECK(k->info.init_pid > 1 && k->info.shim_pid > 1 && k->info.shim_start_time > 0);
    CHECK(kit_says(k, id, "identity", "uid"));
    CHECK(kit_says(k, id, "cat /etc/hostname", id));
    char own_name[64]; /* on the address that the gateway dials */
    snprintf(own_name, sizeof(own_name), "127.0.0.1 %s\n", id);
    CHECK(kit_says(k, id, "cat /etc/hosts", own_name));
    CHECK(kit_says(k, id, "list /", "usr"));
    CHECK(kit_says(k, id, "@write /home/user/x", "allowed"));
    CHECK(kit_says(k, id, "write /usr/bin/x", "errno 30"));
    CHECK(kit_says(k, id, "kill-init x", "")); /* PID 1 is out of its namespace's reach */
    CHECK(kit_says(k, id, "identity", "uid"));
    CHECK(kit_destroy(k, id) == 0);
    CHECK(kill(k->info.init_pid, 0) < 0 && errno == ESRCH);
    CHECK(kit_connect(k, id) < 0);
    CHECK(kit_destroy(k, id) == 0); /* idempotent */
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(runtime_makes_and_destroys_as_root)
{
    kit_run(0, body_lives_and_dies);
}

TEST(runtime_makes_and_destroys_as_a_user)
{
    kit_run(kit_plain_uid(), body_lives_and_dies);
}

/* What must be the same before and after: mounts of this namespace, our processes. */
struct traces {
    size_t mounts;
    int processes;
};

/* Whether this engine has a cgroup in any hierarchy. */
static bool has_cgroup(const struct abx__cgroups *cg)
{
    bool found = false;
    for (int i = 0; i < ABX__CG__COUNT; i++)
        found = found || (cg->parents[i][0] != 0 && access(cg->parents[i], F_OK) == 0);
    return found;
}

/* To the processes whose executable lies in the kit's folder: its shims, each the parent of a PID
 * 1. How many there are. */
static int signal_processes(const struct kit *k, int signum)
{
    int n = 0;
    DIR *dir = opendir("/proc");
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char path[300], exe[300];
        snprintf(path, sizeof(path), "/proc/%s/exe", e->d_name);
        ssize_t len = readlink(path, exe, sizeof(exe) - 1);
        exe[len > 0 ? len : 0] = 0;
        uint32_t pid;
        n += strncmp(exe, k->dir, strlen(k->dir)) == 0 &&
             abx_parse_u32(abx_str(e->d_name), &pid) == 0 && kill((pid_t)pid, signum) == 0;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int count_processes(const struct kit *k)
{
    return signal_processes(k, 0);
}

/* An exiting process is seen for a moment after its descriptors are closed. */
static bool no_processes(const struct kit *k)
{
    for (int64_t end = abx_time_mono_ms() + 5000; abx_time_mono_ms() < end; usleep(2000))
        if (count_processes(k) == 0)
            return true;
    return false;
}

static struct traces take_traces(const struct kit *k)
{
    struct traces t = {.processes = count_processes(k)};
    ABX_AUTO_FREE char *text = NULL;
    if (abx_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &text, &t.mounts) < 0)
        t.mounts = 0;
    return t;
}

/* @with_spare: those too that no sandbox has yet, which are there while an engine runs. */
static int count_folders(const struct kit *k, bool with_spare)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/sandboxes", k->state);
    int n = 0;
    DIR *dir = opendir(path);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        n += e->d_name[0] != '.' || (with_spare && strncmp(e->d_name, ".new-", 5) == 0);
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int count_sandboxes(const struct kit *k)
{
    return count_folders(k, false);
}

static int count_layers(const struct kit *k)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/runtime", k->state);
    int n = 0;
    DIR *dir = opendir(path);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        n += e->d_name[0] != '.';
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int body_leaves_nothing(struct kit *k)
{
    struct abx__cgroups cg;
    abx__cgroups_find(k->state, geteuid() == 0, &cg);
    struct traces before = take_traces(k);
    CHECK(kit_start(k) == 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(kit_create(k, kit_id(i)) == 0);
    struct traces during = take_traces(k);
    CHECK(during.processes >= before.processes + 3);
    CHECK(geteuid() != 0 || has_cgroup(&cg));
    CHECK(during.mounts == before.mounts); /* all mounts are in the sandboxes' namespaces */
    for (unsigned i = 0; i < 3; i++)
        CHECK(kit_destroy(k, kit_id(i)) == 0);
    CHECK(kit_stop(k) == 0);
    struct traces after = take_traces(k);
    CHECK(after.mounts == before.mounts && count_layers(k) == 0);
    CHECK(!has_cgroup(&cg));
    CHECK(count_folders(k, true) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_leaves_no_trace_as_root)
{
    kit_run(0, body_leaves_nothing);
}

TEST(runtime_leaves_no_trace_as_a_user)
{
    kit_run(kit_plain_uid(), body_leaves_nothing);
}

/* The inodes of the folders that no sandbox has yet. */
static size_t spare_inodes(const struct kit *k, ino_t out[16])
{
    char path[128];
    size_t n = 0;
    snprintf(path, sizeof(path), "%s/sandboxes", k->state);
    DIR *dir = opendir(path);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL && n < 16)
        if (strncmp(e->d_name, ".new-", 5) == 0)
            out[n++] = e->d_ino;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int body_uses_spare_folders(struct kit *k)
{
    char path[160], left[128];
    ino_t spare[16];
    struct stat st;
    snprintf(left, sizeof(left), "%s/sandboxes/.new-0123456789abcdef", k->state);
    CHECK(kit_start(k) == 0 && kit_stop(k) == 0);
    CHECK(count_folders(k, true) == 0); /* what was made ahead goes with the engine */
    CHECK(mkdir(left, 0700) == 0);
    snprintf(path, sizeof(path), "%s/run", left);
    CHECK(mkdir(path, 0700) == 0);
    CHECK(kit_start(k) == 0);
    CHECK(stat(left, &st) < 0); /* of an engine that was killed */
    /* the first ones may come before anything is ready */
    bool was_spare = false;
    snprintf(path, sizeof(path), "%s/sandboxes/%s", k->state, kit_id(1));
    for (int tries = 0; tries < 20 && !was_spare; tries++) {
        usleep(20000);
        size_t count = spare_inodes(k, spare);
        CHECK(kit_create(k, kit_id(1)) == 0 && stat(path, &st) == 0);
        for (size_t i = 0; i < count; i++)
            was_spare = was_spare || spare[i] == st.st_ino;
        CHECK(kit_destroy(k, kit_id(1)) == 0);
    }
    CHECK(was_spare);
    CHECK(kit_stop(k) == 0);
    CHECK(count_folders(k, true) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_makes_folders_ahead_as_root)
{
    kit_run(0, body_uses_spare_folders);
}

TEST(runtime_makes_folders_ahead_as_a_user)
{
    kit_run(kit_plain_uid(), body_uses_spare_folders);
}

/* Runs the loop for @us microseconds: the pool makes what it makes in that time. */
static void run_for(struct kit *k, uint64_t us)
{
    for (uint64_t end = uv_hrtime() + us * 1000; uv_hrtime() < end;)
        uv_run(&k->loop.uv, UV_RUN_NOWAIT);
}

/* Two alike in a row, unlike what was likely: the roots that were made ahead go, at whatever they
 * are. */
static int turn_the_pool(struct kit *k, bool host_opt)
{
    struct abx_sandbox_spec spec = kit_spec(kit_id(1));
    spec.host_opt = host_opt;
    for (int i = 0; i < 2; i++)
        if (kit_create_spec(k, &spec) < 0 || kit_destroy(k, spec.id) < 0)
            return -1;
    return 0;
}

/* A shim that is told to end may be anywhere, as here, where it does not go on for a while. What it
 * mounts in stays until it has ended. */
static int body_ends_shims_first(struct kit *k)
{
    enum { POOL = 14, A_WHILE_MS = 500 }; /* seven shims, each with a PID 1 */
    CHECK(kit_start(k) == 0 && turn_the_pool(k, false) == 0);
    for (int64_t end = abx_time_mono_ms() + 20000; count_processes(k) < POOL;) {
        CHECK(abx_time_mono_ms() < end);
        run_for(k, 1000);
    }
    CHECK(signal_processes(k, SIGSTOP) > 0);
    kit_let_go(k);
    for (int64_t end = abx_time_mono_ms() + A_WHILE_MS; abx_time_mono_ms() < end; usleep(5000))
        CHECK(count_folders(k, true) > 0);
    CHECK(signal_processes(k, SIGCONT) > 0);
    CHECK(kit_await(k) == 0);
    CHECK(count_folders(k, true) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_ends_shims_before_their_folders_as_root)
{
    kit_run(0, body_ends_shims_first);
}

TEST(runtime_ends_shims_before_their_folders_as_a_user)
{
    kit_run(kit_plain_uid(), body_ends_shims_first);
}

/* The moments are another each time; those of a failure are told. */
static int body_ends_pools(struct kit *k)
{
    enum { ROUNDS = 4, TURNS = 8, MOMENT_US = 40000, KILL_EVERY = 4 };
    srandom((unsigned)uv_hrtime());
    for (int round = 0; round < ROUNDS; round++) {
        char moments[128] = "";
        bool is_killed = round % KILL_EVERY == 0;
        CHECK(kit_start(k) == 0);
        for (int i = 0; i < TURNS; i++) {
            uint64_t moment = (uint64_t)random() % MOMENT_US;
            snprintf(moments + strlen(moments), 16, " %" PRIu64, moment);
            CHECK(round % 2 == 0 || turn_the_pool(k, i % 2) == 0);
            run_for(k, moment);
        }
        if (is_killed) { /* what is left is the next engine's to remove */
            CHECK(kill(k->pid, SIGKILL) == 0);
            CHECK(kit_stop(k) == -1 && kit_start(k) == 0);
        }
        CHECK(kit_stop(k) == 0);
        if (count_folders(k, true) != 0)
            fprintf(stderr, "round %d, microseconds%s\n", round, moments);
        CHECK(count_folders(k, true) == 0);
    }
    CHECK(no_processes(k));
    return 0;
}

TEST(runtime_leaves_no_folder_of_a_pool_that_ends_at_any_moment)
{
    kit_run(0, body_ends_pools);
}

TEST(runtime_leaves_no_folder_of_a_users_pool_that_ends_at_any_moment)
{
    kit_run(kit_plain_uid(), body_ends_pools);
}

static int body_adopts(struct kit *k)
{
    const char *id = kit_id(1);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    struct abx_sandbox_info known = k->info, other = known;
    CHECK(kill(k->pid, SIGKILL) == 0); /* the runtime side, without a chance to say anything */
    k->done = false;
    while (!k->lost)
        abx_loop_run(&k->loop);
    CHECK(kit_stop(k) != 0);
    CHECK(kit_says(k, id, "identity", "uid")); /* the sandbox does not notice */
    CHECK(kit_start(k) == 0);
    CHECK(kit_adopt(k, &known, "another nonce 1") < 0 && k->err.code == ABX_NOT_FOUND);
    other.shim_start_time++; /* the pid of a shim that is gone, recycled */
    CHECK(kit_adopt(k, &other, "0123456789abcde") < 0 && k->err.code == ABX_NOT_FOUND);
    other = known;
    other.shim_pid = getpid();
    CHECK(kit_adopt(k, &other, "0123456789abcde") < 0 && k->err.code == ABX_NOT_FOUND);
    CHECK(kit_adopt(k, &known, "0123456789abcde") == 0);
    CHECK(k->info.init_pid == known.init_pid && k->info.shim_pid == known.shim_pid);
    CHECK(kit_says(k, id, "identity", "uid"));
    CHECK(kit_adopt(k, &known, "0123456789abcde") < 0 && k->err.code == ABX_ALREADY_EXISTS);
    k->stop_on_exit = true;
    (void)kit_attack(k, id, "!7");
    while (k->exited[0] == 0)
        abx_loop_run(&k->loop);
    CHECK(strcmp(k->exited, id) == 0 && k->exit.exited && k->exit.exit_code == 7);
    CHECK(kit_destroy(k, id) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(count_sandboxes(k) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_adopts_after_kill_as_root)
{
    kit_run(0, body_adopts);
}

TEST(runtime_adopts_after_kill_as_a_user)
{
    kit_run(kit_plain_uid(), body_adopts);
}

/* The status that came while nobody listened, and a destroy without an adoption. */
static int body_keeps_status(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, kit_id(2)) == 0);
    CHECK(kit_create(k, kit_id(1)) == 0);
    struct abx_sandbox_info known = k->info;
    CHECK(kit_stop(k) == 0);
    CHECK(count_layers(k) == 1); /* they live on it */
    (void)kit_attack(k, kit_id(1), "!7");
    CHECK(kit_start(k) == 0);
    CHECK(kit_adopt(k, &known, "0123456789abcde") < 0 && k->err.code == ABX_NOT_FOUND);
    CHECK(strstr(k->err.msg, "exit status 7") != NULL);
    CHECK(kit_destroy(k, kit_id(1)) == 0);
    CHECK(kit_destroy(k, kit_id(2)) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(count_sandboxes(k) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_shim_keeps_the_status_as_root)
{
    kit_run(0, body_keeps_status);
}

TEST(runtime_shim_keeps_the_status_as_a_user)
{
    kit_run(kit_plain_uid(), body_keeps_status);
}

static int body_shim_dies(struct kit *k)
{
    const char *id = kit_id(1);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    k->stop_on_exit = true;
    CHECK(kill(k->info.shim_pid, SIGKILL) == 0);
    while (k->exited[0] == 0)
        abx_loop_run(&k->loop);
    CHECK(!k->exit.exited && k->exit.signum == SIGKILL);
    CHECK(kit_destroy(k, id) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(count_sandboxes(k) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_a_dead_shim_takes_its_sandbox_along)
{
    kit_run(0, body_shim_dies);
    kit_run(kit_plain_uid(), body_shim_dies);
}

/* S65: shim.sock looks at the peer's uid even where the path is open. */
static int body_stranger(struct kit *k)
{
    char path[256];
    struct abx_shim_command c = {.magic = ABX_SHIM_MAGIC, .verb = ABX_SHIM_KILL};
    struct abx_shim_reply answer;
    memcpy(c.nonce, "0123456789abcde", 16);
    snprintf(path, sizeof(path), "%s/sandboxes/%s", k->state, kit_id(1));
    ABX_AUTO_FD dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD s = abx_fd_connect_unix(dir, "shim.sock", SOCK_SEQPACKET);
    CHECK(s >= 0);
    (void)send(s, &c, sizeof(c), MSG_NOSIGNAL);
    CHECK(recv(s, &answer, sizeof(answer), 0) <= 0);
    return 0;
}

static int body_refuses_strangers(struct kit *k)
{
    char path[256];
    const char *id = kit_id(1);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    CHECK(chmod(k->state, 0755) == 0);
    snprintf(path, sizeof(path), "%s/sandboxes", k->state);
    CHECK(chmod(path, 0755) == 0);
    snprintf(path, sizeof(path), "%s/sandboxes/%s", k->state, id);
    CHECK(chmod(path, 0755) == 0);
    snprintf(path, sizeof(path), "%s/sandboxes/%s/shim.sock", k->state, id);
    CHECK(chmod(path, 0777) == 0);
    uid_t euid = 61000;
    CHECK(setresuid(0, euid, 0) == 0); /* SO_PEERCRED shows the effective uid */
    int r = body_stranger(k);
    CHECK(setresuid(0, 0, 0) == 0);
    CHECK(r == 0);
    CHECK(kit_says(k, id, "identity", "uid 0"));
    CHECK(kit_destroy(k, id) == 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(runtime_shim_refuses_another_uid)
{
    kit_run(0, body_refuses_strangers);
}

static int body_gc(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, kit_id(2)) == 0);
    CHECK(kit_create(k, kit_id(1)) == 0);
    struct abx_sandbox_info known = k->info;
    CHECK(kit_stop(k) == 0);
    char path[256];
    snprintf(path, sizeof(path), "%s/sandboxes/not-ours", k->state);
    CHECK(mkdir(path, 0700) == 0);
    CHECK(kit_start(k) == 0);
    const char *keep[] = {kit_id(1)};
    CHECK(kit_gc(k, keep, 1) == 0);
    CHECK(kit_says(k, kit_id(1), "identity", "uid"));
    CHECK(kit_connect(k, kit_id(2)) < 0);
    CHECK(count_sandboxes(k) == 2 && rmdir(path) == 0); /* the stranger was left alone */
    CHECK(kit_adopt(k, &known, "0123456789abcde") == 0);
    CHECK(kit_gc(k, NULL, 0) == 0);
    CHECK(count_sandboxes(k) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(no_processes(k));
    return 0;
}

TEST(runtime_gc_removes_only_what_is_ours_and_unknown)
{
    kit_run(0, body_gc);
    kit_run(kit_plain_uid(), body_gc);
}

/* A create whose caller has gone before the answer is undone. */
static int body_undone(struct kit *k)
{
    struct abx_sandbox_spec spec = kit_spec(kit_id(1));
    CHECK(kit_start(k) == 0);
    abx_runtime_create(k->rt, &spec, kit_on_created, k);
    CHECK(kit_stop(k) == 0);
    CHECK(k->err.code == ABX_CANCELED);
    CHECK(count_sandboxes(k) == 0 && no_processes(k));
    return 0;
}

TEST(runtime_undoes_a_create_without_a_caller)
{
    kit_run(0, body_undone);
    kit_run(kit_plain_uid(), body_undone);
}

enum { MANY = 16 };
static int answers_left;
static int failures;
static void on_one(struct kit *k, const struct abx_error *err)
{
    failures += err != NULL;
    if (err != NULL)
        k->err = *err;
    if (--answers_left == 0)
        abx_loop_stop(&k->loop);
}
static void on_one_created(void *arg, const struct abx_sandbox_info *info,
                           const struct abx_error *err)
{
    (void)info;
    on_one(arg, err);
}
static void on_one_done(void *arg, const struct abx_error *err)
{
    on_one(arg, err);
}

static int body_many_at_once(struct kit *k)
{
    char ids[MANY][ABX_SANDBOX_ID_LEN + 1];
    CHECK(kit_start(k) == 0);
    answers_left = MANY;
    for (unsigned i = 0; i < MANY; i++) {
        memcpy(ids[i], kit_id(i), sizeof(ids[i]));
        struct abx_sandbox_spec spec = kit_spec(ids[i]);
        abx_runtime_create(k->rt, &spec, on_one_created, k);
    }
    abx_loop_run(&k->loop);
    CHECK(failures == 0);
    for (unsigned i = 0; i < MANY; i++)
        CHECK(kit_says(k, ids[i], "cat /etc/hostname", ids[i]));
    answers_left = 2 * MANY; /* two destroys each: both are answered */
    for (unsigned i = 0; i < 2 * MANY; i++)
        abx_runtime_destroy(k->rt, ids[i % MANY], on_one_done, k);
    abx_loop_run(&k->loop);
    CHECK(failures == 0 && count_sandboxes(k) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(no_processes(k));
    return 0;
}

TEST(runtime_makes_many_at_once_as_root)
{
    kit_run(0, body_many_at_once);
}

TEST(runtime_makes_many_at_once_as_a_user)
{
    kit_run(kit_plain_uid(), body_many_at_once);
}

static int body_refuses(struct kit *k)
{
    struct abx_sandbox_spec good = kit_spec(kit_id(1)), s = good;
    CHECK(kit_start(k) == 0);
    CHECK(kit_destroy(k, "../../etc") < 0 && k->err.code == ABX_INVALID_ARGUMENT);
    CHECK(kit_destroy(k, "i/..aaaaaaaaaaaaaaaaa") < 0 && k->err.code == ABX_INVALID_ARGUMENT);
    memcpy(s.template_name, "base", 5);
    CHECK(kit_create_spec(k, &s) < 0 && k->err.code == ABX_INVALID_ARGUMENT);
    s = good;
    s.memory_mb = 1;
    CHECK(kit_create_spec(k, &s) < 0 && k->err.code == ABX_INVALID_ARGUMENT);
    s = good;
    s.pids_max = 1u << 30;
    CHECK(kit_create_spec(k, &s) < 0 && k->err.code == ABX_INVALID_ARGUMENT);
    CHECK(kit_create_spec(k, &good) == 0);
    CHECK(kit_create_spec(k, &good) < 0 && k->err.code == ABX_ALREADY_EXISTS);
    CHECK(kit_says(k, good.id, "identity", "uid")); /* the first is unharmed */
    CHECK(kit_destroy(k, good.id) == 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(runtime_refuses_what_is_not_valid)
{
    kit_run(0, body_refuses);
}

/* A guest that can not be executed: the failed step comes back, and nothing is left. */
static int body_bad_guest(struct kit *k)
{
    CHECK(truncate(k->guest, 10) == 0);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, kit_id(1)) < 0);
    CHECK(strstr(k->err.msg, "exec /.fce2b/entrypoint") != NULL);
    CHECK(count_sandboxes(k) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(no_processes(k));
    return 0;
}

TEST(runtime_names_the_failed_step)
{
    kit_run(0, body_bad_guest);
}

static int body_level_private(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(strcmp(k->isolation.ids, "private") == 0 && k->isolation.rootful);
    CHECK(kit_stop(k) == 0);
    return 0;
}

static int body_level_shared(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(strcmp(k->isolation.ids, "shared-uid") == 0 && !k->isolation.rootful);
    CHECK(strcmp(k->isolation.limits, "per-process") == 0);
    CHECK(kit_create(k, kit_id(1)) == 0);
    CHECK(kit_says(k, kit_id(1), "identity", "uid 1000 gid 1000"));
    CHECK(kit_destroy(k, kit_id(1)) == 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

static int body_level_subuid(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(strcmp(k->isolation.ids, "subuid") == 0);
    CHECK(kit_create(k, kit_id(1)) == 0);
    CHECK(kit_says(k, kit_id(1), "identity", "uid 0 gid 0"));
    CHECK(kit_says(k, kit_id(1), "@identity", "uid 1000 gid 1000"));
    CHECK(kit_says(k, kit_id(1), "@write /home/user/x", "allowed"));
    CHECK(kit_destroy(k, kit_id(1)) == 0);
    CHECK(kit_stop(k) == 0);
    CHECK(count_sandboxes(k) == 0);
    return 0;
}

static int run_program(void *argv)
{
    char *const *args = argv;
    execv(args[0], args);
    return 127;
}

static bool run_ok(char **argv)
{
    struct abx_proc_status st = {0};
    pid_t pid = abx_proc_fork_role("run", run_program, argv, NULL, 0, NULL);
    return pid > 0 && abx_proc_wait(pid, &st) == 0 && st.exited && st.exit_code == 0;
}

TEST(runtime_reports_the_level_of_ids)
{
    kit_run(0, body_level_private);
    if (geteuid() == 0)
        kit_run(kit_plain_uid(), body_level_shared);
}

/* A user of its own with a subuid range: useradd gives one. */
TEST(runtime_uses_a_subuid_range)
{
    char add[] = "/usr/sbin/useradd", del[] = "/usr/sbin/userdel", m[] = "-M", u[] = "-u";
    char uid[] = "59235", name[] = "abxrange", force[] = "-f";
    char *add_argv[] = {add, m, u, uid, name, NULL}, *del_argv[] = {del, force, name, NULL};
    if (geteuid() != 0 || access("/usr/bin/newuidmap", X_OK) < 0 || access(add, X_OK) < 0)
        skip();
    (void)run_ok(del_argv); /* of a run that was cut off */
    assert_true(run_ok(add_argv));
    struct kit k;
    kit_init(&k, 59235);
    int line = kit_as(&k, 59235, body_level_subuid);
    int again = line ? 0 : kit_as(&k, 59235, body_adopts);
    bool removed = run_ok(del_argv);
    kit_done(&k);
    assert_int_equal(line, 0);
    assert_int_equal(again, 0);
    assert_true(removed);
}
