/* guest/server/chromium.c: what the kernel holds the browser group to, in two rings (security S19).
 * The host in Node has the outer one, which the server gives it as to any command host: the system,
 * a folder of its own. Chromium has the inner one beside, which the program abx-chromium enters
 * before it becomes Chromium: of that folder one run's part, and of the network the proxy's port.
 */
#include "guest/server/chromium.h"

#include "guest/server/server.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/policy/confine.h"
#include "lib/proc/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/banned.h"

#define SANDBOX_MARK "/.fce2b"
#define FONT_CACHE   "/var/cache/fontconfig"

enum { EXIT_WALL = 126 };

/* ---- where Chromium has its own sandbox ---- */

bool abx__browser_is_in_sandbox(void)
{
    char text[16] = "";
    ABX_AUTO_FD fd = open("/proc/sys/user/max_user_namespaces", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    return n > 0 && text[0] == '0' && access(SANDBOX_MARK, F_OK) == 0;
}

/* Root would write more of /proc than the maps of its namespaces; it gets no browser (browser.mjs).
 */
static bool makes_namespaces(void)
{
    return geteuid() != 0 && !abx__browser_is_in_sandbox();
}

static bool is_on(const struct abx_policy *p)
{
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(p, &count);
    for (size_t i = 0; i < count; i++)
        if (rules[i].enabled && rules[i].endpoint != NULL && rules[i].group == ABX_GROUP_BROWSER)
            return true;
    return false;
}

bool abx__chromium_is_held(const struct abx_policy *p)
{
    return abx_policy_confine(p) != ABX_CONFINE_OFF && is_on(p);
}

const char *abx__chromium_level(const struct abx_policy *p)
{
    if (!is_on(p))
        return "off";
    if (abx__browser_is_in_sandbox())
        return "without its own sandbox";
    return geteuid() == 0 ? "not as root" : "with its own sandbox";
}

bool abx__chromium_may_connect(const struct abx_policy *p, uint32_t port)
{
    const struct abx_policy_confine *c = abx_policy_confinement(p);
    const struct abx_policy_ports *ports = &c->network.connect;
    bool is_free = c->mode == ABX_CONFINE_OFF || !c->network.is_set || !ports->is_limited;
    for (size_t i = 0; !is_free && i < ports->count; i++)
        is_free = ports->items[i] == port;
    return is_free;
}

/* ---- the outer ring ---- */

const char *abx__chromium_wall(struct abx_arena *a)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
    return n > 0 && (size_t)n < sizeof(path) ? abx_arena_c(a, abx_str_n(path, (size_t)n)) : NULL;
}

/* Where the program that somebody names lies, with its own files; NULL: none is named. */
static const char *folder_of_program(struct abx_arena *a, const char *program)
{
    char path[PATH_MAX];
    if (program == NULL || realpath(program, path) == NULL)
        return NULL;
    char *slash = strrchr(path, '/');
    if (slash == path) /* not all of the machine */
        return NULL;
    *slash = '\0';
    return abx_arena_c(a, abx_str(path));
}

size_t abx__chromium_roots(struct abx_arena *a, struct abx__view_root *ret)
{
    const struct abx__view_root all[ABX__CHROMIUM_ROOTS] = {
        {ABX__CHROMIUM_HOME, ABX_CONFINE_WRITE, -1},
        {FONT_CACHE, ABX_CONFINE_READ, -1},
        {abx__chromium_wall(a), ABX_CONFINE_READ, -1},
        {folder_of_program(a, getenv("CHROMIUM_BIN")), ABX_CONFINE_READ, -1},
        /* Who makes a user namespace writes its maps, at a path that is not there before. */
        {makes_namespaces() ? "/proc" : NULL, ABX_CONFINE_CHANGE, -1},
    };
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNTOF(all); i++)
        if (all[i].path != NULL)
            ret[n++] = all[i];
    return n;
}

void abx__chromium_bound(struct abx_confine_spec *spec)
{
    static const uint16_t any_free_port[] = {0};
    spec->layers = ABX_LAYER_ALL;
    spec->is_chromium = makes_namespaces();
    spec->keeps_privileges = false;
    /* Chromium, which inherits it, connects to the proxy's port, which nobody knows yet: where the
     * proxy connects to is asked for one by one. */
    spec->connect = (struct abx_confine_ports){.is_limited = false};
    spec->bind = (struct abx_confine_ports){any_free_port, 1, true};
}

/* ---- the inner ring ---- */

/* Of what the outer ring leaves of it: /etc there is without its secrets. */
static const struct {
    const char *path;
    enum abx_confine_access access;
} seen[] = {
    {"/usr", ABX_CONFINE_READ},          {"/bin", ABX_CONFINE_READ},
    {"/sbin", ABX_CONFINE_READ},         {"/lib", ABX_CONFINE_READ},
    {"/lib32", ABX_CONFINE_READ},        {"/lib64", ABX_CONFINE_READ},
    {"/libx32", ABX_CONFINE_READ},       {"/opt", ABX_CONFINE_READ},
    {"/nix/store", ABX_CONFINE_READ},    {"/etc", ABX_CONFINE_READ},
    {FONT_CACHE, ABX_CONFINE_READ},      {"/sys/devices/system/cpu", ABX_CONFINE_READ},
    {"/proc", ABX_CONFINE_CHANGE},       {"/dev/null", ABX_CONFINE_DEVICE},
    {"/dev/zero", ABX_CONFINE_DEVICE},   {"/dev/full", ABX_CONFINE_DEVICE},
    {"/dev/random", ABX_CONFINE_DEVICE}, {"/dev/urandom", ABX_CONFINE_DEVICE},
};
enum { WALL_ROOTS = ABX_COUNTOF(seen) + 2 /* its folder, and where it lies itself */ };

struct wall {
    const char *program, *folder;
    uint16_t port;
    struct abx_confine_root roots[WALL_ROOTS];
    size_t count;
};

/* 126 as shells say it of what can not be executed; the host reads what stands on the line. */
_Noreturn static void refuse(const char *what, const char *why)
{
    fprintf(stderr, "abx-chromium: %s: %s\n", what, why);
    _exit(EXIT_WALL);
}

static const char *take(const char *name)
{
    const char *value = getenv(name);
    if (value == NULL || *value == '\0')
        refuse(name, "is not set: this program is run by the host of the browser group");
    return value;
}

static void see(struct wall *w, const char *path, enum abx_confine_access access, bool is_needed)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && is_needed)
        refuse(path, strerrordesc_np(errno));
    if (fd < 0)
        return;
    ABX_ASSERT(w->count < WALL_ROOTS);
    w->roots[w->count++] = (struct abx_confine_root){fd, access};
}

static void read_settings(struct wall *w)
{
    uint32_t port;
    w->program = take(ABX__CHROMIUM_PROGRAM);
    w->folder = take(ABX__CHROMIUM_FOLDER);
    if (abx_parse_u32(abx_str(take(ABX__CHROMIUM_PORT)), &port) < 0 || port == 0 ||
        port > UINT16_MAX)
        refuse(ABX__CHROMIUM_PORT, "is no port");
    w->port = (uint16_t)port;
}

static void look_around(struct wall *w)
{
    struct abx_arena a;
    abx_arena_init(&a, PATH_MAX * 2);
    const char *own = folder_of_program(&a, w->program);
    see(w, w->folder, ABX_CONFINE_WRITE, true);
    if (own != NULL)
        see(w, own, ABX_CONFINE_READ, false);
    for (size_t i = 0; i < ABX_COUNTOF(seen); i++)
        see(w, seen[i].path, seen[i].access, false);
    abx_arena_done(&a);
}

int abx_chromium_main(int argc, char **argv)
{
    struct wall w = {.count = 0};
    struct abx_error err;
    (void)argc;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) /* what the table above counts on */
        refuse("this process", "is not confined: it is run by the host of the browser group");
    read_settings(&w);
    look_around(&w);
    /* No bind(2): the only port is taken. listen(2) stays, for the unix socket by which Chromium
     * finds another one of the same profile. The filter of system calls is that of the outer ring.
     */
    struct abx_confine_ports proxy = {&w.port, 1, true};
    struct abx_confine_spec spec = {.layers = ABX_CONFINE_FILES | ABX_CONFINE_SIGNALS |
                                              ABX_CONFINE_NETWORK,
                                    .roots = w.roots,
                                    .root_count = w.count,
                                    .connect = proxy,
                                    .bind = proxy,
                                    .no_udp = true};
    if (abx_confine_enter(&spec, &err) < 0)
        refuse("its confinement", err.msg);
    argv[0] = (char *)(uintptr_t)w.program;
    unsetenv(ABX__CHROMIUM_FOLDER);
    unsetenv(ABX__CHROMIUM_PORT);
    execv(w.program, argv);
    refuse(w.program, strerrordesc_np(errno));
}
