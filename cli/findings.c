/* cli/findings.c: findings and how they are shown. */
#include "cli/findings.h"
#include "lib/json/json.h"

#include "lib/base/banned.h"

const char *const cli_level_names[] = {
    [CLI_ERROR] = "error", [CLI_WARNING] = "warning", [CLI_NOTE] = "note"};
enum { EXCERPT_MAX = 200 };

const struct cli_findings_format cli_findings_formats[] = {{"text", cli_findings_print},
                                                           {"json", cli_findings_print_json},
                                                           {"sarif", cli_findings_print_sarif},
                                                           {"github", cli_findings_print_github},
                                                           {0}};

void cli_findings_init(struct cli_findings *f)
{
    f->count = f->dropped = 0;
    memset(f->by_level, 0, sizeof(f->by_level));
    abx_arena_init(&f->arena, 4 << 20);
}

void cli_findings_done(struct cli_findings *f)
{
    abx_arena_done(&f->arena);
}

int cli_findings_add(struct cli_findings *f, const struct cli_finding *base, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    const char *kept = abx_arena_c(&f->arena, abx_str(text));
    f->by_level[base->level]++;
    if (f->count >= CLI_FINDINGS_MAX || kept == NULL) {
        f->dropped++;
        return -1;
    }
    struct cli_finding *to = &f->items[f->count++];
    *to = *base;
    to->text = kept;
    to->advice = base->advice ? abx_arena_c(&f->arena, abx_str(base->advice)) : NULL;
    to->edit.text = base->edit.text ? abx_arena_c(&f->arena, abx_str(base->edit.text)) : NULL;
    return -1;
}

struct abx_str cli_source_line(const struct cli_source *s, unsigned line)
{
    struct abx_str text = s->text, part = {0};
    for (unsigned i = 0; i < line; i++)
        if (!abx_str_split(&text, '\n', &part))
            return (struct abx_str){0};
    if (abx_str_ends(part, "\r"))
        part.len--;
    return part;
}

unsigned cli_source_column(struct abx_str line, unsigned column)
{
    unsigned n = 1;
    for (size_t i = 0; i + 1 < column && i < line.len; i++)
        n += ((unsigned char)line.ptr[i] & 0xC0) != 0x80;
    return n;
}

/* Control bytes of a file must not reach the terminal. */
static void put_safe(struct abx_str s, FILE *out)
{
    for (size_t i = 0; i < s.len; i++)
        fputc((unsigned char)s.ptr[i] < 0x20 && s.ptr[i] != '\t' ? '?' : s.ptr[i], out);
}

static void put_excerpt(const struct cli_finding *x, FILE *out)
{
    struct abx_str line = cli_source_line(x->source, x->line);
    size_t before = x->column ? x->column - 1 : 0;
    if (line.len == 0 || before > line.len || before > EXCERPT_MAX)
        return;
    line = abx_str_sub(line, 0, EXCERPT_MAX);
    fprintf(out, "%5u | ", x->line);
    put_safe(line, out);
    fputs("\n      | ", out);
    for (size_t i = 0; i < before && i < line.len; i++) {
        if (line.ptr[i] == '\t')
            fputc('\t', out);
        else if (((unsigned char)line.ptr[i] & 0xC0) != 0x80) /* one mark a character */
            fputc(' ', out);
    }
    fputc('^', out);
    size_t width = 0;
    for (size_t i = before; i < before + x->width && i < line.len; i++)
        width += ((unsigned char)line.ptr[i] & 0xC0) != 0x80;
    for (size_t i = 1; i < width; i++)
        fputc('~', out);
    fputc('\n', out);
}

void cli_findings_print(const struct cli_findings *f, FILE *out)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct cli_finding *x = &f->items[i];
        fputs(x->source->name, out);
        if (x->line)
            fprintf(out, ":%u:%u", x->line, x->column ? x->column : 1);
        fprintf(out, ": %s: ", cli_level_names[x->level]);
        put_safe(abx_str(x->text), out);
        fprintf(out, " [%s]\n", x->rule);
        if (x->line)
            put_excerpt(x, out);
        if (x->advice)
            fprintf(out, "        next: %s\n", x->advice);
    }
    if (f->dropped)
        fprintf(out, "(%zu more)\n", f->dropped);
}

void cli_findings_print_json(const struct cli_findings *f, FILE *out)
{
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 8 << 20);
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("findings"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < f->count; i++) {
        const struct cli_finding *x = &f->items[i];
        abx_json_begin_object(&w);
        abx_json_kv_c(&w, "rule", x->rule);
        abx_json_kv_c(&w, "level", cli_level_names[x->level]);
        abx_json_kv_c(&w, "file", x->source->name);
        if (x->line) {
            abx_json_kv_i64(&w, "line", x->line);
            abx_json_kv_i64(&w, "column", x->column);
        }
        abx_json_kv_c(&w, "message", x->text);
        if (x->advice)
            abx_json_kv_c(&w, "next", x->advice);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_kv_i64(&w, "errors", (int64_t)f->by_level[CLI_ERROR]);
    abx_json_kv_i64(&w, "warnings", (int64_t)f->by_level[CLI_WARNING]);
    abx_json_end_object(&w);
    fprintf(out, "%s\n", abx_buf_failed(&b) ? "{}" : b.ptr);
}
