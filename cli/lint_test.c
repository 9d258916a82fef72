/* cli/lint_test.c: the rules B001 to B012, their places, silencing, and what the scaffold gives. */
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
        {YAML "server: {}\nports: [9000]\nstart_cmd: serve --port 9000\n", OFFICIAL, ""},
        /* B006 */
        {YAML, OFFICIAL "RUN pip install x==1\n", "B006 warning 2:1;"},
        {YAML, OFFICIAL "RUN cd /x && python3 -m pip install x==1\n", "B006 warning 2:1;"},
        {YAML, OFFICIAL "RUN pip3 install --user x==1\n", "B006 warning 2:1;"},
        {YAML, OFFICIAL "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip install x==1\n", ""},
        {YAML, OFFICIAL "RUN pip install --break-system-packages x==1\n", ""},
        {YAML, OFFICIAL "ENV PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip install x==1\n", ""},
        {YAML, OFFICIAL "RUN pip install x==1\nENV PIP_BREAK_SYSTEM_PACKAGES=1\n",
         "B006 warning 2:1;"},
        {YAML, OFFICIAL "RUN python3 -m venv /opt/v && /opt/v/bin/pip install x==1\n", ""},
        {YAML, OFFICIAL "RUN . /opt/v/bin/activate && pip install x==1\n", ""},
        {YAML, OFFICIAL "RUN pip list\n", ""},
        /* B007 */
        {YAML, OFFICIAL "USER user\n", "B007 warning 2:1;"},
        {YAML, OFFICIAL "USER user\nUSER root\n", ""},
        {YAML, OFFICIAL "USER 0\n", ""},
        {YAML, OFFICIAL "COPY a /home/user/a\n", "B007 warning 2:8;"},
        {YAML, OFFICIAL "COPY a b\n", "B007 warning 2:8;"},
        {YAML, OFFICIAL "WORKDIR /srv\nCOPY a b\n", ""},
        {YAML, OFFICIAL "COPY --chown=user:user a /home/user/a\n", ""},
        {YAML, OFFICIAL "COPY a /home/user/a\nRUN chown -R user:user /home/user\n", ""},
        {YAML, OFFICIAL "COPY a /home/users/a\n", ""},
        /* B008 */
        {YAML, OFFICIAL "ENV API_KEY=abc\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ENV A=1 DB_PASSWORD=\"x\"\n", "B008 error 2:9;"},
        {YAML, OFFICIAL "ENV GITHUB_TOKEN abc\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ENV X=sk-0123456789abcdefghij0123\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ENV X=AKIA0123456789ABCDEF\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ENV X=q7Zk2Lw9Xb4Nf8Tm1Rv6Yc3H\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ENV X=9f86d081884c7d659a2feaa0c55ad015\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ENV X_SHA256=9f86d081884c7d659a2feaa0c55ad015\n", ""},
        {YAML, OFFICIAL "ENV TOKEN_FILE=/run/token API_KEY= KEY_LENGTH=12\n", ""},
        {YAML, OFFICIAL "ENV PYTHONUNBUFFERED=1 X=a-sentence-of-words-with-1-2-3\n", ""},
        {YAML, OFFICIAL "ARG NPM_TOKEN\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ARG SECRET=x\n", "B008 error 2:5;"},
        {YAML, OFFICIAL "ARG VERSION=1\nENV V=$VERSION\n", ""},
        {YAML, OFFICIAL "COPY .env /app/\n", "B008 error 2:6;"},
        {YAML, OFFICIAL "COPY a/id_rsa b/server.key /app/\n", "B008 error 2:6;B008 error 2:15;"},
        {YAML, OFFICIAL "COPY environment keys.py /app/\n", ""},
        {YAML "env: {API_KEY: abc, OTHER: \"\"}\n", OFFICIAL, "B008 error 4:16;"},
        {YAML "env: {API_KEY: \"\"}\n", OFFICIAL, ""},
        {YAML "build_args: {DEPLOY_TOKEN: abc}\n", OFFICIAL, "B008 error 4:28;"},
        /* B009 */
        {YAML, OFFICIAL "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip install -q flask\n",
         "B009 warning 2:1;"},
        {YAML, OFFICIAL "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip install -r list.txt ./x y==2\n", ""},
        {YAML, OFFICIAL "RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip install y==2 # not flask\n", ""},
        {YAML, OFFICIAL "RUN npm install -g typescript\n", "B009 warning 2:1;"},
        {YAML, OFFICIAL "RUN npm install -g typescript@5.4.2 @scope/x@1.0.0\n", ""},
        {YAML, OFFICIAL "RUN npm install\n", ""},
        {YAML, OFFICIAL "RUN apt-get update && apt-get install -y git\n", "B009 warning 2:1;"},
        {YAML,
         OFFICIAL "RUN apt-get update && apt-get install -y git && rm -rf /var/lib/apt/lists/*\n",
         ""},
        {YAML, OFFICIAL "RUN apt-get update\n", "B009 warning 2:1;"},
        {YAML, OFFICIAL "COPY . /srv\nRUN npm ci\n", "B009 warning 2:1;"},
        {YAML, OFFICIAL "COPY package.json /srv/\nRUN npm ci\nCOPY . /srv\n", ""},
        /* B010 */
        {YAML "ready_cmd: curl -sf localhost:9000/health\n", OFFICIAL, ""},
        {YAML "ready_cmd: curl -sf localhost:9000/health\n",
         "# abx:ignore=B001 x\nFROM debian:12\n", "B010 warning 4:12;inject"},
        {YAML "ready_cmd: nc -z localhost 9000\n", OFFICIAL, "B010 warning 4:12;"},
        {YAML "ready_cmd: jq . /x\n",
         OFFICIAL "RUN apt-get install jq && rm -r /var/lib/apt/lists\n", ""},
        {YAML "ready_cmd: test -e /tmp/ss\n", OFFICIAL, ""},
        /* B011 */
        {YAML "start_cmd: serve &\n", OFFICIAL, "B011 error 4:12;"},
        {YAML "start_cmd: serve & echo up\n", OFFICIAL, "B011 error 4:12;"},
        {YAML "start_cmd: mkdir -p /x && serve\n", OFFICIAL, ""},
        {YAML "start_cmd: systemctl start nginx\n", OFFICIAL, "B011 error 4:12;"},
        {YAML "start_cmd: ID=$(uuidgen) serve\n", OFFICIAL, "B011 error 4:12;"},
        {YAML "start_cmd: serve --seed $RANDOM\n", OFFICIAL, "B011 error 4:12;"},
        {YAML, OFFICIAL "RUN ssh-keygen -A\n", "B011 error 2:1;"},
        {YAML, OFFICIAL "RUN echo $(date)\n", ""},
        /* B012 */
        {"spec_version: 5\nname: Hello\nprovides: {}\n", OFFICIAL, "B012 warning 2:7;"},
        {"spec_version: 5\nname: a.b\nprovides: {}\n", OFFICIAL, "B012 warning 2:7;"},
        {"spec_version: 5\nname: base\nprovides: {}\n", OFFICIAL, "B012 warning 2:7;"},
        {"spec_version: 5\nname: codex\nprovides: {}\n", OFFICIAL, "B012 warning 2:7;"},
        {"spec_version: 5\nname: my-codex_2\nprovides: {}\n", OFFICIAL, ""},
        /* silenced, and not */
        {YAML, OFFICIAL "# abx:ignore=B006 a mirror sets it\nRUN pip install x==1\n", ""},
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

/* 101 MiB that are no content: a hole in a file. */
TEST(a_large_context_is_told)
{
    static struct cli_project p;
    static struct cli cli;
    struct abx_error err;
    char dir[] = "/tmp/abx-lint-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    put(dir, "template.yaml", YAML);
    put(dir, "Dockerfile", OFFICIAL "COPY . /srv\n");
    put(dir, "large", "");
    snprintf(path, sizeof(path), "%s/large", dir);
    assert_int_equal(truncate(path, 101 << 20), 0);
    for (int ignored = 0; ignored < 2; ignored++) {
        if (ignored)
            put(dir, ".dockerignore", "large\n");
        assert_int_equal(cli_project_open(&cli, dir, &p, &err), 0);
        cli_lint(&p);
        assert_int_equal(p.findings.count, ignored ? 0 : 1);
        if (!ignored)
            assert_non_null(strstr(p.findings.items[0].text, "101 MiB"));
        cli_project_close(&p);
    }
    abx_fd_remove_tree(AT_FDCWD, dir);
}

/* A finding tells the variable, never what is in it. */
TEST(secrets_are_not_printed)
{
    static struct cli_project p;
    static struct cli cli;
    struct abx_error err;
    char dir[] = "/tmp/abx-lint-XXXXXX";
    assert_non_null(mkdtemp(dir));
    put(dir, "template.yaml", YAML);
    put(dir, "Dockerfile", OFFICIAL "ENV A_TOKEN=hunter2\n");
    assert_int_equal(cli_project_open(&cli, dir, &p, &err), 0);
    cli_lint(&p);
    assert_int_equal(p.findings.count, 1);
    assert_string_equal(p.findings.items[0].rule, "B008");
    assert_null(strstr(p.findings.items[0].text, "hunter2"));
    cli_project_close(&p);
    abx_fd_remove_tree(AT_FDCWD, dir);
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
