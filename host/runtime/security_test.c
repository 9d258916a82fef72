/* host/runtime/security_test.c: what a sandbox must not be able to do (security S50, S51, S54, S55,
 * S56, S67 and the M rows that these parts can meet). The attacks run inside (tests/attacks). */
#include "host/runtime/testkit_priv.h"

#include <ftw.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "lib/base/banned.h"

/* One sandbox, made for @k; the tests below are bodies over it. */
static int with_one(struct kit *k, int (*look)(struct kit *k, const char *id))
{
    char id[ABX_SANDBOX_ID_LEN + 1];
    memcpy(id, kit_id(1), sizeof(id));
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, id) == 0);
    int line = look(k, id);
    CHECK(kit_destroy(k, id) == 0);
    CHECK(kit_stop(k) == 0);
    return line;
}

/* A test as root and, at the level without a range, as a user. */
#define BOTH(name, look)                                                                           \
    static int body_##name(struct kit *k)                                                          \
    {                                                                                              \
        return with_one(k, look);                                                                  \
    }                                                                                              \
    TEST(name##_as_root)                                                                           \
    {                                                                                              \
        kit_run(0, body_##name);                                                                   \
    }                                                                                              \
    TEST(name##_as_a_user)                                                                         \
    {                                                                                              \
        kit_run(kit_plain_uid(), body_##name);                                                     \
    }

static int look_namespaces(struct kit *k, const char *id)
{
    static const char *const lines[] = {"namespaces", "@namespaces"};
    for (size_t i = 0; i < 2; i++) {
        (void)kit_attack(k, id, lines[i]);
        CHECK(kit_all_lines(k, "errno 38", "0")); /* the last line is the knob */
        CHECK(strstr(k->text, "allowed") == NULL && strstr(k->text, "\n0\n") != NULL);
    }
    /* M20: not to be raised again */
    CHECK(kit_says(k, id, "write /proc/sys/user/max_user_namespaces", "write errno"));
    return 0;
}
BOTH(t_sec_m12_m20_no_nested_namespaces, look_namespaces)

static int look_syscalls(struct kit *k, const char *id)
{
    (void)kit_attack(k, id, "syscalls"); /* M13, M22 among them */
    CHECK(kit_all_lines(k, "errno 38", NULL));
    (void)kit_attack(k, id, "@syscalls");
    CHECK(kit_all_lines(k, "errno 38", NULL));
    CHECK(kit_says(k, id, "i386", "signal 31")); /* SIGSYS */
    return 0;
}
BOTH(t_sec_s54_forbidden_system_calls, look_syscalls)

static int look_sockets(struct kit *k, const char *id)
{
    (void)kit_attack(k, id, "sockets");
    struct abx_str rest = abx_str(k->text), line;
    int good = 0, bad = 0;
    while (abx_str_split(&rest, '\n', &line) && line.len > 0) {
        if (abx_str_starts(line, "family"))
            bad += abx_str_is(line, "family errno 97") ? 1 : 100;
        else if (abx_str_starts(line, "netlink"))
            bad += abx_str_is(line, "netlink errno 93") ? 1 : 100;
        else
            good += abx_str_is(line, "good allowed") ? 1 : 100;
    }
    CHECK(bad == 16 && good == 6);
    return 0;
}
BOTH(t_sec_m21_socket_families, look_sockets)

static int look_capabilities(struct kit *k, const char *id)
{
    static const char want[] = "cap 0\ncap 1\ncap 3\ncap 4\ncap 5\ncap 6\ncap 7\ncap 8\ncap 10\n"
                               "cap 18\ncap 29\ncap 31\n";
    CHECK(strcmp(kit_attack(k, id, "capabilities"), want) == 0);
    CHECK(kit_says(k, id, "cat /proc/1/status", "Seccomp:\t2"));
    CHECK(kit_says(k, id, "cat /proc/1/status", "NoNewPrivs:\t0"));
    CHECK(kit_says(k, id, "@cat /proc/self/status", "CapEff:\t0000000000000000"));
    CHECK(kit_says(k, id, "limits", "core 1 1\n"));
    return 0;
}
BOTH(t_sec_s54_capabilities, look_capabilities)

/* Every mount is nosuid; nodev too but for devices, terminals; the machine's are read-only. */
static int look_mounts(struct kit *k, const char *id)
{
    (void)kit_attack(k, id, "cat /proc/self/mountinfo");
    struct abx_str rest = abx_str(k->text), line;
    int lines = 0;
    while (abx_str_split(&rest, '\n', &line) && line.len > 0) {
        bool is_root = abx_str_find(line, ABX_STR(" / / rw,nodev")) >= 0;
        bool has_devices = abx_str_find(line, ABX_STR(" - devtmpfs")) >= 0 ||
                           abx_str_find(line, ABX_STR(" - devpts")) >= 0;
        CHECK(is_root || abx_str_find(line, ABX_STR("nosuid")) >= 0);
        CHECK(has_devices || abx_str_find(line, ABX_STR("nodev")) >= 0);
        if (abx_str_find(line, ABX_STR(" /usr ")) >= 0)
            CHECK(abx_str_find(line, ABX_STR(" ro,nosuid,nodev")) >= 0);
        CHECK(abx_str_find(line, abx_str(k->dir)) < 0); /* and no path of the host */
        lines++;
    }
    CHECK(lines > 20);
    CHECK(strstr(k->text, " /proc/sys ro,") && strstr(k->text, " /sys ro,"));
    return 0;
}
BOTH(t_sec_s54_mounts, look_mounts)

static int look_proc(struct kit *k, const char *id)
{
    static const char *const empty[] = {"cat /proc/keys",  "cat /proc/timer_list",
                                        "cat /proc/kmsg",  "cat /proc/interrupts",
                                        "cat /proc/kcore", "cat /proc/sched_debug"};
    for (size_t i = 0; i < ABX_COUNTOF(empty); i++) {
        const char *text = kit_attack(k, id, empty[i]);
        CHECK(text[0] == 0 || strcmp(text, "open errno 2\n") == 0);
    }
    CHECK(kit_says(k, id, "write /proc/sys/net/ipv4/ip_forward", "write errno"));
    CHECK(kit_says(k, id, "write /sys/kernel/mm/transparent_hugepage/enabled", "errno"));
    CHECK(strcmp(kit_attack(k, id, "list /sys/fs/cgroup"), ".\n..\n") == 0 ||
          strcmp(k->text, "..\n.\n") == 0);
    CHECK(kit_says(k, id, "descriptors", "3 socket:"));
    CHECK(strstr(k->text, "\n4 ") == NULL && strstr(k->text, "\n5 ") == NULL);
    CHECK(strstr(kit_attack(k, id, "list /dev"), "kmsg") == NULL);
    CHECK(strstr(k->text, "mem") == NULL && strstr(k->text, "kvm") == NULL);
    CHECK(strstr(k->text, "vda") == NULL && strstr(k->text, "ptmx") != NULL);
    return 0;
}
BOTH(t_sec_s54_proc_sys_dev, look_proc)

/* A machine whose sysfs is not to be seen: the kernel refuses a new one then. */
static int hide_sys(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -1;
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &text, &len) < 0)
        return -1;
    struct abx_str rest = {text, len}, line, point = {0};
    while (abx_str_split(&rest, '\n', &line)) { /* any one of them would do for the kernel */
        char path[256];
        if (abx_str_find(line, ABX_STR(" - sysfs ")) < 0)
            continue;
        for (int field = 0; field < 5; field++)
            (void)abx_str_split(&line, ' ', &point);
        if (abx_str_to_c(point, path, sizeof(path)) < 0 || umount2(path, MNT_DETACH) < 0)
            return -1;
    }
    return 0;
}

static int look_without_sysfs(struct kit *k, const char *id)
{
    CHECK(kit_says(k, id, "list /sys", "devices"));
    CHECK(strstr(k->text, "kernel") == NULL && strstr(k->text, "class") == NULL);
    CHECK(kit_says(k, id, "write /sys/x", "errno 30"));
    CHECK(kit_says(k, id, "identity", "pid 1"));
    return 0;
}
static int body_without_sysfs(struct kit *k)
{
    return with_one(k, look_without_sysfs);
}
TEST(t_sec_s54_without_a_sysfs_of_our_own)
{
    if (geteuid() != 0)
        skip();
    uid_t uids[] = {0, kit_plain_uid()};
    for (size_t i = 0; i < 2; i++) {
        struct kit k;
        kit_init(&k, uids[i]);
        assert_int_equal(kit_as_after(&k, uids[i], hide_sys, body_without_sysfs), 0);
        kit_done(&k);
    }
}

/* A file below /usr that others may not read, if this machine has one. */
static char secret[256];
static int find_secret(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || !S_ISREG(st->st_mode) || (st->st_mode & S_IROTH) || st->st_size == 0)
        return 0;
    snprintf(secret, sizeof(secret), "cat %s", path);
    return 1;
}

/* S50: an allow-list; what the machine keeps for itself is not there or not readable. */
static int look_host(struct kit *k, const char *id)
{
    static const char *const absent[] = {"/etc/shadow",   "/etc/gshadow", "/etc/ssl/private",
                                         "/etc/ssh",      "/etc/sudoers", "/var/backups",
                                         "/var/lib/dpkg", "/boot",        "/work"};
    char line[300];
    for (size_t i = 0; i < ABX_COUNTOF(absent); i++) {
        snprintf(line, sizeof(line), "stat %s", absent[i]);
        CHECK(kit_says(k, id, line, "errno 2\n"));
    }
    CHECK(kit_says(k, id, "stat /usr/bin", "uid 65534 gid 65534"));
    CHECK(kit_says(k, id, "write /usr/x", "errno 30"));
    if (nftw("/usr", find_secret, 16, FTW_PHYS) == 1)
        CHECK(kit_says(k, id, secret, "open errno 13"));
    CHECK(kit_says(k, id, "cat /etc/passwd", "user:x:1000:1000:user:/home/user:/bin/bash"));
    CHECK(kit_says(k, id, "stat /home/user", "uid 1000 gid 1000"));
    return 0;
}
BOTH(t_sec_s50_host_template, look_host)

static int look_network(struct kit *k, const char *id)
{
    ABX_AUTO_FD tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ABX_AUTO_FD named = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(in);
    char line[128];
    int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "abx-test-%d", (int)getpid());
    CHECK(bind(tcp, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(tcp, 1) == 0);
    CHECK(getsockname(tcp, (struct sockaddr *)&in, &len) == 0);
    CHECK(bind(named, (struct sockaddr *)&un, (socklen_t)(3 + n)) == 0 && listen(named, 1) == 0);
    snprintf(line, sizeof(line), "tcp %d", ntohs(in.sin_port));
    CHECK(kit_says(k, id, line, "connect errno 111"));
    snprintf(line, sizeof(line), "abstract abx-test-%d", (int)getpid());
    CHECK(kit_says(k, id, line, "connect errno 111"));
    return 0;
}
BOTH(t_sec_s56_host_loopback_is_unreachable, look_network)

/* S51: a setuid file that the sandbox's root makes belongs to nobody here, and is out of reach. */
/* What another user of the machine gets at @path: 0 or the errno. */
static int as_stranger(const char *path)
{
    enum { STRANGER = 61000 };
    struct stat st;
    if (setresgid((gid_t)-1, STRANGER, (gid_t)-1) < 0 ||
        setresuid((uid_t)-1, STRANGER, (uid_t)-1) < 0)
        return -1;
    int r = stat(path, &st) < 0 ? errno : 0;
    if (setresuid((uid_t)-1, 0, (uid_t)-1) < 0 || setresgid((gid_t)-1, 0, (gid_t)-1) < 0)
        return -1;
    return r;
}

/* By the processes that have the folders open, or that live in them. */
static int look_by_processes(struct kit *k)
{
    static const char *const ways[] = {"root/.", "cwd/.", "fd/0", "map_files/."};
    const pid_t pids[] = {k->pid, k->info.shim_pid, k->info.init_pid};
    char path[64];
    for (size_t i = 0; i < ABX_COUNTOF(pids); i++) {
        for (size_t j = 0; j < ABX_COUNTOF(ways); j++) {
            snprintf(path, sizeof(path), "/proc/%d/%s", (int)pids[i], ways[j]);
            int why = as_stranger(path);
            CHECK(why == EACCES || why == EPERM);
        }
    }
    return 0;
}

static int look_setuid(struct kit *k, const char *id)
{
    char path[256];
    CHECK(kit_says(k, id, "write /tmp/evil", "allowed"));
    CHECK(kit_says(k, id, "set-suid /tmp/evil", "allowed"));
    CHECK(kit_says(k, id, "stat /tmp/evil", "mode 4755"));
    snprintf(path, sizeof(path), "%s/sandboxes/%s/fs/upper/tmp/evil", k->state, id);
    struct stat st;
    CHECK(stat(path, &st) == 0);
    CHECK(st.st_uid == ABX__IDS_STORAGE && st.st_gid == ABX__IDS_STORAGE);
    CHECK(as_stranger(path) == EACCES);
    snprintf(path, sizeof(path), "%s/layers/.", k->state);
    CHECK(as_stranger(path) == EACCES);
    /* each folder on the way is a wall of its own: one that was opened by mistake shows nothing */
    CHECK(chmod(k->state, 0755) == 0);
    snprintf(path, sizeof(path), "%s/sandboxes/%s", k->state, id);
    CHECK(as_stranger(path) == EACCES);
    snprintf(path, sizeof(path), "%s/layers/.", k->state);
    CHECK(as_stranger(path) == EACCES);
    return look_by_processes(k);
}
static int body_setuid(struct kit *k)
{
    return with_one(k, look_setuid);
}
/* The template option proc_hidepid. Where it is off a domain of Landlock still sees all of its uid.
 */
static int body_hide_pids(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    for (int is_hidden = 0; is_hidden < 2; is_hidden++) {
        const char *id = kit_id((unsigned)is_hidden);
        struct abx_sandbox_spec spec = kit_spec(id);
        spec.hide_pids = is_hidden == 1;
        CHECK(kit_create_spec(k, &spec) == 0);
        CHECK(kit_says(k, id, "@pids",
                       is_hidden ? "locked 1 itself 1 other 0" : "locked 1 itself 1 other 1"));
        CHECK(kit_says(k, id, "@pids", "plain itself 1"));
        CHECK(!kit_says(k, id, "write /proc/sys/net/ipv4/ip_unprivileged_port_start", "allowed"));
        CHECK(kit_destroy(k, id) == 0);
    }
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_m18_proc_hides_pids_as_root)
{
    kit_run(0, body_hide_pids);
}

TEST(t_sec_m18_proc_hides_pids_as_a_user)
{
    kit_run(kit_plain_uid(), body_hide_pids);
}

TEST(t_sec_s51_setuid_files_of_a_layer)
{
    kit_run(0, body_setuid);
}

/* M23: what is set inside never reaches the layer as a mark that an overlay obeys. */
static int look_marks(struct kit *k, const char *id)
{
    char path[256], value[64];
    CHECK(kit_says(k, id, "write /tmp/marked", "allowed"));
    (void)kit_attack(k, id, "marks /tmp/marked");
    CHECK(strstr(k->text, "trusted.overlay.redirect errno 1\n") != NULL);
    CHECK(strstr(k->text, "trusted.overlay.metacopy errno 1\n") != NULL);
    snprintf(path, sizeof(path), "%s/sandboxes/%s/fs/upper/tmp/marked", k->state, id);
    static const char *const names[] = {"trusted.overlay.redirect", "user.overlay.redirect",
                                        "trusted.overlay.metacopy", "user.overlay.metacopy"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        CHECK(lgetxattr(path, names[i], value, sizeof(value)) < 0 && errno == ENODATA);
    return 0;
}
static int body_marks(struct kit *k)
{
    return with_one(k, look_marks);
}
TEST(t_sec_m23_marks_of_overlayfs)
{
    kit_run(0, body_marks);
}

/* S52: what overlayfs would follow by default on this kernel, it must not. */
static int look_overlay(struct kit *k, const char *id)
{
    (void)kit_attack(k, id, "cat /proc/self/mountinfo");
    struct abx_str rest = abx_str(k->text), line;
    while (abx_str_split(&rest, '\n', &line)) {
        if (abx_str_find(line, ABX_STR(" / / rw,nodev")) < 0)
            continue;
        CHECK(abx_str_find(line, ABX_STR(",redirect_dir=nofollow")) >= 0);
        CHECK(abx_str_find(line, ABX_STR(",userxattr")) >= 0);
        CHECK(abx_str_find(line, ABX_STR("metacopy=on")) < 0);
        return 0;
    }
    CHECK(!"a line for the root");
    return 0;
}
BOTH(t_sec_s52_overlay_options, look_overlay)

/* Two sandboxes at once. */
static int with_two(struct kit *k, int (*look)(struct kit *k, const char *a, const char *b))
{
    char a[ABX_SANDBOX_ID_LEN + 1], b[ABX_SANDBOX_ID_LEN + 1];
    memcpy(a, kit_id(1), sizeof(a));
    memcpy(b, kit_id(2), sizeof(b));
    CHECK(kit_start(k) == 0);
    CHECK(kit_create(k, a) == 0 && kit_create(k, b) == 0);
    int line = look(k, a, b);
    CHECK(kit_destroy(k, a) == 0 && kit_destroy(k, b) == 0);
    CHECK(kit_stop(k) == 0);
    return line;
}

/* Starts an attack that goes on and gives its first line. */
static int attack_on(struct kit *k, const char *id, const char *line)
{
    int s = kit_connect(k, id);
    k->text[0] = 0;
    if (s < 0 || abx_fd_write_all(s, line, strlen(line)) < 0 || abx_fd_write_all(s, "\n", 1) < 0)
        return -1;
    ssize_t n = read(s, k->text, sizeof(k->text) - 1);
    k->text[n > 0 ? n : 0] = 0;
    return s;
}

static int look_inotify(struct kit *k, const char *a, const char *b)
{
    ABX_AUTO_FD first = attack_on(k, a, "inotify");
    CHECK(first >= 0 && strstr(k->text, "errno 24") != NULL);
    int one = -1, two = -1;
    CHECK(sscanf(k->text, "instances %d", &one) == 1 && one > 10);
    ABX_AUTO_FD second = attack_on(k, b, "inotify");
    CHECK(second >= 0 && sscanf(k->text, "instances %d", &two) == 1);
    CHECK(two == one); /* M19: it would be 0 */
    return 0;
}
static int body_inotify(struct kit *k)
{
    return with_two(k, look_inotify);
}
TEST(t_sec_m19_inotify_of_one_starves_no_other_as_root)
{
    kit_run(0, body_inotify);
}
TEST(t_sec_m19_inotify_of_one_starves_no_other_as_a_user)
{
    kit_run(kit_plain_uid(), body_inotify);
}

static int look_separate(struct kit *k, const char *a, const char *b)
{
    char first[64], second[64];
    snprintf(first, sizeof(first), "%s", kit_attack(k, a, "cat /proc/sys/kernel/random/boot_id"));
    snprintf(second, sizeof(second), "%s", kit_attack(k, b, "cat /proc/sys/kernel/random/boot_id"));
    CHECK(strlen(first) == 37 && strlen(second) == 37 && strcmp(first, second) != 0);
    snprintf(first, sizeof(first), "%s", kit_attack(k, a, "cat /proc/self/uid_map"));
    snprintf(second, sizeof(second), "%s", kit_attack(k, b, "cat /proc/self/uid_map"));
    CHECK(strcmp(first, second) != 0); /* private ranges */
    CHECK(kit_says(k, a, "@write /tmp/shared", "allowed"));
    CHECK(kit_says(k, b, "stat /tmp/shared", "errno 2"));
    return 0;
}
static int body_separate(struct kit *k)
{
    return with_two(k, look_separate);
}
TEST(t_sec_sandboxes_are_apart)
{
    kit_run(0, body_separate);
}

static int look_pids(struct kit *k, const char *a, const char *b)
{
    int n = 0, why = 0;
    CHECK(sscanf(kit_attack(k, a, "@forks 200"), "forks %d errno %d", &n, &why) == 2);
    CHECK(n < 64 && why == EAGAIN);
    CHECK(sscanf(kit_attack(k, b, "@forks 20"), "forks %d errno", &n) == 1 && n == 20);
    return 0;
}
static int body_pids(struct kit *k)
{
    return with_two(k, look_pids);
}
TEST(t_sec_s67_a_fork_bomb_stays_inside_as_root)
{
    kit_run(0, body_pids);
}

static int look_memory(struct kit *k, const char *a, const char *b)
{
    CHECK(kit_says(k, a, "memory 400", "signal 9"));
    CHECK(kit_says(k, a, "memory 20", "exit 0")); /* its PID 1 lives on */
    CHECK(kit_says(k, b, "memory 100", "exit 0"));
    return 0;
}
static int body_memory(struct kit *k)
{
    return with_two(k, look_memory);
}
TEST(t_sec_s67_out_of_memory_only_there)
{
    kit_run(0, body_memory);
}

/* S54: the shim keeps one capability, can gain none and is small. */
static int look_shim(struct kit *k, const char *id)
{
    char path[64];
    (void)id;
    size_t len;
    ABX_AUTO_FREE char *status = NULL, *rollup = NULL;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)k->info.shim_pid);
    CHECK(abx_fd_read_file(AT_FDCWD, path, 65536, &status, &len) >= 0);
    CHECK(strstr(status, "CapEff:\t0000000000000020") && strstr(status, "NoNewPrivs:\t1"));
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)k->info.shim_pid);
    CHECK(abx_fd_read_file(AT_FDCWD, path, 65536, &rollup, &len) >= 0);
    const char *pss = strstr(rollup, "\nPss:");
    unsigned kib = 0;
    CHECK(pss != NULL && sscanf(pss + 5, "%u", &kib) == 1);
    printf("shim pss %u KiB\n", kib);
    CHECK(kib <= 64);
    return 0;
}
static int body_shim(struct kit *k)
{
    return with_one(k, look_shim);
}
TEST(t_sec_s54_the_shim_keeps_little)
{
    kit_run(0, body_shim);
}
