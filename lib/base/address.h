/* lib/base/address.h: internet addresses of sockets, from text and back, and the listener on one.
 * System leaf: >= 0 or -errno. Thread safe. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union abx_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/** A literal of either family (no brackets). -EINVAL: another text. */
int abx_address_parse(const char *literal, uint16_t port, union abx_address *ret);
/** As parse, and "localhost" is 127.0.0.1. No name is looked up. */
int abx_address_of_host(const char *host, uint16_t port, union abx_address *ret);
/** 0 for another family. */
uint16_t abx_address_port(const union abx_address *a);
void abx_address_set_port(union abx_address *a, uint16_t port);
/** What the address of an IP socket takes. */
socklen_t abx_address_len(const union abx_address *a);
/** 127/8 or ::1. */
bool abx_address_is_loopback(const union abx_address *a);
bool abx_address_is_wildcard(const union abx_address *a);

/** A bound TCP socket, close-on-exec and non-blocking, with SO_REUSEADDR; IPv6 ones take IPv6
 *  alone when @only_v6. Not listening yet when @backlog is 0. The caller owns it. */
int abx_address_bind(const union abx_address *a, bool only_v6, int backlog);
/** The port that the socket @fd is bound to; 0 when it has none. */
uint16_t abx_address_bound_port(int fd);
/** Whether the peer of @fd is on this machine by its address: 127/8, ::1, or an address that is
 * also our end of the connection. One that can not be told counts as local, the stricter (S03). */
bool abx_address_is_local_peer(int fd);
