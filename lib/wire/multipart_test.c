/* lib/wire/multipart_test.c: multipart forms at every split, each refusal a row; media parameters.
 */
#include "lib/wire/multipart.h"

#include "lib/base/assert.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#include "lib/base/banned.h"

#define FORM  "multipart/form-data; boundary=XX"
#define FIELD "Content-Disposition: form-data; name=\"a\"\r\n"

struct run {
    struct abx_multipart m;
    struct abx_buf log;
    bool is_broken, was_data;
};

static void log_part(struct run *r)
{
    abx_buf_putf(&r->log, "(%.*s", ABX_STR_FMT(r->m.name));
    if (r->m.filename.ptr)
        abx_buf_putf(&r->log, " file=%.*s", ABX_STR_FMT(r->m.filename));
    if (r->m.content_type.ptr)
        abx_buf_putf(&r->log, " type=%.*s", ABX_STR_FMT(r->m.content_type));
    abx_buf_put_byte(&r->log, '|');
}

static void feed(struct run *r, struct abx_str in)
{
    while (!r->is_broken) {
        struct abx_str data = {0};
        struct abx_error err = {0};
        switch (abx_multipart_parse(&r->m, &in, &data, &err)) {
        case ABX_MULTIPART_NEED_MORE:
            assert_int_equal(in.len, 0);
            return;
        case ABX_MULTIPART_PART:
            log_part(r);
            break;
        case ABX_MULTIPART_DATA:
            assert_true(data.len > 0);
            abx_buf_put_str(&r->log, data);
            break;
        case ABX_MULTIPART_PART_END:
            abx_buf_put_c(&r->log, ")");
            break;
        case ABX_MULTIPART_END:
            abx_buf_put_c(&r->log, ".");
            break;
        case ABX_MULTIPART_ERROR:
            assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
            abx_buf_put_c(&r->log, "!");
            r->is_broken = true;
        }
    }
}

static void try_split(const char *body, const char *want, size_t first, size_t step)
{
    struct run r = {.is_broken = false};
    struct abx_error err;
    size_t len = strlen(body);
    assert_int_equal(abx_multipart_init(&r.m, ABX_STR(FORM), &err), 0);
    abx_buf_init(&r.log, 1 << 20);
    for (size_t at = 0, n = first; at < len; at += n, n = step) {
        if (n > len - at)
            n = len - at;
        char *fit = malloc(n); /* exact, so that a sanitizer sees an over-read */
        assert_non_null(fit);
        memcpy(fit, body + at, n);
        feed(&r, abx_str_n(fit, n));
        free(fit);
    }
    const char *got = r.log.ptr ? r.log.ptr : "";
    bool is_refusal = want[0] == '!';
    if (is_refusal ? got[0] == '\0' || got[strlen(got) - 1] != '!' : strcmp(got, want) != 0)
        fail_msg("split %zu/%zu of <%s>: got <%s>, want <%s>", first, step, body, got, want);
    abx_multipart_done(&r.m);
    abx_buf_done(&r.log);
}

TEST(multipart_reads_the_same_at_every_split)
{
    static const struct {
        const char *body, *want; /* "!": refused */
    } rows[] = {
        {"--XX\r\n" FIELD "\r\nhello\r\n--XX--", "(a|hello)."},
        {"--XX\r\n" FIELD "\r\nhello\r\n--XX--\r\nepilogue\r\n--XX\r\n", "(a|hello)."},
        {"preamble\r\n--XX \t\r\n" FIELD "\r\n1\r\n--XX\r\n" FIELD "\r\n2\r\n--XX--\r\n",
         "(a|1)(a|2)."},
        {"--XX\r\n" FIELD "\r\n\r\n--XX--", "(a|)."},
        {"--XX\r\n" FIELD "\r\n--XX--", "(a|)."},
        {"--XX\r\n" FIELD "\r\n\r\n\r\n--XX--", "(a|\r\n)."},
        {"--XX\r\n" FIELD "\r\n--Xx\r\n--XX--", "(a|--Xx)."},
        {"--XX\r\n" FIELD "\r\n-\r\n--X\r\n--\r\r\n--XX--", "(a|-\r\n--X\r\n--\r)."},
        {"--XX\r\n" FIELD "\r\n\r\r\r\n-\n--XX\r\n--XX--", "(a|\r\r\r\n-\n--XX)."},
        {"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d/e \xc3\xa9.txt\"\r\n"
         "Content-Type: text/plain\r\n\r\nx\r\n--XX--",
         "(file file=d/e \xc3\xa9.txt type=text/plain|x)."},
        {"--XX\r\ncontent-disposition: form-data; name=f; filename=\"\"\r\n\r\nx\r\n--XX--",
         "(f file=|x)."},
        {"--XX\r\nX: y\r\n\r\nx\r\n--XX--", "(|x)."},
        {"--XX\r\n\r\nx\r\n--XX--", "(|x)."},
        {"--XX--", "."},
        {"no boundary at all", ""},
        {"--XX\r\n" FIELD "\r\ncut", "(a|cut"},
        {"--XX\n" FIELD "\r\n\r\n--XX--", "!"},
        {"--XXy\r\n", "!"},
        {"--XX -\r\n", "!"},
        {"--XX-y", "!"},
        {"--XX\r\nA: b\nC: d\r\n\r\n", "!"},
        {"--XX\r\nA: b\r\n folded\r\n\r\n", "!"},
        {"--XX\r\nA : b\r\n\r\n", "!"},
        {"--XX\r\nnonsense\r\n\r\n", "!"},
        {"--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", "!"},
        {"--XX\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n", "!"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        size_t len = strlen(rows[i].body);
        try_split(rows[i].body, rows[i].want, len, len);
        try_split(rows[i].body, rows[i].want, 1, 1);
        for (size_t first = 1; first < len; first++)
            try_split(rows[i].body, rows[i].want, first, len);
    }
}

static void expect_refused(const struct abx_buf *body)
{
    struct run r = {.is_broken = false};
    struct abx_error err;
    assert_int_equal(abx_multipart_init(&r.m, ABX_STR(FORM), &err), 0);
    abx_buf_init(&r.log, 1000);
    feed(&r, abx_buf_str(body));
    assert_true(r.is_broken);
    assert_true(r.m.line.cap <= ABX_MULTIPART_HEAD_MAX + 1);
    abx_multipart_done(&r.m);
    abx_buf_done(&r.log);
}

TEST(multipart_bounds_what_it_collects)
{
    ABX_AUTO_BUF body;
    abx_buf_init(&body, 1 << 20);
    abx_buf_put_c(&body, "--XX\r\nA: ");
    for (int i = 0; i < ABX_MULTIPART_HEAD_MAX; i++)
        abx_buf_put_byte(&body, 'x');
    expect_refused(&body);
    abx_buf_clear(&body);
    abx_buf_put_c(&body, "--XX\r\n");
    for (int i = 0; i < 33; i++)
        abx_buf_put_c(&body, "A: b\r\n");
    abx_buf_put_c(&body, "\r\n");
    expect_refused(&body);
    abx_buf_clear(&body);
    abx_buf_put_c(&body, "--XX");
    for (int i = 0; i <= ABX_MULTIPART_HEAD_MAX; i++)
        abx_buf_put_byte(&body, ' ');
    expect_refused(&body);
}

TEST(multipart_does_not_copy_data)
{
    static const char body[] = "--XX\r\n\r\nsome data\r\n--XX--";
    struct abx_multipart m;
    struct abx_error err;
    struct abx_str in = ABX_STR(body), data;
    assert_int_equal(abx_multipart_init(&m, ABX_STR(FORM), &err), 0);
    assert_int_equal(abx_multipart_parse(&m, &in, &data, &err), ABX_MULTIPART_PART);
    assert_int_equal(abx_multipart_parse(&m, &in, &data, &err), ABX_MULTIPART_DATA);
    assert_ptr_equal(data.ptr, body + 8);
    assert_int_equal(data.len, 9);
    abx_multipart_done(&m);
}

TEST(multipart_takes_its_boundary_from_the_type)
{
    static const struct {
        const char *type;
        int got;
    } rows[] = {
        {"multipart/form-data; boundary=a", 0},
        {"Multipart/Mixed;charset=x; BOUNDARY=\"a b:c\"", 0},
        {"multipart/form-data", -1},
        {"multipart/form-data; boundary=", -1},
        {"multipart/form-data; boundary=\"\"", -1},
        {"multipart/form-data; boundary=\"a \"", -1},
        {"multipart/form-data; boundary=\"a\rb\"", -1},
        {"multipart/form-data; boundary=a; boundary=b", -1},
        {"multipart/form-data; boundary=\"a", -1},
        {"multipart/form-data; boundary="
         "0123456789012345678901234567890123456789012345678901234567890123456789",
         0},
        {"multipart/form-data; boundary="
         "01234567890123456789012345678901234567890123456789012345678901234567890",
         -1},
        {"text/plain; boundary=a", -1},
        {"", -1},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_multipart m;
        struct abx_error err;
        int got = abx_multipart_init(&m, abx_str(rows[i].type), &err);
        if (got != rows[i].got)
            fail_msg("<%s>: %d", rows[i].type, got);
        abx_multipart_done(&m);
    }
}

TEST(media_params_are_unquoted_and_decoded)
{
    static const struct {
        const char *value, *want;
        int got;
    } rows[] = {
        {"x; f=a", "a", 1},
        {"x ;F=\"a\\\"b\\\\c\\d\"", "a\"b\\c\\d", 1},
        {"x; f=\"C:\\dir\\f\"; g=1", "C:\\dir\\f", 1},
        {"x; f*=utf-8''%e2%82%ac; f=plain", "\xe2\x82\xac", 1},
        {"x; f=plain; f*=UTF-8'en'a", "a", 1},
        {"x;;f=a;", "a", 1},
        {"x", NULL, 0},
        {"x; ff=a", NULL, 0},
        {"x; g=f", NULL, 0},
        {"x; f", NULL, -1},
        {"x; f=", NULL, -1},
        {"x; =a", NULL, -1},
        {"x; f=a b", NULL, -1},
        {"x; f=\"a\"b", NULL, -1},
        {"x; f*=latin1''a", NULL, -1},
        {"x; f*=utf-8''%ff", NULL, -1},
        {"x; f*=a", NULL, -1},
        {"x; f=1; f=2", NULL, -1},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_str out = {0};
        abx_arena_init(&a, 4096);
        int got = abx_media_param(abx_str(rows[i].value), "f", &a, &out);
        if (got != rows[i].got || (got == 1 && !abx_str_is(out, rows[i].want)))
            fail_msg("<%s>: %d <%.*s>", rows[i].value, got, ABX_STR_FMT(out));
        abx_arena_done(&a);
    }
}

TEST(media_type_is_lower_cased_and_checked)
{
    char out[20];
    assert_int_equal(abx_media_type(ABX_STR(" Text/PLAIN ; a=b"), out, sizeof(out)), 0);
    assert_string_equal(out, "text/plain");
    assert_int_equal(abx_media_type(ABX_STR("form-data"), out, sizeof(out)), 0);
    static const char *const bad[] = {"",      ";",     "a/",      "/a",
                                      "a/b/c", "a b/c", "a/b\x01", "application/very-long-name"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        assert_int_equal(abx_media_type(abx_str(bad[i]), out, sizeof(out)), -1);
}

TEST(multipart_reports_that_there_is_no_memory)
{
    static const char body[] =
        "--XX\r\nContent-Disposition: form-data; name=\"a\"; filename=b\r\n\r\nx\r\n--XX--";
    unsigned failures = 0;
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        struct abx_multipart m;
        struct abx_error err;
        struct abx_str data, in = ABX_STR(body);
        int e = abx_multipart_init(&m, ABX_STR("multipart/form-data; boundary=\"XX\""), &err);
        if (e == 0)
            do {
                e = (int)abx_multipart_parse(&m, &in, &data, &err);
            } while (e != ABX_MULTIPART_ERROR && e != ABX_MULTIPART_END);
        assert_int_equal(e != ABX_MULTIPART_END, abx_alloc_failed());
        failures += abx_alloc_failed();
        abx_multipart_done(&m);
    }
    assert_true(failures >= 4); /* boundary, header lines, fields, names */
}
