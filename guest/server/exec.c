/* guest/server/exec.c: the checks before a program runs. server-api.md 4.5, policy.md A12, P3, P4.
 */
#include "guest/server/exec.h"

#include "guest/caps/environ.h"
#include "guest/caps/tree.h"
#include "guest/server/as_user.h"
#include "guest/server/view.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/policy/guards.h"
#include "lib/policy/paths.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { PROCESSES_MAX = 100, TIMEOUT_S = 300, NUMBER_TEXT = 64, PATH_BYTES = 8192 };
#define TIMEOUT_MAX_S 1e9

/* ---- fields ---- */

static bool refuse(struct abx__call *c, const char *text)
{
    abx__call_fail(c, 400, "ValueError", "%s", text);
    return false;
}

/* A number or its text; anything else, and what is not positive, is the default. */
static double seconds_of(const json_t *v)
{
    char text[NUMBER_TEXT], *end;
    double s = TIMEOUT_S;
    if (json_is_number(v))
        s = json_number_value(v);
    else if (json_is_string(v) &&
             abx_str_to_c(abx_str_n(json_string_value(v), json_string_length(v)), text,
                          sizeof(text)) == 0) {
        double parsed = strtod(text, &end);
        s = end != text && *end == '\0' ? parsed : TIMEOUT_S;
    }
    if (isnan(s) || s <= 0)
        return TIMEOUT_S;
    return s < TIMEOUT_MAX_S ? s : TIMEOUT_MAX_S;
}

static bool read_timeout(struct abx__call *c, struct abx__exec *x)
{
    double s = seconds_of(abx__call_field(c, "timeout"));
    double limit = abx_policy_limit_f64(c->rule, ABX_LIMIT_TIMEOUT_SECONDS, s);
    s = limit < s ? limit : s;
    x->timeout_ms = (uint64_t)(s * 1000);
    if (x->timeout_ms == 0)
        x->timeout_ms = 1;
    return true;
}

static bool read_cwd(struct abx__call *c, struct abx__exec *x)
{
    const json_t *cwd = abx__call_field(c, "cwd");
    if (cwd == NULL || json_is_null(cwd))
        return true;
    if (!json_is_string(cwd))
        return refuse(c, "'cwd' must be a string");
    x->cwd_given = abx_str_n(json_string_value(cwd), json_string_length(cwd));
    return true;
}

static bool read_env(struct abx__call *c, struct abx__exec *x)
{
    const json_t *value;
    const char *name;
    json_t *env = abx__call_field(c, "env");
    if (env == NULL || json_is_null(env))
        return true;
    if (!json_is_object(env))
        return refuse(c, "'env' must be an object of strings");
    json_object_foreach(env, name, value)
    {
        if (!json_is_string(value))
            return refuse(c, "'env' must be an object of strings");
    }
    x->env = env;
    return true;
}

/* Words that are passed on as they are: nobody has to quote them (D35). */
static bool read_args(struct abx__call *c, struct abx__exec *x)
{
    const json_t *args = abx__call_field(c, "args"), *value;
    size_t i;
    if (args == NULL || json_is_null(args))
        return true;
    if (!json_is_array(args))
        return refuse(c, "'args' must be an array of strings");
    json_array_foreach(args, i, value)
    {
        if (!json_is_string(value))
            return refuse(c, "'args' must be an array of strings");
    }
    x->args = args;
    return true;
}

/* A line for a shell, where that is asked for; else words (D35). */
static bool read_shell(struct abx__call *c, struct abx__exec *x)
{
    static const char *const shells[] = {"sh", "bash"};
    const json_t *shell = abx__call_field(c, "shell");
    const char *name = json_is_true(shell) ? shells[0] : json_string_value(shell);
    if (shell == NULL || json_is_null(shell) || json_is_false(shell))
        return true;
    for (size_t i = 0; name && i < ABX_COUNTOF(shells); i++)
        if (strcmp(name, shells[i]) == 0 &&
            (!json_is_string(shell) || json_string_length(shell) == strlen(name)))
            x->shell = shells[i];
    return x->shell || refuse(c, "'shell' must be true, false, \"sh\" or \"bash\"");
}

static bool is_blank(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (memchr(" \t\r\n", s.ptr[i], 4) == NULL)
            return false;
    return true;
}

bool abx__exec_read(struct abx__call *c, struct abx__exec *x)
{
    if (!abx__call_string(c, "command", &x->command))
        return false;
    if (is_blank(x->command))
        return refuse(c, "'command' has no words");
    return read_cwd(c, x) && read_env(c, x) && read_args(c, x) && read_shell(c, x) &&
           read_timeout(c, x) && abx__user_read(c, &x->user_asked);
}

/* ---- the environment ---- */

static bool check_env(struct abx__job *j, const struct abx__exec *x, struct abx__pair *pairs)
{
    json_t *value, *env = (json_t *)(uintptr_t)x->env;
    const char *name;
    size_t n = 0;
    json_object_foreach(env, name, value)
    {
        pairs[n].name = abx_str(name);
        pairs[n].value = abx_str_n(json_string_value(value), json_string_length(value));
        if (!abx_policy_env_check(j->rule, pairs[n].name, pairs[n].value, &j->verdict))
            return false;
        n++;
    }
    return true;
}

/* ---- the program ---- */

static char *arena_c(struct abx__job *j, struct abx_str s)
{
    return abx_arena_c(&j->arena, s);
}

struct abx_str abx__exec_find(const struct abx__server *s, struct abx_str name, struct abx_arena *a)
{
    struct abx_str rest = abx_str(s->path), dir;
    char text[PATH_MAX];
    while (rest.ptr && abx_str_split(&rest, ':', &dir)) {
        if (dir.len == 0)
            dir = ABX_STR(".");
        int n = snprintf(text, sizeof(text), "%.*s/%.*s", ABX_STR_FMT(dir), ABX_STR_FMT(name));
        struct stat st;
        if (n > 0 && (size_t)n < sizeof(text) && stat(text, &st) == 0 && S_ISREG(st.st_mode) &&
            access(text, X_OK) == 0)
            return abx_arena_str(a, abx_str(text));
    }
    return (struct abx_str){0};
}

static struct abx_str find_in_path(struct abx__job *j, struct abx_str name)
{
    return abx__exec_find(j->server, name, &j->arena);
}

/* The file itself; where a link on the way lies beneath /proc, /sys or /dev, that link: it may lead
 * anywhere, and nothing is run by way of it (D97). */
static struct abx_str real_program(struct abx__job *j, struct abx_str path)
{
    enum { HOPS_MAX = 40 };
    char target[PATH_MAX];
    for (int i = 0; path.ptr && i < HOPS_MAX; i++) {
        ABX_AUTO_BUF out = {0};
        abx_buf_init(&out, PATH_BYTES);
        if (abx_tree_resolve(path, true, &out) < 0)
            return path;
        path = abx_str(arena_c(j, abx_buf_str(&out)));
        if (path.ptr == NULL || abx_policy_is_kernel_path(path))
            return path;
        ssize_t n = readlink(path.ptr, target, sizeof(target));
        if (n <= 0 || (size_t)n == sizeof(target))
            return path;
        int dir = target[0] == '/' ? 0 : (int)(abx_str_rchr(path, '/') + 1);
        path = abx_str(abx_arena_printf(&j->arena, "%.*s%.*s", dir, path.ptr, (int)n, target));
    }
    return path;
}

static struct abx_str base_name(struct abx_str path)
{
    return abx_str_sub(path, (size_t)(abx_str_rchr(path, '/') + 1), path.len);
}

/* The file that the first word names: with a slash beneath the folder it will run in, else by PATH.
 */
static struct abx_str find_program(struct abx__job *j, struct abx_str word, struct abx_str dir)
{
    if (abx_str_chr(word, '/') < 0)
        return find_in_path(j, word);
    if (word.ptr[0] == '/')
        return word;
    return abx_str(abx_arena_printf(&j->arena, "%.*s/%.*s", ABX_STR_FMT(dir), ABX_STR_FMT(word)));
}

struct path_check {
    struct abx__job *job;
    const struct abx__bounds *bounds;
    struct abx_str dir; /* where a relative word is looked at (P3) */
};

static bool check_word(void *ctx, struct abx_str word, struct abx_arena *a,
                       struct abx_str *ret_path, struct abx_policy_verdict *v)
{
    const struct path_check *p = ctx;
    struct abx__path_ask ask = {.path = word, .op = ABX_OP_EXEC, .field = "argv"};
    if (word.len && word.ptr[0] != '/')
        ask.path =
            abx_str(abx_arena_printf(a, "%.*s/%.*s", ABX_STR_FMT(p->dir), ABX_STR_FMT(word)));
    return abx__bounds_judge(p->bounds, &ask, ret_path, v);
}

static bool no_memory(struct abx__job *j)
{
    return abx__job_fail(j, 500, "MemoryError", "out of memory");
}

/* Where the program would run, before it is known whether it may. */
static struct abx_str planned_dir(struct abx__job *j, const struct abx__exec *x,
                                  const struct abx__bounds *b)
{
    struct abx_str dir = abx_str(j->server->cwd);
    if (x->cwd_given.len == 0)
        return dir;
    if (x->cwd_given.ptr[0] == '/')
        return x->cwd_given;
    return abx_str(abx_arena_printf(&j->arena, "%.*s/%.*s", ABX_STR_FMT(b->roots[0].real),
                                    ABX_STR_FMT(x->cwd_given)));
}

static bool copy_argv(struct abx__job *j, struct abx__exec *x, struct abx_str_list argv)
{
    x->argv = abx_arena_array(&j->arena, argv.count + 1, sizeof(*x->argv));
    if (x->argv == NULL)
        return no_memory(j);
    for (size_t i = 0; i < argv.count; i++)
        if ((x->argv[i] = arena_c(j, argv.items[i])) == NULL)
            return no_memory(j);
    return true;
}

/* The words, and the file that the first of them names. */
struct parsed {
    struct abx_policy_command command;
    struct path_check paths;
    struct abx_str found; /* ptr NULL: nothing of that name */
};

/* The shell and its line are the words that a caller would have written itself, and are judged as
 * those: `shell` reaches nothing that they do not. Its arguments are $1 and on. */
static bool shell_words(struct abx__job *j, const struct abx__exec *x, struct abx_str_list *ret)
{
    struct abx_str *words = abx_arena_array(&j->arena, 4, sizeof(*words));
    if (words == NULL)
        return false;
    words[0] = words[3] = abx_str(x->shell);
    words[1] = ABX_STR("-c");
    words[2] = x->command;
    *ret = (struct abx_str_list){words, x->args ? 4 : 3};
    return true;
}

static bool read_words(struct abx__job *j, const struct abx__exec *x, struct abx_str_list *ret)
{
    if (x->shell)
        return shell_words(j, x, ret) || no_memory(j);
    return abx_policy_words_split(x->command, &j->arena, ret) == 0 ||
           abx__job_fail(j, 400, "ValueError", "'command' has an open quote or backslash");
}

static bool add_args(struct abx__job *j, const json_t *args, struct abx_str_list *argv)
{
    size_t count = argv->count, all = count + json_array_size(args), i;
    const json_t *value;
    struct abx_str *words = abx_arena_array(&j->arena, all, sizeof(*words));
    if (words == NULL)
        return false;
    memcpy(words, argv->items, count * sizeof(*words));
    json_array_foreach(args, i, value)
    {
        words[count++] = abx_str_n(json_string_value(value), json_string_length(value));
    }
    *argv = (struct abx_str_list){words, count};
    return true;
}

static bool check_program(struct abx__job *j, const struct abx__exec *x,
                          const struct abx__bounds *b, struct parsed *p)
{
    p->paths = (struct path_check){.job = j, .bounds = b, .dir = planned_dir(j, x, b)};
    if (!read_words(j, x, &p->command.argv))
        return false;
    p->command.is_shell_line = x->shell != NULL;
    if (p->command.argv.count == 0 || p->paths.dir.ptr == NULL ||
        (x->args && !add_args(j, x->args, &p->command.argv)))
        return no_memory(j);
    struct abx_str word = p->command.argv.items[0];
    p->found = find_program(j, word, p->paths.dir);
    p->command.path = check_word;
    p->command.path_ctx = &p->paths;
    struct abx_str real = real_program(j, p->found);
    if (abx_str_chr(word, '/') >= 0) {
        p->command.program = real;
        p->command.path_program = real_program(j, find_in_path(j, base_name(word)));
    }
    return abx_policy_program_check(j->rule, word, real, &j->verdict);
}

static bool check_command(struct abx__job *j, struct abx__exec *x, const struct parsed *p)
{
    struct abx_str_list argv;
    return abx_policy_command_check(j->rule, &p->command, &j->arena, &argv, &j->verdict) &&
           copy_argv(j, x, argv);
}

/* What is not found is said at the end, after all that may refuse. */
static bool set_program(struct abx__job *j, struct abx__exec *x, const struct parsed *p)
{
    if (p->found.ptr == NULL) {
        x->missing = ENOENT;
        return true;
    }
    x->program = arena_c(j, p->found);
    return x->program || no_memory(j);
}

static bool check_cwd(struct abx__job *j, struct abx__exec *x, const struct abx__bounds *b)
{
    struct abx__path_ask ask = {.path = x->cwd_given, .op = ABX_OP_EXEC, .field = "cwd"};
    struct abx_str dir;
    if (x->cwd_given.len == 0)
        return true;
    if (!abx__bounds_judge(b, &ask, &dir, &j->verdict))
        return false;
    abx__job_note(j, dir);
    x->cwd = arena_c(j, dir);
    return x->cwd || no_memory(j);
}

static bool check_secrets(struct abx__job *j, const struct abx__pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!abx_policy_exec_env_check(j->policy, j->rule, pairs[i].name, &j->verdict) ||
            !abx_policy_env_overlay_check(j->rule, &j->who, pairs[i].name, &j->verdict))
            return false;
    return true;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool abx__exec_judge(struct abx__exec *x, struct abx__job *j)
{
    struct abx__bounds bounds;
    struct parsed parsed = {0};
    size_t count = json_object_size(x->env);
    struct abx__pair *pairs =
        abx_arena_array(&j->arena, count + ABX_ENVIRON_OF_USER + 1, sizeof(*pairs));
    if (pairs == NULL || abx__bounds_init(&bounds, j->policy, j->rule, &j->arena) < 0)
        return no_memory(j);
    if (!check_program(j, x, &bounds, &parsed) || !check_env(j, x, pairs) ||
        !check_command(j, x, &parsed) || !check_cwd(j, x, &bounds) ||
        !check_secrets(j, pairs, count) || !abx__user_judge(j, x->user_asked, &x->user))
        return false;
    if (x->cwd && !is_folder(x->cwd))
        return abx__job_fail(j, 400, "ValueError", "'cwd' is not a directory");
    if (!set_program(j, x, &parsed))
        return false;
    count = abx__user_variables(x->user, pairs, count);
    x->envp = abx__environment_of(&j->who, pairs, count, &j->arena);
    return x->envp || no_memory(j);
}

static void judge(struct abx__job *j)
{
    abx__exec_judge(j->data, j);
}

static void give_back(struct abx__job *j)
{
    const struct abx__exec *x = j->data;
    if (x && x->place)
        (*x->place)--;
}

void abx__exec_post(struct abx__call *c, size_t running, size_t *reserved,
                    void (*start)(struct abx__job *j))
{
    uint64_t limit = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_PROCESSES, PROCESSES_MAX);
    struct abx__exec x = {.place = reserved};
    if (!abx__exec_read(c, &x))
        return;
    if (running + *reserved >= (limit < PROCESSES_MAX ? limit : PROCESSES_MAX)) {
        abx__call_fail(c, 429, "ResourceError", "%zu programs run already", running + *reserved);
        return;
    }
    struct abx__job *j = abx__job_new(c, judge, 4096);
    struct abx__exec *copy = j ? abx__job_data(j, sizeof(*copy)) : NULL;
    if (j == NULL)
        return;
    if (copy) {
        *copy = x;
        (*reserved)++;
    }
    j->drop = give_back;
    j->done = start;
    abx__job_start(j);
}

int abx__exec_code(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR ? 127 : 126;
}

struct abx_confine_group *abx__exec_group(const struct abx__call *c)
{
    const struct abx_confine *view = abx__view_of(c->policy, c->rule, &c->who);
    return view ? abx_confine_group_of(view) : NULL;
}

/* What holds for every child of the server: its umask, the view of who asked, held by the kernel.
 */
struct full_spec {
    struct abx_run_spec spec;
    struct abx__view_env own;
    char **envp; /* heap; NULL: that of the caller */
};

static int complete(struct abx__call *c, const struct abx_run_spec *spec, struct full_spec *ret,
                    struct abx_error *err)
{
    *ret = (struct full_spec){.spec = *spec};
    abx__views_refresh(c->policy);
    c->oom_kills = abx_confine_group_oom_kills(abx__exec_group(c));
    ret->spec.umask = c->server->umask;
    const struct abx_confine *view = abx__view_of(c->policy, c->rule, &c->who);
    if (view != NULL)
        ret->spec.confine = view;
    ret->spec.keeps_privileges = abx_policy_keeps_privileges(c->policy, &c->who);
    if (ret->spec.cwd == NULL)
        ret->spec.cwd = abx__view_folder(c->policy, c->rule);
    if (spec->user != NULL) /* has a home; what the server made for the caller is the server's */
        return 0;
    if (abx__view_environment(c->policy, &c->who, spec->envp, &ret->own, &ret->envp) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (ret->envp)
        ret->spec.envp = ret->envp;
    return 0;
}

static void note_start(struct abx__call *c, const struct abx_run_spec *spec, int64_t pid)
{
    struct abx_str word = abx_str(spec->argv[0]);
    size_t len = word.len < ABX__ARGV0 ? word.len : ABX__ARGV0 - 1;
    c->ran = (struct abx__ran){.pid = pid};
    memcpy(c->ran.argv0, word.ptr, len);
    if (spec->user)
        snprintf(c->ran.user, sizeof(c->ran.user), "%s", spec->user->name);
}

void abx__memory_put(struct abx_json_writer *w, bool is_out_of_memory)
{
    if (!is_out_of_memory)
        return;
    abx_json_kv_bool(w, "out_of_memory", true);
    abx_json_kv_c(w, "hint", ABX__MEMORY_HINT);
}

void abx__exec_note_end(struct abx__call *c, const struct abx_run_end *end)
{
    c->ran.is_out_of_memory = abx_confine_group_oom_kills(abx__exec_group(c)) > c->oom_kills;
    c->ran.exit_code = end->exit_code;
    c->ran.has_ended = true;
}

int abx__exec_start(struct abx__call *c, const struct abx_run_spec *spec,
                    const struct abx_run_ops *ops, void *owner, struct abx_run **ret,
                    struct abx_error *err)
{
    struct full_spec full;
    if (complete(c, spec, &full, err) < 0)
        return -1;
    int rc = abx_run_start(&c->server->loop, &full.spec, ops, owner, ret, err);
    if (rc == 0)
        note_start(c, spec, abx_run_pid(*ret));
    free(full.envp);
    return rc;
}

bool abx__exec_judge_named(struct abx__job *j, struct abx_str name)
{
    struct abx_str found = find_in_path(j, name);
    return abx_policy_program_check(j->rule, name, real_program(j, found), &j->verdict);
}

int abx__exec_keep(struct abx__call *c, const struct abx_run_spec *spec,
                   const struct abx_process_spec *process, struct abx_process **ret,
                   struct abx_error *err)
{
    struct full_spec full;
    struct abx_process_spec p = *process;
    if (c->server->procs == NULL)
        return abx_err_set(err, ABX_UNAVAILABLE, "the server is stopping");
    if (complete(c, spec, &full, err) < 0)
        return -1;
    p.program = &full.spec;
    p.user = spec->user;
    p.deadline_ms = spec->timeout_ms;
    int rc = abx_process_start(c->server->procs, &p, ret, err);
    if (rc == 0)
        note_start(c, spec, abx_process_pid(*ret));
    free(full.envp);
    return rc;
}

void abx__running_add(struct abx__running *r, struct abx__server *s)
{
    r->server = s;
    s->shell_count++;
    abx_list_push(&s->shells, &r->node);
}

void abx__running_remove(struct abx__running *r)
{
    abx_run_close(r->run);
    r->run = NULL;
    r->server->shell_count--;
    abx_list_remove(&r->node);
}

void abx__shells_signal(struct abx__server *s, int signum)
{
    struct abx__running *r;
    abx_list_foreach(r, &s->shells, struct abx__running, node)
    {
        if (r->run)
            abx_run_signal(r->run, signum);
    }
}
