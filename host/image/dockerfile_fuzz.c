/* host/image/dockerfile_fuzz.c: any text is instructions and steps, or one fault with a place. */
#include "host/image/dockerfile.h"

#include <assert.h>

#include "lib/base/banned.h"

static void check_fault(const struct abx_df_fault *f)
{
    assert(f->text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_str text = abx_str_n((const char *)data, size < 16384 ? size : 16384);
    struct abx_dockerfile df;
    struct abx_df_plan plan;
    struct abx_df_fault fault;
    struct abx_arena a;
    abx_arena_init(&a, ABX_DF_MEMORY_MAX);
    if (abx_dockerfile_parse(text, &a, &df, &fault) < 0) {
        check_fault(&fault);
    } else if (abx_dockerfile_plan(&df, &(struct abx_df_options){0}, &a, &plan, &fault) < 0) {
        check_fault(&fault);
    } else {
        assert(plan.image.len > 0 && plan.count >= 2);
        for (size_t i = 0; i < plan.count; i++)
            assert(plan.steps[i].arg_count > 0 && plan.steps[i].last_line >= plan.steps[i].at.line);
    }
    abx_arena_done(&a);
    return 0;
}
