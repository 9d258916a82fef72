/* lib/proc/group_test.c: cgroups of what a caller starts. Needs a hierarchy that this process may
 * write; skipped elsewhere. */
#include "lib/proc/confine.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/proc/proc.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 120000 }; /* 257 starts, also in an emulated machine */

struct rig {
    struct abx_loop loop;
    struct abx_timer guard;
    struct abx_confine_group *group;
    const struct abx_confine *confine;
    struct abx_proc_status st;
    bool timed_out;
};

static void on_guard(struct abx_timer *t)
{
    struct rig *r = t->owner;
    r->timed_out = true;
    abx_loop_stop(&r->loop);
}

static void rig_init(struct rig *r, struct abx_confine_scope *scope)
{
    struct abx_error err;
    *r = (struct rig){0};
    if (abx_confine_group_new(&r->group) < 0)
        skip();
    struct abx_confine_spec spec = {
        .layers = ABX_CONFINE_SIGNALS, .group = r->group, .scope = scope};
    assert_int_equal(abx_confine_new(&spec, &r->confine, &err), 0);
    assert_int_equal(abx_loop_init(&r->loop, &err), 0);
    abx_timer_init(&r->guard, &r->loop, on_guard, r);
    abx_timer_start(&r->guard, GUARD_MS, 0);
}

static void rig_done(struct rig *r)
{
    abx_timer_close(&r->guard, NULL);
    abx_loop_run(&r->loop);
    abx_loop_done(&r->loop);
    abx_confine_unref(r->confine);
    abx_confine_group_unref(r->group);
}

static void on_exit_stop(struct abx_proc *child, const struct abx_proc_status *st, void *arg)
{
    struct rig *r = arg;
    (void)child;
    r->st = *st;
    abx_loop_stop(&r->loop);
}

static int shell(struct rig *r, const char *text)
{
    char *const env[] = {(char[]){"PATH=/usr/bin:/bin"}, NULL};
    char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char *)(uintptr_t)text, NULL};
    struct abx_error err = {0};
    struct abx_proc *child;
    struct abx_proc_spec spec = {.path = argv[0],
                                 .argv = argv,
                                 .envp = env,
                                 .stdio = {-1, -1, -1},
                                 .oom_score_adj = INT_MIN,
                                 .new_session = true,
                                 .confine = r->confine};
    if (abx_proc_spawn(&r->loop, &spec, on_exit_stop, r, &child, &err) < 0)
        fail_msg("%s", err.msg);
    abx_loop_run(&r->loop);
    r->loop.stopping = false;
    abx_proc_close(child);
    assert_false(r->timed_out);
    return r->st.exited ? r->st.exit_code : 128 + r->st.signum;
}

static int bound(struct rig *r, uint64_t processes, uint64_t memory_bytes)
{
    struct abx_confine_bounds bounds = {processes, memory_bytes};
    return abx_confine_group_bound(r->group, &bounds);
}

/* A dozen processes where eight may be; the shell says that it can not fork. */
static const char crowd[] = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 20 & done; true";

TEST(s22_a_group_has_as_many_processes_as_it_may)
{
    struct rig r;
    rig_init(&r, NULL);
    assert_int_equal(bound(&r, 8, 0), 0);
    assert_true(shell(&r, crowd) != 0);
    abx_confine_group_kill(r.group);
    assert_int_equal(bound(&r, 0, 0), 0);
    assert_int_equal(shell(&r, crowd), 0);
    assert_int_equal(abx_confine_group_kill(r.group), 0);
    rig_done(&r);
}

TEST(s22_groups_do_not_share_a_bound)
{
    struct rig r, other;
    rig_init(&r, NULL);
    rig_init(&other, NULL);
    assert_int_equal(bound(&r, 4, 0), 0);
    assert_true(shell(&r, crowd) != 0);
    assert_int_equal(shell(&other, crowd), 0);
    assert_int_equal(abx_confine_group_kill(r.group), 0);
    assert_int_equal(abx_confine_group_kill(other.group), 0);
    rig_done(&other);
    rig_done(&r);
}

/* Dead, whether somebody has reaped it or not. */
static bool is_gone(pid_t pid)
{
    char path[64], *text = NULL;
    size_t len;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    bool gone = abx_fd_read_file(AT_FDCWD, path, 4096, &text, &len) < 0 || strstr(text, ") Z ");
    free(text);
    return gone;
}

/* Out of its session, its group and its parent's sight; beneath a scope's keeper as well. */
TEST(s22_nobody_hides_from_the_end_of_a_group)
{
    struct rig probe;
    rig_init(&probe, NULL); /* skips where there are no groups, before anything is made */
    rig_done(&probe);
    struct abx_confine_scope *scopes[] = {NULL, abx_confine_scope_new(NULL)};
    char dir[] = "/tmp/abx-group-XXXXXX", text[256], path[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < ABX_COUNTOF(scopes); i++) {
        struct rig r;
        char *pid = NULL;
        size_t len;
        uint32_t number;
        rig_init(&r, scopes[i]);
        snprintf(text, sizeof(text),
                 "setsid sh -c 'setsid sh -c \"echo \\$\\$ > %s/pid; mv %s/pid %s/there; sleep 20; "
                 "true\" "
                 "& exit 0'; while ! test -f %s/there; do sleep 0.01; done",
                 dir, dir, dir, dir);
        assert_int_equal(shell(&r, text), 0);
        snprintf(path, sizeof(path), "%s/there", dir);
        assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 64, &pid, &len), 0);
        assert_int_equal(abx_parse_u32(abx_str_trim(abx_str_n(pid, len - 1)), &number), 0);
        assert_int_equal(kill((pid_t)number, 0), 0);
        assert_int_equal(abx_confine_group_kill(r.group), 0);
        assert_true(is_gone((pid_t)number));
        assert_int_equal(unlink(path), 0);
        free(pid);
        rig_done(&r);
    }
    abx_confine_scope_unref(scopes[1]);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- memory ---- */

enum { MIB = 1 << 20 };
/* The shell holds its text twice and more. */
static const char hog[] = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done";

TEST(s22_a_group_has_as_much_memory_as_it_may)
{
    struct rig r, other;
    rig_init(&r, NULL);
    rig_init(&other, NULL);
    if (!abx_confine_bounds_memory())
        skip();
    assert_int_equal(bound(&r, 0, 32 * MIB), 0);
    assert_int_equal(shell(&r, "true"), 0);
    assert_int_equal(abx_confine_group_oom_kills(r.group), 0);
    assert_int_equal(shell(&r, hog), 128 + SIGKILL);
    assert_int_equal(abx_confine_group_oom_kills(r.group), 1);
    assert_int_equal(abx_confine_group_oom_kills(other.group), 0);
    assert_int_equal(shell(&r, "true"), 0); /* the group goes on */
    rig_done(&other);
    rig_done(&r);
}

/* Asked for and dropped while something runs; what comes later is held. */
TEST(s22_a_bound_on_memory_comes_and_goes)
{
    struct rig r;
    rig_init(&r, NULL);
    if (!abx_confine_bounds_memory())
        skip();
    assert_int_equal(shell(&r, "sleep 20 & true"), 0);
    assert_int_equal(bound(&r, 0, 32 * MIB), 0);
    assert_int_equal(shell(&r, hog), 128 + SIGKILL);
    assert_int_equal(bound(&r, 0, 0), 0);
    assert_int_equal(
        shell(&r, "x=$(head -c 67108864 /dev/zero | tr '\\0' x); echo ${#x} >/dev/null"), 0);
    assert_int_equal(abx_confine_group_kill(r.group), 0);
    rig_done(&r);
}

/* ---- so many at a time ---- */

/* One confinement in a group and a scope of its own. */
struct one {
    struct abx_confine_group *group;
    struct abx_confine_scope *scope;
    const struct abx_confine *confine;
};

static void one_init(struct one *o)
{
    struct abx_error err;
    assert_int_equal(abx_confine_group_new(&o->group), 0);
    o->scope = abx_confine_scope_new(o->group);
    assert_non_null(o->scope);
    struct abx_confine_spec spec = {
        .layers = ABX_CONFINE_SIGNALS, .group = o->group, .scope = o->scope};
    assert_int_equal(abx_confine_new(&spec, &o->confine, &err), 0);
}

static void one_done(struct one *o)
{
    abx_confine_unref(o->confine);
    abx_confine_scope_unref(o->scope);
    abx_confine_group_unref(o->group);
}

/* In every group somebody lives, out of our sight: the next one is told so. One that is empty again
 * makes room. */
TEST(s22_who_has_nothing_running_makes_room_for_the_next_one)
{
    enum { ALL = ABX_CONFINE_GROUPS_MAX };
    static struct one all[ALL + 1];
    static const char daemon[] = "setsid sleep 600 & true";
    struct rig r;
    rig_init(&r, NULL);
    const struct abx_confine *own = r.confine;
    for (size_t i = 0; i <= ALL; i++)
        one_init(&all[i]);
    for (size_t i = 0; i < ALL; i++) {
        r.confine = all[i].confine;
        assert_int_equal(shell(&r, daemon), 0);
    }
    assert_int_equal(abx_confine_reserve(all[ALL].confine), -EUSERS);
    assert_int_equal(abx_confine_reserve(all[0].confine), 0); /* its place is its own */
    r.confine = all[7].confine;
    assert_int_equal(shell(&r, "true"), 0);
    assert_int_equal(abx_confine_reserve(all[ALL].confine), -EUSERS);
    assert_int_equal(abx_confine_group_kill(all[7].group), 0);
    r.confine = all[ALL].confine;
    assert_int_equal(shell(&r, daemon), 0);
    assert_int_equal(abx_confine_reserve(all[7].confine), -EUSERS); /* and now it has none */
    for (size_t i = 0; i <= ALL; i++) {
        assert_int_equal(abx_confine_group_kill(all[i].group), 0);
        one_done(&all[i]);
    }
    r.confine = own;
    rig_done(&r);
}
