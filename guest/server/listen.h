/* guest/server/listen.h: the server's sockets, and the word to the one who started it. */
#pragma once
#include "lib/base/err.h"

#include <stdint.h>

enum { ABX__BACKLOG = 1024 };

/** A bound socket that does not listen yet: a connect is refused until it does. @host: an address
 * or "localhost". The descriptor, or -1: taken, no such address, a port of the platform. */
int abx__bind_tcp(const char *host, int64_t port, struct abx_error *err);
/** Listens at @path, for the owner alone; a socket file that nobody listens at is replaced. */
int abx__listen_unix(const char *path, struct abx_error *err);
/** Remembers NOTIFY_SOCKET and takes it, and what else systemd tells a service, out of the
 * environment: children are no services (security S82). After abx__environment_take(). */
void abx__notify_take(void);
/** "READY=1", "STOPPING=1" to whom NOTIFY_SOCKET names. */
void abx__notify(const char *message);
