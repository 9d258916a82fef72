/* guest/init/init_priv.h: the state of PID 1, shared by its files. All of it is allocated once. */
#pragma once
#include "guest/init/init.h"

#include <stdint.h>
#include <sys/types.h>

struct abx__service {
    const struct abx_init_service *def;
    struct abx_state_service *shared;
    pid_t pid; /* 0: not running */
    int64_t started_ms, restart_at_ms;
    uint32_t backoff_ms;
};
struct abx__init {
    const struct abx_init_options *o;
    struct abx_state_page *page;
    struct abx__service services[ABX_STATE_SERVICES_MAX];
    size_t count;
    int signal_fd;
    int channel[2];     /* callers' end, envd's end */
    int interpreter[2]; /* gateway's end, interpreter's end */
    int init_pair[2];   /* ours, envd's */
    int provision_fd;
    int64_t kill_orphans_until_ms;
    bool is_pid_one;
    bool stopping;
    size_t stop_left; /* services not yet told to stop: the next is stop_left - 1 */
    int64_t stop_deadline_ms;
};

enum { ABX__BACKOFF_MIN_MS = 100, ABX__BACKOFF_MAX_MS = 10000, ABX__BACKOFF_RESET_MS = 30000 };
/** How long to wait before the next start of a service that ran for @up_ms; moves *inout_backoff.
 */
uint32_t abx__service_delay(uint32_t *inout_backoff_ms, int64_t up_ms);
void abx__service_start(struct abx__init *in, struct abx__service *s);
/** Starts those whose time has come; the milliseconds until the next one, -1: none. */
int abx__services_start_due(struct abx__init *in);
/** Reaps whatever is dead, without memory; notes the services among it. */
void abx__services_reap(struct abx__init *in);
/** Begins the stop, then moves it on. True when all services are gone or time is up. */
void abx__services_stop(struct abx__init *in);
bool abx__services_stopped(struct abx__init *in);
/** Takes one provisioning message from envd. */
void abx__provision_receive(struct abx__init *in);
