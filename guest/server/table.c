/* guest/server/table.c: commands of a YAML file: programs that the server runs itself, with
 * arguments filled into their words. Loop thread; paths are judged on the pool. command-hosts.md 4,
 * security S30. */
#include "guest/caps/run.h"
#include "guest/server/commands_priv.h"
#include "guest/server/exec.h"
#include "guest/server/table_priv.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/json/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { OUTPUT_MAX = 16 << 20, WORDS_MAX = 4096, SHOWN = 300 };

struct run {
    struct abx__running running;
    struct abx__call *call;
    struct abx__server *server;
    const struct abx__command *command;
    struct abx_buf out[2]; /* stdout, stderr */
    bool is_truncated;
};

/* What a call's job prepares: its arena outlives the start only. */
struct plan {
    const struct abx__command *command;
    struct abx_str args;
    uint32_t deadline_ms;
    char **argv, **envp;
    const char *cwd;
    struct abx_str input; /* ptr NULL: none */
};

/* ---- the answer ---- */

static void put_lines(struct abx_json_writer *w, struct abx_str text)
{
    struct abx_str line;
    abx_json_begin_array(w);
    while (text.len > 0 && abx_str_split(&text, '\n', &line))
        abx_json_str(w, line);
    abx_json_end_array(w);
}

static void put_raw(struct abx_json_writer *w, const struct run *r, const struct abx_run_end *end)
{
    abx_json_begin_object(w);
    abx_json_kv_str(w, "stdout", abx_buf_str(&r->out[0]));
    abx_json_kv_str(w, "stderr", abx_buf_str(&r->out[1]));
    abx_json_kv_i64(w, "exit_code", end->exit_code);
    if (r->is_truncated)
        abx_json_kv_bool(w, "truncated", true);
    abx_json_end_object(w);
}

static void put_value(struct abx_buf *body, const struct run *r, const struct abx_run_end *end)
{
    struct abx_json_writer w;
    struct abx_str out = abx_buf_str(&r->out[0]);
    abx_json_writer_init(&w, body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("result"));
    switch (r->command->row->result) {
    case ABX__TABLE_RAW:
        put_raw(&w, r, end);
        break;
    case ABX__TABLE_TEXT:
        abx_json_str(&w, out);
        break;
    case ABX__TABLE_LINES:
        put_lines(&w, out);
        break;
    case ABX__TABLE_JSON:
        abx_json_raw(&w, out);
        break;
    case ABX__TABLE__RESULTS:
        break;
    }
    abx_json_end_object(&w);
}

/* What was written to standard error says most about a failure. */
static struct abx_str last_words(const struct run *r)
{
    struct abx_str s = abx_buf_str(&r->out[1]);
    while (s.len > 0 && (s.ptr[s.len - 1] == '\n' || s.ptr[s.len - 1] == ' '))
        s.len--;
    return s.len > SHOWN ? abx_str_sub(s, s.len - SHOWN, SHOWN) : s;
}

static void fail_check(struct abx__call *c, const struct run *r, const struct abx_run_end *end)
{
    struct abx_str said = last_words(r);
    int shown = (int)r->command->name.len;
    if (end->exit_code < 0)
        abx__call_fail(c, 500, "CalledProcessError", "Command '%.*s' died with signal %d%s%.*s",
                       shown, r->command->name.ptr, -end->exit_code, said.len ? ": " : "",
                       ABX_STR_FMT(said));
    else
        abx__call_fail(
            c, 500, "CalledProcessError", "Command '%.*s' returned non-zero exit status %d%s%.*s",
            shown, r->command->name.ptr, end->exit_code, said.len ? ": " : "", ABX_STR_FMT(said));
}

static void answer(struct abx__call *c, const struct run *r, const struct abx_run_end *end)
{
    const struct abx__table_row *row = r->command->row;
    ABX_AUTO_BUF body;
    abx_buf_init(&body, (size_t)OUTPUT_MAX * 12 + 4096); /* a control byte becomes six */
    if (end->by_deadline)
        abx__call_fail(c, 504, "TimeoutError", "the command took longer than it may");
    else if (abx_buf_failed(&r->out[0]) || abx_buf_failed(&r->out[1]))
        abx__call_fail(c, 500, "MemoryError", "the output does not fit into memory");
    else if (row->is_checked && end->exit_code != 0)
        fail_check(c, r, end);
    else if (row->result != ABX__TABLE_RAW && r->is_truncated)
        abx__call_fail(c, 500, "ValueError", "the output is larger than %d bytes", (int)OUTPUT_MAX);
    else if (row->result == ABX__TABLE_JSON && !abx_scan_is_json(abx_buf_str(&r->out[0])))
        abx__call_fail(c, 500, "ValueError", "the output is no JSON; exit status %d",
                       end->exit_code);
    else {
        put_value(&body, r, end);
        abx__call_answer(c, &body);
    }
}

/* ---- running ---- */

static void free_run(struct run *r)
{
    abx_run_close(r->running.run);
    abx_list_remove(&r->running.node);
    r->server->commands->table_running--;
    abx_buf_done(&r->out[0]);
    abx_buf_done(&r->out[1]);
    free(r);
}

/* Answered, or the client has left: then nobody waits for the program. */
static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    free_run(c->data);
}

static bool on_data(struct abx_run *run, enum abx_output kind, struct abx_str data)
{
    struct run *r = abx_run_owner(run);
    struct abx_buf *out = &r->out[kind == ABX_OUTPUT_STDERR];
    size_t room = (size_t)OUTPUT_MAX - out->len;
    r->is_truncated = r->is_truncated || data.len > room;
    abx_buf_put(out, data.ptr, data.len < room ? data.len : room);
    return true; /* what is too much is read and dropped */
}

static void on_end(struct abx_run *run, const struct abx_run_end *end)
{
    struct run *r = abx_run_owner(run);
    abx__exec_note_end(r->call, end);
    answer(r->call, r, end);
}

static const struct abx_run_ops run_ops = {.on_data = on_data, .on_end = on_end};

/* A file of its own, so that a program that does not read holds nobody up. */
static int input_fd(struct abx_str text)
{
    int fd = memfd_create("abx-input", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : abx_fd_write_all(fd, text.ptr, text.len);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r < 0)
        abx_fd_close(&fd);
    return r < 0 ? r : fd;
}

static void begin(struct abx__call *c, struct run *r, const struct plan *p)
{
    struct abx_error err = {0};
    ABX_AUTO_FD input = -1;
    if (p->input.ptr && (input = input_fd(p->input)) < 0) {
        free_run(r);
        abx__call_fail(c, 500, "OSError", "no memory for the input");
        return;
    }
    struct abx_run_spec spec = {.path = p->argv[0],
                                .search_path = c->server->path,
                                .argv = p->argv,
                                .envp = p->envp,
                                .cwd = p->cwd,
                                .timeout_ms = p->deadline_ms,
                                .stdin_fd = input};
    if (abx__exec_start(c, &spec, &run_ops, r, &r->running.run, &err) < 0) {
        free_run(r);
        if (err.sys)
            abx__call_fail_errno(c, err.sys, p->argv[0]);
        else
            abx__call_fail(c, 500, "OSError", "%s", err.msg);
        return;
    }
    c->data = r;
    c->on_close = on_close;
}

static void start(struct abx__job *j)
{
    const struct plan *p = j->data;
    struct abx__call *c = j->call;
    struct run *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    r->call = c;
    r->server = c->server;
    r->command = p->command;
    r->server->commands->table_running++;
    abx_list_push(&r->server->shells, &r->running.node); /* no program of /shell: not counted */
    abx_buf_init(&r->out[0], OUTPUT_MAX);
    abx_buf_init(&r->out[1], OUTPUT_MAX);
    begin(c, r, p);
}

/* ---- preparing (pool) ---- */

static bool no_memory(struct abx__job *j)
{
    return abx__job_fail(j, 500, "MemoryError", "out of memory");
}

/* A folder that callers have a word in is judged like any that they name. */
static bool set_cwd(struct abx__job *j, struct plan *p, const struct abx__word_value *values)
{
    const struct abx__table_row *row = p->command->row;
    struct abx__bounds bounds;
    struct abx_str dir = abx__word_text(&row->cwd, values, &j->arena);
    struct abx__path_ask ask = {.path = dir, .op = ABX_OP_EXEC, .field = "cwd"};
    if (dir.ptr == NULL)
        return no_memory(j);
    if (dir.len == 0)
        return true;
    if (abx__word_varies(&row->cwd)) {
        if (abx__bounds_init(&bounds, j->policy, j->rule, &j->arena) < 0)
            return no_memory(j);
        if (!abx__bounds_judge(&bounds, &ask, &dir, &j->verdict))
            return false;
        abx__job_note(j, dir);
    }
    p->cwd = abx_arena_c(&j->arena, dir);
    return p->cwd || no_memory(j);
}

static bool set_env(struct abx__job *j, struct plan *p, const struct abx__word_value *values)
{
    const struct abx__table_row *row = p->command->row;
    struct abx__pair *pairs = abx_arena_array(&j->arena, row->env_count + 1, sizeof(*pairs));
    for (size_t i = 0; pairs && i < row->env_count; i++) {
        pairs[i].name = row->env[i].name;
        pairs[i].value = abx__word_text(&row->env[i].value, values, &j->arena);
        if (pairs[i].value.ptr == NULL)
            return no_memory(j);
    }
    p->envp = pairs ? abx__environment_of(&j->who, pairs, row->env_count, &j->arena) : NULL;
    return p->envp || no_memory(j);
}

static bool set_argv(struct abx__job *j, struct plan *p, const struct abx__word_value *values)
{
    const struct abx__table_row *row = p->command->row;
    size_t n = 0;
    p->argv = abx_arena_array(&j->arena, WORDS_MAX + 1, sizeof(*p->argv));
    for (size_t i = 0; p->argv && i < row->argc; i++)
        if (abx__word_add(&row->argv[i], values, &j->arena, p->argv, &n, WORDS_MAX) < 0)
            return abx__job_fail(j, 400, "ValueError", "the arguments make more than %d words",
                                 (int)WORDS_MAX);
    return p->argv || no_memory(j);
}

static void prepare(struct abx__job *j)
{
    struct plan *p = j->data;
    const struct abx__table_row *row = p->command->row;
    struct abx__word_value *values;
    bool has_nul;
    if (abx__word_values(p->command->declared, p->args, &j->arena, &values, &has_nul) < 0) {
        if (has_nul)
            abx__job_fail(j, 400, "ValueError", "an argument holds a NUL");
        else
            no_memory(j);
        return;
    }
    if (!set_argv(j, p, values) || !set_env(j, p, values) || !set_cwd(j, p, values))
        return;
    if (row->has_input) {
        p->input = abx__word_text(&row->input, values, &j->arena);
        if (p->input.ptr == NULL)
            no_memory(j);
    }
}

void abx__table_call(struct abx__call *c, const struct abx__command *command, struct abx_str args)
{
    struct plan *p;
    if (c->server->commands->table_running >= ABX_HOST_CALLS_MAX) {
        abx__commands_too_many(c);
        return;
    }
    struct abx__job *j = abx__job_new(c, prepare, 4096);
    if (j == NULL)
        return;
    j->done = start;
    p = abx__job_data(j, sizeof(*p));
    if (p) {
        *p = (struct plan){.command = command,
                           .args = abx_arena_str(&j->arena, args),
                           .deadline_ms = abx__command_deadline_ms(c, command)};
        if (p->args.ptr == NULL)
            no_memory(j);
    }
    abx__job_start(j);
}
