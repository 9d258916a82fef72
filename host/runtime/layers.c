/* host/runtime/layers.c: the layers that every sandbox of this engine shares, made at its start:
 * the runtime layer (the guest) over the template's layer. A folder of their own per start: what
 * an earlier engine's sandboxes still have mounted never changes. */
#include "host/runtime/runtime_priv.h"
#include "host/runtime/server_python.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LIBS_MAX = 64, COPY_MAX = 256 * 1024 * 1024 };

static const char guest_dir[] = ".fce2b";
static const char guest_file[] = ".fce2b/abx-guest";
static const char *const guest_names[] = {".fce2b/entrypoint",
                                          ".fce2b/gateway",
                                          ".fce2b/envd",
                                          ".fce2b/step",
                                          ".fce2b/agent-sandbox-server",
                                          ".fce2b/sandbox-code-interpreter"};
/* Mount points and folders that an image need not have; what it has in them stays visible. */
static const struct {
    const char *name;
    mode_t mode;
} top_dirs[] = {{"proc", 0555}, {"sys", 0555},       {"dev", 0755},          {"tmp", 01777},
                {"usr", 0755},  {"usr/local", 0755}, {"usr/local/bin", 0755}};
static const char server_link[] = "usr/local/bin/agent-sandbox-server";
/* What a build step sees of /etc, below what it writes. */
static const struct {
    const char *name, *text;
} step_files[] = {
    {"etc/hostname", "build\n"},
    {"etc/hosts", "127.0.0.1 localhost build\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/resolv.conf", "# network: loopback only\n"},
};
static const char profile[] = "# The sandbox's own programs come first.\n"
                              "PATH=\"" ABX_SANDBOX_PATH "\"\n"
                              "[ -d \"$HOME/.local/bin\" ] && PATH=\"$HOME/.local/bin:$PATH\"\n"
                              "export PATH\n"
                              ": \"${LANG:=C.UTF-8}\"\n"
                              "export LANG\n";

static int copy_fd(int from, int to)
{
    ssize_t n, total = 0;
    while ((n = sendfile(to, from, NULL, 1024 * 1024)) > 0) {
        total += n;
        if (total > COPY_MAX)
            return -EFBIG;
    }
    return n < 0 ? -errno : 0;
}

/* Copies @path to (@dir_fd, @name) with @mode, for the sandbox's root. */
static int copy_file(const struct abx__ids *ids, const char *path, int dir_fd, const char *name,
                     mode_t mode)
{
    ABX_AUTO_FD from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -errno;
    ABX_AUTO_FD to = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int r = copy_fd(from, to);
    if (r < 0)
        return r;
    r = abx__ids_chown(ids, dir_fd, name, 0, 0);
    return r < 0 ? r : (fchmod(to, mode) < 0 ? -errno : 0);
}

static int make_dir(const struct abx__ids *ids, int dir_fd, const char *name, mode_t mode)
{
    if (mkdirat(dir_fd, name, 0700) < 0 || fchmodat(dir_fd, name, mode, 0) < 0)
        return -errno;
    return abx__ids_chown(ids, dir_fd, name, 0, 0);
}

static int copy_libs(const struct abx__layer_spec *s, int dir_fd, struct abx_error *err)
{
    DIR *dir = opendir(s->guest_libs);
    if (dir == NULL)
        return abx_err_sys(err, -errno, "guest libraries %s", s->guest_libs);
    int r = make_dir(s->ids, dir_fd, ".fce2b/lib", 0755);
    const struct dirent *e;
    for (int n = 0; r == 0 && (e = readdir(dir)) != NULL;) {
        char from[512], to[300];
        if (e->d_name[0] == '.')
            continue;
        snprintf(from, sizeof(from), "%s/%s", s->guest_libs, e->d_name);
        snprintf(to, sizeof(to), ".fce2b/lib/%s", e->d_name);
        r = ++n > LIBS_MAX ? -E2BIG : copy_file(s->ids, from, dir_fd, to, 0755);
    }
    closedir(dir);
    return r < 0 ? abx_err_sys(err, r, "copy guest libraries") : 0;
}

static int write_text(const struct abx__ids *ids, int dir_fd, const char *name, const char *text)
{
    ABX_AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = abx_fd_write_all(fd, text, strlen(text));
    if (r >= 0)
        r = fchmod(fd, 0644) < 0 ? -errno : 0;
    return r < 0 ? r : abx__ids_chown(ids, dir_fd, name, 0, 0);
}

static int write_profile(const struct abx__ids *ids, int dir_fd)
{
    int r = make_dir(ids, dir_fd, "etc", 0755);
    if (r == 0)
        r = make_dir(ids, dir_fd, "etc/profile.d", 0755);
    return r < 0 ? r : write_text(ids, dir_fd, "etc/profile.d/fce2b.sh", profile);
}

/* A namespace package: an agent_sandbox that the image has of its own comes before it. */
static int write_server_python(const struct abx__ids *ids, int dir_fd)
{
    const char *top = &ABX_SERVER_PYTHON[1];
    int r = make_dir(ids, dir_fd, top, 0755);
    if (r == 0)
        r = make_dir(ids, dir_fd, &ABX_SERVER_PYTHON "/agent_sandbox"[1], 0755);
    for (const struct abx__server_python *f = abx__server_python; r == 0 && f->name; f++) {
        char name[200];
        snprintf(name, sizeof(name), "%s/agent_sandbox/%s", top, f->name);
        r = f->text ? write_text(ids, dir_fd, name, f->text) : make_dir(ids, dir_fd, name, 0755);
    }
    return r;
}

static int make_step(const struct abx__ids *ids, int dir_fd)
{
    int r = make_dir(ids, dir_fd, "etc", 0755);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(step_files); i++)
        r = write_text(ids, dir_fd, step_files[i].name, step_files[i].text);
    return r;
}

static int make_top_dirs(const struct abx__ids *ids, int dir_fd)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(top_dirs); i++)
        r = make_dir(ids, dir_fd, top_dirs[i].name, top_dirs[i].mode);
    if (r == 0 && symlinkat("/.fce2b/agent-sandbox-server", dir_fd, server_link) < 0)
        r = -errno;
    return r < 0 ? r : abx__ids_chown(ids, dir_fd, server_link, 0, 0);
}

static int make_top(const struct abx__layer_spec *s, int dir_fd, struct abx_error *err)
{
    int r = make_dir(s->ids, dir_fd, guest_dir, 0755);
    if (r == 0)
        r = make_dir(s->ids, dir_fd, ".fce2b/log", 0755);
    if (r == 0)
        r = copy_file(s->ids, s->guest_path, dir_fd, guest_file, 0755);
    if (r < 0)
        return abx_err_sys(err, r, "copy the guest %s", s->guest_path);
    for (size_t i = 0; i < ABX_COUNTOF(guest_names); i++)
        if (linkat(dir_fd, guest_file, dir_fd, guest_names[i], 0) < 0)
            return abx_err_sys(err, -errno, "link %s", guest_names[i]);
    if (s->guest_libs != NULL && copy_libs(s, dir_fd, err) < 0)
        return -1;
    r = make_top_dirs(s->ids, dir_fd);
    if (r < 0)
        return abx_err_sys(err, r, "folders of the runtime layer");
    r = write_server_python(s->ids, dir_fd);
    if (r < 0)
        return abx_err_sys(err, r, "write %s", ABX_SERVER_PYTHON);
    r = write_profile(s->ids, dir_fd);
    return r < 0 ? abx_err_sys(err, r, "write %s", ABX_GUEST_PROFILE) : 0;
}

static int open_layer(const struct abx__layer_spec *s, int folder, const char *name, int *ret_fd)
{
    int r = make_dir(s->ids, folder, name, 0755);
    if (r < 0)
        return r;
    *ret_fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

int abx__layers_make(const struct abx__layer_spec *spec, struct abx__layers *ret,
                     struct abx_error *err)
{
    unsigned char random[8];
    *ret = (struct abx__layers){.top_fd = -1, .host_fd = -1, .step_fd = -1};
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return abx_err_sys(err, -EIO, "getrandom");
    ret->name[0] = 'r';
    abx_hex_encode(random, sizeof(random), ret->name + 1);
    if (mkdirat(spec->runtime_fd, ret->name, 0700) < 0)
        return abx_err_sys(err, -errno, "make the runtime layer");
    ABX_AUTO_FD folder =
        openat(spec->runtime_fd, ret->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = folder < 0 ? -errno : open_layer(spec, folder, "top", &ret->top_fd);
    if (r == 0)
        r = open_layer(spec, folder, "host", &ret->host_fd);
    if (r == 0)
        r = open_layer(spec, folder, "step", &ret->step_fd);
    if (r == 0)
        r = make_step(spec->ids, ret->step_fd);
    if (r < 0)
        return abx_err_sys(err, r, "make the runtime layer");
    if (make_top(spec, ret->top_fd, err) < 0)
        return -1;
    return abx__layer_host(spec, ret->host_fd, ret, err);
}

void abx__layers_done(struct abx__layers *l)
{
    abx_fd_close(&l->top_fd);
    abx_fd_close(&l->host_fd);
    abx_fd_close(&l->step_fd);
}
