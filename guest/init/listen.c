/* guest/init/listen.c: the gateway's TCP socket, made by PID 1 so that it outlives the gateway. */
#include "guest/init/init.h"

#include "lib/base/address.h"
#include "lib/base/parse.h"
#include "lib/base/str.h"

#include <errno.h>

#include "lib/base/banned.h"

enum { BACKLOG = 1024, HOST_MAX = 64 };

/* "1.2.3.4:5000", "[::]:5000" or ":5000". */
static int parse_address(const char *text, union abx_address *ret)
{
    struct abx_str all = abx_str(text);
    ptrdiff_t colon = abx_str_rchr(all, ':');
    uint32_t port;
    char host[HOST_MAX] = "0.0.0.0";
    if (colon < 0 || abx_parse_u32(abx_str_sub(all, (size_t)colon + 1, all.len), &port) < 0 ||
        port > UINT16_MAX)
        return -EINVAL;
    struct abx_str name = abx_str_sub(all, 0, (size_t)colon);
    bool is_v6 = name.len >= 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']';
    if (is_v6)
        name = abx_str_sub(name, 1, name.len - 2);
    if (name.len > 0 && abx_str_to_c(name, host, sizeof(host)) < 0)
        return -EINVAL;
    int r = abx_address_parse(host, (uint16_t)port, ret);
    return r == 0 && is_v6 != (ret->any.sa_family == AF_INET6) ? -EINVAL : r;
}

int abx_init_listen(const char *address)
{
    union abx_address a;
    int r = parse_address(address, &a);
    return r < 0 ? r : abx_address_bind(&a, false, BACKLOG);
}
