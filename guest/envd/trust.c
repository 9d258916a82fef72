/* guest/envd/trust.c: certificates of /init in the trust of the system (envd.md 2.2), where
 * Debian's ca-certificates keeps it: the bundle that TLS libraries read, and a file of ours from
 * which update-ca-certificates makes the bundle anew. That file also tells what an earlier call put
 * in, so that a new one replaces it, after a restart too. Small files, at most BUNDLE_MAX. */
#include "guest/envd/envd_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

#define BUNDLE_DIR "etc/ssl/certs"
#define BUNDLE     "ca-certificates.crt"
#define EXTRA_DIR  "usr/local/share/ca-certificates"
#define EXTRA      "e2b-ca.crt"
#define BEGIN      "-----BEGIN CERTIFICATE-----"
#define END        "-----END CERTIFICATE-----"

enum { BUNDLE_MAX = 8 << 20 };

int abx__trust_check(struct abx_str pem, struct abx_error *err)
{
    size_t count = 0;
    for (ptrdiff_t at; (at = abx_str_find(pem, ABX_STR(BEGIN))) >= 0; count++) {
        pem = abx_str_sub(pem, (size_t)at + sizeof(BEGIN) - 1, pem.len);
        ptrdiff_t end = abx_str_find(pem, ABX_STR(END)), next = abx_str_find(pem, ABX_STR(BEGIN));
        if (end < 0 || (next >= 0 && next < end))
            return abx_err_set(err, ABX_INVALID_ARGUMENT,
                               "caBundle: certificate %zu has no line " END, count + 1);
    }
    if (count == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "caBundle: no certificate in it; expected PEM, lines " BEGIN);
    return 0;
}

static int open_dir(const char *root, const char *name, struct abx_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", root, name) >= (int)sizeof(path))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "caBundle: the path of %s is too long", name);
    int rc = abx_fd_mkdir_p(path, 0755);
    int fd = rc < 0 ? rc : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return abx_err_sys(err, rc < 0 ? rc : -errno, "caBundle: %s", path);
    return fd;
}

/* The file as text; "" where there is none. */
static int read_text(int dir_fd, const char *name, char **ret, struct abx_str *ret_text,
                     struct abx_error *err)
{
    size_t len = 0;
    int rc = abx_fd_read_file(dir_fd, name, BUNDLE_MAX, ret, &len);
    if (rc < 0 && rc != -ENOENT)
        return abx_err_sys(err, rc, "caBundle: read %s", name);
    *ret_text = rc == 0 ? abx_str_n(*ret, len) : ABX_STR("");
    return 0;
}

/* At its end: the bundle stays the file that it is, be it a link or a mount. */
static int append(int dir_fd, struct abx_str bundle, struct abx_str pem)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, BUNDLE_MAX);
    if (bundle.len && bundle.ptr[bundle.len - 1] != '\n')
        abx_buf_put_c(&text, "\n");
    abx_buf_put(&text, pem.ptr, pem.len);
    if (abx_buf_failed(&text))
        return -ENOMEM;
    ABX_AUTO_FD fd = openat(dir_fd, BUNDLE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : abx_fd_write_all(fd, text.ptr, text.len);
}

/* @pem in the place of @old, which stands at @at. Whole or not at all: others read it meanwhile. */
static int exchange(int dir_fd, struct abx_str bundle, size_t at, size_t old_len,
                    struct abx_str pem)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, BUNDLE_MAX + ABX__INIT_MAX);
    abx_buf_put(&text, bundle.ptr, at);
    abx_buf_put(&text, pem.ptr, pem.len);
    abx_buf_put(&text, bundle.ptr + at + old_len, bundle.len - at - old_len);
    if (abx_buf_failed(&text))
        return -ENOMEM;
    return abx_fd_replace_file(dir_fd, BUNDLE, abx_buf_str(&text), 0644);
}

static int put_in_bundle(int dir_fd, struct abx_str old, struct abx_str pem, struct abx_error *err)
{
    ABX_AUTO_FREE char *had = NULL;
    struct abx_str bundle;
    if (read_text(dir_fd, BUNDLE, &had, &bundle, err) < 0)
        return -1;
    if (abx_str_find(bundle, pem) >= 0)
        return 0;
    ptrdiff_t at = old.len ? abx_str_find(bundle, old) : -1;
    int rc =
        at < 0 ? append(dir_fd, bundle, pem) : exchange(dir_fd, bundle, (size_t)at, old.len, pem);
    return rc < 0 ? abx_err_sys(err, rc, "caBundle: write /" BUNDLE_DIR "/" BUNDLE) : 0;
}

/* One line end after the last line, however the caller wrote it: the same certificates are the
 * same text. */
static int normalise(struct abx_str pem, struct abx_buf *out, struct abx_error *err)
{
    while (pem.len && (pem.ptr[pem.len - 1] == '\n' || pem.ptr[pem.len - 1] == '\r'))
        pem.len--;
    abx_buf_put(out, pem.ptr, pem.len);
    abx_buf_put_c(out, "\n");
    return abx_buf_failed(out) ? abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory") : 0;
}

int abx__trust_install(const char *root, struct abx_str given, struct abx_error *err)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX__INIT_MAX + 1);
    if (normalise(given, &text, err) < 0)
        return -1;
    struct abx_str pem = abx_buf_str(&text), old;
    ABX_AUTO_FD bundle_dir = open_dir(root, BUNDLE_DIR, err);
    if (bundle_dir < 0)
        return -1;
    ABX_AUTO_FD extra_dir = open_dir(root, EXTRA_DIR, err);
    ABX_AUTO_FREE char *had = NULL;
    if (extra_dir < 0 || read_text(extra_dir, EXTRA, &had, &old, err) < 0)
        return -1;
    if (put_in_bundle(bundle_dir, old, pem, err) < 0)
        return -1;
    if (abx_str_eq(old, pem))
        return 0;
    int rc = abx_fd_replace_file(extra_dir, EXTRA, pem, 0644);
    return rc < 0 ? abx_err_sys(err, rc, "caBundle: write /" EXTRA_DIR "/" EXTRA) : 0;
}
