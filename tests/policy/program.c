/* tests/policy/program.c: the verbs check-config and version alone, for the vectors. */
#include "guest/server/server.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/banned.h"

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "check-config") == 0)
        return abx_server_check_config(argc - 1, argv + 1);
    if (argc >= 2 && strcmp(argv[1], "version") == 0)
        return abx_server_version(argc - 1, argv + 1);
    fputs("usage: policy-check check-config|version ...\n", stderr);
    return 2;
}
