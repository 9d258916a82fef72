/* guest/server/policy_source.c: the first source that is present wins; nothing is merged, and a
 * source that can not be read ends the program: never a fallback. */
#include "guest/server/policy_source.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "lib/policy/confine.h"
#include "lib/policy/within.h"
#include "lib/proc/confine.h"
#include "lib/yaml/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

enum { POLICY_BYTES = 1 << 20, YAML_BYTES = 32 << 20 };

/* ---- finding it ---- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_file(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 && S_ISREG(st.st_mode);
}

/* The text is YAML: it becomes the same document in JSON, whose places are those of the YAML. */
static int from_yaml(struct abx__policy_source *s, struct abx_error *err)
{
    struct abx_arena a;
    struct abx_yaml *root;
    struct abx_yaml_fault fault = {0};
    struct abx_buf json;
    abx_arena_init(&a, YAML_BYTES);
    abx_buf_init(&json, POLICY_BYTES);
    s->yaml = s->text;
    s->yaml_len = s->len;
    s->text = NULL;
    int r = abx_yaml_parse(abx_str_n(s->yaml, s->yaml_len), &a, &fault, &root);
    if (r < 0)
        abx_err_set(err, ABX_INVALID_ARGUMENT, "%s:%u:%u: %s%s%s", s->name, fault.line,
                    fault.column, fault.text, fault.advice ? "; " : "",
                    fault.advice ? fault.advice : "");
    else
        abx_yaml_to_json(root, &json);
    abx_arena_done(&a);
    if (r == 0 && abx_buf_failed(&json))
        r = abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "%s: too large, or out of memory", s->name);
    if (r == 0) {
        s->len = json.len;
        s->text = abx_buf_take(&json);
    }
    abx_buf_done(&json);
    return r;
}

/* Where the findings stand in the YAML: the line of the key. */
static void place_in_yaml(const struct abx__policy_source *s, struct abx_report *report)
{
    struct abx_arena a;
    struct abx_yaml *root;
    struct abx_yaml_fault fault;
    if (s->yaml == NULL)
        return;
    abx_arena_init(&a, YAML_BYTES);
    bool is_read = abx_yaml_parse(abx_str_n(s->yaml, s->yaml_len), &a, &fault, &root) == 0;
    for (size_t i = 0; i < report->count; i++) {
        struct abx_finding *f = &report->items[i];
        const struct abx_yaml *node =
            is_read && f->line && f->pointer ? abx_yaml_at(root, abx_str(f->pointer)) : NULL;
        f->line = node == NULL ? 0 : node->key_line ? node->key_line : node->line;
        f->column = node == NULL ? 0 : node->key_line ? node->key_column : node->column;
    }
    abx_arena_done(&a);
}

static int read_file(const char *name, struct abx__policy_source *ret, struct abx_error *err)
{
    struct abx_str file = abx_str(name);
    int got = abx_fd_read_file(AT_FDCWD, name, POLICY_BYTES, &ret->text, &ret->len);
    if (got == -EFBIG)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the policy file %s is longer than %d bytes",
                           name, (int)POLICY_BYTES);
    if (got < 0)
        return abx_err_sys(err, got, "can not read the policy file %s", name);
    ret->path = abx_str_dup(file);
    ret->name = ret->path;
    if (ret->path == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (abx_str_ends(file, ".yaml") || abx_str_ends(file, ".yml"))
        return from_yaml(ret, err);
    return 0;
}

static int copy_text(const char *text, const char *name, struct abx__policy_source *ret,
                     struct abx_error *err)
{
    ret->text = abx_str_dup(abx_str(text));
    if (ret->text == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    ret->len = strlen(text);
    ret->name = name;
    return 0;
}

/* The flag wins over the file (policy.md C1); a mode's name is JSON once it is quoted. */
static int read_confine(const struct abx__policy_args *args, struct abx__policy_source *ret,
                        struct abx_error *err)
{
    static const char *const modes[] = {"off", "auto", "require", "advisory"};
    char text[32];
    const char *file = args->confine;
    for (size_t i = 0; file != NULL && i < ABX_COUNTOF(modes); i++)
        if (strcmp(file, modes[i]) == 0) {
            int n = snprintf(text, sizeof(text), "\"%s\"", file);
            ret->confine = abx_str_dup(abx_str(text));
            ret->confine_len = (size_t)n;
            return ret->confine ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
        }
    if (file == NULL && is_file(ABX_SERVER_CONFINE_PATH))
        file = ABX_SERVER_CONFINE_PATH;
    if (file == NULL)
        return 0;
    int got = abx_fd_read_file(AT_FDCWD, file, POLICY_BYTES, &ret->confine, &ret->confine_len);
    return got < 0 ? abx_err_sys(err, got, "can not read the confinement %s", file) : 0;
}

/* The member `confine` of a document, as JSON on the heap; NULL: it has none. */
static char *confine_of(struct abx_str text)
{
    json_t *root = json_loadb(text.len ? text.ptr : "", text.len, 0, NULL);
    const json_t *confine = json_object_get(root, "confine");
    char *out = confine ? json_dumps(confine, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(root);
    return out;
}

/* What the well-known file says of confinement goes on to hold when a variable or a preset brings
 * another document that says nothing of it (S23). */
static int keep_confine(struct abx__policy_source *s, struct abx_error *err)
{
    struct abx__policy_source known = {.name = ABX_SERVER_POLICY_PATH};
    char *own = confine_of(abx_str_n(s->text, s->len));
    bool has_own = own != NULL || s->confine != NULL;
    free(own);
    if (has_own || !is_file(ABX_SERVER_POLICY_PATH))
        return 0;
    int r = read_file(ABX_SERVER_POLICY_PATH, &known, err);
    if (r == 0)
        s->confine = confine_of(abx_str_n(known.text, known.len));
    s->confine_len = s->confine ? strlen(s->confine) : 0;
    abx__policy_source_done(&known);
    return r;
}

int abx__policy_source_read(const struct abx__policy_args *args, struct abx__policy_source *ret,
                            struct abx_error *err)
{
    const char *inline_text = variable(ABX_ENV_SERVER_POLICY),
               *file = variable(ABX_ENV_SERVER_POLICY_FILE);
    *ret = (struct abx__policy_source){.name = "default"};
    if (read_confine(args, ret, err) < 0)
        return -1;
    int r = 0;
    if (args->file != NULL) {
        ret->kind = ABX__POLICY_FLAG;
        return read_file(args->file, ret, err);
    }
    if (args->preset != NULL) {
        ret->kind = ABX__POLICY_PRESET;
        ret->name = "--preset";
    } else if (inline_text != NULL) {
        ret->kind = ABX__POLICY_TEXT;
        r = copy_text(inline_text, ABX_ENV_SERVER_POLICY, ret, err);
    } else if (file != NULL) {
        ret->kind = ABX__POLICY_FILE;
        r = read_file(file, ret, err);
    } else if (is_file(ABX_SERVER_POLICY_PATH)) {
        ret->kind = ABX__POLICY_WELL_KNOWN;
        return read_file(ABX_SERVER_POLICY_PATH, ret, err);
    }
    return r < 0 ? r : keep_confine(ret, err);
}

int abx__policy_source_again(const struct abx__policy_source *old,
                             const struct abx__policy_args *args, struct abx__policy_source *ret,
                             struct abx_error *err)
{
    int r = 0;
    *ret = (struct abx__policy_source){.kind = old->kind, .name = old->name};
    if (read_confine(args, ret, err) < 0)
        return -1;
    if (old->kind == ABX__POLICY_NONE && is_file(ABX_SERVER_POLICY_PATH)) {
        ret->kind = ABX__POLICY_WELL_KNOWN;
        return read_file(ABX_SERVER_POLICY_PATH, ret, err);
    }
    if (old->path != NULL)
        r = read_file(old->path, ret, err);
    else if (old->text != NULL)
        r = copy_text(old->text, old->name, ret, err);
    if (r < 0 || old->kind == ABX__POLICY_FLAG || old->kind == ABX__POLICY_WELL_KNOWN)
        return r;
    return keep_confine(ret, err);
}

void abx__policy_source_done(struct abx__policy_source *s)
{
    free(s->text);
    free(s->confine);
    free(s->yaml);
    free(s->path);
    *s = (struct abx__policy_source){0};
}

/* ---- loading ---- */

static const char *from_environment(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static const uint16_t usual_ports[] = {ABX_PORT_SERVER, ABX_PORT_SERVER_PTY};

int abx__policy_source_load(const struct abx__policy_source *source,
                            const struct abx__policy_args *args, struct abx_policy **ret,
                            struct abx_report *report)
{
    struct abx_policy_facts facts = {
        .text = abx_str_n(source->text ? source->text : "", source->len),
        .has_text = source->text != NULL,
        .preset = abx_str(args->preset),
        .enabled_groups =
            abx_str(args->without_groups ? NULL : variable("ABX_SERVER_ENABLED_GROUPS")),
        .previous = args->previous,
        .base_dir = abx_str(variable(ABX_ENV_SERVER_BASE_DIR)),
        .routes = args->routes,
        .route_count = args->route_count,
        .code_groups = args->code_groups,
        .code_group_count = args->code_group_count,
        .getenv = from_environment,
        .no_env = args->no_env,
        .routes_unknown = args->routes_unknown,
        .confine_text = abx_str_n(source->confine, source->confine_len),
        .layers = args->any_kernel ? (unsigned)ABX_LAYER_ALL : abx_confine_supported(),
        .own_ports = args->own_ports ? args->own_ports : usual_ports,
        .own_port_count = args->own_ports ? args->own_port_count : ABX_COUNTOF(usual_ports),
    };
    if (args->with_token)
        facts.legacy_token = abx_str(variable(ABX_ENV_SERVER_TOKEN));
    int r = abx_policy_load(&facts, ret, report);
    place_in_yaml(source, report);
    return r;
}

/* ---- S23 ---- */

static bool may_only_narrow(const struct abx__policy_source *s)
{
    bool is_other =
        s->kind == ABX__POLICY_PRESET || s->kind == ABX__POLICY_TEXT || s->kind == ABX__POLICY_FILE;
    bool has_groups = s->kind != ABX__POLICY_FLAG && variable("ABX_SERVER_ENABLED_GROUPS") != NULL;
    return (is_other || has_groups) &&
           (is_file(ABX_SERVER_POLICY_PATH) || is_file(ABX_SERVER_CONFINE_PATH));
}

static int load_known(const struct abx__policy_args *args, struct abx_policy **ret,
                      struct abx_error *err)
{
    struct abx__policy_args known_args = *args;
    struct abx__policy_source known = {.name = "default"};
    struct abx_report report;
    known_args.preset = NULL;
    known_args.without_groups = true;
    known_args.no_env = true; /* views are compared: who may use them does not matter */
    if (read_confine(args, &known, err) < 0 ||
        (is_file(ABX_SERVER_POLICY_PATH) && read_file(ABX_SERVER_POLICY_PATH, &known, err) < 0)) {
        abx__policy_source_done(&known);
        return -1;
    }
    abx_report_init(&report);
    int r = abx__policy_source_load(&known, &known_args, ret, &report);
    if (r < 0)
        abx_err_set(err, ABX_INVALID_ARGUMENT, "%s: %s", known.name,
                    abx_report_first_error(&report)->text);
    abx_report_done(&report);
    abx__policy_source_done(&known);
    return r;
}

int abx__policy_source_check(const struct abx__policy_source *source,
                             const struct abx__policy_args *args, const struct abx_policy *p,
                             struct abx_error *err)
{
    char why[240];
    struct abx_policy *known = NULL;
    int r = 0;
    if (!may_only_narrow(source))
        return 0;
    if (load_known(args, &known, err) < 0)
        return -1;
    const struct abx_policy_confine *c = abx_policy_confinement(known);
    if (c->is_set && !c->allow_override && !abx_policy_is_within(p, known, why))
        r = abx_err_set(err, ABX_PERMISSION_DENIED,
                        "%s is wider than %s, which says neither \"allow_override\" nor that: %s",
                        source->kind == ABX__POLICY_NONE || source->kind == ABX__POLICY_WELL_KNOWN
                            ? "ABX_SERVER_ENABLED_GROUPS"
                            : source->name,
                        is_file(ABX_SERVER_POLICY_PATH) ? ABX_SERVER_POLICY_PATH
                                                        : ABX_SERVER_CONFINE_PATH,
                        why);
    abx_policy_unref(known);
    return r;
}

/* ---- printing ---- */

static void print_position(FILE *out, const struct abx_finding *f, const char *source)
{
    if (f->line == 0)
        return;
    fprintf(out, " (%s:%u:%u%s%s)", source, f->line, f->column,
            f->pointer != NULL && f->pointer[0] ? " " : "", f->pointer ? f->pointer : "");
}

void abx__policy_print_errors(FILE *out, const struct abx_report *report, const char *source,
                              bool serving)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct abx_finding *f = &report->items[i];
        if (f->kind == ABX_FINDING_WARNING)
            continue;
        bool configuration = serving && f->kind == ABX_FINDING_CONFIGURATION;
        fprintf(out, "%s error: %s%s%s", configuration ? "configuration" : "policy",
                f->place ? f->place : "", f->place ? ": " : "", f->text);
        print_position(out, f, source);
        fputc('\n', out);
    }
    if (report->dropped > 0)
        fprintf(out, "policy error: and %zu more\n", report->dropped);
}
