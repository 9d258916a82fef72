/* host/engine/crash_test.c: an engine killed between any two steps leaves nothing behind.
 *
 * A child does the steps of a creation and a kill, in the engine's order, against a real store, and
 * dies by SIGKILL after step N; the next engine on that folder must find its way (security S65). */
#include "host/engine/testkit_priv.h"

#include "lib/proc/proc.h"

#include <signal.h>

#include "lib/base/banned.h"

static const char id[] = "icrashcrashcrashcrash";

enum step {
    NOTHING,
    RESERVED,
    CREATE_BEGUN, /* of a build's own; others go on from the reservation */
    MADE,
    CREATE_COMMITTED,
    DESTROY_BEGUN,
    REMOVED,
    DESTROY_COMMITTED,
    STEP_COUNT
};

static int reserve(struct abx_store *s, struct abx_store_sandbox *row)
{
    struct abx_error err;
    return abx_store_reserve(s, (char(*)[ABX_STORE_ID_LEN + 1]) row->id, 1, &err);
}

static int begin(struct abx_store *s, struct abx_store_sandbox *row)
{
    struct abx_error err;
    return abx_store_create_begin(s, row, &err);
}

static int make(struct abx_store *s, struct abx_store_sandbox *row)
{
    char path[160];
    (void)s;
    snprintf(path, sizeof(path), "%s/sandboxes/%s", kit.dir, row->id);
    return abx_fd_mkdir_p(path, 0700);
}

static int commit(struct abx_store *s, struct abx_store_sandbox *row)
{
    struct abx_error err;
    snprintf(row->state, sizeof(row->state), "running");
    return abx_store_create_commit(s, row, &err);
}

static int begin_kill(struct abx_store *s, struct abx_store_sandbox *row)
{
    struct abx_error err;
    return abx_store_destroy_begin(s, row->id, "killing", &err);
}

static int remove_it(struct abx_store *s, struct abx_store_sandbox *row)
{
    char path[160];
    (void)s;
    snprintf(path, sizeof(path), "%s/sandboxes/%s", kit.dir, row->id);
    return abx_fd_remove_tree(AT_FDCWD, path);
}

static int commit_kill(struct abx_store *s, struct abx_store_sandbox *row)
{
    struct abx_error err;
    return abx_store_destroy_commit(s, row->id, &err);
}

static int (*const steps[STEP_COUNT])(struct abx_store *s, struct abx_store_sandbox *row) = {
    [RESERVED] = reserve,
    [CREATE_BEGUN] = begin,
    [MADE] = make,
    [CREATE_COMMITTED] = commit,
    [DESTROY_BEGUN] = begin_kill,
    [REMOVED] = remove_it,
    [DESTROY_COMMITTED] = commit_kill,
};

struct life {
    int last;
    bool is_begun; /* else it goes from the reservation to its commit */
};

static int life(void *arg)
{
    const struct life *l = arg;
    char path[128];
    struct abx_error err = {0};
    struct abx_store *s = NULL;
    struct abx_store_sandbox row = {.state = "creating",
                                    .template_name = "host",
                                    .metadata = ABX_STR("{}"),
                                    .envs = ABX_STR("{}"),
                                    .end_ms = abx_time_wall_ms() + 3600000};
    memcpy(row.id, id, sizeof(id));
    snprintf(path, sizeof(path), "%s/abx.db", kit.dir);
    if (abx_store_open(path, &s, &err) < 0)
        return 1;
    for (int i = 1; i <= l->last; i++) {
        if (i == CREATE_BEGUN && !l->is_begun)
            continue;
        if (steps[i](s, &row) < 0)
            return 2;
    }
    raise(SIGKILL);
    return 3;
}

static void die_after(int step, bool is_begun)
{
    struct life l = {step, is_begun};
    struct abx_proc_status st = {0};
    int pidfd = -1;
    pid_t pid = abx_proc_fork_role("life", life, &l, NULL, 0, &pidfd);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    close(pidfd);
    assert_false(st.exited);
    assert_int_equal(st.signum, SIGKILL);
}

TEST(crash_after_any_step_is_undone_or_adopted)
{
    for (int i = NOTHING; i < 2 * STEP_COUNT; i++) {
        int step = i / 2;
        bool lives = step == CREATE_COMMITTED;
        kit_setup();
        kit_stop();
        die_after(step, i % 2 == 0);
        kit_start();
        assert_int_equal(kit.e.sandboxes.count, lives ? 1 : 0);
        assert_int_equal(kit_lives(id), lives);
        assert_int_equal(kit_ask("GET", "/sandboxes/icrashcrashcrashcrash", NULL, NULL),
                         lives ? 200 : 404);
        /* and the undoing itself was noted: another start has nothing to do */
        int destroys = kit.counts[KIT_DESTROY];
        kit_stop();
        kit_start();
        assert_int_equal(kit.counts[KIT_DESTROY], destroys);
        kit_teardown();
    }
}
