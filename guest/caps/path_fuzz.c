/* guest/caps/path_fuzz.c: a resolved path is absolute, fits, and a relative one has no "..". */
#include "guest/caps/files.h"
#include "lib/base/assert.h"

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char home[] = "/home/user", root[] = "/";
    if (size < 1 || size > 8192)
        return 0;
    struct abx_user user = {.name = "user", .home = data[0] & 1 ? home : root};
    struct abx_str raw = {(const char *)data + 1, size - 1};
    struct abx_str workdir = data[0] & 2 ? abx_str("/work") : abx_str("");
    char out[ABX_FILES_PATH];
    struct abx_error err = {0};
    if (abx_path_resolve(raw, &user, workdir, out, &err) < 0) {
        ABX_ASSERT(err.msg[0] != '\0');
        return 0;
    }
    ABX_ASSERT(out[0] == '/' && strlen(out) < ABX_FILES_PATH);
    bool is_cleaned = raw.len > 0 && raw.ptr[0] != '/';
    ABX_ASSERT(!is_cleaned || (strstr(out, "/../") == NULL && strstr(out, "//") == NULL));
    ABX_ASSERT(abx_path_base(abx_str(out)).len <= strlen(out));
    return 0;
}
