/* host/engine/startup_test.c: the state folder, the listeners and the rights given up. */
#include "host/engine/startup_priv.h"

#include "lib/base/assert.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/proc/proc.h"

#include "lib/loop/fdcheck.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static char dir[64], home[96];

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/abx-start-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(home, sizeof(home), "%s/deep/state", dir);
}

static void teardown(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, dir), 0);
}

static struct stat look(const char *name)
{
    char path[192];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", home, name);
    if (stat(path, &st) < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return st;
}

static void read_text(const char *name, char *out, size_t cap)
{
    char path[192];
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof(path), "%s/%s", home, name);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, path, cap - 1, &text, &len), 0);
    snprintf(out, cap, "%s", text);
}

TEST(statedir_layout_and_modes)
{
    setup();
    struct abx__statedir d;
    struct abx_error err = {0};
    uid_t uid;
    gid_t gid;
    abx__network_identity(&uid, &gid);
    if (abx__statedir_open(&d, home, uid, gid, &err) < 0)
        fail_msg("%s", err.msg);
    mode_t passage = geteuid() == 0 ? 0710 : 0700;
    assert_int_equal(look("").st_mode & 07777, passage);
    assert_int_equal(look("sandboxes").st_mode & 07777, passage);
    assert_int_equal(look("sandboxes").st_uid, geteuid());
    assert_int_equal(look("sandboxes").st_gid, gid);
    assert_int_equal(look("db").st_mode & 07777, 0700);
    assert_int_equal(look("db").st_uid, uid);
    assert_true(geteuid() != 0 || uid != 0);
    abx__statedir_close(&d);
    teardown();
}

TEST(statedir_second_engine_is_refused_by_name)
{
    setup();
    struct abx__statedir a, b;
    struct abx_error err = {0};
    char pid[32];
    assert_int_equal(abx__statedir_open(&a, home, geteuid(), getegid(), &err), 0);
    assert_int_equal(abx__statedir_open(&b, home, geteuid(), getegid(), &err), -1);
    assert_int_equal(err.code, ABX_ALREADY_EXISTS);
    snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
    if (strstr(err.msg, pid) == NULL)
        fail_msg("%s", err.msg);
    abx__statedir_close(&b);
    abx__statedir_close(&a);
    assert_int_equal(abx__statedir_open(&b, home, geteuid(), getegid(), &err), 0);
    abx__statedir_close(&b);
    teardown();
}

TEST(statedir_key_is_made_once_and_kept)
{
    setup();
    struct abx__statedir d;
    struct abx_error err = {0};
    char first[ABX__KEY_LEN + 1], text[512], want[256];
    assert_int_equal(abx__statedir_open(&d, home, geteuid(), getegid(), &err), 0);
    assert_int_equal(abx__statedir_publish(&d, "http://127.0.0.1:1", "abx.localhost:1", &err), 0);
    memcpy(first, d.key, sizeof(first));
    assert_int_equal(strlen(first), ABX__KEY_LEN);
    assert_memory_equal(first, "e2b_", 4);
    assert_int_equal(look("client.yaml").st_mode & 07777, 0600);
    read_text("abxd.json", text, sizeof(text));
    snprintf(want, sizeof(want), "\"pid\":%d", (int)getpid());
    assert_non_null(strstr(text, want));
    abx__statedir_retire(&d);
    read_text("abxd.json", text, sizeof(text));
    assert_non_null(strstr(text, "\"pid\":0"));
    abx__statedir_close(&d);

    assert_int_equal(abx__statedir_open(&d, home, geteuid(), getegid(), &err), 0);
    assert_int_equal(abx__statedir_publish(&d, "http://127.0.0.1:2", "abx.localhost:2", &err), 0);
    assert_string_equal(d.key, first);
    assert_int_equal(abx__statedir_last_port(&d), 2);
    read_text("client.yaml", text, sizeof(text));
    snprintf(want, sizeof(want), "url: http://127.0.0.1:2\napi_key: %s\ndomain: abx.localhost:2\n",
             first);
    assert_string_equal(text, want);
    abx__statedir_close(&d);
    teardown();
}

TEST(statedir_of_somebody_else_is_refused)
{
    if (geteuid() != 0)
        skip(); /* needs chown */
    setup();
    struct abx__statedir d;
    struct abx_error err = {0};
    assert_int_equal(abx_fd_mkdir_p(home, 0700), 0);
    assert_int_equal(chown(home, 4321, 4321), 0);
    assert_int_equal(abx__statedir_open(&d, home, 0, 0, &err), -1);
    assert_int_equal(err.code, ABX_PERMISSION_DENIED);
    abx__statedir_close(&d);
    assert_int_equal(abx__statedir_open(&d, "relative", 0, 0, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    abx__statedir_close(&d);
    teardown();
}

TEST(listen_takes_the_next_port_unless_it_was_named)
{
    struct abx_engine_options o = {.listen_explicit = true};
    struct abx__listeners a, b;
    struct abx_error err = {0};
    assert_int_equal(abx__listen(&o, 0, &a, &err), 0); /* any free port */
    assert_true(a.port != 0);
    o.listen_port = a.port;
    assert_int_equal(abx__listen(&o, 0, &b, &err), -1);
    assert_int_equal(err.code, ABX_UNAVAILABLE);
    char holder[32];
    snprintf(holder, sizeof(holder), "taken by pid %d", (int)getpid());
    if (strstr(err.msg, holder) == NULL)
        fail_msg("%s", err.msg);
    o.listen_explicit = false;
    assert_int_equal(abx__listen(&o, 0, &b, &err), 0);
    assert_true(b.port > a.port);
    uint16_t last = b.port;
    abx__listeners_close(&b);
    assert_int_equal(abx__listen(&o, last, &b, &err), 0); /* where it was the last time */
    assert_int_equal(b.port, last);
    abx__listeners_close(&b);
    abx__listeners_close(&a);
}

TEST(listen_beyond_loopback_must_be_meant)
{
    struct abx_engine_options o = {.listen_explicit = true, .listen_host = "0.0.0.0"};
    struct abx__listeners l;
    struct abx_error err = {0};
    assert_int_equal(abx__listen(&o, 0, &l, &err), -1);
    assert_int_equal(err.code, ABX_PERMISSION_DENIED);
    o.insecure_listen = true;
    assert_int_equal(abx__listen(&o, 0, &l, &err), 0);
    assert_true(l.any_ip);
    abx__listeners_close(&l);
    o.listen_host = "example.com";
    assert_int_equal(abx__listen(&o, 0, &l, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    o = (struct abx_engine_options){.listen_explicit = true, .listen_host = "127.0.0.5"};
    assert_int_equal(abx__listen(&o, 0, &l, &err), 0);
    assert_string_equal(l.host, "127.0.0.5");
    abx__listeners_close(&l);
}

#ifdef ABX_SANITIZED
TEST(descriptors_left_open_are_listed)
{
    struct abx_fdcheck fds;
    int ends[2], inherited = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char text[2048] = {0};
    assert_int_equal(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    abx_fdcheck_note(&fds);
    int leak = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(ends[1], STDERR_FILENO);
    abx_fdcheck_report(&fds);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "target=/dev/null"));
    assert_null(strstr(text, "/dev/zero"));
    const int all[] = {ends[0], saved, leak, inherited};
    for (size_t i = 0; i < ABX_COUNTOF(all); i++)
        close(all[i]);
}
#endif

/* What a confined process must fail at; the exit code tells which did not. */

static bool can_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool can_bind(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

static int attack(void *arg)
{
    struct abx_error err = {0};
    char db[128], outside[128];
    uid_t uid;
    gid_t gid;
    (void)arg;
    snprintf(db, sizeof(db), "%s/db", dir);
    snprintf(outside, sizeof(outside), "%s/escape", dir);
    abx__network_identity(&uid, &gid);
    int fd = open(db, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchdir(fd) < 0 || abx__confine(uid, gid, fd, &err) < 0)
        return 10;
    const struct {
        bool broken;
        int code;
    } rows[] = {
        {geteuid() == 0 || getegid() == 0, 11},
        {prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1, 12},
        {!can_open("abx.db", O_RDWR | O_CREAT), 13},
        {unlink("abx.db") < 0, 14},
        {can_open("/etc/passwd", O_RDONLY), 15},
        {can_open(outside, O_RDWR | O_CREAT), 16},
        {can_bind(), 17},
        {prctl(PR_CAPBSET_READ, 21, 0, 0, 0) > 0, 18}, /* CAP_SYS_ADMIN */
        {setuid(0) == 0, 19},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        if (rows[i].broken)
            return rows[i].code;
    }
    return 0;
}

TEST(confined_network_side_has_the_database_and_nothing_else)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* with the sanitizer in it the confined process ends by a signal */
#endif
    if (geteuid() != 0)
        skip(); /* a user has no root to give up */
    setup();
    char db[128];
    uid_t uid;
    gid_t gid;
    int pidfd = -1;
    struct abx_proc_status st = {0};
    abx__network_identity(&uid, &gid);
    snprintf(db, sizeof(db), "%s/db", dir);
    assert_int_equal(mkdir(db, 0700), 0);
    assert_int_equal(chown(db, uid, gid), 0);
    pid_t pid = abx_proc_fork_role("attack", attack, NULL, NULL, 0, &pidfd);
    assert_true(pid > 0);
    assert_int_equal(abx_proc_wait(pid, &st), 0);
    close(pidfd);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, 0);
    teardown();
}
