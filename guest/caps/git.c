/* guest/caps/git.c: the repository of a path, and git's argv and environment (git.h).
 *
 * A repository's configuration names programs: monitors, filters, drivers, helpers, hooks,
 * transports. Fixed settings are overridden here, the ones with names of their own (filters) are
 * asked for first and emptied one by one. */
#include "guest/caps/git.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LEVELS_MAX = 256, LINK_FILE_MAX = PATH_MAX + 16, REVISION_MAX = 256 };

/* ---- where ---- */

static bool has_type(struct abx_arena *a, struct abx_str folder, const char *name, mode_t type)
{
    struct stat st;
    const char *path = abx_arena_printf(a, "%.*s/%s", ABX_STR_FMT(folder), name);
    return path && stat(path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

/* The folder is a repository itself: HEAD, objects, refs. */
static bool is_repository(struct abx_arena *a, struct abx_str folder)
{
    return has_type(a, folder, "HEAD", S_IFREG) && has_type(a, folder, "objects", S_IFDIR) &&
           has_type(a, folder, "refs", S_IFDIR);
}

/* A file ".git" says where the repository of a work tree or submodule is: "gitdir: PATH". */
static struct abx_str read_link_file(struct abx_arena *a, struct abx_str folder)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    const char *name = abx_arena_printf(a, "%.*s/.git", ABX_STR_FMT(folder));
    if (name == NULL || abx_fd_read_file(AT_FDCWD, name, LINK_FILE_MAX, &text, &len) < 0)
        return (struct abx_str){0};
    struct abx_str line, rest = abx_str_n(text, len);
    if (!abx_str_split(&rest, '\n', &line) || !abx_str_starts(line, "gitdir: "))
        return (struct abx_str){0};
    line = abx_str_sub(line, strlen("gitdir: "), line.len);
    if (abx_str_starts(line, "/"))
        return abx_arena_str(a, line);
    return abx_str(abx_arena_printf(a, "%.*s/%.*s", ABX_STR_FMT(folder), ABX_STR_FMT(line)));
}

static bool is_here(struct abx_str folder, struct abx_arena *a, struct abx_git_place *ret)
{
    *ret = (struct abx_git_place){.top = folder};
    if (has_type(a, folder, ".git", S_IFDIR))
        ret->dir = abx_str(abx_arena_printf(a, "%.*s/.git", ABX_STR_FMT(folder)));
    else if (has_type(a, folder, ".git", S_IFREG))
        ret->dir = read_link_file(a, folder);
    else if (is_repository(a, folder))
        *ret = (struct abx_git_place){.dir = folder, .top = ABX_STR("")};
    return ret->dir.ptr != NULL;
}

bool abx_git_find(struct abx_str path, bool (*is_top)(void *ctx, struct abx_str folder), void *ctx,
                  struct abx_arena *a, struct abx_git_place *ret)
{
    for (int level = 0; level < LEVELS_MAX; level++) {
        if (is_here(path, a, ret))
            return true;
        ptrdiff_t slash = abx_str_rchr(path, '/');
        if (is_top(ctx, path) || slash < 0 || path.len <= 1)
            return false;
        path = slash == 0 ? ABX_STR("/") : abx_str_sub(path, 0, (size_t)slash);
    }
    return false;
}

/* ---- what is run ---- */

void abx_git_add_str(struct abx_git_words *w, struct abx_str word)
{
    if (w->argv == NULL)
        return;
    char *copy = w->count < ABX_GIT_WORDS ? abx_arena_c(w->arena, word) : NULL;
    if (copy == NULL)
        w->argv = NULL;
    else
        w->argv[w->count++] = copy;
}

void abx_git_add(struct abx_git_words *w, const char *word)
{
    abx_git_add_str(w, abx_str(word));
}

void abx_git_add_all(struct abx_git_words *w, const char *const *words)
{
    for (; *words; words++)
        abx_git_add(w, *words);
}

static void begin_empty(struct abx_git_words *w, struct abx_arena *a)
{
    *w = (struct abx_git_words){.arena = a};
    w->argv = abx_arena_array(a, ABX_GIT_WORDS + 1, sizeof(*w->argv));
    abx_git_add(w, "git");
    abx_git_add(w, "--no-pager");
}

void abx_git_begin(struct abx_git_words *w, struct abx_arena *a)
{
    static const char *const settings[] = {
        "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat",
        "core.sshCommand=/bin/false", "core.askPass=/bin/false", "core.editor=/bin/false",
        "core.gitProxy=/bin/false", "credential.helper=", "gpg.program=/bin/false",
        /* files that are read, wherever they are */
        "mailmap.file=", "diff.orderFile=/dev/null", "log.showSignature=false",
        "protocol.ext.allow=never", "protocol.file.allow=user", "diff.submodule=short",
        "color.ui=false", "gc.auto=0", "maintenance.auto=false", "fetch.recurseSubmodules=false",
        NULL};
    begin_empty(w, a);
    for (size_t i = 0; settings[i]; i++) {
        abx_git_add(w, "-c");
        abx_git_add(w, settings[i]);
    }
    abx_git_add(w, "--literal-pathspecs");
}

void abx_git_ask_settings(struct abx_git_words *w, struct abx_arena *a)
{
    static const char *const words[] = {
        "config",
        "--includes",
        "--name-only",
        "-z",
        "--get-regexp",
        "^(filter\\..*\\.(clean|smudge|process|required)|gpg\\..*\\.program)$",
        NULL};
    begin_empty(w, a);
    abx_git_add_all(w, words);
}

bool abx_git_add_disarmed(struct abx_git_words *w, struct abx_str settings)
{
    struct abx_str name;
    while (abx_str_split(&settings, '\0', &name)) {
        if (name.len == 0)
            continue;
        /* A name with '=' would set another one, and a line break none. */
        if (abx_str_chr(name, '=') >= 0 || abx_str_chr(name, '\n') >= 0 ||
            w->count + 2 >= ABX_GIT_WORDS / 2)
            return false;
        bool is_flag = abx_str_ends(name, ".required");
        abx_git_add(w, "-c");
        abx_git_add(
            w, abx_arena_printf(w->arena, "%.*s=%s", ABX_STR_FMT(name), is_flag ? "false" : ""));
    }
    return true;
}

char **abx_git_environment(char *const *base, const struct abx_git_place *place,
                           struct abx_arena *a)
{
    /* An empty list of protocols: nothing is ever fetched, whatever the repository allows. */
    static const char *const fixed[] = {
        "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
        "GIT_OPTIONAL_LOCKS=0",  "GIT_ATTR_NOSYSTEM=1",         "GIT_ALLOW_PROTOCOL=",
        "GIT_NO_LAZY_FETCH=1",   "GIT_PROTOCOL_FROM_USER=0",    "GIT_LITERAL_PATHSPECS=1"};
    size_t n = 0, at = 0;
    while (base[n])
        n++;
    char **out = abx_arena_array(a, n + ABX_COUNTOF(fixed) + 3, sizeof(*out));
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(base[i], "GIT_", 4) != 0 &&
            (out[at++] = abx_arena_c(a, abx_str(base[i]))) == NULL)
            return NULL;
    for (size_t i = 0; i < ABX_COUNTOF(fixed); i++)
        if ((out[at++] = abx_arena_c(a, abx_str(fixed[i]))) == NULL)
            return NULL;
    out[at++] = abx_arena_printf(a, "GIT_DIR=%.*s", ABX_STR_FMT(place->dir));
    if (place->top.len)
        out[at++] = abx_arena_printf(a, "GIT_WORK_TREE=%.*s", ABX_STR_FMT(place->top));
    for (size_t i = 0; i < at; i++)
        if (out[i] == NULL)
            return NULL;
    return out;
}

bool abx_git_is_revision(struct abx_str s)
{
    if (s.len == 0 || s.len > REVISION_MAX || s.ptr[0] == '-')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= ' ' || c == 0x7f || c == ':')
            return false;
    }
    return true;
}
