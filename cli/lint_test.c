/* cli/lint_test.c: the rules B001 to B005, their places, silencing, and what the scaffold gives. */
#include "cli/project.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define YAML     "spec_version: 5\nname: x\nprovides: {}\n"
#define OFFICIAL "FROM fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:v0.0.49\n"

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* "RULE level line:column;" of each finding; then "inject" when the runtime would be built in. */
static const char *lint(const char *yaml, const char *dockerfile)
{
    static char out[2048];
    static struct cli_project p;
    static struct cli cli;
    struct abx_error err;
    char dir[] = "/tmp/abx-lint-XXXXXX";
    size_t n = 0;
    assert_non_null(mkdtemp(dir));
    put(dir, "template.yaml", yaml);
    put(dir, "Dockerfile", dockerfile);
    memset(&cli, 0, sizeof(cli));
    assert_int_equal(cli_project_open(&cli, dir, &p, &err), 0);
    cli_lint(&p);
    out[0] = '\0';
    for (size_t i = 0; i < p.findings.count; i++) {
        const struct cli_finding *f = &p.findings.items[i];
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s %s %u:%u;", f->rule,
                              f->level == CLI_ERROR ? "error" : "warning", f->line, f->column);
    }
    if (p.envd_inject)
        snprintf(out + n, sizeof(out) - n, "inject");
    cli_project_close(&p);
    abx_fd_remove_tree(AT_FDCWD, dir);
    return out;
}

TEST(rules_find_their_place)
{
    static const struct {
        const char *yaml, *dockerfile, *findings;
    } rows[] = {
        {YAML, OFFICIAL, ""},
        {YAML, "ARG R=cn-beijing\nFROM fc-e2b-registry.${R}.cr.aliyuncs.com/runtime/base:v0.0.52\n",
         ""},
        /* B001 */
        {YAML, "FROM debian:12\n", "B001 warning 1:6;inject"},
        {YAML, "FROM fc-e2b-registry.cn-nowhere.cr.aliyuncs.com/runtime/base:v0.0.49\n",
         "B001 warning 1:6;"},
        {YAML, "FROM fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base\n",
         "B001 warning 1:6;"},
        {YAML, "FROM fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:latest\n",
         "B001 warning 1:6;"},
        {YAML, "FROM fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:v0.0.44\n",
         "B001 warning 1:6;"},
        {YAML "envd_inject: false\n", "FROM debian:12\n", "B001 warning 1:6;"},
        {YAML "envd_inject: true\n", OFFICIAL, "inject"},
        /* B002, B003 */
        {YAML, OFFICIAL "RUN a\n  ENTRYPOINT [\"x\"]\n", "B002 error 3:3;"},
        {YAML, OFFICIAL "CMD [\"python3\", \"commands.py\"]\n", "B003 warning 2:1;"},
        /* B004 */
        {YAML, "FROM --platform=linux/arm64 debian:12\n",
         "B001 warning 1:29;B004 error 1:29;inject"},
        {YAML, "FROM scratch\n", "B001 warning 1:6;B004 error 1:6;inject"},
        {YAML, "FROM r.cn-hangzhou.cr.aliyuncs.com/a/b:v1_accelerated\n",
         "B001 warning 1:6;B004 error 1:6;inject"},
        {YAML, OFFICIAL "RUN rm -f /bin/bash\n", "B004 error 2:1;"},
        {YAML, OFFICIAL "RUN chmod 444 /etc/passwd\n", "B004 error 2:1;"},
        {YAML, OFFICIAL "RUN cat /etc/passwd\n", ""},
        /* B005 */
        {YAML, OFFICIAL "EXPOSE 8080 5000/tcp 49983\n", "B005 error 2:13;B005 error 2:22;"},
        {YAML, OFFICIAL "EXPOSE 9000\n", ""},
        {YAML "server: {}\n", OFFICIAL "EXPOSE 9000 9001 9002\n",
         "B005 error 2:8;B005 error 2:13;"},
        {YAML, OFFICIAL "COPY x /.fce2b/envd\n", "B005 error 2:8;"},
        {YAML, OFFICIAL "RUN rm -r /.fce2b\n", "B005 error 2:1;"},
        {YAML "ports: [9000, 49999]\n", OFFICIAL, "B005 error 4:15;"},
        {YAML "start_cmd: serve --port 5000\n", OFFICIAL, "B005 error 4:12;"},
        {YAML "start_cmd: serve --port 50001\n", OFFICIAL, ""},
        /* silenced, and not */
        {YAML, "# abx:ignore=B001 built in house\nFROM debian:12\n", "inject"},
        {YAML, "# abx:ignore=B001\nFROM debian:12\n", "B001 warning 2:6;inject"},
        {YAML, "# abx:ignore=B002 why\nFROM debian:12\n", "B001 warning 2:6;inject"},
        {YAML, "# abx:ignore=B001 why\n\nFROM debian:12\n", "B001 warning 3:6;inject"},
        /* what is no rule */
        {YAML, OFFICIAL "VOLUME /x\n", "D error 2:1;inject"},
        {"name: x\n", OFFICIAL, "Y error 1:1;Y error 1:1;"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = lint(rows[i].yaml, rows[i].dockerfile);
        if (strcmp(got, rows[i].findings) != 0)
            fail_msg("row %zu: '%s' is not '%s'", i, got, rows[i].findings);
    }
}

TEST(a_server_block_brings_its_lines)
{
    static struct cli_project p;
    static struct cli cli;
    struct abx_error err;
    char dir[] = "/tmp/abx-lint-XXXXXX";
    assert_non_null(mkdtemp(dir));
    put(dir, "template.yaml", YAML "server: {preset: locked}\n");
    put(dir, "Dockerfile", OFFICIAL "RUN useradd u\nUSER u");
    assert_int_equal(cli_project_open(&cli, dir, &p, &err), 0);
    assert_true(p.wheel_lines_added);
    assert_true(abx_str_ends(p.dockerfile.text, "\nUSER u\n"));
    assert_true(abx_str_find(p.dockerfile.text, ABX_STR("USER u\nUSER root\nCOPY .abx/*.whl")) > 0);
    const struct abx_df_step *last = &p.plan.steps[p.plan.count - 1];
    assert_string_equal(last->type, "WORKDIR");
    assert_true(abx_str_is(p.plan.steps[p.plan.count - 2].args[0], "u"));
    cli_project_close(&p);
    abx_fd_remove_tree(AT_FDCWD, dir);
}

TEST(official_names_are_taken_apart)
{
    struct cli_official o = cli_official_parse(ABX_STR(
        "fc-e2b-registry-vpc.cn-shanghai.cr.aliyuncs.com/runtime/code-interpreter-v1:v0.0.50"));
    assert_true(o.is_official);
    assert_true(abx_str_is(o.region, "cn-shanghai"));
    assert_true(abx_str_is(o.name, "code-interpreter-v1"));
    assert_true(abx_str_is(o.tag, "v0.0.50"));
    static const char *const others[] = {"base", "fc-e2b-registry.x.cr.aliyuncs.com/other/base:v1",
                                         "evil/fc-e2b-registry.x.cr.aliyuncs.com/runtime/base:v1",
                                         "fc-e2b-registry.x.cr.aliyuncs.com/runtime/a/b:v1"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(cli_official_parse(abx_str(others[i])).is_official);
}
