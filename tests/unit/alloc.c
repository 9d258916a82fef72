/* tests/unit/alloc.c: allocation failures on demand (linked with --wrap). Work on the pool is
 * counted with the rest; which call it is that fails is then the scheduler's choice. */
#include "tests/unit/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "lib/base/banned.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

/* libuv aborts when its own memory runs out; linked statically its calls would come here as well.
 */
int uv_replace_allocator(void *(*m)(size_t), void *(*r)(void *, size_t), void *(*c)(size_t, size_t),
                         void (*f)(void *)) __attribute__((weak));

__attribute__((constructor)) static void spare_libuv(void)
{
    if (uv_replace_allocator != NULL)
        uv_replace_allocator(__real_malloc, __real_realloc, __real_calloc, free);
}

static atomic_uint left; /* until the failure; 0: disarmed */
static atomic_bool failed;

bool abx_alloc_fail(unsigned n)
{
    bool is_over = n > 1 && !failed;
    left = is_over ? 0 : n;
    failed = false;
    return !is_over;
}

bool abx_alloc_failed(void)
{
    return failed;
}

static bool fails(void)
{
    unsigned now = left;
    while (now > 0 && !atomic_compare_exchange_weak(&left, &now, now - 1))
        ;
    if (now != 1)
        return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __real_realloc(ptr, size);
}
