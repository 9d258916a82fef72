/* host/image/dockerfile_plan.c: instructions to the build steps of the API. */
#include "host/image/dockerfile.h"
#include "host/image/dockerfile_priv.h"
#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { BINDINGS_MAX = 4 * ABX_DF_INSTRUCTIONS_MAX, STEPS_MAX = 4 * ABX_DF_INSTRUCTIONS_MAX };

/* Known to every ARG without a value of its own. */
static const struct {
    const char *name, *value;
} predefined[] = {
    {"TARGETPLATFORM", "linux/amd64"}, {"TARGETOS", "linux"}, {"TARGETARCH", "amd64"},
    {"BUILDPLATFORM", "linux/amd64"},  {"BUILDOS", "linux"},  {"BUILDARCH", "amd64"},
};

struct planner {
    const struct abx_dockerfile *df;
    const struct abx_df_options *o;
    struct abx_arena *a;
    struct abx_df_plan *plan;
    struct abx_df_fault *fault;
    struct abx__df_scope scope, global; /* global: ARG before FROM */
    const struct abx_df_word *shell;    /* of SHELL; NULL: the builder's */
    size_t shell_count;
};

static int no_memory(struct planner *p)
{
    return abx__df_fail(p->fault, (struct abx_df_place){0}, "out of memory");
}

static int add_step(struct planner *p, const char *type, const struct abx_df_instruction *from,
                    const struct abx_str *args, size_t count)
{
    struct abx_str *copy = abx_arena_array(p->a, count, sizeof(*copy));
    if (copy == NULL)
        return no_memory(p);
    if (p->plan->count >= STEPS_MAX)
        return abx__df_fail(p->fault, from ? from->at : (struct abx_df_place){0},
                            "more than %d build steps", STEPS_MAX);
    memcpy(copy, args, count * sizeof(*copy));
    p->plan->steps[p->plan->count++] =
        (struct abx_df_step){.type = type,
                             .args = copy,
                             .arg_count = count,
                             .at = from ? from->at : (struct abx_df_place){0},
                             .last_line = from ? from->last_line : 0,
                             .from = from};
    return 0;
}

static int add_own(struct planner *p, const char *type, const char *arg)
{
    struct abx_str args[] = {abx_str(arg)};
    return add_step(p, type, NULL, args, 1);
}

/* ---- variables ---- */

/* NAME=VALUE words, or the old "ENV NAME the rest of the line". */
static int split_pair(struct planner *p, const struct abx_df_word *w, struct abx_df_word *ret_name,
                      struct abx_df_word *ret_value)
{
    ptrdiff_t equals = abx_str_chr(w->text, '=');
    size_t n = equals < 0 ? w->text.len : (size_t)equals;
    *ret_name = (struct abx_df_word){abx_str_sub(w->text, 0, n), w->at};
    *ret_value = (struct abx_df_word){abx_str_sub(w->text, n + 1, SIZE_MAX), w->at};
    if (equals < 0)
        ret_value->text = (struct abx_str){0};
    if (abx__df_name_length(ret_name->text) != n || n == 0)
        return abx__df_fail(p->fault, w->at, "'%.*s' is no variable name",
                            ABX_STR_FMT(abx_str_sub(ret_name->text, 0, 60)));
    return 0;
}

static const struct abx_df_variable *build_arg(const struct planner *p, struct abx_str name)
{
    for (size_t i = p->o->build_arg_count; i > 0; i--)
        if (abx_str_eq(p->o->build_args[i - 1].name, name))
            return &p->o->build_args[i - 1];
    return NULL;
}

static void default_of(const struct planner *p, struct abx__df_binding *b)
{
    const struct abx__df_binding *outer = abx__df_find(&p->global, b->name);
    if (outer != NULL && outer->is_set) {
        b->value = outer->value;
        b->is_set = true;
        return;
    }
    for (size_t i = 0; i < ABX_COUNTOF(predefined); i++)
        if (abx_str_is(b->name, predefined[i].name)) {
            b->value = abx_str(predefined[i].value);
            b->is_set = true;
        }
}

static int take_arg(struct planner *p, const struct abx_df_instruction *in,
                    struct abx__df_scope *scope)
{
    for (size_t i = 0; i < in->word_count; i++) {
        struct abx_df_word name, value;
        struct abx__df_binding b = {.is_arg = true};
        if (split_pair(p, &in->words[i], &name, &value) < 0)
            return -1;
        b.name = name.text;
        const struct abx_df_variable *given = build_arg(p, b.name);
        const struct abx__df_binding *before = abx__df_find(scope, b.name);
        if (before != NULL && !before->is_arg)
            continue; /* ENV stays in force over ARG */
        if (given != NULL) {
            b.value = given->value;
            b.is_set = true;
        } else if (value.text.ptr != NULL) {
            b.is_set = true;
            if (abx__df_expand(scope, &value, ABX__DF_UNKNOWN_FAILS, p->a, &b.value, p->fault) < 0)
                return -1;
        } else
            default_of(p, &b);
        if (abx__df_bind(scope, &b) < 0)
            return abx__df_fail(p->fault, in->at, "too many variables");
    }
    return 0;
}

static int bind_env(struct planner *p, const struct abx_df_instruction *in, struct abx_str *pair)
{
    /* what still holds ${NAME} is known to the builder only */
    bool is_known = abx_str_find(pair[1], ABX_STR("${")) < 0;
    struct abx__df_binding b = {pair[0], pair[1], false, true};
    if (!is_known)
        return 0;
    return abx__df_bind(&p->scope, &b) < 0 ? abx__df_fail(p->fault, in->at, "too many variables")
                                           : 0;
}

static int take_env(struct planner *p, const struct abx_df_instruction *in)
{
    bool is_old = abx_str_chr(in->words[0].text, '=') < 0;
    size_t count = is_old ? 1 : in->word_count;
    struct abx_str *args = abx_arena_array(p->a, count, 2 * sizeof(*args));
    if (args == NULL)
        return no_memory(p);
    for (size_t i = 0; i < count; i++) {
        struct abx_df_word name, value;
        if (split_pair(p, &in->words[i], &name, &value) < 0)
            return -1;
        if (is_old)
            value.text = abx_str_trim(abx_str_sub(in->text, name.text.len, SIZE_MAX));
        if (value.text.ptr == NULL || (is_old && value.text.len == 0))
            return abx__df_fail(p->fault, name.at, "ENV %.*s has no value", ABX_STR_FMT(name.text));
        args[2 * i] = name.text;
        if (abx__df_expand(&p->scope, &value, ABX__DF_UNKNOWN_KEPT, p->a, &args[2 * i + 1],
                           p->fault) < 0)
            return -1;
    }
    for (size_t i = 0; i < count; i++) /* variables of one ENV do not see each other */
        if (bind_env(p, in, &args[2 * i]) < 0)
            return -1;
    return add_step(p, "ENV", in, args, 2 * count);
}

/* ---- RUN ---- */

/* ARG values are in the environment of RUN, and nowhere else. */
static void put_args(const struct planner *p, struct abx_buf *b)
{
    for (size_t i = 0; i < p->scope.count; i++) {
        const struct abx__df_binding *v = &p->scope.items[i];
        if (!v->is_arg || !v->is_set || abx__df_find(&p->scope, v->name) != v)
            continue;
        abx_buf_putf(b, "export %.*s=", ABX_STR_FMT(v->name));
        abx__df_quote(b, v->value);
        abx_buf_put_c(b, "; ");
    }
}

static void put_words(struct abx_buf *b, const struct abx_df_word *words, size_t count)
{
    abx_buf_put_c(b, "exec");
    for (size_t i = 0; i < count; i++) {
        abx_buf_put_byte(b, ' ');
        abx__df_quote(b, words[i].text);
    }
}

static int take_run(struct planner *p, const struct abx_df_instruction *in)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ABX_DF_TEXT_MAX * 4);
    put_args(p, &b);
    if (in->is_exec)
        put_words(&b, in->words, in->word_count);
    else if (p->shell != NULL) {
        put_words(&b, p->shell, p->shell_count);
        abx_buf_put_byte(&b, ' ');
        abx__df_quote(&b, in->command);
    } else
        abx_buf_put_str(&b, in->command);
    struct abx_str args[] = {abx_arena_str(p->a, abx_buf_str(&b))};
    if (abx_buf_failed(&b) || args[0].ptr == NULL)
        return abx__df_fail(p->fault, in->at, "the command is too long");
    return add_step(p, "RUN", in, args, 1);
}

static int take_shell(struct planner *p, const struct abx_df_instruction *in)
{
    p->shell = in->words;
    p->shell_count = in->word_count;
    return 0;
}

/* ---- COPY, ADD ---- */

static int check_mode(struct planner *p, const struct abx_df_instruction *in, struct abx_str mode)
{
    bool good = mode.len >= 3 && mode.len <= 4;
    for (size_t i = 0; good && i < mode.len; i++)
        good = mode.ptr[i] >= '0' && mode.ptr[i] <= '7';
    return good ? 0
                : abx__df_fail(p->fault, in->flags[0].at,
                               "--chmod is three or four octal digits, "
                               "not '%.*s'",
                               ABX_STR_FMT(abx_str_sub(mode, 0, 40)));
}

static int expand_flag(struct planner *p, const struct abx_df_instruction *in, const char *name,
                       struct abx_str *ret)
{
    struct abx_df_word w = {abx_df_flag(in, name), in->at};
    for (size_t i = 0; i < in->flag_count; i++)
        if (abx_str_starts(abx_str_sub(in->flags[i].text, 2, SIZE_MAX), name))
            w.at = in->flags[i].at;
    if (w.text.ptr == NULL)
        return 0;
    return abx__df_expand(&p->scope, &w, ABX__DF_UNKNOWN_FAILS, p->a, ret, p->fault);
}

static int check_source(struct planner *p, const struct abx_df_instruction *in,
                        const struct abx_df_word *w, struct abx_str src)
{
    static const char *const remote[] = {"http://", "https://", "git://", "git@", "ftp://"};
    static const char *const packed[] = {".tar",    ".tar.gz", ".tgz",  ".tar.bz2",
                                         ".tar.xz", ".txz",    ".tbz2", ".tar.zst"};
    if (src.len == 0)
        return abx__df_fail(p->fault, w->at, "an empty source");
    for (size_t i = 0; i < ABX_COUNTOF(remote); i++)
        if (abx_str_starts(src, remote[i]))
            return abx__df_fail(p->fault, w->at, "%s takes local files only; fetch it beforehand",
                                abx_df_kind_name(in->kind));
    for (size_t i = 0; in->kind == ABX_DF_ADD && i < ABX_COUNTOF(packed); i++)
        if (abx_str_ends(src, packed[i]))
            return abx__df_fail(p->fault, w->at,
                                "ADD would unpack the archive, which is not built; COPY it and "
                                "RUN tar");
    return 0;
}

static int take_copy(struct planner *p, const struct abx_df_instruction *in)
{
    struct abx_str owner = ABX_STR("root:root"), mode = ABX_STR(""), dest;
    const struct abx_df_word *last = &in->words[in->word_count - 1];
    if (expand_flag(p, in, "chown", &owner) < 0 || expand_flag(p, in, "chmod", &mode) < 0 ||
        (mode.len > 0 && check_mode(p, in, mode) < 0) ||
        abx__df_expand(&p->scope, last, ABX__DF_UNKNOWN_FAILS, p->a, &dest, p->fault) < 0)
        return -1;
    if (mode.len == 3)
        mode = abx_str(abx_arena_printf(p->a, "0%.*s", ABX_STR_FMT(mode)));
    if (in->word_count > 2 && !abx_str_ends(dest, "/"))
        return abx__df_fail(p->fault, last->at,
                            "several sources need a folder: end the destination with /");
    for (size_t i = 0; i + 1 < in->word_count; i++) {
        struct abx_str src;
        if (abx__df_expand(&p->scope, &in->words[i], ABX__DF_UNKNOWN_FAILS, p->a, &src, p->fault) <
                0 ||
            check_source(p, in, &in->words[i], src) < 0)
            return -1;
        struct abx_str args[] = {src, dest, owner, mode};
        if (add_step(p, "COPY", in, args, ABX_COUNTOF(args)) < 0)
            return -1;
    }
    return 0;
}

/* ---- the rest ---- */

static int take_workdir(struct planner *p, const struct abx_df_instruction *in)
{
    struct abx_str path;
    if (abx__df_expand(&p->scope, &in->words[0], ABX__DF_UNKNOWN_FAILS, p->a, &path, p->fault) < 0)
        return -1;
    if (path.len == 0)
        return abx__df_fail(p->fault, in->words[0].at, "WORKDIR of an empty path");
    p->plan->sets_workdir = true;
    return add_step(p, "WORKDIR", in, &path, 1);
}

static int take_user(struct planner *p, const struct abx_df_instruction *in)
{
    struct abx_str name;
    if (abx__df_expand(&p->scope, &in->words[0], ABX__DF_UNKNOWN_FAILS, p->a, &name, p->fault) < 0)
        return -1;
    ptrdiff_t colon = abx_str_chr(name, ':');
    if (colon >= 0)
        return abx__df_fail(p->fault, in->words[0].at,
                            "USER with a group is not built; write USER %.*s",
                            ABX_STR_FMT(abx_str_sub(name, 0, (size_t)colon)));
    if (name.len == 0)
        return abx__df_fail(p->fault, in->words[0].at, "USER of an empty name");
    p->plan->sets_user = true;
    return add_step(p, "USER", in, &name, 1);
}

static int take_nothing(struct planner *p, const struct abx_df_instruction *in)
{
    (void)p;
    (void)in;
    return 0;
}

static int take_scoped_arg(struct planner *p, const struct abx_df_instruction *in)
{
    return take_arg(p, in, &p->scope);
}

typedef int take_fn(struct planner *p, const struct abx_df_instruction *in);
static take_fn *const takers[] = {
    [ABX_DF_FROM] = take_nothing,    [ABX_DF_ARG] = take_scoped_arg,
    [ABX_DF_ENV] = take_env,         [ABX_DF_RUN] = take_run,
    [ABX_DF_COPY] = take_copy,       [ABX_DF_ADD] = take_copy,
    [ABX_DF_WORKDIR] = take_workdir, [ABX_DF_USER] = take_user,
    [ABX_DF_EXPOSE] = take_nothing,  [ABX_DF_LABEL] = take_nothing,
    [ABX_DF_CMD] = take_nothing,     [ABX_DF_ENTRYPOINT] = take_nothing,
    [ABX_DF_SHELL] = take_shell,     [ABX_DF_HEALTHCHECK] = take_nothing,
};
_Static_assert(ABX_COUNTOF(takers) == ABX_DF__COUNT, "one row per instruction");

static int take_from(struct planner *p, const struct abx_df_instruction *in)
{
    const struct abx_df_word *w = in->words;
    if (in->word_count != 1 && !(in->word_count == 3 && abx_str_is_nocase(w[1].text, "AS")))
        return abx__df_fail(p->fault, in->at, "FROM IMAGE, or FROM IMAGE AS NAME");
    if (abx__df_expand(&p->global, w, ABX__DF_UNKNOWN_FAILS, p->a, &p->plan->image, p->fault) < 0 ||
        expand_flag(p, in, "platform", &p->plan->platform) < 0)
        return -1;
    p->plan->image_at = w->at;
    if (p->plan->image.len == 0)
        return abx__df_fail(p->fault, w->at, "FROM names no image");
    return 0;
}

static int prepare(struct planner *p)
{
    struct abx__df_scope *scopes[] = {&p->scope, &p->global};
    for (size_t i = 0; i < ABX_COUNTOF(scopes); i++) {
        scopes[i]->items = abx_arena_array(p->a, BINDINGS_MAX, sizeof(*scopes[i]->items));
        scopes[i]->cap = BINDINGS_MAX;
        scopes[i]->escape = p->df->escape;
        if (scopes[i]->items == NULL)
            return no_memory(p);
    }
    return 0;
}

/* Up to FROM, which is the instruction at *ret_index. */
static int read_base(struct planner *p, size_t *ret_index)
{
    if (prepare(p) < 0)
        return -1;
    size_t i = 0;
    for (; p->df->items[i].kind != ABX_DF_FROM; i++)
        if (take_arg(p, &p->df->items[i], &p->global) < 0)
            return -1;
    *ret_index = i;
    struct abx__df_scope saved = p->scope;
    p->scope = p->global; /* --platform sees what FROM sees */
    int r = take_from(p, &p->df->items[i]);
    p->scope = saved;
    return r;
}

int abx_dockerfile_base(const struct abx_dockerfile *df, const struct abx_df_options *o,
                        struct abx_arena *a, struct abx_df_plan *ret, struct abx_df_fault *fault)
{
    size_t from;
    *ret = (struct abx_df_plan){0};
    *fault = (struct abx_df_fault){0};
    struct planner p = {.df = df, .o = o, .a = a, .plan = ret, .fault = fault};
    return read_base(&p, &from);
}

int abx_dockerfile_plan(const struct abx_dockerfile *df, const struct abx_df_options *o,
                        struct abx_arena *a, struct abx_df_plan *ret, struct abx_df_fault *fault)
{
    size_t i;
    *ret = (struct abx_df_plan){0};
    *fault = (struct abx_df_fault){0};
    struct planner p = {.df = df, .o = o, .a = a, .plan = ret, .fault = fault};
    ret->steps = abx_arena_array(a, STEPS_MAX, sizeof(*ret->steps));
    if (ret->steps == NULL)
        return no_memory(&p);
    if (read_base(&p, &i) < 0 || add_own(&p, "USER", "root") < 0 ||
        add_own(&p, "WORKDIR", o->workdir ? o->workdir : "/") < 0)
        return -1;
    for (i++; i < df->count; i++)
        if (takers[df->items[i].kind](&p, &df->items[i]) < 0)
            return -1;
    if (!ret->sets_user && add_own(&p, "USER", "user") < 0)
        return -1;
    return ret->sets_workdir ? 0 : add_own(&p, "WORKDIR", "/home/user");
}
