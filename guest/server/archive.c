/* guest/server/archive.c: POST /files/archive: an archive as base64. It is built on disk, in a file
 * without a name, for its size decides about the answer. server-api.md 4.4, policy.md A9. */
#include "guest/server/environment.h"
#include "guest/server/packing.h"
#include "guest/server/send.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { FILES = 10000, BYTES = 104857600, PATHS_MAX = 10000, HEAD_MAX = 256, STEP_MAX = 96 << 20 };

struct archive {
    enum abx_pack_form form;
    struct abx__bounds bounds;
    struct abx_pack_root *roots;
    size_t count;
    int fd; /* of the archive */
    uint64_t size;
};

/* ---- building ---- */

static int open_spool(struct abx_arena *a)
{
    char path[PATH_MAX];
    const char *dir = abx__environment_copy("TMPDIR", a);
    if (dir == NULL || dir[0] != '/')
        dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd < 0 ? -errno : fd;
    if (snprintf(path, sizeof(path), "%s/.abx-archive-XXXXXX", dir) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

static int build(struct abx_pack *pack, int fd, uint64_t limit, uint64_t *ret_size)
{
    ABX_AUTO_BUF piece;
    int more = 1;
    *ret_size = 0;
    abx_buf_init(&piece, STEP_MAX);
    while (more > 0 && *ret_size <= limit) {
        abx_buf_clear(&piece);
        more = abx_pack_step(pack, &piece);
        int rc = more < 0 ? more : abx_fd_write_all(fd, piece.ptr, piece.len);
        if (rc < 0)
            return rc;
        *ret_size += piece.len;
    }
    return 0;
}

static void build_archive(struct abx__job *j)
{
    struct archive *a = j->data;
    uint64_t limit = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, BYTES);
    const struct abx_pack_spec spec = {.form = a->form,
                                       .roots = a->roots,
                                       .root_count = a->count,
                                       .shows = abx__packing_shows,
                                       .ctx = &a->bounds};
    ABX_AUTO_FD fd = open_spool(&j->arena);
    struct abx_pack *pack = fd < 0 ? NULL : abx_pack_new(&spec);
    int rc = fd < 0 ? fd : pack == NULL ? -ENOMEM : build(pack, fd, limit, &a->size);
    abx_pack_free(pack);
    if (rc < 0)
        abx__job_fail_errno(j, -rc, ABX_STR("archive"));
    else if (a->size > limit)
        abx__files_too_large(j, limit);
    else
        a->fd = abx_fd_take(&fd);
}

/* ---- what goes in ---- */

static bool judge_roots(struct abx__job *j, const json_t *paths)
{
    struct archive *a = j->data;
    if (abx__bounds_init(&a->bounds, j->policy, j->rule, &j->arena) < 0)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    for (size_t i = 0; i < a->count; i++) {
        const json_t *item = json_array_get(paths, i);
        struct abx__path_ask ask = {
            .path = abx_str_n(json_string_value(item), json_string_length(item)),
            .op = ABX_OP_READ};
        if (!abx__bounds_judge(&a->bounds, &ask, &a->roots[i].path, &j->verdict))
            return false;
        a->roots[i].name = abx__files_base_name(a->roots[i].path);
        abx__job_note(j, a->roots[i].path);
    }
    return true;
}

static bool count_roots(struct abx__job *j)
{
    const struct archive *a = j->data;
    struct abx__packing k = {.bounds = &a->bounds,
                             .max_files =
                                 abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_FILES, FILES)};
    for (size_t i = 0; i < a->count; i++) {
        struct stat st;
        int rc = abx_tree_stat(a->roots[i].path, &st);
        if (rc < 0 || S_ISLNK(st.st_mode)) /* what is a link still leads nowhere */
            return abx__files_fail_absent(j, rc < 0 ? rc : -ENOENT, a->roots[i].path);
    }
    for (size_t i = 0; i < a->count && !k.is_too_many; i++) {
        int rc = abx__packing_count(&k, a->roots[i].path);
        if (rc < 0)
            return abx__files_fail_absent(j, rc, a->roots[i].path);
    }
    return !k.is_too_many || abx__packing_fail(j, &k);
}

static void archive_run(struct abx__job *j)
{
    struct archive *a = j->data;
    const json_t *paths = json_object_get(j->body, "paths");
    a->roots = abx_arena_array(&j->arena, a->count, sizeof(*a->roots));
    if (a->roots == NULL)
        abx__job_fail(j, 500, "MemoryError", "out of memory");
    else if (judge_roots(j, paths) && count_roots(j))
        build_archive(j);
}

static void archive_done(struct abx__job *j)
{
    char head[HEAD_MAX];
    struct archive *a = j->data;
    snprintf(head, sizeof(head), "{\"format\":\"%s\",\"content_base64\":\"",
             abx_pack_form_name(a->form));
    struct abx__base64 b = {.take_fd = abx_fd_take(&a->fd), .size = a->size, .head = abx_str(head)};
    abx__send_base64(j->call, &b);
}

static void archive_drop(struct abx__job *j)
{
    struct archive *a = j->data;
    if (a)
        abx_fd_close(&a->fd);
}

/* ---- the request ---- */

static bool read_paths(struct abx__call *c, size_t *ret_count)
{
    *ret_count = json_array_size(abx__call_field(c, "paths"));
    if (*ret_count > 0 && *ret_count <= PATHS_MAX)
        return true;
    abx__call_fail(c, 400, "ValueError", "'paths' must be a list of 1 to %d strings", PATHS_MAX);
    return false;
}

static bool read_form(struct abx__call *c, enum abx_pack_form *ret)
{
    const json_t *v = abx__call_field(c, "format");
    struct abx_str name = v ? abx_str_n(json_string_value(v), json_string_length(v))
                            : abx_str(abx_pack_form_name(ABX_PACK_TAR_GZIP));
    int form = name.ptr ? abx_pack_form_parse(name) : -1;
    if (form < 0 || form == ABX_PACK_TAR) {
        abx__call_fail(c, 400, "ValueError", "'format' must be \"tar.gz\" or \"zip\"");
        return false;
    }
    *ret = (enum abx_pack_form)form;
    return true;
}

static bool are_strings(struct abx__call *c)
{
    size_t i;
    json_t *item;
    json_array_foreach(abx__call_field(c, "paths"), i, item)
    {
        if (!json_is_string(item)) {
            abx__call_fail(c, 400, "ValueError", "'paths' must hold strings alone");
            return false;
        }
    }
    return true;
}

void abx__archive_post(struct abx__call *c)
{
    struct archive a = {.fd = -1};
    if (!read_paths(c, &a.count) || !read_form(c, &a.form) || !are_strings(c))
        return;
    struct abx__job *j = abx__job_with(c, archive_run, 0, &a, sizeof(a));
    if (j == NULL)
        return;
    j->done = archive_done;
    j->drop = archive_drop;
    abx__job_start(j);
}
