/* host/runtime/slots_test.c: slots are taken once on the machine. */
#include "host/runtime/testkit_priv.h"

#include "lib/base/banned.h"

static char folder[64];

static void set_up(void)
{
    static const char name[] = "/tmp/abx-slots-XXXXXX";
    memcpy(folder, name, sizeof(name));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(rmdir(folder), 0); /* the first lock makes it */
}

static bool is_there(void)
{
    return access(folder, F_OK) == 0;
}

TEST(slots_are_locked_until_the_last_descriptor_goes)
{
    set_up();
    int one = abx__slot_lock(folder, 7);
    assert_true(one >= 0);
    assert_int_equal(abx__slot_lock(folder, 7), -EBUSY);
    int other = abx__slot_lock(folder, 8);
    assert_true(other >= 0);
    int inherited = dup(one); /* as by the shim */
    close(one);
    assert_int_equal(abx__slot_lock(folder, 7), -EBUSY);
    abx__slots_tidy(folder);
    assert_true(is_there());
    assert_int_equal(abx__slot_lock(folder, 7), -EBUSY); /* of the same file still */
    close(inherited);
    one = abx__slot_lock(folder, 7);
    assert_true(one >= 0);
    close(one);
    close(other);
    abx__slots_tidy(folder);
    assert_false(is_there());
    abx__slots_tidy(folder); /* nothing to do */
}

TEST(slots_are_not_kept_where_others_may_write)
{
    set_up();
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(abx__slot_lock(folder, 1), -EPERM);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(symlink("/tmp", folder), 0);
    assert_true(abx__slot_lock(folder, 1) < 0);
    assert_int_equal(unlink(folder), 0);
}

/* All ranges but one are another engine's. */
static int body_one_left(struct kit *k)
{
    enum { LEFT = 5 };
    char want[32], id[ABX_SANDBOX_ID_LEN + 1];
    unsigned inside, base, count;
    memcpy(id, kit_id(1), sizeof(id));
    set_up();
    k->ids_folder = folder;
    int locks = abx__slot_lock(folder, ABX__IDS_SLOTS);
    struct flock below = {.l_type = F_WRLCK, .l_len = LEFT};
    struct flock above = {.l_type = F_WRLCK, .l_start = LEFT + 1, .l_len = ABX__IDS_SLOTS};
    CHECK(fcntl(locks, F_OFD_SETLK, &below) == 0 && fcntl(locks, F_OFD_SETLK, &above) == 0);
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    snprintf(want, sizeof(want), "/proc/%d/uid_map", (int)k->info.init_pid);
    ABX_AUTO_FREE char *map = NULL;
    size_t len;
    CHECK(abx_fd_read_file(AT_FDCWD, want, 4096, &map, &len) >= 0);
    CHECK(sscanf(map, "%u %u %u", &inside, &base, &count) == 3);
    CHECK(base == ABX__IDS_PRIVATE_BASE + LEFT * ABX__IDS_RANGE);
    CHECK(kit_create(k, kit_id(2)) < 0 && strstr(k->err.msg, "no free id range"));
    CHECK(kit_destroy(k, id) == 0 && kit_stop(k) == 0);
    CHECK(is_there());
    close(locks);
    abx__slots_tidy(folder);
    CHECK(!is_there());
    return 0;
}
TEST(slots_of_other_engines_are_left_alone)
{
    kit_run(0, body_one_left);
}
