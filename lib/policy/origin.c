/* lib/policy/origin.c: Host and Origin (origin.h). */
#include "lib/policy/origin.h"

#include "lib/base/assert.h"
#include "lib/policy/confine.h"
#include "lib/policy/url_guard.h"

#include <stdio.h>

#include "lib/base/banned.h"

bool abx_policy_guards_origin(const struct abx_policy *p)
{
    return abx_policy_confine(p) != ABX_CONFINE_OFF && !abx_policy_has_tokens(p);
}

/* Without its port and a last point. */
static struct abx_str name_of(struct abx_str host)
{
    ptrdiff_t bracket = abx_str_chr(host, ']');
    ptrdiff_t colon = abx_str_rchr(host, ':');
    if (host.len > 0 && host.ptr[0] == '[')
        return bracket > 0 ? abx_str_sub(host, 0, (size_t)bracket + 1) : (struct abx_str){0};
    if (colon >= 0)
        host = abx_str_sub(host, 0, (size_t)colon);
    if (host.len > 0 && host.ptr[host.len - 1] == '.')
        host.len--;
    return host;
}

/* Four numbers with points: nobody can make such a name lead elsewhere. */
static bool is_v4(struct abx_str name)
{
    struct abx_str part;
    unsigned parts = 0;
    while (abx_str_split(&name, '.', &part)) {
        unsigned value = 0;
        for (size_t i = 0; i < part.len; i++) {
            if (part.ptr[i] < '0' || part.ptr[i] > '9' || i == 3)
                return false;
            value = value * 10 + (unsigned)(part.ptr[i] - '0');
        }
        if (part.len == 0 || value > 255)
            return false;
        parts++;
    }
    return parts == 4;
}

static bool is_v6(struct abx_str name)
{
    if (name.len < 4 || name.ptr[0] != '[' || name.ptr[name.len - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < name.len; i++)
        if (strchr("0123456789abcdefABCDEF:.", name.ptr[i]) == NULL || name.ptr[i] == '\0')
            return false;
    return true;
}

static bool is_own_port_name(struct abx_str name, const uint16_t *ports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char prefix[16];
        snprintf(prefix, sizeof(prefix), "%u-", ports[i]);
        if (abx_str_starts(name, prefix))
            return true;
    }
    return false;
}

bool abx_policy_host_is_allowed(const struct abx_policy *p, struct abx_str host,
                                const uint16_t *ports, size_t port_count)
{
    struct abx_str name = name_of(host);
    const struct abx_str_list *hosts = &abx_policy_confinement(p)->hosts;
    for (size_t i = 0; i < hosts->count; i++)
        if (abx_str_eq_nocase(hosts->items[i], name) || abx_glob_match(hosts->items[i], name) ||
            abx_str_eq_nocase(hosts->items[i], host))
            return true;
    return hosts->count == 0 && (abx_str_is_nocase(name, "localhost") || is_v4(name) ||
                                 is_v6(name) || is_own_port_name(name, ports, port_count));
}

bool abx_policy_origin_is_allowed(const struct abx_policy *p, struct abx_str origin,
                                  struct abx_str host)
{
    const struct abx_str_list *listed = &abx_policy_confinement(p)->origins;
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < listed->count; i++)
        if (abx_str_eq(listed->items[i], origin))
            return true;
    for (size_t i = 0; i < ABX_COUNTOF(schemes); i++) {
        size_t len = strlen(schemes[i]);
        if (abx_str_starts(origin, schemes[i]) && host.len > 0 &&
            abx_str_eq_nocase(abx_str_sub(origin, len, origin.len), host))
            return true;
    }
    return false;
}

bool abx_policy_is_asked_content(struct abx_str content_type)
{
    static const char *const types[] = {"application/json", "application/octet-stream",
                                        "multipart/form-data"};
    ptrdiff_t end = abx_str_chr(content_type, ';');
    struct abx_str type =
        abx_str_trim(end < 0 ? content_type : abx_str_sub(content_type, 0, (size_t)end));
    for (size_t i = 0; i < ABX_COUNTOF(types); i++)
        if (abx_str_is_nocase(type, types[i]))
            return true;
    return false;
}
