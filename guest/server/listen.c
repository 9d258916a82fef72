/* guest/server/listen.c: the server's sockets. server.md 1, 2. */
#include "guest/server/listen.h"

#include "guest/server/environment.h"

#include "lib/base/address.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/banned.h"

static const struct {
    int64_t port;
    const char *owner;
} reserved[] = {{ABX_PORT_GATEWAY, "the gateway"},
                {ABX_PORT_ENVD, "envd"},
                {ABX_PORT_INTERPRETER, "the code interpreter"}};

static int check_port(int64_t port, struct abx_error *err)
{
    if (port < 0 || port > UINT16_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "port %lld: not in 0..65535",
                           (long long)port);
    for (size_t i = 0; i < ABX_COUNTOF(reserved); i++)
        if (reserved[i].port == port)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "port %lld belongs to %s",
                               (long long)port, reserved[i].owner);
    return 0;
}

int abx__bind_tcp(const char *host, int64_t port, struct abx_error *err)
{
    union abx_address a;
    if (check_port(port, err) < 0)
        return -1;
    if (abx_address_of_host(host, (uint16_t)port, &a) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "host '%s' is no address", host);
    int fd = abx_address_bind(&a, false, 0);
    return fd < 0 ? abx_err_sys(err, fd, "%s port %lld", host, (long long)port) : fd;
}

int abx__listen_unix(const char *path, struct abx_error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    if (abx_str_to_c(abx_str(path), a.sun_path, sizeof(a.sun_path)) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "--unix %s: at most %zu bytes", path,
                           sizeof(a.sun_path) - 1);
    ABX_AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return abx_err_sys(err, -errno, "socket");
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == ECONNREFUSED)
        unlink(path);
    mode_t mask = umask(0177);
    int rc = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
    umask(mask);
    if (rc == 0 && listen(fd, ABX__BACKLOG) < 0)
        rc = -errno;
    return rc < 0 ? abx_err_sys(err, rc, "--unix %s", path) : abx_fd_take(&fd);
}

/* Of NOTIFY_SOCKET; len 0: nobody asks. */
static struct {
    struct sockaddr_un address;
    socklen_t len;
} notify;

void abx__notify_take(void)
{
    static const char *const names[] = {"NOTIFY_SOCKET",  "LISTEN_FDS",   "LISTEN_PID",
                                        "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC"};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;
    if (len > 0 && len < sizeof(notify.address.sun_path)) {
        notify.address.sun_family = AF_UNIX;
        memcpy(notify.address.sun_path, path, len);
        if (path[0] == '@')
            notify.address.sun_path[0] = '\0';
        notify.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    }
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        abx__environment_drop(names[i]);
}

void abx__notify(const char *message)
{
    if (notify.len == 0)
        return;
    ABX_AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&notify.address,
               notify.len);
}
