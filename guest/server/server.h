/* guest/server/server.h: the program agent-sandbox-server. A role of the guest binary, or a program
 * of its own under that name. One loop thread; blocking file work is on its pool. Spec: server.md.
 */
#pragma once

/** Runs a sub-command (serve, healthcheck, check-config, version; serve without one). @argv[0] is
 * the program's name. The exit code of server.md 1; after SIGTERM the process dies by it instead.
 */
int abx_server_main(int argc, char **argv);
/** The program abx-chromium: holds itself to what Chromium may reach, and becomes it; run by the
 * browser's host alone. @argv are Chromium's. Returns never. */
int abx_chromium_main(int argc, char **argv);
/** The verb check-config: policy.md A18. @argv[0] is the verb. */
int abx_server_check_config(int argc, char **argv);
/** The verb version [--json]: the published version whose behaviour this is. */
int abx_server_version(int argc, char **argv);
