/* guest/server/registered.c: a hello, checked: which commands and routes the server takes over.
 *
 * What it does not take is said in a notice. command-hosts.md 2.2, security.md S31, decisions.md
 * (names). */
#include "guest/server/commands_priv.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { HELLO_DEPTH = 64, TIMEOUT_MAX_S = 4000000 };

struct command {
    struct abx_str name, description;
    bool hidden;
    struct abx_json_array scopes;
    double timeout_s;
    struct json_t *args;
};
struct route {
    uint32_t n;
    struct abx_str method, path, group, name, summary;
    bool regex, auth_required, streaming;
    struct abx_json_array scopes;
};
struct address {
    struct abx_str host;
    uint32_t port, pty_port;
};
struct hello {
    uint32_t protocol;
    struct abx_json_array commands, routes, notices;
    struct json_t *groups, *policy, *serve;
    bool builtins, has_builtins;
};

#define FIELD(type_, name, kind, flags)                                                            \
    {                                                                                              \
#name, ABX_JSON_##kind, offsetof(struct type_, name), flags                                \
    }
#define STRINGS(type_, name)                                                                       \
    {                                                                                              \
#name, ABX_JSON_ARRAY, offsetof(struct type_, name), 0, NULL, 0, ABX_JSON_STR              \
    }
#define STRUCTS(type_, name, of)                                                                   \
    {                                                                                              \
#name, ABX_JSON_ARRAY, offsetof(struct type_, name), 0, of##_fields, sizeof(struct of)     \
    }
static const struct abx_json_field command_fields[] = {FIELD(command, name, STR, ABX_JSON_REQUIRED),
                                                       FIELD(command, description, STR, 0),
                                                       FIELD(command, hidden, BOOL, 0),
                                                       STRINGS(command, scopes),
                                                       FIELD(command, timeout_s, F64, 0),
                                                       FIELD(command, args, RAW, 0),
                                                       {0}};
static const struct abx_json_field route_fields[] = {FIELD(route, n, U32, ABX_JSON_REQUIRED),
                                                     FIELD(route, method, STR, ABX_JSON_REQUIRED),
                                                     FIELD(route, path, STR, ABX_JSON_REQUIRED),
                                                     FIELD(route, group, STR, ABX_JSON_REQUIRED),
                                                     FIELD(route, name, STR, 0),
                                                     FIELD(route, summary, STR, 0),
                                                     FIELD(route, regex, BOOL, 0),
                                                     FIELD(route, auth_required, BOOL, 0),
                                                     FIELD(route, streaming, BOOL, 0),
                                                     STRINGS(route, scopes),
                                                     {0}};
static const struct abx_json_field hello_fields[] = {
    FIELD(hello, protocol, U32, ABX_JSON_REQUIRED),
    STRUCTS(hello, commands, command),
    STRUCTS(hello, routes, route),
    STRINGS(hello, notices),
    {"builtins", ABX_JSON_BOOL, offsetof(struct hello, builtins),
     .has_offset = offsetof(struct hello, has_builtins)},
    FIELD(hello, groups, RAW, 0),
    FIELD(hello, policy, RAW, 0),
    FIELD(hello, serve, RAW, 0),
    {0}};
static const struct abx_json_field address_fields[] = {FIELD(address, host, STR, 0),
                                                       FIELD(address, port, U32, 0),
                                                       FIELD(address, pty_port, U32, 0),
                                                       {0}};

static void notice(const char *what, struct abx_str name, const char *why)
{
    fprintf(stderr, "notice: %s %.*s is left out: %s\n", what, ABX_STR_FMT(name), why);
}

static struct abx_str_list list_of(const struct abx_json_array *a)
{
    return (struct abx_str_list){a->items, a->count};
}

/* ---- commands ---- */

/* Non-empty, no slash, no blanks, no control bytes, <= 128 bytes. */
static bool is_name(struct abx_str name)
{
    if (name.len == 0 || name.len > ABX__COMMAND_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char b = (unsigned char)name.ptr[i];
        if (b <= ' ' || b == 0x7f || b == '/')
            return false;
    }
    return true;
}

/* The list with room for @more; what it held stays. NULL: no memory. */
static void *with_room(struct abx_arena *a, const void *items, size_t count, size_t more,
                       size_t item_size)
{
    char *out = abx_arena_array(a, count + more + 1, item_size);
    if (out && count)
        memcpy(out, items, count * item_size);
    return out;
}

static int take_args(struct abx__commands_host *h, struct abx__command *c, struct abx_error *err)
{
    struct abx_args *declared;
    if (h->kind == ABX_HOST_PYTHON) /* its shim converts */
        return 0;
    declared = abx_arena_alloc(&h->all->arena, sizeof(*declared));
    if (declared == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the commands");
    c->declared = declared;
    if (abx_args_read(c->args, &h->all->arena, declared, err) < 0)
        return abx_err_wrap(err, "command %.*s", ABX_STR_FMT(c->name));
    return 0;
}

static int take_command(struct abx__commands_host *h, const struct command *in,
                        struct abx_error *err)
{
    struct abx__commands *s = h->all;
    const struct abx__command *before = abx__command_find(s, in->name);
    if (!is_name(in->name)) {
        notice("command", in->name,
               "a name is 1 to 128 bytes without slash, blanks and control bytes");
        return 0;
    }
    if (before && before->host != h)
        return abx_err_set(err, ABX_ALREADY_EXISTS, "command %.*s is in %.80s already",
                           ABX_STR_FMT(in->name),
                           before->host->file_count ? before->host->files[0] : "another host");
    struct abx__command *c = &s->commands[s->command_count];
    *c = (struct abx__command){
        .name = in->name,
        .description = in->description,
        .args = in->args,
        .scopes = list_of(&in->scopes),
        .timeout_ms =
            in->timeout_s > 0 ? (uint32_t)(fmin(in->timeout_s, TIMEOUT_MAX_S) * 1000 + 1) : 0,
        .is_hidden = in->hidden,
        .host = h,
    };
    s->command_count++;
    return take_args(h, c, err);
}

static int take_commands(struct abx__commands_host *host, const struct hello *h,
                         struct abx_error *err)
{
    struct abx__commands *s = host->all;
    const struct command *in = h->commands.items;
    if (s->command_count + h->commands.count > ABX__COMMANDS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "more than %d commands",
                           (int)ABX__COMMANDS_MAX);
    s->commands = with_room(&s->arena, s->commands, s->command_count, h->commands.count,
                            sizeof(*s->commands));
    if (s->commands == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the commands");
    for (size_t i = 0; i < h->commands.count; i++)
        if (take_command(host, &in[i], err) < 0)
            return -1;
    return 0;
}

const struct abx__command *abx__command_find(const struct abx__commands *s, struct abx_str name)
{
    for (size_t i = 0; s && i < s->command_count; i++)
        if (abx_str_eq(s->commands[i].name, name))
            return &s->commands[i];
    return NULL;
}

/* ---- routes ---- */

static const char *const own_places[] = {"/commands", "/mcp", "/pty", "/files", "/process"};

static bool is_reserved(struct abx_str path)
{
    size_t count;
    const struct abx_endpoint *all = abx_endpoints(&count);
    for (size_t i = 0; i < ABX_COUNTOF(own_places); i++) {
        size_t n = strlen(own_places[i]);
        if (abx_str_starts(path, own_places[i]) && (path.len == n || path.ptr[n] == '/'))
            return true;
    }
    for (size_t i = 0; i < count; i++)
        if (abx_str_is(path, all[i].path))
            return true;
    return false;
}

static bool is_token(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!((s.ptr[i] >= 'A' && s.ptr[i] <= 'Z') || s.ptr[i] == '-'))
            return false;
    return s.len > 0 && s.len <= 32;
}

/* Its name, unless that is one of the core's (S31), else "METHOD /pattern". */
static struct abx_str id_of(struct abx__commands *s, const struct route *r)
{
    const struct abx_endpoint *e = r->name.len ? abx_endpoint_find(r->name) : NULL;
    if (r->name.len && !(e && e->group == ABX_GROUP_CORE))
        return r->name;
    return abx_str(
        abx_arena_printf(&s->arena, "%.*s %.*s", ABX_STR_FMT(r->method), ABX_STR_FMT(r->path)));
}

static int take_route(struct abx__commands_host *h, const struct route *r, struct abx_error *err)
{
    struct abx__commands *s = h->all;
    struct abx__server *server = s->server;
    int group = abx_group_parse(r->group);
    if (group < 0 || !is_token(r->method))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "route %.*s: unknown group or method",
                           (int)(r->path.len < 100 ? r->path.len : 100), r->path.ptr);
    if (is_reserved(r->path)) {
        notice("route", r->path, "the path belongs to the server");
        return 0;
    }
    struct abx_str id = id_of(s, r);
    struct abx__custom_route *route = abx_arena_alloc(&s->arena, sizeof(*route));
    if (id.ptr == NULL || route == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the routes");
    *route = (struct abx__custom_route){h, r->n};
    server->custom[server->custom_count++] = (struct abx__custom){
        .spec = {.id = id,
                 .method = r->method,
                 .path = r->path,
                 .summary = r->summary,
                 .group = (enum abx_group)group,
                 .scopes = list_of(&r->scopes),
                 .is_open = !r->auth_required,
                 .is_streaming = r->streaming},
        .is_regex = r->regex,
        .serve = abx__custom_serve,
        .arg = route,
    };
    return 0;
}

static int take_routes(struct abx__commands_host *host, const struct hello *h,
                       struct abx_error *err)
{
    struct abx__commands *s = host->all;
    struct abx__server *server = s->server;
    const struct route *in = h->routes.items;
    if (server->custom_count + h->routes.count > ABX__ROUTES_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "more than %d routes",
                           (int)ABX__ROUTES_MAX);
    server->custom = with_room(&s->arena, server->custom, server->custom_count, h->routes.count,
                               sizeof(*server->custom));
    if (server->custom == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the routes");
    for (size_t i = 0; i < h->routes.count; i++)
        if (take_route(host, &in[i], err) < 0)
            return -1;
    return 0;
}

/* ---- the rest ---- */

void abx__commands_set_group(struct abx__commands *s, struct abx_policy_code_group group)
{
    struct abx__server *server = s->server;
    size_t i = 0;
    while (i < server->code_group_count && server->code_groups[i].group != group.group)
        i++;
    server->code_groups[i] = group; /* room for each group: one row is enough for it */
    server->code_group_count += i == server->code_group_count;
}

static int take_groups(struct abx__commands *s, struct json_t *groups, struct abx_error *err)
{
    const char *name;
    json_t *value;
    struct abx__server *server = s->server;
    if (server->code_groups == NULL)
        server->code_groups =
            abx_arena_array(&s->arena, ABX_GROUP__COUNT, sizeof(*server->code_groups));
    if (server->code_groups == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the groups");
    json_object_foreach(groups, name, value)
    {
        int group = abx_group_parse(abx_str(name));
        if (group < 0 || !json_is_boolean(value))
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "groups: unknown group '%.64s'", name);
        abx__commands_set_group(
            s, (struct abx_policy_code_group){(enum abx_group)group, json_is_true(value)});
    }
    return 0;
}

static int take_address(struct abx__commands *s, struct json_t *serve, struct abx_error *err)
{
    struct address a = {0};
    struct abx__serve_options *o = &s->server->o;
    if (serve == NULL || json_is_null(serve))
        return 0;
    if (abx_json_decode(serve, address_fields, &a, &s->arena, err) < 0)
        return abx_err_wrap(err, "serve");
    if (a.port && a.port != (uint32_t)o->port && !o->has_port)
        o->port = a.port;
    else if (a.port && a.port != (uint32_t)o->port)
        fprintf(stderr, "notice: start() asks for port %u: --port %lld counts\n", a.port,
                (long long)o->port);
    if (a.host.len == 0 || abx_str_is(a.host, o->host))
        return 0;
    if (o->has_host)
        fprintf(stderr, "notice: start() asks for host %.*s: --host %s counts\n",
                ABX_STR_FMT(a.host), o->host);
    else
        o->host = abx_arena_c(&s->arena, a.host);
    return o->host ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the address");
}

static void print_notices(const struct hello *h)
{
    const struct abx_str *in = h->notices.items;
    for (size_t i = 0; i < h->notices.count; i++)
        fprintf(stderr, "notice: %.*s\n", ABX_STR_FMT(in[i]));
}

static int take_policy(struct abx__server *server, struct json_t *policy, struct abx_error *err)
{
    if (policy == NULL || json_is_null(policy))
        return 0;
    if (server->code_text)
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "a second file gives a policy in code: write them into one");
    return abx__server_code_policy(server, policy, err);
}

int abx__commands_take_hello(struct abx__commands_host *host, struct abx_str text,
                             struct abx_error *err)
{
    struct abx__commands *s = host->all;
    struct abx_json_limits limits = {
        .max_bytes = ABX_HOST_LINE_MAX, .max_depth = HELLO_DEPTH, .wide_numbers = true};
    struct hello h = {0};
    if (abx_json_parse(text, &limits, &host->hello, err) < 0 ||
        abx_json_decode(host->hello, hello_fields, &h, &s->arena, err) < 0)
        return abx_err_wrap(err, "hello of the command host");
    if (h.protocol != ABX_HOST_PROTOCOL)
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "the command host speaks protocol %u, this server %d", h.protocol,
                           (int)ABX_HOST_PROTOCOL);
    print_notices(&h);
    s->server->has_own_table |= h.has_builtins && !h.builtins;
    if (take_commands(host, &h, err) < 0 || take_routes(host, &h, err) < 0 ||
        take_groups(s, h.groups, err) < 0 || take_address(s, h.serve, err) < 0)
        return -1;
    return take_policy(s->server, h.policy, err);
}
