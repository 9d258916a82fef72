/* guest/init/prepare.c: what PID 1 sees to before the first service: the account `user`, the
 * profile of login shells, its own environment. Every step may find a read-only image and says so.
 */
#include "guest/init/init.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MAX_ACCOUNT_BYTES = 4 << 20, MAX_PATH_TEXT = 4096, MAX_LINE = 256 };

static const char passwd_name[] = "etc/passwd", group_name[] = "etc/group";

static const char profile_text[] = "# written by " ABX_GUEST_ENTRYPOINT "\n"
                                   "case \":$PATH:\" in\n"
                                   "*:" ABX_GUEST_DIR ":*) ;;\n"
                                   "*) PATH=\"" ABX_GUEST_DIR ":$PATH\"; export PATH ;;\n"
                                   "esac\n";

static const char ca_file[] = "/etc/ssl/certs/ca-certificates.crt";
static const char *const ca_variables[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
                                           "NODE_EXTRA_CA_CERTS"};

/* Account files are edited only as plain files of the image: a link could lead anywhere. */
static int open_account_file(int root, const char *name)
{
    int fd = openat(root, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return -EINVAL;
}

/* Whether a line "name:..." stands in the text. */
static bool has_entry(struct abx_str text, const char *name)
{
    struct abx_str line, first;
    while (abx_str_split(&text, '\n', &line))
        if (abx_str_split(&line, ':', &first) && abx_str_is(first, name))
            return true;
    return false;
}

/* 1: there, 0: not there, -errno. *ret_open_line: the last line lacks its newline. */
static int find_entry(int root, const char *file, bool *ret_open_line)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    int r = abx_fd_read_file(root, file, MAX_ACCOUNT_BYTES, &text, &len);
    if (r < 0)
        return r;
    *ret_open_line = len > 0 && text[len - 1] != '\n';
    return has_entry(abx_str_n(text, len), ABX_USER_NAME);
}

static int append_line(int fd, bool open_line, const char *line)
{
    char out[MAX_LINE];
    int n = snprintf(out, sizeof(out), "%s%s\n", open_line ? "\n" : "", line);
    return abx_fd_write_all(fd, out, (size_t)n);
}

/* Why the account can not be made: @r, of the first file that says no. */
static bool no_user(struct abx_error *ret_why, const char *file, int r)
{
    abx_err_sys(ret_why, r, "/%s", file);
    abx_log(ABX_LOG_WARN, "no account %s: %s", ABX_USER_NAME, ret_why->msg);
    return false;
}

static bool make_user(int root, struct abx_error *ret_why)
{
    bool open_passwd = false, open_group = false;
    int in_passwd = find_entry(root, passwd_name, &open_passwd);
    if (in_passwd == 1)
        return true;
    int in_group = find_entry(root, group_name, &open_group);
    ABX_AUTO_FD passwd = in_passwd == 0 ? open_account_file(root, passwd_name) : in_passwd;
    ABX_AUTO_FD group = in_group >= 0 ? open_account_file(root, group_name) : in_group;
    if (passwd < 0 || group < 0)
        return no_user(ret_why, passwd < 0 ? passwd_name : group_name, passwd < 0 ? passwd : group);
    char line[MAX_LINE];
    const char *shell = faccessat(root, "bin/bash", X_OK, 0) == 0 ? "/bin/bash" : "/bin/sh";
    int r = 0;
    if (in_group == 0) {
        snprintf(line, sizeof(line), "%s:x:%d:", ABX_USER_NAME, ABX_USER_ID);
        r = append_line(group, open_group, line);
        if (r < 0)
            return no_user(ret_why, group_name, r);
    }
    snprintf(line, sizeof(line), "%s:x:%d:%d::%s:%s", ABX_USER_NAME, ABX_USER_ID, ABX_USER_ID,
             ABX_USER_HOME, shell);
    r = append_line(passwd, open_passwd, line);
    return r == 0 || no_user(ret_why, passwd_name, r);
}

static void make_home(int root)
{
    const char *home = &ABX_USER_HOME[1];
    struct stat st;
    if (fstatat(root, home, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return;
    if (mkdirat(root, "home", 0755) < 0 && errno != EEXIST) {
        abx_log(ABX_LOG_WARN, "no home for %s: errno=%d", ABX_USER_NAME, errno);
        return;
    }
    if (mkdirat(root, home, 0755) < 0 ||
        fchownat(root, home, ABX_USER_ID, ABX_USER_ID, AT_SYMLINK_NOFOLLOW) < 0)
        abx_log(ABX_LOG_WARN, "no home for %s: errno=%d", ABX_USER_NAME, errno);
}

/* An image whose runtime layer brought the file keeps that one. */
static void make_profile(int root)
{
    const char *name = &ABX_GUEST_PROFILE[1];
    ABX_AUTO_FD fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 && (errno == EEXIST || errno == ENOENT))
        return; /* there already, or an image without login profiles */
    int r = fd < 0 ? -errno : abx_fd_write_all(fd, profile_text, sizeof(profile_text) - 1);
    if (r < 0)
        abx_log(ABX_LOG_WARN, "no %s: errno=%d", ABX_GUEST_PROFILE, -r);
}

static void set_path(void)
{
    const char *path = getenv("PATH");
    if (path == NULL || *path == '\0') {
        setenv("PATH", ABX_SANDBOX_PATH, 1);
        return;
    }
    struct abx_str rest = abx_str(path), dir;
    while (abx_str_split(&rest, ':', &dir))
        if (abx_str_is(dir, ABX_GUEST_DIR))
            return;
    struct abx_buf text;
    abx_buf_init(&text, MAX_PATH_TEXT);
    abx_buf_putf(&text, "%s:%s", ABX_GUEST_DIR, path);
    if (abx_buf_failed(&text))
        abx_log(ABX_LOG_WARN, "PATH is over %d bytes and was left alone", MAX_PATH_TEXT);
    else
        setenv("PATH", text.ptr, 1);
    abx_buf_done(&text);
}

static void set_environment(int root)
{
    set_path();
    setenv("LANG", "C.UTF-8", 0);
    setenv("HOME", "/root", 0);
    if (faccessat(root, &ca_file[1], R_OK, 0) < 0)
        return;
    for (size_t i = 0; i < ABX_COUNTOF(ca_variables); i++)
        setenv(ca_variables[i], ca_file, 0);
}

/* Where memory ends, the daemons go after what users start (ABX_PROC_OOM_USER). Below 0 needs
 * CAP_SYS_RESOURCE; the engine has started us above it. */
static void protect_from_oom(void)
{
    static const char name[] = "/proc/self/oom_score_adj";
    char now[16] = "";
    int r = abx_fd_write_file(AT_FDCWD, name, ABX_STR("-1000"));
    ABX_AUTO_FD fd = r < 0 ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && abx_fd_read_all(fd, now, sizeof(now) - 1) > 0 && now[0] != '-')
        r = abx_fd_write_file(AT_FDCWD, name, ABX_STR("0"));
    if (r < 0)
        abx_log(ABX_LOG_DEBUG, "oom_score_adj stays: errno=%d", -r);
}

bool abx_init_prepare(const char *root_path, struct abx_error *ret_why)
{
    ABX_AUTO_FD root = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return no_user(ret_why, &root_path[1], -errno);
    umask(022);
    bool has_user = make_user(root, ret_why);
    if (has_user)
        make_home(root);
    make_profile(root);
    set_environment(root);
    if (getpid() == 1)
        protect_from_oom();
    return has_user;
}
