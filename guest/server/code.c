/* guest/server/code.c: POST /code/run: a piece of code in an interpreter. server-api.md 4.7. */
#include "guest/server/as_user.h"
#include "guest/server/exec.h"
#include "guest/server/helper.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/policy/guards.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    OUTPUT_MAX = 16 << 20, /* of each stream, without max_output_bytes */
    ARGUMENT_MAX = 131071, /* of one argument; the kernel takes no more */
    TIMEOUT_S = 30,
    TIMEOUT_MAX_S = 300,
};
#define NUMBER_MAX 1e308 /* what stands for a number beyond all others */

static const struct language {
    const char *name, *program, *flag;
    const char *from_file; /* what runs the file that is open as number 3 */
} languages[] = {
    {"python", "python3", "-c",
     "exec(compile(open(3, encoding='utf-8').read(), '<string>', 'exec'))"},
    {"node", "node", "-e",
     "require('vm').runInThisContext(require('fs').readFileSync(3, 'utf8'), '[eval]')"},
    {"bash", "bash", "-c", ". /proc/self/fd/3"},
};

struct code {
    const struct language *language;
    struct abx_str text, user_asked;
    const struct abx_user *user;
    uint64_t timeout_ms;
    size_t max;
    int64_t began_ms;
};

/* ---- fields ---- */

static bool refuse(struct abx__call *c, const char *text)
{
    abx__call_fail(c, 400, "ValueError", "%s", text);
    return false;
}

static bool read_language(struct abx__call *c, struct code *x)
{
    const json_t *v = abx__call_field(c, "language");
    struct abx_str name = ABX_STR("python");
    if (v && !json_is_string(v))
        return refuse(c, "'language' must be python, node or bash");
    if (v)
        name = abx_str_n(json_string_value(v), json_string_length(v));
    for (size_t i = 0; i < ABX_COUNTOF(languages); i++)
        if (abx_str_is_nocase(name, languages[i].name))
            x->language = &languages[i];
    if (x->language == NULL)
        return refuse(c, "'language' must be python, node or bash");
    struct abx_policy_verdict verdict = {0};
    if (abx_policy_language_check(c->rule, name, &verdict))
        return true;
    abx__call_deny(c, &verdict);
    return false;
}

/* Whole seconds; what is no number, or not positive, is the default. False: answered. */
static bool read_timeout(struct abx__call *c, struct code *x)
{
    const json_t *v = abx__call_field(c, "timeout");
    double s = TIMEOUT_S;
    int64_t whole;
    if (json_is_number(v))
        s = trunc(json_number_value(v));
    else if (json_is_true(v))
        s = 1;
    else if (json_is_string(v) &&
             abx_parse_i64(abx_str_trim(abx_str(json_string_value(v))), &whole) == 0)
        s = (double)whole;
    if (fabs(s) >= NUMBER_MAX)
        return refuse(c, "'timeout' is beyond all numbers");
    if (s <= 0)
        s = TIMEOUT_S;
    s = s > TIMEOUT_MAX_S ? TIMEOUT_MAX_S : s;
    double limit = trunc(abx_policy_limit_f64(c->rule, ABX_LIMIT_TIMEOUT_SECONDS, s));
    s = limit < s ? limit : s;
    x->timeout_ms = (uint64_t)(s < 1 ? 1 : s) * 1000;
    return true;
}

static bool read_code(struct abx__call *c, struct code *x)
{
    uint64_t max = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_OUTPUT_BYTES, OUTPUT_MAX);
    x->max = max < OUTPUT_MAX ? (size_t)max : (size_t)OUTPUT_MAX;
    if (!abx__call_string(c, "code", &x->text))
        return false;
    if (memchr(x->text.ptr, '\0', x->text.len))
        return refuse(c, "'code' holds a NUL");
    return read_language(c, x) && read_timeout(c, x) && abx__user_read(c, &x->user_asked);
}

/* ---- the answer ---- */

static void put_streams(struct abx_json_writer *w, const struct abx__helper_result *r)
{
    abx_json_kv_str(w, "stdout", abx__whole_characters(r->out, r->is_out_cut));
    abx_json_kv_str(w, "stderr", abx__whole_characters(r->errs, r->is_errs_cut));
}

static void put_marks(struct abx_json_writer *w, const struct abx__helper_result *r)
{
    if (r->is_out_cut || r->is_errs_cut)
        abx_json_kv_bool(w, "truncated", true);
    if (r->is_output_open && !r->by_deadline)
        abx_json_kv_bool(w, "background_output", true);
}

static void on_end(struct abx__call *c, void *arg, const struct abx__helper_result *r)
{
    const struct code *x = arg;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, x->max * 12 + 4096); /* a control byte becomes six */
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    if (r->by_deadline) {
        abx_json_kv_c(&w, "error", "the code did not end in time");
        abx_json_kv_c(&w, "type", "TimeoutError");
    }
    put_streams(&w, r);
    if (!r->by_deadline) {
        abx_json_kv_i64(&w, "exit_code", r->exit_code);
        abx_json_kv_c(&w, "language", x->language->name);
        abx_json_key(&w, ABX_STR("execution_time_ms"));
        abx_json_f64(&w, (double)(abx_time_mono_ms() - x->began_ms));
        abx_json_kv_c(&w, "_security_note",
                      "the code runs with the rights of the server's programs; what bounds it is "
                      "the sandbox");
    }
    put_marks(&w, r);
    abx__memory_put(&w, c->ran.is_out_of_memory);
    abx_json_end_object(&w);
    if (abx_buf_failed(&body))
        abx__call_fail(c, 500, "MemoryError", "the output does not fit into memory");
    else
        abx__call_answer_status(c, r->by_deadline ? 408 : 200, NULL, abx_buf_str(&body));
}

/* ---- the run ---- */

/* A file without a name that holds the code; -errno. */
static int code_file(struct abx_str text)
{
    ABX_AUTO_FD fd = memfd_create("code", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = abx_fd_write_all(fd, text.ptr, text.len);
    if (rc < 0)
        return rc;
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : abx_fd_take(&fd);
}

/* Argv lives in the job, which goes after the start; what on_end needs in the request. */
static void run(struct abx__job *j, const struct code *x)
{
    struct abx__call *c = j->call;
    const struct language *l = x->language;
    bool is_long = x->text.len > ARGUMENT_MAX;
    struct code *kept = abx_arena_alloc(c->req->arena, sizeof(*kept));
    char *argv[] = {abx_arena_c(&j->arena, abx_str(l->program)),
                    abx_arena_c(&j->arena, abx_str(l->flag)),
                    abx_arena_c(&j->arena, is_long ? abx_str(l->from_file) : x->text), NULL};
    ABX_AUTO_FD file = is_long ? code_file(x->text) : -1;
    struct abx__helper_spec spec = {.program = l->program,
                                    .argv = argv,
                                    .timeout_ms = x->timeout_ms,
                                    .max = x->max,
                                    .user = x->user,
                                    .exec_fd = file};
    if (is_long && file < 0)
        abx__call_fail_errno(c, -file, "a file for the code");
    else if (argv[0] == NULL || argv[1] == NULL || argv[2] == NULL || kept == NULL)
        abx__call_fail(c, 500, "MemoryError", "out of memory");
    else {
        *kept = *x;
        abx__helper_run(c, &spec, on_end, kept);
    }
}

static void judge(struct abx__job *j)
{
    struct code *x = j->data;
    if (abx__exec_judge_named(j, abx_str(x->language->program)))
        abx__user_judge(j, x->user_asked, &x->user);
}

static void judged(struct abx__job *j)
{
    run(j, j->data);
}

static void code_post(struct abx__call *c)
{
    struct code x = {.began_ms = abx_time_mono_ms()};
    if (!read_code(c, &x))
        return;
    /* the text stays in the body, which the job has */
    struct abx__job *j = abx__job_with(c, judge, 4096, &x, sizeof(x));
    if (j == NULL)
        return;
    j->done = judged;
    abx__job_start(j);
}

const struct abx__route abx__code_routes[] = {{"code_run", code_post}, {0}};
