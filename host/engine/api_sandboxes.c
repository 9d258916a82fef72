/* host/engine/api_sandboxes.c: /sandboxes and /v2/sandboxes: one set of handlers, two of defaults
 * (control-plane 3, decisions "Wire facts"). Loop thread. */
#include "host/engine/api_priv.h"
#include "host/engine/list_priv.h"
#include "host/engine/metrics_priv.h"

#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { REFRESH_DEFAULT_S = 15, REFRESH_MAX_S = 3600, HOST_TEXT_MAX = 64 };
static const char client_id[] = "local";

/* What an answer says of a sandbox. */

static void write_common(struct abx_json_writer *w, const struct abx__sandbox *sb)
{
    abx_json_kv_c(w, "templateID", sb->template_name);
    abx_json_kv_c(w, "sandboxID", sb->id);
    abx_json_kv_c(w, "clientID", client_id);
    abx_json_kv_c(w, "envdVersion", ABX_ENVD_VERSION);
    abx_json_kv_c(w, "alias", sb->alias);
}

static void write_abx(struct abx_json_writer *w, const struct abx__sandbox *sb)
{
    abx_json_key(w, ABX_STR("abx"));
    abx_json_begin_object(w);
    abx_json_key(w, ABX_STR("isolation"));
    abx__write_isolation(w, sb->engine);
    abx_json_kv_c(w, "note", "the network of a sandbox is its own loopback, nothing else");
    abx_json_end_object(w);
}

/* Takes the envd of clients that know this field off names and TLS. One that came by a name can
 * resolve names. */
static void write_envd_url(struct abx_json_writer *w, const struct abx__call *c)
{
    char text[HOST_TEXT_MAX + sizeof("http://")];
    struct abx_str host = abx_http_header(c->req->head, "Host"), name;
    uint16_t port = 0;
    if (abx_url_split_host(host, &name, &port) < 0 || host.len > HOST_TEXT_MAX ||
        (!abx_url_is_ip_literal(name) && !abx_str_is_nocase(name, "localhost")))
        return;
    snprintf(text, sizeof(text), "http://%.*s", ABX_STR_FMT(host));
    abx_json_kv_c(w, "envdUrl", text);
}

static void write_access(struct abx_json_writer *w, const struct abx__call *c,
                         const struct abx__sandbox *sb)
{
    if (sb->token[0] != '\0')
        abx_json_kv_c(w, "envdAccessToken", sb->token);
    abx_json_kv_c(w, "domain", sb->engine->domain);
    write_envd_url(w, c);
}

/* False: no memory, and 500 was answered. */
static bool answer_sandbox(struct abx__call *c, int status, const struct abx__sandbox *sb)
{
    ABX_AUTO_BUF b = {.max = 16384};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    write_common(&w, sb);
    write_access(&w, c, sb);
    if (sb->traffic_token[0] != '\0') {
        abx_json_kv_c(&w, "trafficAccessToken", sb->traffic_token);
    } else {
        abx_json_key(&w, ABX_STR("trafficAccessToken"));
        abx_json_null(&w);
    }
    write_abx(&w, sb);
    abx_json_end_object(&w);
    bool ok = !abx_buf_failed(&b);
    abx__api_answer_buf(c, status, &b, NULL); /* @c may be gone after */
    return ok;
}

void abx__write_listed(struct abx_json_writer *w, const struct abx__sandbox *sb)
{
    char started[ABX_TIME_TEXT], end[ABX_TIME_TEXT];
    abx_time_format(sb->started_ns, 6, started);
    abx_time_format(sb->end_ms * 1000000, 3, end);
    write_common(w, sb);
    abx_json_kv_c(w, "startedAt", started);
    abx_json_kv_c(w, "endAt", end);
    abx_json_kv_i64(w, "cpuCount", sb->cpu);
    abx_json_kv_i64(w, "memoryMB", sb->memory_mb);
    abx_json_kv_i64(w, "diskSizeMB", 0); /* no quota: isolation.disk says so */
    abx_json_kv_c(w, "state", abx__state_name(sb->state));
    abx_json_key(w, ABX_STR("metadata"));
    abx_json_raw(w, sb->metadata_text);
}

/* Reading requests. */

/* The running sandbox that the path names; answers when there is none. */
static struct abx__sandbox *named_sandbox(struct abx__call *c)
{
    struct abx_str rest = c->params[0], id, client, more;
    bool has_client, has_more;
    abx_str_split(&rest, '-', &id);
    has_client = abx_str_split(&rest, '-', &client);
    has_more = has_client && abx_str_split(&rest, '-', &more);
    bool ok = id.len != 0 && !has_more;
    for (size_t i = 0; i < id.len; i++)
        ok = ok &&
             ((id.ptr[i] >= 'a' && id.ptr[i] <= 'z') || (id.ptr[i] >= '0' && id.ptr[i] <= '9'));
    if (!ok || id.len > 64) {
        abx__api_fail(c, 400, "Invalid sandbox ID");
        return NULL;
    }
    struct abx__sandbox *sb = abx__sandbox_find(c->engine, id);
    if (sb == NULL)
        abx__api_fail(c, 404, "Sandbox \"%.*s\" doesn't exist or you don't have access to it",
                      ABX_STR_FMT(id));
    return sb;
}

static bool check_timeout(struct abx__call *c, int64_t timeout_s)
{
    if (timeout_s <= 0) {
        abx__api_fail(c, 400, "Timeout must be greater than 0");
        return false;
    }
    if (timeout_s > ABX_SANDBOX_TIMEOUT_MAX_S) {
        abx__api_fail(c, 400, "Timeout cannot be greater than %d hours",
                      ABX_SANDBOX_TIMEOUT_MAX_S / 3600);
        return false;
    }
    return true;
}

/* What no program could get; said here, where the caller is told, and not by the sandbox's /init.
 */
static bool check_envs(struct abx__call *c, const struct abx_json_map *envs)
{
    for (size_t i = 0; i < envs->count; i++) {
        struct abx_str name = envs->pairs[i].key;
        if (name.len == 0 || abx_str_chr(name, '=') >= 0) {
            abx__api_fail(c, 400, "envVars: '%.*s' is no name: it is empty or has a '='",
                          ABX_STR_FMT(abx_str_sub(name, 0, 100)));
            return false;
        }
    }
    return true;
}

static void server_tokens(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = ABX__MESSAGE_MAX};
    struct abx_json_writer w;
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb == NULL)
        return;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("tokens"));
    abx_json_raw(&w, sb->server_tokens.len == 0 ? ABX_STR("{}") : sb->server_tokens);
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

/* POST /sandboxes, POST /v2/sandboxes. */

struct volume_mount {
    struct abx_str name, path;
};
static const struct abx_json_field volume_fields[] = {
    {"name", ABX_JSON_STR, offsetof(struct volume_mount, name), 0},
    {"path", ABX_JSON_STR, offsetof(struct volume_mount, path), 0},
    {0}};
struct auto_resume {
    bool enabled;
};
static const struct abx_json_field auto_resume_fields[] = {
    {"enabled", ABX_JSON_BOOL, offsetof(struct auto_resume, enabled), 0}, {0}};
struct anything {
    char unused;
};
static const struct abx_json_field any_fields[] = {{0}};

/* What is asked of the network; only who may reach its ports is for us to say. */
struct network {
    bool allow_public, has_public, has_allow, has_deny, has_rules, has_proxy, has_mask;
    struct abx_json_array allow, deny;
    struct anything rules, proxy;
    struct abx_str mask;
};
static const struct abx_json_field network_fields[] = {
    {"allowPublicTraffic", ABX_JSON_BOOL, offsetof(struct network, allow_public),
     .has_offset = offsetof(struct network, has_public)},
    {"allowOut", ABX_JSON_ARRAY, offsetof(struct network, allow), .item = ABX_JSON_STR,
     .has_offset = offsetof(struct network, has_allow)},
    {"denyOut", ABX_JSON_ARRAY, offsetof(struct network, deny), .item = ABX_JSON_STR,
     .has_offset = offsetof(struct network, has_deny)},
    {"rules", ABX_JSON_OBJECT, offsetof(struct network, rules), 0, any_fields,
     sizeof(struct anything), .has_offset = offsetof(struct network, has_rules)},
    {"egressProxy", ABX_JSON_OBJECT, offsetof(struct network, proxy), 0, any_fields,
     sizeof(struct anything), .has_offset = offsetof(struct network, has_proxy)},
    {"maskRequestHost", ABX_JSON_STR, offsetof(struct network, mask), 0,
     .has_offset = offsetof(struct network, has_mask)},
    {0}};

struct create_body {
    struct abx_str template_id;
    int64_t timeout_s;
    struct abx_json_map metadata, envs;
    bool secure, allow_internet, auto_pause;
    struct abx_str gpu;
    bool has_timeout, has_secure, has_mcp, has_iam, has_gpu;
    struct auto_resume auto_resume;
    struct abx_json_array volumes;
    struct network network;
    struct anything mcp, iam;
};
static const struct abx_json_field create_fields[] = {
    {"templateID", ABX_JSON_STR, offsetof(struct create_body, template_id), ABX_JSON_REQUIRED},
    {"timeout", ABX_JSON_I64, offsetof(struct create_body, timeout_s),
     .has_offset = offsetof(struct create_body, has_timeout)},
    {"metadata", ABX_JSON_MAP, offsetof(struct create_body, metadata), 0},
    {"envVars", ABX_JSON_MAP, offsetof(struct create_body, envs), 0},
    {"secure", ABX_JSON_BOOL, offsetof(struct create_body, secure),
     .has_offset = offsetof(struct create_body, has_secure)},
    {"allow_internet_access", ABX_JSON_BOOL, offsetof(struct create_body, allow_internet), 0},
    {"autoPause", ABX_JSON_BOOL, offsetof(struct create_body, auto_pause), 0},
    {"autoResume", ABX_JSON_OBJECT, offsetof(struct create_body, auto_resume), 0,
     auto_resume_fields, sizeof(struct auto_resume)},
    {"volumeMounts", ABX_JSON_ARRAY, offsetof(struct create_body, volumes), 0, volume_fields,
     sizeof(struct volume_mount)},
    {"gpu", ABX_JSON_STR, offsetof(struct create_body, gpu), 0,
     .has_offset = offsetof(struct create_body, has_gpu)},
    {"network", ABX_JSON_OBJECT, offsetof(struct create_body, network), 0, network_fields,
     sizeof(struct network)},
    {"mcp", ABX_JSON_OBJECT, offsetof(struct create_body, mcp), 0, any_fields,
     sizeof(struct anything), .has_offset = offsetof(struct create_body, has_mcp)},
    {"iam", ABX_JSON_OBJECT, offsetof(struct create_body, iam), 0, any_fields,
     sizeof(struct anything), .has_offset = offsetof(struct create_body, has_iam)},
    {0}};

/* The first thing asked for that this engine can not do, or NULL. */
static const char *beyond_us(const struct create_body *b)
{
    const struct network *n = &b->network;
    const struct {
        bool asked;
        const char *why;
    } rows[] = {
        {n->has_allow || n->has_deny || n->has_rules || n->has_proxy,
         "network: sandboxes of this engine have their own loopback only; leave allowOut, denyOut, "
         "rules and egressProxy out"},
        {n->has_mask, "network: maskRequestHost is not built into this engine; the service sees "
                      "the Host of the request"},
        {b->auto_pause, "autoPause: pausing is not built into this engine yet; use a longer "
                        "timeout"},
        {b->auto_resume.enabled, "autoResume: pausing is not built into this engine yet; use a "
                                 "longer timeout"},
        {b->volumes.count != 0, "volumeMounts: volumes are not built into this engine yet; copy "
                                "files with files.write"},
        {b->has_mcp, "mcp: there is no mcp-gateway in this engine's templates; start your server "
                     "with commands.run"},
        {b->has_iam, "iam: identity tokens are not built into this engine; pass credentials by "
                     "envVars"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        if (rows[i].asked)
            return rows[i].why;
    }
    return NULL;
}

static void on_created(struct abx__wait *w, struct abx__sandbox *sb, const struct abx_error *err)
{
    struct abx__call *c = ABX_CONTAINER_OF(w, struct abx__call, wait);
    if (err != NULL) {
        ABX_AUTO_BUF text = {.max = ABX__MESSAGE_MAX};
        abx_buf_put_c(&text, err->msg);
        abx_buf_put_str(&text, w->detail);
        abx__api_fail_text(c, abx_code_http(err->code), abx_buf_str(&text));
        return;
    }
    memcpy(c->created_id, sb->id, sizeof(c->created_id));
    if (!answer_sandbox(c, 201, sb))
        abx__sandbox_kill(sb, NULL);
}

static void sandboxes_create(struct abx__call *c)
{
    struct create_body b = {0};
    struct abx_error err = {0};
    bool is_v2 = c->route->is_v2;
    struct abx__blueprint *bp = NULL;
    if (!abx__api_read(c, create_fields, &b))
        return;
    if (!b.has_timeout)
        b.timeout_s = is_v2 ? ABX_SANDBOX_TIMEOUT_V2_S : ABX_SANDBOX_TIMEOUT_V1_S;
    if (!check_timeout(c, b.timeout_s) || !check_envs(c, &b.envs))
        return;
    if (b.has_gpu) {
        abx__api_fail(c, 400, "gpu: sandboxes of this engine have none; leave `gpu` out");
        return;
    }
    const char *why = beyond_us(&b);
    if (why != NULL) {
        abx__api_fail(c, 501, "%s", why);
        return;
    }
    bool is_secure = is_v2 || !b.has_secure || b.secure;
    bool is_private = b.network.has_public && !b.network.allow_public;
    if (is_private && !is_secure) {
        abx__api_fail(c, 400,
                      "You cannot create a sandbox without public access unless you enable secure "
                      "envd access via 'secure' flag.");
        return;
    }
    if (abx__blueprint_find(c->engine, b.template_id, &bp, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    if (bp->build_id[0] != '\0' &&
        abx_store_template_spawned(c->engine->store, bp->template_id, &err) < 0)
        abx_log(ABX_LOG_WARN, "sandbox not counted error=\"%s\"", err.msg);
    struct abx__create p = {.take_blueprint = bp,
                            .timeout_s = (uint32_t)b.timeout_s,
                            .is_secure = is_secure,
                            .is_private = is_private,
                            .metadata = &b.metadata,
                            .envs = &b.envs};
    c->wait.fn = on_created;
    if (abx__sandbox_create(c->engine, &p, &c->wait, &err) < 0)
        abx__api_fail_err(c, &err);
}

/* One sandbox. */

static void sandbox_info(struct abx__call *c)
{
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb == NULL)
        return;
    ABX_AUTO_BUF b = {.max = (size_t)ABX__BODY_MAX * 2};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx__write_listed(&w, sb);
    write_access(&w, c, sb);
    abx_json_kv_bool(&w, "allowInternetAccess", false);
    if (sb->traffic_token[0] != '\0') {
        abx_json_key(&w, ABX_STR("network"));
        abx_json_begin_object(&w);
        abx_json_kv_bool(&w, "allowPublicTraffic", false);
        abx_json_end_object(&w);
    }
    abx_json_key(&w, ABX_STR("lifecycle"));
    abx_json_begin_object(&w);
    abx_json_kv_bool(&w, "autoResume", false);
    abx_json_kv_c(&w, "onTimeout", "kill");
    abx_json_end_object(&w);
    write_abx(&w, sb);
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

static void sandbox_metrics(struct abx__call *c)
{
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb)
        abx__metrics_get(c, sb);
}

static void on_killed(struct abx__wait *w, struct abx__sandbox *sb, const struct abx_error *err)
{
    struct abx__call *c = ABX_CONTAINER_OF(w, struct abx__call, wait);
    (void)sb;
    if (err != NULL)
        abx__api_fail_err(c, err);
    else
        abx__api_answer(c, 204, (struct abx_str){0});
}

static void on_killed_before(struct abx__wait *w, struct abx__sandbox *sb,
                             const struct abx_error *err)
{
    struct abx__call *c = ABX_CONTAINER_OF(w, struct abx__call, wait);
    (void)sb;
    (void)err;
    named_sandbox(c); /* it is gone by now: the ordinary 404 */
}

static void sandbox_kill(struct abx__call *c)
{
    struct abx__sandbox *sb = abx__sandbox_find_any(c->engine, c->params[0]);
    if (sb != NULL && sb->state == ABX__KILLING && sb->attempt == 0) {
        c->wait.fn = on_killed_before; /* another kill is under way: wait, then not found */
        abx__sandbox_kill(sb, &c->wait);
        return;
    }
    sb = named_sandbox(c);
    if (sb == NULL)
        return;
    c->wait.fn = on_killed;
    abx__sandbox_kill(sb, &c->wait);
}

struct timeout_body {
    int64_t timeout_s;
    bool has_timeout;
};
static const struct abx_json_field timeout_fields[] = {
    {"timeout", ABX_JSON_I64, offsetof(struct timeout_body, timeout_s),
     .has_offset = offsetof(struct timeout_body, has_timeout)},
    {0}};

static bool set_end(struct abx__call *c, struct abx__sandbox *sb, int64_t seconds, bool extend_only)
{
    struct abx_error err = {0};
    int64_t end_ms = abx_time_wall_ms() + seconds * 1000;
    if (abx__sandbox_set_end(sb, end_ms, extend_only, &err) == 0)
        return true;
    abx__api_fail_err(c, &err);
    return false;
}

static void sandbox_connect(struct abx__call *c)
{
    struct timeout_body b = {0};
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb == NULL || !abx__api_read(c, timeout_fields, &b))
        return;
    if (!b.has_timeout && !c->route->is_v2) {
        abx__api_fail(c, 400, "validation error: timeout: is required");
        return;
    }
    if (!b.has_timeout)
        b.timeout_s = ABX_SANDBOX_TIMEOUT_V2_S;
    if (check_timeout(c, b.timeout_s) && set_end(c, sb, b.timeout_s, true))
        answer_sandbox(c, 200, sb);
}

static void sandbox_resume(struct abx__call *c)
{
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb != NULL)
        abx__api_fail(c, 409, "Sandbox %s is already running", sb->id);
}

static void sandbox_timeout(struct abx__call *c)
{
    struct timeout_body b = {0};
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb == NULL || !abx__api_read(c, timeout_fields, &b))
        return;
    if (!b.has_timeout || b.timeout_s < 0) {
        abx__api_fail(c, 400, "validation error: timeout: a number of seconds, 0 or more");
        return;
    }
    if (b.timeout_s != 0 && !check_timeout(c, b.timeout_s))
        return;
    if (set_end(c, sb, b.timeout_s, false))
        abx__api_answer(c, 204, (struct abx_str){0});
}

struct refresh_body {
    int64_t duration_s;
    bool has_duration;
};
static const struct abx_json_field refresh_fields[] = {
    {"duration", ABX_JSON_I64, offsetof(struct refresh_body, duration_s),
     .has_offset = offsetof(struct refresh_body, has_duration)},
    {0}};

static void sandbox_refresh(struct abx__call *c)
{
    struct refresh_body b = {0};
    struct abx__sandbox *sb = named_sandbox(c);
    if (sb == NULL || !abx__api_read(c, refresh_fields, &b))
        return;
    if (!b.has_duration)
        b.duration_s = REFRESH_DEFAULT_S;
    if (b.duration_s < 0 || b.duration_s > REFRESH_MAX_S) {
        abx__api_fail(c, 400, "validation error: duration: 0 to %d seconds", REFRESH_MAX_S);
        return;
    }
    if (set_end(c, sb, b.duration_s, true))
        abx__api_answer(c, 204, (struct abx_str){0});
}

#define NO(method, path, why)                                                                      \
    {                                                                                              \
        method, path, abx__api_unimplemented, .missing = why                                       \
    }
#define NO_PAUSE "pausing is not built into this engine yet: prolong the sandbox with setTimeout"
#define NO_FORK                                                                                    \
    "fork and snapshots are not built into this engine yet: create another sandbox and copy files"
#define NO_NETWORK                                                                                 \
    "sandboxes of this engine have their own loopback only: there is no egress to set"
#define NO_LOGS                                                                                    \
    "logs are not built into this engine yet: read a command's output with commands.connect"

const struct abx__route abx__sandbox_routes[] = {
    {"GET", "/abx/v1/sandboxes/{id}/server-tokens", server_tokens},
    {"POST", "/sandboxes", sandboxes_create},
    {"GET", "/sandboxes", abx__list_v1},
    {"GET", "/sandboxes/metrics", abx__metrics_get_many},
    {"GET", "/sandboxes/{id}", sandbox_info},
    {"GET", "/sandboxes/{id}/metrics", sandbox_metrics},
    {"DELETE", "/sandboxes/{id}", sandbox_kill},
    {"POST", "/sandboxes/{id}/connect", sandbox_connect},
    {"POST", "/sandboxes/{id}/resume", sandbox_resume},
    {"POST", "/sandboxes/{id}/timeout", sandbox_timeout},
    {"POST", "/sandboxes/{id}/refreshes", sandbox_refresh},
    {"POST", "/v2/sandboxes", sandboxes_create, true},
    {"GET", "/v2/sandboxes", abx__list_v2, true},
    {"GET", "/v2/sandboxes/{id}", sandbox_info, true},
    {"GET", "/v2/sandboxes/{id}/metrics", sandbox_metrics, true},
    {"DELETE", "/v2/sandboxes/{id}", sandbox_kill, true},
    {"POST", "/v2/sandboxes/{id}/connect", sandbox_connect, true},
    {"POST", "/v2/sandboxes/{id}/timeout", sandbox_timeout, true},
    {"POST", "/v2/sandboxes/{id}/refreshes", sandbox_refresh, true},
    NO("POST", "/sandboxes/{id}/pause", NO_PAUSE),
    NO("POST", "/v2/sandboxes/{id}/pause", NO_PAUSE),
    NO("POST", "/sandboxes/{id}/fork", NO_FORK),
    NO("POST", "/v2/sandboxes/{id}/fork", NO_FORK),
    NO("POST", "/sandboxes/{id}/snapshots", NO_FORK),
    NO("POST", "/v2/sandboxes/{id}/snapshots", NO_FORK),
    NO("PUT", "/sandboxes/{id}/network", NO_NETWORK),
    NO("PUT", "/v2/sandboxes/{id}/network", NO_NETWORK),
    NO("GET", "/sandboxes/{id}/logs", NO_LOGS),
    NO("GET", "/v2/sandboxes/{id}/logs", NO_LOGS),
    {0}};
