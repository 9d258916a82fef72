/* cli/cmd_image_archive.c: abx image import, image export, template export: archives in and out of
 * the local engine. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static int fail_file(const char *what, const char *name)
{
    fprintf(stderr, "abx: %s %s: %s\n", what, name, strerror(errno));
    return 1;
}

/* ---- export ---- */
typedef int export_fn(struct abx_client *c, const char *name, int fd, struct abx_client_error *err);

static int export_to_file(struct cli *cli, export_fn *fn)
{
    const char *file = cli->args[1];
    char part[PATH_MAX];
    struct stat st;
    if (snprintf(part, sizeof(part), "%s.abx-part", file) >= (int)sizeof(part))
        return cli_usage(NULL, "the file's name is too long");
    ABX_AUTO_FD fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_file("create", part);
    if (fn(cli->client, cli->args[0], fd, &cli->err) < 0) {
        unlink(part); /* what was there before stays */
        return cli_fail(cli);
    }
    if (fstat(fd, &st) < 0 || rename(part, file) < 0) {
        int code = fail_file("write", file);
        unlink(part);
        return code;
    }
    if (!cli->v.quiet)
        fprintf(stderr, "abx: wrote %s, %lld bytes\n", file, (long long)st.st_size);
    return 0;
}

static int export_with(struct cli *cli, export_fn *fn)
{
    if (cli_client(cli) < 0)
        return cli_fail(cli);
    if (strcmp(cli->args[1], "-") != 0)
        return export_to_file(cli, fn);
    return fn(cli->client, cli->args[0], STDOUT_FILENO, &cli->err) < 0 ? cli_fail(cli) : 0;
}

static int run_export(struct cli *cli)
{
    return export_with(cli, abx_image_export);
}

static int run_template_export(struct cli *cli)
{
    return export_with(cli, abx_template_export);
}

const struct cli_command cmd_image_export = {
    .name = "image export",
    .args = "NAME FILE",
    .help = "Write an image as an OCI layout (tar), the runtime as last layer; '-' is stdout",
    .min_args = 2,
    .max_args = 2,
    .run = run_export};

const struct cli_command cmd_template_export = {
    .name = "template export",
    .args = "NAME[:TAG] FILE",
    .help = "Write a template as an OCI layout (tar), the runtime as last layer; '-' is stdout",
    .min_args = 2,
    .max_args = 2,
    .run = run_template_export};

/* ---- import ---- */
static const struct cli_option import_options[] = {
    {"--kind", 0, CLI_STR, CLI_VALUE(kind), 0, "KIND",
     "rootfs (the files of one system), oci or docker; default: oci"},
    {0}};

static int run_import(struct cli *cli)
{
    ABX_AUTO_FREE char *answer = NULL;
    const char *file = cli->args[1];
    /* never 0: the client takes that for none */
    ABX_AUTO_FD fd = strcmp(file, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                            : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_file("open", file);
    struct abx_image_source source = {.fd = fd, .kind = cli->v.kind ? cli->v.kind : "oci"};
    if (cli_client(cli) < 0 ||
        abx_image_import(cli->client, cli->args[0], &source, &answer, &cli->err) < 0)
        return cli_fail(cli);
    return cli->v.quiet ? 0 : cli_print_json(cli, answer);
}

const struct cli_command cmd_image_import = {
    .name = "image import",
    .args = "NAME FILE",
    .help = "Take an image from an archive: OCI layout, docker-archive or root file system",
    .options = import_options,
    .min_args = 2,
    .max_args = 2,
    .run = run_import};
