/* guest/server/throttle.h: peers whose credentials are refused again and again (security S16). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    ABX__THROTTLE_PEERS = 256,
    ABX__THROTTLE_FREE = 20, /* refusals to one peer within a second that are answered at once */
    ABX__THROTTLE_DELAY_MS = 100, /* for each one after them */
};

/* Zeroed at first. Peers that fall on one place push each other out: the delay is no lock. */
struct abx__throttle {
    struct abx__throttle_peer {
        uint64_t key;
        int64_t since_ms;
        uint32_t count;
    } peers[ABX__THROTTLE_PEERS];
};
/** One more refusal to the peer @key; whether it is to be delayed. @now_ms: monotonic. */
bool abx__throttle_refused(struct abx__throttle *t, uint64_t key, int64_t now_ms);
/** The key of the peer of a socket: its address without the port. */
uint64_t abx__throttle_key(int fd);
