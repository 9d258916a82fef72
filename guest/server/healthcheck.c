/* guest/server/healthcheck.c: one GET /health within one budget; no loop, no allocation.
 * server.md 3. */
#include "guest/server/options.h"
#include "guest/server/verbs.h"

#include "lib/base/address.h"
#include "lib/base/fd.h"
#include "lib/base/str.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { HEAD_MAX = 65536, REQUEST_MAX = 1024, TIMEOUT_MAX_S = 86400 };

struct probe {
    const char *host, *path;
    int64_t port;
    double timeout;
    int64_t deadline_ms;
};
static const struct abx__option options[] = {
    {"--host", ABX__OPTION_TEXT, offsetof(struct probe, host), "HOST", "address, or unix:PATH", 0},
    {"--port", ABX__OPTION_NUMBER, offsetof(struct probe, port), "PORT", "default 9000", 0},
    {"--timeout", ABX__OPTION_REAL, offsetof(struct probe, timeout), "SECONDS", "for all; 2", 0},
    {"--path", ABX__OPTION_TEXT, offsetof(struct probe, path), "PATH", "default /health", 0},
    {0}};

/* Waits until @fd is ready or the budget is used up. */
static bool wait_for(const struct probe *p, int fd, short events)
{
    struct pollfd w = {.fd = fd, .events = events};
    int64_t left = p->deadline_ms - abx_time_mono_ms();
    return left > 0 && poll(&w, 1, (int)left) == 1;
}

union address {
    struct sockaddr any;
    union abx_address ip;
    struct sockaddr_un un;
};

/* The length of the address, 0 when there is none of that name. */
static socklen_t address_of(const struct probe *p, union address *a)
{
    struct abx_str host = abx_str(p->host);
    *a = (union address){0};
    if (abx_str_starts(host, "unix:")) {
        a->un.sun_family = AF_UNIX;
        if (abx_str_to_c(abx_str_sub(host, 5, host.len), a->un.sun_path, sizeof(a->un.sun_path)) <
            0)
            return 0;
        return sizeof(a->un);
    }
    int r = abx_address_of_host(p->host, (uint16_t)p->port, &a->ip);
    return r < 0 ? 0 : abx_address_len(&a->ip);
}

static int dial(const struct probe *p)
{
    union address a;
    int failed = 0;
    socklen_t len = address_of(p, &a), size = sizeof(failed);
    if (len == 0)
        return -1;
    ABX_AUTO_FD fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, &a.any, len) < 0 &&
        (errno != EINPROGRESS || !wait_for(p, fd, POLLOUT) ||
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0 || failed != 0))
        return -1;
    return abx_fd_take(&fd);
}

static bool ask(const struct probe *p, int fd)
{
    char request[REQUEST_MAX];
    int n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", p->path);
    if (n < 0 || (size_t)n >= sizeof(request))
        return false;
    return wait_for(p, fd, POLLOUT) && send(fd, request, (size_t)n, MSG_NOSIGNAL) == n;
}

/* The status in "HTTP/1.1 200 OK", 0 when it is no such line. */
static int status_of(struct abx_str line)
{
    int status = 0;
    struct abx_str version;
    if (!abx_str_starts(line, "HTTP/") || !abx_str_split(&line, ' ', &version) || line.len < 3)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9')
            return 0;
        status = status * 10 + line.ptr[i] - '0';
    }
    return line.len > 3 && line.ptr[3] != ' ' && line.ptr[3] != '\r' ? 0 : status;
}

/* The final status as soon as its line is there; 0: not yet, -1: none will come. */
static int final_status(struct abx_str head)
{
    for (;;) {
        ptrdiff_t end = abx_str_chr(head, '\n');
        if (end < 0)
            return 0;
        int status = status_of(abx_str_sub(head, 0, (size_t)end));
        if (status == 0)
            return -1;
        if (status >= 200)
            return status;
        ptrdiff_t blank = abx_str_find(head, ABX_STR("\r\n\r\n"));
        if (blank < 0)
            return 0;
        head = abx_str_sub(head, (size_t)blank + 4, head.len);
    }
}

static int answer_of(const struct probe *p, int fd)
{
    static char head[HEAD_MAX];
    size_t n = 0;
    while (n < sizeof(head) && wait_for(p, fd, POLLIN)) {
        ssize_t got = read(fd, head + n, sizeof(head) - n);
        if (got <= 0)
            return -1;
        n += (size_t)got;
        int status = final_status(abx_str_n(head, n));
        if (status != 0)
            return status;
    }
    return -1;
}

const struct abx__option *abx__healthcheck_rows(void)
{
    return options;
}

int abx__healthcheck_main(int argc, char **argv)
{
    struct probe p = {
        .host = "127.0.0.1", .path = "/health", .port = ABX_PORT_SERVER, .timeout = 2.0};
    int rc = abx__options_read(options, argc, argv, &p);
    if (rc != ABX__OPTIONS_OK)
        return rc;
    if (p.port < 0 || p.port > UINT16_MAX || !(p.timeout > 0))
        return 1;
    double budget = p.timeout < TIMEOUT_MAX_S ? p.timeout : TIMEOUT_MAX_S;
    p.deadline_ms = abx_time_mono_ms() + (int64_t)ceil(budget * 1000);
    ABX_AUTO_FD fd = dial(&p);
    return fd >= 0 && ask(&p, fd) && answer_of(&p, fd) == 200 ? 0 : 1;
}
