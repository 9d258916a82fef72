/* guest/interpreter/interpreter.h: the code interpreter of a sandbox (port 49999): HTTP before the
 * contexts of guest/kernels.
 *
 * A role of the guest binary, forked by init; one loop thread. Requests come over the private
 * channel (from the gateway) and over TCP; with the loopback guard a TCP peer inside the sandbox
 * must carry the access token (security S03). The sandbox's variables are asked of envd, over a
 * channel of its own, with the token that the request carried. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { ABX_INTERPRETER_HASH = 32 };

struct abx_interpreter_options {
    int channel_fd; /* SEQPACKET, each message carries connected stream sockets; -1: none */
    int envd_fd;    /* the same, to envd: this role sends; -1: envd's TCP port is used */
    uint16_t tcp_port, envd_port; /* 0: no TCP; no envd */
    bool loopback_guard;
    /** SHA-256 of envd's access token; false: none. May be NULL. */
    bool (*token_hash)(void *arg, unsigned char ret[ABX_INTERPRETER_HASH]);
    void *arg;
    const char *cwd; /* of default contexts; NULL: /home/user */
};
/** Whether this sandbox can run code at all: a python or node is on @path. */
bool abx_interpreter_is_useful(const char *path);
/** Runs until TERM or INT. The exit code. Takes the descriptors. */
int abx_interpreter_main(const struct abx_interpreter_options *o);
