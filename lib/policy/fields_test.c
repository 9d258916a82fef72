/* lib/policy/fields_test.c: the fields stand beside their endpoints. */
#include "lib/policy/fields.h"

#include "lib/base/assert.h"
#include "lib/policy/endpoints.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

TEST(each_field_is_of_an_endpoint_and_of_one_block)
{
    size_t count;
    const struct abx_endpoint_field *rows = abx_endpoint_fields(&count);
    for (size_t i = 0; i < count; i++) {
        size_t of_it;
        const struct abx_endpoint *e = abx_endpoint_find(abx_str(rows[i].endpoint));
        const struct abx_endpoint_field *first = abx_endpoint_fields_of(rows[i].endpoint, &of_it);
        assert_non_null(e);
        assert_true(&rows[i] >= first && &rows[i] < first + of_it);
        assert_true(rows[i].help[0] != '\0');
        if (rows[i].in == ABX_FIELD_BODY)
            assert_true(strcmp(e->method, "GET") != 0);
        if (rows[i].in == ABX_FIELD_PATH)
            assert_true(rows[i].is_required);
    }
}

/* A path's "{name}" has its row, and the other way round. */
static void check_path(const struct abx_endpoint *e)
{
    size_t count, found = 0, wanted = 0;
    const struct abx_endpoint_field *rows = abx_endpoint_fields_of(e->id, &count);
    for (size_t i = 0; i < count; i++) {
        char part[64];
        snprintf(part, sizeof(part), "{%s}", rows[i].name);
        if (rows[i].in == ABX_FIELD_PATH)
            found += abx_str_find(abx_str(e->path), abx_str(part)) >= 0 ? 1 : 100;
    }
    for (const char *p = e->path; (p = strchr(p, '{')) != NULL; p++)
        wanted++;
    if (found != wanted)
        print_error("%s: %zu of %zu parts of the path have a field\n", e->id, found, wanted);
    assert_int_equal(found, wanted);
}

TEST(each_part_of_a_path_has_a_field)
{
    size_t count;
    const struct abx_endpoint *all = abx_endpoints(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i].group != ABX_GROUP_AGENTS)
            check_path(&all[i]);
    all = abx_endpoint_extensions(&count);
    for (size_t i = 0; i < count; i++)
        check_path(&all[i]);
}

TEST(types_have_the_names_of_json_schema)
{
    assert_string_equal(abx_field_type_name(ABX_FIELD_STRINGS), "array");
    assert_string_equal(abx_field_type_name(ABX_FIELD_MAP), "object");
    assert_null(abx_endpoint_media_of("health"));
    assert_string_equal(abx_endpoint_media_of("shell_stream")->answer, "text/event-stream");
}
