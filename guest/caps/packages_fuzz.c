/* guest/caps/packages_fuzz.c: metadata of packages, whatever it says: slices of the text, or
 * nothing. */
#include "guest/caps/packages.h"
#include "guest/caps/system.h"
#include "lib/base/assert.h"

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_slice(struct abx_str s, struct abx_str all)
{
    ABX_ASSERT(s.len == 0 || (s.ptr >= all.ptr && s.ptr + s.len <= all.ptr + all.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct abx_system_port ports[ABX_PORTS_MAX];
    size_t count = 0;
    if (size < 1 || size > 65536)
        return 0;
    struct abx_str all = {(const char *)data + 1, size - 1};
    struct abx_package p = abx_package_of_metadata(all);
    check_slice(p.name, all);
    check_slice(p.version, all);
    abx_system_ports_parse(all, data[0] & 1, ports, &count);
    for (size_t i = 0; i < count; i++)
        ABX_ASSERT(memchr(ports[i].address, '\0', sizeof(ports[i].address)) != NULL);
    (void)abx_system_meminfo(all, "MemTotal");
    return 0;
}
