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

TEST(runtime_makes_and_destroys_as_root)
{
    struct kit k;
    kit_init(&k, 0);
    assert_int_equal(body_lives_and_dies(&k), 0);
    kit_done(&k);
}

TEST(runtime_makes_and_destroys_as_a_user_without_a_range)
{
    struct kit k;
    kit_init(&k, 61234);
    assert_int_equal(kit_as(&k, 61234, body_lives_and_dies), 0);
    kit_done(&k);
}
