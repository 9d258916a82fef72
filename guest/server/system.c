/* guest/server/system.c: /system/info, /system/metrics, /ports, /packages. server-api.md 4.6.
 * Facts are gathered on the pool; the version of python3 is asked of it once. */
#include "guest/caps/system.h"
#include "guest/caps/packages.h"
#include "guest/server/exec.h"
#include "guest/server/helper.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { DOCUMENT_MAX = 16 << 20, VERSION_MS = 10000, VERSION_BYTES = 256 };
#define GIB 1073741824.0
#define MIB 1048576.0

static double rounded(double v, int digits)
{
    double scale = digits == 2 ? 100 : 10;
    return round(v * scale) / scale;
}

static void kv_f64(struct abx_json_writer *w, const char *key, double v)
{
    abx_json_key(w, abx_str(key));
    abx_json_f64(w, v);
}

static void kv_f64_or_null(struct abx_json_writer *w, const char *key, bool has, double v)
{
    abx_json_key(w, abx_str(key));
    if (has)
        abx_json_f64(w, v);
    else
        abx_json_null(w);
}

/* Figures of the machine are the published ones; those of the control group stand beside (D59). */
static void put_group(struct abx_json_writer *w, const struct abx_system_group *g)
{
    kv_f64_or_null(w, "cgroup_memory_limit_mb", g->has_memory_limit,
                   floor((double)g->memory_limit / MIB));
    kv_f64_or_null(w, "cgroup_memory_used_mb", g->has_memory_used,
                   floor((double)g->memory_used / MIB));
    kv_f64_or_null(w, "cgroup_cpu_limit", g->has_cpu_limit, rounded(g->cpu_limit, 2));
}

/* ---- /system/info ---- */

struct info {
    struct abx_system_facts facts;
    bool has_python; /* there is a python3 */
};

static void read_info(struct abx__job *j)
{
    struct info *i = j->data;
    int rc = abx_system_read(&i->facts);
    if (rc < 0)
        abx__job_fail_errno(j, -rc, ABX_STR("the facts of the system"));
    i->has_python = abx__exec_find(j->server, ABX_STR("python3"), &j->arena).ptr != NULL;
}

static void answer_info(struct abx__call *c, const struct abx_system_facts *f)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "os", f->uts.sysname);
    abx_json_kv_c(&w, "arch", f->uts.machine);
    abx_json_kv_i64(&w, "cpu_count", f->cpus);
    abx_json_kv_i64(&w, "memory_total_mb", (int64_t)(f->memory_total_kb / 1024));
    abx_json_kv_i64(&w, "memory_available_mb", (int64_t)(f->memory_available_kb / 1024));
    kv_f64(&w, "disk_total_gb", rounded((double)f->disk_total / GIB, 2));
    kv_f64(&w, "disk_free_gb", rounded((double)f->disk_free / GIB, 2));
    abx_json_kv_c(&w, "python_version", c->server->python_version);
    abx_json_kv_c(&w, "hostname", f->uts.nodename);
    put_group(&w, &f->group);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

/* "Python 3.11.2" */
static void on_version(struct abx__call *c, void *arg, const struct abx__helper_result *r)
{
    struct abx_str text = r->out, line;
    if (r->exit_code == 0 && abx_str_starts(text, "Python ") && abx_str_split(&text, '\n', &line))
        abx_str_to_c(abx_str_sub(line, 7, line.len), c->server->python_version,
                     sizeof(c->server->python_version));
    answer_info(c, arg);
}

/* -V ends before the interpreter looks at any file; -I all the same. */
static void ask_version(struct abx__call *c, struct abx_system_facts *facts)
{
    static char python[] = "python3", isolated[] = "-I", version[] = "-V";
    static char *const argv[] = {python, isolated, version, NULL};
    struct abx__helper_spec spec = {
        .program = python, .argv = argv, .timeout_ms = VERSION_MS, .max = VERSION_BYTES};
    abx__helper_run(c, &spec, on_version, facts);
}

static void info_read(struct abx__job *j)
{
    const struct info *i = j->data;
    struct abx__call *c = j->call;
    if (c->server->python_version[0] || !i->has_python) {
        answer_info(c, &i->facts);
        return;
    }
    struct abx_system_facts *copy = abx_arena_alloc(c->req->arena, sizeof(*copy));
    if (copy == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    *copy = i->facts;
    ask_version(c, copy);
}

static void info_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, read_info, DOCUMENT_MAX);
    if (j == NULL)
        return;
    abx__job_data(j, sizeof(struct info));
    j->done = info_read;
    abx__job_start(j);
}

/* ---- /system/metrics ---- */

static void put_metrics(struct abx__job *j)
{
    struct abx_system_facts f;
    struct abx_json_writer w;
    int rc = abx_system_read(&f);
    if (rc < 0) {
        abx__job_fail_errno(j, -rc, ABX_STR("the figures of the system"));
        return;
    }
    double total_kb = (double)f.memory_total_kb, used_kb = total_kb - (double)f.memory_available_kb,
           disk = f.disk_total ? (double)f.disk_used * 100 / (double)f.disk_total : 0;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    kv_f64(&w, "cpu_load_1m", rounded(f.load[0], 2));
    kv_f64(&w, "cpu_load_5m", rounded(f.load[1], 2));
    kv_f64(&w, "cpu_load_15m", rounded(f.load[2], 2));
    abx_json_kv_i64(&w, "memory_used_mb",
                    (int64_t)(f.memory_total_kb / 1024) - (int64_t)(f.memory_available_kb / 1024));
    abx_json_kv_i64(&w, "memory_total_mb", (int64_t)(f.memory_total_kb / 1024));
    kv_f64(&w, "memory_percent", rounded(used_kb * 100 / total_kb, 1));
    kv_f64(&w, "disk_used_gb", rounded((double)f.disk_used / GIB, 2));
    kv_f64(&w, "disk_total_gb", rounded((double)f.disk_total / GIB, 2));
    kv_f64(&w, "disk_percent", rounded(disk, 1));
    kv_f64(&w, "uptime_seconds",
           rounded((double)(abx_time_mono_ms() - j->server->started_ms) / 1000, 1));
    put_group(&w, &f.group);
    abx_json_end_object(&w);
}

static void start_plain(struct abx__call *c, void (*run)(struct abx__job *j))
{
    struct abx__job *j = abx__job_new(c, run, DOCUMENT_MAX);
    if (j)
        abx__job_start(j);
}

static void metrics_get(struct abx__call *c)
{
    start_plain(c, put_metrics);
}

/* ---- /ports ---- */

static void put_ports(struct abx__job *j)
{
    struct abx_json_writer w;
    size_t count = 0;
    struct abx_system_port *ports = abx_arena_array(&j->arena, ABX_PORTS_MAX, sizeof(*ports));
    if (ports == NULL) {
        abx__job_fail(j, 500, "MemoryError", "out of memory");
        return;
    }
    int rc = abx_system_ports(ports, &count);
    if (rc < 0) {
        abx__job_fail_errno(j, -rc, ABX_STR("/proc/net/tcp"));
        return;
    }
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("listening"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        abx_json_begin_object(&w);
        abx_json_kv_i64(&w, "port", ports[i].port);
        abx_json_kv_c(&w, "protocol", ports[i].is_v6 ? "tcp6" : "tcp");
        abx_json_kv_c(&w, "address", ports[i].address);
        abx_json_key(&w, ABX_STR("pid"));
        if (ports[i].pid)
            abx_json_i64(&w, ports[i].pid);
        else
            abx_json_null(&w);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
}

static void ports_get(struct abx__call *c)
{
    start_plain(c, put_ports);
}

/* ---- /packages ---- */

typedef int list_packages_fn(const struct abx_packages_where *w, struct abx_arena *a,
                             struct abx_packages *ret);
static const struct manager {
    const char *name;
    list_packages_fn *list;
} managers[] = {{"pip", abx_packages_python}, {"npm", abx_packages_npm}};

static const struct manager *find_manager(struct abx_str name)
{
    if (name.ptr == NULL)
        return &managers[0];
    for (size_t i = 0; i < ABX_COUNTOF(managers); i++)
        if (abx_str_is(name, managers[i].name))
            return &managers[i];
    return NULL;
}

/* HOME as the caller's children would have it. */
static const char *home_of(struct abx__job *j)
{
    char **vars = abx__environment_of(&j->who, NULL, 0, &j->arena);
    for (; vars && *vars; vars++)
        if (abx_str_starts(abx_str(*vars), "HOME="))
            return *vars + strlen("HOME=");
    return NULL;
}

static void put_packages(struct abx__job *j)
{
    const struct manager *m = find_manager(abx__job_query(j, "manager"));
    struct abx_packages found;
    struct abx_json_writer w;
    struct abx_packages_where where = {
        .interpreter = abx__exec_find(j->server, ABX_STR("python3"), &j->arena).ptr,
        .home = home_of(j),
        .folder = j->server->cwd};
    if (m->list(&where, &j->arena, &found) < 0) {
        abx__job_fail(j, 500, "MemoryError", "out of memory");
        return;
    }
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "manager", m->name);
    abx_json_key(&w, ABX_STR("packages"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < found.count; i++) {
        abx_json_begin_object(&w);
        abx_json_kv_str(&w, "name", found.items[i].name);
        abx_json_kv_str(&w, "version", found.items[i].version);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
}

static void packages_get(struct abx__call *c)
{
    if (find_manager(abx__call_query(c, "manager")) == NULL)
        abx__call_fail(c, 400, "ValueError", "'manager' must be pip or npm");
    else
        start_plain(c, put_packages);
}

const struct abx__route abx__system_routes[] = {{"system_info", info_get},
                                                {"system_metrics", metrics_get},
                                                {"ports", ports_get},
                                                {"packages", packages_get},
                                                {0}};
