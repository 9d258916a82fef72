/* guest/server/serve.c: the verb serve: policy, bind, hosts, freeze, listen; and the end. Loop
 * thread. server.md 1, security S15. */
#include "guest/server/as_user.h"
#include "guest/server/audit_file.h"
#include "guest/server/environment.h"
#include "guest/server/helper.h"
#include "guest/server/listen.h"
#include "guest/server/options.h"
#include "guest/server/verbs.h"
#include "guest/server/view.h"

#include "lib/base/address.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/pages.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/proc/confine.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    CONNS_MAX = 2000,
    HEADERS_MAX = 100, /* server-api.md 1.1 */
    FIRST_MS = 30000,  /* for a connection to say something */
    SWEEP_MS = 5000,
    LAST_WORDS_MS = 700, /* of the second that connections have at the end */
    REST_MS = 200,       /* without a call */
    REST_EVERY_MS = 5000,
    GROUPS_TEXT = 256,
    NAMES_TEXT = 512,
    SAY_TEXT = 1536,
    EXIT_USAGE = 2,
    CONFINE_TEXT = 96,
    UPLOAD_CAP = 104857600
};

/* A line of the start: bare, or as the log has them. */
__attribute__((format(printf, 3, 4))) static void
say(const struct abx__server *s, enum abx_log_level level, const char *fmt, ...)
{
    char text[SAY_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (s->o.log && strcmp(s->o.log, "json") == 0)
        abx_log(level, "%s", text);
    else
        fprintf(stderr, "%s\n", text);
}

/* ---- the policy ---- */

static void print_lint(const struct abx__server *s)
{
    struct abx_report report;
    abx_report_init(&report);
    abx_policy_lint(s->policy, false, &report);
    for (size_t i = 0; i < report.count; i++)
        say(s, ABX_LOG_WARN, "policy lint: %s: %s", report.items[i].rule, report.items[i].text);
    abx_report_done(&report);
}

static bool has_hosts(const struct abx__server *s)
{
    return s->o.commands.count > 0 || s->o.host_fd > 0;
}

static uint64_t upload_cap_of_environment(void)
{
    const char *text = getenv("ABX_MAX_UPLOAD_SIZE");
    uint64_t cap;
    return text && abx_parse_u64(abx_str(text), &cap) == 0 ? cap : UPLOAD_CAP;
}

static int bind_http(struct abx__server *s, struct abx_error *err)
{
    s->http_fd = abx__bind_tcp(s->o.host, s->o.port, err);
    s->bound_host = s->o.host;
    s->bound_port = s->o.port;
    if (s->http_fd < 0)
        fprintf(stderr, "agent-sandbox-server: %s\n", err->msg);
    return s->http_fd < 0 ? -1 : 0;
}

static bool has_terminals(const struct abx__server *s)
{
    size_t count;
    if (s->policy == NULL) /* its routes are not known yet */
        return true;
    const struct abx_policy_rule *rules = abx_policy_rules(s->policy, &count);
    for (size_t i = 0; i < count; i++)
        if (rules[i].group == ABX_GROUP_TERMINAL && rules[i].enabled)
            return true;
    return false;
}

static int pty_port_taken(const struct abx__server *s, const struct abx_error *err)
{
    if (s->o.has_pty_port)
        say(s, ABX_LOG_ERROR, "agent-sandbox-server: terminals: %s", err->msg);
    else
        say(s, ABX_LOG_WARN, "warning: terminals: %s; their sockets are at /pty of port %lld",
            err->msg, (long long)s->o.port);
    return s->o.has_pty_port ? -1 : 0;
}

/* The terminals' own port. A taken one ends the start only if it was named: their sockets are
 * served on the HTTP port too (D94). */
static int bind_pty(struct abx__server *s)
{
    struct abx_error err = {0};
    if (s->has_own_table || !has_terminals(s))
        return 0;
    s->pty_fd = abx__bind_tcp(s->o.host, s->o.pty_port, &err);
    if (s->pty_fd >= 0) {
        s->o.pty_port = abx_address_bound_port(s->pty_fd);
        return 0;
    }
    return pty_port_taken(s, &err);
}

/* ---- the end ---- */

static void stop_rest(struct abx__server *s)
{
    abx_signal_close(&s->term, NULL);
    abx_signal_close(&s->interrupt, NULL);
    abx_signal_close(&s->hangup, NULL);
    abx_signal_close(&s->reopen, NULL);
    abx_timer_close(&s->sweep, NULL);
    abx_timer_close(&s->rest, NULL);
    abx_timer_close(&s->last_words, NULL);
    abx_timer_close(&s->stop_timer, NULL);
    abx__browser_stop(s);
    abx__commands_stop(s);
}

static void on_http_closed(void *arg)
{
    struct abx__server *s = arg;
    s->http = NULL;
    stop_rest(s);
}

static void stop(struct abx__server *s)
{
    if (s->is_stopping)
        return;
    s->is_stopping = true;
    abx__notify("STOPPING=1");
    abx__mcp_stop(s);
    abx__shells_signal(s, SIGTERM);
    abx__helpers_signal(s, SIGTERM);
    abx__watch_stop(s);
    abx__parts_stop(s);
    abx__processes_stop(s);
    abx__code_contexts_stop(s);
    if (s->http)
        abx_http_server_close(s->http, false, on_http_closed, s);
    else
        stop_rest(s);
    abx_timer_start(&s->last_words, LAST_WORDS_MS, 0);
    abx_timer_unref(&s->last_words);
    abx_timer_start(&s->stop_timer, ABX__STOP_MS, 0);
    abx_timer_unref(&s->stop_timer);
}

static void die_by(int signum)
{
    signal(signum, SIG_DFL);
    kill(getpid(), signum);
    _exit(128 + signum); /* PID 1 is not killed by its own signals */
}

void abx__server_stop(struct abx__server *s)
{
    stop(s);
}

/* Connections last a second after the stop: what holds answers up until now, programs that do not
 * end at SIGTERM, must not cut them. */
static void on_last_words(struct abx_timer *t)
{
    struct abx__server *s = t->owner;
    abx__shells_signal(s, SIGKILL);
    abx__helpers_signal(s, SIGKILL);
    abx__processes_leave(s);
}

static void on_stop_late(struct abx_timer *t)
{
    struct abx__server *s = t->owner;
    abx_log(ABX_LOG_WARN, "not everything ended in %d ms, going", (int)ABX__STOP_MS);
    if (s->stop_signal == SIGTERM)
        die_by(SIGTERM);
    _exit(s->exit_code);
}

static void on_signal(struct abx_signal *g, int signum)
{
    struct abx__server *s = g->owner;
    if (s->is_stopping) { /* the second one */
        if (signum == SIGTERM)
            die_by(SIGTERM);
        _exit(s->exit_code);
    }
    s->stop_signal = signum;
    stop(s);
}

static void on_hangup(struct abx_signal *g, int signum)
{
    (void)signum;
    abx__policy_again(g->owner);
}

/* Whoever rotates logs sends this to all. */
static void on_reopen(struct abx_signal *g, int signum)
{
    struct abx__server *s = g->owner;
    (void)signum;
    if (s->audit_file == NULL)
        abx_log(ABX_LOG_INFO, "SIGUSR1: the logs go to standard error, nothing is to be reopened");
    else if (abx__audit_file_reopen(s->audit_file))
        abx_log(ABX_LOG_INFO, "SIGUSR1: the audit file is open again");
    else
        abx_log(ABX_LOG_WARN, "SIGUSR1: the audit file can not be opened, going on in the old one");
}

/* What the start or a burst of calls used goes back to the kernel: free memory, and the pages of
 * the program, most of which an idle server does not need. */
static void on_rest(struct abx_timer *t)
{
    struct abx__server *s = t->owner;
    if (!abx_list_empty(&s->calls) || s->is_stopping)
        return; /* the end of the last one begins again */
    if (s->rest_number != s->call_number) {
        s->rest_number = s->call_number;
        abx_timer_start(t, REST_MS, 0);
        return;
    }
    s->rest_due_ms = abx_time_mono_ms() + REST_EVERY_MS;
    malloc_trim(0);
    abx_pages_let_go();
}

void abx__server_rest(struct abx__server *s)
{
    if (!abx_list_empty(&s->calls) || s->is_stopping || abx_timer_is_active(&s->rest))
        return;
    int64_t wait = s->rest_due_ms - abx_time_mono_ms();
    s->rest_number = s->call_number;
    abx_timer_start(&s->rest, wait > REST_MS ? (uint64_t)wait : REST_MS, 0);
}

static void on_sweep(struct abx_timer *t)
{
    abx__calls_sweep(t->owner);
    abx__processes_sweep(t->owner);
    abx__terminals_sweep(t->owner, abx_time_mono_ms());
    abx__code_contexts_sweep(t->owner);
    abx__parts_sweep(t->owner);
}

/* ---- the start ---- */

static void fail(struct abx__server *s, int exit_code)
{
    s->exit_code = exit_code;
    stop(s);
}

/* "auto(files,signals,network,seccomp)": the mode and what the kernel has. */
static void put_confine(const struct abx_policy *p, char text[CONFINE_TEXT])
{
    struct abx_buf b = {.ptr = text, .cap = CONFINE_TEXT, .max = CONFINE_TEXT - 1};
    enum abx_confine_mode mode = abx_policy_confine(p);
    const char *comma = "";
    abx_buf_put_c(&b, abx_confine_mode_name(mode));
    for (unsigned i = 0; mode != ABX_CONFINE_OFF && i < ABX_CONFINE_LAYERS; i++)
        if (abx_confine_supported() & 1U << i) {
            abx_buf_putf(&b, "%s%s", *comma ? comma : "(", abx_confine_layer_name(1U << i));
            comma = ",";
        }
    if (abx__self_is_on())
        abx_buf_putf(&b, "%sserver", *comma ? comma : "(");
    abx_buf_put_c(&b, *comma ? ")" : "");
}

static void print_users(const struct abx__server *s)
{
    const char *why;
    struct abx_str user = abx__user_out_of_reach(s->policy, &why);
    if (user.ptr)
        say(s, ABX_LOG_WARN, "warning: confine.users: programs can not run as '%.*s': %s",
            ABX_STR_FMT(user), why);
}

static void print_missing(const struct abx__server *s)
{
    if (strcmp(abx__views_memory(s->policy), "unsupported") == 0)
        say(s, ABX_LOG_WARN,
            "warning: confine.rlimits.memory is not held: this server can make no cgroup for "
            "memory");
    char names[CONFINE_TEXT];
    struct abx_buf b = {.ptr = names, .cap = sizeof(names), .max = sizeof(names) - 1};
    unsigned missing = abx_policy_missing_layers(s->policy, abx_confine_supported());
    if (missing == 0)
        return;
    for (unsigned i = 0; i < ABX_CONFINE_LAYERS; i++)
        if (missing & 1U << i)
            abx_buf_putf(&b, " %s", abx_confine_layer_name(1U << i));
    say(s, ABX_LOG_WARN, "warning: confine: this kernel can not hold%s: %s", names,
        abx_policy_confine(s->policy) == ABX_CONFINE_ADVISORY
            ? "it is served without"
            : "what would need it answers 403 confinement_unavailable");
}

/* What the document says of callers, and likely does not mean (D75, D81, P8). */
static void print_credentials(const struct abx__server *s)
{
    const char *strangers = abx_policy_anonymous_fault(s->policy);
    if (!abx_policy_has_tokens(s->policy))
        say(s, ABX_LOG_WARN,
            "warning: no token is configured: whoever reaches the port may use it");
    else if (strangers)
        say(s, ABX_LOG_WARN, "warning: policy.auth.allow_anonymous: %s", strangers);
    if (s->has_idle_token)
        say(s, ABX_LOG_WARN,
            "warning: ABX_SERVER_TOKEN opens nothing: the policy names tokens of its own");
}

static void print_start(const struct abx__server *s)
{
    char names[NAMES_TEXT], confine_text[CONFINE_TEXT];
    put_confine(s->policy, confine_text);
    struct abx_buf b = {.ptr = names, .cap = sizeof(names), .max = sizeof(names) - 1};
    struct abx_policy_identity who;
    for (size_t i = 0; abx_policy_identity_at(s->policy, i, &who); i++)
        abx_buf_putf(&b, "%s%.*s", i ? "," : "", ABX_STR_FMT(who.id));
    say(s, ABX_LOG_INFO,
        "agent-sandbox-server %s (abx %s): http://%s:%lld policy=%s revision=%s preset=%s "
        "confine=%s hosts=%zu principals=%s%s",
        ABX_SERVER_COMPAT, ABX_VERSION, s->o.host, (long long)s->o.port, s->source.name,
        abx_policy_revision(s->policy), abx_policy_preset(s->policy), confine_text,
        abx__commands_count(s), names, abx_buf_failed(&b) ? ",..." : "");
    print_credentials(s);
    print_users(s);
    if (abx_policy_confine(s->policy) != ABX_CONFINE_OFF)
        print_missing(s);
    print_lint(s);
}

static int listen_pty(struct abx__server *s, struct abx_error *err)
{
    int fd = abx_fd_take(&s->pty_fd);
    if (fd < 0)
        return 0;
    if (!has_terminals(s)) { /* known now that the hosts are ready */
        close(fd);
        return 0;
    }
    if (listen(fd, ABX__BACKLOG) < 0) { /* two may have bound it */
        int errnum = errno;
        close(fd);
        abx_err_sys(err, -errnum, "port %lld", (long long)s->o.pty_port);
        return s->o.has_pty_port ? -1 : pty_port_taken(s, err);
    }
    s->is_pty_listening = true;
    return abx_http_server_listen(s->http, fd, ABX__LISTENER_PTY, err);
}

static int listen_all(struct abx__server *s, struct abx_error *err)
{
    int fd = abx_fd_take(&s->http_fd);
    if (listen(fd, ABX__BACKLOG) < 0) {
        int errnum = errno;
        close(fd);
        return abx_err_sys(err, -errnum, "listen");
    }
    if (abx_http_server_listen(s->http, fd, ABX__LISTENER_TCP, err) < 0 || listen_pty(s, err) < 0)
        return -1;
    if (s->o.unix_path == NULL)
        return 0;
    int unix_fd = abx__listen_unix(s->o.unix_path, err);
    return unix_fd < 0 ? -1 : abx_http_server_listen(s->http, unix_fd, ABX__LISTENER_UNIX, err);
}

/* start() asked for another address than the one that was bound. */
static int rebind(struct abx__server *s)
{
    struct abx_error err = {0};
    if (s->bound_port == s->o.port && s->bound_host == s->o.host)
        return 0;
    abx_fd_close(&s->http_fd);
    return bind_http(s, &err);
}

/* Where the policy says that the audit goes. */
static int open_audit(struct abx__server *s, struct abx_error *err)
{
    const struct abx_policy_confine *c = abx_policy_confinement(s->policy);
    struct stat st;
    s->is_error_file = fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode);
    struct abx__audit_file_spec spec = {
        .path = c->audit.file, .max_bytes = c->audit.max_bytes, .keep = c->audit.keep};
    return spec.path.ptr ? abx__audit_file_open(&spec, &s->audit_file, err) : 0;
}

/* All that is needed of outside is open: what is served from here on is bounded (S26). */
static int confine_itself(struct abx__server *s, struct abx_error *err)
{
    char audit_file[PATH_MAX];
    bool has_audit =
        s->audit_file != NULL && abx_str_to_c(abx_policy_confinement(s->policy)->audit.file,
                                              audit_file, sizeof(audit_file)) == 0;
    struct abx__self_needs needs = {.policy_file = s->source.path,
                                    .confine_file = s->o.confine,
                                    .audit_file = has_audit ? audit_file : NULL};
    return abx__self_confine(s->policy, &needs, err);
}

/* ABX_SERVER_TOKEN beside tokens of the document, none of which is it. */
static bool has_idle_token(const struct abx_policy *p)
{
    const char *token = getenv(ABX_ENV_SERVER_TOKEN);
    return token && token[0] && abx_policy_has_tokens(p) &&
           !abx_policy_has_token_of(p, ABX_STR(ABX_ENV_SERVER_TOKEN));
}

/* The hosts are ready: nothing is added any more. */
static void on_ready(struct abx__server *s, int exit_code, const struct abx_error *host_err)
{
    struct abx_error err = {0};
    if (host_err) {
        if (host_err->msg[0])
            fprintf(stderr, "agent-sandbox-server: %s\n", host_err->msg);
        fail(s, exit_code);
        return;
    }
    if (s->on_loaded) {
        s->on_loaded(s, s->on_loaded_arg);
        stop(s);
        return;
    }
    int rc = has_hosts(s) ? abx__policy_take(s, false) : 0;
    if (rc != 0 || rebind(s) < 0) {
        fail(s, rc ? rc : 1);
        return;
    }
    s->has_idle_token = has_idle_token(s->policy);
    abx__environment_hide(s->policy);
    s->meter = abx_policy_meter_new(s->policy);
    if (s->meter == NULL || open_audit(s, &err) < 0 || listen_all(s, &err) < 0 ||
        confine_itself(s, &err) < 0) {
        fprintf(stderr, "agent-sandbox-server: %s\n", s->meter ? err.msg : "out of memory");
        fail(s, 1);
        return;
    }
    s->is_listening = true;
    print_start(s);
    abx__parts_sweep(s);
    abx__server_rest(s);
    abx__notify("READY=1");
}

/* Of the published server's two listeners only that of the requests has a bound of its own. */
static size_t headers_max(void *user, int tag)
{
    (void)user;
    return tag == ABX__LISTENER_TCP || tag == ABX__LISTENER_UNIX ? HEADERS_MAX
                                                                 : ABX_HTTP_HEADERS_MAX;
}

static int start_loop(struct abx__server *s, struct abx_error *err)
{
    struct abx_http_server_options http = {.on_request = abx__server_on_request,
                                           .refusal = abx__server_on_refusal,
                                           .headers_max = headers_max,
                                           .user = s,
                                           .max_conns = CONNS_MAX,
                                           .first_timeout_ms = FIRST_MS,
                                           .turns_away = true};
    abx_timer_init(&s->last_words, &s->loop, on_last_words, s);
    abx_timer_init(&s->stop_timer, &s->loop, on_stop_late, s);
    abx_timer_init(&s->sweep, &s->loop, on_sweep, s);
    abx_timer_init(&s->rest, &s->loop, on_rest, s);
    abx_timer_start(&s->sweep, SWEEP_MS, SWEEP_MS);
    if (abx_signal_init(&s->term, &s->loop, SIGTERM, on_signal, s, err) < 0 ||
        abx_signal_init(&s->interrupt, &s->loop, SIGINT, on_signal, s, err) < 0 ||
        abx_signal_init(&s->hangup, &s->loop, SIGHUP, on_hangup, s, err) < 0 ||
        abx_signal_init(&s->reopen, &s->loop, SIGUSR1, on_reopen, s, err) < 0 ||
        abx__processes_open(s, err) < 0 || abx_http_server_open(&s->loop, &http, &s->http, err) < 0)
        return -1;
    return abx__commands_start(s, on_ready, err);
}

static int run(struct abx__server *s)
{
    struct abx_error err = {0};
    if (abx_loop_init(&s->loop, &err) < 0) {
        fprintf(stderr, "agent-sandbox-server: %s\n", err.msg);
        return 1;
    }
    if (start_loop(s, &err) < 0) {
        fprintf(stderr, "agent-sandbox-server: %s\n", err.msg);
        fail(s, 1);
    }
    abx_loop_run(&s->loop);
    abx_loop_done(&s->loop);
    return s->exit_code;
}

static int prepare(struct abx__server *s)
{
    unsigned char random[20];
    mode_t mask = umask(0);
    umask(mask);
    s->umask = mask;
    s->upload_cap = upload_cap_of_environment();
    s->path = getenv("PATH");
    if (s->path == NULL)
        s->path = "/usr/local/bin:/usr/bin:/bin";
    s->cwd = getcwd(NULL, 0);
    if (s->cwd == NULL || getrandom(random, sizeof(random), 0) != sizeof(random))
        return -1;
    abx_hex_encode(random, 4, s->call_prefix);
    abx_hex_encode(random + 4, 16, s->long_marker);
    abx_list_init(&s->calls);
    abx_list_init(&s->shells);
    abx_list_init(&s->followers);
    abx_list_init(&s->helpers);
    s->started_ms = abx_time_mono_ms();
    abx_list_init(&s->watching);
    s->audit_log = abx__audit_log_new();
    s->counters = abx__counters_new();
    if (s->audit_log == NULL || s->counters == NULL)
        return -1;
    abx_list_init(&s->started);
    abx_list_init(&s->terminals);
    abx__tickets_init(&s->tickets);
    abx_list_init(&s->code_contexts);
    abx_proc_prefer_latency();
#ifndef ABX_SANITIZED /* LeakSanitizer looks at itself by ptrace */
    prctl(PR_SET_DUMPABLE, 0);
#endif
    return 0;
}

static void server_done(struct abx__server *s)
{
    abx__audit_file_close(s->audit_file);
    abx__audit_log_free(s->audit_log);
    abx__counters_free(s->counters);
    abx_policy_meter_unref(s->meter);
    abx_policy_unref(s->policy);
    abx_policy_unref(s->code_policy);
    abx__commands_free(s);
    free(s->code_text);
    abx__policy_source_done(&s->source);
    abx_fd_close(&s->http_fd);
    abx_fd_close(&s->pty_fd);
    free(s->cwd);
    free(s->o.commands.items);
    abx__environment_free();
    abx__callers_end();
    abx__homes_remove();
}

static int serve(struct abx__server *s)
{
    struct abx_error err = {0};
    struct abx__policy_args args = {
        .file = s->o.policy_file, .preset = s->o.preset, .confine = s->o.confine};
    if (s->o.base_dir && setenv(ABX_ENV_SERVER_BASE_DIR, s->o.base_dir, 1) < 0)
        return 1;
    if (abx__environment_take() < 0 || prepare(s) < 0) {
        fputs("agent-sandbox-server: out of memory\n", stderr);
        return 1;
    }
    abx__notify_take();
    if (abx__policy_source_read(&args, &s->source, &err) < 0) {
        fprintf(stderr, "policy error: %s\n", err.msg);
        return 1;
    }
    int rc = abx__policy_take(s, has_hosts(s));
    if (rc != 0)
        return rc;
    if (s->on_loaded)
        return run(s);
    return bind_http(s, &err) < 0 || bind_pty(s) < 0 ? 1 : run(s);
}

#define ROW(name, kind, field, value, help)                                                        \
    {                                                                                              \
        name, ABX__OPTION_##kind, offsetof(struct abx__serve_options, field), value, help, 0       \
    }
static const struct abx__option options[] = {
    {"--host", ABX__OPTION_TEXT, offsetof(struct abx__serve_options, host), "ADDRESS",
     "default 0.0.0.0", offsetof(struct abx__serve_options, has_host)},
    {"--port", ABX__OPTION_NUMBER, offsetof(struct abx__serve_options, port), "PORT",
     "default 9000", offsetof(struct abx__serve_options, has_port)},
    {"--pty-port", ABX__OPTION_NUMBER, offsetof(struct abx__serve_options, pty_port), "PORT",
     "default ABX_PTY_PORT, else 9001", offsetof(struct abx__serve_options, has_pty_port)},
    ROW("--commands", LIST, commands, "FILE_OR_MODULE", "user code; may be repeated"),
    ROW("--policy", TEXT, policy_file, "FILE", "policy document"),
    ROW("--preset", TEXT, preset, "NAME", "default transfer-only read-only hardened locked"),
    ROW("--confine", TEXT, confine, "FILE|MODE", "off, auto, require, advisory; or a file"),
    ROW("--base-dir", TEXT, base_dir, "DIR", "root of path rules"),
    ROW("--unix", TEXT, unix_path, "PATH", "listen on a unix socket too"),
    ROW("--log", TEXT, log, "text|json", "form of the lines on standard error"),
    ROW("--python", TEXT, python, "EXE", "interpreter of Python command hosts"),
    ROW("--host-fd", NUMBER, host_fd, "FD", "a command host that runs already (start() uses it)"),
    ROW("--python-path", TEXT, python_path, "DIR", "search path of Python command hosts"),
    {0}};

/* A variable names the port as the option does; one that is no number counts as unset. */
static void read_pty_port_of_environment(struct abx__serve_options *o)
{
    const char *text = getenv("ABX_PTY_PORT");
    int64_t port;
    if (text && abx_parse_i64(abx_str(text), &port) == 0) {
        o->pty_port = port;
        o->has_pty_port = true;
    }
}

const struct abx__option *abx__serve_rows(void)
{
    return options;
}

static int use_log_form(const char *form)
{
    if (form && strcmp(form, "text") != 0 && strcmp(form, "json") != 0) {
        fprintf(stderr, "agent-sandbox-server serve: --log: text or json, not %s\n", form);
        return EXIT_USAGE;
    }
    abx_log_init("agent-sandbox-server", ABX_LOG_INFO);
    abx_log_set_json(form && strcmp(form, "json") == 0);
    return ABX__OPTIONS_OK;
}

static struct abx__server server;

int abx__server_load_hosts(const struct abx__serve_options *o,
                           void (*loaded)(struct abx__server *s, void *arg), void *arg)
{
    struct abx__server *s = &server;
    *s = (struct abx__server){.http_fd = -1, .pty_fd = -1};
    s->o = *o;
    s->o.port = ABX_PORT_SERVER;
    s->o.pty_port = ABX_PORT_SERVER_PTY;
    s->o.host = "127.0.0.1";
    s->on_loaded = loaded;
    s->on_loaded_arg = arg;
    abx_log_init("agent-sandbox-server", ABX_LOG_INFO);
    int rc = serve(s);
    server_done(s);
    return rc;
}

int abx__serve_main(int argc, char **argv)
{
    struct abx__server *s = &server;
    *s = (struct abx__server){.http_fd = -1, .pty_fd = -1};
    s->o = (struct abx__serve_options){
        .host = "0.0.0.0", .port = ABX_PORT_SERVER, .pty_port = ABX_PORT_SERVER_PTY};
    read_pty_port_of_environment(&s->o);
    int rc = abx__options_read(options, argc, argv, &s->o);
    if (rc == ABX__OPTIONS_OK)
        rc = use_log_form(s->o.log);
    if (rc != ABX__OPTIONS_OK)
        return rc;
    rc = serve(s);
    int stop_signal = s->stop_signal;
    server_done(s);
    if (stop_signal == SIGTERM && rc == 0)
        die_by(SIGTERM);
    return rc;
}
