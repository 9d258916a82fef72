/* cli/lint_image.c: B006 pip against PEP 668, B007 whose files and whose process, B009 builds that
 * are not the same twice, or heavier than they need be. */
#include "cli/ignore.h"
#include "cli/lint_priv.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CONTEXT_FILES = 50000, CONTEXT_DEPTH = 40, IGNORE_MAX = 1 << 20, CONTEXT_MB = 100 };
static const char home[] = "/home/user";

/* ---- words of a command ---- */

/* The next word and what ended it: 0 at the end, ' ' or one of ";&|\n". Quotes stay. */
static bool next_word(struct abx_str *rest, struct abx_str *ret, char *ret_end)
{
    static const char ends[] = " \t\n;&|()";
    size_t i = 0;
    while (i < rest->len && strchr(" \t", rest->ptr[i]) != NULL)
        i++;
    *rest = abx_str_sub(*rest, i, SIZE_MAX);
    if (abx_str_starts(*rest, "#")) { /* a comment */
        ptrdiff_t line = abx_str_chr(*rest, '\n');
        *rest = abx_str_sub(*rest, line < 0 ? rest->len : (size_t)line, SIZE_MAX);
    }
    if (rest->len == 0)
        return false;
    for (i = 0; i < rest->len && strchr(ends, rest->ptr[i]) == NULL;)
        i++;
    *ret = abx_str_sub(*rest, 0, i);
    *ret_end = i < rest->len ? rest->ptr[i] : 0;
    *rest = abx_str_sub(*rest, i + 1, SIZE_MAX);
    return true;
}

static bool ends_command(char end)
{
    return end == 0 || strchr("\n;&|()", end) != NULL;
}

/* An "install" of a package manager: its words after that word go to @fn. */
typedef void install_fn(void *arg, struct abx_str word);
struct install {
    const char *const *programs;
    install_fn *fn;
    void *arg;
};

static bool is_one_of(struct abx_str word, const char *const *names)
{
    for (; *names != NULL; names++)
        if (abx_str_is(word, *names))
            return true;
    return false;
}

/* How many there are. */
static size_t each_install(struct abx_str command, const struct install *in)
{
    struct abx_str word;
    size_t count = 0;
    bool is_program = false, is_installing = false;
    for (char end; next_word(&command, &word, &end);) {
        if (is_installing) {
            if (word.len > 0 && in->fn != NULL)
                in->fn(in->arg, word);
        } else if (is_program && (abx_str_is(word, "install") || abx_str_is(word, "i"))) {
            is_installing = true;
            count++;
        } else if (is_one_of(word, in->programs)) {
            is_program = true;
        }
        if (ends_command(end))
            is_program = is_installing = false;
    }
    return count;
}

static const char *const pip_names[] = {"pip", "pip3", NULL};
static const char *const apt_names[] = {"apt-get", "apt", NULL};
static const char *const npm_names[] = {"npm", NULL};

/* ---- B006 ---- */

static bool is_allowed_by_env(const struct cli_project *p, const struct abx_df_instruction *run)
{
    for (size_t i = 0; i < p->df.count && &p->df.items[i] != run; i++) {
        const struct abx_df_instruction *in = &p->df.items[i];
        if (in->kind == ABX_DF_ENV &&
            (abx_str_find(in->text, ABX_STR("PIP_BREAK_SYSTEM_PACKAGES")) >= 0 ||
             abx_str_find(in->text, ABX_STR("VIRTUAL_ENV")) >= 0 ||
             (abx_str_find(in->text, ABX_STR("PATH")) >= 0 &&
              abx_str_find(in->text, ABX_STR("venv")) >= 0)))
            return true;
    }
    return false;
}

static void check_pip(struct cli_project *p, const struct abx_df_instruction *in)
{
    static const char *const ways[] = {"PIP_BREAK_SYSTEM_PACKAGES",
                                       "--break-system-packages",
                                       "/activate",
                                       "--target",
                                       "--prefix",
                                       "--root"};
    struct cli__place x = cli__in_dockerfile(p, "B006", CLI_WARNING, in->at);
    struct install pip = {.programs = pip_names};
    x.advice = "ENV PIP_BREAK_SYSTEM_PACKAGES=1, or a venv";
    x.edit = cli__edit_before(p, in->at.line, "ENV PIP_BREAK_SYSTEM_PACKAGES=1\n");
    if (each_install(in->command, &pip) == 0 || is_allowed_by_env(p, in))
        return;
    for (size_t i = 0; i < ABX_COUNTOF(ways); i++)
        if (abx_str_find(in->command, abx_str(ways[i])) >= 0)
            return;
    cli__report(p, &x, "pip refuses to install into the system's Python (PEP 668)");
}

/* ---- B007 ---- */

static bool is_below_home(struct abx_str path)
{
    return abx_str_starts(path, home) &&
           (path.len == sizeof(home) - 1 || path.ptr[sizeof(home) - 1] == '/');
}

/* Whether a later RUN gives files below home to the user. */
static bool is_given_later(const struct cli_project *p, size_t after)
{
    for (size_t i = after + 1; i < p->df.count; i++) {
        const struct abx_df_instruction *in = &p->df.items[i];
        if (in->kind == ABX_DF_RUN && cli__has_word(in->command, "chown") &&
            abx_str_find(in->command, ABX_STR("user")) >= 0)
            return true;
    }
    return false;
}

static void check_owner(struct cli_project *p, size_t at, struct abx_str workdir)
{
    const struct abx_df_instruction *in = &p->df.items[at];
    const struct abx_df_word *dest = &in->words[in->word_count - 1];
    struct cli__place x = cli__in_dockerfile(p, "B007", CLI_WARNING, dest->at);
    bool is_relative = !abx_str_starts(dest->text, "/");
    struct abx_str owner = abx_df_flag(in, "chown"), path = is_relative ? workdir : dest->text;
    x.advice = "COPY --chown=user:user, or RUN chown -R user:user below it";
    if (owner.ptr == NULL)
        x.edit = (struct cli_edit){.line = in->at.line,
                                   .column = in->at.column + in->at.width,
                                   .text = " --chown=user:user"};
    if (is_below_home(path) && !abx_str_starts(owner, "user") && !abx_str_starts(owner, "1000") &&
        !is_given_later(p, at))
        cli__report(p, &x, "what is copied below /home/user belongs to root, not to user");
}

/* After the last line that the file itself has. */
static struct cli_edit edit_after_all(const struct cli_project *p)
{
    struct abx_str text = abx_str_sub(p->dockerfile.text, 0, p->dockerfile_len);
    unsigned line = 1;
    for (size_t i = 0; i + 1 < text.len; i++)
        line += text.ptr[i] == '\n';
    return (struct cli_edit){.line = line, .column = CLI_EDIT_AT_END, .text = "\nUSER root"};
}

static void check_user(struct cli_project *p)
{
    const struct abx_df_instruction *last = NULL;
    for (size_t i = 0; i < p->df.count; i++)
        if (p->df.items[i].kind == ABX_DF_USER)
            last = &p->df.items[i];
    if (last == NULL || last->word_count == 0 || abx_str_is(last->words[0].text, "root") ||
        abx_str_starts(last->words[0].text, "0"))
        return;
    struct cli__place x = cli__in_dockerfile(p, "B007", CLI_WARNING, last->at);
    x.advice = "USER root as the last one; commands run as `user` all the same";
    x.edit = edit_after_all(p);
    cli__report(p, &x, "the last USER is %.*s: a cloud starts the runtime as it, and it needs root",
                ABX_STR_FMT(abx_str_sub(last->words[0].text, 0, 60)));
}

/* ---- B009 ---- */

struct unpinned {
    struct abx_str first;
    const char *separator; /* "==" or "@" */
    bool skips_next, is_exempt;
};

static void look_at_package(void *arg, struct abx_str word)
{
    static const char *const with_value[] = {
        "-r",          "-c",           "-e",           "-i", "-f", "--requirement",
        "--index-url", "--find-links", "--constraint", NULL};
    struct unpinned *u = arg;
    bool is_value = u->skips_next;
    u->skips_next = is_one_of(word, with_value);
    if (is_value || u->first.len > 0 || word.len == 0 || word.ptr[0] == '-')
        return;
    bool is_file = abx_str_chr(word, '/') >= 0 && word.ptr[0] != '@';
    bool is_here = word.ptr[0] == '.' || word.ptr[0] == '$' || abx_str_ends(word, ".whl") ||
                   abx_str_ends(word, ".tgz") || strchr("<>0123456789", word.ptr[0]) != NULL;
    struct abx_str rest = word.ptr[0] == '@' ? abx_str_sub(word, 1, SIZE_MAX) : word;
    bool is_pinned =
        abx_str_find(rest, abx_str(u->separator)) >= 0 || abx_str_find(rest, ABX_STR("~=")) >= 0;
    if (!is_file && !is_here && !is_pinned)
        u->first = word;
}

static void check_pins(struct cli_project *p, const struct abx_df_instruction *in)
{
    static const struct {
        const char *const *programs;
        const char *separator, *advice;
    } managers[] = {{pip_names, "==", "NAME==VERSION, or -r with a list of versions"},
                    {npm_names, "@", "NAME@VERSION, or npm ci with a lock file"}};
    for (size_t i = 0; i < ABX_COUNTOF(managers); i++) {
        struct unpinned u = {.separator = managers[i].separator};
        struct install install = {managers[i].programs, look_at_package, &u};
        struct cli__place x = cli__in_dockerfile(p, "B009", CLI_WARNING, in->at);
        x.advice = managers[i].advice;
        if (each_install(in->command, &install) > 0 && u.first.len > 0)
            cli__report(p, &x, "%.*s has no version; a build is then not the same twice",
                        ABX_STR_FMT(abx_str_sub(u.first, 0, 80)));
    }
}

/* One plain command line: nothing after it, quoted or not, could swallow what is appended. */
static bool can_append(const struct abx_df_instruction *in)
{
    static const char odd[] = "#<\\`;\n";
    struct abx_str text = abx_str_trim(in->command);
    for (size_t i = 0; i < text.len; i++)
        if (strchr(odd, text.ptr[i]) != NULL)
            return false;
    return !in->is_exec && text.len > 0 && text.ptr[text.len - 1] != '&';
}

static void check_apt(struct cli_project *p, const struct abx_df_instruction *in)
{
    struct install apt = {.programs = apt_names};
    struct cli__place x = cli__in_dockerfile(p, "B009", CLI_WARNING, in->at);
    bool updates = cli__has_word(in->command, "update") &&
                   (cli__has_word(in->command, "apt-get") || cli__has_word(in->command, "apt"));
    size_t installs = each_install(in->command, &apt);
    x.advice = "&& rm -rf /var/lib/apt/lists/* at the end of the same RUN";
    if (can_append(in))
        x.edit = (struct cli_edit){.line = in->last_line,
                                   .column = CLI_EDIT_AT_END,
                                   .text = " && rm -rf /var/lib/apt/lists/*"};
    if (installs > 0 && abx_str_find(in->command, ABX_STR("/var/lib/apt/lists")) < 0)
        cli__report(p, &x, "apt-get without clean-up: its lists stay in the layer");
    x.advice = "apt-get update && apt-get install in one RUN";
    x.edit.text = NULL;
    if (installs == 0 && updates)
        cli__report(p, &x, "apt-get update in a layer of its own: a later install meets old lists");
}

static bool installs_anything(struct abx_str command)
{
    static const char *const *const all[] = {pip_names, apt_names, npm_names};
    for (size_t i = 0; i < ABX_COUNTOF(all); i++) {
        struct install in = {.programs = all[i]};
        if (each_install(command, &in) > 0)
            return true;
    }
    return cli__has_word(command, "npm") && cli__has_word(command, "ci");
}

static bool copies_all(const struct abx_df_instruction *in)
{
    if (in->kind != ABX_DF_COPY && in->kind != ABX_DF_ADD)
        return false;
    for (size_t i = 0; i + 1 < in->word_count; i++)
        if (abx_str_is(in->words[i].text, ".") || abx_str_is(in->words[i].text, "./"))
            return true;
    return false;
}

/* Bytes of what the context has, up to a bound. */
struct context {
    const struct cli_ignore *ignore;
    uint64_t bytes;
    size_t files;
};

static void measure(struct context *c, int at, struct abx_str path, int depth)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0)
        close(fd);
    for (struct dirent *e; dir != NULL && c->files < CONTEXT_FILES && (e = readdir(dir)) != NULL;) {
        char below[4096];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            snprintf(below, sizeof(below), "%.*s%s%s", ABX_STR_FMT(path), path.len ? "/" : "",
                     e->d_name) >= (int)sizeof(below) ||
            cli_ignore_match(c->ignore, abx_str(below)) ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        c->files++;
        c->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        ABX_AUTO_FD sub =
            S_ISDIR(st.st_mode) && depth < CONTEXT_DEPTH
                ? openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                : -1;
        if (sub >= 0)
            measure(c, sub, abx_str(below), depth + 1);
    }
    if (dir != NULL)
        closedir(dir);
}

static void check_context(struct cli_project *p, const struct abx_df_instruction *in)
{
    ABX_AUTO_FREE char *text = NULL;
    ABX_AUTO_FREE struct cli_ignore *ignore = calloc(1, sizeof(*ignore));
    size_t len = 0;
    struct cli__place x = cli__in_dockerfile(p, "B009", CLI_WARNING, in->at);
    x.advice = "name what it does not need in .dockerignore";
    if (ignore == NULL ||
        (abx_fd_read_file(p->dir_fd, ".dockerignore", IGNORE_MAX, &text, &len) == 0 &&
         cli_ignore_read(abx_str_n(text, len), ignore) < 0))
        return;
    struct context c = {.ignore = ignore};
    measure(&c, p->dir_fd, (struct abx_str){0}, 0);
    if (c.bytes > (uint64_t)CONTEXT_MB << 20)
        cli__report(p, &x, "the folder that is copied has %llu MiB",
                    (unsigned long long)(c.bytes >> 20));
}

static void check_order(struct cli_project *p, size_t at)
{
    struct cli__place x = cli__in_dockerfile(p, "B009", CLI_WARNING, p->df.items[at].at);
    x.advice = "COPY the list of packages, install, then COPY the rest";
    for (size_t i = at + 1; i < p->df.count; i++) {
        if (p->df.items[i].kind != ABX_DF_RUN || !installs_anything(p->df.items[i].command))
            continue;
        cli__report(p, &x,
                    "the whole folder is copied before line %u installs: each change of a "
                    "file repeats the install",
                    p->df.items[i].at.line);
        return;
    }
}

void cli__lint_image(struct cli_project *p)
{
    struct abx_str workdir = p->base.is_official ? abx_str(home) : ABX_STR("/");
    check_user(p);
    for (size_t i = 0; i < p->df.count; i++) {
        const struct abx_df_instruction *in = &p->df.items[i];
        if (in->kind == ABX_DF_WORKDIR && in->word_count > 0 &&
            abx_str_starts(in->words[0].text, "/"))
            workdir = in->words[0].text;
        if (in->kind == ABX_DF_RUN) {
            check_pip(p, in);
            check_pins(p, in);
            check_apt(p, in);
        }
        if (copies_all(in)) {
            check_order(p, i);
            check_context(p, in);
        }
        if ((in->kind == ABX_DF_COPY || in->kind == ABX_DF_ADD) && in->word_count > 0)
            check_owner(p, i, workdir);
    }
}
