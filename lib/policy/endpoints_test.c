/* lib/policy/endpoints_test.c: the table is the published one (tests/policy/vectors.json). */
#include "lib/policy/endpoints.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/json/tree.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static bool flag(const struct abx_json_node *row, const char *key)
{
    const struct abx_json_node *n = abx_json_tree_get(row, key);
    assert_non_null(n);
    return n->truth;
}

static void check_text(const struct abx_json_node *row, const char *key, const char *own)
{
    const struct abx_json_node *n = abx_json_tree_get(row, key);
    assert_non_null(n);
    if (!abx_str_is(n->text, own))
        fail_msg("%.*s.%s: \"%s\"", ABX_STR_FMT(row->key), key, own);
}

static uint32_t bits(const struct abx_json_node *list, int (*parse)(struct abx_str))
{
    uint32_t all = 0;
    for (const struct abx_json_node *n = list->first; n != NULL; n = n->next) {
        assert_true(parse(n->text) >= 0);
        all |= 1u << parse(n->text);
    }
    return all;
}

static void check_row(const struct abx_json_node *row)
{
    const struct abx_endpoint *e = abx_endpoint_find(row->key);
    if (e == NULL)
        fail_msg("no endpoint %.*s", ABX_STR_FMT(row->key));
    check_text(row, "method", e->method);
    check_text(row, "path", e->path);
    check_text(row, "group", abx_group_name(e->group));
    assert_int_equal(e->limits, bits(abx_json_tree_get(row, "limits"), abx_limit_parse));
    assert_int_equal(e->params, bits(abx_json_tree_get(row, "params"), abx_param_parse));
    assert_int_equal(flag(row, "paths"), (e->flags & ABX_EP_PATHS) != 0);
    assert_int_equal(flag(row, "exec"), (e->flags & ABX_EP_EXEC) != 0);
    assert_int_equal(flag(row, "streaming"), (e->flags & ABX_EP_STREAMING) != 0);
    assert_int_equal(flag(row, "virtual"), (e->flags & ABX_EP_VIRTUAL) != 0);
    assert_int_equal(flag(row, "auth_required"), (e->flags & ABX_EP_OPEN) == 0);
    const struct abx_json_node *scopes = abx_json_tree_get(row, "scopes");
    for (const struct abx_json_node *n = scopes->first; n != NULL; n = n->next)
        assert_true(abx_str_is(n->text, e->scopes[n->index]));
    assert_true(scopes->count == ABX_ENDPOINT_SCOPES || e->scopes[scopes->count] == NULL);
    assert_true(e->summary != NULL && e->summary[0] != '\0');
}

TEST(every_published_endpoint_is_in_the_table_and_no_other)
{
    struct abx_arena a;
    struct abx_json_fault fault;
    struct abx_json_node *root;
    char *text;
    size_t len, count;
    abx_arena_init(&a, 32 << 20);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, "tests/policy/vectors.json", 4 << 20, &text, &len),
                     0);
    assert_int_equal(abx_json_tree_parse(abx_str_n(text, len), &a, &root, &fault), 0);
    const struct abx_json_node *rows = abx_json_tree_get(root->first->next, "endpoints");
    assert_non_null(rows);
    for (const struct abx_json_node *n = rows->first; n != NULL; n = n->next)
        check_row(n);
    (void)abx_endpoints(&count);
    assert_int_equal(rows->count, count);
    free(text);
    abx_arena_done(&a);
}
