/* cli/lint.c: the rules B001 to B005 over a template's Dockerfile and template.yaml
 * (client-and-cli.md 4), and how a finding is silenced: "# abx:ignore=B001 reason" on the line
 * above. */
#include "cli/lint_priv.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include "lib/base/banned.h"

enum { PINNED_TAG = 49 /* v0.0.49 */ };

static const char *const regions[] = {"cn-hangzhou", "cn-shanghai", "cn-beijing",     "cn-shenzhen",
                                      "cn-hongkong", "us-east-1",   "ap-southeast-1", "us-west-1"};

/* ---- silencing ---- */

static struct abx_str line_before(struct abx_str text, unsigned line)
{
    struct abx_str part = {0};
    for (unsigned i = 1; i < line; i++)
        if (!abx_str_split(&text, '\n', &part))
            return (struct abx_str){0};
    return abx_str_trim(part);
}

/* 0: not silenced; 1: silenced; -1: asked for without a reason. */
static int is_silenced(const struct cli__place *x)
{
    struct abx_str line = line_before(x->source->text, x->at.line), rule;
    if (!abx_str_starts(line, "#"))
        return 0;
    line = abx_str_trim(abx_str_sub(line, 1, SIZE_MAX));
    if (!abx_str_starts(line, "abx:ignore="))
        return 0;
    line = abx_str_sub(line, strlen("abx:ignore="), SIZE_MAX);
    if (!abx_str_split(&line, ' ', &rule) || !abx_str_is(abx_str_trim(rule), x->rule))
        return 0;
    return abx_str_trim(line).len > 0 ? 1 : -1;
}

void cli__report(struct cli_project *p, const struct cli__place *x, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    int silenced = is_silenced(x);
    if (silenced > 0)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    struct cli_finding f = {.rule = x->rule,
                            .level = x->level,
                            .source = x->source,
                            .line = x->at.line,
                            .column = x->at.column,
                            .width = x->at.width,
                            .advice = silenced < 0 ? "abx:ignore needs a reason after the rule"
                                                   : x->advice,
                            .edit = x->edit};
    if (silenced < 0) /* somebody wants it as it is */
        f.edit.text = NULL;
    cli_findings_add(&p->findings, &f, "%s", text);
}

struct cli_edit cli__edit_before(const struct cli_project *p, unsigned line, const char *text)
{
    static const char sign[] = "# abx:ignore=";
    bool is_below_sign =
        line > 1 && abx_str_starts(abx_str_trim(cli_source_line(&p->dockerfile, line - 1)), sign);
    return (struct cli_edit){.line = line - is_below_sign, .column = 1, .text = text};
}

/* The instruction stays to be read, and says nothing any more. */
static struct cli_edit edit_away(const struct abx_df_instruction *in)
{
    return (struct cli_edit){
        .line = in->at.line, .last_line = in->last_line, .column = 1, .text = "# "};
}

struct cli__place cli__in_dockerfile(struct cli_project *p, const char *rule, enum cli_level level,
                                     struct abx_df_place at)
{
    return (struct cli__place){.rule = rule, .level = level, .source = &p->dockerfile, .at = at};
}

struct cli__place cli__in_yaml(struct cli_project *p, const char *rule, enum cli_level level,
                               const struct abx_yaml *node)
{
    return (struct cli__place){.rule = rule,
                               .level = level,
                               .source = &p->yaml,
                               .at = {node->line, node->column, node->width}};
}

/* ---- B001 ---- */

static bool is_region(struct abx_str s)
{
    for (size_t i = 0; i < ABX_COUNTOF(regions); i++)
        if (abx_str_is(s, regions[i]))
            return true;
    return false;
}

/* Where the file has the name itself, and no variable. */
static struct cli_edit edit_tag(struct cli_project *p)
{
    const struct abx_df_place *at = &p->plan.image_at;
    struct abx_str line = cli_source_line(&p->dockerfile, at->line), image = p->plan.image;
    size_t tag = p->base.tag.len ? p->base.tag.len + 1 : 0;
    if (at->column == 0 || !abx_str_eq(abx_str_sub(line, at->column - 1, image.len), image))
        return (struct cli_edit){0};
    return (struct cli_edit){.line = at->line,
                             .column = at->column,
                             .width = (unsigned)image.len,
                             .text =
                                 abx_arena_printf(&p->arena, "%.*s:v0.0.%d", (int)(image.len - tag),
                                                  image.ptr, PINNED_TAG)};
}

static void check_base(struct cli_project *p)
{
    struct cli__place x = cli__in_dockerfile(p, "B001", CLI_WARNING, p->plan.image_at);
    const struct cli_official *b = &p->base;
    uint32_t minor = 0;
    bool is_pinned = abx_str_starts(b->tag, "v0.0.") &&
                     abx_parse_u32(abx_str_sub(b->tag, 5, SIZE_MAX), &minor) == 0;
    if (!b->is_official) {
        x.advice = "FROM fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:v0.0.49";
        cli__report(
            p, &x,
            "%.*s is not the official base image; envd_inject is %s: a cloud builds the runtime "
            "into a copy of the image",
            ABX_STR_FMT(abx_str_sub(p->plan.image, 0, 160)), p->envd_inject ? "true" : "false");
        return;
    }
    if (!is_region(b->region))
        cli__report(p, &x, "no region '%.*s' has the official base image", ABX_STR_FMT(b->region));
    x.advice = "v0.0.49, or a later one";
    if (is_pinned ? minor < PINNED_TAG : b->tag.len == 0 || abx_str_is(b->tag, "latest"))
        x.edit = edit_tag(p);
    if (b->tag.len == 0 || abx_str_is(b->tag, "latest"))
        cli__report(p, &x, "the base image has %s; a build is then not the same twice",
                    b->tag.len ? "the tag latest" : "no tag");
    else if (is_pinned && minor < PINNED_TAG)
        cli__report(p, &x, "the base image %.*s is older than v0.0.49", ABX_STR_FMT(b->tag));
}

/* ---- B002, B003 ---- */

static void check_entrypoint(struct cli_project *p, const struct abx_df_instruction *in)
{
    struct cli__place x = cli__in_dockerfile(p, "B002", CLI_ERROR, in->at);
    x.advice = "leave ENTRYPOINT out; what shall run goes into start_cmd of template.yaml";
    x.edit = edit_away(in);
    cli__report(p, &x, "ENTRYPOINT replaces the sandbox's own first process, and nothing starts");
}

static void check_cmd(struct cli_project *p, const struct abx_df_instruction *in)
{
    struct cli__place x = cli__in_dockerfile(p, "B003", CLI_WARNING, in->at);
    x.advice = "start_cmd in template.yaml";
    x.edit = edit_away(in);
    cli__report(p, &x, "CMD is not run in a sandbox");
}

/* ---- B004 ---- */

static void check_platform(struct cli_project *p)
{
    struct cli__place x = cli__in_dockerfile(p, "B004", CLI_ERROR, p->plan.image_at);
    if (p->plan.platform.len && !abx_str_is(p->plan.platform, "linux/amd64"))
        cli__report(p, &x, "platform %.*s: sandboxes are linux/amd64 only",
                    ABX_STR_FMT(abx_str_sub(p->plan.platform, 0, 60)));
    if (abx_str_ends(p->plan.image, "_accelerated"))
        cli__report(p, &x, "the registry's acceleration is not usable for sandboxes");
    if (abx_str_is(p->plan.image, "scratch"))
        cli__report(p, &x, "an empty image has no /bin/bash");
}

bool cli__has_word(struct abx_str text, const char *word)
{
    size_t n = strlen(word);
    for (ptrdiff_t at; (at = abx_str_find(text, abx_str(word))) >= 0;) {
        struct abx_str after = abx_str_sub(text, (size_t)at + n, SIZE_MAX);
        bool starts = at == 0 || strchr(" \t;&|(\n'\"=", text.ptr[at - 1]) != NULL;
        bool ends = after.len == 0 || strchr(" \t;&|)\n'\"", after.ptr[0]) != NULL;
        if (starts && ends)
            return true;
        text = after;
    }
    return false;
}

static void check_run(struct cli_project *p, const struct abx_df_instruction *in)
{
    static const char *const fixed[] = {"/etc/passwd", "/etc/group"};
    struct cli__place x = cli__in_dockerfile(p, "B004", CLI_ERROR, in->at);
    if (cli__has_word(in->command, "rm") && cli__has_word(in->command, "/bin/bash"))
        cli__report(p, &x, "without /bin/bash no command of an SDK runs");
    for (size_t i = 0; i < ABX_COUNTOF(fixed); i++)
        if (cli__has_word(in->command, fixed[i]) &&
            (cli__has_word(in->command, "chmod") || cli__has_word(in->command, "chattr")))
            cli__report(p, &x, "%s must stay writable for the platform", fixed[i]);
    struct cli__place y = cli__in_dockerfile(p, "B005", CLI_ERROR, in->at);
    y.advice = "the runtime there is the platform's";
    if (abx_str_find(in->command, ABX_STR("/.fce2b")) >= 0)
        cli__report(p, &y, "RUN touches /.fce2b");
}

/* ---- B005 ---- */

static bool is_reserved(uint32_t port)
{
    static const uint32_t always[] = {5000, 49983, 49999};
    for (size_t i = 0; i < ABX_COUNTOF(always); i++)
        if (port == always[i])
            return true;
    return false;
}

/* With a `server:` block the server's port and that of its terminals are taken. */
static bool is_server_port(const struct cli_project *p, uint32_t port)
{
    return p->t.server != NULL && (port == p->t.server_port || port == p->t.server_port + 1);
}

static void check_expose(struct cli_project *p, const struct abx_df_instruction *in)
{
    for (size_t i = 0; i < in->word_count; i++) {
        struct cli__place x = cli__in_dockerfile(p, "B005", CLI_ERROR, in->words[i].at);
        struct abx_str rest = in->words[i].text, number;
        uint32_t port;
        x.advice = "take another port; every port of a sandbox is reachable without EXPOSE";
        if (!abx_str_split(&rest, '/', &number) || abx_parse_u32(number, &port) < 0)
            continue;
        if (is_reserved(port))
            cli__report(p, &x, "port %u is the platform's own", port);
        x.advice = "leave EXPOSE out; every port of a sandbox is reachable without it";
        if (is_server_port(p, port))
            cli__report(p, &x,
                        "port %u is the server's: `server:` of template.yaml brings it, and what "
                        "else listens there keeps it from starting",
                        port);
    }
}

static void check_copy(struct cli_project *p, const struct abx_df_instruction *in)
{
    const struct abx_df_word *dest = &in->words[in->word_count - 1];
    struct cli__place x = cli__in_dockerfile(p, "B005", CLI_ERROR, dest->at);
    x.advice = "the runtime there is the platform's";
    if (abx_str_starts(dest->text, "/.fce2b"))
        cli__report(p, &x, "%s writes to /.fce2b", abx_df_kind_name(in->kind));
}

/* "--port 5000", "--port=5000", ":5000" in a start command. */
static void check_start(struct cli_project *p)
{
    const struct abx_yaml *start = abx_yaml_get(p->t.root, "start_cmd");
    if (start == NULL)
        return;
    for (size_t i = 0; i < start->text.len; i++) {
        struct abx_str rest = abx_str_sub(start->text, i, SIZE_MAX);
        size_t n = strspn(rest.ptr, "0123456789");
        bool is_port = i > 0 && strchr("= :", start->text.ptr[i - 1]) != NULL;
        uint32_t port;
        if (n == 0)
            continue;
        i += n;
        struct cli__place x = cli__in_yaml(p, "B005", CLI_ERROR, start);
        x.advice = "take another port";
        if (is_port && abx_parse_u32(abx_str_sub(rest, 0, n), &port) == 0 && is_reserved(port))
            cli__report(p, &x, "start_cmd takes port %u, which is the platform's own", port);
    }
}

static void check_ports(struct cli_project *p)
{
    for (size_t i = 0; p->t.ports && i < p->t.ports->count; i++) {
        const struct abx_yaml *n = &p->t.ports->items[i];
        struct cli__place x = cli__in_yaml(p, "B005", CLI_ERROR, n);
        uint32_t port;
        x.advice = "take another port";
        if (abx_parse_u32(n->text, &port) == 0 && is_reserved(port))
            cli__report(p, &x, "port %u is the platform's own", port);
    }
}

typedef void check_fn(struct cli_project *p, const struct abx_df_instruction *in);
static check_fn *const checks[ABX_DF__COUNT] = {
    [ABX_DF_RUN] = check_run,  [ABX_DF_COPY] = check_copy,
    [ABX_DF_ADD] = check_copy, [ABX_DF_EXPOSE] = check_expose,
    [ABX_DF_CMD] = check_cmd,  [ABX_DF_ENTRYPOINT] = check_entrypoint,
};

void cli_lint(struct cli_project *p)
{
    if (p->t.root != NULL) {
        check_start(p);
        check_ports(p);
        cli__lint_start(p);
    }
    cli__lint_secrets(p);
    if (!p->has_dockerfile)
        return;
    check_base(p);
    check_platform(p);
    for (size_t i = 0; i < p->df.count; i++)
        if (checks[p->df.items[i].kind] != NULL)
            checks[p->df.items[i].kind](p, &p->df.items[i]);
    cli__lint_image(p);
}
