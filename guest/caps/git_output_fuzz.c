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
    if (data[0] & 1) {
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
