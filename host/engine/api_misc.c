/* host/engine/api_misc.c: what the engine says of itself, and what it does not do yet (501).
 *
 * Loop thread. A row without a handler of its own names the reason and what to do instead. */
#include "host/engine/api_priv.h"

#include "lib/contract/contract.h"

#include "lib/base/banned.h"

void abx__write_isolation(struct abx_json_writer *w, const struct abx__engine *e)
{
    const struct abx_isolation *i = &e->isolation;
    abx_json_begin_object(w);
    abx_json_kv_c(w, "driver", i->driver);
    abx_json_kv_c(w, "ids", i->ids);
    abx_json_kv_c(w, "limits", i->limits);
    abx_json_kv_c(w, "disk", i->disk);
    abx_json_kv_c(w, "network", i->network);
    abx_json_kv_c(w, "filesystem", i->filesystem);
    abx_json_kv_bool(w, "rootful", i->rootful);
    abx_json_end_object(w);
}

static size_t count_running(const struct abx__engine *e)
{
    size_t it = 0, n = 0;
    struct abx_str id;
    void *value;
    while (abx_map_next(&e->sandboxes, &it, &id, &value)) {
        const struct abx__sandbox *sb = value;
        n += sb->state == ABX__RUNNING && !sb->is_hidden ? 1 : 0;
    }
    return n;
}

static const char *const templates[] = {"host"};

static void info(struct abx__call *c)
{
    struct abx__engine *e = c->engine;
    ABX_AUTO_BUF b = {.max = 8192};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "version", ABX_VERSION);
    abx_json_kv_c(&w, "envdVersion", ABX_ENVD_VERSION);
    abx_json_kv_c(&w, "url", e->url);
    abx_json_kv_c(&w, "domain", e->domain);
    abx_json_key(&w, ABX_STR("isolation"));
    abx__write_isolation(&w, e);
    abx_json_key(&w, ABX_STR("templates"));
    abx_json_begin_array(&w);
    for (size_t i = 0; !e->no_host_template && i < ABX_COUNTOF(templates); i++)
        abx_json_str(&w, abx_str(templates[i]));
    abx_json_end_array(&w);
    abx_json_key(&w, ABX_STR("limits"));
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "sandboxes", (int64_t)e->max_sandboxes);
    abx_json_kv_i64(&w, "timeoutSeconds", ABX_SANDBOX_TIMEOUT_MAX_S);
    abx_json_kv_i64(&w, "edgeConnections", ABX_EDGE_CONNS);
    abx_json_kv_i64(&w, "memoryMB", ABX_SANDBOX_MEMORY_MB);
    abx_json_kv_i64(&w, "cpuCount", ABX_SANDBOX_CPUS);
    abx_json_kv_i64(&w, "pids", ABX_SANDBOX_PIDS);
    abx_json_end_object(&w);
    abx_json_kv_i64(&w, "running", (int64_t)count_running(e));
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

static void on_collected(struct abx__wait *w, struct abx__sandbox *sb, const struct abx_error *err)
{
    struct abx__call *c = ABX_CONTAINER_OF(w, struct abx__call, wait);
    (void)sb;
    if (err != NULL)
        abx__api_fail_err(c, err);
    else
        abx__api_answer(c, 200, ABX_STR("{\"collected\":true}"));
}

static void collect(struct abx__call *c)
{
    struct abx_error err;
    c->wait.fn = on_collected;
    if (abx__engine_collect(c->engine, &c->wait, &err) < 0)
        abx__api_fail_err(c, &err);
}

#define NO(method, path, why)                                                                      \
    {                                                                                              \
        method, path, abx__api_unimplemented, .missing = why                                       \
    }
#define NO_VOLUMES                                                                                 \
    "volumes are not built into this engine yet: copy files with files.write or `abx cp`"
#define NO_SECRETS "secrets are not built into this engine yet: pass values by envVars of create"
#define NO_TEAMS   "this engine has one owner and one key: read it from `abx env`"
#define NO_SNAPSHOTS                                                                               \
    "snapshots are not built into this engine yet: copy what you need with files.read"

const struct abx__route abx__misc_routes[] = {{"GET", "/abx/v1/info", info},
                                              {"POST", "/abx/v1/gc", collect},
                                              NO("GET", "/snapshots", NO_SNAPSHOTS),
                                              NO("POST", "/volumes", NO_VOLUMES),
                                              NO("GET", "/volumes", NO_VOLUMES),
                                              NO("GET", "/volumes/{id}", NO_VOLUMES),
                                              NO("DELETE", "/volumes/{id}", NO_VOLUMES),
                                              NO("GET", "/volumecontent/{id}/path", NO_VOLUMES),
                                              NO("PATCH", "/volumecontent/{id}/path", NO_VOLUMES),
                                              NO("DELETE", "/volumecontent/{id}/path", NO_VOLUMES),
                                              NO("GET", "/volumecontent/{id}/dir", NO_VOLUMES),
                                              NO("POST", "/volumecontent/{id}/dir", NO_VOLUMES),
                                              NO("GET", "/volumecontent/{id}/file", NO_VOLUMES),
                                              NO("PUT", "/volumecontent/{id}/file", NO_VOLUMES),
                                              NO("GET", "/secrets", NO_SECRETS),
                                              NO("POST", "/secrets", NO_SECRETS),
                                              NO("GET", "/secrets/{id}", NO_SECRETS),
                                              NO("POST", "/secrets/{id}", NO_SECRETS),
                                              NO("DELETE", "/secrets/{id}", NO_SECRETS),
                                              NO("GET", "/teams", NO_TEAMS),
                                              NO("GET", "/teams/{id}/metrics", NO_TEAMS),
                                              NO("GET", "/api-keys", NO_TEAMS),
                                              NO("POST", "/api-keys", NO_TEAMS),
                                              NO("PATCH", "/api-keys/{id}", NO_TEAMS),
                                              NO("DELETE", "/api-keys/{id}", NO_TEAMS),
                                              NO("POST", "/access-tokens", NO_TEAMS),
                                              NO("DELETE", "/access-tokens/{id}", NO_TEAMS),
                                              {0}};
