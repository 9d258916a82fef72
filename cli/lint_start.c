/* cli/lint_start.c: B010 a ready command without its tool, B011 a start command that ends or
 * freezes what should differ, B012 names that a platform refuses. */
#include "cli/lint_priv.h"
#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { NAME_MAX_LEN = 63 };

/* ---- B010 ---- */

static const struct {
    const char *tool, *package;
    bool in_base; /* the official base image has it */
} tools[] = {
    {"ss", "iproute2", true},    {"curl", "curl", true},          {"pgrep", "procps", true},
    {"ps", "procps", true},      {"wget", "wget", false},         {"nc", "netcat-openbsd", false},
    {"netcat", "netcat", false}, {"lsof", "lsof", false},         {"jq", "jq", false},
    {"nmap", "nmap", false},     {"netstat", "net-tools", false}, {"telnet", "telnet", false},
    {"http", "httpie", false}};

static bool is_installed(const struct cli_project *p, const char *package)
{
    for (size_t i = 0; p->has_dockerfile && i < p->df.count; i++)
        if (p->df.items[i].kind == ABX_DF_RUN && cli__has_word(p->df.items[i].command, package))
            return true;
    return false;
}

static void check_ready(struct cli_project *p)
{
    const struct abx_yaml *ready = abx_yaml_get(p->t.root, "ready_cmd");
    char advice[96];
    if (ready == NULL)
        return;
    snprintf(advice, sizeof(advice), "agent-sandbox-server healthcheck --port %u",
             p->t.server_port ? p->t.server_port : 9000);
    for (size_t i = 0; i < ABX_COUNTOF(tools); i++) {
        struct cli__place x = cli__in_yaml(p, "B010", CLI_WARNING, ready);
        x.advice = advice;
        if (cli__has_word(ready->text, tools[i].tool) &&
            !(tools[i].in_base && p->base.is_official) && !is_installed(p, tools[i].package))
            cli__report(p, &x, "ready_cmd needs %s, and no RUN installs %s", tools[i].tool,
                        tools[i].package);
    }
}

/* ---- B011 ---- */

/* The last simple command, without blanks; *ret_is_background: an '&' ends it. */
static struct abx_str last_command(struct abx_str text, bool *ret_is_background)
{
    size_t from = 0;
    text = abx_str_trim(text);
    *ret_is_background = abx_str_ends(text, "&") && !abx_str_ends(text, "&&");
    while (text.len > 0 && strchr(";& \t\n", text.ptr[text.len - 1]) != NULL)
        text.len--;
    for (size_t i = 0; i < text.len; i++)
        if (strchr(";&|\n", text.ptr[i]) != NULL)
            from = i + 1;
    return abx_str_trim(abx_str_sub(text, from, SIZE_MAX));
}

static void check_end(struct cli_project *p, const struct abx_yaml *start)
{
    static const char *const short_lived[] = {
        "true", "false", "echo", "printf", "exit",  ":",       "touch",     "mkdir",  "cp",
        "mv",   "rm",    "ls",   "chmod",  "chown", "service", "systemctl", "export", "cd"};
    struct cli__place x = cli__in_yaml(p, "B011", CLI_ERROR, start);
    bool is_background;
    struct abx_str last = last_command(start->text, &is_background), word = {0}, rest = last;
    x.advice = "the service itself, in the foreground: exec it as the last command";
    if (is_background)
        cli__report(p, &x, "start_cmd puts its service into the background and ends");
    else if (abx_str_split(&rest, ' ', &word))
        for (size_t i = 0; i < ABX_COUNTOF(short_lived); i++)
            if (abx_str_is(word, short_lived[i]))
                cli__report(p, &x, "start_cmd ends with %s: nothing is left that runs",
                            short_lived[i]);
}

/* What differs from run to run, in a process that is started once and copied from then on. */
static const struct {
    const char *text, *what;
    bool in_run; /* a RUN bakes it into the image just so */
} once[] = {{"$RANDOM", "a random number", false},
            {"/dev/urandom", "random bytes", true},
            {"/dev/random", "random bytes", true},
            {"uuidgen", "an identifier", true},
            {"openssl rand", "random bytes", true},
            {"openssl gen", "a key", true},
            {"ssh-keygen", "a key", true},
            {"secrets.token", "a token", true},
            {"$(date", "the time", false},
            {"`date", "the time", false},
            {"dbus-uuidgen", "the machine's identifier", true},
            {"systemd-machine-id-setup", "the machine's identifier", true}};

static void check_once(struct cli_project *p, struct cli__place x, struct abx_str text, bool is_run)
{
    x.advice = "make it in the sandbox when it is needed, or give it: abx create -e NAME=VALUE";
    for (size_t i = 0; i < ABX_COUNTOF(once); i++) {
        if ((is_run && !once[i].in_run) || abx_str_find(text, abx_str(once[i].text)) < 0)
            continue;
        cli__report(p, &x, "%s (%s) would be the same in every sandbox of the template",
                    once[i].what, once[i].text);
        return;
    }
}

/* ---- B012 ---- */

static void check_name(struct cli_project *p)
{
    static const struct {
        const char *name, *whose;
    } reserved[] = {{"host", "the engine"},
                    {"base", "every platform"},
                    {"code-interpreter-v1", "every platform"},
                    {"codex", "the cloud"},
                    {"openclaw", "the cloud"}};
    const struct abx_yaml *n = abx_yaml_get(p->t.root, "name");
    if (n == NULL || n->text.len == 0)
        return;
    struct cli__place x = cli__in_yaml(p, "B012", CLI_WARNING, n);
    struct abx_str name = n->text;
    bool is_valid = name.len <= NAME_MAX_LEN && name.ptr[0] != '-' && name.ptr[0] != '_';
    for (size_t i = 0; i < name.len; i++)
        is_valid = is_valid && name.ptr[i] != 0 &&
                   strchr("abcdefghijklmnopqrstuvwxyz0123456789-_", name.ptr[i]) != NULL;
    x.advice = "lower-case letters, digits, '-' and '_', at most 63, a letter or digit first";
    if (!is_valid)
        cli__report(p, &x, "'%.*s' is no name that every platform takes",
                    ABX_STR_FMT(abx_str_sub(name, 0, 80)));
    x.advice = "another name";
    for (size_t i = 0; i < ABX_COUNTOF(reserved); i++)
        if (abx_str_is(name, reserved[i].name))
            cli__report(p, &x, "the name '%s' belongs to %s", reserved[i].name, reserved[i].whose);
}

void cli__lint_start(struct cli_project *p)
{
    const struct abx_yaml *start = abx_yaml_get(p->t.root, "start_cmd");
    check_ready(p);
    check_name(p);
    if (start != NULL) {
        check_end(p, start);
        check_once(p, cli__in_yaml(p, "B011", CLI_ERROR, start), start->text, false);
    }
    for (size_t i = 0; p->has_dockerfile && i < p->df.count; i++)
        if (p->df.items[i].kind == ABX_DF_RUN)
            check_once(p, cli__in_dockerfile(p, "B011", CLI_ERROR, p->df.items[i].at),
                       p->df.items[i].command, true);
}
