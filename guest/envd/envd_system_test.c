/* guest/envd/envd_system_test.c: what /init puts into the system: trusted roots and a host. */
#include "guest/envd/envd_priv.h"
#include "guest/envd/envd_rig_priv.h"

#define PEM(body)   "-----BEGIN CERTIFICATE-----\n" body "\n-----END CERTIFICATE-----\n"
#define JSON_A      "-----BEGIN CERTIFICATE-----\\nQQ==\\n-----END CERTIFICATE-----"
#define JSON_B      "-----BEGIN CERTIFICATE-----\\nQg==\\n-----END CERTIFICATE-----\\n\\n"
#define JSON_BROKEN "-----BEGIN CERTIFICATE-----\\nQQ==\\n"
#define BUNDLE      "etc/ssl/certs/ca-certificates.crt"
#define EXTRA       "usr/local/share/ca-certificates/e2b-ca.crt"

static void assert_file(const char *name, const char *expected)
{
    char path[256];
    ABX_AUTO_FREE char *text = NULL;
    snprintf(path, sizeof(path), "%s/%s", rig.dir, name);
    int rc = abx_fd_read_file(AT_FDCWD, path, 1 << 20, &text, NULL);
    if (expected == NULL) {
        assert_int_equal(rc, -ENOENT);
        return;
    }
    assert_int_equal(rc, 0);
    assert_string_equal(text, expected);
}

static void init_says(const char *body, int status, const char *text)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    assert_int_equal(ask("POST /init", "", abx_str(body), &got), status);
    if (!has(&got, text))
        print_error("%s\n got: %s\n", body, got.ptr);
    assert_true(has(&got, text));
}

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", rig.dir, name);
    assert_int_equal(abx_fd_mkdir_p(path, 0755), 0);
}

TEST(certificates_are_added_to_the_trusted_roots_and_exchanged)
{
    begin(&(struct abx_envd_options){0});
    make_folder("etc/ssl/certs");
    put_file(BUNDLE, PEM("Uk9PVA==")); /* a root of the system stays */
    init_says("{\"caBundle\":\"" JSON_A "\"}", 204, "204");
    assert_file(BUNDLE, PEM("Uk9PVA==") PEM("QQ=="));
    assert_file(EXTRA, PEM("QQ=="));
    init_says("{\"caBundle\":\"" JSON_A "\\n\"}", 204, "204"); /* the same again: once in it */
    assert_file(BUNDLE, PEM("Uk9PVA==") PEM("QQ=="));
    envd_stop(); /* the next daemon knows too what the earlier put there */
    envd_start();
    init_says("{\"caBundle\":\"" JSON_B "\"}", 204, "204");
    assert_file(BUNDLE, PEM("Uk9PVA==") PEM("Qg=="));
    assert_file(EXTRA, PEM("Qg=="));
    init_says("{}", 204, "204"); /* asks for nothing */
    assert_file(BUNDLE, PEM("Uk9PVA==") PEM("Qg=="));
    end();
}

TEST(an_image_without_roots_gets_the_bundle)
{
    begin(&(struct abx_envd_options){0});
    init_says("{\"caBundle\":\"" JSON_A JSON_B "\"}", 204, "204");
    assert_file(BUNDLE, "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----" PEM("Qg=="));
    end();
}

TEST(an_init_that_is_refused_changes_nothing)
{
    begin(&(struct abx_envd_options){0});
    static const struct {
        const char *body;
        int status;
        const char *says;
    } rows[] = {
        {"{\"envVars\":{\"A\":\"1\"},\"caBundle\":\"hello\"}", 400,
         "caBundle: no certificate in it"},
        {"{\"envVars\":{\"A\":\"1\"},\"caBundle\":\"" JSON_BROKEN "\"}", 400,
         "certificate 1 has no line -----END"},
        {"{\"envVars\":{\"A\":\"1\"},\"caBundle\":\"" JSON_A JSON_BROKEN JSON_A "\"}", 400,
         "certificate 2 has no line -----END"},
        {"{\"envVars\":{\"A\":\"1\"},\"hyperloopIP\":\"a b\",\"caBundle\":\"" JSON_A "\"}", 400,
         "hyperloopIP: expected an IP address"},
        {"{\"envVars\":{\"A\":\"1\"},\"caBundle\":\"" JSON_A
         "\",\"volumeMounts\":[{\"nfs_target\":\"10.0.0.1:/x\",\"path\":\"/x\"}]}",
         501, "volumeMounts: this envd mounts no NFS volumes"},
    };
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        init_says(rows[i].body, rows[i].status, rows[i].says);
        assert_int_equal(ask("GET /envs", "", NO_BODY, &got), 200);
        assert_true(has(&got, "\r\n\r\n{}"));
        assert_file(BUNDLE, NULL);
        assert_file("etc/hosts", NULL);
    }
    init_says("{\"volumeMounts\":[]}", 204, "204");
    end();
}

TEST(what_can_not_be_written_is_told)
{
    begin(&(struct abx_envd_options){0});
    put_file("etc/ssl", "a file where the folder should be");
    init_says("{\"caBundle\":\"" JSON_A "\"}", 503, "etc/ssl/certs: Not a directory");
    make_folder("etc/hosts");
    init_says("{\"hyperloopIP\":\"10.0.0.9\"}", 503, "hyperloopIP: read ");
    end();
}

TEST(the_events_service_has_one_address_of_a_family_in_hosts)
{
    static const struct {
        const char *had, *address, *now;
    } rows[] = {
        {NULL, "10.0.0.1", "10.0.0.1 events.e2b.local\n"},
        {"127.0.0.1 localhost\n\n", "10.0.0.1", "127.0.0.1 localhost\n10.0.0.1 events.e2b.local\n"},
        {"10.0.0.9 events.e2b.local\n::1 localhost", "10.0.0.1",
         "::1 localhost\n10.0.0.1 events.e2b.local\n"},
        {"10.0.0.9\tother Events.E2B.local # why\n#10.0.0.9 events.e2b.local\n", "10.0.0.1",
         "10.0.0.9 other # why\n#10.0.0.9 events.e2b.local\n10.0.0.1 events.e2b.local\n"},
        {"10.0.0.9 events.e2b.local # ours\nfd00::9 events.e2b.local\n", "fd00::1",
         "10.0.0.9 events.e2b.local # ours\nfd00::1 events.e2b.local\n"},
        {"10.0.0.9 events.e2b.local # ours\n", "10.0.0.1", "10.0.0.1 events.e2b.local\n"},
        {"10.0.0.1 events.e2b.local\n", "10.0.0.1", "10.0.0.1 events.e2b.local\n"},
    };
    struct abx_error err = {0};
    rig = (struct rig){0};
    make_root();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].had)
            put_file("etc/hosts", rows[i].had);
        assert_int_equal(abx__hosts_set(rig.dir, abx_str(rows[i].address), &err), 0);
        assert_file("etc/hosts", rows[i].now);
    }
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, rig.dir), 0);
}

TEST(init_names_the_events_service)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){0});
    put_file("etc/hosts", "127.0.0.1 localhost\n");
    init_says("{\"hyperloopIP\":\"192.0.2.1\"}", 204, "204");
    assert_file("etc/hosts", "127.0.0.1 localhost\n192.0.2.1 events.e2b.local\n");
    assert_int_equal(ask("GET /envs", "", NO_BODY, &got), 200);
    assert_true(has(&got, "{\"E2B_EVENTS_ADDRESS\":\"http://192.0.2.1\"}"));
    end();
}
