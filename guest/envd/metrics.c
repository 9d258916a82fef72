/* guest/envd/metrics.c: GET /metrics: what the sandbox uses (envd.md 2.1). Sampled on the pool.
 *
 * /proc/stat and /proc/meminfo tell of the whole machine, so use is added up over the processes
 * that this sandbox sees: their time and that of the children they have waited for (PID 1 has
 * waited for every orphan), and their private memory. Totals and the page cache are the machine's.
 */
#include "guest/envd/envd_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    STAT_BYTES = 1024,    /* of /proc/PID/stat; comm is at most 16 bytes */
    STAT_UTIME = 11,      /* fields after the comm's ")", counted from 0: utime, stime, */
    STAT_CSTIME = 14,     /* cutime, cstime */
    MEMINFO_BYTES = 8192, /* more than it ever has */
    PERCENT_MAX = 100,
};

struct sample {
    uint64_t cpu_ticks, mem_used, mem_total, mem_cache, disk_used, disk_total;
    int64_t at_ms;
};

struct call {
    struct abx_work work;
    struct abx__envd *envd;
    struct abx_http_req *req; /* NULL: the client has gone */
    struct sample sample;
    int rc;
};

static struct abx_str read_small(int dir_fd, const char *name, char *out, size_t cap)
{
    ABX_AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_fd_read_all(fd, out, cap);
    return abx_str_n(out, n > 0 ? (size_t)n : 0);
}

/* utime + stime + cutime + cstime. */
static uint64_t ticks_in(struct abx_str stat)
{
    ptrdiff_t end = abx_str_rchr(stat, ')');
    struct abx_str rest = abx_str_sub(stat, end < 0 ? stat.len : (size_t)end + 2, stat.len), field;
    uint64_t sum = 0, value;
    for (int i = 0; i <= STAT_CSTIME && abx_str_split(&rest, ' ', &field); i++)
        if (i >= STAT_UTIME && abx_parse_u64(field, &value) == 0)
            sum += value;
    return sum;
}

/* Resident pages that are not shared with a file or another process. */
static uint64_t private_pages(struct abx_str statm)
{
    struct abx_str field;
    uint64_t pages[3] = {0};
    for (int i = 0; i < 3 && abx_str_split(&statm, ' ', &field); i++)
        if (abx_parse_u64(field, &pages[i]) < 0)
            return 0;
    return pages[1] > pages[2] ? pages[1] - pages[2] : 0;
}

static int add_processes(struct sample *s)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return -errno;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char name[300], text[STAT_BYTES];
        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(name, sizeof(name), "%s/stat", e->d_name);
        s->cpu_ticks += ticks_in(read_small(dirfd(dir), name, text, sizeof(text)));
        snprintf(name, sizeof(name), "%s/statm", e->d_name);
        s->mem_used += page * private_pages(read_small(dirfd(dir), name, text, sizeof(text)));
    }
    closedir(dir);
    return 0;
}

/* "Name:   123 kB" in bytes; 0 when absent. */
static uint64_t meminfo(struct abx_str text, const char *name)
{
    struct abx_str line;
    uint64_t kib;
    while (abx_str_split(&text, '\n', &line)) {
        ptrdiff_t colon = abx_str_chr(line, ':');
        if (colon < 0 || !abx_str_is(abx_str_sub(line, 0, (size_t)colon), name))
            continue;
        struct abx_str value = abx_str_trim(abx_str_sub(line, (size_t)colon + 1, line.len));
        ptrdiff_t unit = abx_str_chr(value, ' ');
        value = abx_str_sub(value, 0, unit < 0 ? value.len : (size_t)unit);
        return abx_parse_u64(value, &kib) == 0 ? kib * 1024 : 0;
    }
    return 0;
}

static int take_sample(struct sample *s)
{
    char text[MEMINFO_BYTES];
    struct statvfs fs;
    *s = (struct sample){.at_ms = abx_time_mono_ms()};
    struct abx_str info = read_small(AT_FDCWD, "/proc/meminfo", text, sizeof(text));
    s->mem_total = meminfo(info, "MemTotal");
    s->mem_cache = meminfo(info, "Cached");
    if (s->mem_total == 0)
        return -EIO;
    if (statvfs("/", &fs) < 0)
        return -errno;
    s->disk_total = (uint64_t)fs.f_blocks * fs.f_frsize;
    s->disk_used = s->disk_total - (uint64_t)fs.f_bavail * fs.f_frsize;
    return add_processes(s);
}

/* Of all CPUs together, since the last sample; two decimals. */
static double cpu_percent(struct abx__envd *e, const struct sample *s, long cpus)
{
    int64_t ms = s->at_ms - e->metrics_at_ms;
    double percent = 0;
    if (e->metrics_at_ms && ms > 0 && s->cpu_ticks > e->metrics_ticks) {
        double seconds = (double)(s->cpu_ticks - e->metrics_ticks) / (double)sysconf(_SC_CLK_TCK);
        percent = 100000.0 * seconds / ((double)ms * (double)cpus);
    }
    e->metrics_at_ms = s->at_ms;
    e->metrics_ticks = s->cpu_ticks;
    percent = percent > PERCENT_MAX ? PERCENT_MAX : percent;
    return (double)(int64_t)(percent * 100 + 0.5) / 100;
}

static void put(struct call *c, struct abx_buf *out)
{
    const struct sample *s = &c->sample;
    struct abx_json_writer w;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    cpus = cpus > 0 ? cpus : 1;
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"ts", (uint64_t)(abx_time_wall_ns() / 1000000000)},
        {"cpu_count", (uint64_t)cpus},
        {"mem_total_mib", s->mem_total >> 20},
        {"mem_used_mib", s->mem_used >> 20},
        {"mem_total", s->mem_total},
        {"mem_used", s->mem_used},
        {"mem_cache", s->mem_cache},
        {"disk_used", s->disk_used},
        {"disk_total", s->disk_total},
    };
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        abx_json_key(&w, abx_str(rows[i].name));
        abx_json_u64(&w, rows[i].value);
    }
    abx_json_key(&w, ABX_STR("cpu_used_pct"));
    abx_json_f64(&w, cpu_percent(c->envd, s, cpus));
    abx_json_end_object(&w);
}

static void answer(struct call *c)
{
    ABX_AUTO_BUF body;
    struct abx__headers h;
    abx_buf_init(&body, 4096);
    if (c->rc == 0)
        put(c, &body);
    bool is_good = c->rc == 0 && !abx_buf_failed(&body);
    abx__headers_begin(&h, c->req);
    abx__headers_add(&h, "Cache-Control", ABX_STR("no-store"));
    if (is_good)
        abx__headers_add(&h, "Content-Type", ABX_STR("application/json"));
    c->req->on_close = NULL;
    abx_http_answer(c->req, is_good ? 200 : 500, h.rows,
                    is_good ? abx_buf_str(&body) : ABX_STR(""));
}

static void on_run(struct abx_work *w)
{
    struct call *c = w->owner;
    c->rc = take_sample(&c->sample);
}

static void on_done(struct abx_work *w)
{
    struct call *c = w->owner;
    if (c->req)
        answer(c);
    free(c);
}

static void on_close(struct abx_http_req *req, bool aborted)
{
    struct call *c = req->data;
    (void)aborted;
    c->req = NULL;
}

void abx__metrics_get(struct abx_http_req *req)
{
    struct abx_error err = {0};
    struct call *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        abx__answer_error(req, 500, "out of memory");
        return;
    }
    c->envd = abx__envd_of(req);
    c->req = req;
    req->data = c;
    req->on_close = on_close;
    if (abx_work_start(&c->work, &c->envd->loop, on_run, on_done, c, &err) == 0)
        return;
    req->on_close = NULL;
    free(c);
    abx__answer_error(req, 500, "%s", err.msg);
}
