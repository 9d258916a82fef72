/* guest/caps/git_output_fuzz.c: git's output, whatever it is: slices stay inside, counts end. */
#include "guest/caps/git.h"
#include "lib/base/assert.h"

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(void *ctx, struct abx_str path)
{
    const struct abx_str *all = ctx;
    ABX_ASSERT(path.ptr >= all->ptr && path.ptr + path.len <= all->ptr + all->len);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_git_entry e;
    struct abx_git_stats stats;
    if (size < 1 || size > 65536)
        return 0;
    struct abx_str all = {(const char *)data + 1, size - 1}, rest = all;
    struct abx_git_commit commit;
    struct abx_git_ref ref;
    struct abx_git_line line;
    if (data[0] & 2) {
        while (abx_git_commit_next(&rest, &commit))
            is_inside(&all, commit.body);
        for (rest = all; abx_git_ref_next(&rest, &ref);)
            is_inside(&all, ref.subject);
        for (rest = all; abx_git_line_next(&rest, &line);)
            is_inside(&all, line.text);
    } else if (data[0] & 1) {
        ABX_ASSERT(abx_git_branch(&rest).len <= all.len);
        while (abx_git_status_next(&rest, &e)) {
            is_inside(&all, e.path);
            ABX_ASSERT(memchr(e.status, '\0', sizeof(e.status)) != NULL && e.status[0] != '\0');
        }
    } else {
        ABX_ASSERT(abx_git_numstat(&rest, &stats, is_inside, &all));
        ABX_ASSERT(rest.len <= all.len && stats.files <= all.len);
    }
    (void)abx_git_is_revision(all);
    return 0;
}
