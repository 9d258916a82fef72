/* guest/main.c: the one program inside a sandbox. Its roles are chosen by the name it is called by
 * (/.fce2b/entrypoint, /.fce2b/envd, ...) or by the first argument (abx-guest NAME ...).
 *
 * Only here do init, gateway, envd and the interpreter meet: init forks the rows of `services`, and
 * what the gateway may know of PID 1 is read from the state page for it. */
#include "guest/autostart.h"
#include "guest/envd/envd.h"
#include "guest/gateway/gateway.h"
#include "guest/init/init.h"
#include "guest/interpreter/interpreter.h"
#include "guest/server/server.h"
#include "guest/step/step.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXIT_USAGE = 2, ADDRESS_MAX = 96 };

/* ---- options: --name=value, --name value, or --name alone for a flag */

enum option_kind { OPTION_FLAG, OPTION_NUMBER, OPTION_TEXT };
struct option_row {
    const char *name;
    enum option_kind kind;
    size_t offset;
};
struct settings { /* of all roles; each takes its own rows */
    bool locked, any_upgrade, is_not_fc;
    uint32_t engine_fd, line_fd, port, envd_port;
    const char *listen, *engine_socket, *cwd;
};
static const struct option_row entrypoint_options[] = {
    {"--engine-fd", OPTION_NUMBER, offsetof(struct settings, engine_fd)},
    {"--locked", OPTION_FLAG, offsetof(struct settings, locked)},
    {0}};
static const struct option_row step_options[] = {
    {"--line-fd", OPTION_NUMBER, offsetof(struct settings, line_fd)}, {0}};
static const struct option_row gateway_options[] = {
    {"--listen", OPTION_TEXT, offsetof(struct settings, listen)},
    {"--engine-socket", OPTION_TEXT, offsetof(struct settings, engine_socket)},
    {"--envd-port", OPTION_NUMBER, offsetof(struct settings, envd_port)},
    {"--any-upgrade", OPTION_FLAG, offsetof(struct settings, any_upgrade)},
    {0}};
/* With one dash as well: so other supervisors call their envd. */
static const struct option_row envd_options[] = {
    {"--port", OPTION_NUMBER, offsetof(struct settings, port)},
    {"-port", OPTION_NUMBER, offsetof(struct settings, port)},
    {"-isnotfc", OPTION_FLAG, offsetof(struct settings, is_not_fc)}, /* "no Firecracker": true */
    {0}};

static const struct option_row interpreter_options[] = {
    {"--port", OPTION_NUMBER, offsetof(struct settings, port)},
    {"--envd-port", OPTION_NUMBER, offsetof(struct settings, envd_port)},
    {"--cwd", OPTION_TEXT, offsetof(struct settings, cwd)},
    {0}};

static const struct option_row *find_option(const struct option_row *rows, struct abx_str name)
{
    for (; rows->name != NULL; rows++)
        if (abx_str_is(name, rows->name))
            return rows;
    return NULL;
}

/* One option at argv[at]; how many arguments it took, -1 when it is none of ours. */
static int take_option(const struct option_row *rows, char **argv, struct settings *s)
{
    struct abx_str rest = abx_str(argv[0]), name;
    bool has_value = abx_str_chr(rest, '=') >= 0;
    abx_str_split(&rest, '=', &name);
    const struct option_row *row = find_option(rows, name);
    if (row == NULL || (row->kind == OPTION_FLAG && has_value))
        return -1;
    char *slot = (char *)s + row->offset;
    if (row->kind == OPTION_FLAG) {
        *(bool *)(void *)slot = true;
        return 1;
    }
    const char *value = has_value ? strchr(argv[0], '=') + 1 : argv[1];
    if (value == NULL)
        return -1;
    if (row->kind == OPTION_TEXT)
        *(const char **)(void *)slot = value;
    else if (abx_parse_u32(abx_str(value), (uint32_t *)(void *)slot) < 0)
        return -1;
    return has_value ? 1 : 2;
}

/* The index of the first argument that is no option; -1 after a usage error. */
static int take_options(const struct option_row *rows, int argc, char **argv, struct settings *s)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-') {
        int took = take_option(rows, argv + at, s);
        if (took < 0) {
            fprintf(stderr, "%s: unknown or incomplete option %s; known are:", argv[0], argv[at]);
            for (; rows->name != NULL; rows++)
                fprintf(stderr, " %s", rows->name);
            fputc('\n', stderr);
            return -1;
        }
        at += took;
    }
    return at;
}

/* The port in an environment variable; a value that is none is said and passed over. */
static uint16_t port_of(const char *variable, uint16_t fallback)
{
    const char *text = getenv(variable);
    uint32_t v;
    if (text == NULL || *text == '\0')
        return fallback;
    if (abx_parse_u32(abx_str(text), &v) == 0 && v > 0 && v <= UINT16_MAX)
        return (uint16_t)v;
    abx_log(ABX_LOG_WARN, "%s is not a port, %u is used", variable, fallback);
    return fallback;
}

static bool guard_is_on(void)
{
    const char *text = getenv(ABX_ENV_LOOPBACK_GUARD);
    return text != NULL && strcmp(text, "1") == 0;
}

/* ---- what the gateway reads from the state page */

static bool is_running(const struct abx_state_page *page, const char *name)
{
    for (uint32_t i = 0; i < page->service_count; i++)
        if (strcmp(page->services[i].name, name) == 0)
            return atomic_load(&page->services[i].state) == ABX_SERVICE_RUNNING;
    return false;
}

static bool view_envd_running(void *arg)
{
    return is_running(arg, "envd");
}

static bool view_interpreter_running(void *arg)
{
    return is_running(arg, "interpreter");
}

static bool view_token_hash(void *arg, unsigned char ret[ABX_GATEWAY_HASH])
{
    return abx_state_page_token(arg, ret);
}
_Static_assert((int)ABX_GATEWAY_HASH == (int)ABX_STATE_HASH &&
                   (int)ABX_INTERPRETER_HASH == (int)ABX_STATE_HASH,
               "one hash");

enum { KEPT_WITHIN_MS = 2000 };

static bool init_kept(void *arg, const unsigned char *hash)
{
    return abx_state_page_wait(arg, hash, KEPT_WITHIN_MS);
}

static void view_describe(void *arg, struct abx_json_writer *w)
{
    const struct abx_state_page *page = arg;
    bool has_user = page->no_user[0] == '\0';
    abx_json_kv_bool(w, "hasUser", has_user);
    if (!has_user)
        abx_json_kv_c(w, "noUser", page->no_user);
    abx_json_kv_i64(w, "provisions", atomic_load(&page->provisions));
    abx_json_key(w, ABX_STR("services"));
    abx_json_begin_array(w);
    for (uint32_t i = 0; i < page->service_count; i++) {
        const struct abx_state_service *s = &page->services[i];
        enum abx_service_state state = (enum abx_service_state)atomic_load(&s->state);
        abx_json_begin_object(w);
        abx_json_kv_c(w, "name", s->name);
        abx_json_kv_c(w, "state", abx_service_state_name(state));
        abx_json_kv_i64(w, "pid", atomic_load(&s->pid));
        abx_json_kv_i64(w, "restarts", atomic_load(&s->restarts));
        abx_json_end_object(w);
    }
    abx_json_end_array(w);
}

/* ---- services of PID 1 */

/* Another envd to supervise, from the image's environment (S46). Not under the engine: only ours
 * takes its channel and its lock. */
static const char *other_envd(bool locked)
{
    const char *program = getenv(ABX_ENV_ENVD_BIN);
    if (program == NULL || *program == '\0')
        return NULL;
    if (!locked)
        return program;
    abx_log(ABX_LOG_WARN, "%s is passed over: the engine needs its own envd", ABX_ENV_ENVD_BIN);
    return NULL;
}

/* Another interpreter, in the same way. The name of ours is what official images set. */
static const char *other_interpreter(bool locked)
{
    const char *program = getenv(ABX_ENV_CI_BIN);
    if (program == NULL || *program == '\0' || strcmp(program, ABX_GUEST_INTERPRETER) == 0)
        return NULL;
    if (!locked)
        return program;
    abx_log(ABX_LOG_WARN, "%s is passed over: the engine has its own interpreter", ABX_ENV_CI_BIN);
    return NULL;
}

/* Unless the environment says, where there is a language to run. */
static bool wants_interpreter(void)
{
    const char *enabled = getenv(ABX_ENV_CI_ENABLED), *path = getenv("PATH");
    if (enabled != NULL && *enabled != '\0')
        return strcmp(enabled, "true") == 0 || strcmp(enabled, "1") == 0;
    return abx_interpreter_is_useful(path != NULL && *path != '\0' ? path : ABX_SANDBOX_PATH);
}

/* A program that is not ours in the place of a role: killed like any other where memory ends. */
static int become(const char *program, char *const argv[])
{
    (void)abx_fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", ABX_STR("0"));
    execvp(program, argv);
    abx_log(ABX_LOG_ERROR, "exec failed program=%s errno=%d", program, errno);
    return 127;
}

static int serve_other_envd(const char *program)
{
    char port[8], name[] = "envd", option[] = "-port";
    snprintf(port, sizeof(port), "%u", port_of(ABX_ENV_ENVD_PORT, ABX_PORT_ENVD));
    char *argv[] = {name, option, port, NULL};
    return become(program, argv);
}

static int serve_envd(const struct abx_init_context *c)
{
    const char *other = other_envd(c->locked);
    if (other != NULL)
        return serve_other_envd(other);
    struct abx_envd_options o = {.channel_fd = c->channel_fd,
                                 .init_fd = c->init_fd,
                                 .init_kept = init_kept,
                                 .init_arg = c->page,
                                 .state_fd = c->provision_fd,
                                 .tcp_port = port_of(ABX_ENV_ENVD_PORT, ABX_PORT_ENVD),
                                 .is_locked = c->locked,
                                 .has_no_user = c->page->no_user[0] != '\0',
                                 .describe = view_describe,
                                 .describe_arg = c->page,
                                 .loopback_guard = guard_is_on()};
    return abx_envd_main(&o);
}

static int serve_interpreter(const struct abx_init_context *c)
{
    const char *other = other_interpreter(c->locked);
    if (other != NULL) {
        char name[] = "sandbox-code-interpreter";
        return become(other, (char *[]){name, NULL}); /* its port is in its environment */
    }
    int envd_fd = c->channel_fd;
    if (other_envd(c->locked) != NULL)
        abx_fd_close(&envd_fd); /* that one knows TCP only */
    struct abx_interpreter_options o = {
        .channel_fd = c->interpreter_fd,
        .envd_fd = envd_fd,
        .tcp_port = port_of(ABX_ENV_CI_PORT, ABX_PORT_INTERPRETER),
        .envd_port = port_of(ABX_ENV_ENVD_PORT, ABX_PORT_ENVD),
        .loopback_guard = guard_is_on(),
        .token_hash = view_token_hash,
        .arg = c->page,
    };
    return abx_interpreter_main(&o);
}

static int serve_gateway(const struct abx_init_context *c)
{
    int channel_fd = c->channel_fd, interpreter_fd = c->interpreter_fd;
    if (other_envd(c->locked) != NULL)
        abx_fd_close(&channel_fd); /* that one knows TCP only */
    if (!wants_interpreter() || other_interpreter(c->locked) != NULL)
        abx_fd_close(&interpreter_fd);
    struct abx_gateway_options o = {
        .engine_fd = c->engine_fd,
        .tcp_fd = c->tcp_fd,
        .channel_fd = channel_fd,
        .interpreter_fd = interpreter_fd,
        .own_port = port_of(ABX_ENV_ENTRYPOINT_PORT, ABX_PORT_GATEWAY),
        .envd_port = port_of(ABX_ENV_ENVD_PORT, ABX_PORT_ENVD),
        .interpreter_port = port_of(ABX_ENV_CI_PORT, ABX_PORT_INTERPRETER),
        .locked = c->locked,
        .loopback_guard = guard_is_on(),
        .view = {view_envd_running, view_interpreter_running, view_token_hash, view_describe,
                 c->page},
    };
    return abx_gateway_main(&o);
}

static struct abx_autostart autostart; /* found before the first fork */

/* Asked once. A policy that it serves closes the daemons to what it starts (security S03). */
static bool wants_server(void)
{
    struct abx_error err = {0};
    int r = abx_autostart_look("/", &autostart, &err);
    if (r < 0)
        abx_log(ABX_LOG_WARN, "agent-sandbox-server is not started: %s", err.msg);
    else if (autostart.has_policy)
        setenv(ABX_ENV_LOOPBACK_GUARD, "1", 1);
    return r > 0;
}

static int serve_server(const struct abx_init_context *c)
{
    (void)c;
    return abx_autostart_serve(&autostart);
}

/* The image's CMD, only when it is asked for: it becomes the program. */
static int serve_command(const struct abx_init_context *c)
{
    char **argv = c->arg;
    return become(argv[0], argv);
}

/* In start order. A supervised service is one more row. */
static const struct abx_init_service services[] = {
    {.name = "envd",
     .run = serve_envd,
     .needs = ABX_INIT_CHANNEL_IN | ABX_INIT_PROVISION,
     .kills_children = true},
    {.name = "interpreter",
     .run = serve_interpreter,
     .needs = ABX_INIT_CHANNEL_OUT | ABX_INIT_INTERPRETER_IN,
     .kills_children = true},
    {.name = "gateway",
     .run = serve_gateway,
     .needs = ABX_INIT_CHANNEL_OUT | ABX_INIT_INTERPRETER_OUT | ABX_INIT_LISTENERS,
     .gets_signals = true},
    {.name = "server", .run = serve_server},
    {.name = "command", .run = serve_command},
};

/* The rows that this sandbox has: their number. */
static size_t choose_services(bool command, struct abx_init_service out[])
{
    const struct {
        int (*run)(const struct abx_init_context *c);
        bool is_wanted;
    } optional[] = {{serve_interpreter, wants_interpreter()},
                    {serve_server, wants_server()},
                    {serve_command, command}};
    size_t count = 0;
    for (size_t i = 0; i < ABX_COUNTOF(services); i++) {
        bool is_wanted = true;
        for (size_t k = 0; k < ABX_COUNTOF(optional); k++)
            if (services[i].run == optional[k].run)
                is_wanted = optional[k].is_wanted;
        if (is_wanted)
            out[count++] = services[i];
    }
    return count;
}

/* ---- roles */

static int listen_tcp(const char *address)
{
    char text[ADDRESS_MAX];
    if (address == NULL)
        address = getenv(ABX_ENV_GATEWAY_LISTEN);
    if (address == NULL || *address == '\0') {
        snprintf(text, sizeof(text), "0.0.0.0:%u",
                 port_of(ABX_ENV_ENTRYPOINT_PORT, ABX_PORT_GATEWAY));
        address = text;
    }
    int fd = abx_init_listen(address);
    if (fd < 0)
        abx_log(ABX_LOG_ERROR, "can not listen address=%s errno=%d", address, -fd);
    return fd;
}

static bool wants_command(int argc, int at)
{
    const char *run = getenv(ABX_ENV_RUN_CMD);
    if (at >= argc)
        return false;
    if (run != NULL && strcmp(run, "1") == 0)
        return true;
    abx_log(ABX_LOG_INFO, "arguments after the options are ignored without %s=1", ABX_ENV_RUN_CMD);
    return false;
}

static int run_entrypoint(int argc, char **argv)
{
    struct settings s = {.engine_fd = UINT32_MAX};
    int at = take_options(entrypoint_options, argc, argv, &s);
    if (at < 0)
        return EXIT_USAGE;
    int engine_fd = s.engine_fd == UINT32_MAX ? -1 : (int)s.engine_fd;
    if (engine_fd >= 0 &&
        (abx_fd_set_cloexec(engine_fd, true) < 0 || abx_fd_set_nonblock(engine_fd, true) < 0)) {
        fprintf(stderr, "%s: --engine-fd=%d is not an open descriptor\n", argv[0], engine_fd);
        return EXIT_USAGE;
    }
    struct abx_error no_user = {0};
    bool has_user = abx_init_prepare("/", &no_user);
    if (access(ABX_SERVER_POLICY_PATH, F_OK) == 0)
        setenv(ABX_ENV_LOOPBACK_GUARD, "1", 1);
    int tcp_fd = listen_tcp(NULL);
    if (tcp_fd < 0 && engine_fd < 0)
        return 1; /* nobody could reach us */
    struct abx_init_service chosen[ABX_COUNTOF(services)];
    size_t count = choose_services(wants_command(argc, at), chosen);
    struct abx_init_options o = {
        .services = chosen,
        .service_count = count,
        .engine_fd = engine_fd,
        .tcp_fd = tcp_fd,
        .locked = s.locked,
        .no_user = has_user ? NULL : no_user.msg,
        .arg = argv + at,
    };
    return abx_init_run(&o);
}

/* One step of a build, as PID 1: the account of the sandbox is there for it too. */
static int run_step(int argc, char **argv)
{
    struct settings s = {.line_fd = UINT32_MAX};
    if (take_options(step_options, argc, argv, &s) != argc || s.line_fd > INT32_MAX)
        return EXIT_USAGE;
    if (abx_fd_set_cloexec((int)s.line_fd, true) < 0) {
        fprintf(stderr, "%s: --line-fd=%u is not an open descriptor\n", argv[0], s.line_fd);
        return EXIT_USAGE;
    }
    (void)abx_init_prepare("/", &(struct abx_error){0});
    return abx_step_main((int)s.line_fd, "");
}

static int listen_unix(const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[ADDRESS_MAX] = ".";
    if (slash != NULL)
        snprintf(dir, sizeof(dir), "%.*s/", (int)(slash - path), path);
    ABX_AUTO_FD dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return -1;
    return abx_fd_listen_unix(dir_fd, slash != NULL ? slash + 1 : path,
                              SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 128);
}

static int run_gateway(int argc, char **argv)
{
    struct settings s = {0};
    if (take_options(gateway_options, argc, argv, &s) != argc || s.envd_port > UINT16_MAX)
        return EXIT_USAGE;
    struct abx_gateway_options o = {.engine_fd = -1,
                                    .channel_fd = -1,
                                    .tcp_fd = listen_tcp(s.listen),
                                    .any_upgrade = s.any_upgrade,
                                    .envd_port = (uint16_t)s.envd_port,
                                    .loopback_guard = guard_is_on()};
    if (o.tcp_fd < 0)
        return 1;
    if (s.engine_socket != NULL && (o.engine_fd = listen_unix(s.engine_socket)) < 0) {
        fprintf(stderr, "%s: can not listen at %s\n", argv[0], s.engine_socket);
        return 1;
    }
    return abx_gateway_main(&o);
}

static int run_envd(int argc, char **argv)
{
    struct settings s = {.port = port_of(ABX_ENV_ENVD_PORT, ABX_PORT_ENVD)};
    if (take_options(envd_options, argc, argv, &s) != argc || s.port > UINT16_MAX)
        return EXIT_USAGE;
    struct abx_envd_options o = {.channel_fd = -1,
                                 .init_fd = -1,
                                 .state_fd = -1,
                                 .tcp_port = (uint16_t)s.port,
                                 .loopback_guard = guard_is_on()};
    return abx_envd_main(&o);
}

static int run_interpreter(int argc, char **argv)
{
    struct settings s = {.port = port_of(ABX_ENV_CI_PORT, ABX_PORT_INTERPRETER)};
    if (take_options(interpreter_options, argc, argv, &s) != argc || s.port > UINT16_MAX ||
        s.envd_port > UINT16_MAX)
        return EXIT_USAGE;
    struct abx_interpreter_options o = {.channel_fd = -1,
                                        .envd_fd = -1,
                                        .tcp_port = (uint16_t)s.port,
                                        .envd_port = (uint16_t)s.envd_port,
                                        .loopback_guard = guard_is_on(),
                                        .cwd = s.cwd};
    return abx_interpreter_main(&o);
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} roles[] = {{"entrypoint", run_entrypoint},
             {"gateway", run_gateway},
             {"envd", run_envd},
             {"sandbox-code-interpreter", run_interpreter},
             {"step", run_step},
             {"agent-sandbox-server", abx_server_main},
             {"abx-chromium", abx_chromium_main}};

static int usage(const char *program)
{
    fprintf(stderr, "usage: %s ROLE [OPTION...] | --version\nroles:", program);
    for (size_t i = 0; i < ABX_COUNTOF(roles); i++)
        fprintf(stderr, " %s", roles[i].name);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int run_role(int argc, char **argv)
{
    const char *name = base_name(argv[0]);
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts(ABX_VERSION);
        return 0;
    }
    for (size_t i = 0; i < ABX_COUNTOF(roles); i++)
        if (strcmp(roles[i].name, name) == 0) {
            abx_log_init(roles[i].name, ABX_LOG_INFO);
            prctl(PR_SET_NAME, roles[i].name, 0, 0, 0); /* of the link that was run, otherwise */
            return roles[i].run(argc, argv);
        }
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 1)
        return EXIT_USAGE;
    if (getpid() != 1) /* whose descriptors are the shim's business */
        (void)abx_fd_open_standard();
    abx_proc_init_title(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would eat the statuses of children */
    int r = run_role(argc, argv);
    if (r < 0 && argc > 1)
        r = run_role(argc - 1, argv + 1);
    return r < 0 ? usage(argv[0]) : r;
}
