/* guest/server/watch_over.c: what operators read: GET /metrics (Prometheus text) and GET /audit.
 * server.md 5. Counters live on the loop; the machine's figures are gathered on the pool. */
#include "guest/caps/system.h"
#include "guest/server/server_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DOCUMENT_MAX = 8 << 20, CLASSES = 6 /* cut, 1xx to 5xx */ };

static const int64_t bucket_ms[] = {1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 60000};

struct abx__counters {
    size_t endpoint_count; /* published, then ours, then one for routes of user code */
    uint64_t (*of_endpoint)[CLASSES];
    uint64_t buckets[ABX_COUNTOF(bucket_ms)]; /* calls that took at most so long */
    uint64_t calls, sum_ms;
};

/* ---- counting ---- */

struct abx__counters *abx__counters_new(void)
{
    size_t published, ours;
    struct abx__counters *k = calloc(1, sizeof(*k));
    abx_endpoints(&published);
    abx_endpoint_extensions(&ours);
    if (k == NULL)
        return NULL;
    k->endpoint_count = published + ours + 1;
    k->of_endpoint = calloc(k->endpoint_count, sizeof(*k->of_endpoint));
    if (k->of_endpoint == NULL) {
        free(k);
        return NULL;
    }
    return k;
}

void abx__counters_free(struct abx__counters *k)
{
    if (k)
        free(k->of_endpoint);
    free(k);
}

static const struct abx_endpoint *endpoint_at(size_t i)
{
    size_t published, ours;
    const struct abx_endpoint *all = abx_endpoints(&published),
                              *more = abx_endpoint_extensions(&ours);
    if (i < published)
        return &all[i];
    return i - published < ours ? &more[i - published] : NULL;
}

/* Rules stand in the order of the table; what user code registered comes after it. */
static size_t index_of(const struct abx__counters *k, const struct abx__call *c)
{
    size_t last = k->endpoint_count - 1;
    return c->custom == NULL && c->rule->index < last ? c->rule->index : last;
}

void abx__counters_add(struct abx__counters *k, const struct abx__call *c)
{
    int64_t ms = abx_time_mono_ms() - c->began_ms;
    int class = c->status / 100;
    k->of_endpoint[index_of(k, c)][class >= 1 && class < CLASSES ? class : 0]++;
    k->calls++;
    k->sum_ms += ms > 0 ? (uint64_t)ms : 0;
    for (size_t i = 0; i < ABX_COUNTOF(bucket_ms); i++)
        k->buckets[i] += ms <= bucket_ms[i];
}

/* ---- GET /metrics ---- */

static void put_head(struct abx_buf *out, const char *name, const char *type, const char *help)
{
    abx_buf_putf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_one(struct abx_buf *out, const char *name, const char *type, const char *help,
                    double value)
{
    put_head(out, name, type, help);
    abx_buf_putf(out, "%s %.17g\n", name, value);
}

static void put_calls(struct abx_buf *out, const struct abx__counters *k)
{
    static const char *const classes[CLASSES] = {"cut", "1xx", "2xx", "3xx", "4xx", "5xx"};
    static const char name[] = "abx_server_requests_total";
    put_head(out, name, "counter", "Requests that found a route, by endpoint and status.");
    for (size_t i = 0; i < k->endpoint_count; i++) {
        const struct abx_endpoint *e = endpoint_at(i);
        for (int class = 0; class < CLASSES; class ++)
            if (k->of_endpoint[i][class])
                abx_buf_putf(out, "%s{endpoint=\"%s\",status=\"%s\"} %llu\n", name,
                             e ? e->id : "custom", classes[class],
                             (unsigned long long)k->of_endpoint[i][class]);
    }
}

static void put_durations(struct abx_buf *out, const struct abx__counters *k)
{
    static const char name[] = "abx_server_request_duration_seconds";
    put_head(out, name, "histogram", "From the head of a request to the end of its answer.");
    for (size_t i = 0; i < ABX_COUNTOF(bucket_ms); i++)
        abx_buf_putf(out, "%s_bucket{le=\"%g\"} %llu\n", name, (double)bucket_ms[i] / 1000,
                     (unsigned long long)k->buckets[i]);
    abx_buf_putf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.3f\n%s_count %llu\n", name,
                 (unsigned long long)k->calls, name, (double)k->sum_ms / 1000, name,
                 (unsigned long long)k->calls);
}

static size_t count_list(const struct abx_list *head)
{
    size_t n = 0;
    for (const struct abx_list *node = head->next; node != head; node = node->next)
        n++;
    return n;
}

static void put_server(struct abx_buf *out, const struct abx__server *s)
{
    put_head(out, "abx_server_info", "gauge", "Constant 1, labelled by version.");
    abx_buf_putf(out, "abx_server_info{version=\"%s\",implementation=\"%s\",revision=\"%s\"} 1\n",
                 ABX_SERVER_COMPAT, ABX_VERSION, abx_policy_revision(s->policy));
    put_one(out, "abx_server_uptime_seconds", "gauge", "Since the start.",
            (double)(abx_time_mono_ms() - s->started_ms) / 1000);
    put_one(out, "abx_server_requests_in_flight", "gauge", "Requests that are not answered yet.",
            (double)count_list(&s->calls));
    put_one(out, "abx_server_connections", "gauge", "Open connections.",
            (double)abx_http_server_conns(s->http));
    put_one(out, "abx_server_body_bytes", "gauge", "Bytes of request bodies that are held.",
            (double)s->body_bytes);
    put_one(out, "abx_server_helpers", "gauge", "Programs that handlers wait for.",
            (double)count_list(&s->helpers));
    put_one(out, "abx_server_audit_lost_total", "counter", "Audit lines that nobody took.",
            (double)s->audit_lost);
}

/* Resident memory of this process, in pages. */
static double resident_pages(void)
{
    char text[128];
    struct abx_str field, rest;
    uint64_t pages = 0;
    ABX_AUTO_FD fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_fd_read_all(fd, text, sizeof(text));
    rest = abx_str_n(text, n > 0 ? (size_t)n : 0);
    for (int i = 0; i < 2 && abx_str_split(&rest, ' ', &field); i++)
        if (i == 1 && abx_parse_u64(field, &pages) < 0)
            pages = 0;
    return (double)pages;
}

static void put_machine(struct abx__job *j)
{
    struct abx_system_facts f;
    struct abx_buf *out = &j->out;
    put_one(out, "process_resident_memory_bytes", "gauge", "Memory of the server.",
            resident_pages() * (double)sysconf(_SC_PAGESIZE));
    if (abx_system_read(&f) < 0)
        return; /* the server's own figures are told all the same */
    put_one(out, "abx_memory_total_bytes", "gauge", "Memory of the machine.",
            (double)f.memory_total_kb * 1024);
    put_one(out, "abx_memory_available_bytes", "gauge", "Memory that could be had.",
            (double)f.memory_available_kb * 1024);
    put_one(out, "abx_disk_total_bytes", "gauge", "Size of the file system of /.",
            (double)f.disk_total);
    put_one(out, "abx_disk_free_bytes", "gauge", "What is free there.", (double)f.disk_free);
    put_one(out, "abx_load1", "gauge", "Load of the last minute.", f.load[0]);
    if (f.group.has_memory_used)
        put_one(out, "abx_cgroup_memory_used_bytes", "gauge", "Memory of the control group.",
                (double)f.group.memory_used);
    if (f.group.has_memory_limit)
        put_one(out, "abx_cgroup_memory_limit_bytes", "gauge", "Its limit.",
                (double)f.group.memory_limit);
}

static void answer_metrics(struct abx__job *j)
{
    struct abx__call *c = j->call;
    if (abx_buf_failed(&j->out))
        abx__call_fail(c, 500, "MemoryError", "the answer does not fit into memory");
    else
        abx__call_answer_media(c, "text/plain; version=0.0.4; charset=utf-8", abx_buf_str(&j->out));
}

static void metrics_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, put_machine, DOCUMENT_MAX);
    if (j == NULL)
        return;
    put_server(&j->out, c->server);
    put_calls(&j->out, c->server->counters);
    put_durations(&j->out, c->server->counters);
    j->done = answer_metrics;
    abx__job_start(j);
}

/* ---- GET /audit ---- */

static void audit_get(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    uint64_t since = 0;
    struct abx_str text = abx__call_query(c, "since");
    if (text.ptr && abx_parse_u64(text, &since) < 0) {
        abx__call_fail(c, 400, "ValueError", "'since' must be the number of a line");
        return;
    }
    abx_buf_init(&body, DOCUMENT_MAX);
    abx__audit_log_write(c->server->audit_log, &c->who, since, &body);
    abx__call_answer(c, &body);
}

const struct abx__route abx__watch_over_routes[] = {
    {"metrics", metrics_get}, {"audit_read", audit_get}, {0}};
