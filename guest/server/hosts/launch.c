/* guest/server/hosts/launch.c: the command lines of command hosts (command-hosts.md 1, 4, 6). */
#include "guest/server/hosts/launch.h"

#include "lib/base/assert.h"
#include "lib/json/json.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CONFIG_BYTES = 1 << 20, ARGV_MAX = 8 };

/* The shims: a zip, and programs read from standard input or executed from it. */
extern const char abx_blob_python[], abx_blob_python_end[];
extern const char abx_blob_node[], abx_blob_node_end[];
extern const char abx_blob_native[], abx_blob_native_end[];
extern const char abx_blob_browser[], abx_blob_browser_end[];

/* ---- kinds ---- */

static const struct {
    const char *suffix;
    enum abx_host_kind kind;
} suffixes[] = {
    {".py", ABX_HOST_PYTHON}, {".mjs", ABX_HOST_NODE},  {".js", ABX_HOST_NODE},
    {".ts", ABX_HOST_NODE},   {".so", ABX_HOST_NATIVE}, {".yaml", ABX_HOST_TABLE},
    {".yml", ABX_HOST_TABLE},
};

enum abx_host_kind abx_host_kind_of(const char *file)
{
    struct stat st;
    for (size_t i = 0; i < ABX_COUNTOF(suffixes); i++)
        if (abx_str_ends(abx_str(file), suffixes[i].suffix))
            return suffixes[i].kind;
    if (stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0)
        return ABX_HOST_PROGRAM;
    return ABX_HOST_PYTHON;
}

bool abx_host_kind_is_shared(enum abx_host_kind kind)
{
    return kind == ABX_HOST_PYTHON || kind == ABX_HOST_NODE;
}

/* ---- argv ---- */

struct line {
    char *argv[ARGV_MAX + 1];
    size_t count;
    struct abx_arena *arena;
    bool failed;
};

static void add(struct line *l, const char *word)
{
    char *copy = l->count < ARGV_MAX ? abx_arena_c(l->arena, abx_str(word)) : NULL;
    if (copy == NULL)
        l->failed = true;
    else
        l->argv[l->count++] = copy;
}

/* Whether modules may come from @dir in an isolated host: nobody else can write there. */
static bool is_trusted(struct abx_str dir)
{
    char path[4096];
    struct stat st;
    if (abx_str_to_c(dir, path, sizeof(path)) < 0 || path[0] != '/' || stat(path, &st) < 0)
        return false;
    return S_ISDIR(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
           (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static void put_dirs(struct abx_json_writer *w, const char *list, bool only_trusted)
{
    struct abx_str rest = abx_str(list), dir;
    while (list && abx_str_split(&rest, ':', &dir))
        if (dir.len > 0 && (!only_trusted || is_trusted(dir)))
            abx_json_str(w, dir);
}

static const char *variable(char *const *envp, const char *name)
{
    size_t n = strlen(name);
    for (; envp && *envp; envp++)
        if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
            return *envp + n + 1;
    return NULL;
}

/* What the shims of Python and Node are told in their last argument. */
static void add_config(struct line *out, const struct abx_host_launch *l)
{
    ABX_AUTO_BUF config;
    struct abx_json_writer w;
    abx_buf_init(&config, CONFIG_BYTES);
    abx_json_writer_init(&w, &config);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("files"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < l->file_count; i++)
        abx_json_str(&w, abx_str(l->files[i]));
    abx_json_end_array(&w);
    abx_json_key(&w, ABX_STR("path"));
    abx_json_begin_array(&w);
    put_dirs(&w, l->module_path, false);
    if (l->is_isolated && l->kind == ABX_HOST_PYTHON) /* else the interpreter reads it itself */
        put_dirs(&w, variable(l->envp, "PYTHONPATH"), true);
    abx_json_end_array(&w);
    if (l->kind == ABX_HOST_BROWSER)
        abx_json_kv_bool(&w, "in_sandbox", l->is_in_sandbox);
    if (l->wall != NULL) {
        abx_json_kv_c(&w, "home", l->home);
        abx_json_kv_c(&w, "wall", l->wall);
    }
    abx_json_kv_c(&w, "base_dir", l->base_dir);
    abx_json_kv_c(&w, "version", l->version);
    abx_json_end_object(&w);
    if (abx_buf_failed(&config))
        out->failed = true;
    else
        add(out, config.ptr);
}

static const char *add_python(struct line *out, const struct abx_host_launch *l)
{
    const char *program = l->program ? l->program : "python3";
    add(out, program);
    if (l->is_isolated)
        add(out, "-I");
    add(out, "/proc/self/fd/0");
    add_config(out, l);
    return program;
}

static const char *add_node(struct line *out, const struct abx_host_launch *l)
{
    const char *program = l->program ? l->program : "node";
    add(out, program);
    add(out, "--input-type=module");
    add(out, "-");
    add_config(out, l);
    return program;
}

static const char *add_native(struct line *out, const struct abx_host_launch *l)
{
    add(out, "abx-native-host");
    add(out, l->files[0]);
    return "/proc/self/fd/0"; /* its standard input is its own text */
}

static const char *add_program(struct line *out, const struct abx_host_launch *l)
{
    add(out, l->files[0]);
    return strchr(l->files[0], '/') ? l->files[0]
                                    : abx_arena_printf(out->arena, "./%s", l->files[0]);
}

static const struct {
    const char *(*add)(struct line *out, const struct abx_host_launch *l);
    const char *archive, *archive_end;
    bool is_packed; /* a zip is so itself, and Python reads it */
} kinds[] = {
    [ABX_HOST_PYTHON] = {add_python, abx_blob_python, abx_blob_python_end, false},
    [ABX_HOST_NODE] = {add_node, abx_blob_node, abx_blob_node_end, true},
    [ABX_HOST_NATIVE] = {add_native, abx_blob_native, abx_blob_native_end, true},
    [ABX_HOST_TABLE] = {NULL, NULL, NULL, false},
    [ABX_HOST_PROGRAM] = {add_program, NULL, NULL, false},
    [ABX_HOST_BROWSER] = {add_node, abx_blob_browser, abx_blob_browser_end, true},
};
_Static_assert(ABX_COUNTOF(kinds) == ABX_HOST__KINDS, "one row per kind");

/* NODE_OPTIONS loads code, NODE_PATH finds it. */
static char *const *without_node(char *const *envp, struct abx_arena *a)
{
    size_t n = 0, kept = 0;
    while (envp && envp[n])
        n++;
    char **out = abx_arena_array(a, n + 1, sizeof(*out));
    for (size_t i = 0; out && i < n; i++)
        if (!abx_str_starts(abx_str(envp[i]), "NODE_"))
            out[kept++] = envp[i];
    return out;
}

int abx_host_launch_options(const struct abx_host_launch *l, struct abx_arena *a,
                            struct abx_host_options *ret, struct abx_error *err)
{
    struct line line = {.arena = a};
    ABX_ASSERT(l->file_count > 0 && kinds[l->kind].add);
    const char *program = kinds[l->kind].add(&line, l);
    char **argv = abx_arena_array(a, line.count + 1, sizeof(*argv));
    bool drops = (l->kind == ABX_HOST_NODE || l->kind == ABX_HOST_BROWSER) && l->is_isolated;
    char *const *envp = drops ? without_node(l->envp, a) : l->envp;
    if (argv == NULL || program == NULL || envp == NULL || line.failed)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "command host: too many names, or no memory");
    memcpy(argv, line.argv, line.count * sizeof(*argv));
    *ret = (struct abx_host_options){
        .name = l->files[0],
        .program = program,
        .search_path = l->search_path,
        .argv = argv,
        .envp = envp,
        .archive = kinds[l->kind].archive,
        .archive_len = (size_t)(kinds[l->kind].archive_end - kinds[l->kind].archive),
        .is_packed = kinds[l->kind].is_packed,
        .warns_of_heirs = l->kind == ABX_HOST_PROGRAM,
        .base_dir = abx_str(l->base_dir),
        .version = abx_str(l->version),
    };
    return 0;
}
