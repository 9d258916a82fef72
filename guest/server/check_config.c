/* guest/server/check_config.c: the verbs check-config and version: validate, lint, list, explain.
 * Spec: policy.md A18, C6. Exit: 0 valid, 1 invalid, 2 usage or --strict, 3 --explain says no. */
#include "guest/server/explain.h"
#include "guest/server/lint_here.h"
#include "guest/server/policy_source.h"
#include "guest/server/rule_json.h"
#include "guest/server/server_priv.h"
#include "guest/server/verbs.h"
#include "guest/server/view.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/policy/confine.h"
#include "lib/policy/users.h"
#include "lib/proc/confine.h"

#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXIT_VALID, EXIT_INVALID, EXIT_USAGE, EXIT_DENIED };
enum { REPORT_BYTES = 16 << 20, SCOPES_MAX = 256 };

struct options {
    const char *policy, *preset, *confine, *explain, *path, *scopes, *op, *as, *user;
    struct abx__option_list commands;
    bool json, strict, pedantic, no_env, kernel, help;
};

/* What the verb works with once the document is loaded. */
struct check {
    const struct options *o;
    const struct abx__policy_args *args;
    struct abx__policy_source source;
    struct abx_policy *policy;
    struct abx_report report; /* the warnings */
    struct abx_policy_identity who;
    bool has_who; /* --as */
};

/* ---- options ---- */

static const char usage_text[] =
    "usage: agent-sandbox-server check-config [--policy FILE] [--preset NAME]\n"
    "         [--json] [--strict] [--pedantic] [--no-env] [--as TOKEN_ID]\n"
    "         [--confine FILE|MODE] [--kernel] [--commands FILE_OR_MODULE]...\n"
    "         [--explain ENDPOINT [--path PATH] [--scopes A,B] [--op OPERATION]\n"
    "                             [--user NAME]]\n"
    "\n"
    "Says all that is wrong with a policy, then what it allows.\n"
    "  --policy FILE    the document (JSON); else what serve would load\n"
    "  --preset NAME    default, transfer-only, read-only, hardened, locked\n"
    "  --confine WHAT   as serve takes it: off, auto, require, advisory, or a file\n"
    "  --commands FILE  load this user code too: its routes are known, its notices shown\n"
    "  --kernel         judge by what this kernel can hold\n"
    "  --json           the result as JSON\n"
    "  --strict         warnings make the exit status 2\n"
    "  --pedantic       more warnings, counted by --strict; implies it for them\n"
    "  --no-env         a missing token variable is a finding, no error\n"
    "  --as TOKEN_ID    list and explain for this identity\n"
    "  --explain ID     would this endpoint answer? Exit status 3 for no\n"
    "  --path PATH      ... on this path; --op read, write, delete or exec\n"
    "  --user NAME      ... starting a program as this user\n"
    "  --scopes A,B     ... for a caller with these scopes (default: all)\n";

const char *abx__check_config_usage(void)
{
    return usage_text;
}

static int usage_error(const char *fmt, const char *what)
{
    fputs("agent-sandbox-server check-config: error: ", stderr);
    fprintf(stderr, "%s%s\n", fmt, what);
    fputs("Try: agent-sandbox-server check-config --help\n", stderr);
    return EXIT_USAGE;
}

enum option_id {
    OPT_POLICY = 256,
    OPT_PRESET,
    OPT_CONFINE,
    OPT_JSON,
    OPT_STRICT,
    OPT_EXPLAIN,
    OPT_PATH,
    OPT_SCOPES,
    OPT_OP,
    OPT_AS,
    OPT_USER,
    OPT_COMMANDS,
    OPT_KERNEL,
    OPT_NO_ENV,
    OPT_PEDANTIC
};

static const struct option long_options[] = {{"policy", required_argument, NULL, OPT_POLICY},
                                             {"preset", required_argument, NULL, OPT_PRESET},
                                             {"confine", required_argument, NULL, OPT_CONFINE},
                                             {"json", no_argument, NULL, OPT_JSON},
                                             {"strict", no_argument, NULL, OPT_STRICT},
                                             {"explain", required_argument, NULL, OPT_EXPLAIN},
                                             {"path", required_argument, NULL, OPT_PATH},
                                             {"scopes", required_argument, NULL, OPT_SCOPES},
                                             {"user", required_argument, NULL, OPT_USER},
                                             {"op", required_argument, NULL, OPT_OP},
                                             {"as", required_argument, NULL, OPT_AS},
                                             {"commands", required_argument, NULL, OPT_COMMANDS},
                                             {"kernel", no_argument, NULL, OPT_KERNEL},
                                             {"no-env", no_argument, NULL, OPT_NO_ENV},
                                             {"pedantic", no_argument, NULL, OPT_PEDANTIC},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static bool take_flag(struct options *o, int id)
{
    const struct {
        int id;
        bool *flag;
    } flags[] = {{OPT_JSON, &o->json},         {OPT_STRICT, &o->strict}, {OPT_NO_ENV, &o->no_env},
                 {OPT_PEDANTIC, &o->pedantic}, {OPT_KERNEL, &o->kernel}, {'h', &o->help}};
    for (size_t i = 0; i < ABX_COUNTOF(flags); i++) {
        if (flags[i].id != id)
            continue;
        *flags[i].flag = true;
        return true;
    }
    return false;
}

static bool add_commands(struct options *o, const char *file)
{
    struct abx__option_list *list = &o->commands;
    const char **items = realloc(list->items, (list->count + 1) * sizeof(*items));
    if (items == NULL)
        return false;
    list->items = items;
    list->items[list->count++] = file;
    return true;
}

static bool take_value(struct options *o, int id, const char *value)
{
    if (id == OPT_COMMANDS)
        return value != NULL && add_commands(o, value);
    const struct {
        int id;
        const char **slot;
    } values[] = {{OPT_POLICY, &o->policy}, {OPT_PRESET, &o->preset},   {OPT_EXPLAIN, &o->explain},
                  {OPT_PATH, &o->path},     {OPT_SCOPES, &o->scopes},   {OPT_OP, &o->op},
                  {OPT_AS, &o->as},         {OPT_CONFINE, &o->confine}, {OPT_USER, &o->user}};
    for (size_t i = 0; i < ABX_COUNTOF(values); i++) {
        if (values[i].id != id)
            continue;
        *values[i].slot = value != NULL ? value : "";
        return true;
    }
    return false;
}

static int parse(int argc, char **argv, struct options *o)
{
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    for (;;) {
        int at = optind > 0 ? optind : 1;
        int id = getopt_long(argc, argv, "+:h", long_options, NULL);
        if (id == -1)
            break;
        if (id == ':')
            return usage_error("expected an argument: ", argv[at]);
        if (!take_flag(o, id) && !take_value(o, id, optarg))
            return usage_error("unrecognized or ambiguous: ", argv[at]);
    }
    if (optind < argc)
        return usage_error("unrecognized: ", argv[optind]);
    if (o->op != NULL && abx_path_op_parse(abx_str(o->op)) < 0)
        return usage_error("--op is read, write, delete or exec, not ", o->op);
    if (o->user != NULL && !abx_policy_user_is_name(abx_str(o->user)))
        return usage_error("--user is a name or a number, not ", o->user);
    return 0;
}

/* ---- warnings ---- */

/* "L1: text" in an arena of the report. */
static const char *warning_line(struct check *c, const struct abx_finding *f)
{
    const char *line = abx_arena_printf(&c->report.arena, "%s: %s", f->rule, f->text);
    return line != NULL ? line : f->rule;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* L5 stands last, in its own order. The published findings only, unless pedantic. */
static size_t collect_warnings(struct check *c, const char **out, bool pedantic)
{
    size_t count = 0;
    for (size_t i = 0; i < c->report.count; i++) {
        const struct abx_finding *f = &c->report.items[i];
        bool is_ours = abx_str_starts(abx_str(f->rule), "LX");
        if (strcmp(f->rule, "L5") != 0 && (pedantic || !is_ours))
            out[count++] = warning_line(c, f);
    }
    qsort(out, count, sizeof(*out), compare_texts);
    for (size_t i = 0; i < c->report.count; i++)
        if (strcmp(c->report.items[i].rule, "L5") == 0)
            out[count++] = warning_line(c, &c->report.items[i]);
    return count;
}

static void add_l5(struct check *c, const char *what, const char *path)
{
    struct abx_report *r = &c->report;
    if (access(path, W_OK) != 0 || r->items == NULL || r->count >= ABX_REPORT_MAX)
        return;
    const char *text =
        abx_arena_printf(&r->arena, "the policy's %s %s can be written by this user", what, path);
    if (text != NULL)
        r->items[r->count++] =
            (struct abx_finding){.kind = ABX_FINDING_WARNING, .rule = "L5", .text = text};
}

static void lint_file(struct check *c)
{
    const char *file = c->o->policy;
    if (file == NULL)
        return;
    struct abx_str path = abx_str(file);
    ptrdiff_t slash = abx_str_rchr(path, '/');
    const char *folder = slash < 0 ? "."
                         : slash == 0
                             ? "/"
                             : abx_arena_c(&c->report.arena, abx_str_sub(path, 0, (size_t)slash));
    if (c->report.items == NULL)
        c->report.items =
            abx_arena_array(&c->report.arena, ABX_REPORT_MAX, sizeof(*c->report.items));
    add_l5(c, "file", file);
    if (folder != NULL)
        add_l5(c, "folder", folder);
}

/* ---- output ---- */

static int compare_rules(const void *left, const void *right)
{
    const struct abx_policy_rule *a = *(const struct abx_policy_rule *const *)left,
                                 *b = *(const struct abx_policy_rule *const *)right;
    return strcmp(a->id.ptr, b->id.ptr);
}

static const struct abx_policy_rule **sorted_rules(struct check *c, size_t *ret_count)
{
    const struct abx_policy_rule *rules = abx_policy_rules(c->policy, ret_count);
    const struct abx_policy_rule **sorted =
        abx_arena_array(&c->report.arena, *ret_count + 1, sizeof(void *));
    for (size_t i = 0; sorted != NULL && i < *ret_count; i++)
        sorted[i] = &rules[i];
    if (sorted != NULL)
        qsort(sorted, *ret_count, sizeof(*sorted), compare_rules);
    return sorted;
}

static bool is_on(const struct check *c, const struct abx_policy_rule *r)
{
    struct abx_policy_verdict v;
    return c->has_who ? abx_policy_judge(c->policy, r, &c->who, &v) : r->enabled;
}

static void put_rule_line(const struct check *c, struct abx_buf *out,
                          const struct abx_policy_rule *r)
{
    abx_buf_putf(out, "  [%s] %-24.*s scopes=", is_on(c, r) ? "on " : "off", ABX_STR_FMT(r->id));
    for (size_t i = 0; i < r->scopes.count; i++)
        abx_buf_putf(out, "%s%.*s", i ? "," : "", ABX_STR_FMT(r->scopes.items[i]));
    abx_buf_put_c(out, r->scopes.count ? "\n" : "-\n");
}

/* Makes the folder of this process, which goes again with the group. */
static bool can_bound_memory(void)
{
    struct abx_confine_group *group = NULL;
    bool can = abx_confine_group_new(&group) == 0 && abx_confine_bounds_memory();
    abx_confine_group_unref(group);
    return can;
}

/* What the kernel holds, or not, of what the views need. */
static void put_confine_line(const struct check *c, struct abx_buf *out)
{
    unsigned has = c->o->kernel ? abx_confine_supported() : (unsigned)ABX_LAYER_ALL;
    unsigned missing = abx_policy_missing_layers(c->policy, has);
    abx_buf_putf(out, "confine: %s", abx_confine_mode_name(abx_policy_confine(c->policy)));
    if (c->o->kernel)
        abx_buf_putf(out, ", Landlock ABI %d", abx_confine_abi());
    for (unsigned i = 0; c->o->kernel && i < ABX_CONFINE_LAYERS; i++)
        abx_buf_putf(out, ", %s %s", abx_confine_layer_name(1U << i),
                     has & 1U << i       ? "on"
                     : missing & 1U << i ? "off (kernel)"
                                         : "unsupported");
    if (c->o->kernel)
        abx_buf_putf(out, ", server %s, deny by name %s", has & ABX_LAYER_FILES ? "on" : "off",
                     abx__view_may_mount() ? "held" : "advisory (no CAP_SYS_ADMIN)");
    if (c->o->kernel && abx_policy_confinement(c->policy)->rlimits[ABX_RLIMIT_MEMORY].is_set)
        abx_buf_putf(out, ", memory %s",
                     can_bound_memory() ? "by caller" : "unbounded (no cgroup to be had)");
    abx_buf_put_byte(out, '\n');
}

static void put_users_line(const struct check *c, struct abx_buf *out)
{
    struct abx_str_list users = abx_policy_confinement(c->policy)->users;
    if (users.count > 0)
        abx_buf_put_c(out, "users: the server's own");
    for (size_t i = 0; i < users.count; i++)
        abx_buf_putf(out, ", %.*s", ABX_STR_FMT(users.items[i]));
    if (users.count > 0)
        abx_buf_put_byte(out, '\n');
}

static void put_text(struct check *c, struct abx_buf *out)
{
    const char *lines[ABX_REPORT_MAX];
    size_t count, warnings = collect_warnings(c, lines, c->o->pedantic);
    const struct abx_policy_rule **rules = sorted_rules(c, &count);
    enum abx_confine_mode confine = abx_policy_confine(c->policy);
    abx_buf_putf(out, "policy ServerPolicy(preset='%s', revision='%s')\n",
                 abx_policy_preset(c->policy), abx_policy_revision(c->policy));
    for (size_t i = 0; rules != NULL && i < count; i++)
        if (!abx_policy_is_extension(rules[i]))
            put_rule_line(c, out, rules[i]);
    if (confine != ABX_CONFINE_OFF)
        put_confine_line(c, out);
    put_users_line(c, out);
    for (size_t i = 0; i < warnings; i++)
        abx_buf_putf(out, "warning: %s\n", lines[i]);
    out->failed |= rules == NULL;
}

static void put_rule_json(const struct check *c, struct abx_json_writer *w,
                          const struct abx_policy_rule *r)
{
    abx_json_begin_object(w);
    abx_json_kv_str(w, "endpoint", r->id);
    abx_json_kv_c(w, "group", abx_group_name(r->group));
    abx_json_kv_bool(w, "enabled", is_on(c, r));
    abx_json_key(w, ABX_STR("rule"));
    if (r->disabled_by.ptr != NULL)
        abx_json_str(w, r->disabled_by);
    else
        abx_json_null(w);
    abx__put_list(w, "scopes", r->scopes);
    abx__put_limits(w, r);
    abx_json_key(w, ABX_STR("paths"));
    abx_json_begin_object(w);
    abx__put_list(w, "allow", r->paths.allow);
    abx__put_list(w, "deny", r->paths.deny);
    abx_json_kv_bool(w, "read_only", r->paths.read_only);
    abx_json_end_object(w);
    abx_json_end_object(w);
}

static void put_findings(struct check *c, struct abx_json_writer *w)
{
    abx_json_key(w, ABX_STR("findings"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < c->report.count; i++) {
        const struct abx_finding *f = &c->report.items[i];
        abx_json_begin_object(w);
        abx_json_kv_c(w, "rule", f->rule);
        abx_json_kv_c(w, "level", f->is_error_level ? "error" : "warning");
        abx_json_key(w, ABX_STR("place"));
        if (f->pointer != NULL)
            abx_json_str(w, abx_str(f->pointer));
        else
            abx_json_null(w);
        abx_json_key(w, ABX_STR("line"));
        if (f->line > 0)
            abx_json_i64(w, f->line);
        else
            abx_json_null(w);
        abx_json_kv_c(w, "text", f->text);
        abx_json_end_object(w);
    }
    abx_json_end_array(w);
}

static void put_rules(const struct check *c, struct abx_json_writer *w,
                      const struct abx_policy_rule **sorted, size_t count, bool extensions)
{
    abx_json_key(w, abx_str(extensions ? "extensions" : "endpoints"));
    abx_json_begin_array(w);
    for (size_t i = 0; sorted != NULL && i < count; i++)
        if (abx_policy_is_extension(sorted[i]) == extensions)
            put_rule_json(c, w, sorted[i]);
    abx_json_end_array(w);
}

static void put_json(struct check *c, struct abx_buf *out)
{
    const char *lines[ABX_REPORT_MAX];
    size_t count, warnings = collect_warnings(c, lines, c->o->pedantic);
    const struct abx_policy_rule **rules = sorted_rules(c, &count);
    struct abx_str_list users = abx_policy_confinement(c->policy)->users;
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "revision", abx_policy_revision(c->policy));
    put_rules(c, &w, rules, count, false);
    abx_json_key(&w, ABX_STR("warnings"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < warnings; i++)
        abx_json_str(&w, abx_str(lines[i]));
    abx_json_end_array(&w);
    abx_json_kv_bool(&w, "portable", abx_policy_is_portable(c->policy));
    put_findings(c, &w);
    abx_json_kv_c(&w, "confine", abx_confine_mode_name(abx_policy_confine(c->policy)));
    if (users.count > 0) /* no published document has the key */
        abx__put_list(&w, "users", users);
    put_rules(c, &w, rules, count, true);
    abx_json_end_object(&w);
    out->failed |= rules == NULL;
}

/* ---- Python's json.dumps(indent=2): the published output, byte for byte ---- */

static void new_line(struct abx_buf *out, size_t depth)
{
    abx_buf_put_byte(out, '\n');
    for (size_t i = 0; i < depth; i++)
        abx_buf_put_c(out, "  ");
}

/* A string token with its quotes; beyond ASCII as \uxxxx. */
static size_t put_string_token(struct abx_buf *out, struct abx_str json, size_t at)
{
    abx_buf_put_byte(out, json.ptr[at++]);
    while (at < json.len && json.ptr[at] != '"') {
        unsigned char c = (unsigned char)json.ptr[at];
        if (c == '\\') {
            abx_buf_put(out, json.ptr + at, 2);
            at += 2;
            continue;
        }
        if (c < 0x7f) {
            abx_buf_put_byte(out, json.ptr[at++]);
            continue;
        }
        size_t extra = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0x80;
        uint32_t v = extra > 0 ? c & (0x3fu >> extra) : c;
        for (at++; extra > 0; extra--, at++)
            v = v << 6 | ((unsigned char)json.ptr[at] & 0x3fu);
        if (v < 0x10000)
            abx_buf_putf(out, "\\u%04x", v);
        else
            abx_buf_putf(out, "\\u%04x\\u%04x", 0xd7c0 + (v >> 10), 0xdc00 + (v & 0x3ff));
    }
    abx_buf_put_byte(out, '"');
    return at + 1;
}

/* @json comes from the writer: compact and well-formed. */
static void put_indented(struct abx_buf *out, struct abx_str json)
{
    size_t depth = 0;
    for (size_t at = 0; at < json.len;) {
        char c = json.ptr[at], next = at + 1 < json.len ? json.ptr[at + 1] : '\0';
        if (c == '"') {
            at = put_string_token(out, json, at);
            continue;
        }
        bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
        if (closes)
            new_line(out, --depth);
        abx_buf_put_byte(out, c);
        if (opens && (next == '}' || next == ']')) {
            abx_buf_put_byte(out, next);
            at += 2;
            continue;
        }
        if (opens)
            new_line(out, ++depth);
        else if (c == ',')
            new_line(out, depth);
        else if (c == ':')
            abx_buf_put_byte(out, ' ');
        at++;
    }
    abx_buf_put_byte(out, '\n');
}

static int print_json(const struct abx_buf *json)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, REPORT_BYTES);
    if (!json->failed)
        put_indented(&out, abx_buf_str(json));
    if (json->failed || out.failed) {
        fputs("configuration error: out of memory\n", stderr);
        return -1;
    }
    fwrite(out.ptr, 1, out.len, stdout);
    return 0;
}

/* ---- the verb ---- */

static int explain(struct check *c)
{
    struct abx_str scopes[SCOPES_MAX] = {{"*", 1}};
    struct abx_policy_identity who = {.id = ABX_STR("explain"), .scopes = {scopes, 1}};
    struct abx_str rest = abx_str(c->o->scopes);
    who.index = ABX_POLICY_ANONYMOUS;
    if (rest.len > 0)
        for (who.scopes.count = 0; who.scopes.count < SCOPES_MAX; who.scopes.count++)
            if (!abx_str_split(&rest, ',', &scopes[who.scopes.count]))
                break;
    who.is_wide = abx_str_is(scopes[0], "*");
    struct abx__explain ask = {.endpoint = abx_str(c->o->explain),
                               .who = c->has_who ? &c->who : &who,
                               .path = abx_str(c->o->path),
                               .user = abx_str(c->o->user),
                               .op = c->o->op ? abx_path_op_parse(abx_str(c->o->op)) : -1};
    ABX_AUTO_BUF json;
    struct abx_json_writer w;
    abx_buf_init(&json, REPORT_BYTES);
    abx_json_writer_init(&w, &json);
    bool allowed = abx__explain_write(c->policy, &ask, &w);
    if (print_json(&json) < 0)
        return EXIT_INVALID;
    return allowed ? EXIT_VALID : EXIT_DENIED;
}

static int show(struct check *c)
{
    const char *lines[ABX_REPORT_MAX];
    ABX_AUTO_BUF out;
    abx_buf_init(&out, REPORT_BYTES);
    if (c->o->json) {
        put_json(c, &out);
        if (print_json(&out) < 0)
            return EXIT_INVALID;
    } else {
        put_text(c, &out);
        if (out.failed) {
            fputs("configuration error: out of memory\n", stderr);
            return EXIT_INVALID;
        }
        fwrite(out.ptr, 1, out.len, stdout);
    }
    bool fails = c->o->strict || c->o->pedantic;
    return fails && collect_warnings(c, lines, c->o->pedantic) > 0 ? EXIT_USAGE : EXIT_VALID;
}

static bool find_identity(struct check *c)
{
    for (size_t i = 0; abx_policy_identity_at(c->policy, i, &c->who); i++)
        if (abx_str_is(c->who.id, c->o->as))
            return true;
    return false;
}

static int run(struct check *c)
{
    c->has_who = c->o->as != NULL;
    if (c->has_who && !find_identity(c))
        return usage_error("--as: the policy has no identity ", c->o->as);
    if (c->o->explain != NULL)
        return explain(c);
    abx_policy_lint(c->policy, true, &c->report);
    abx__lint_here(&c->source, c->args, c->policy, &c->report);
    lint_file(c);
    return show(c);
}

static int check_document(struct check *c, const struct abx__policy_args *args)
{
    int status = EXIT_INVALID;
    abx_report_init(&c->report);
    if (abx__policy_source_load(&c->source, args, &c->policy, &c->report) < 0)
        abx__policy_print_errors(stderr, &c->report, c->source.name, false);
    else
        status = run(c);
    abx_policy_unref(c->policy);
    abx_report_done(&c->report);
    return status;
}

/* What stands between the start of the hosts and their being ready. */
struct hosts_check {
    struct check *check;
    struct abx__policy_args args;
    int status;
};

static void on_loaded(struct abx__server *s, void *arg)
{
    struct hosts_check *h = arg;
    struct abx_policy_route *routes = calloc(s->custom_count + 1, sizeof(*routes));
    if (routes == NULL)
        return;
    for (size_t i = 0; i < s->custom_count; i++)
        routes[i] = s->custom[i].spec;
    h->args.routes = routes;
    h->args.route_count = s->custom_count;
    h->args.code_groups = s->code_groups;
    h->args.code_group_count = s->code_group_count;
    h->status = check_document(h->check, &h->args);
    free(routes);
}

/* The routes of user code are known then, and its notices are shown; nothing is served. */
static int check_with_hosts(struct check *c, const struct abx__policy_args *args)
{
    struct hosts_check h = {.check = c, .args = *args, .status = EXIT_INVALID};
    const struct abx__serve_options o = {.commands = c->o->commands,
                                         .policy_file = c->o->policy,
                                         .preset = c->o->preset,
                                         .confine = c->o->confine,
                                         .no_env = c->o->no_env};
    int failed = abx__server_load_hosts(&o, on_loaded, &h);
    return failed ? failed : h.status;
}

int abx_server_check_config(int argc, char **argv)
{
    struct options o = {0};
    struct check c = {.o = &o};
    struct abx_error err = {0};
    int failed = parse(argc, argv, &o);
    if (failed != 0) {
        free(o.commands.items);
        return failed;
    }
    if (o.help) {
        fputs(usage_text, stdout);
        return EXIT_VALID;
    }
    const struct abx__policy_args args = {.file = o.policy,
                                          .preset = o.preset,
                                          .confine = o.confine,
                                          .no_env = o.no_env,
                                          .any_kernel = !o.kernel};
    c.args = &args;
    if (abx__policy_source_read(&args, &c.source, &err) < 0) {
        fprintf(stderr, "policy error: %s\n", err.msg);
        abx__policy_source_done(&c.source);
        return EXIT_INVALID;
    }
    int status = EXIT_INVALID;
    if (o.commands.count > 0)
        status = check_with_hosts(&c, &args);
    else
        status = check_document(&c, &args);
    abx__policy_source_done(&c.source);
    return status;
}

int abx_server_version(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs("usage: agent-sandbox-server version [--json]\n"
              "  --json\tours too\n",
              stdout);
        return EXIT_VALID;
    }
    if (argc > 1 && !json) {
        fprintf(stderr, "agent-sandbox-server version: error: unrecognized: %s\n", argv[1]);
        return EXIT_USAGE;
    }
    if (json)
        printf("{\"version\":\"%s\",\"api_version\":2,\"implementation\":\"agent-sandbox %s\"}\n",
               ABX_SERVER_COMPAT, ABX_VERSION);
    else
        puts(ABX_SERVER_COMPAT);
    return EXIT_VALID;
}
