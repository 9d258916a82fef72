/* lib/wire/http_request_fuzz.c: requests: the same at every split. */
#include "lib/wire/http_fuzz.h"

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 17)
        return 0;
    fuzz_compare((const char *)data + 1, size - 1, 1 + data[0] % 61u, 0);
    return 0;
}
