/* guest/caps/list.c: a directory tree in pre-order, names in byte order (envd.md 6.3). Pool. */
#include "guest/caps/files_priv.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

/* The names of one directory, as offsets into one text: entries come and go while we walk. */
struct names {
    struct abx_buf text;
    char **sorted;
    size_t count;
};

struct walk {
    struct abx_files_op *op;
    struct abx_buf path; /* of the directory or entry in hand */
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_done(struct names *n)
{
    abx_buf_done(&n->text);
    free(n->sorted);
}

static int sort_names(struct names *n)
{
    if (abx_buf_failed(&n->text))
        return -ENOMEM;
    n->sorted = calloc(n->count + 1, sizeof(*n->sorted));
    if (n->sorted == NULL)
        return -ENOMEM;
    char *name = n->text.ptr;
    for (size_t i = 0; i < n->count; i++, name += strlen(name) + 1)
        n->sorted[i] = name;
    qsort(n->sorted, n->count, sizeof(*n->sorted), compare_names);
    return 0;
}

static int read_names(const char *path, struct names *n)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return -errno;
    abx_buf_init(&n->text, ABX__FILES_MEMORY);
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (n->count++ == ABX_FILES_ENTRIES)
            break; /* the walk refuses so many by itself */
        abx_buf_put(&n->text, e->d_name, strlen(e->d_name) + 1);
    }
    int rc = n->count > ABX_FILES_ENTRIES ? -E2BIG : -errno;
    closedir(dir);
    return rc < 0 ? rc : sort_names(n);
}

/* -E2BIG: too many. Vanished directories and entries are skipped. */
static int walk_dir(struct walk *w, uint32_t depth)
{
    struct names n __attribute__((cleanup(names_done))) = {0};
    int rc = read_names(w->path.ptr, &n);
    if (rc < 0)
        return rc;
    size_t base = w->path.len;
    bool has_slash = base > 0 && w->path.ptr[base - 1] == '/';
    for (size_t i = 0; i < n.count; i++) {
        struct abx__entries *out = &w->op->out;
        abx_buf_putf(&w->path, "%s%s", has_slash ? "" : "/", n.sorted[i]);
        if (abx_buf_failed(&w->path))
            return -ENAMETOOLONG;
        if (out->count == ABX_FILES_ENTRIES)
            return -E2BIG;
        rc = abx__entry_add(out, w->path.ptr);
        if (rc < 0 && rc != -ENOENT)
            return rc;
        const struct abx_entry *e = rc == 0 ? &out->list[out->count - 1] : NULL;
        if (e && depth > 1 && e->type == ABX_ENTRY_DIRECTORY && e->symlink_target.ptr == NULL) {
            rc = walk_dir(w, depth - 1);
            if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR)
                return rc;
        }
        w->path.len = base;
        w->path.ptr[base] = '\0';
    }
    return 0;
}

static int list_error(struct abx_files_op *op, int errnum)
{
    char text[96];
    if (errnum == E2BIG)
        return abx_err_set(&op->err, ABX_RESOURCE_EXHAUSTED,
                           "path %.150s has more than %d entries: list a smaller depth", op->path,
                           ABX_FILES_ENTRIES);
    if (errnum == ENOMEM)
        return abx_err_set(&op->err, ABX_RESOURCE_EXHAUSTED, "list %.150s: out of memory",
                           op->path);
    return abx_err_set(&op->err, ABX_INTERNAL, "error reading directory: open %.150s: %s", op->path,
                       abx__errno_text(errnum, text));
}

int abx__list_run(struct abx_files_op *op)
{
    struct stat st;
    char text[96];
    if (stat(op->path, &st) < 0) {
        if (errno == ELOOP)
            return abx_err_set(&op->err, ABX_FAILED_PRECONDITION,
                               "cyclic symlink or chain >255 links at \"%.150s\"", op->path);
        if (errno != ENOENT)
            return list_error(op, errno);
        return abx_err_set(&op->err, ABX_NOT_FOUND, "path not found: stat %.150s: %s", op->path,
                           abx__errno_text(errno, text));
    }
    if (!S_ISDIR(st.st_mode))
        return abx_err_set(&op->err, ABX_INVALID_ARGUMENT, "path is not a directory: %.150s",
                           op->path);
    struct walk w = {.op = op};
    abx_buf_init(&w.path, ABX_FILES_PATH - 1);
    abx_buf_put_c(&w.path, op->path);
    int rc = abx_buf_failed(&w.path) ? -ENOMEM : walk_dir(&w, op->depth ? op->depth : 1);
    abx_buf_done(&w.path);
    return rc < 0 ? list_error(op, -rc) : 0;
}
