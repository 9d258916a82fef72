/* guest/caps/entry.c: what is told about one file (envd.md 6.2). Any thread. */
#include "guest/caps/files_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* Letters that Go's mode string puts before the nine of rwx. */
static const struct {
    mode_t mask, value;
    char letter;
} mode_letters[] = {
    {S_IFMT, S_IFDIR, 'd'},  {S_IFMT, S_IFLNK, 'L'},  {S_IFMT, S_IFBLK, 'D'},
    {S_IFMT, S_IFCHR, 'D'},  {S_IFMT, S_IFIFO, 'p'},  {S_IFMT, S_IFSOCK, 'S'},
    {S_ISUID, S_ISUID, 'u'}, {S_ISGID, S_ISGID, 'g'}, {S_IFMT, S_IFCHR, 'c'},
    {S_ISVTX, S_ISVTX, 't'},
};

static void mode_text(mode_t mode, char out[24])
{
    static const char rwx[] = "rwxrwxrwx";
    size_t len = 0;
    for (size_t i = 0; i < ABX_COUNTOF(mode_letters); i++)
        if ((mode & mode_letters[i].mask) == mode_letters[i].value)
            out[len++] = mode_letters[i].letter;
    if (len == 0)
        out[len++] = '-';
    for (int i = 0; i < 9; i++)
        out[len++] = mode & (0400u >> i) ? rwx[i] : '-';
    out[len] = '\0';
}

static enum abx_entry_type type_of(mode_t mode)
{
    if (S_ISREG(mode))
        return ABX_ENTRY_FILE;
    return S_ISDIR(mode) ? ABX_ENTRY_DIRECTORY : ABX_ENTRY_UNSPECIFIED;
}

static struct abx_entry *next_slot(struct abx__entries *out)
{
    if (out->count == out->cap) {
        size_t cap = out->cap ? 2 * out->cap : 1;
        struct abx_entry *fresh = realloc(out->list, cap * sizeof(*fresh));
        if (fresh == NULL)
            return NULL;
        out->list = fresh;
        out->cap = cap;
    }
    return &out->list[out->count];
}

static bool copy(struct abx__entries *out, struct abx_str s, struct abx_str *ret)
{
    *ret = abx_arena_str(&out->arena, s);
    return ret->ptr != NULL;
}

/* A link shows the type and mode of its target; the rest is its own. */
static bool fill_link(struct abx__entries *out, const char *path, struct abx_entry *e)
{
    struct stat target;
    bool is_there = stat(path, &target) == 0;
    e->type = is_there ? type_of(target.st_mode) : ABX_ENTRY_UNSPECIFIED;
    e->mode = is_there ? target.st_mode & 0777u : 0;
    char *resolved = realpath(path, NULL);
    bool is_copied = copy(out, abx_str(resolved ? resolved : path), &e->symlink_target);
    free(resolved);
    return is_copied;
}

int abx__entry_add(struct abx__entries *out, const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return -errno;
    if (out->names == NULL)
        out->names = abx_names_open("");
    struct abx_entry *e = next_slot(out);
    if (out->names == NULL || e == NULL)
        return -ENOMEM;
    *e = (struct abx_entry){.type = type_of(st.st_mode), .mode = st.st_mode & 0777u};
    e->size = st.st_size;
    e->mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    mode_text(st.st_mode, e->permissions);
    char owner[ABX_NAME_BYTES], group[ABX_NAME_BYTES];
    abx_names_user(out->names, st.st_uid, owner);
    abx_names_group(out->names, st.st_gid, group);
    if (!copy(out, abx_str(path), &e->path) || !copy(out, abx_str(owner), &e->owner) ||
        !copy(out, abx_str(group), &e->group) || (S_ISLNK(st.st_mode) && !fill_link(out, path, e)))
        return -ENOMEM;
    e->name = abx_path_base(e->path);
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        abx__metadata_read(path, &out->arena, e);
    out->count++;
    return 0;
}

void abx__entries_done(struct abx__entries *out)
{
    free(out->list);
    abx_arena_done(&out->arena);
    abx_names_close(out->names);
    *out = (struct abx__entries){0};
}
