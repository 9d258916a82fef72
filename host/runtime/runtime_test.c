/* host/runtime/runtime_test.c: sandboxes made, adopted and destroyed (security S65, S66). */
#include "host/runtime/testkit_priv.h"

#include "lib/base/banned.h"

static int body_lives_and_dies(struct kit *k)
{
    const char *id = kit_id(1);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    CHECK(k->info.init_pid > 1 && k->info.shim_pid > 1 && k->info.shim_start_time > 0);
    CHECK(kit_says(k, id, "identity", "uid"));
    CHECK(kit_says(k, id, "cat /etc/hostname", id));
    CHECK(kit_says(k, id, "list /", "usr"));
    CHECK(kit_says(k, id, "@write /home/user/x", "allowed"));
    CHECK(kit_says(k, id, "write /usr/bin/x", "errno 30"));
    CHECK(kit_destroy(k, id) == 0);
    CHECK(kill(k->info.init_pid, 0) < 0 && errno == ESRCH);
    CHECK(kit_connect(k, id) < 0);
    CHECK(kit_destroy(k, id) == 0); /* idempotent */
    CHECK(kit_stop(k) == 0);
    return 0;
}

enum { PLAIN_UID = 61234 }; /* in no passwd and no subuid file: level shared-uid */

/* Bodies run in children: a process that has had a loop must not fork a role that makes one. */
static void run(uid_t uid, int (*body)(struct kit *k))
{
    struct kit k;
    kit_init(&k, uid);
    assert_int_equal(kit_as(&k, uid, body), 0);
    kit_done(&k);
}

TEST(runtime_makes_and_destroys_as_root)
{
    run(0, body_lives_and_dies);
}

TEST(runtime_makes_and_destroys_as_a_user_without_a_range)
{
    run(PLAIN_UID, body_lives_and_dies);
}
