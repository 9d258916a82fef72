/* host/runtime/shim_proto.h: what the runtime side and abx-shim say to each other.
 *
 * Two SEQPACKET messages start a sandbox. struct abx_shim_prepare and its records make PID 1 in its
 * namespaces and cgroups, with all the mounts that every sandbox has, in a folder of its own: the
 * stage. It waits there, so this can be done ahead of need. Then struct abx_shim_request and its
 * records, with the descriptors of enum abx_shim_fd, make the root, move the mounts there and let
 * it run. Where the layers and the sandbox's folder are known ahead, they come with the first
 * message (the descriptors from ABX_SHIM_FD_FS on): PID 1 then waits in its root, and the second
 * message has no lower layers. Records are executed in order. The shim answers with struct
 * abx_shim_reply. Later peers on shim.sock send struct abx_shim_command and must know the nonce.
 * Both sides are of the same build; sizes are checked all the same. */
#pragma once
#include <stdint.h>

enum {
    ABX_SHIM_MAGIC = 0x61627835,
    ABX_SHIM_OPS_MAX = 24 * 1024,
    ABX_SHIM_PREPARE_MAX = 16 * 1024,
    ABX_SHIM_TEXT_MAX = 512,
    ABX_SHIM_NONCE = 16,
    ABX_SHIM_CLIENTS = 4,
    ABX_SHIM_LOWERS_MAX = 130, /* the layers of an image below the runtime's own */
    ABX_SHIM_LOG_MAX = 1024 * 1024
};

/* Descriptors of a request, in this order. */
enum abx_shim_fd {
    ABX_SHIM_FD_GATEWAY, /* socket for PID 1, which gets it as 3 */
    ABX_SHIM_FD_LISTEN,  /* bound shim.sock; the shim listens, so SO_PEERCRED names it */
    ABX_SHIM_FD_FOLDER,  /* the sandbox's folder: when it is gone the shim goes */
    ABX_SHIM_FD_LOG,     /* console.log */
    ABX_SHIM_FD_FS,      /* folder with upper/ and work/ */
    ABX_SHIM_FD_EXTRA,   /* a folder to bind by ABX_SHIM_BIND_EXTRA; any when that is not used */
    ABX_SHIM_FD_LOWER0,  /* lower_count of them, top layer first */
    ABX_SHIM_FD_MAX = ABX_SHIM_FD_LOWER0 + ABX_SHIM_LOWERS_MAX
};

/* Operations by the shim ("parent") and by PID 1 before its exec. a and b are the two texts of a
 * record. Targets of the first message are resolved inside the stage, those of the second inside
 * the new root (openat2 RESOLVE_IN_ROOT). */
enum abx_shim_op_kind {
    ABX_SHIM_MAP_UID,    /* parent, first message: uid_map text */
    ABX_SHIM_MAP_GID,    /* parent, first message: gid_map text */
    ABX_SHIM_LIMIT,      /* parent, of the second message: text b into the cgroup file a */
    ABX_SHIM_JOIN,       /* first message: a cgroup's folder a, made if absent; b: see below */
    ABX_SHIM_HOSTNAME,   /* a */
    ABX_SHIM_CGROUP_NS,  /* enters a cgroup namespace; its root is where JOIN led */
    ABX_SHIM_ROOT,       /* the overlay; b: further mount options */
    ABX_SHIM_DIR,        /* a, mode */
    ABX_SHIM_FILE,       /* a, mode; empty */
    ABX_SHIM_LINK,       /* a -> b */
    ABX_SHIM_MOVE,       /* what is mounted on the stage's a, on a */
    ABX_SHIM_BIND,       /* host path b on a, flags */
    ABX_SHIM_BIND_EXTRA, /* ABX_SHIM_FD_EXTRA on a, flags */
    ABX_SHIM_TMPFS,      /* on a, options b, flags */
    ABX_SHIM_PROC,       /* on a */
    ABX_SHIM_HIDE_PIDS,  /* the procfs on a shows a process only what it may trace (M18) */
    ABX_SHIM_SYSFS,      /* on a */
    ABX_SHIM_DEVPTS,     /* on a, options b */
    ABX_SHIM_MASK,       /* a: /dev/null over a file, an empty read-only tmpfs over a folder */
    ABX_SHIM_READONLY,   /* a bound over itself read-only */
    ABX_SHIM_WRITE,      /* text b into the existing file a */
    ABX_SHIM_BOOT_ID,    /* a fresh random id over the file a */
    ABX_SHIM_ARG,        /* a; the first is the program */
    ABX_SHIM_ENV,        /* a */
    ABX_SHIM_OP__COUNT
};
/* How PID 1 gets into a cgroup, without the grace period of RCU that moving another process, or one
 * with threads, waits for, and with it every fork of the machine: in v1 by writing itself into
 * "tasks"; in v2, of which there is one, it is born there (no b). */
#define ABX_SHIM_JOIN_V1 "tasks"
enum { ABX_SHIM_JOINS_MAX = 8 };
enum abx_shim_op_flag {
    ABX_SHIM_RO = 1,
    ABX_SHIM_NOSUID = 2,
    ABX_SHIM_NODEV = 4,
    ABX_SHIM_NOEXEC = 8,
    ABX_SHIM_RECURSIVE = 16,
    ABX_SHIM_OPTIONAL = 32 /* absent source or target: skipped */
};
struct abx_shim_op { /* followed by a and b, each with its NUL when its length is not 0 */
    uint8_t kind, flags;
    uint16_t a_len, b_len, mode;
};

struct abx_shim_prepare {
    uint32_t magic, op_bytes;
    uint32_t creator_uid; /* S55: the user namespace is made by this uid; 0: as we are */
    uint32_t uid, gid;    /* of PID 1, inside */
    uint32_t lower_count; /* of the root that is made ahead; 0: the request makes it */
    uint32_t flags;       /* ABX_SHIM_HAS_EXTRA, with lower_count */
    /* Idmap of the layers and the upper (S51): ids on disk from storage_base on appear from
     * private_base on; 0: none. */
    uint32_t storage_base, private_base;
};
enum abx_shim_request_flag { ABX_SHIM_HAS_EXTRA = 1 };
struct abx_shim_request {
    uint32_t magic, op_bytes, flags, lower_count;
    uint32_t peer_uid;      /* who may talk on shim.sock, besides root */
    uint32_t nofile, nproc; /* rlimits; 0: left alone */
    uint8_t nonce[ABX_SHIM_NONCE];
};

/* TERM asks PID 1 to end, GO the shim, once PID 1 has ended. */
enum abx_shim_verb { ABX_SHIM_STATUS = 1, ABX_SHIM_TERM, ABX_SHIM_KILL, ABX_SHIM_GO };
struct abx_shim_command {
    uint32_t magic, verb;
    uint8_t nonce[ABX_SHIM_NONCE];
};

enum abx_shim_state { ABX_SHIM_FAILED = 1, ABX_SHIM_RUNNING, ABX_SHIM_EXITED };
/* The answer to a request and to each command, and unasked when PID 1 ends. */
struct abx_shim_reply {
    uint32_t magic, state;
    int32_t shim_pid, init_pid;
    int32_t exit_code, signum; /* EXITED: signum 0 for an exit */
    uint32_t core_dumped;
    int32_t error;  /* FAILED: errno */
    char step[128]; /* FAILED: what was being done */
};
