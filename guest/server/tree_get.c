/* guest/server/tree_get.c: GET /files/tree: a folder as an archive that is streamed as it is made.
 * server.md 5. */
#include "guest/server/packing.h"
#include "guest/server/send.h"

#include "lib/base/assert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { FILES = 1000000, ARENA_MAX = 4 << 20, TYPE_MAX = 160 };

/* What makes the archive; it has all that it asks. */
struct tree {
    struct abx__source base;
    struct abx_policy *policy;
    const struct abx_policy_rule *rule;
    struct abx_arena arena;
    struct abx__bounds bounds;
    struct abx_pack_root root;
    struct abx_pack_spec spec;
    struct abx_pack *pack; /* NULL: not begun */
    uint64_t left;         /* of max_bytes */
};

static int begin(struct tree *t)
{
    if (abx__bounds_init(&t->bounds, t->policy, t->rule, &t->arena) < 0)
        return -ENOMEM;
    t->pack = abx_pack_new(&t->spec);
    return t->pack ? 0 : -ENOMEM;
}

static int tree_pull(struct abx__source *source, struct abx_buf *out)
{
    struct tree *t = ABX_CONTAINER_OF(source, struct tree, base);
    int rc = t->pack ? 0 : begin(t);
    if (rc == 0)
        rc = abx_pack_step(t->pack, out);
    if (out->len > t->left)
        return -EFBIG;
    t->left -= out->len;
    return rc;
}

static void tree_free(struct abx__source *source)
{
    struct tree *t = ABX_CONTAINER_OF(source, struct tree, base);
    abx_pack_free(t->pack);
    abx_arena_done(&t->arena);
    abx_policy_unref(t->policy);
    free(t);
}

/* ---- the request ---- */

struct request { /* of the job that judges it */
    enum abx_pack_form form;
    struct abx_str path;
    bool is_folder;
};

static bool read_form(struct abx__job *j, enum abx_pack_form *ret)
{
    struct abx_str name = abx__job_query(j, "format");
    int form = name.ptr ? abx_pack_form_parse(name) : (int)ABX_PACK_TAR_GZIP;
    if (form < 0)
        return abx__job_fail(j, 400, "ValueError",
                             "query parameter 'format' is \"tar.gz\", \"tar\" or \"zip\"");
    *ret = (enum abx_pack_form)form;
    return true;
}

static void tree_run(struct abx__job *j)
{
    struct request *r = j->data;
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_READ};
    struct stat st;
    if (!abx__files_query_path(j, &ask.path) || !read_form(j, &r->form) ||
        !abx__files_judge(j, &ask, &bounds, &r->path))
        return;
    uint64_t limit = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, UINT64_MAX);
    struct abx__packing k = {
        .bounds = &bounds, .max_files = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_FILES, FILES)};
    int rc = abx_tree_stat(r->path, &st);
    if (rc == 0)
        rc = S_ISLNK(st.st_mode) ? -ENOENT : abx__packing_count(&k, r->path);
    r->is_folder = rc == 0 && S_ISDIR(st.st_mode);
    if (rc < 0)
        abx__files_fail_absent(j, rc, r->path);
    else if (k.is_too_many)
        abx__packing_fail(j, &k);
    else if (k.bytes > limit)
        abx__files_too_large(j, limit);
}

static const char *const types[] = {[ABX_PACK_TAR_GZIP] = "application/gzip",
                                    [ABX_PACK_TAR] = "application/x-tar",
                                    [ABX_PACK_ZIP] = "application/zip"};
_Static_assert(ABX_COUNTOF(types) == ABX_PACK__COUNT, "one type per form");

static void tree_done(struct abx__job *j)
{
    const struct request *r = j->data;
    const struct abx_http_extra extra[] = {{"Content-Type", abx_str(types[r->form])}, {0}};
    struct tree *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        abx__call_fail(j->call, 500, "MemoryError", "out of memory");
        return;
    }
    abx_arena_init(&t->arena, ARENA_MAX);
    t->base = (struct abx__source){tree_pull, tree_free};
    t->policy = abx_policy_ref(j->policy);
    t->rule = j->rule;
    t->root.path = abx_arena_str(&t->arena, r->path);
    t->root.name = r->is_folder ? ABX_STR("") : abx__files_base_name(t->root.path);
    t->left = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, UINT64_MAX);
    t->spec = (struct abx_pack_spec){.form = r->form,
                                     .roots = &t->root,
                                     .root_count = 1,
                                     .has_folders = true,
                                     .shows = abx__packing_shows,
                                     .ctx = &t->bounds};
    if (t->root.path.ptr) {
        abx__send(j->call, 200, extra, ABX_HTTP_CHUNKED, &t->base);
        return; /* t may be gone */
    }
    tree_free(&t->base);
    abx__call_fail(j->call, 500, "MemoryError", "out of memory");
}

void abx__tree_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, tree_run, 0);
    if (j == NULL)
        return;
    abx__job_data(j, sizeof(struct request));
    j->done = tree_done;
    abx__job_start(j);
}
