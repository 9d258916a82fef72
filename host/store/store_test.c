/* host/store/store_test.c: the store keeps what it was told, hashed where it must be. */
#include "host/store/store.h"

#include "lib/base/err.h"
#include "lib/base/fd.h"

#include "tests/unit/test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static char dir[64], path[128];

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/abx-store-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/abx.db", dir);
}

static void teardown(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, dir), 0);
}

static struct abx_store *open_store(void)
{
    struct abx_error err = {0};
    struct abx_store *s = NULL;
    if (abx_store_open(path, &s, &err) < 0)
        fail_msg("%s", err.msg);
    return s;
}

static struct abx_store_sandbox a_sandbox(const char *id, char token_byte)
{
    struct abx_store_sandbox sb = {.state = "creating",
                                   .template_name = "host",
                                   .metadata = ABX_STR("{\"a\":\"b\"}"),
                                   .envs = ABX_STR("{}"),
                                   .started_ns = 5,
                                   .end_ms = 7};
    snprintf(sb.id, sizeof(sb.id), "%s", id);
    memset(sb.nonce, 0xa5, sizeof(sb.nonce));
    if (token_byte != '\0')
        memset(sb.token, token_byte, ABX_STORE_TOKEN_LEN);
    if (token_byte == 'f')
        memset(sb.traffic_token, '7', ABX_STORE_TOKEN_LEN);
    return sb;
}

struct seen {
    int count;
    bool has_intent;
    struct abx_store_sandbox last;
    char metadata[64];
};

static void see(void *arg, const struct abx_store_sandbox *sb, bool has_intent)
{
    struct seen *s = arg;
    s->count++;
    s->has_intent = has_intent;
    s->last = *sb;
    snprintf(s->metadata, sizeof(s->metadata), "%.*s", ABX_STR_FMT(sb->metadata));
}

static struct seen look(struct abx_store *s)
{
    struct seen seen = {0};
    struct abx_error err = {0};
    if (abx_store_each(s, see, &seen, &err) < 0)
        fail_msg("%s", err.msg);
    return seen;
}

TEST(store_file_is_private)
{
    setup();
    mode_t old = umask(0);
    struct abx_store *s = open_store();
    umask(old);
    static const char *const names[] = {"abx.db", "abx.db-wal"};
    for (size_t i = 0; i < 2; i++) {
        char name[160];
        struct stat st;
        snprintf(name, sizeof(name), "%s/%s", dir, names[i]);
        assert_int_equal(stat(name, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    abx_store_close(s);
    teardown();
}

TEST(store_keys_are_hashed_and_compared)
{
    setup();
    struct abx_store *s = open_store();
    struct abx_error err = {0};
    struct abx_str key = ABX_STR("e2b_0123456789abcdef0123456789abcdef01234567");
    assert_false(abx_store_key_matches(s, key));
    assert_int_equal(abx_store_key_put(s, "default", key, &err), 0);
    assert_int_equal(abx_store_key_put(s, "default", key, &err), 0); /* again is fine */
    assert_true(abx_store_key_matches(s, key));
    assert_false(abx_store_key_matches(s, abx_str_sub(key, 0, key.len - 1)));
    assert_false(abx_store_key_matches(s, ABX_STR("")));
    abx_store_close(s);

    char *text = NULL;
    size_t len = 0;
    assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 1 << 20, &text, &len), 0);
    assert_int_equal(abx_str_find(abx_str_n(text, len), key), -1);
    free(text);

    s = open_store();
    assert_true(abx_store_key_matches(s, key));
    assert_int_equal(abx_store_key_put(s, "default", ABX_STR("e2b_ff"), &err), 0);
    assert_false(abx_store_key_matches(s, key)); /* replaced */
    abx_store_close(s);
    teardown();
}

TEST(store_sandbox_goes_through_its_life)
{
    setup();
    struct abx_store *s = open_store();
    struct abx_error err = {0};
    struct abx_store_sandbox sb = a_sandbox("iaaaaaaaaaaaaaaaaaaaa", 'f');
    assert_int_equal(abx_store_create_begin(s, &sb, &err), 0);
    struct seen seen = look(s);
    assert_int_equal(seen.count, 1);
    assert_true(seen.has_intent);
    assert_string_equal(seen.last.state, "creating");

    snprintf(sb.state, sizeof(sb.state), "running");
    sb.shim_pid = 42;
    sb.shim_start = UINT64_MAX - 1;
    assert_int_equal(abx_store_create_commit(s, &sb, &err), 0);
    assert_int_equal(abx_store_set_end(s, sb.id, 99, &err), 0);
    abx_store_close(s);
    s = open_store();
    seen = look(s);
    assert_false(seen.has_intent);
    assert_string_equal(seen.last.state, "running");
    assert_string_equal(seen.last.token, sb.token);
    assert_string_equal(seen.last.traffic_token, sb.traffic_token);
    assert_string_equal(seen.metadata, "{\"a\":\"b\"}");
    assert_int_equal(seen.last.shim_pid, 42);
    assert_true(seen.last.shim_start == UINT64_MAX - 1);
    assert_int_equal(seen.last.end_ms, 99);
    assert_memory_equal(seen.last.nonce, sb.nonce, sizeof(sb.nonce));

    assert_int_equal(abx_store_destroy_begin(s, sb.id, "killing", &err), 0);
    seen = look(s);
    assert_true(seen.has_intent);
    assert_string_equal(seen.last.state, "killing");
    assert_int_equal(abx_store_destroy_commit(s, sb.id, &err), 0);
    assert_int_equal(abx_store_destroy_commit(s, sb.id, &err), 0); /* idempotent */
    assert_int_equal(look(s).count, 0);
    abx_store_close(s);
    teardown();
}

TEST(store_reserved_ids_become_sandboxes_or_go)
{
    setup();
    struct abx_store *s = open_store();
    struct abx_error err = {0};
    struct abx_store_sandbox sb = a_sandbox("iaaaaaaaaaaaaaaaaaaaa", 'f');
    char ids[2][ABX_STORE_ID_LEN + 1] = {"iaaaaaaaaaaaaaaaaaaaa", "ibbbbbbbbbbbbbbbbbbbb"};
    snprintf(sb.state, sizeof(sb.state), "running");
    assert_int_equal(abx_store_create_commit(s, &sb, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(abx_store_reserve(s, ids, 2, &err), 0);
    assert_int_equal(look(s).count, 0); /* no row: nobody adopts one */
    assert_int_equal(abx_store_create_commit(s, &sb, &err), 0);
    struct seen seen = look(s);
    assert_int_equal(seen.count, 1);
    assert_false(seen.has_intent);
    assert_string_equal(seen.last.token, sb.token);
    assert_string_equal(seen.last.traffic_token, sb.traffic_token);
    assert_memory_equal(seen.last.nonce, sb.nonce, sizeof(sb.nonce));
    /* a creation that failed has no row to mark */
    assert_int_equal(abx_store_destroy_begin(s, ids[1], "killing", &err), 0);
    assert_int_equal(abx_store_destroy_commit(s, ids[1], &err), 0);
    assert_int_equal(abx_store_destroy_begin(s, ids[1], "killing", &err), -1);
    /* those that never came to be */
    assert_int_equal(abx_store_reserve(s, &ids[1], 1, &err), 0);
    assert_int_equal(abx_store_unreserve_all(s, &err), 0);
    assert_int_equal(abx_store_destroy_begin(s, ids[1], "killing", &err), -1);
    assert_int_equal(look(s).count, 1);
    abx_store_close(s);
    teardown();
}

TEST(store_refuses_a_token_twice_and_an_unknown_id)
{
    setup();
    struct abx_store *s = open_store();
    struct abx_error err = {0};
    struct abx_store_sandbox a = a_sandbox("iaaaaaaaaaaaaaaaaaaaa", 'f');
    struct abx_store_sandbox b = a_sandbox("ibbbbbbbbbbbbbbbbbbbb", 'f');
    assert_int_equal(abx_store_create_begin(s, &a, &err), 0);
    assert_int_equal(abx_store_create_begin(s, &b, &err), -1);
    assert_int_equal(err.code, ABX_ALREADY_EXISTS);
    assert_int_equal(look(s).count, 1); /* the failed one left neither row nor intent */
    struct abx_store_sandbox c = a_sandbox("icccccccccccccccccccc", '\0');
    struct abx_store_sandbox d = a_sandbox("idddddddddddddddddddd", '\0');
    assert_int_equal(abx_store_create_begin(s, &c, &err), 0); /* none is not a token */
    assert_int_equal(abx_store_create_begin(s, &d, &err), 0);
    assert_int_equal(abx_store_set_end(s, b.id, 1, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(abx_store_destroy_begin(s, b.id, "killing", &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(abx_store_create_commit(s, &b, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    abx_store_close(s);
    teardown();
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

TEST(store_ids_from_the_file_are_checked)
{
    setup();
    abx_store_close(open_store());
    sql("INSERT INTO sandboxes VALUES('../../etc/shadow00000', zeroblob(16), 'running', 'host',"
        " NULL, '{}', '{}', 1, 1, 1, 1, 1, '', '', '', '')");
    struct abx_store *s = open_store();
    struct abx_error err = {0};
    struct seen seen = {0};
    assert_int_equal(abx_store_each(s, see, &seen, &err), -1);
    assert_int_equal(err.code, ABX_DATA_LOSS);
    assert_int_equal(seen.count, 0);
    abx_store_close(s);
    teardown();
}

TEST(store_refuses_a_newer_schema_and_a_damaged_file)
{
    setup();
    abx_store_close(open_store());
    sql("INSERT INTO migrations VALUES(1000, 0)");
    struct abx_store *s = NULL;
    struct abx_error err = {0};
    assert_int_equal(abx_store_open(path, &s, &err), -1);
    assert_int_equal(err.code, ABX_FAILED_PRECONDITION);

    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char junk[4096];
    memset(junk, 'x', sizeof(junk));
    assert_int_equal(abx_fd_write_all(fd, junk, sizeof(junk)), 0);
    close(fd);
    assert_int_equal(abx_store_open(path, &s, &err), -1);
    assert_int_equal(err.code, ABX_DATA_LOSS);
    teardown();
}

TEST(store_opens_by_a_bare_name_in_the_working_directory)
{
    setup();
    char back[512];
    struct abx_error err = {0};
    struct abx_store *s = NULL;
    assert_non_null(getcwd(back, sizeof(back)));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(abx_store_open("abx.db", &s, &err), 0);
    struct abx_store_sandbox sb = a_sandbox("iaaaaaaaaaaaaaaaaaaaa", 'f');
    assert_int_equal(abx_store_create_begin(s, &sb, &err), 0);
    abx_store_close(s);
    assert_int_equal(chdir(back), 0);
    s = open_store(); /* the same file by its path */
    assert_int_equal(look(s).count, 1);
    abx_store_close(s);
    teardown();
}

TEST(store_id_rule)
{
    static const struct {
        const char *id;
        bool ok;
    } rows[] = {{"iaaaaaaaaaaaaaaaaaaaa", true},  {"i01234567890123456789", true},
                {"i0123456789012345678", false},  {"jaaaaaaaaaaaaaaaaaaaa", false},
                {"iaaaaaaaaaaaaaaaaaaa", false},  {"iAaaaaaaaaaaaaaaaaaaa", false},
                {"i/../aaaaaaaaaaaaaaaa", false}, {"", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (abx_store_id_is_valid(abx_str(rows[i].id)) != rows[i].ok)
            fail_msg("%s", rows[i].id);
    }
}
