/* cli/cmd_cp.c: abx cp SRC DST: one file out of or into a sandbox; ID:PATH names the sandbox's. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* Cuts "ID:PATH"; NULL when @word names a local file ("./a:b" does). */
static const char *split_remote(char *word)
{
    char *colon = strchr(word, ':');
    if (colon == NULL || colon == word)
        return NULL;
    *colon = '\0';
    if (strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789") == (size_t)(colon - word))
        return colon + 1;
    *colon = ':';
    return NULL;
}

static int fail_local(const char *name, const char *what)
{
    fprintf(stderr, "abx: %s %s: %s\n", what, name, strerror(errno));
    return 1;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A destination that ends in '/' gets the source's name. */
static void complete(const char *dst, const char *src, char *out, size_t cap)
{
    size_t n = strlen(dst);
    snprintf(out, cap, "%s%s", dst, n == 0 || dst[n - 1] == '/' ? base_name(src) : "");
}

static int download(struct cli *cli, struct abx_sandbox *sb, const char *remote, const char *local)
{
    char name[PATH_MAX], part[PATH_MAX + 16];
    struct stat st;
    if (strcmp(local, "-") == 0)
        return abx_sandbox_download(sb, remote, STDOUT_FILENO, &cli->err) < 0 ? cli_fail(cli) : 0;
    complete(local, remote, name, sizeof(name));
    if (stat(name, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(name, sizeof(name), "%s/%s", local, base_name(remote));
    snprintf(part, sizeof(part), "%s.abx-part", name); /* a cut transfer leaves the old file */
    ABX_AUTO_FD fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_local(part, "create");
    if (abx_sandbox_download(sb, remote, fd, &cli->err) < 0) {
        unlink(part);
        return cli_fail(cli);
    }
    return rename(part, name) < 0 ? fail_local(name, "rename to") : 0;
}

static int upload(struct cli *cli, struct abx_sandbox *sb, const char *local, const char *remote)
{
    char name[PATH_MAX];
    struct stat st;
    ABX_AUTO_FD fd =
        strcmp(local, "-") == 0 ? dup(STDIN_FILENO) : open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_local(local, "open");
    if (S_ISDIR(st.st_mode)) {
        fprintf(stderr, "abx: %s is a directory; abx cp copies files\n", local);
        fputs("     next: tar c DIR | abx exec ID -- tar x\n", stderr);
        return 2;
    }
    complete(remote, local, name, sizeof(name));
    return abx_sandbox_upload(sb, name, fd, &cli->err) < 0 ? cli_fail(cli) : 0;
}

static int run(struct cli *cli)
{
    const char *from = split_remote(cli->args[0]), *to = split_remote(cli->args[1]);
    if ((from == NULL) == (to == NULL))
        return cli_usage(&cmd_cp, "exactly one of SRC and DST is ID:PATH");
    struct abx_sandbox *sb;
    const char *id = from ? cli->args[0] : cli->args[1];
    if (cli_client(cli) < 0 || abx_sandbox_connect(cli->client, id, 1, &sb, &cli->err) < 0)
        return cli_fail(cli);
    int r = from ? download(cli, sb, from, cli->args[1]) : upload(cli, sb, cli->args[0], to);
    abx_sandbox_free(sb);
    return r;
}

const struct cli_command cmd_cp = {.name = "cp",
                                   .args = "SRC DST",
                                   .help = "Copy a file; ID:PATH is one in a sandbox, '-' a pipe",
                                   .min_args = 2,
                                   .max_args = 2,
                                   .run = run};
