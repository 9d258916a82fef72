/* lib/wire/multipart_fuzz.c: forms with boundary "XX": the same at every split. */
#include "lib/wire/multipart.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static void run(const char *data, size_t size, size_t step, struct abx_buf *log)
{
    struct abx_multipart m;
    int e = ABX_MULTIPART_NEED_MORE;
    assert(abx_multipart_init(&m, ABX_STR("multipart/form-data; boundary=XX"), NULL) == 0);
    abx_buf_init(log, 1 << 22);
    for (size_t at = 0, n; at < size && e != ABX_MULTIPART_ERROR; at += n) {
        n = step < size - at ? step : size - at;
        char *fit = malloc(n); /* exact, so that a sanitizer sees an over-read */
        struct abx_str part, in = abx_str_n(memcpy(fit, data + at, n), n);
        do {
            e = abx_multipart_parse(&m, &in, &part, NULL);
            if (e == ABX_MULTIPART_DATA)
                abx_buf_put_str(log, part);
            else if (e != ABX_MULTIPART_NEED_MORE)
                abx_buf_putf(log, "<%d %.*s>", e, ABX_STR_FMT(m.filename));
        } while (e != ABX_MULTIPART_NEED_MORE && e != ABX_MULTIPART_ERROR);
        free(fit);
    }
    abx_multipart_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ABX_AUTO_BUF whole = {0}, pieces = {0};
    if (size < 2 || size > 1 << 16)
        return 0;
    run((const char *)data + 1, size - 1, size - 1, &whole);
    run((const char *)data + 1, size - 1, 1 + data[0] % 61u, &pieces);
    assert(abx_str_eq(abx_buf_str(&whole), abx_buf_str(&pieces)));
    return 0;
}
