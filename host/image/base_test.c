/* host/image/base_test.c: official names and recipes; orders of steps as values. */
#include "host/image/base.h"
#include "host/image/image_priv.h"
#include "lib/contract/step.h"
#include "tests/unit/test.h"

#include "lib/base/banned.h"

TEST(official_names_resolve_for_every_region_and_tag)
{
    static const struct {
        const char *from, *tag; /* NULL: not ours */
    } rows[] = {
        {"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:v0.0.49", "v0.0.49"},
        {"fc-e2b-registry.x.cr.aliyuncs.com/runtime/code-interpreter-v1:v0.0.52", "v0.0.52"},
        {"fc-e2b-registry.us-west-1.cr.aliyuncs.com/runtime/base:v0.0.1", "v0.0.1"},
        {"fc-e2b-registry.x.cr.aliyuncs.com/runtime/base:v0.0.4294967295", "v0.0.4294967295"},
        {"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:latest", NULL},
        {"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:v0.1.0", NULL},
        {"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base:v0.0.", NULL},
        {"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/base", NULL},
        {"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/other:v0.0.1", NULL},
        {"fc-e2b-registry..cr.aliyuncs.com/runtime/base:v0.0.1", NULL},
        {"fc-e2b-registry.a.b.cr.aliyuncs.com/runtime/base:v0.0.1", NULL},
        {"evil/fc-e2b-registry.x.cr.aliyuncs.com/runtime/base:v0.0.1", NULL},
        {"debian:trixie", NULL},
        {"", NULL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *name = NULL;
        struct abx_str tag = {0};
        bool is_ours = abx_base_match(abx_str(rows[i].from), &name, &tag);
        if (is_ours != (rows[i].tag != NULL))
            fail_msg("%s", rows[i].from);
        if (!is_ours)
            continue;
        assert_string_equal(name,
                            strstr(rows[i].from, "runtime/code") ? "code-interpreter-v1" : "base");
        assert_true(abx_str_is(tag, rows[i].tag));
    }
}

TEST(recipes_have_one_digest_and_a_command)
{
    char hash[65], again[65], text[128];
    assert_int_equal(abx_base_recipe("base", hash), 0);
    assert_int_equal(abx_base_recipe("base", again), 0);
    assert_string_equal(hash, again);
    assert_int_equal(abx_base_recipe("code-interpreter-v1", again), 0);
    assert_string_not_equal(hash, again);
    assert_int_equal(abx_base_recipe("none", hash), -1);
    struct abx_base_command c;
    struct abx_error err;
    assert_int_equal(abx_base_command("base", true, "/tmp/x.tar", &c, &err), 0);
    size_t count = 0;
    bool has_python = false; /* by that name: agents and the SDKs' programs call it */
    for (; c.argv[count] != NULL; count++)
        has_python = has_python || strstr(c.argv[count], ",python-is-python3,") != NULL;
    assert_true(has_python);
    assert_string_equal(c.argv[0], "mmdebstrap");
    assert_string_equal(c.argv[1], "--mode=root");
    assert_string_equal(c.argv[count - 2], "trixie");
    assert_string_equal(c.argv[count - 1], "/tmp/x.tar"); /* and no mirror behind it */
    abx_base_command_done(&c);
    assert_int_equal(abx_base_command("base", false, "-", &c, &err), 0);
    assert_string_equal(c.argv[1], "--mode=unshare");
    abx_base_command_done(&c);
    assert_int_equal(abx_base_command("none", true, "-", &c, &err), -1);
    abx_base_describe("base", "v0.0.49", text);
    assert_string_equal(text, "base: stand-in for runtime/base:v0.0.49");
}

static struct abx_digest digest_of(const struct abx_step *s, const struct abx_image *img)
{
    struct abx_digest d;
    abx__order_digest(s, img, &d);
    return d;
}

static bool differ(const struct abx_digest *a, struct abx_digest b)
{
    return memcmp(a, &b, sizeof(b)) != 0;
}

/* A layer's name changes with whatever its content depends on, and with nothing else. */
TEST(layers_are_named_by_what_they_depend_on)
{
    struct abx_image *img = abx_image_new(), *other = abx_image_new();
    struct abx_step run = {.type = ABX_STEP_RUN, .command = "make"}, s = run;
    struct abx_digest first = digest_of(&run, img);
    struct abx_error err;
    assert_false(differ(&first, digest_of(&run, other)));
    s.command = "make all";
    assert_true(differ(&first, digest_of(&s, img)));
    s = run;
    s.user = "app";
    assert_true(differ(&first, digest_of(&s, img)));
    s = run;
    s.no_cache = true;
    assert_true(differ(&first, digest_of(&s, img)));
    assert_int_equal(abx_image_set_env(other, ABX_STR("A"), ABX_STR("1")), 0);
    assert_true(differ(&first, digest_of(&run, other)));
    struct abx_step copy = {.type = ABX_STEP_COPY, .src = "a", .dest = "b"};
    struct abx_digest copied = digest_of(&copy, img);
    assert_false(differ(&copied, digest_of(&copy, other))); /* COPY reads no variables */
    copy.archive_digest.bytes[0] = 1;
    assert_true(differ(&copied, digest_of(&copy, img)));
    assert_int_equal(abx__image_add_layer(img, &first, &err), 0);
    assert_true(differ(&first, digest_of(&run, img)));
    abx_image_free(img);
    abx_image_free(other);
}

TEST(variables_are_expanded_as_documented)
{
    static const struct {
        const char *text, *want;
    } rows[] = {{"$A", "one"},  {"${A}b", "oneb"},  {"$Ab", ""},     {"\\$A", "$A"},
                {"$", "$"},     {"a$", "a$"},       {"${A", "${A"},  {"$1", "$1"},
                {"${}", "${}"}, {"$A$A", "oneone"}, {"$NONE.", "."}, {"x\\y", "x\\y"}};
    struct abx_image *img = abx_image_new();
    assert_int_equal(abx_image_set_env(img, ABX_STR("A"), ABX_STR("one")), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ABX_AUTO_BUF out;
        abx_buf_init(&out, 100);
        assert_int_equal(abx__order_expand(img, abx_str(rows[i].text), &out), 0);
        assert_string_equal(out.ptr ? out.ptr : "", rows[i].want);
    }
    abx_image_free(img);
}

TEST(malformed_images_are_refused)
{
    static const char *const rows[] = {
        "",
        "{}",
        "{\"layers\":[\"xyz\"],\"user\":\"u\",\"workdir\":\"/\"}",
        "{\"layers\":[],\"user\":\"\",\"workdir\":\"/\"}",
        "{\"layers\":[],\"user\":\"u\",\"workdir\":\"/\",\"env\":[1]}",
    };
    struct abx_image *img = NULL;
    struct abx_error err;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(abx_image_decode(abx_str(rows[i]), &img, &err), -1);
    struct abx_image *empty = abx_image_new();
    assert_int_equal(abx_image_set_env(empty, ABX_STR("A=B"), ABX_STR("x")), -1);
    assert_int_equal(abx_image_set_env(empty, ABX_STR(""), ABX_STR("x")), -1);
    assert_int_equal(
        abx__image_take_config(empty, ABX_STR("{\"config\":{\"Env\":[\"=x\"]}}"), &err), -1);
    assert_int_equal(abx__image_take_config(empty, ABX_STR("[["), &err), -1);
    abx_image_free(empty);
}

TEST(orders_that_are_too_long_are_refused)
{
    struct abx_image *img = abx_image_new();
    struct abx_error err;
    static char command[ABX_STEP_TEXT_BYTES + 1];
    memset(command, 'x', sizeof(command) - 1);
    struct abx_step s = {.type = ABX_STEP_RUN, .command = command};
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 2 * ABX_STEP_TEXT_BYTES);
    assert_int_equal(abx__order_encode(&s, img, &out, &err), -1);
    assert_int_equal(err.code, ABX_RESOURCE_EXHAUSTED);
    abx_image_free(img);
}
