/* guest/server/command_hosts.c: the command hosts of --commands, one after the other: their start,
 * what they say, their end. Loop thread. command-hosts.md 1, 6. */
#include "guest/server/commands_priv.h"
#include "guest/server/hosts/launch.h"
#include "guest/server/view.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ENV_MAX = 4096, ARENA_BYTES = 32 << 20 };

/* ---- their environment and powers ---- */

char **abx__hosts_environment(const struct abx__server *s, struct abx_arena *a)
{
    char **out = abx_arena_array(a, ENV_MAX + 1, sizeof(*out));
    size_t n = 0;
    for (char **e = environ; out && *e && n < ENV_MAX; e++) {
        struct abx_str all = abx_str(*e);
        ptrdiff_t eq = abx_str_chr(all, '=');
        if (eq > 0 && !abx_policy_is_secret_env(s->policy, abx_str_sub(all, 0, (size_t)eq)))
            out[n++] = *e;
    }
    return out;
}

static bool is_same_list(const struct abx_str_list *a, const struct abx_str_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!abx_str_eq(a->items[i], b->items[i]))
            return false;
    return true;
}

/* It is confined, or several callers that differ in power share it: nothing of a user's own is
 * loaded (S34). */
bool abx__hosts_are_isolated(const struct abx__server *s)
{
    struct abx_policy_identity first, who;
    if (abx__view_of_hosts(s->policy) != NULL)
        return true;
    if (!abx_policy_identity_at(s->policy, 0, &first))
        return false;
    for (size_t i = 1; abx_policy_identity_at(s->policy, i, &who); i++)
        if (!is_same_list(&first.scopes, &who.scopes))
            return true;
    return false;
}

/* ---- what a host says ---- */

static void tell(struct abx_defer *d)
{
    struct abx__commands *s = d->owner;
    if (s->has_failed || s->next == s->host_count) {
        s->ready(s->server, s->exit_code, s->has_failed ? &s->failure : NULL);
        return;
    }
    abx__commands_open_next(s);
}

/* The next host is opened, or the server told, from the loop: not from inside a host's callback. */
static void go_on(struct abx__commands *s)
{
    if (!s->is_stopping)
        abx_defer_start(&s->later, &s->server->loop, tell, s);
}

static void fail(struct abx__commands *s, int exit_code, const struct abx_error *err)
{
    if (s->has_failed)
        return;
    s->failure = *err;
    s->exit_code = exit_code;
    s->has_failed = true;
    go_on(s);
}

static int on_hello(void *arg, struct abx_str hello, struct abx_error *err)
{
    struct abx__commands_host *h = arg;
    if (abx__commands_take_hello(h, hello, err) < 0)
        return -1;
    go_on(h->all);
    return 0;
}

static void on_failed(void *arg, int exit_code, const struct abx_error *err)
{
    struct abx__commands_host *h = arg;
    struct abx_error named = *err;
    if (err->msg[0] && h->all->host_count > 1)
        abx_err_wrap(&named, "%.100s", h->files[0]);
    fail(h->all, exit_code, &named);
}

static void on_ask(void *arg, const struct abx_host_message *m, void *call_arg)
{
    abx__commands_answer(arg, m, call_arg);
}

static void on_groups(void *arg, struct abx_str disable)
{
    struct abx__commands_host *h = arg;
    struct abx__server *server = h->all->server;
    for (int g = 0; g < ABX_GROUP__COUNT; g++) {
        struct abx_policy_code_group off = {(enum abx_group)g, false};
        char quoted[32];
        struct abx_buf b = {.ptr = quoted, .cap = sizeof(quoted), .max = sizeof(quoted) - 1};
        abx_buf_putf(&b, "\"%s\"", abx_group_name(off.group));
        if (abx_str_find(disable, abx_buf_str(&b)) >= 0 && off.group != ABX_GROUP_CORE)
            abx__commands_set_group(h->all, off);
    }
    abx__server_reload(server);
}

static void on_stop(void *arg)
{
    struct abx__commands_host *h = arg;
    abx__server_stop(h->all->server);
}

static void on_host_closed(void *arg)
{
    struct abx__commands_host *h = arg;
    h->host = NULL;
}

static const struct abx_host_ops host_ops = {on_hello, on_failed, on_ask,        on_groups,
                                             on_stop,  on_stop,   on_host_closed};

/* ---- start and end ---- */

static int launch(struct abx__commands_host *h, struct abx_arena *a, struct abx_host_options *o,
                  struct abx_error *err)
{
    struct abx__server *server = h->all->server;
    const char *base = getenv(ABX_ENV_SERVER_BASE_DIR);
    struct abx_host_launch l = {
        .kind = h->kind,
        .program = h->kind == ABX_HOST_PYTHON ? server->o.python : NULL,
        .search_path = server->path,
        .files = h->files,
        .file_count = h->file_count,
        .module_path = server->o.python_path,
        .is_isolated = abx__hosts_are_isolated(server),
        .base_dir = base ? base : ABX_USER_HOME,
        .version = ABX_SERVER_COMPAT,
    };
    l.envp = abx__hosts_environment(server, a);
    if (l.envp == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: no memory");
    o->base_dir = abx_str(l.base_dir);
    o->version = abx_str(l.version);
    if (h->file_count == 0) /* it runs already */
        return 0;
    return abx_host_launch_options(&l, a, o, err);
}

static int open_host(struct abx__commands_host *h, struct abx_error *err)
{
    struct abx__server *server = h->all->server;
    struct abx_arena a;
    struct abx_host_options o = {.name = "commands",
                                 .attached_fd = h->file_count ? -1 : (int)server->o.host_fd};
    if (h->kind == ABX_HOST_TABLE) {
        if (abx__table_load(h, err) < 0)
            return -1;
        go_on(h->all);
        return 0;
    }
    abx_arena_init(&a, 4 << 20);
    int r = launch(h, &a, &o, err);
    o.confine = abx__view_of_hosts(server->policy);
    if (r == 0)
        r = abx_host_open(&server->loop, &o, &host_ops, h, &h->host, err);
    abx_arena_done(&a);
    return r;
}

void abx__commands_open_next(struct abx__commands *s)
{
    struct abx_error err = {0};
    struct abx__commands_host *h = &s->hosts[s->next++];
    if (open_host(h, &err) < 0) {
        if (h->file_count)
            abx_err_wrap(&err, "--commands %.100s", h->files[0]);
        fail(s, 1, &err);
    }
}

/* Files of a shared kind go to one host, at the place of the first; the others have one each. */
static void add_file(struct abx__commands *s, const char *file)
{
    enum abx_host_kind kind = abx_host_kind_of(file);
    size_t i = abx_host_kind_is_shared(kind) ? 0 : s->host_count;
    while (i < s->host_count && s->hosts[i].kind != kind)
        i++;
    struct abx__commands_host *h = &s->hosts[i];
    if (i == s->host_count) {
        *h = (struct abx__commands_host){.all = s, .kind = kind, .files = &s->files[s->file_room]};
        s->file_room += s->server->o.commands.count; /* as many as it may get */
        s->host_count++;
    }
    h->files[h->file_count++] = file;
}

static int plan(struct abx__commands *s, struct abx_error *err)
{
    const struct abx__option_list *files = &s->server->o.commands;
    size_t n = files->count;
    abx_arena_init(&s->arena, ARENA_BYTES);
    if (n > ABX__FILES_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "more than %d --commands",
                           (int)ABX__FILES_MAX);
    s->hosts = abx_arena_array(&s->arena, n + 1, sizeof(*s->hosts));
    s->files = abx_arena_array(&s->arena, n * n + 1, sizeof(*s->files));
    if (s->hosts == NULL || s->files == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command hosts: no memory");
    for (size_t i = 0; i < n; i++)
        add_file(s, files->items[i]);
    if (n == 0)
        s->hosts[s->host_count++] =
            (struct abx__commands_host){.all = s, .kind = ABX_HOST_PYTHON, .files = s->files};
    return 0;
}

int abx__commands_start(struct abx__server *server, abx__commands_ready_fn *ready,
                        struct abx_error *err)
{
    const struct abx__option_list *files = &server->o.commands;
    if (files->count == 0 && server->o.host_fd <= 0) {
        ready(server, 0, NULL);
        return 0;
    }
    if (files->count > 0 && server->o.host_fd > 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "--host-fd and --commands exclude each other");
    struct abx__commands *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command hosts: no memory");
    s->server = server;
    s->ready = ready;
    server->commands = s;
    if (plan(s, err) < 0)
        return -1;
    go_on(s);
    return 0;
}

void abx__commands_stop(struct abx__server *server)
{
    struct abx__commands *s = server->commands;
    if (s == NULL)
        return;
    s->is_stopping = true;
    abx_defer_cancel(&s->later);
    for (size_t i = 0; i < s->host_count; i++)
        abx_host_close(s->hosts[i].host);
}

void abx__commands_free(struct abx__server *server)
{
    struct abx__commands *s = server->commands;
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->host_count; i++)
        abx_json_free(s->hosts[i].hello);
    abx_arena_done(&s->arena);
    free(s);
    server->commands = NULL;
    server->custom = NULL;
    server->code_groups = NULL;
}

size_t abx__commands_count(const struct abx__server *s)
{
    return s->commands ? s->commands->host_count : 0;
}
