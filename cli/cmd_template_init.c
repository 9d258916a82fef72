/* cli/cmd_template_init.c: abx template init: the folder of a new template. */
#include "cli/cli.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--from", 0, CLI_STR, CLI_VALUE(from), 0, "base", "the official image it stands on"},
    {"--lang", 0, CLI_STR, CLI_VALUE(lang), 0, "python", "of the commands file"},
    {"--name", 'n', CLI_STR, CLI_VALUE(name), 0, "NAME", "instead of the folder's"},
    {0}};

/* "@NAME@" stands for the template's name. */
static const char dockerfile[] =
    "ARG ABX_REGION=cn-hangzhou\n"
    "ARG ABX_BASE_IMAGE_TAG=v0.0.49\n"
    "FROM fc-e2b-registry.${ABX_REGION}.cr.aliyuncs.com/runtime/base:${ABX_BASE_IMAGE_TAG}\n"
    "ENV PIP_BREAK_SYSTEM_PACKAGES=1\n"
    "RUN command -v python3\n"
    "COPY .abx/*.whl /tmp/\n"
    "RUN pip install --no-index /tmp/*.whl || pip install agent-sandbox-server==0.4.0a6   "
    "# built without abx: the published Python server\n"
    "COPY server-policy.json /etc/agent-sandbox/server-policy.json\n"
    "COPY app/ /home/user/app/\n"
    "RUN chown -R user:user /home/user/app\n";

static const char template_yaml[] =
    "spec_version: 5\n"
    "name: @NAME@\n"
    "version: \"1.0.0\"\n"
    "description: A server with one command, for two callers\n"
    "provides:\n"
    "  server:\n"
    "    protocol: agent-sandbox-server\n"
    "    version: 2\n"
    "    port: 9000\n"
    "    operations: [list_commands, run_command, files_list, files_stat, files_download_stream]\n"
    "start_cmd: agent-sandbox-server serve --port 9000 --commands /home/user/app/commands.py\n"
    "ready_cmd: agent-sandbox-server healthcheck --port 9000\n"
    "cpu_count: 1\n"
    "memory_mb: 512\n"
    "\n"
    "# Who may do what. `abx template build` compiles it to server-policy.json.\n"
    "server:\n"
    "  version: 1\n"
    "  base_dir: /home/user\n"
    "  groups: {browser: false, agents: false}\n"
    "  auth:\n"
    "    # The engine makes a token for each variable of a new sandbox that its creator leaves\n"
    "    # unset; `abx server` reads them back.\n"
    "    tokens:\n"
    "      - id: wide\n"
    "        token_env: SERVER_TOKEN_WIDE\n"
    "        scopes: [\"commands:*\", \"files:*\", \"process:*\", \"terminal:*\", \"system:*\"]\n"
    "      - id: narrow\n"
    "        token_env: SERVER_TOKEN_NARROW\n"
    "        scopes: [\"commands:*\", \"files:read\"]\n";

static const char commands_py[] =
    "\"\"\"Commands of @NAME@: each becomes POST /commands/NAME of the server.\"\"\"\n"
    "from agent_sandbox.server import command, start\n"
    "\n"
    "\n"
    "@command(\"greet\", description=\"Greets somebody by name\")\n"
    "def greet(name: str = \"World\"):\n"
    "    return f\"Hello, {name}!\"\n"
    "\n"
    "\n"
    "if __name__ == \"__main__\":\n"
    "    start()\n";

static const char dockerignore[] = ".git\n"
                                   "__pycache__\n"
                                   "*.pyc\n"
                                   ".env\n";

static const char readme[] =
    "# @NAME@\n"
    "\n"
    "A sandbox template: a server with the command `greet`, and a policy with two tokens.\n"
    "\n"
    "    abx template lint\n"
    "    abx template deploy\n"
    "    ID=$(abx create @NAME@)\n"
    "    abx server call $ID greet name=you\n"
    "\n"
    "| file | what it is |\n"
    "|---|---|\n"
    "| `Dockerfile` | the image: on the official base, without CMD or ENTRYPOINT |\n"
    "| `template.yaml` | name, sizes, start and ready command, and under `server` the policy |\n"
    "| `app/commands.py` | what callers may run by name |\n"
    "| `server-policy.json`, `.abx/` | made by the build |\n";

static const struct {
    const char *name, *text;
} files[] = {{"Dockerfile", dockerfile},
             {"template.yaml", template_yaml},
             {"app/commands.py", commands_py},
             {".dockerignore", dockerignore},
             {"README.md", readme}};

/* Lower-case letters, digits, '-' and '_': what a platform takes as a template's name. */
static int set_name(const struct cli *cli, const char *dir, char *out, size_t cap)
{
    char path[PATH_MAX];
    const char *base = cli->v.name;
    if (base == NULL) {
        if (realpath(dir, path) == NULL)
            return -1;
        const char *slash = strrchr(path, '/');
        base = slash ? slash + 1 : path;
    }
    size_t n = 0;
    for (; base[n] && n + 1 < cap; n++) {
        char c = base[n] >= 'A' && base[n] <= 'Z' ? (char)(base[n] + 32) : base[n];
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!good && cli->v.name)
            return -1;
        out[n] = good ? c : '-';
    }
    out[n] = '\0';
    return n > 0 ? 0 : -1;
}

static int write_file(int dir, const char *name, const char *text, const char *template_name)
{
    ABX_AUTO_BUF b;
    struct abx_str rest = abx_str(text);
    abx_buf_init(&b, 65536);
    for (ptrdiff_t at; (at = abx_str_find(rest, ABX_STR("@NAME@"))) >= 0;) {
        abx_buf_put_str(&b, abx_str_sub(rest, 0, (size_t)at));
        abx_buf_put_c(&b, template_name);
        rest = abx_str_sub(rest, (size_t)at + 6, SIZE_MAX);
    }
    abx_buf_put_str(&b, rest);
    ABX_AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    return abx_buf_failed(&b) ? -ENOMEM : abx_fd_write_all(fd, b.ptr, b.len);
}

static int fail(const char *dir, const char *name, int error)
{
    fprintf(stderr, "abx: %s/%s: %s\n", dir, name, strerror(error));
    if (error == EEXIST)
        fputs("     next: take an empty folder; nothing is overwritten\n", stderr);
    return 1;
}

static int write_all(const struct cli *cli, const char *dir, const char *name)
{
    ABX_AUTO_FD at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return fail(dir, "", errno);
    for (size_t i = 0; i < ABX_COUNTOF(files); i++) /* all or nothing */
        if (faccessat(at, files[i].name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return fail(dir, files[i].name, EEXIST);
    if (mkdirat(at, "app", 0755) < 0 && errno != EEXIST)
        return fail(dir, "app", errno);
    for (size_t i = 0; i < ABX_COUNTOF(files); i++) {
        int r = write_file(at, files[i].name, files[i].text, name);
        if (r < 0)
            return fail(dir, files[i].name, -r);
        if (!cli->v.quiet)
            fprintf(stderr, "abx: wrote %s/%s\n", dir, files[i].name);
    }
    if (!cli->v.quiet)
        fprintf(stderr, "     next: abx template deploy %s\n", dir);
    return 0;
}

static int run(struct cli *cli)
{
    char name[129];
    const char *dir = cli->arg_count ? cli->args[0] : ".";
    if (cli->v.from && strcmp(cli->v.from, "base") != 0) {
        fprintf(stderr, "abx: E8004 --from %s is not built; base is\n", cli->v.from);
        return 1;
    }
    if (cli->v.lang && strcmp(cli->v.lang, "python") != 0) {
        fprintf(stderr, "abx: E8004 --lang %s is not built; python is\n", cli->v.lang);
        return 1;
    }
    int r = abx_fd_mkdir_p(dir, 0755);
    if (r < 0)
        return fail(dir, "", -r);
    if (set_name(cli, dir, name, sizeof(name)) < 0)
        return cli_usage(&cmd_template_init, "'%s' is no template name: a-z, 0-9, '-' and '_'",
                         cli->v.name ? cli->v.name : dir);
    return write_all(cli, dir, name);
}

const struct cli_command cmd_template_init = {
    .name = "template init",
    .args = "[DIR]",
    .help = "Write the files of a new template: Dockerfile, template.yaml, commands, policy",
    .options = options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
