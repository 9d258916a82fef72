/* host/image/build.c: one build: a step at a time is a sandbox on the layers so far, whose upper
 * becomes the next layer (engine.md 4). A job is one running step; it outlives its build until
 * nothing of its sandbox is left. Loop thread. */
#include "host/image/image_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "lib/contract/step.h"
#include "lib/loop/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { INPUT_MAX = 2 * (ABX_STEP_FRAME_BYTES + sizeof(struct abx_step_frame)), TITLE_MAX = 128 };

struct job;
struct abx_build {
    struct abx_loop *loop;
    struct abx_runtime *rt;
    struct abx_build_options o;
    struct abx_image *image;
    struct job *job; /* the running step, or NULL */
};

struct job {
    struct abx_build *b; /* NULL: the build is closed, nobody listens */
    struct abx_loop *loop;
    struct abx_runtime *rt;
    struct abx_image *next; /* the image once the step is done */
    struct abx_step_result result;
    enum abx_step_type type;
    char id[ABX_SANDBOX_ID_LEN + 1], title[TITLE_MAX];
    struct abx_buf order, input;
    int archive_fd;
    struct abx_stream line;
    struct abx_timer timer;
    struct abx_defer later;
    uint64_t log_bytes, time_ms;
    struct abx_step_exit exit;
    bool asked, made, has_exit, line_ended, ending;
    int holds; /* handles and calls that will still come */
    struct abx_error err;
};

/* ---- the end of a job ---- */
static void release(struct job *j)
{
    if (--j->holds > 0)
        return;
    abx_image_free(j->next);
    abx_buf_done(&j->order);
    abx_buf_done(&j->input);
    abx_fd_close(&j->archive_fd);
    free(j);
}

static void tell(struct job *j)
{
    struct abx_build *b = j->b;
    if (b == NULL)
        return;
    b->job = NULL;
    j->b = NULL;
    if (j->err.code == ABX_OK) {
        struct abx_image *done = b->image;
        b->image = j->next;
        j->next = done;
    }
    /* may start the next step, or close the build */
    b->o.events.on_step(b->o.events.arg, &j->result, j->err.code == ABX_OK ? NULL : &j->err);
}

static void on_ended(void *arg, const struct abx_error *err)
{
    struct job *j = arg;
    if (err != NULL && j->err.code == ABX_OK)
        j->err = *err;
    tell(j);
    release(j);
}

static void on_timer_closed(void *owner)
{
    release(owner);
}

static void judge(struct job *j)
{
    if (j->err.code != ABX_OK)
        return;
    if (!j->has_exit) {
        abx_err_set(&j->err, ABX_ABORTED, "%s: the step's sandbox died (out of memory?)", j->title);
        j->result.exit_code = 137;
        return;
    }
    j->result.exit_code = j->exit.exit_code;
    if (j->exit.is_failure)
        abx_err_set(&j->err, ABX_INVALID_ARGUMENT, "%.*s", (int)sizeof(j->exit.message) - 1,
                    j->exit.message);
    else if (j->exit.signum != 0 || j->exit.exit_code != 0)
        abx_err_set(&j->err, ABX_ABORTED, "failed to run command '%s': exit status %d", j->title,
                    j->exit.exit_code);
}

/* Goes on when both the answer to the request and the end of the line are there. */
static void advance(struct job *j)
{
    bool over = j->has_exit || j->line_ended || j->err.code != ABX_OK;
    if (j->ending || j->asked || !over)
        return;
    j->ending = true;
    judge(j);
    abx_stream_close(&j->line);
    abx_timer_close(&j->timer, on_timer_closed);
    j->holds++;
    if (!j->made)
        on_ended(j, NULL);
    else if (j->err.code == ABX_OK)
        abx_runtime_seal(j->rt, j->id, &j->result.layer, on_ended, j);
    else
        abx_runtime_destroy(j->rt, j->id, on_ended, j);
}

/* ---- the line ---- */
static void take_output(struct job *j, enum abx_build_stream stream, struct abx_str text)
{
    j->log_bytes += text.len;
    if (j->log_bytes > ABX_STEP_LOG_BYTES) {
        abx_err_set(&j->err, ABX_RESOURCE_EXHAUSTED, "%s: over %d MiB of output", j->title,
                    ABX_STEP_LOG_BYTES >> 20);
        return;
    }
    if (j->b != NULL && j->b->o.events.on_output != NULL)
        j->b->o.events.on_output(j->b->o.events.arg, stream, text);
}

/* The frames that are whole; what a sandbox says is hostile. */
static void take_frames(struct job *j)
{
    struct abx_step_frame f;
    while (j->err.code == ABX_OK && !j->has_exit && j->input.len >= sizeof(f)) {
        memcpy(&f, j->input.ptr, sizeof(f));
        bool is_output = f.type == ABX_STEP_STDOUT || f.type == ABX_STEP_STDERR;
        bool is_exit = f.type == ABX_STEP_EXIT && f.bytes == sizeof(j->exit);
        if ((!is_output && !is_exit) || f.bytes > ABX_STEP_FRAME_BYTES) {
            abx_err_set(&j->err, ABX_INTERNAL, "%s: the step's answer is malformed", j->title);
            return;
        }
        if (j->input.len < sizeof(f) + f.bytes)
            return;
        const char *content = j->input.ptr + sizeof(f);
        if (is_output) {
            take_output(j, (enum abx_build_stream)f.type, abx_str_n(content, f.bytes));
        } else {
            memcpy(&j->exit, content, sizeof(j->exit));
            j->exit.message[sizeof(j->exit.message) - 1] = 0;
            j->has_exit = true;
        }
        abx_buf_consume(&j->input, sizeof(f) + f.bytes);
    }
}

static void on_line_data(struct abx_stream *s, const char *data, size_t len)
{
    struct job *j = s->owner;
    while (len > 0 && j->err.code == ABX_OK && !j->has_exit) {
        size_t room = INPUT_MAX - j->input.len, n = len < room ? len : room;
        abx_buf_put(&j->input, data, n);
        if (abx_buf_failed(&j->input))
            abx_err_set(&j->err, ABX_RESOURCE_EXHAUSTED, "no memory");
        take_frames(j);
        data += n;
        len -= n;
    }
    advance(j);
}

static void on_line_end(struct abx_stream *s, int err)
{
    struct job *j = s->owner;
    (void)err;
    j->line_ended = true;
    advance(j);
}

static void on_line_closed(struct abx_stream *s)
{
    release(s->owner);
}

static const struct abx_stream_ops line_ops = {
    .on_data = on_line_data, .on_end = on_line_end, .on_closed = on_line_closed};

static void on_time(struct abx_timer *t)
{
    struct job *j = t->owner;
    if (j->err.code == ABX_OK)
        abx_err_set(&j->err, ABX_DEADLINE_EXCEEDED, "%s: over %llu s", j->title,
                    (unsigned long long)(j->time_ms / 1000));
    advance(j);
}

static void on_made(void *arg, const struct abx_sandbox_info *info, const struct abx_error *err)
{
    struct job *j = arg;
    j->asked = false;
    j->made = info != NULL;
    if (err != NULL && j->err.code == ABX_OK)
        j->err = *err;
    advance(j);
}

/* ---- starting ---- */
static void make_id(char id[ABX_SANDBOX_ID_LEN + 1])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    id[0] = 'i';
    for (int i = 1; i < ABX_SANDBOX_ID_LEN; i++)
        id[i] = digits[randombytes_uniform(sizeof(digits) - 1)];
    id[ABX_SANDBOX_ID_LEN] = 0;
}

static int write_order(struct job *j, int line, struct abx_error *err)
{
    int room = ABX_STEP_TEXT_BYTES + 64 * 1024;
    (void)setsockopt(line, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    ssize_t n = send(line, j->order.ptr, j->order.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t)j->order.len)
        return 0;
    return n < 0 ? abx_err_sys(err, -errno, "write the step's order")
                 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "the step's order is too long here");
}

static int open_line(struct job *j, int *ret_theirs, int *ret_feed, struct abx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_err_sys(err, -errno, "socketpair");
    ABX_AUTO_FD ours = ends[0];
    ABX_AUTO_FD theirs = ends[1];
    ABX_AUTO_FD feed = -1;
    if (write_order(j, ours, err) < 0)
        return -1;
    if (j->archive_fd < 0)
        (void)shutdown(ours, SHUT_WR);
    else if ((feed = fcntl(ours, F_DUPFD_CLOEXEC, 0)) < 0)
        return abx_err_sys(err, -errno, "the line of a step");
    if (abx_stream_open(&j->line, j->loop, abx_fd_take(&ours), &line_ops, j, err) < 0)
        return -1;
    j->holds++;
    abx_stream_resume(&j->line);
    *ret_theirs = abx_fd_take(&theirs);
    *ret_feed = abx_fd_take(&feed);
    return 0;
}

static void start(struct job *j)
{
    struct abx_sandbox_spec spec = {.pids_max = ABX_SANDBOX_PIDS, .is_step = true};
    const struct abx_build *b = j->b;
    int theirs = -1, feed = -1;
    if (open_line(j, &theirs, &feed, &j->err) < 0) {
        on_ended(j, NULL);
        return;
    }
    abx_image_to_spec(b->image, &spec);
    spec.memory_mb = b->o.memory_mb ? b->o.memory_mb : ABX_SANDBOX_MEMORY_MB;
    spec.cpu_count = b->o.cpu_count ? b->o.cpu_count : ABX_SANDBOX_CPUS;
    make_id(j->id);
    memcpy(spec.id, j->id, sizeof(spec.id));
    randombytes_buf(spec.nonce, sizeof(spec.nonce));
    j->time_ms = b->o.step_time_ms ? b->o.step_time_ms : ABX_STEP_TIME_MS;
    abx_timer_init(&j->timer, j->loop, on_time, j);
    abx_timer_start(&j->timer, j->time_ms, 0);
    j->asked = true;
    abx_runtime_step(j->rt, &spec, theirs, abx_fd_take(&j->archive_fd), feed, on_made, j);
}

static void on_found(void *arg, uint32_t missing, const struct abx_error *err)
{
    struct job *j = arg;
    if (err != NULL)
        j->err = *err;
    j->result.cached = err == NULL && missing == 0;
    if (j->b == NULL || err != NULL || j->result.cached)
        on_ended(j, NULL);
    else
        start(j);
}

static void on_later(struct abx_defer *d)
{
    struct job *j = d->owner;
    on_ended(j, NULL);
}

/* Everything that depends on @s, so that it need not be kept. */
static int prepare(struct job *j, const struct abx_step *s, const struct abx_image *img)
{
    if (s->type < 0 || s->type >= ABX_STEP__COUNT)
        return abx_err_set(&j->err, ABX_INVALID_ARGUMENT, "unknown step");
    bool needs_name = s->type == ABX_STEP_WORKDIR || s->type == ABX_STEP_USER;
    if (needs_name && (s->name == NULL || *s->name == 0))
        return abx_err_set(&j->err, ABX_INVALID_ARGUMENT, "the step needs a name");
    if (s->type == ABX_STEP_RUN && s->command == NULL && (s->argv == NULL || s->argv[0] == NULL))
        return abx_err_set(&j->err, ABX_INVALID_ARGUMENT, "RUN needs a command");
    if (s->type == ABX_STEP_COPY && (s->src == NULL || s->dest == NULL || j->archive_fd < 0))
        return abx_err_set(&j->err, ABX_INVALID_ARGUMENT, "COPY needs files hash to be set");
    const char *text = s->type != ABX_STEP_RUN ? "step" : s->command ? s->command : s->argv[0];
    snprintf(j->title, sizeof(j->title), "%.100s", text);
    j->next = abx_image_copy(img);
    if (j->next == NULL)
        return abx_err_set(&j->err, ABX_RESOURCE_EXHAUSTED, "no memory");
    if (s->type != ABX_STEP_ENV) {
        if (abx__order_encode(s, img, &j->order, &j->err) < 0)
            return -1;
        abx__order_digest(s, img, &j->result.layer);
        j->result.has_layer = true;
        if (abx__image_add_layer(j->next, &j->result.layer, &j->err) < 0)
            return -1;
    }
    return abx__order_apply(s, j->next, &j->err);
}

void abx_build_step(struct abx_build *b, const struct abx_step *step)
{
    ABX_ASSERT(b->job == NULL);
    struct job *j = calloc(1, sizeof(*j));
    int archive = step->type == ABX_STEP_COPY ? step->take_archive_fd : -1;
    if (j == NULL) {
        struct abx_error err;
        struct abx_step_result none = {0};
        abx_fd_close(&archive);
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory");
        b->o.events.on_step(b->o.events.arg, &none, &err);
        return;
    }
    *j = (struct job){.b = b, .loop = b->loop, .rt = b->rt, .archive_fd = archive, .holds = 1};
    j->type = step->type;
    abx_buf_init(&j->order, 2 * ABX_STEP_TEXT_BYTES);
    abx_buf_init(&j->input, INPUT_MAX);
    b->job = j;
    if (prepare(j, step, b->image) < 0 || step->type == ABX_STEP_ENV)
        abx_defer_start(&j->later, b->loop, on_later, j);
    else
        abx_runtime_layers_find(b->rt, &j->result.layer, 1, on_found, j);
}

int abx_build_open(struct abx_loop *l, struct abx_runtime *rt, const struct abx_image *base,
                   const struct abx_build_options *o, struct abx_build **ret, struct abx_error *err)
{
    struct abx_build *b = calloc(1, sizeof(*b));
    struct abx_image *image = abx_image_copy(base);
    if (b == NULL || image == NULL || sodium_init() < 0) {
        free(b);
        abx_image_free(image);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    }
    *b = (struct abx_build){.loop = l, .rt = rt, .o = *o, .image = image};
    *ret = b;
    return 0;
}

const struct abx_image *abx_build_image(const struct abx_build *b)
{
    return b->image;
}

void abx_build_close(struct abx_build *b)
{
    if (b == NULL)
        return;
    struct job *j = b->job;
    if (j != NULL) {
        j->b = NULL;
        abx_err_set(&j->err, ABX_CANCELED, "the build was canceled");
        if (j->line.ops != NULL)
            advance(j);
    }
    abx_image_free(b->image);
    free(b);
}
