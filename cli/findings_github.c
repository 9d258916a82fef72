/* cli/findings_github.c: findings as workflow commands: GitHub Actions shows them at the line. */
#include "cli/findings.h"

#include "lib/base/banned.h"

static const char *const commands[] = {
    [CLI_ERROR] = "error", [CLI_WARNING] = "warning", [CLI_NOTE] = "notice"};
_Static_assert(sizeof(commands) / sizeof(commands[0]) == CLI_LEVEL__COUNT, "one row per level");

/* What would end a command, or a property of it. */
static void put(const char *text, const char *escaped, FILE *out)
{
    for (; *text; text++) {
        if (strchr(escaped, *text))
            fprintf(out, "%%%02X", (unsigned char)*text);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
}

static void put_property(const char *text, FILE *out)
{
    put(text, "%\r\n:,", out);
}

void cli_findings_print_github(const struct cli_findings *f, FILE *out)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct cli_finding *x = &f->items[i];
        fprintf(out, "::%s file=", commands[x->level]);
        put_property(x->source->name, out);
        if (x->line) {
            struct abx_str line = cli_source_line(x->source, x->line);
            fprintf(out, ",line=%u,col=%u,endColumn=%u", x->line,
                    cli_source_column(line, x->column),
                    cli_source_column(line, x->column + x->width));
        }
        fputs(",title=", out);
        put_property(x->rule, out);
        fputs("::", out);
        put(x->text, "%\r\n", out);
        if (x->advice) {
            fputs("%0Anext: ", out);
            put(x->advice, "%\r\n", out);
        }
        fputc('\n', out);
    }
    if (f->dropped)
        fprintf(out, "::notice ::%zu more findings\n", f->dropped);
}
