/* guest/init/init.h: PID 1 of a sandbox: starts services, restarts them, reaps, stops (base-image
 * 2).
 *
 * One thread, no HTTP. Services are roles forked out of this binary. What must outlive a service is
 * made once and held here: listening sockets, the gateway's channel to envd, envd's provisioning
 * state (security S41), the state page. */
#pragma once
#include "guest/init/state_page.h"

#include <stddef.h>

struct abx_error;

/* What a service gets at each start. Descriptors are its own copies, closed with it. */
struct abx_init_context {
    struct abx_state_page *page;
    int engine_fd;      /* listening unix socket of the engine; -1: none */
    int tcp_fd;         /* listening TCP socket of the gateway; -1: none */
    int channel_fd;     /* this service's end of gateway->envd: SEQPACKET; each message carries one
                         * connected stream socket */
    int interpreter_fd; /* the same of gateway->interpreter */
    int init_fd;      /* envd's end of envd->init: SEQPACKET; a message, SHA-256 of the token or one
                       * zero byte, carries the sealed memfd of the new state */
    int provision_fd; /* the last sealed memfd, read from offset 0; -1: never provisioned */
    bool locked;
    void *arg; /* of the options */
};

enum abx_init_needs { /* which descriptors a service gets */
                      ABX_INIT_LISTENERS = 1,
                      ABX_INIT_CHANNEL_OUT = 2,      /* the end of those who call envd */
                      ABX_INIT_CHANNEL_IN = 4,       /* envd's end */
                      ABX_INIT_PROVISION = 8,        /* init_fd and provision_fd */
                      ABX_INIT_INTERPRETER_OUT = 16, /* the gateway's end */
                      ABX_INIT_INTERPRETER_IN = 32,  /* the interpreter's end */
};
struct abx_init_service {
    const char *name; /* comm and argv[0] */
    int (*run)(const struct abx_init_context *c);
    unsigned needs;      /* enum abx_init_needs */
    bool gets_signals;   /* HUP, USR1 and so on are passed to it */
    bool kills_children; /* what it left behind is killed with it (fault table: envd) */
};

struct abx_init_options {
    const struct abx_init_service *services; /* in start order; stopped in reverse */
    size_t service_count;
    int engine_fd; /* -1: none */
    int tcp_fd;    /* -1: none */
    bool locked;
    const char *no_user; /* why the account `user` is missing; NULL: it is there */
    uint32_t stop_ms;    /* from TERM to KILL; 0: 5 s */
    void *arg;
};
/** Runs until TERM, INT or QUIT, then stops all: the exit code, 143. When it is not PID 1 it adopts
 *  orphans as a subreaper and kills only its services. */
int abx_init_run(const struct abx_init_options *o);

/** Makes the account `user` where it is missing and passwd and group can be written, its home, the
 *  profile of login shells; sets PATH, LANG, HOME, CA variables. @root: "/" (tests: another).
 *  Returns whether the account exists; *ret_why says why it does not. */
bool abx_init_prepare(const char *root, struct abx_error *ret_why);
/** The gateway's listening socket at @address ("0.0.0.0:5000", "[::]:5000"). >= 0 or -errno. */
int abx_init_listen(const char *address);
