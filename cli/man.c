/* cli/man.c: the man page abx(1) from the command tables (abx --man). */
#include "cli/cli.h"
#include "lib/contract/contract.h"

#include "lib/base/banned.h"

/* Text where '-' and '\' must survive roff, and a leading '.' or ''' is no request. */
static void put(const char *text, FILE *out)
{
    if (text[0] == '.' || text[0] == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            fputc('\\', out);
        fputc(*text == '\\' ? 'e' : *text, out);
    }
}

static void put_options(const struct cli_option *o, FILE *out)
{
    for (; o && o->name; o++) {
        fputs(".TP\n.B ", out);
        if (o->letter)
            fprintf(out, "\\-%c, ", o->letter);
        put(o->name, out);
        if (o->value) {
            fputs("\\fR \\fI", out);
            put(o->value, out);
            fputs("\\fR", out);
        }
        fputc('\n', out);
        put(o->help, out);
        fputc('\n', out);
    }
}

static void put_command(const struct cli_command *cmd, FILE *out)
{
    fputs(".SS abx ", out);
    put(cmd->name, out);
    fputc(cmd->args[0] ? ' ' : '\n', out);
    if (cmd->args[0]) {
        put(cmd->args, out);
        fputc('\n', out);
    }
    put(cmd->help, out);
    fputs(".\n", out);
    put_options(cmd->options, out);
}

static const char *const sections[] = {
    "EXIT STATUS",
    "0 success, 1 general, 2 usage or configuration, 3 authentication, 4 not found, 5 timeout, 6 "
    "quota. exec gives the command's own status, 128+N when signal N ended it, 125 when abx "
    "failed.",
    "ENVIRONMENT",
    "ABX_STATE: state folder of the local engine. ABX_SANDBOX_BASE_URL, ABX_SANDBOX_API_KEY, "
    "ABX_SANDBOX_DOMAIN, then E2B_API_URL, E2B_API_KEY, E2B_DOMAIN: another platform.",
    "FILES",
    "/var/lib/abx (root) or ~/.local/state/abx: state. $ABX_STATE/client.yaml or "
    "~/.config/abx/config.yaml: address and key of the engine, mode 0600. ~/.abx: the published "
    "client's; .env is written by env --save, engine.json by provider engine serve.",
    NULL};

void cli_man(FILE *out)
{
    fputs(".TH ABX 1 \"\" \"abx " ABX_VERSION "\"\n.SH NAME\nabx \\- sandboxes for AI agents\n"
          ".SH SYNOPSIS\n.B abx\n.I COMMAND\n[ARGUMENTS]\n.SH OPTIONS OF EVERY COMMAND\n",
          out);
    put_options(cli_global_options, out);
    fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; cli_commands[i]; i++)
        put_command(cli_commands[i], out);
    for (size_t i = 0; sections[i]; i += 2) {
        fprintf(out, ".SH %s\n", sections[i]);
        put(sections[i + 1], out);
        fputc('\n', out);
    }
}
