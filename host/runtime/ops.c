/* host/runtime/ops.c: the records that make a sandbox, of the template `host` or of an image's
 * layers, or of a build step (security S50, S54). What all of them have is staged ahead of need, in
 * the root itself where that is known; the rest follows with the request. The shim executes each
 * list in its order. */
#include "host/runtime/runtime_priv.h"

#include "lib/contract/contract.h"

#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    SYSTEM = ABX_SHIM_RO | ABX_SHIM_NOSUID | ABX_SHIM_NODEV | ABX_SHIM_RECURSIVE,
    DEVICE = ABX_SHIM_NOSUID | ABX_SHIM_NOEXEC,
    QUIET = ABX_SHIM_NOSUID | ABX_SHIM_NODEV | ABX_SHIM_NOEXEC,
    OPT = ABX_SHIM_OPTIONAL
};

struct row {
    enum abx_shim_op_kind kind;
    unsigned flags, mode;
    const char *a, *b;
};

/* volatile: without it the end of each sandbox writes back all of the machine's file system. A
 * sandbox does not outlive the machine, and who keeps its upper syncs it himself. */
static const struct row root[] = {
    {ABX_SHIM_ROOT, 0, 0, NULL,
     "redirect_dir=nofollow,metacopy=off,index=off,xino=off,userxattr,volatile"},
};
static const struct row moves[] = {
    {ABX_SHIM_MOVE, 0, 0, "/proc", NULL},
    {ABX_SHIM_MOVE, 0, 0, "/sys", NULL},
    {ABX_SHIM_MOVE, 0, 0, "/dev", NULL},
};
static const struct row stage_folders[] = {
    {ABX_SHIM_DIR, 0, 0755, "/proc", NULL},
    {ABX_SHIM_DIR, 0, 0755, "/sys", NULL},
    {ABX_SHIM_DIR, 0, 0755, "/dev", NULL},
};
static const struct row proc[] = {
    {ABX_SHIM_PROC, 0, 0, "/proc", NULL},
};
static const struct row stage[] = {
    {ABX_SHIM_SYSFS, 0, 0, "/sys", NULL},
    {ABX_SHIM_TMPFS, QUIET, 0, "/dev", "mode=0755,size=64k,nr_inodes=64"},
    {ABX_SHIM_FILE, 0, 0666, "/dev/null", NULL},
    {ABX_SHIM_FILE, 0, 0666, "/dev/zero", NULL},
    {ABX_SHIM_FILE, 0, 0666, "/dev/full", NULL},
    {ABX_SHIM_FILE, 0, 0666, "/dev/random", NULL},
    {ABX_SHIM_FILE, 0, 0666, "/dev/urandom", NULL},
    {ABX_SHIM_FILE, 0, 0666, "/dev/tty", NULL},
    {ABX_SHIM_BIND, DEVICE, 0, "/dev/null", "/dev/null"},
    {ABX_SHIM_BIND, DEVICE, 0, "/dev/zero", "/dev/zero"},
    {ABX_SHIM_BIND, DEVICE | OPT, 0, "/dev/full", "/dev/full"},
    {ABX_SHIM_BIND, DEVICE, 0, "/dev/random", "/dev/random"},
    {ABX_SHIM_BIND, DEVICE, 0, "/dev/urandom", "/dev/urandom"},
    {ABX_SHIM_BIND, DEVICE | OPT, 0, "/dev/tty", "/dev/tty"},
    {ABX_SHIM_DIR, 0, 0755, "/dev/pts", NULL},
    {ABX_SHIM_DIR, 0, 0755, "/dev/shm", NULL},
    {ABX_SHIM_TMPFS, QUIET, 0, "/dev/shm", "mode=1777,size=256m,nr_inodes=65536"},
    {ABX_SHIM_LINK, 0, 0, "/dev/ptmx", "pts/ptmx"},
    {ABX_SHIM_LINK, 0, 0, "/dev/fd", "/proc/self/fd"},
    {ABX_SHIM_LINK, 0, 0, "/dev/stdin", "/proc/self/fd/0"},
    {ABX_SHIM_LINK, 0, 0, "/dev/stdout", "/proc/self/fd/1"},
    {ABX_SHIM_LINK, 0, 0, "/dev/stderr", "/proc/self/fd/2"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_user_namespaces", "0"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_net_namespaces", "0"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_pid_namespaces", "0"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_uts_namespaces", "0"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_ipc_namespaces", "0"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_time_namespaces", "0"},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
    {ABX_SHIM_BOOT_ID, 0, 0, "/proc/sys/kernel/random/boot_id", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/kcore", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/keys", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/latency_stats", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/timer_list", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/timer_stats", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/sched_debug", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/scsi", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/acpi", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/asound", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/kmsg", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/sysrq-trigger", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/proc/interrupts", NULL},
    {ABX_SHIM_READONLY, OPT, 0, "/proc/bus", NULL},
    {ABX_SHIM_READONLY, OPT, 0, "/proc/fs", NULL},
    {ABX_SHIM_READONLY, OPT, 0, "/proc/irq", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/sys/firmware", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/sys/fs/bpf", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/sys/kernel/debug", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/sys/kernel/tracing", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/sys/kernel/security", NULL},
    {ABX_SHIM_MASK, OPT, 0, "/sys/devices/virtual/powercap", NULL},
    {ABX_SHIM_CGROUP_NS, 0, 0, NULL, NULL},
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_cgroup_namespaces", "0"},
    /* Each cloned tree is a mount namespace for a moment: no bind after this. */
    {ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_mnt_namespaces", "0"},
    {ABX_SHIM_READONLY, 0, 0, "/proc/sys", NULL},
};
static const struct row environment[] = {
    {ABX_SHIM_ENV, 0, 0, "PATH=" ABX_SANDBOX_PATH, NULL},
    {ABX_SHIM_ENV, 0, 0, "LANG=C.UTF-8", NULL},
};
static const struct row sandbox_args[] = {
    {ABX_SHIM_ARG, 0, 0, ABX_GUEST_ENTRYPOINT, NULL},
    {ABX_SHIM_ARG, 0, 0, "--engine-fd=3", NULL},
    {ABX_SHIM_ARG, 0, 0, "--locked", NULL},
};
static const struct row step_args[] = {
    {ABX_SHIM_ARG, 0, 0, ABX_GUEST_STEP, NULL},
    {ABX_SHIM_ARG, 0, 0, "--line-fd=3", NULL},
};
/* A sanitized guest writes its reports into a folder that the host sees. */
static const struct row sanitized[] = {
    {ABX_SHIM_BIND_EXTRA, 0, 0, "/.fce2b/log", NULL},
    {ABX_SHIM_ENV, 0, 0, "ASAN_OPTIONS=log_path=/.fce2b/log/asan", NULL},
    {ABX_SHIM_ENV, 0, 0, "UBSAN_OPTIONS=log_path=/.fce2b/log/ubsan:print_stacktrace=1", NULL},
    {ABX_SHIM_ENV, 0, 0, "LSAN_OPTIONS=log_path=/.fce2b/log/lsan", NULL},
    {ABX_SHIM_ENV, 0, 0, "TSAN_OPTIONS=log_path=/.fce2b/log/tsan", NULL},
};

static void put(struct abx_buf *out, struct row r)
{
    struct abx_shim_op op = {.kind = (uint8_t)r.kind,
                             .flags = (uint8_t)r.flags,
                             .mode = (uint16_t)r.mode,
                             .a_len = (uint16_t)(r.a ? strlen(r.a) + 1 : 0),
                             .b_len = (uint16_t)(r.b ? strlen(r.b) + 1 : 0)};
    abx_buf_put(out, &op, sizeof(op));
    abx_buf_put(out, r.a ? r.a : "", op.a_len);
    abx_buf_put(out, r.b ? r.b : "", op.b_len);
}

static void put_rows(struct abx_buf *out, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(out, rows[i]);
}

/* Maps of the sandbox's user namespace, in ids of ours. */
static void put_maps(const struct abx__worker *w, uint32_t slot, struct abx_buf *out)
{
    char text[48];
    switch (w->ids.level) {
    case ABX__IDS_PRIVATE:
        snprintf(text, sizeof(text), "0 %u %u\n",
                 (unsigned)ABX__IDS_PRIVATE_BASE + slot * ABX__IDS_RANGE, (unsigned)ABX__IDS_RANGE);
        break;
    case ABX__IDS_SUBUID:
        snprintf(text, sizeof(text), "0 1 %u\n", (unsigned)ABX__IDS_RANGE);
        break;
    case ABX__IDS_SHARED:
        snprintf(text, sizeof(text), "%d 0 1\n", ABX_USER_ID);
        break;
    case ABX__IDS__COUNT:
        ABX_ASSERT(false);
    }
    put(out, (struct row){ABX_SHIM_MAP_UID, .a = text});
    put(out, (struct row){ABX_SHIM_MAP_GID, .a = text});
}

/* The host's system folder number @index; false beyond the last. @at: "" for one that is not there,
 * or that the template's layer has as a link. */
static bool host_folder(const struct abx__worker *w, size_t index, char at[32])
{
    at[0] = 0;
    if (abx__host_dirs[index] == NULL)
        return false;
    if (w->layers.exists[index] && !w->layers.is_link[index])
        snprintf(at, 32, "/%s", abx__host_dirs[index]);
    return true;
}

static void stage_folder(struct abx_buf *out, const char *path, bool in_root)
{
    if (!in_root)
        put(out, (struct row){ABX_SHIM_DIR, 0, 0755, path, NULL});
    put(out, (struct row){ABX_SHIM_BIND, SYSTEM, 0, path, path});
}

static bool has_opt(void)
{
    return access("/opt", F_OK) == 0;
}

/* Those of the template `host`; a sandbox of an image leaves them behind in the stage. */
static void stage_host_folders(const struct abx__worker *w, const struct abx_sandbox_spec *known,
                               struct abx_buf *out)
{
    char path[32];
    bool in_root = known != NULL;
    stage_folder(out, "/usr", in_root);
    for (size_t i = 0; host_folder(w, i, path); i++)
        if (path[0] != 0)
            stage_folder(out, path, in_root);
    if (has_opt() && (!in_root || known->host_opt))
        stage_folder(out, "/opt", in_root);
}

static void put_stage(const struct abx__worker *w, const struct abx_sandbox_spec *known,
                      struct abx_buf *out)
{
    bool single = w->ids.level == ABX__IDS_SHARED;
    char gids[16];
    if (known != NULL)
        put_rows(out, root, ABX_COUNTOF(root));
    else
        put_rows(out, stage_folders, ABX_COUNTOF(stage_folders));
    if (known == NULL || known->layer_count == 0)
        stage_host_folders(w, known, out);
    put_rows(out, proc, ABX_COUNTOF(proc));
    snprintf(gids, sizeof(gids), "%d %d", single ? ABX_USER_ID : 0, single ? ABX_USER_ID : 65535);
    put(out, (struct row){ABX_SHIM_WRITE, OPT, 0, "/proc/sys/net/ipv4/ping_group_range", gids});
    /* Rootless sandboxes share the counters of the one uid that made them: less for each (S55). */
    const char *instances = w->ids.level == ABX__IDS_PRIVATE ? "128" : "48";
    put(out,
        (struct row){ABX_SHIM_WRITE, OPT, 0, "/proc/sys/user/max_inotify_instances", instances});
    put_rows(out, stage, ABX_COUNTOF(stage));
    /* ids that the map does not hold can not be named: gid 5, and the whole range for ping */
    put(out, (struct row){ABX_SHIM_DEVPTS, 0, 0, "/dev/pts",
                          single ? "newinstance,ptmxmode=0666,mode=0600"
                                 : "newinstance,ptmxmode=0666,mode=0620,gid=5"});
    if (known != NULL && w->options.guest_libs != NULL)
        put(out, sanitized[0]);
}

void abx__ops_prepare(const struct abx__worker *w, uint32_t slot,
                      const struct abx_sandbox_spec *known, struct abx_buf *out)
{
    put_maps(w, slot, out);
    for (int i = 0; i < ABX__CG__COUNT; i++) {
        char path[256];
        if (abx__cgroups_folder(&w->cgroups, (enum abx__cgroup_kind)i, slot, path))
            put(out, (struct row){ABX_SHIM_JOIN, .a = path,
                                  .b = i == ABX__CG_UNIFIED ? NULL : ABX_SHIM_JOIN_V1});
    }
    put_stage(w, known, out);
}

static void put_limits(const struct abx__ops_spec *o, struct abx_buf *out)
{
    struct abx__limits l = {o->spec->memory_mb, o->spec->cpu_count, o->spec->pids_max};
    struct abx__knob k;
    for (size_t i = 0; abx__cgroups_knob(&o->w->cgroups, i, o->slot, &l, &k); i++)
        if (k.path[0] != 0)
            put(out, (struct row){ABX_SHIM_LIMIT, k.is_optional ? OPT : 0, 0, k.path, k.text});
}

static void put_host_folders(const struct abx__ops_spec *o, struct abx_buf *out)
{
    char path[32];
    put(out, (struct row){ABX_SHIM_MOVE, .a = "/usr"});
    for (size_t i = 0; host_folder(o->w, i, path); i++)
        if (path[0] != 0)
            put(out, (struct row){ABX_SHIM_MOVE, .a = path});
    if (o->spec->host_opt && has_opt())
        put(out, (struct row){ABX_SHIM_MOVE, .a = "/opt"});
}

void abx__ops_sandbox(const struct abx__ops_spec *o, struct abx_buf *out)
{
    bool is_host = o->spec->layer_count == 0 && !o->spec->is_step;
    bool single = o->w->ids.level == ABX__IDS_SHARED;
    char env[64];
    put_limits(o, out);
    put(out, (struct row){ABX_SHIM_HOSTNAME, .a = o->spec->is_step ? "build" : o->spec->id});
    if (!o->is_rooted) {
        put_rows(out, root, ABX_COUNTOF(root));
        put_rows(out, moves, ABX_COUNTOF(moves));
        if (is_host)
            put_host_folders(o, out);
    }
    if (o->spec->hide_pids)
        put(out, (struct row){ABX_SHIM_HIDE_PIDS, .a = "/proc"});
    put_rows(out, environment, ABX_COUNTOF(environment));
    if (o->spec->is_step)
        put_rows(out, step_args, ABX_COUNTOF(step_args));
    else
        put_rows(out, sandbox_args, ABX_COUNTOF(sandbox_args));
    snprintf(env, sizeof(env), "HOSTNAME=%s", o->spec->is_step ? "build" : o->spec->id);
    put(out, (struct row){ABX_SHIM_ENV, .a = env});
    put(out, (struct row){ABX_SHIM_ENV, .a = single ? "HOME=" ABX_USER_HOME : "HOME=/root"});
    if (o->w->options.guest_libs != NULL) {
        size_t done = o->is_rooted ? 1 : 0;
        put_rows(out, sanitized + done, ABX_COUNTOF(sanitized) - done);
    }
}
