/* host/engine/startup_priv.h: from a started program to a confined network side: folders and lock,
 * listeners, rights. Before the loop; blocking calls are fine here. */
#pragma once
#include "host/engine/engine.h"
#include "lib/base/str.h"

#include <sys/types.h>

struct abx_error;

enum { ABX__KEY_LEN = 44, ABX__LISTENERS_MAX = 2 }; /* "e2b_" and 40 hex digits */

/* The state folder (engine.md 1, decisions): STATE 0710 root:gid (0700 without root), db/ of the
 * network side alone, sandboxes/ of the runtime side. */
struct abx__statedir {
    const char *path;
    int fd, lock_fd, info_fd, db_fd, sandboxes_fd;
    char key[ABX__KEY_LEN + 1];
    const char *client_config; /* where client.yaml is copied to, or NULL */
};
/** Makes what is missing, checks owners, takes the lock. ALREADY_EXISTS: another engine. */
int abx__statedir_open(struct abx__statedir *d, const char *path, uid_t uid, gid_t gid,
                       struct abx_error *err);
/** Reads or makes the key; writes client.yaml and abxd.json. */
int abx__statedir_publish(struct abx__statedir *d, const char *url, const char *domain,
                          struct abx_error *err);
/** The port that client.yaml named the last time, 0 if none: an engine that was killed comes back
 *  where its clients look for it. */
uint16_t abx__statedir_last_port(const struct abx__statedir *d);
/** abxd.json says that nobody runs. */
void abx__statedir_retire(struct abx__statedir *d);
void abx__statedir_close(struct abx__statedir *d);

struct abx__listeners {
    int fds[ABX__LISTENERS_MAX];
    size_t count;
    uint16_t port;
    char host[64]; /* the literal, or "" for 127.0.0.1 and ::1 */
    bool any_ip;
};
/** Binds and listens, at @last_port (0: none) if it is free. The default port taken: the next free
 * one. UNAVAILABLE: a named one taken. */
int abx__listen(const struct abx_engine_options *o, uint16_t last_port, struct abx__listeners *ret,
                struct abx_error *err);
/** "pid 12 (name)" of the process that listens on @port, or that it can not be seen. */
void abx__port_holder(uint16_t port, char *out, size_t cap);
void abx__listeners_close(struct abx__listeners *l);

/** The network side's identity: user `abx` if there is one, else a number of ours. */
void abx__network_identity(uid_t *ret_uid, gid_t *ret_gid);
/** Gives up root (if held), capabilities and new privileges; confines file access to @db_fd and
 *  forbids new TCP listeners and connections by Landlock, where the kernel has it. */
int abx__confine(uid_t uid, gid_t gid, int db_fd, struct abx_error *err);
