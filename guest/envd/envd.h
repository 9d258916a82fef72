/* guest/envd/envd.h: the E2B daemon of a sandbox (envd.md): REST files, process and filesystem
 * RPCs.
 *
 * A role of the guest binary, forked by init; one loop thread. Requests come over the private
 * channel (from the gateway: ABX_ENVD_ENGINE) and, if asked, over TCP (ABX_ENVD_TCP). A locked
 * daemon takes `/init` from the private channel only (security S41); one of its own, from TCP too:
 * the first needs no token, each later one the token that is installed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct abx_json_writer;

enum abx_envd_listener { ABX_ENVD_TCP = 1, ABX_ENVD_ENGINE = 2 };

struct abx_envd_options {
    /** SOCK_SEQPACKET or SOCK_DGRAM from the gateway (through init): each message carries connected
     *  stream sockets by SCM_RIGHTS; its bytes mean nothing. EOF ends the daemon unless it
     *  has TCP. -1: none. */
    int channel_fd;
    /** To init, SOCK_SEQPACKET: for each accepted /init one message, SHA-256 of the token or one
     * zero byte, with one sealed memfd, to be handed to the next envd as state_fd. -1: none. */
    int init_fd;
    /** Blocks, for a bounded time, until init has kept the state whose token has this hash (NULL:
     *  none): only then is /init answered, for gateway and interpreter judge by what init keeps.
     *  False: it did not. NULL: nobody is waited for. */
    bool (*init_kept)(void *arg, const unsigned char *hash);
    void *init_arg;
    /** The provisioning of an earlier envd: the daemon starts unlocked with it. -1: none. */
    int state_fd;
    uint16_t tcp_port;   /* on 0.0.0.0; 0: no TCP */
    bool is_locked;      /* /init by the channel only; without state_fd: 503 "starting" for all
                          * but /health and /init */
    bool loopback_guard; /* S03: a local TCP peer gets /health only, or must carry the token */
    bool has_no_user;    /* `user` could not be made: uid 0 does what it would have done */
    /** What PID 1 tells of the sandbox, as keys of the report of /health?verbose. NULL: nothing. */
    void (*describe)(void *arg, struct abx_json_writer *w);
    void *describe_arg;
    const char *users_root; /* where etc/passwd lies; NULL: "" (the live system) */
    const char *spill_dir;  /* for journals (NULL: /tmp) and uploads (NULL: /var/tmp) */
};

/** Runs until SIGTERM or until the channel ends; kills the processes it started. The exit code.
 *  Takes the descriptors. */
int abx_envd_main(const struct abx_envd_options *o);
