/* guest/caps/system_test.c: facts as the kernel prints them; listening ports and their holders. */
#include "guest/caps/system.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

TEST(meminfo_takes_the_named_line_only)
{
    struct abx_str text = ABX_STR("MemTotal:       24684 kB\nMemAvailable:    512 kB\nBad: x kB\n");
    assert_int_equal(abx_system_meminfo(text, "MemTotal"), 24684);
    assert_int_equal(abx_system_meminfo(text, "MemAvailable"), 512);
    assert_int_equal(abx_system_meminfo(text, "Mem"), 0);
    assert_int_equal(abx_system_meminfo(text, "Bad"), 0);
}

TEST(facts_are_those_of_this_machine)
{
    struct abx_system_facts f;
    assert_int_equal(abx_system_read(&f), 0);
    assert_string_equal(f.uts.sysname, "Linux");
    assert_true(f.cpus >= 1);
    assert_true(f.memory_total_kb > 0 && f.memory_available_kb <= f.memory_total_kb);
    assert_true(f.disk_total >= f.disk_used && f.disk_total >= f.disk_free);
}

TEST(ports_d60_addresses_of_both_families)
{
    static const char v4[] =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        "   0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 77 1\n"
        "   1: 0100007F:2329 0100007F:0001 01 00000000:00000000 00:00000000 00000000  0 0 78 1\n"
        "   2: garbage\n"
        "   3: 0100007F:FFFFF 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 7 1\n";
    static const char v6[] = "   0: 00000000000000000000000001000000:1F90 "
                             "00000000000000000000000000000000:0000 0A 00000000:00000000 "
                             "00:00000000 00000000 0 0 79 1\n";
    static struct abx_system_port out[ABX_PORTS_MAX];
    size_t count = 0;
    abx_system_ports_parse(abx_str(v4), false, out, &count);
    assert_int_equal(count, 1);
    assert_string_equal(out[0].address, "127.0.0.1");
    assert_int_equal(out[0].port, 9000);
    assert_int_equal(out[0].inode, 77);
    abx_system_ports_parse(abx_str(v6), true, out, &count);
    assert_int_equal(count, 2);
    assert_string_equal(out[1].address, "[::1]");
    assert_int_equal(out[1].port, 8080);
}

TEST(ports_d60_the_holder_is_named)
{
    static struct abx_system_port out[ABX_PORTS_MAX];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);
    size_t count = 0;
    bool is_found = false;
    ABX_AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(abx_system_ports(out, &count), 0);
    for (size_t i = 0; i < count; i++)
        is_found = is_found || (out[i].port == ntohs(a.sin_port) && out[i].pid == getpid());
    assert_true(is_found);
}
