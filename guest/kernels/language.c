/* guest/kernels/language.c: the table of languages. */
#include "guest/kernels/language.h"

#include "lib/base/assert.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* Made of python/, node/ and bash/ by cmake/kernels.cmake. */
extern const char abx_blob_kernel_python[], abx_blob_kernel_python_end[];
extern const char abx_blob_kernel_node[], abx_blob_kernel_node_end[];
extern const char abx_blob_kernel_bash[], abx_blob_kernel_bash_end[];

/* By its path or from its beginning: the descriptor's position is shared by all kernels. Python
 * would take a zip as its script, but runpy and zipimport cost a tenth of the start. */
static char python[] = "python3", python_c[] = "-c",
            python_loader[] = "import posix;f=posix.pread(0,1<<24,0);n=f.index(0);"
                              "exec(compile(f[:n],'<abx_kernel>','exec'));main(f[n+1:])",
            node[] = "node", bash[] = "bash", node_e[] = "-e",
            node_loader[] = "eval(require('fs').readFileSync('/proc/self/fd/0','utf8'))",
            no_rc[] = "--norc", no_profile[] = "--noprofile", no_editing[] = "--noediting",
            interactive[] = "-i";

#define NODE_KERNEL                                                                                \
    .programs = {"node", "nodejs"}, .argv = {node, node_e, node_loader},                           \
    .script = abx_blob_kernel_node, .script_end = abx_blob_kernel_node_end,                        \
    .write = abx_kernel_write_cell

static const struct abx_language languages[] = {
    [ABX_PYTHON] = {.name = "python",
                    .programs = {"python3", "python"},
                    .argv = {python, python_c, python_loader},
                    .script = abx_blob_kernel_python,
                    .script_end = abx_blob_kernel_python_end,
                    .write = abx_kernel_write_cell},
    [ABX_JAVASCRIPT] = {.name = "javascript", NODE_KERNEL},
    [ABX_TYPESCRIPT] = {.name = "typescript", .strips_types = true, NODE_KERNEL},
    [ABX_BASH] = {.name = "bash",
                  .programs = {"bash"},
                  .argv = {bash, no_rc, no_profile, no_editing, interactive},
                  .script = abx_blob_kernel_bash,
                  .script_end = abx_blob_kernel_bash_end,
                  .is_fed = true,
                  .write = abx_kernel_write_shell},
};
_Static_assert(ABX_COUNTOF(languages) == ABX_LANGUAGE__COUNT, "one row per language");

static const struct {
    const char *alias, *name;
} aliases[] = {{"js", "javascript"}, {"ts", "typescript"}, {"", "python"}};

static const char *const not_built[] = {"r", "java"};

const struct abx_language *abx_language(enum abx_language_id id)
{
    return &languages[id];
}

static struct abx_str trim(struct abx_str s)
{
    static const char blanks[] = " \t\r\n\v\f";
    while (s.len > 0 && strchr(blanks, s.ptr[0]) != NULL)
        s = abx_str_sub(s, 1, s.len);
    while (s.len > 0 && strchr(blanks, s.ptr[s.len - 1]) != NULL)
        s.len--;
    return s;
}

int abx_language_find(struct abx_str name, enum abx_language_id *ret, struct abx_error *err)
{
    name = trim(name);
    for (size_t i = 0; i < ABX_COUNTOF(aliases); i++)
        if (abx_str_is_nocase(name, aliases[i].alias))
            name = abx_str(aliases[i].name);
    for (size_t i = 0; i < ABX_COUNTOF(languages); i++)
        if (abx_str_is_nocase(name, languages[i].name)) {
            *ret = (enum abx_language_id)i;
            return 0;
        }
    for (size_t i = 0; i < ABX_COUNTOF(not_built); i++)
        if (abx_str_is_nocase(name, not_built[i]))
            return abx_err_set(err, ABX_UNIMPLEMENTED,
                               "there is no %s kernel; python, javascript, typescript and bash are "
                               "built in, other programs run by commands.run",
                               not_built[i]);
    return abx_err_set(err, ABX_INVALID_ARGUMENT,
                       "no such kernel named %.*s; known are python, javascript (js), typescript "
                       "(ts) and bash",
                       (int)(name.len < 60 ? name.len : 60), name.ptr);
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_on_path(const char *program, const char *path, char ret[ABX_PROGRAM_MAX])
{
    struct abx_str rest = abx_str(path), dir;
    while (abx_str_split(&rest, ':', &dir)) {
        int n = snprintf(ret, ABX_PROGRAM_MAX, "%.*s/%s", ABX_STR_FMT(dir), program);
        if (dir.len > 0 && n < ABX_PROGRAM_MAX && is_program(ret))
            return true;
    }
    return false;
}

int abx_language_program(const struct abx_language *l, const char *path, char ret[ABX_PROGRAM_MAX],
                         struct abx_error *err)
{
    for (size_t i = 0; i < ABX_COUNTOF(l->programs) && l->programs[i] != NULL; i++)
        if (find_on_path(l->programs[i], path, ret))
            return 0;
    return abx_err_set(err, ABX_NOT_FOUND,
                       "%s needs the program %s, which is not on PATH in this sandbox; install it "
                       "or use the template code-interpreter-v1",
                       l->name, l->programs[0]);
}
