/* guest/step/step.c: the order of a build step and the answer to it. */
#include "guest/step/step.h"
#include "guest/step/step_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

int abx__step_read(const struct abx__step *s, void *data, size_t len)
{
    ssize_t n = abx_fd_read_all(s->line_fd, data, len);
    return n < 0 ? (int)n : ((size_t)n == len ? 0 : -EPIPE);
}

int abx__step_send(const struct abx__step *s, enum abx_step_frame_type type, const void *data,
                   size_t len)
{
    struct abx_step_frame f = {type, (uint32_t)len};
    ABX_ASSERT(len <= ABX_STEP_FRAME_BYTES);
    int r = abx_fd_write_all(s->line_fd, &f, sizeof(f));
    return r < 0 ? r : abx_fd_write_all(s->line_fd, data, len);
}

/* ---- reading the order ---- */
static const struct {
    enum abx_step_tag tag;
    size_t offset;
} text_rows[] = {
    {ABX_STEP_TAG_USER, offsetof(struct abx__step, user)},
    {ABX_STEP_TAG_WORKDIR, offsetof(struct abx__step, workdir)},
    {ABX_STEP_TAG_SOURCE, offsetof(struct abx__step, source)},
    {ABX_STEP_TAG_DEST, offsetof(struct abx__step, dest)},
    {ABX_STEP_TAG_OWNER, offsetof(struct abx__step, owner)},
    {ABX_STEP_TAG_MODE, offsetof(struct abx__step, mode)},
    {ABX_STEP_TAG_NAME, offsetof(struct abx__step, name)},
    {ABX_STEP_TAG_SUDO, offsetof(struct abx__step, sudo)},
};

static int take_text(struct abx__step *s, char tag, const char *text)
{
    if (tag == ABX_STEP_TAG_ARG || tag == ABX_STEP_TAG_ENV) {
        size_t *count = tag == ABX_STEP_TAG_ARG ? &s->argc : &s->envc;
        if (*count == ABX__STEP_LIST_MAX)
            return -E2BIG;
        (tag == ABX_STEP_TAG_ARG ? s->argv : s->env)[(*count)++] = text;
        return 0;
    }
    for (size_t i = 0; i < ABX_COUNTOF(text_rows); i++) {
        if ((char)text_rows[i].tag != tag)
            continue;
        *(const char **)(void *)((char *)s + text_rows[i].offset) = text;
        return 0;
    }
    return -EINVAL;
}

static int read_order(struct abx__step *s)
{
    struct abx_step_head head;
    int r = abx__step_read(s, &head, sizeof(head));
    if (r < 0)
        return r;
    if (head.magic != ABX_STEP_MAGIC || head.text_bytes > ABX_STEP_TEXT_BYTES)
        return -EINVAL;
    s->verb = head.verb;
    s->texts = malloc(head.text_bytes + 1);
    if (s->texts == NULL)
        return -ENOMEM;
    r = abx__step_read(s, s->texts, head.text_bytes);
    s->texts[head.text_bytes] = 0;
    for (char *p = s->texts; r == 0 && p < s->texts + head.text_bytes;) {
        r = take_text(s, *p, p + 1);
        p += strlen(p) + 1;
    }
    return r;
}

/* ---- answering ---- */
static int order_run(struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err)
{
    return abx__step_run(s, ret, err);
}
static int order_copy(struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err)
{
    (void)ret;
    return abx__step_copy(s, err);
}
static int order_workdir(struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err)
{
    (void)ret;
    return abx__step_workdir(s, err);
}
static int order_user(struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err)
{
    (void)ret;
    return abx__step_user(s, err);
}

static int (*const orders[])(struct abx__step *s, struct abx_step_exit *ret,
                             struct abx_error *err) = {
    [ABX_STEP_DO_RUN] = order_run,
    [ABX_STEP_DO_COPY] = order_copy,
    [ABX_STEP_DO_WORKDIR] = order_workdir,
    [ABX_STEP_DO_USER] = order_user,
};

static int execute(struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err)
{
    int r = read_order(s);
    if (r < 0)
        return abx_err_sys(err, r, "read the order");
    if (s->verb >= ABX_COUNTOF(orders) || orders[s->verb] == NULL)
        return abx_err_set(err, ABX_UNIMPLEMENTED, "unknown order %u", s->verb);
    return orders[s->verb](s, ret, err);
}

int abx_step_main(int line_fd, const char *root)
{
    struct abx__step *s = calloc(1, sizeof(*s));
    struct abx_error err = {0};
    struct abx_step_exit result = {0};
    if (s == NULL)
        return 1;
    *s = (struct abx__step){.line_fd = line_fd, .root = root};
    for (size_t i = 0; i < ABX_COUNTOF(text_rows); i++)
        *(const char **)(void *)((char *)s + text_rows[i].offset) = "";
    s->root_fd = open(*root ? root : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = s->root_fd < 0 ? abx_err_sys(&err, -errno, "open the root") : 0;
    if (r == 0)
        r = execute(s, &result, &err);
    if (r < 0) {
        result.exit_code = 1;
        result.is_failure = 1;
        snprintf(result.message, sizeof(result.message), "%.*s", (int)sizeof(result.message) - 1,
                 err.msg);
    }
    (void)abx__step_send(s, ABX_STEP_EXIT, &result, sizeof(result));
    (void)shutdown(line_fd, SHUT_WR);
    abx_fd_close(&s->root_fd);
    free(s->texts);
    free(s);
    return result.signum != 0 ? 128 + result.signum : result.exit_code;
}
