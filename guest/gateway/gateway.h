/* guest/gateway/gateway.h: the reverse proxy of a sandbox (base-image.md 3): one loop thread.
 *
 * Requests come by the engine's socket and by TCP 5000; they go to envd or the interpreter (by
 * channels that PID 1 made), or to a port on loopback. What PID 1 knows comes by functions of the
 * caller, so that the gateway needs nothing of guest/init. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct abx_json_writer;

enum { ABX_GATEWAY_HASH = 32 };
struct abx_gateway_view { /* any function may be NULL: then there is no PID 1 of ours */
    bool (*envd_running)(void *arg);
    bool (*interpreter_running)(void *arg);
    /** SHA-256 of envd's access token; false: none. */
    bool (*token_hash)(void *arg, unsigned char ret[ABX_GATEWAY_HASH]);
    /** Members of the state object: services, restarts. */
    void (*describe)(void *arg, struct abx_json_writer *w);
    void *arg;
};
struct abx_gateway_options {
    int engine_fd;      /* listening unix socket; -1: none */
    int tcp_fd;         /* listening TCP socket; -1: none */
    int channel_fd;     /* to envd, SEQPACKET, one connected socket a message; -1: TCP envd_port */
    int interpreter_fd; /* the same to the interpreter; 0 or -1: TCP interpreter_port */
    uint16_t own_port, envd_port, interpreter_port; /* 0: those of the contract */
    bool locked, loopback_guard, any_upgrade;
    const char *sandbox_id; /* NULL: the host name */
    struct abx_gateway_view view;
};
/** Runs until TERM or INT. The exit code. Takes the descriptors. */
int abx_gateway_main(const struct abx_gateway_options *o);
