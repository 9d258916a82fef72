/* cli/fix_test.c: abx template lint --fix, and the formats that findings are printed in. */
#include "cli/project.h"
#include "lib/base/fd.h"
#include "lib/json/json.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define YAML     "spec_version: 5\nname: x\nprovides: {}\n"
#define NAME     "fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base"
#define OFFICIAL "FROM " NAME ":v0.0.49\n"

static char dir[32];

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static char *get(const char *name)
{
    char path[128], *text;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 65536, &text, NULL), 0);
    return text;
}

static void begin(const char *yaml, const char *name, const char *dockerfile)
{
    snprintf(dir, sizeof(dir), "/tmp/abx-fix-XXXXXX");
    assert_non_null(mkdtemp(dir));
    put("template.yaml", yaml);
    put(name, dockerfile);
}

static void look(struct cli_project *p)
{
    static struct cli cli;
    struct abx_error err;
    assert_int_equal(cli_project_open(&cli, dir, p, &err), 0);
    cli_lint(p);
}

static size_t fix(void)
{
    static struct cli_project p;
    struct abx_error err;
    size_t count = 0;
    look(&p);
    assert_int_equal(cli_project_fix(&p, &count, &err), 0);
    cli_project_close(&p);
    return count;
}

TEST(what_is_mended_is_over)
{
    static const struct {
        const char *yaml, *before, *after;
        size_t mended;
    } rows[] = {
        {YAML, OFFICIAL, OFFICIAL, 0},
        /* B001 */
        {YAML, "FROM " NAME "\n", OFFICIAL, 1},
        {YAML, "FROM " NAME ":latest\n", OFFICIAL, 1},
        {YAML, "FROM " NAME ":v0.0.44 # old\n", "FROM " NAME ":v0.0.44 # old\n", 0},
        {YAML, "# x\n  FROM " NAME ":v0.0.44", "# x\n  FROM " NAME ":v0.0.49", 1},
        {YAML, "ARG T=latest\nFROM " NAME ":${T}\n", "ARG T=latest\nFROM " NAME ":${T}\n", 0},
        {YAML, "FROM debian:12\n", "FROM debian:12\n", 0},
        {YAML, "# abx:ignore=B001 ours\nFROM " NAME "\n", "# abx:ignore=B001 ours\nFROM " NAME "\n",
         0},
        {YAML, "# abx:ignore=B001\nFROM " NAME "\n", "# abx:ignore=B001\nFROM " NAME "\n", 0},
        /* B002, B003 */
        {YAML, OFFICIAL "ENTRYPOINT [\"x\"]\nRUN a\n", OFFICIAL "# ENTRYPOINT [\"x\"]\nRUN a\n", 1},
        {YAML, OFFICIAL "CMD [\"x\", \\\n  \"y\"]\nRUN a",
         OFFICIAL "# CMD [\"x\", \\\n#   \"y\"]\nRUN a", 1},
        /* B006: one line for both */
        {YAML, OFFICIAL "RUN pip install x==1\nRUN pip install y==1\n",
         OFFICIAL "ENV PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip install x==1\nRUN pip install y==1\n",
         2},
        {YAML, OFFICIAL "# abx:ignore=B009 any\nRUN pip install x\n",
         OFFICIAL "ENV PIP_BREAK_SYSTEM_PACKAGES=1\n# abx:ignore=B009 any\nRUN pip install x\n", 1},
        /* B007 */
        {YAML, OFFICIAL "copy a b /home/user/\n",
         OFFICIAL "copy --chown=user:user a b /home/user/\n", 1},
        {YAML, OFFICIAL "COPY --chown=root a /home/user/\n",
         OFFICIAL "COPY --chown=root a /home/user/\n", 0},
        {YAML, OFFICIAL "USER user\nRUN a\n", OFFICIAL "USER user\nRUN a\nUSER root\n", 1},
        {YAML, OFFICIAL "USER user", OFFICIAL "USER user\nUSER root", 1},
        {YAML "server: {}\n", OFFICIAL "USER user\n", OFFICIAL "USER user\nUSER root\n", 1},
        /* B009 */
        {YAML, OFFICIAL "RUN apt-get update && \\\n  apt-get install -y git\r\nRUN a\r\n",
         OFFICIAL "RUN apt-get update && \\\n"
                  "  apt-get install -y git && rm -rf /var/lib/apt/lists/*\r\nRUN a\r\n",
         1},
        {YAML, OFFICIAL "RUN apt-get install -y git # why\n",
         OFFICIAL "RUN apt-get install -y git # why\n", 0},
        {YAML, OFFICIAL "RUN [\"apt-get\", \"install\", \"git\"]\n",
         OFFICIAL "RUN [\"apt-get\", \"install\", \"git\"]\n", 0},
        /* two at one place: one waits */
        {YAML, OFFICIAL "USER user\nRUN apt-get install -y git\n",
         OFFICIAL "USER user\nRUN apt-get install -y git\nUSER root\n", 1},
        /* what can not be read is left alone */
        {YAML, OFFICIAL "VOLUME /x\nCMD a\n", OFFICIAL "VOLUME /x\nCMD a\n", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(rows[i].yaml, "Dockerfile", rows[i].before);
        size_t mended = fix();
        ABX_AUTO_FREE char *after = get("Dockerfile");
        if (strcmp(after, rows[i].after) != 0 || mended != rows[i].mended)
            fail_msg("row %zu: %zu mended, '%s' is not '%s'", i, mended, after, rows[i].after);
        abx_fd_remove_tree(AT_FDCWD, dir);
    }
}

TEST(a_second_call_ends_what_waited)
{
    begin(YAML, "Dockerfile", "FROM " NAME "\nUSER user\nRUN apt-get install -y git\nCMD x\n");
    size_t calls = 0;
    while (fix() > 0)
        assert_true(++calls < 4);
    static struct cli_project p;
    look(&p);
    assert_int_equal(p.findings.count, 0);
    cli_project_close(&p);
    abx_fd_remove_tree(AT_FDCWD, dir);
}

TEST(another_name_keeps_its_mode_and_a_link_is_not_replaced)
{
    char path[64], link[64];
    struct stat st;
    begin(YAML "dockerfile: Other\n", "Other", OFFICIAL "CMD x\n");
    snprintf(path, sizeof(path), "%s/Other", dir);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(fix(), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    put("real", OFFICIAL "CMD x\n");
    snprintf(link, sizeof(link), "%s/real", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(link, path), 0);
    static struct cli_project p;
    struct abx_error err;
    size_t count;
    look(&p);
    assert_int_equal(cli_project_fix(&p, &count, &err), -1);
    assert_non_null(strstr(err.msg, "no regular file"));
    cli_project_close(&p);
    ABX_AUTO_FREE char *text = get("real");
    assert_string_equal(text, OFFICIAL "CMD x\n");
    abx_fd_remove_tree(AT_FDCWD, dir);
}

/* ---- formats ---- */

static char *printed(const struct cli_findings *f, cli_findings_fn *print)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    print(f, out);
    fclose(out);
    return text;
}

static void add_hostile(struct cli_findings *f, const struct cli_source *source)
{
    cli_findings_init(f);
    struct cli_finding x = {.rule = "B002",
                            .level = CLI_ERROR,
                            .source = source,
                            .line = 2,
                            .column = 7, /* after two characters of more than a byte */
                            .width = 3,
                            .advice = "no\n::error ::x",
                            .edit = {.line = 2, .last_line = 3, .column = 1, .text = "# "}};
    cli_findings_add(f, &x, "50%% \"x\"\r\n::set-output name=a::b");
    x.rule = "L1";
    x.level = CLI_WARNING;
    x.line = 0;
    x.advice = NULL;
    x.edit.text = NULL;
    cli_findings_add(f, &x, "second");
    x.level = CLI_NOTE;
    cli_findings_add(f, &x, "third");
}

TEST(lines_of_github_can_not_be_broken_out_of)
{
    static struct cli_findings f;
    struct cli_source source = {.name = "a,b:c%\n.txt",
                                .text = ABX_STR("one\n\xc3\xa9 \xe6\xbc\xa2xyz\nthree\n")};
    add_hostile(&f, &source);
    ABX_AUTO_FREE char *text = printed(&f, cli_findings_print_github);
    assert_string_equal(text,
                        "::error file=a%2Cb%3Ac%25%0A.txt,line=2,col=4,endColumn=7,title=B002::"
                        "50%25 \"x\"%0D%0A::set-output name=a::b%0Anext: no%0A::error ::x\n"
                        "::warning file=a%2Cb%3Ac%25%0A.txt,title=L1::second\n"
                        "::notice file=a%2Cb%3Ac%25%0A.txt,title=L1::third\n");
    cli_findings_done(&f);
}

TEST(sarif_has_rules_places_and_mends)
{
    static struct cli_findings f;
    struct cli_source source = {.name = "a b/\xc3\xa9%.txt",
                                .text = ABX_STR("one\n\xc3\xa9 \xe6\xbc\xa2xyz\nthree\n")};
    struct abx_json_limits limits = {.max_bytes = 1 << 20, .max_depth = 32};
    struct abx_error err;
    json_t *doc, *rules, *results, *places, *mends;
    const char *text, *uri, *rule_0, *rule_1, *level;
    int line, column, end_column, index, second;
    add_hostile(&f, &source);
    ABX_AUTO_FREE char *printed_text = printed(&f, cli_findings_print_sarif);
    assert_int_equal(abx_json_parse(abx_str(printed_text), &limits, &doc, &err), 0);
    json_t *run = json_array_get(json_object_get(doc, "runs"), 0);
    assert_int_equal(json_unpack(run, "{s:{s:{s:o}}, s:o}", "tool", "driver", "rules", &rules,
                                 "results", &results),
                     0);
    assert_int_equal(json_array_size(rules), 2);
    assert_int_equal(json_unpack(rules, "[{s:s},{s:s}]", "id", &rule_0, "id", &rule_1), 0);
    assert_string_equal(rule_0, "B002");
    assert_string_equal(rule_1, "L1");
    assert_int_equal(json_array_size(results), 3);
    assert_int_equal(json_unpack(json_array_get(results, 0), "{s:s, s:i, s:{s:s}, s:o, s:o}",
                                 "level", &level, "ruleIndex", &index, "message", "text", &text,
                                 "locations", &places, "fixes", &mends),
                     0);
    assert_string_equal(level, "error");
    assert_string_equal(text, "50% \"x\"\r\n::set-output name=a::b\nnext: no\n::error ::x");
    assert_int_equal(json_unpack(places, "[{s:{s:{s:s}, s:{s:i, s:i, s:i}}}]", "physicalLocation",
                                 "artifactLocation", "uri", &uri, "region", "startLine", &line,
                                 "startColumn", &column, "endColumn", &end_column),
                     0);
    assert_string_equal(uri, "a%20b/%C3%A9%25.txt");
    assert_true(index == 0 && line == 2 && column == 4 && end_column == 7);
    assert_int_equal(json_unpack(mends, "[{s:[{s:[{s:{s:i}},{s:{s:i}}]}]}]", "artifactChanges",
                                 "replacements", "deletedRegion", "startLine", &line,
                                 "deletedRegion", "startLine", &second),
                     0);
    assert_true(line == 2 && second == 3);
    assert_int_equal(
        json_unpack(json_array_get(results, 2), "{s:i, s:s}", "ruleIndex", &index, "level", &level),
        0);
    assert_string_equal(level, "note");
    assert_int_equal(index, 1);
    assert_null(json_object_get(json_array_get(results, 1), "fixes"));
    abx_json_free(doc);
    cli_findings_done(&f);
}
