/* guest/server/program.c: the program's verbs (server.md 1). */
#include "guest/server/server.h"
#include "guest/server/verbs.h"

#include "lib/base/assert.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/banned.h"

enum { EXIT_USAGE = 2 };

static const struct abx__verb verbs[] = {
    {"serve", abx__serve_main, "serve requests (the default)", abx__serve_rows, NULL},
    {"healthcheck", abx__healthcheck_main, "exit 0 when a server is healthy", abx__healthcheck_rows,
     NULL},
    {"check-config", abx_server_check_config, "validate and explain a policy", NULL,
     abx__check_config_usage},
    {"routes", abx__routes_main, "list every endpoint: scopes, effect, limits", abx__routes_rows,
     NULL},
    {"token", abx__token_main, "print a new token and its hash", NULL, NULL},
    {"version", abx_server_version, "print the version whose behaviour this is; --json: ours too",
     NULL, NULL},
};

const struct abx__verb *abx__verbs(size_t *ret_count)
{
    *ret_count = ABX_COUNTOF(verbs);
    return verbs;
}

static int usage(FILE *to)
{
    fputs("usage: agent-sandbox-server VERB [OPTION...]; VERB -h lists its options\n", to);
    for (size_t i = 0; i < ABX_COUNTOF(verbs); i++)
        fprintf(to, "  %-14s%s\n", verbs[i].name, verbs[i].help);
    return to == stdout ? 0 : EXIT_USAGE;
}

int abx_server_main(int argc, char **argv)
{
    static char serve[] = "serve";
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
        return usage(stdout);
    if (argc < 2 || argv[1][0] == '-') { /* flags without a verb are serve's */
        argv[0] = serve;
        return abx__serve_main(argc, argv);
    }
    for (size_t i = 0; i < ABX_COUNTOF(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "agent-sandbox-server: there is no verb '%s'\n", argv[1]);
    return usage(stderr);
}
