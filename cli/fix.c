/* cli/fix.c: abx template lint --fix: what the findings say how to mend, in the Dockerfile.
 *
 * Edits are applied from the end of the file to its beginning, so that the places of the others
 * stay what they are. Two that touch the same bytes: the later one waits for the next call. */
#include "cli/project.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHANGES_MAX = 4096, FIXED_MAX = 2 << 20 };

struct change {
    size_t at, width;
    const char *text;
};
struct changes {
    struct abx_str source; /* the file */
    struct change items[CHANGES_MAX];
    size_t count;
};

static bool find_line(struct abx_str source, unsigned line, size_t *ret_at, size_t *ret_len)
{
    size_t at = 0;
    for (unsigned i = 1; i < line; i++) {
        ptrdiff_t end = abx_str_chr(abx_str_sub(source, at, SIZE_MAX), '\n');
        if (end < 0)
            return false;
        at += (size_t)end + 1;
    }
    struct abx_str rest = abx_str_sub(source, at, SIZE_MAX);
    ptrdiff_t end = abx_str_chr(rest, '\n');
    size_t len = end < 0 ? rest.len : (size_t)end;
    if (len > 0 && rest.ptr[len - 1] == '\r')
        len--;
    *ret_at = at;
    *ret_len = len;
    return at < source.len;
}

static bool change_line(struct changes *c, const struct cli_edit *edit, unsigned line)
{
    size_t at, len;
    if (!find_line(c->source, line, &at, &len) || c->count == CHANGES_MAX)
        return false;
    size_t column = edit->column == CLI_EDIT_AT_END ? len : edit->column - 1;
    if (column > len || edit->width > len - column)
        return false;
    c->items[c->count++] = (struct change){at + column, edit->width, edit->text};
    return true;
}

static bool touches(const struct change *a, const struct change *b)
{
    if (a->at == b->at)
        return true;
    return a->at < b->at ? a->at + a->width > b->at : b->at + b->width > a->at;
}

/* False: it is not there, or meets what is changed already; nothing of it stays. */
static bool add_edit(struct changes *c, const struct cli_edit *edit)
{
    size_t before = c->count;
    bool ok = true;
    unsigned last = edit->last_line > edit->line ? edit->last_line : edit->line;
    for (unsigned line = edit->line; ok && line <= last; line++)
        ok = change_line(c, edit, line);
    for (size_t i = before; ok && i < c->count; i++)
        for (size_t j = 0; ok && j < before; j++)
            ok = !touches(&c->items[i], &c->items[j]);
    if (!ok)
        c->count = before;
    return ok;
}

static int by_place(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void write_all(struct changes *c, struct abx_buf *out)
{
    size_t done = 0;
    qsort(c->items, c->count, sizeof(c->items[0]), by_place);
    for (size_t i = 0; i < c->count; i++) {
        const struct change *x = &c->items[i];
        abx_buf_put_str(out, abx_str_sub(c->source, done, x->at - done));
        abx_buf_put_c(out, x->text);
        done = x->at + x->width;
    }
    abx_buf_put_str(out, abx_str_sub(c->source, done, SIZE_MAX));
}

/* Whole lines are the same for all findings of a rule: one is enough. */
static bool is_again(const struct cli_findings *f, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (f->items[i].edit.text && strcmp(f->items[i].edit.text, f->items[at].edit.text) == 0 &&
            abx_str_ends(abx_str(f->items[at].edit.text), "\n"))
            return true;
    return false;
}

static size_t collect(const struct cli_project *p, struct changes *c)
{
    const struct cli_findings *f = &p->findings;
    size_t mended = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct cli_finding *x = &f->items[i];
        if (x->edit.text != NULL && x->source == &p->dockerfile)
            mended += is_again(f, i) || add_edit(c, &x->edit);
    }
    return mended;
}

static int replace(struct cli_project *p, struct changes *c, struct abx_error *err)
{
    ABX_AUTO_BUF b = {.max = FIXED_MAX};
    ABX_AUTO_FREE char *folder = abx_str_dup(abx_str(p->dockerfile_name));
    struct stat st;
    write_all(c, &b);
    if (abx_buf_failed(&b) || folder == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "%s would be too large",
                           p->dockerfile.name);
    char *slash = strrchr(folder, '/');
    const char *name = slash ? p->dockerfile_name + (slash - folder) + 1 : p->dockerfile_name;
    if (slash)
        slash[1] = '\0';
    ABX_AUTO_FD dir = openat(p->dir_fd, slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return abx_err_sys(err, -errno, "%s", p->dockerfile.name);
    if (!S_ISREG(st.st_mode))
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "%s is no regular file; --fix replaces regular files only",
                           p->dockerfile.name);
    int r = abx_fd_replace_file(dir, name, abx_buf_str(&b), st.st_mode & 0777);
    return r < 0 ? abx_err_sys(err, r, "replace %s", p->dockerfile.name) : 0;
}

int cli_project_fix(struct cli_project *p, size_t *ret_count, struct abx_error *err)
{
    ABX_AUTO_FREE struct changes *c = calloc(1, sizeof(*c));
    *ret_count = 0;
    if (c == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    c->source = abx_str_sub(p->dockerfile.text, 0, p->dockerfile_len);
    size_t mended = collect(p, c);
    if (c->count > 0 && replace(p, c, err) < 0)
        return -1;
    *ret_count = mended;
    return 0;
}
