/* guest/server/hosts/python.c: the command line of a Python command host (command-hosts.md 1, 6).
 */
#include "guest/server/hosts/python.h"

#include "lib/base/assert.h"
#include "lib/json/json.h"

#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CONFIG_BYTES = 1 << 20 };

extern const char abx_blob_python[], abx_blob_python_end[]; /* the shim, a zip */

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

static void put_config(struct abx_buf *out, const struct abx_python_host *p)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("files"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < p->file_count; i++)
        abx_json_str(&w, abx_str(p->files[i]));
    abx_json_end_array(&w);
    abx_json_key(&w, ABX_STR("path"));
    abx_json_begin_array(&w);
    put_dirs(&w, p->python_path, false);
    if (p->is_isolated) /* else the interpreter reads it itself */
        put_dirs(&w, variable(p->envp, "PYTHONPATH"), true);
    abx_json_end_array(&w);
    abx_json_kv_c(&w, "base_dir", p->base_dir);
    abx_json_kv_c(&w, "version", p->version);
    abx_json_end_object(&w);
}

int abx_python_host_options(const struct abx_python_host *p, struct abx_arena *a,
                            struct abx_host_options *ret, struct abx_error *err)
{
    ABX_AUTO_BUF config;
    abx_buf_init(&config, CONFIG_BYTES);
    put_config(&config, p);
    char **argv = abx_arena_array(a, 5, sizeof(*argv));
    char *text = abx_buf_failed(&config) ? NULL : abx_arena_c(a, abx_buf_str(&config));
    size_t n = 0;
    if (argv == NULL || text == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: too many names");
    const char *program = p->program ? p->program : "python3";
    argv[n++] = abx_arena_c(a, abx_str(program));
    if (p->is_isolated)
        argv[n++] = abx_arena_c(a, ABX_STR("-I"));
    argv[n++] = abx_arena_c(a, ABX_STR("/proc/self/fd/0"));
    argv[n++] = text;
    for (size_t i = 0; i < n; i++)
        if (argv[i] == NULL)
            return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: no memory");
    *ret = (struct abx_host_options){
        .name = p->file_count ? p->files[0] : "python",
        .program = program,
        .search_path = p->search_path,
        .argv = argv,
        .envp = p->envp,
        .archive = abx_blob_python,
        .archive_len = (size_t)(abx_blob_python_end - abx_blob_python),
        .base_dir = abx_str(p->base_dir),
        .version = abx_str(p->version),
    };
    return 0;
}
