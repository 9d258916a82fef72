/* guest/server/man.c: the man page agent-sandbox-server(1) from the tables of verbs and options.
 * Pure.
 */
#include "guest/server/describe.h"
#include "guest/server/verbs.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"

#include "lib/base/banned.h"

/* Text of roff: a backslash, and a point or quote at the beginning of a line, are commands. */
static void put_text(struct abx_buf *out, const char *text)
{
    bool is_start = true;
    for (; *text; text++) {
        if (is_start && (*text == '.' || *text == '\''))
            abx_buf_put_c(out, "\\&");
        if (*text == '\\')
            abx_buf_put_c(out, "\\e");
        else if (*text == '-')
            abx_buf_put_c(out, "\\-");
        else
            abx_buf_put_byte(out, *text);
        is_start = *text == '\n';
    }
}

static void put_options(struct abx_buf *out, const struct abx__option *rows)
{
    for (; rows && rows->name; rows++) {
        abx_buf_put_c(out, ".TP\n\\fB");
        put_text(out, rows->name);
        abx_buf_put_c(out, "\\fR");
        if (rows->value) {
            abx_buf_put_c(out, " \\fI");
            put_text(out, rows->value);
            abx_buf_put_c(out, "\\fR");
        }
        abx_buf_put_byte(out, '\n');
        put_text(out, rows->help);
        abx_buf_put_byte(out, '\n');
    }
}

static void put_verb(struct abx_buf *out, const struct abx__verb *v)
{
    abx_buf_put_c(out, ".SS ");
    put_text(out, v->name);
    abx_buf_put_byte(out, '\n');
    put_text(out, v->help);
    abx_buf_put_c(out, ".\n");
    if (v->rows)
        put_options(out, v->rows());
    if (v->usage == NULL)
        return;
    abx_buf_put_c(out, ".PP\n.nf\n");
    put_text(out, v->usage());
    abx_buf_put_c(out, ".fi\n");
}

/* What the published program reads, and ours on top. */
static const struct {
    const char *name, *help;
} variables[] = {
    {ABX_ENV_SERVER_TOKEN, "The token of the identity \"server\", where the policy has no tokens."},
    {ABX_ENV_SERVER_POLICY, "The policy itself, as JSON."},
    {ABX_ENV_SERVER_POLICY_FILE, "The file of the policy."},
    {"ABX_SERVER_ENABLED_GROUPS", "Groups to turn on, separated by commas."},
    {ABX_ENV_SERVER_BASE_DIR, "The root of path rules."},
    {"ABX_PTY_PORT", "The port of terminals."},
    {"ABX_MAX_UPLOAD_SIZE", "Bytes of the largest upload."},
    {"NOTIFY_SOCKET", "Is told when the server is ready, and when it stops."},
};

static const struct {
    const char *name, *help;
} signals[] = {
    {"SIGTERM", "Stop: streams end, programs get SIGTERM, then SIGKILL, within 5 seconds; the "
                "process dies by the signal. A second one ends at once."},
    {"SIGINT", "The same, with exit status 0."},
    {"SIGUSR1", "Open the audit file again."},
};

static const struct {
    const char *status, *help;
} statuses[] = {
    {"0", "Ended by SIGINT, healthy, valid, printed."},
    {"1", "An error of the policy, the configuration, the commands or the address; not healthy."},
    {"2", "Usage; check-config --strict with warnings."},
    {"3", "check-config --explain says no."},
};

#define PUT_TABLE(out, title, rows, key)                                                           \
    do {                                                                                           \
        abx_buf_put_c(out, ".SH " title "\n");                                                     \
        for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {                                           \
            abx_buf_put_c(out, ".TP\n.B ");                                                        \
            put_text(out, (rows)[i].key);                                                          \
            abx_buf_put_byte(out, '\n');                                                           \
            put_text(out, (rows)[i].help);                                                         \
            abx_buf_put_byte(out, '\n');                                                           \
        }                                                                                          \
    } while (0)

void abx__man_write(struct abx_buf *out)
{
    size_t count;
    const struct abx__verb *verbs = abx__verbs(&count);
    abx_buf_put_c(out, ".TH AGENT-SANDBOX-SERVER 1\n.SH NAME\nagent\\-sandbox\\-server \\- files, "
                       "programs, terminals and commands of a sandbox over HTTP\n.SH SYNOPSIS\n"
                       ".B agent\\-sandbox\\-server\n[\\fIVERB\\fR] [\\fIOPTION\\fR...]\n"
                       ".SH DESCRIPTION\nServes the endpoints that\n.B agent\\-sandbox\\-server "
                       "routes\nlists, each judged by a policy. Options are written "
                       "\\-\\-name value or \\-\\-name=value and may be shortened.\n.SH VERBS\n");
    for (size_t i = 0; i < count; i++)
        put_verb(out, &verbs[i]);
    PUT_TABLE(out, "ENVIRONMENT", variables, name);
    PUT_TABLE(out, "SIGNALS", signals, name);
    PUT_TABLE(out, "EXIT STATUS", statuses, status);
}
