/* guest/caps/pack.c: the walk that feeds an archive. A folder's names are read at once and sorted:
 * no descriptor is kept per level, and the same tree makes the same archive. */
#include "guest/caps/pack_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    DEPTH_MAX = 1000,
    NAMES_MAX = 64 * 1024 * 1024, /* bytes of the names of one folder */
    PIECE = 128 * 1024,
    PLAIN_MAX = 80 * 1024 * 1024, /* a step, and the directory of a zip */
};

struct level {
    struct level *up;
    char *names; /* each with its terminator */
    char **sorted;
    size_t count, at;
    size_t path_len, name_len; /* of the folder */
    struct stat st;
};

struct abx_pack {
    struct abx_pack_spec spec;
    struct abx_buf path, name; /* of the entry in hand */
    struct level *top;
    size_t depth, next_root;
    int fd;              /* of the file in hand, or -1 */
    uint64_t left, size; /* of it */
    struct abx__zip zip;
    struct abx_deflate gzip;
    struct abx_buf plain; /* what was made and is not packed yet */
    bool is_over;
    char piece[PIECE];
};

static const char *const form_names[] = {
    [ABX_PACK_TAR_GZIP] = "tar.gz", [ABX_PACK_TAR] = "tar", [ABX_PACK_ZIP] = "zip"};
_Static_assert(ABX_COUNTOF(form_names) == ABX_PACK__COUNT, "one name per form");

const char *abx_pack_form_name(enum abx_pack_form form)
{
    return form_names[form];
}

int abx_pack_form_parse(struct abx_str name)
{
    for (int i = 0; i < ABX_PACK__COUNT; i++)
        if (abx_str_is(name, form_names[i]))
            return i;
    return -1;
}

/* ---- members ---- */

static bool is_zip(const struct abx_pack *p)
{
    return p->spec.form == ABX_PACK_ZIP;
}

static int begin_member(struct abx_pack *p, const struct abx__member *m)
{
    if (is_zip(p))
        return abx__zip_begin(&p->zip, &p->plain, m);
    abx__tar_begin(&p->plain, m);
    return abx_buf_failed(&p->plain) ? -ENOMEM : 0;
}

static int end_member(struct abx_pack *p, uint64_t size)
{
    if (is_zip(p))
        return abx__zip_close(&p->zip, &p->plain);
    abx__tar_pad(&p->plain, size);
    return 0;
}

static int put_whole(struct abx_pack *p, const struct abx__member *m)
{
    int rc = begin_member(p, m);
    return rc < 0 ? rc : end_member(p, 0);
}

/* The folder whose name is in hand. */
static int put_folder(struct abx_pack *p, const struct stat *st)
{
    size_t len = p->name.len;
    if (len == 0)
        return 0;
    abx_buf_put_byte(&p->name, '/');
    struct abx__member m = {.name = abx_buf_str(&p->name), .st = *st};
    m.st.st_size = 0;
    int rc = abx_buf_failed(&p->name) ? -ENOMEM : put_whole(p, &m);
    p->name.len = len;
    return rc;
}

static int put_link(struct abx_pack *p, const struct stat *st)
{
    char target[PATH_MAX];
    int n = abx_tree_read_link(abx_buf_str(&p->path), target, sizeof(target));
    if (n == -ENOENT || n == -EINVAL)
        return 0; /* gone, or no link any more */
    struct abx__member m = {.name = abx_buf_str(&p->name),
                            .link = abx_str_n(target, (size_t)(n < 0 ? 0 : n)),
                            .st = *st};
    m.st.st_size = 0;
    return n < 0 ? n : put_whole(p, &m);
}

static int open_file(struct abx_pack *p)
{
    struct abx__member m = {.name = abx_buf_str(&p->name)};
    ABX_AUTO_FD fd = abx_tree_open(abx_buf_str(&p->path), O_RDONLY, 0);
    if (fd == -ENOENT || fd == -ELOOP || fd == -EXDEV)
        return 0; /* gone, a link now, or the kernel's own */
    if (fd < 0)
        return fd;
    if (fstat(fd, &m.st) < 0)
        return -errno;
    if (!S_ISREG(m.st.st_mode))
        return 0;
    int rc = begin_member(p, &m);
    if (rc < 0)
        return rc;
    p->left = p->size = (uint64_t)m.st.st_size;
    p->fd = abx_fd_take(&fd);
    return 0;
}

static int copy_piece(struct abx_pack *p)
{
    size_t want = p->left < PIECE ? (size_t)p->left : (size_t)PIECE;
    ssize_t got = abx_fd_read_all(p->fd, p->piece, want);
    if (got < 0)
        return (int)got;
    memset(p->piece + got, 0, want - (size_t)got);
    struct abx_str data = abx_str_n(p->piece, want);
    int rc = is_zip(p) ? abx__zip_data(&p->zip, &p->plain, data) : 0;
    if (!is_zip(p))
        abx_buf_put_str(&p->plain, data);
    p->left -= want;
    if (rc < 0 || p->left > 0)
        return rc;
    abx_fd_close(&p->fd);
    return end_member(p, p->size);
}

/* ---- the walk ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void level_free(struct level *l)
{
    if (l == NULL)
        return;
    free(l->names);
    free(l->sorted);
    free(l);
}

static int sort_names(struct level *l, struct abx_buf *names)
{
    if (abx_buf_failed(names))
        return -ENOMEM;
    l->sorted = calloc(l->count + 1, sizeof(*l->sorted));
    l->names = abx_buf_take(names);
    if (l->sorted == NULL || (l->count && l->names == NULL))
        return -ENOMEM;
    char *name = l->names;
    for (size_t i = 0; i < l->count; i++, name += strlen(name) + 1)
        l->sorted[i] = name;
    qsort(l->sorted, l->count, sizeof(*l->sorted), compare_names);
    return 0;
}

static int read_names(struct level *l, int take_fd)
{
    ABX_AUTO_BUF names;
    DIR *dir = fdopendir(take_fd);
    abx_buf_init(&names, NAMES_MAX);
    if (dir == NULL) {
        int errnum = errno;
        close(take_fd);
        return -errnum;
    }
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        abx_buf_put(&names, d->d_name, strlen(d->d_name) + 1);
        l->count++;
    }
    closedir(dir);
    return sort_names(l, &names);
}

static int enter(struct abx_pack *p, const struct stat *st)
{
    if (p->depth == DEPTH_MAX)
        return -ELOOP;
    int fd = abx_tree_open(abx_buf_str(&p->path), O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
        return 0;
    struct level *l = fd < 0 ? NULL : calloc(1, sizeof(*l));
    if (l == NULL) {
        int rc = fd < 0 ? fd : -ENOMEM;
        abx_fd_close(&fd);
        return rc;
    }
    l->path_len = p->path.len;
    l->name_len = p->name.len;
    l->st = *st;
    int rc = read_names(l, fd);
    if (rc < 0) {
        level_free(l);
        return rc;
    }
    l->up = p->top;
    p->top = l;
    p->depth++;
    return p->spec.has_folders ? put_folder(p, st) : 0;
}

static int leave(struct abx_pack *p)
{
    struct level *l = p->top;
    p->path.len = l->path_len;
    p->name.len = l->name_len;
    p->top = l->up;
    p->depth--;
    int rc = !p->spec.has_folders && l->count == 0 ? put_folder(p, &l->st) : 0;
    level_free(l);
    return rc;
}

/* The entry whose path and name are in hand. */
static int visit(struct abx_pack *p)
{
    struct abx_tree_entry e = {.path = abx_buf_str(&p->path)};
    if (abx_buf_failed(&p->path) || abx_buf_failed(&p->name))
        return -ENOMEM;
    int rc = abx_tree_stat(e.path, &e.st);
    if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -EXDEV)
        return 0;
    if (rc < 0)
        return rc;
    e.name = abx_str_sub(e.path, (size_t)(abx_str_rchr(e.path, '/') + 1), e.path.len);
    if (p->spec.shows && !p->spec.shows(p->spec.ctx, &e))
        return 0;
    if (S_ISDIR(e.st.st_mode))
        return enter(p, &e.st);
    if (S_ISLNK(e.st.st_mode))
        return put_link(p, &e.st);
    return S_ISREG(e.st.st_mode) ? open_file(p) : 0;
}

static int next_root(struct abx_pack *p)
{
    const struct abx_pack_root *r = &p->spec.roots[p->next_root++];
    abx_buf_clear(&p->path);
    abx_buf_clear(&p->name);
    abx_buf_put_str(&p->path, r->path);
    abx_buf_put_str(&p->name, r->name);
    return visit(p);
}

static int next_child(struct abx_pack *p)
{
    struct level *l = p->top;
    const char *name = l->sorted[l->at++];
    p->path.len = l->path_len;
    p->name.len = l->name_len;
    if (p->path.len == 0 || p->path.ptr[p->path.len - 1] != '/')
        abx_buf_put_byte(&p->path, '/');
    abx_buf_put_c(&p->path, name);
    if (p->name.len > 0)
        abx_buf_put_byte(&p->name, '/');
    abx_buf_put_c(&p->name, name);
    return visit(p);
}

static int finish(struct abx_pack *p)
{
    p->is_over = true;
    if (is_zip(p))
        return abx__zip_end(&p->zip, &p->plain);
    abx__tar_end(&p->plain);
    return 0;
}

static int advance(struct abx_pack *p)
{
    if (p->fd >= 0)
        return copy_piece(p);
    if (p->top)
        return p->top->at < p->top->count ? next_child(p) : leave(p);
    return p->next_root < p->spec.root_count ? next_root(p) : finish(p);
}

/* ---- public ---- */

struct abx_pack *abx_pack_new(const struct abx_pack_spec *spec)
{
    struct abx_pack *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->spec = *spec;
    p->fd = -1;
    abx_buf_init(&p->path, 1 << 20);
    abx_buf_init(&p->name, 1 << 20);
    abx_buf_init(&p->plain, PLAIN_MAX);
    abx__zip_init(&p->zip);
    if (spec->form == ABX_PACK_TAR_GZIP && abx_deflate_init(&p->gzip, ABX_DEFLATE_GZIP) < 0) {
        abx_pack_free(p);
        return NULL;
    }
    return p;
}

void abx_pack_free(struct abx_pack *p)
{
    if (p == NULL)
        return;
    while (p->top) {
        struct level *l = p->top;
        p->top = l->up;
        level_free(l);
    }
    abx_fd_close(&p->fd);
    abx__zip_done(&p->zip);
    abx_deflate_done(&p->gzip);
    abx_buf_done(&p->path);
    abx_buf_done(&p->name);
    abx_buf_done(&p->plain);
    free(p);
}

int abx_pack_step(struct abx_pack *p, struct abx_buf *out)
{
    abx_buf_clear(&p->plain);
    while (!p->is_over && p->plain.len < ABX_PACK_STEP) {
        int rc = advance(p);
        if (rc < 0)
            return rc;
        if (abx_buf_failed(&p->plain))
            return -ENOMEM;
    }
    if (!p->gzip.is_open)
        abx_buf_put_str(out, abx_buf_str(&p->plain));
    else if (abx_deflate_put(&p->gzip, abx_buf_str(&p->plain), p->is_over, out) < 0)
        return -ENOMEM;
    return abx_buf_failed(out) ? -ENOMEM : !p->is_over;
}
