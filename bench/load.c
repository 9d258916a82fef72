/* bench/load.c: sends one request again and again over kept-alive connections and times each
 * answer. Usage: load ADDRESS PORT REQUEST_FILE N C STATUS MARKER. An answer counts when its status
 * is STATUS and MARKER stands in its body. Prints the microseconds of each, then "rate PER_SECOND";
 * bodies go to descriptor 3 if it is open (one line each). */
#include "lib/base/parse.h"
#include "lib/wire/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { BODY_MAX = 1 << 20, AT_ONCE_MAX = 256, SECONDS_MAX = 30 };

static struct {
    struct sockaddr_in to;
    struct abx_buf request;
    struct abx_str marker;
    double *samples;
    uint32_t count, status;
    _Atomic uint32_t next;
    _Atomic int failed;
    FILE *bodies;
} job;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int open_connection(void)
{
    const int on = 1;
    const struct timeval limit = {.tv_sec = SECONDS_MAX};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&job.to, sizeof(job.to)) < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

/* Reads one answer; its body is left in @body. 0, or -1 when it is cut, refused or malformed. */
static int read_answer(int fd, struct abx_http_parser *p, struct abx_buf *body)
{
    char chunk[65536];
    abx_buf_clear(body);
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n <= 0)
            return -1;
        struct abx_str part = {0}, in = abx_str_n(chunk, (size_t)n);
        enum abx_http_event e;
        while ((e = abx_http_parse(p, &in, &part, NULL)) != ABX_HTTP_NEED_MORE) {
            if (e == ABX_HTTP_BODY)
                abx_buf_put_str(body, part);
            else if (e != ABX_HTTP_HEAD)
                return e == ABX_HTTP_END ? 0 : -1;
        }
    }
}

static int exchange(int fd, struct abx_http_parser *p, struct abx_buf *body)
{
    abx_http_parser_reset(p, false);
    if (write(fd, job.request.ptr, job.request.len) != (ssize_t)job.request.len ||
        read_answer(fd, p, body) < 0) {
        fprintf(stderr, "load: no complete answer\n");
        return -1;
    }
    if (p->head.status != (int)job.status || abx_str_find(abx_buf_str(body), job.marker) < 0) {
        fprintf(stderr, "load: answer %d: %.*s\n", p->head.status, (int)body->len,
                body->ptr ? body->ptr : "");
        return -1;
    }
    return 0;
}

static void *run(void *unused)
{
    (void)unused;
    struct abx_http_parser p;
    ABX_AUTO_BUF body;
    abx_http_parser_init(&p, true);
    abx_buf_init(&body, BODY_MAX);
    int fd = open_connection();
    uint32_t i;
    while (fd >= 0 && !job.failed && (i = job.next++) < job.count) {
        double began = now_us();
        if (exchange(fd, &p, &body) < 0)
            job.failed = 1;
        job.samples[i] = now_us() - began;
        if (job.bodies && body.len)
            fprintf(job.bodies, "%.*s\n", (int)body.len, body.ptr);
    }
    if (fd < 0 || job.failed)
        job.failed = 1;
    if (fd >= 0)
        close(fd);
    abx_http_parser_done(&p);
    return NULL;
}

static int read_request(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return -1;
    abx_buf_init(&job.request, 1 << 20);
    char *to = abx_buf_room(&job.request, 1 << 16);
    size_t n = to ? fread(to, 1, 1 << 16, f) : 0;
    abx_buf_wrote(&job.request, n);
    fclose(f);
    return n ? 0 : -1;
}

static int read_arguments(char **argv, uint32_t *ret_at_once)
{
    uint32_t port;
    job.to.sin_family = AF_INET;
    if (inet_pton(AF_INET, argv[1], &job.to.sin_addr) != 1 ||
        abx_parse_u32(abx_str(argv[2]), &port) < 0 || port > UINT16_MAX ||
        read_request(argv[3]) < 0 || abx_parse_u32(abx_str(argv[4]), &job.count) < 0 ||
        abx_parse_u32(abx_str(argv[5]), ret_at_once) < 0 || *ret_at_once == 0 ||
        *ret_at_once > AT_ONCE_MAX || abx_parse_u32(abx_str(argv[6]), &job.status) < 0)
        return -1;
    job.to.sin_port = htons((uint16_t)port);
    job.marker = abx_str(argv[7]);
    return job.count && job.count <= 10000000 ? 0 : -1;
}

int main(int argc, char **argv)
{
    uint32_t at_once;
    pthread_t threads[AT_ONCE_MAX];
    if (argc != 8 || read_arguments(argv, &at_once) < 0) {
        fprintf(stderr, "usage: load ADDRESS PORT REQUEST_FILE N C STATUS MARKER\n");
        return 2;
    }
    job.bodies = fdopen(3, "w");
    job.samples = calloc(job.count, sizeof(*job.samples));
    if (job.samples == NULL)
        return 1;
    double began = now_us();
    for (uint32_t i = 0; i < at_once; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            return 1;
    for (uint32_t i = 0; i < at_once; i++)
        pthread_join(threads[i], NULL);
    double took = now_us() - began;
    for (uint32_t i = 0; i < job.count; i++)
        printf("%.1f\n", job.samples[i]);
    printf("rate %.1f\n", job.count / took * 1e6);
    if (job.bodies)
        fclose(job.bodies);
    free(job.samples);
    abx_buf_done(&job.request);
    return job.failed;
}
