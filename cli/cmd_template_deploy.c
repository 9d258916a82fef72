/* cli/cmd_template_deploy.c: abx template deploy: build where needed, then prove that it works by
 * one command and one file in a sandbox of it. */
#include "cli/build.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SMOKE_TIMEOUT_S = 120, SMOKE_BYTES = 64 };
static const char smoke_text[] = "abx template deploy: smoke test\n";
static const char smoke_path[] = "/tmp/.abx-smoke";

struct output {
    char text[SMOKE_BYTES];
    size_t len;
};

static void on_stdout(void *arg, const char *data, size_t len)
{
    struct output *o = arg;
    size_t room = sizeof(o->text) - o->len;
    memcpy(o->text + o->len, data, len < room ? len : room);
    o->len += len < room ? len : room;
}

static int fail(struct cli *cli, const char *what)
{
    cli->err = (struct abx_client_error){.id = "E9000", .hop = "client"};
    snprintf(cli->err.message, sizeof(cli->err.message), "smoke test: %s", what);
    snprintf(cli->err.next, sizeof(cli->err.next), "abx create it and look: abx exec ID -- ...");
    return -1;
}

static int smoke_command(struct cli *cli, struct abx_sandbox *sb)
{
    const char *argv[] = {"/bin/bash", "-l", "-c", "echo abx-$((6*7))", NULL};
    struct output out = {0};
    struct abx_exec_result res = {0};
    struct abx_exec_options o = {.argv = argv,
                                 .stdin_fd = -1,
                                 .timeout_ms = SMOKE_TIMEOUT_S * 1000,
                                 .on_stdout = on_stdout,
                                 .arg = &out};
    if (abx_sandbox_exec(sb, &o, &res, &cli->err) < 0)
        return -1;
    if (res.exit_code != 0 || !abx_str_is(abx_str_n(out.text, out.len), "abx-42\n"))
        return fail(cli, "a command did not print what it should");
    return 0;
}

static int smoke_file(struct cli *cli, struct abx_sandbox *sb)
{
    char back[SMOKE_BYTES + 1];
    size_t len = sizeof(smoke_text) - 1;
    ABX_AUTO_FD up = memfd_create("abx-smoke", MFD_CLOEXEC);
    ABX_AUTO_FD down = memfd_create("abx-smoke", MFD_CLOEXEC);
    if (up < 0 || down < 0 || abx_fd_write_all(up, smoke_text, len) < 0 ||
        lseek(up, 0, SEEK_SET) < 0)
        return fail(cli, strerror(errno));
    if (abx_sandbox_upload(sb, smoke_path, up, &cli->err) < 0 ||
        abx_sandbox_download(sb, smoke_path, down, &cli->err) < 0)
        return -1;
    if (lseek(down, 0, SEEK_SET) < 0 || abx_fd_read_all(down, back, sizeof(back)) != (ssize_t)len ||
        memcmp(back, smoke_text, len) != 0)
        return fail(cli, "a file did not come back as it was sent");
    return 0;
}

static int smoke(struct cli *cli, const struct abx_build_result *r)
{
    struct abx_create_options o = {.template_name = r->template_id, .timeout_s = SMOKE_TIMEOUT_S};
    struct abx_client_error ignored;
    struct abx_sandbox *sb;
    if (abx_sandbox_create(cli->client, &o, &sb, &cli->err) < 0)
        return -1;
    int result = smoke_command(cli, sb);
    if (result == 0)
        result = smoke_file(cli, sb);
    (void)abx_sandbox_kill(cli->client, abx_sandbox_id(sb), &ignored);
    abx_sandbox_free(sb);
    return result;
}

static int run(struct cli *cli)
{
    struct abx_build_result r = {0};
    int code = cli_build(cli, cli->arg_count ? cli->args[0] : ".", &r);
    if (code != 0)
        return code;
    if (smoke(cli, &r) < 0)
        return cli_fail(cli);
    if (!cli->v.quiet)
        fputs("abx: smoke test: a command and a file, both ok\n", stderr);
    if (cli->v.json)
        printf("{\"templateID\":\"%s\",\"buildID\":\"%s\",\"smoke\":\"ok\"}\n", r.template_id,
               r.build_id);
    else
        printf("%s\n", r.template_id);
    return 0;
}

const struct cli_command cmd_template_deploy = {
    .name = "template deploy",
    .args = "[DIR]",
    .help = "Build a template where needed, register it, and try one command and one file",
    .options = cli_build_options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
