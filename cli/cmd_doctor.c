/* cli/cmd_doctor.c: abx engine doctor: what this machine has and lacks for sandboxes.
 *
 * Reads and probes only; changes nothing. Exit 1 when something that is needed is missing. */
#include "cli/cli.h"
#include "cli/ids.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/proc/cgroup.h"
#include "lib/proc/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum verdict { OK, NOTE, MISSING };
struct finding {
    enum verdict verdict;
    char text[400];
};
typedef void check_fn(const struct cli *cli, struct finding *f);

static void say(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void say(struct finding *f, enum verdict v, const char *fmt, ...)
{
    va_list ap;
    f->verdict = v;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
}

static bool read_number(const char *path, int64_t *ret)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, path, 4096, &text, &len) < 0)
        return false;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    return abx_parse_i64(abx_str_n(text, len), ret) == 0;
}

static void check_kernel(const struct cli *cli, struct finding *f)
{
    (void)cli;
    struct utsname u;
    uint32_t major = 0, minor = 0;
    uname(&u);
    struct abx_str rest = abx_str(u.release), part;
    if (abx_str_split(&rest, '.', &part))
        (void)abx_parse_u32(part, &major);
    size_t digits = rest.ptr ? strspn(rest.ptr, "0123456789") : 0;
    (void)abx_parse_u32(abx_str_n(rest.ptr, digits), &minor);
    uint32_t version = major * 1000 + minor;
    if (version < 5011)
        say(f, MISSING, "Linux %s; 5.11 or later is needed", u.release);
    else if (version < 5017)
        say(f, NOTE, "Linux %s; before 5.17, check that CVE-2022-0492 is fixed", u.release);
    else
        say(f, OK, "Linux %s", u.release);
}

static void check_userns(const struct cli *cli, struct finding *f)
{
    (void)cli;
    int64_t max = 0;
    const struct abx_userns_bar *bar = abx_userns_bar("/proc/sys", geteuid() == 0);
    if (bar != NULL)
        say(f, MISSING, "%s: %s", bar->what, bar->next);
    else if (read_number("/proc/sys/user/max_user_namespaces", &max))
        say(f, OK, "up to %lld", (long long)max);
    else
        say(f, NOTE, "user.max_user_namespaces can not be read");
}

static void check_ids(const struct cli *cli, struct finding *f)
{
    (void)cli;
    if (geteuid() == 0) {
        say(f, OK, "root: each sandbox has a private range of ids");
        return;
    }
    char name[CLI_USER_NAME];
    if (cli_ids_have_range(name) && access("/usr/bin/newuidmap", X_OK) == 0)
        say(f, OK, "a subordinate range of 65,536 ids");
    else if (cli_ids_have_range(name))
        say(f, NOTE, "a range, but no newuidmap (package uidmap): level shared-uid");
    else
        say(f, NOTE,
            "no subordinate range: level shared-uid, no root in a sandbox. To have one: "
            "echo '%s:100000:65536' >> /etc/subuid; the same line in /etc/subgid",
            name);
}

static bool has_limits(const char *cgroup)
{
    return abx_cgroup_has(cgroup, "memory") && abx_cgroup_has(cgroup, "pids") &&
           abx_cgroup_has(cgroup, "cpu");
}

static bool has_user_manager(void)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    char path[PATH_MAX];
    return run != NULL && snprintf(path, sizeof(path), "%s/systemd/private", run) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* An engine that was started where the doctor is asked. */
static void check_limits_of_user(struct finding *f)
{
    char own[PATH_MAX];
    bool v2 = abx_cgroup_own(own, sizeof(own)) == 0;
    if (v2 && abx_cgroup_is_given(own, true) && has_limits(own))
        say(f, OK, "cgroup v2, in %s", own);
    else if (v2 && has_user_manager())
        say(f, NOTE,
            "per-process only (memory and fork bombs are not contained). To have them contained: "
            "systemd-run --user --scope -p Delegate=yes abx up --detach");
    else
        say(f, NOTE, "per-process only (memory and fork bombs are not contained without root)");
}

static void check_limits(const struct cli *cli, struct finding *f)
{
    (void)cli;
    static const char top[] = "/sys/fs/cgroup";
    if (geteuid() != 0)
        check_limits_of_user(f);
    else if (access("/sys/fs/cgroup/memory/cgroup.procs", W_OK) == 0 &&
             access("/sys/fs/cgroup/pids/cgroup.procs", W_OK) == 0)
        say(f, OK, "cgroup v1");
    else if (has_limits(top) && access(top, W_OK) == 0)
        say(f, OK, "cgroup v2");
    else
        say(f, NOTE, "no writable cgroup hierarchy with memory, pids and cpu: per-process only");
}

/* Whether the kernel fetches it when somebody first mounts one, whoever that is. */
static bool is_module(const char *file)
{
    struct utsname u;
    char path[PATH_MAX];
    ABX_AUTO_FREE char *text = NULL;
    if (uname(&u) < 0)
        return false;
    snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", u.release);
    return abx_fd_read_file(AT_FDCWD, path, 16 << 20, &text, NULL) >= 0 &&
           strstr(text, file) != NULL;
}

static void check_overlay(const struct cli *cli, struct finding *f)
{
    (void)cli;
    ABX_AUTO_FREE char *text = NULL;
    if (abx_fd_read_file(AT_FDCWD, "/proc/filesystems", 65536, &text, NULL) == 0 &&
        strstr(text, "\toverlay\n") != NULL)
        say(f, OK, "overlayfs");
    else if (is_module("/overlay.ko"))
        say(f, OK, "overlayfs, a module that is loaded when it is first needed");
    else
        say(f, MISSING, "the kernel has no overlayfs loaded: modprobe overlay");
}

static void check_landlock(const struct cli *cli, struct finding *f)
{
    (void)cli;
#ifdef SYS_landlock_create_ruleset
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
    if (abi > 0)
        say(f, OK, "ABI %ld", abi);
    else
#endif
        say(f, NOTE, "none: the engine's network side is not confined to its folder");
}

static void check_pids(const struct cli *cli, struct finding *f)
{
    (void)cli;
    int64_t max = 0;
    if (!read_number("/proc/sys/kernel/pid_max", &max))
        say(f, NOTE, "kernel.pid_max can not be read");
    else if (max < 65536)
        say(f, NOTE, "kernel.pid_max is %lld: about %lld sandboxes", (long long)max,
            (long long)(max / 8));
    else
        say(f, OK, "kernel.pid_max is %lld", (long long)max);
}

static void check_descriptors(const struct cli *cli, struct finding *f)
{
    (void)cli;
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_max < 4096)
        say(f, NOTE, "hard limit %llu: few sandboxes and connections",
            (unsigned long long)r.rlim_max);
    else
        say(f, OK, "hard limit %llu", (unsigned long long)r.rlim_max);
}

static void check_inotify(const struct cli *cli, struct finding *f)
{
    (void)cli;
    int64_t max = 0;
    (void)read_number("/proc/sys/fs/inotify/max_user_instances", &max);
    if (geteuid() == 0)
        say(f, OK, "%lld instances for each sandbox", (long long)max);
    else
        say(f, NOTE, "%lld instances for all sandboxes together (each its own as root)",
            (long long)max);
}

static void check_disk(const struct cli *cli, struct finding *f)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    char path[PATH_MAX];
    struct statvfs s;
    snprintf(path, sizeof(path), "%s", state ? state : "/");
    while (statvfs(path, &s) < 0 && errno == ENOENT && strrchr(path, '/') != path)
        *strrchr(path, '/') = '\0';
    uint64_t mb = (uint64_t)s.f_bavail * s.f_frsize >> 20;
    if (mb < 100)
        say(f, MISSING, "%llu MB free for %s; 100 MB is the least", (unsigned long long)mb, state);
    else
        say(f, OK, "%llu MB free for %s", (unsigned long long)mb, state);
}

static bool names_resolve(void)
{
    ABX_AUTO_FREE char *text = NULL;
    return abx_fd_read_file(AT_FDCWD, "/etc/nsswitch.conf", 65536, &text, NULL) == 0 &&
           strstr(text, "myhostname") != NULL;
}

static void check_names(const struct cli *cli, struct finding *f)
{
    (void)cli;
    if (names_resolve())
        say(f, OK, "*.localhost resolves in every program");
    else
        say(f, NOTE,
            "*.localhost does not resolve in Node and Python here (libnss-myhostname does "
            "it); abx url --form path needs no name");
}

/* The ways of published-client.md 1.3 that this engine has. */
static void check_clients(const struct cli *cli, struct finding *f)
{
    (void)cli;
    say(f, OK,
        "by what abx env prints: the E2B SDKs, and the published client with the provider abx; its "
        "built-in provider with secure=False%s. By TLS: none, it is not built",
        names_resolve() ? "" : ", without ports of a sandbox (their names do not resolve)");
}

static const struct {
    const char *name;
    check_fn *fn;
} checks[] = {
    {"kernel", check_kernel},   {"user namespaces", check_userns},
    {"ids", check_ids},         {"limits", check_limits},
    {"overlay", check_overlay}, {"landlock", check_landlock},
    {"processes", check_pids},  {"descriptors", check_descriptors},
    {"inotify", check_inotify}, {"disk", check_disk},
    {"names", check_names},     {"clients", check_clients},
};
static const char *const verdicts[] = {"ok", "note", "missing"};

static void put_json(struct abx_json_writer *w, const char *name, const struct finding *f)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "check", name);
    abx_json_kv_c(w, "verdict", verdicts[f->verdict]);
    abx_json_kv_c(w, "text", f->text);
    abx_json_end_object(w);
}

static int run(struct cli *cli)
{
    int missing = 0;
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 1 << 20);
    abx_json_writer_init(&w, &b);
    abx_json_begin_array(&w);
    for (size_t i = 0; i < ABX_COUNTOF(checks); i++) {
        struct finding f = {0};
        checks[i].fn(cli, &f);
        missing += f.verdict == MISSING;
        put_json(&w, checks[i].name, &f);
        if (!cli->v.json)
            printf("%-8s %-16s %s\n", verdicts[f.verdict], checks[i].name, f.text);
    }
    abx_json_end_array(&w);
    if (cli->v.json)
        puts(b.ptr);
    return missing ? 1 : 0;
}

const struct cli_command cmd_doctor = {
    .name = "engine doctor",
    .args = "",
    .help = "List what this machine has and lacks for sandboxes; changes nothing",
    .run = run};
