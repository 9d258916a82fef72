/* cli/project.c: reading the folder of a template. */
#include "cli/project.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { BUILD_ARGS_MAX = CLI_PAIRS_MAX + 66, ARENA_MAX = 64 << 20 };

/* What the scaffold's Dockerfile has; appended when no line installs the server. */
static const char wheel_lines[] =
    "COPY .abx/*.whl /tmp/\n"
    "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip install --no-index /tmp/*.whl && rm /tmp/*.whl\n";
static const char policy_line[] = "COPY server-policy.json /etc/agent-sandbox/server-policy.json\n";

struct cli_official cli_official_parse(struct abx_str image)
{
    static const char *const hosts[] = {"fc-e2b-registry.", "fc-e2b-registry-vpc."};
    struct cli_official o = {0};
    for (size_t i = 0; i < ABX_COUNTOF(hosts); i++) {
        struct abx_str rest = image, middle = ABX_STR(".cr.aliyuncs.com/runtime/");
        if (!abx_str_starts(image, hosts[i]))
            continue;
        rest = abx_str_sub(rest, strlen(hosts[i]), SIZE_MAX);
        ptrdiff_t at = abx_str_find(rest, middle);
        if (at <= 0)
            continue;
        o.region = abx_str_sub(rest, 0, (size_t)at);
        rest = abx_str_sub(rest, (size_t)at + middle.len, SIZE_MAX);
        ptrdiff_t colon = abx_str_chr(rest, ':');
        o.name = abx_str_sub(rest, 0, colon < 0 ? rest.len : (size_t)colon);
        o.tag = colon < 0 ? (struct abx_str){0} : abx_str_sub(rest, (size_t)colon + 1, SIZE_MAX);
        o.is_official = o.name.len > 0 && abx_str_chr(o.name, '/') < 0;
    }
    return o;
}

static void add_fault(struct cli_project *p, const struct abx_df_fault *fault)
{
    struct cli_finding x = {.rule = "D",
                            .source = &p->dockerfile,
                            .line = fault->at.line,
                            .column = fault->at.column,
                            .width = fault->at.width};
    cli_findings_add(&p->findings, &x, "%s", fault->text);
}

/* ---- build arguments: environment, template.yaml, --build-arg; the last one holds ---- */

static size_t collect_args(struct cli *cli, struct cli_project *p, struct abx_df_variable *out)
{
    static const char *const names[] = {"ABX_REGION", "ABX_BASE_IMAGE_TAG"};
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            out[n++] = (struct abx_df_variable){abx_str(names[i]), abx_str(value)};
    }
    const struct abx_yaml *yaml = p->has_template ? p->t.build_args : NULL;
    for (size_t i = 0; yaml && i < yaml->count && i < 64; i++)
        out[n++] = (struct abx_df_variable){yaml->items[i].key, yaml->items[i].text};
    for (size_t i = 0; i < cli->v.build_arg_count; i++)
        out[n++] = (struct abx_df_variable){abx_str(cli->v.build_args[i].key),
                                            abx_str(cli->v.build_args[i].value)};
    return n;
}

/* ---- the Dockerfile ---- */

static bool installs_server(const struct abx_dockerfile *df)
{
    for (size_t i = 0; i < df->count; i++) {
        const struct abx_df_instruction *in = &df->items[i];
        if (in->kind == ABX_DF_RUN &&
            (abx_str_find(in->text, ABX_STR(".whl")) >= 0 ||
             abx_str_find(in->text, ABX_STR("agent-sandbox-server")) >= 0))
            return true;
    }
    return false;
}

static bool copies_policy(const struct abx_dockerfile *df)
{
    for (size_t i = 0; i < df->count; i++)
        if (df->items[i].kind == ABX_DF_COPY &&
            abx_str_find(df->items[i].text, ABX_STR("server-policy.json")) >= 0)
            return true;
    return false;
}

/* Appends what a template with a `server:` block needs and its Dockerfile leaves out. */
static int complete(struct cli_project *p, struct abx_df_fault *fault)
{
    bool has_server = installs_server(&p->df), has_policy = copies_policy(&p->df);
    if (p->t.server == NULL || (has_server && has_policy))
        return 0;
    p->wheel_lines_added = !has_server;
    struct abx_str text = p->dockerfile.text, user = {0};
    for (size_t i = 0; i < p->df.count; i++)
        if (p->df.items[i].kind == ABX_DF_USER)
            user = p->df.items[i].text;
    text = abx_str(abx_arena_printf(&p->arena, "%.*s\n%s%s%s%s%.*s\n", ABX_STR_FMT(text),
                                    user.len ? "USER root\n" : "", has_server ? "" : wheel_lines,
                                    has_policy ? "" : policy_line, user.len ? "USER " : "",
                                    ABX_STR_FMT(user)));
    if (text.ptr == NULL)
        return -1;
    p->dockerfile.text = text;
    return abx_dockerfile_parse(text, &p->arena, &p->df, fault);
}

static void read_dockerfile(struct cli *cli, struct cli_project *p)
{
    struct abx_df_variable args[BUILD_ARGS_MAX];
    struct abx_df_options o = {.build_args = args, .build_arg_count = collect_args(cli, p, args)};
    struct abx_df_fault fault = {0};
    struct abx_df_plan base;
    if (abx_dockerfile_parse(p->dockerfile.text, &p->arena, &p->df, &fault) < 0 ||
        (p->has_template && complete(p, &fault) < 0) ||
        abx_dockerfile_base(&p->df, &o, &p->arena, &base, &fault) < 0) {
        add_fault(p, &fault);
        return;
    }
    p->has_dockerfile = true;
    p->base = cli_official_parse(base.image);
    o.workdir = p->base.is_official ? "/home/user" : "/";
    if (abx_dockerfile_plan(&p->df, &o, &p->arena, &p->plan, &fault) < 0) {
        add_fault(p, &fault);
        p->plan = base; /* its image is known all the same */
        return;
    }
    p->has_plan = true;
}

/* ---- the folder ---- */

static int read_source(struct cli_project *p, const char *name, size_t max, struct cli_source *ret,
                       struct abx_error *err)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    int r = abx_fd_read_file(p->dir_fd, name, max, &text, &len);
    if (r < 0)
        return abx_err_sys(err, r, "%s/%s", p->dir, name);
    ret->text = abx_arena_str(&p->arena, abx_str_n(text, len));
    bool is_here = strcmp(p->dir, ".") == 0;
    ret->name =
        abx_arena_printf(&p->arena, "%s%s%s", is_here ? "" : p->dir, is_here ? "" : "/", name);
    return ret->text.ptr && ret->name ? 0
                                      : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
}

static void choose_injection(const struct cli *cli, struct cli_project *p)
{
    const char *word = cli->v.envd_inject ? cli->v.envd_inject : p->t.envd_inject;
    p->envd_inject = !p->base.is_official;
    if (word && strcmp(word, "auto") != 0)
        p->envd_inject = strcmp(word, "true") == 0;
}

int cli_project_open(struct cli *cli, const char *dir, struct cli_project *p, struct abx_error *err)
{
    memset(p, 0, sizeof(*p));
    p->dir_fd = -1;
    abx_arena_init(&p->arena, ARENA_MAX);
    cli_findings_init(&p->findings);
    p->dir = abx_str_dup(abx_str(dir));
    for (size_t n = p->dir ? strlen(p->dir) : 0; n > 1 && p->dir[n - 1] == '/'; n--)
        p->dir[n - 1] = '\0';
    p->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir_fd < 0 || p->dir == NULL)
        return abx_err_sys(err, p->dir ? -errno : -ENOMEM, "template folder %s", dir);
    if (read_source(p, "template.yaml", ABX_YAML_TEXT_MAX, &p->yaml, err) < 0)
        return -1;
    p->has_template = cli_template_read(&p->yaml, &p->arena, &p->findings, &p->t) == 0;
    p->dockerfile_name = p->t.dockerfile ? p->t.dockerfile : "Dockerfile";
    if (read_source(p, p->dockerfile_name, ABX_DF_TEXT_MAX, &p->dockerfile, err) < 0)
        return -1;
    p->dockerfile_len = p->dockerfile.text.len;
    read_dockerfile(cli, p);
    choose_injection(cli, p);
    return 0;
}

void cli_project_close(struct cli_project *p)
{
    abx_fd_close(&p->dir_fd);
    cli_findings_done(&p->findings);
    abx_arena_done(&p->arena);
    free(p->dir);
    p->dir = NULL;
}

int cli_project_report(const struct cli *cli, const struct cli_project *p)
{
    const char *name = cli->v.format ? cli->v.format : cli->v.json ? "json" : "text";
    const struct cli_findings_format *format = cli_findings_formats;
    while (format->name != NULL && strcmp(format->name, name) != 0)
        format++;
    ABX_ASSERT(format->name != NULL); /* the command looked */
    format->print(&p->findings, stdout);
    return p->findings.by_level[CLI_ERROR] ? 1 : 0;
}
