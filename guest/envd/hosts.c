/* guest/envd/hosts.c: the name of the events service in /etc/hosts, at the address that /init gives
 * (envd.md 2.2, hyperloopIP). The file is written in place: it may be a mount of its own. */
#include "guest/envd/envd_priv.h"

#include "lib/base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

#define EVENTS_HOST "events.e2b.local"

enum { HOSTS_MAX = 1 << 20 };

int abx__hosts_check(struct abx_str address, union abx_address *ret, struct abx_error *err)
{
    char text[INET6_ADDRSTRLEN];
    if (abx_str_to_c(address, text, sizeof(text)) < 0 || abx_address_parse(text, 0, ret) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "hyperloopIP: expected an IP address");
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct abx_str next_word(struct abx_str *rest)
{
    size_t from = 0, to;
    while (from < rest->len && is_blank(rest->ptr[from]))
        from++;
    for (to = from; to < rest->len && !is_blank(rest->ptr[to]);)
        to++;
    struct abx_str word = abx_str_sub(*rest, from, to - from);
    *rest = abx_str_sub(*rest, to, rest->len);
    return word;
}

/* Whether a line gives EVENTS_HOST an address of that family. */
static bool names_us(struct abx_str line, int family)
{
    union abx_address a;
    ptrdiff_t comment = abx_str_chr(line, '#');
    struct abx_str rest = comment < 0 ? line : abx_str_sub(line, 0, (size_t)comment), word;
    char text[INET6_ADDRSTRLEN];
    if (abx_str_to_c(next_word(&rest), text, sizeof(text)) < 0 ||
        abx_address_parse(text, 0, &a) < 0 || a.any.sa_family != family)
        return false;
    while ((word = next_word(&rest)).len)
        if (abx_str_is_nocase(word, EVENTS_HOST))
            return true;
    return false;
}

/* The line without the name; nothing where it gave no other. */
static void put_others(struct abx_str line, struct abx_buf *out)
{
    struct abx_str rest = line, address = next_word(&rest), word;
    size_t names = 0;
    while ((word = next_word(&rest)).len) {
        if (abx_str_is_nocase(word, EVENTS_HOST))
            continue;
        if (names == 0 && word.ptr[0] == '#')
            return; /* a comment on what is gone */
        if (names++ == 0)
            abx_buf_put(out, address.ptr, address.len);
        abx_buf_put_c(out, " ");
        abx_buf_put(out, word.ptr, word.len);
    }
    if (names)
        abx_buf_put_c(out, "\n");
}

static void rewrite(struct abx_str had, struct abx_str address, int family, struct abx_buf *out)
{
    struct abx_str line;
    while (abx_str_split(&had, '\n', &line)) {
        if (names_us(line, family)) {
            put_others(line, out);
        } else if (line.len || had.len) {
            abx_buf_put(out, line.ptr, line.len);
            abx_buf_put_c(out, "\n");
        }
    }
    abx_buf_putf(out, "%.*s " EVENTS_HOST "\n", ABX_STR_FMT(address));
}

static int write_in_place(const char *path, struct abx_str text)
{
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    int rc = abx_fd_write_all(fd, text.ptr, text.len);
    return rc == 0 && ftruncate(fd, (off_t)text.len) < 0 ? -errno : rc;
}

int abx__hosts_set(const char *root, struct abx_str address, struct abx_error *err)
{
    union abx_address a;
    char path[PATH_MAX];
    if (abx__hosts_check(address, &a, err) < 0)
        return -1;
    if (snprintf(path, sizeof(path), "%s/etc/hosts", root) >= (int)sizeof(path))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "hyperloopIP: the path of hosts is too long");
    ABX_AUTO_FREE char *had = NULL;
    size_t len = 0;
    int rc = abx_fd_read_file(AT_FDCWD, path, HOSTS_MAX, &had, &len);
    if (rc < 0 && rc != -ENOENT)
        return abx_err_sys(err, rc, "hyperloopIP: read %s", path);
    ABX_AUTO_BUF text;
    abx_buf_init(&text, HOSTS_MAX + PATH_MAX);
    rewrite(abx_str_n(had, had ? len : 0), address, a.any.sa_family, &text);
    if (abx_buf_failed(&text))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "hyperloopIP: out of memory");
    struct abx_str now = abx_buf_str(&text);
    if (had && abx_str_eq(abx_str_n(had, len), now))
        return 0;
    rc = write_in_place(path, now);
    return rc < 0 ? abx_err_sys(err, rc, "hyperloopIP: write %s", path) : 0;
}
