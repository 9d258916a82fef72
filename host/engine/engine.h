/* host/engine/engine.h: the local engine (abxd): one listener for the API and for sandbox traffic.
 *
 * Two processes (security S66): abx_engine_main() forks the runtime side first, then becomes the
 * network side, without capabilities and under Landlock when it was started as root. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct abx_error;

struct abx_engine_options {
    const char *state_dir;   /* absolute; made when absent */
    const char *listen_host; /* NULL: 127.0.0.1 and ::1 */
    uint16_t listen_port;    /* 0: ABX_PORT_ENGINE, or with listen_explicit any free port */
    bool listen_explicit;    /* a taken port is an error instead of a reason to try the next */
    bool insecure_listen;    /* allow an address that is not loopback, without TLS */
    bool no_host_template;   /* refuse the template `host` */
    const char *guest_path;  /* abx-guest */
    const char *guest_libs;  /* libraries of a sanitized guest, or NULL */
    const char *shim_path;   /* abx-shim */
    const char
        *client_config; /* a second copy of client.yaml for clients without ABX_STATE; NULL */
    int ready_fd;       /* gets "URL\n" once serving, then is closed; -1: none */
};

/** Runs the engine until SIGTERM or SIGINT: 0. Before it has other threads or a loop. Writes
 *  STATE/client.yaml (url, api_key, domain; 0600, the key made at first start) and STATE/abxd.json
 *  ({pid, url, version}; pid 0 once it ended in order).
 *  Errors: ALREADY_EXISTS another engine holds the state directory (err names it; the caller exits
 *  2), UNAVAILABLE the named port is taken, PERMISSION_DENIED, INVALID_ARGUMENT. */
int abx_engine_main(const struct abx_engine_options *o, struct abx_error *err);
