/* guest/server/commands.c: the command host of --commands: its start, its end, its endpoints. Loop
 * thread. command-hosts.md 1, 6; server-api.md 4.2. */
#include "guest/server/commands_priv.h"
#include "guest/server/hosts/python.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ENV_MAX = 4096, LIST_BYTES = 16 << 20, AVAILABLE_BYTES = 700 };

/* ---- what may be given ---- */

static const struct {
    const char *suffix, *what;
} not_built[] = {
    {".mjs", "Node command hosts are"},          {".js", "Node command hosts are"},
    {".ts", "Node command hosts are"},           {".so", "command hosts in shared objects are"},
    {".yaml", "tables of commands in YAML are"}, {".yml", "tables of commands in YAML are"},
};

static int check_file(const char *name, struct abx_error *err)
{
    struct stat st;
    for (size_t i = 0; i < ABX_COUNTOF(not_built); i++)
        if (abx_str_ends(abx_str(name), not_built[i].suffix))
            return abx_err_set(err, ABX_UNIMPLEMENTED,
                               "--commands %s: %s not built yet; use a Python file", name,
                               not_built[i].what);
    if (!abx_str_ends(abx_str(name), ".py") && stat(name, &st) == 0 && S_ISREG(st.st_mode) &&
        access(name, X_OK) == 0)
        return abx_err_set(err, ABX_UNIMPLEMENTED,
                           "--commands %s: programs as command hosts are not built yet; use a "
                           "Python file",
                           name);
    return 0;
}

/* ---- its environment and powers ---- */

static const char *const own_secrets[] = {ABX_ENV_SERVER_TOKEN, ABX_ENV_SERVER_POLICY,
                                          ABX_ENV_SERVER_POLICY_FILE};

/* Without a policy (it names routes that are not known yet) whatever the document mentions. */
static bool is_secret(const struct abx__server *s, struct abx_str name)
{
    char quoted[258];
    if (s->policy)
        return abx_policy_is_secret_env(s->policy, name);
    for (size_t i = 0; i < ABX_COUNTOF(own_secrets); i++)
        if (abx_str_is(name, own_secrets[i]))
            return true;
    struct abx_buf b = {.ptr = quoted, .cap = sizeof(quoted), .max = sizeof(quoted) - 1};
    abx_buf_putf(&b, "\"%.*s\"", ABX_STR_FMT(name));
    return abx_buf_failed(&b) || abx_str_find(abx__server_policy_text(s), abx_buf_str(&b)) >= 0;
}

static char **environment(const struct abx__server *s, struct abx_arena *a)
{
    char **out = abx_arena_array(a, ENV_MAX + 1, sizeof(*out));
    size_t n = 0;
    for (char **e = environ; out && *e && n < ENV_MAX; e++) {
        struct abx_str all = abx_str(*e);
        ptrdiff_t eq = abx_str_chr(all, '=');
        if (eq > 0 && !is_secret(s, abx_str_sub(all, 0, (size_t)eq)))
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

/* Several callers that differ in power share the host: nothing of a user's own is loaded (S34). */
static bool is_isolated(const struct abx__server *s)
{
    struct abx_policy_identity first, who;
    if (s->policy == NULL)
        return abx_str_find(abx__server_policy_text(s), ABX_STR("\"tokens\"")) >= 0;
    if (!abx_policy_identity_at(s->policy, 0, &first))
        return false;
    for (size_t i = 1; abx_policy_identity_at(s->policy, i, &who); i++)
        if (!is_same_list(&first.scopes, &who.scopes))
            return true;
    return false;
}

/* ---- what the host says ---- */

static void tell(struct abx_defer *d)
{
    struct abx__commands *s = d->owner;
    s->ready(s->server, s->exit_code, s->has_failed ? &s->failure : NULL);
}

static void tell_later(struct abx__commands *s)
{
    if (s->has_told)
        return;
    s->has_told = true;
    abx_defer_start(&s->later, &s->server->loop, tell, s);
}

static int on_hello(void *arg, struct abx_str hello, struct abx_error *err)
{
    struct abx__commands *s = arg;
    if (abx__commands_take_hello(s, hello, err) < 0)
        return -1;
    tell_later(s);
    return 0;
}

static void on_failed(void *arg, int exit_code, const struct abx_error *err)
{
    struct abx__commands *s = arg;
    s->failure = *err;
    s->exit_code = exit_code;
    s->has_failed = true;
    tell_later(s);
}

static void on_ask(void *arg, const struct abx_host_message *m, void *call_arg)
{
    abx__commands_answer(arg, m, call_arg);
}

static void on_groups(void *arg, struct abx_str disable)
{
    struct abx__commands *s = arg;
    struct abx__server *server = s->server;
    for (int g = 0; g < ABX_GROUP__COUNT; g++) {
        struct abx_policy_code_group off = {(enum abx_group)g, false};
        char quoted[32];
        struct abx_buf b = {.ptr = quoted, .cap = sizeof(quoted), .max = sizeof(quoted) - 1};
        size_t i = 0;
        abx_buf_putf(&b, "\"%s\"", abx_group_name(off.group));
        if (abx_str_find(disable, abx_buf_str(&b)) < 0 || off.group == ABX_GROUP_CORE)
            continue;
        while (i < server->code_group_count && server->code_groups[i].group != off.group)
            i++;
        server->code_groups[i] = off;
        server->code_group_count += i == server->code_group_count;
    }
    abx__server_reload(server);
}

static void on_stop(void *arg)
{
    struct abx__commands *s = arg;
    abx__server_stop(s->server);
}

static void on_host_closed(void *arg)
{
    struct abx__commands *s = arg;
    s->host = NULL;
}

static const struct abx_host_ops host_ops = {on_hello, on_failed, on_ask,        on_groups,
                                             on_stop,  on_stop,   on_host_closed};

/* ---- start and end ---- */

static int open_host(struct abx__commands *s, struct abx_error *err)
{
    struct abx__server *server = s->server;
    struct abx_arena a;
    struct abx_host_options o = {.attached_fd = (int)server->o.host_fd, .name = "commands"};
    struct abx_python_host python = {
        .program = server->o.python,
        .search_path = server->path,
        .files = server->o.commands.items,
        .file_count = server->o.commands.count,
        .python_path = server->o.python_path,
        .is_isolated = is_isolated(server),
        .base_dir =
            getenv(ABX_ENV_SERVER_BASE_DIR) ? getenv(ABX_ENV_SERVER_BASE_DIR) : ABX_USER_HOME,
        .version = ABX_SERVER_COMPAT,
    };
    abx_arena_init(&a, 4 << 20);
    python.envp = environment(server, &a);
    int r = python.envp ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: no memory");
    if (r == 0 && server->o.host_fd <= 0)
        r = abx_python_host_options(&python, &a, &o, err);
    o.base_dir = abx_str(python.base_dir);
    o.version = abx_str(python.version);
    if (r == 0)
        r = abx_host_open(&server->loop, &o, &host_ops, s, &s->host, err);
    abx_arena_done(&a);
    return r;
}

int abx__commands_start(struct abx__server *server, abx__commands_ready_fn *ready,
                        struct abx_error *err)
{
    const struct abx__option_list *files = &server->o.commands;
    if (files->count == 0 && server->o.host_fd <= 0) {
        ready(server, 0, NULL);
        return 0;
    }
    for (size_t i = 0; i < files->count; i++)
        if (check_file(files->items[i], err) < 0)
            return -1;
    if (files->count > 0 && server->o.host_fd > 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "--host-fd and --commands exclude each other");
    struct abx__commands *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: no memory");
    s->server = server;
    s->ready = ready;
    server->commands = s;
    return open_host(s, err);
}

void abx__commands_stop(struct abx__server *server)
{
    if (server->commands == NULL)
        return;
    abx_defer_cancel(&server->commands->later);
    abx_host_close(server->commands->host);
}

void abx__commands_free(struct abx__server *server)
{
    struct abx__commands *s = server->commands;
    if (s == NULL)
        return;
    abx_json_free(s->hello);
    abx_arena_done(&s->arena);
    free(s);
    server->commands = NULL;
    server->custom = NULL;
    server->code_groups = NULL;
}

size_t abx__commands_count(const struct abx__server *s)
{
    return s->commands != NULL;
}

/* ---- the endpoints ---- */

static bool is_seen(const struct abx__command *command, const struct abx__call *c)
{
    return !command->is_hidden && abx_scope_missing(c->who.scopes, command->scopes).ptr == NULL;
}

static void list_get(struct abx__call *c)
{
    const struct abx__commands *s = c->server->commands;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("commands"));
    abx_json_begin_array(&w);
    for (size_t i = 0; s && i < s->command_count; i++) {
        const struct abx__command *command = &s->commands[i];
        if (!is_seen(command, c))
            continue;
        abx_json_begin_object(&w);
        abx_json_kv_str(&w, "name", command->name);
        abx_json_key(&w, ABX_STR("args"));
        if (command->args)
            abx_json_value(&w, command->args);
        else
            abx_json_raw(&w, ABX_STR("[]"));
        abx_json_kv_str(&w, "description", command->description);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static int compare_names(const void *a, const void *b)
{
    const struct abx_str *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->ptr, y->ptr, n);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void answer_unknown(struct abx__call *c, struct abx_str name)
{
    const struct abx__commands *s = c->server->commands;
    size_t n = 0, count = s ? s->command_count : 0;
    char text[AVAILABLE_BYTES];
    struct abx_buf b = {.ptr = text, .cap = sizeof(text), .max = sizeof(text) - 1};
    struct abx_str *names = abx_arena_array(c->req->arena, count + 1, sizeof(*names));
    for (size_t i = 0; names && i < count; i++)
        if (is_seen(&s->commands[i], c))
            names[n++] = s->commands[i].name;
    if (names)
        qsort(names, n, sizeof(*names), compare_names);
    text[0] = '\0';
    for (size_t i = 0; i < n && b.len + names[i].len + 8 < sizeof(text); i++)
        abx_buf_putf(&b, "%s%.*s", i ? ", " : "", ABX_STR_FMT(names[i]));
    abx__call_fail(c, 404, "ValueError", "Unknown command '%.*s'; available: %s",
                   (int)(name.len < 256 ? name.len : 256), name.ptr, text);
}

/* The name as it stands in the path, then decoded. */
static const struct abx__command *find(struct abx__call *c, struct abx_str *ret_name)
{
    ptrdiff_t slash = abx_str_rchr(c->path, '/');
    struct abx_str raw = abx_str_sub(c->path, (size_t)(slash + 1), c->path.len);
    const struct abx__command *command = abx__command_find(c->server->commands, raw);
    *ret_name = raw;
    return command ? command : abx__command_find(c->server->commands, abx__call_param(c, "name"));
}

static void run_post(struct abx__call *c)
{
    struct abx_str name;
    const struct abx__command *command = find(c, &name);
    if (command == NULL) {
        answer_unknown(c, name);
        return;
    }
    struct abx_str missing = abx_scope_missing(c->who.scopes, command->scopes);
    if (missing.ptr) {
        struct abx_policy_verdict v = {.endpoint = c->rule->id, .scope = missing};
        abx_policy_deny(&v, ABX_POLICY_MISSING_SCOPE, "Missing required scope '%.*s'",
                        (int)(missing.len < 128 ? missing.len : 128), missing.ptr);
        abx__call_deny(c, &v);
        return;
    }
    abx__command_call(c, command);
}

const struct abx__route abx__commands_routes[] = {
    {"list_commands", list_get}, {"run_command", run_post}, {0}};
