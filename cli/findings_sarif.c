/* cli/findings_sarif.c: findings as a SARIF 2.1.0 log, for code scanning and editors.
 *
 * Columns count characters. A place is relative to %SRCROOT%, the folder that abx was called in. */
#include "cli/findings.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/wire/url.h"

#include "lib/base/banned.h"

enum { SARIF_MAX = 16 << 20, URI_MAX = 16384 };

static const struct {
    const char *rule, *about;
} rules[] = {
    {"B001", "The base image is not the official one, or not a pinned one"},
    {"B002", "ENTRYPOINT replaces the sandbox's first process"},
    {"B003", "CMD is not run in a sandbox"},
    {"B004", "The image can not run as a sandbox"},
    {"B005", "A port or a folder of the platform is taken"},
    {"B006", "pip meets PEP 668"},
    {"B007", "Files or processes do not belong to whom they should"},
    {"B008", "A secret lies in the image"},
    {"B009", "A build is not the same twice, or heavier than it need be"},
    {"B010", "The ready command needs a tool that the image lacks"},
    {"B011", "The start command ends, or what should be unique is frozen into every sandbox"},
    {"B012", "The name is reserved, or not every platform takes it"},
    {"D", "The Dockerfile can not be read"},
    {"Y", "template.yaml can not be read"},
};

static const char *about(const char *rule)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].rule, rule) == 0)
            return rules[i].about;
    return "A rule of the server's policy";
}

/* Of the first finding with the same rule: its rule's place among the rules of this log. */
static size_t index_of(const struct cli_findings *f, const char *rule)
{
    size_t index = 0;
    for (size_t i = 0; i < f->count; i++) {
        size_t before = 0;
        while (strcmp(f->items[before].rule, f->items[i].rule) != 0)
            before++;
        if (strcmp(f->items[i].rule, rule) == 0)
            return index;
        index += before == i;
    }
    return index;
}

static void put_text(struct abx_json_writer *w, const char *key, const char *text)
{
    abx_json_key(w, abx_str(key));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "text", text);
    abx_json_end_object(w);
}

static void put_rules(struct abx_json_writer *w, const struct cli_findings *f)
{
    size_t next = 0;
    abx_json_key(w, ABX_STR("rules"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < f->count; i++) {
        if (index_of(f, f->items[i].rule) != next)
            continue;
        abx_json_begin_object(w);
        abx_json_kv_c(w, "id", f->items[i].rule);
        put_text(w, "shortDescription", about(f->items[i].rule));
        abx_json_end_object(w);
        next++;
    }
    abx_json_end_array(w);
}

static void put_artifact(struct abx_json_writer *w, const struct cli_source *source)
{
    ABX_AUTO_BUF uri = {.max = URI_MAX};
    bool is_absolute = source->name[0] == '/';
    if (is_absolute)
        abx_buf_put_c(&uri, "file://");
    abx_url_encode(&uri, abx_str(source->name), "/");
    abx_json_key(w, ABX_STR("artifactLocation"));
    abx_json_begin_object(w);
    abx_json_kv_str(w, "uri", abx_buf_str(&uri));
    if (!is_absolute)
        abx_json_kv_c(w, "uriBaseId", "%SRCROOT%");
    abx_json_end_object(w);
}

/* @end_column, in characters, is exclusive. */
static void put_region(struct abx_json_writer *w, const char *key, unsigned line, unsigned column,
                       unsigned end_column)
{
    abx_json_key(w, abx_str(key));
    abx_json_begin_object(w);
    abx_json_kv_i64(w, "startLine", line);
    abx_json_kv_i64(w, "startColumn", column);
    abx_json_kv_i64(w, "endColumn", end_column);
    abx_json_end_object(w);
}

static void put_location(struct abx_json_writer *w, const struct cli_finding *x)
{
    abx_json_key(w, ABX_STR("locations"));
    abx_json_begin_array(w);
    abx_json_begin_object(w);
    abx_json_key(w, ABX_STR("physicalLocation"));
    abx_json_begin_object(w);
    put_artifact(w, x->source);
    if (x->line) {
        struct abx_str line = cli_source_line(x->source, x->line);
        put_region(w, "region", x->line, cli_source_column(line, x->column),
                   cli_source_column(line, x->column + x->width));
    }
    abx_json_end_object(w);
    abx_json_end_object(w);
    abx_json_end_array(w);
}

static void put_replacement(struct abx_json_writer *w, const struct cli_source *source,
                            const struct cli_edit *edit, unsigned line)
{
    struct abx_str text = cli_source_line(source, line);
    unsigned column = edit->column == CLI_EDIT_AT_END ? (unsigned)text.len + 1 : edit->column;
    abx_json_begin_object(w);
    put_region(w, "deletedRegion", line, cli_source_column(text, column),
               cli_source_column(text, column + edit->width));
    put_text(w, "insertedContent", edit->text);
    abx_json_end_object(w);
}

static void put_fix(struct abx_json_writer *w, const struct cli_finding *x)
{
    const struct cli_edit *edit = &x->edit;
    unsigned last = edit->last_line > edit->line ? edit->last_line : edit->line;
    abx_json_key(w, ABX_STR("fixes"));
    abx_json_begin_array(w);
    abx_json_begin_object(w);
    put_text(w, "description", x->advice ? x->advice : "as abx template lint --fix does");
    abx_json_key(w, ABX_STR("artifactChanges"));
    abx_json_begin_array(w);
    abx_json_begin_object(w);
    put_artifact(w, x->source);
    abx_json_key(w, ABX_STR("replacements"));
    abx_json_begin_array(w);
    for (unsigned line = edit->line; line <= last; line++)
        put_replacement(w, x->source, edit, line);
    abx_json_end_array(w);
    abx_json_end_object(w);
    abx_json_end_array(w);
    abx_json_end_object(w);
    abx_json_end_array(w);
}

static void put_result(struct abx_json_writer *w, const struct cli_findings *f,
                       const struct cli_finding *x)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s%s%s", x->text, x->advice ? "\nnext: " : "",
             x->advice ? x->advice : "");
    abx_json_begin_object(w);
    abx_json_kv_c(w, "ruleId", x->rule);
    abx_json_kv_i64(w, "ruleIndex", (int64_t)index_of(f, x->rule));
    abx_json_kv_c(w, "level", cli_level_names[x->level]);
    put_text(w, "message", text);
    put_location(w, x);
    if (x->edit.text)
        put_fix(w, x);
    abx_json_end_object(w);
}

static void put_run(struct abx_json_writer *w, const struct cli_findings *f)
{
    abx_json_begin_object(w);
    abx_json_key(w, ABX_STR("tool"));
    abx_json_begin_object(w);
    abx_json_key(w, ABX_STR("driver"));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "name", "abx template lint");
    abx_json_kv_c(w, "version", ABX_VERSION);
    put_rules(w, f);
    abx_json_end_object(w);
    abx_json_end_object(w);
    abx_json_kv_c(w, "columnKind", "unicodeCodePoints");
    abx_json_key(w, ABX_STR("results"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < f->count; i++)
        put_result(w, f, &f->items[i]);
    abx_json_end_array(w);
    abx_json_end_object(w);
}

void cli_findings_print_sarif(const struct cli_findings *f, FILE *out)
{
    ABX_AUTO_BUF b = {.max = SARIF_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    abx_json_kv_c(&w, "version", "2.1.0");
    abx_json_key(&w, ABX_STR("runs"));
    abx_json_begin_array(&w);
    put_run(&w, f);
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    if (abx_buf_failed(&b))
        fprintf(stderr, "abx: the log has more than %d bytes, or memory is short\n", SARIF_MAX);
    else
        fprintf(out, "%s\n", b.ptr);
}
