/* guest/caps/regex_fuzz.c: a pattern and a text: a match lies in the text, a second search says the
 * same, and nothing takes more than linear time. */
#include "guest/caps/regex.h"
#include "lib/base/assert.h"

#include <stdlib.h>

static bool goes_on(void *ctx)
{
    return ++*(unsigned *)ctx < 100; /* 400 million steps: far more than any input may take */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_arena a;
    struct abx_error err = {0};
    struct abx_regex *re;
    struct abx_regex_match m = {0}, again = {0};
    unsigned turns = 0;
    const struct abx_regex_patience patience = {goes_on, &turns};
    if (size < 1 || size > 8192)
        return 0;
    struct abx_str pattern, text = abx_str_n((const char *)data + 1, size - 1);
    if (!abx_str_split(&text, '\n', &pattern))
        return 0;
    abx_arena_init(&a, 16 << 20);
    if (abx_regex_compile(pattern, data[0] & 1, &a, &re, &err) == 0) {
        struct abx_regex_run *run = abx_regex_run_new(re, &a);
        ABX_ASSERT(run != NULL);
        int rc = abx_regex_search(run, text, &patience, &m);
        ABX_ASSERT(rc >= 0 && (rc == 0 || (m.from <= m.to && m.to <= text.len)));
        ABX_ASSERT(abx_regex_search(run, text, &patience, &again) == rc);
        ABX_ASSERT(rc == 0 || (again.from == m.from && again.to == m.to));
    } else {
        ABX_ASSERT(err.code != ABX_OK);
    }
    abx_arena_done(&a);
    return 0;
}
