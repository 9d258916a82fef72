/* cli/build.c: a template's folder to a build of the platform: lint, context, steps, log. */
#include "cli/build.h"
#include "cli/context.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { IGNORE_MAX = 1 << 20 };

const struct cli_option cli_build_options[] = {
    {"--name", 'n', CLI_STR, CLI_VALUE(name), 0, "NAME[:TAG]", "instead of template.yaml's name"},
    {"--build-arg", 0, CLI_PAIR, CLI_VALUE(build_args), CLI_VALUE(build_arg_count), "KEY=VALUE",
     "a value for an ARG of the Dockerfile"},
    {"--envd-inject", 0, CLI_STR, CLI_VALUE(envd_inject), 0, "auto|true|false",
     "whether a cloud builds the runtime into the image (auto: by FROM)"},
    {"--wheel", 0, CLI_STR, CLI_VALUE(wheel), 0, "FILE",
     "the server's wheel instead of the one beside abx"},
    {"--no-cache", 0, CLI_FLAG, CLI_VALUE(no_cache), 0, NULL, "run every step again"},
    {0}};

struct job {
    struct cli *cli;
    struct cli_project *p;
    struct cli_ignore *ignore;
    struct cli_pack *packs; /* one per step; fd -1 where it is no COPY */
    struct abx_build_step *steps;
};

static int fail_at(struct job *j, struct abx_df_place at, const char *text)
{
    struct cli_finding x = {.rule = "build",
                            .source = &j->p->dockerfile,
                            .line = at.line,
                            .column = at.column,
                            .width = at.width};
    struct cli_findings *f = &j->p->findings;
    size_t before = f->count;
    cli_findings_add(f, &x, "%s", text);
    if (f->count > before) { /* the others were shown */
        f->items[0] = f->items[before];
        f->count = 1;
    }
    cli_findings_print(f, stderr);
    return 1;
}

/* ---- the context ---- */

static int read_ignore(struct job *j, char **keep, struct abx_error *err)
{
    size_t len = 0;
    int r = abx_fd_read_file(j->p->dir_fd, ".dockerignore", IGNORE_MAX, keep, &len);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return abx_err_sys(err, r, "%s/.dockerignore", j->p->dir);
    if (cli_ignore_read(abx_str_n(*keep, len), j->ignore) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%s/.dockerignore: more than %d patterns",
                           j->p->dir, CLI_IGNORE_RULES_MAX);
    return 0;
}

/* 0, or the exit code after a message. */
static int pack_steps(struct job *j)
{
    struct abx_error err;
    const struct abx_df_plan *plan = &j->p->plan;
    for (size_t i = 0; i < plan->count; i++) {
        const struct abx_df_step *s = &plan->steps[i];
        const char **args = abx_arena_array(&j->p->arena, s->arg_count, sizeof(*args));
        for (size_t k = 0; args && k < s->arg_count; k++)
            args[k] = abx_arena_c(&j->p->arena, s->args[k]);
        if (args == NULL)
            return fail_at(j, s->at, "out of memory");
        j->steps[i] =
            (struct abx_build_step){.type = s->type, .args = args, .arg_count = s->arg_count};
        if (strcmp(s->type, "COPY") != 0)
            continue;
        if (cli_context_pack(j->p->dir_fd, s->args[0], s->args[1], j->ignore, &j->packs[i], &err) <
            0)
            return fail_at(j, s->at, err.msg);
        j->steps[i].files_hash = j->packs[i].hash;
    }
    return 0;
}

static int open_files(void *arg, const char *hash)
{
    struct job *j = arg;
    for (size_t i = 0; i < j->p->plan.count; i++)
        if (j->packs[i].fd >= 0 && strcmp(j->packs[i].hash, hash) == 0) {
            int fd = dup(j->packs[i].fd);
            if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
                abx_fd_close(&fd);
            return fd;
        }
    return -1;
}

/* ---- the log ---- */

static void on_log(void *arg, const struct abx_build_log *log)
{
    const struct job *j = arg;
    if (j->cli->v.quiet || (strcmp(log->level, "debug") == 0 && !j->cli->v.verbose))
        return;
    for (const char *c = log->message; *c; c++) /* a build must not drive the terminal */
        fputc((unsigned char)*c < 0x20 && *c != '\t' && *c != '\n' ? '?' : *c, stderr);
    fputc('\n', stderr);
}

/* The step that failed, where it stands. */
static int explain(struct job *j, const struct abx_build_result *r)
{
    struct abx_df_place at = {0};
    uint32_t number = 0;
    for (const char *c = r->step; *c >= '0' && *c <= '9' && number < 100000; c++)
        number = number * 10 + (uint32_t)(*c - '0');
    if (number >= 1 && number <= j->p->plan.count)
        at = j->p->plan.steps[number - 1].at;
    else if (strcmp(r->step, "base") == 0)
        at = j->p->plan.image_at;
    char line[256]; /* the first one; the log had the rest */
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(r->message, "\n"), r->message);
    return fail_at(j, at, line[0] ? line : "the build failed");
}

/* ---- start and ready ---- */

static bool has_commands(const struct cli_project *p)
{
    return faccessat(p->dir_fd, "app/commands.py", R_OK, 0) == 0;
}

/* A template with a `server:` block starts the server unless it says otherwise. */
static const char *start_of(struct cli_project *p)
{
    if (p->t.start_cmd[0])
        return p->t.start_cmd;
    if (p->t.server == NULL)
        return NULL;
    return abx_arena_printf(&p->arena, "agent-sandbox-server serve --port %u%s", p->t.server_port,
                            has_commands(p) ? " --commands " ABX_SERVER_COMMANDS_PATH : "");
}

static const char *ready_of(struct cli_project *p)
{
    if (p->t.ready_cmd[0])
        return p->t.ready_cmd;
    if (p->t.server == NULL)
        return NULL;
    return abx_arena_printf(&p->arena, "agent-sandbox-server healthcheck --port %u",
                            p->t.server_port);
}

/* template.yaml's env, but for what its caller must set, is the image's. */
static size_t put_env(struct job *j, size_t count)
{
    const struct abx_yaml *env = j->p->t.env;
    for (size_t i = 0; env && i < env->count; i++) {
        if (env->items[i].type != ABX_YAML_STR || env->items[i].text.len == 0)
            continue;
        const char **args = abx_arena_array(&j->p->arena, 2, sizeof(*args));
        if (args == NULL)
            return count;
        args[0] = abx_arena_c(&j->p->arena, env->items[i].key);
        args[1] = abx_arena_c(&j->p->arena, env->items[i].text);
        j->steps[count++] = (struct abx_build_step){.type = "ENV", .args = args, .arg_count = 2};
    }
    return count;
}

static int run(struct job *j, struct abx_build_result *ret)
{
    struct cli_project *p = j->p;
    int code = pack_steps(j);
    if (code != 0)
        return code;
    size_t count = put_env(j, p->plan.count);
    if (cli_client(j->cli) < 0)
        return cli_fail(j->cli);
    struct abx_build_options o = {.name = j->cli->v.name ? j->cli->v.name : p->t.name,
                                  .from_image = abx_arena_c(&p->arena, p->plan.image),
                                  .steps = j->steps,
                                  .step_count = count,
                                  .start_cmd = start_of(p),
                                  .ready_cmd = ready_of(p),
                                  .cpu_count = p->t.cpu_count,
                                  .memory_mb = p->t.memory_mb,
                                  .force = j->cli->v.no_cache,
                                  .envd_inject = p->envd_inject ? "true" : "false",
                                  .network = p->t.network,
                                  .proc_hidepid = p->t.proc_hidepid,
                                  .open_files = open_files,
                                  .on_log = on_log,
                                  .arg = j};
    if (abx_template_build(j->cli->client, &o, ret, &j->cli->err) < 0)
        return cli_fail(j->cli);
    return ret->is_ready ? 0 : explain(j, ret);
}

static int run_job(struct cli *cli, struct cli_project *p, struct abx_build_result *ret)
{
    struct abx_error err;
    ABX_AUTO_FREE char *ignore_text = NULL;
    struct job j = {.cli = cli, .p = p};
    size_t n = p->plan.count + (p->t.env ? p->t.env->count : 0);
    j.ignore = abx_arena_alloc(&p->arena, sizeof(*j.ignore));
    j.packs = abx_arena_array(&p->arena, n, sizeof(*j.packs));
    j.steps = abx_arena_array(&p->arena, n, sizeof(*j.steps));
    if (j.ignore == NULL || j.packs == NULL || j.steps == NULL) {
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return cli_fail_base(&err);
    }
    for (size_t i = 0; i < n; i++)
        j.packs[i].fd = -1;
    if (read_ignore(&j, &ignore_text, &err) < 0)
        return cli_fail_base(&err);
    int code = run(&j, ret);
    for (size_t i = 0; i < n; i++)
        abx_fd_close(&j.packs[i].fd);
    return code;
}

static void tell(const struct cli *cli, const struct cli_project *p)
{
    if (cli->v.quiet)
        return;
    fprintf(stderr, "abx: envd_inject: %s (FROM %.*s)\n", p->envd_inject ? "true" : "false",
            ABX_STR_FMT(p->plan.image));
    if (p->wheel_lines_added)
        fprintf(stderr, "abx: %s installs no server: the lines that do were appended\n",
                p->dockerfile.name);
}

int cli_build(struct cli *cli, const char *dir, struct abx_build_result *ret)
{
    struct cli_project *p = calloc(1, sizeof(*p));
    struct abx_error err;
    int code = 1;
    if (p == NULL)
        return 1;
    if (cli_project_open(cli, dir, p, &err) < 0)
        code = cli_fail_base(&err);
    else {
        cli_lint(p);
        cli_findings_print(&p->findings, stderr);
        if (p->findings.by_level[CLI_ERROR] || !p->has_plan)
            fprintf(stderr, "abx: not built: %zu errors\n", p->findings.by_level[CLI_ERROR]);
        else {
            tell(cli, p);
            code = cli_prepare(cli, p, &err) < 0 ? cli_fail_base(&err) : run_job(cli, p, ret);
        }
    }
    cli_project_close(p);
    free(p);
    return code;
}
