/* cli/prepare.c: what a build puts into the template's folder: the server's wheel and the policy.
 *
 * The wheel comes from --wheel, or lies beside abx: in its folder, in ../share/abx of an
 * installation, in build/dist of the source tree. */
#include "cli/build.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { WHEEL_MAX = 64 << 20, POLICY_MAX = 1 << 20 };
static const char wheel_pattern[] = "agent_sandbox_server-*.whl";
static const char policy_name[] = "server-policy.json", record_name[] = "server-policy.sha256";

/* ---- the wheel ---- */

/* The last name (in byte order) in @dir that is a wheel of the server. */
static bool find_in(const char *dir, char *out, size_t cap)
{
    char best[NAME_MAX + 1] = "";
    DIR *d = opendir(dir);
    if (d == NULL)
        return false;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (fnmatch(wheel_pattern, e->d_name, 0) == 0 && strcmp(e->d_name, best) > 0)
            snprintf(best, sizeof(best), "%s", e->d_name);
    closedir(d);
    return best[0] && snprintf(out, cap, "%s/%s", dir, best) < (int)cap;
}

static bool find_wheel(const struct cli *cli, char *out, size_t cap)
{
    static const char *const beside[] = {"", "/../share/abx", "/../../dist"};
    char self[PATH_MAX - 64], dir[PATH_MAX];
    if (cli->v.wheel)
        return snprintf(out, cap, "%s", cli->v.wheel) < (int)cap;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < ABX_COUNTOF(beside); i++) {
        snprintf(dir, sizeof(dir), "%s%s", self, beside[i]);
        if (find_in(dir, out, cap))
            return true;
    }
    return false;
}

static bool wants_wheel(const struct cli_project *p)
{
    for (size_t i = 0; i < p->plan.count; i++)
        if (strcmp(p->plan.steps[i].type, "COPY") == 0 &&
            abx_str_starts(p->plan.steps[i].args[0], ".abx/"))
            return true;
    return false;
}

/* Other wheels of the server leave the folder: one version only. */
static void remove_others(int dir, const char *keep)
{
    int copy = dup(dir);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    if (d == NULL)
        return;
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (fnmatch(wheel_pattern, e->d_name, 0) == 0 && strcmp(e->d_name, keep) != 0)
            unlinkat(dir, e->d_name, 0);
    closedir(d);
}

/* Writes only what is new, so that times of unchanged files stay. */
static int put_file(int dir, const char *name, struct abx_str text, struct abx_error *err)
{
    ABX_AUTO_FREE char *old = NULL;
    size_t len = 0;
    if (abx_fd_read_file(dir, name, WHEEL_MAX, &old, &len) == 0 &&
        abx_str_eq(abx_str_n(old, len), text))
        return 0;
    int r = abx_fd_replace_file(dir, name, text, 0644);
    return r < 0 ? abx_err_sys(err, r, "write %s", name) : 0;
}

static int inject_wheel(struct cli *cli, struct cli_project *p, int dir, struct abx_error *err)
{
    char path[PATH_MAX];
    ABX_AUTO_FREE char *data = NULL;
    size_t len = 0;
    if (!find_wheel(cli, path, sizeof(path))) {
        if (!wants_wheel(p))
            return 0;
        return abx_err_set(
            err, ABX_NOT_FOUND,
            "the Dockerfile copies .abx/*.whl, and no %s lies beside abx; make build "
            "makes one, --wheel names one",
            wheel_pattern);
    }
    int r = abx_fd_read_file(AT_FDCWD, path, WHEEL_MAX, &data, &len);
    if (r < 0)
        return abx_err_sys(err, r, "%s", path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    remove_others(dir, name);
    if (!cli->v.quiet)
        fprintf(stderr, "abx: server: %s\n", name);
    return put_file(dir, name, abx_str_n(data, len), err);
}

/* ---- the policy ---- */

static void digest_of(struct abx_str text, char out[65])
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(digest, (const unsigned char *)text.ptr, text.len);
    abx_hex_encode(digest, sizeof(digest), out);
}

/* Whether the file in the folder is one that an earlier build wrote. */
static bool is_ours(int dir, struct abx_str text)
{
    char digest[65];
    ABX_AUTO_FREE char *record = NULL;
    digest_of(text, digest);
    return abx_fd_read_file(dir, record_name, 4096, &record, NULL) == 0 &&
           strncmp(record, digest, 64) == 0;
}

/* The same document, however it is written. */
static bool is_same_document(struct abx_str a, struct abx_str b)
{
    json_t *one = json_loadb(a.ptr, a.len, JSON_REJECT_DUPLICATES, NULL);
    json_t *other = json_loadb(b.ptr, b.len, JSON_REJECT_DUPLICATES, NULL);
    bool same = one != NULL && other != NULL && json_equal(one, other);
    json_decref(one);
    json_decref(other);
    return same;
}

static int compile_policy(struct cli *cli, struct cli_project *p, int dir, struct abx_error *err)
{
    ABX_AUTO_FREE char *old = NULL;
    char digest[66];
    size_t len = 0;
    struct abx_str text = abx_str(p->t.policy_json);
    if (text.ptr == NULL)
        return 0;
    if (abx_fd_read_file(p->dir_fd, policy_name, POLICY_MAX, &old, &len) == 0 &&
        !is_ours(dir, abx_str_n(old, len)) && !is_same_document(abx_str_n(old, len), text))
        return abx_err_set(
            err, ABX_FAILED_PRECONDITION,
            "%s/%s was written by hand and says something else than `server:` of %s; "
            "remove one of the two",
            p->dir, policy_name, p->yaml.name);
    if (put_file(p->dir_fd, policy_name, text, err) < 0)
        return -1;
    digest_of(text, digest);
    digest[64] = '\n';
    if (!cli->v.quiet)
        fprintf(stderr, "abx: policy: revision %s\n",
                p->t.revision[0] ? p->t.revision : "known once the server runs");
    return put_file(dir, record_name, abx_str_n(digest, 65), err);
}

int cli_prepare(struct cli *cli, struct cli_project *p, struct abx_error *err)
{
    if (mkdirat(p->dir_fd, ".abx", 0755) < 0 && errno != EEXIST)
        return abx_err_sys(err, -errno, "make %s/.abx", p->dir);
    ABX_AUTO_FD dir = openat(p->dir_fd, ".abx", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return abx_err_sys(err, -errno, "%s/.abx", p->dir);
    if (inject_wheel(cli, p, dir, err) < 0)
        return -1;
    return compile_policy(cli, p, dir, err);
}
