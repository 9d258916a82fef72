/* host/engine/provision.c: the engine's own way to a gateway: connecting, and POST /init.
 *
 * Loop thread. A sandbox is locked until /init was accepted over this channel (S41); the socket
 * lies in the sandbox's run folder on the host, which nothing inside can reach (S60). */
#include "host/engine/sandbox_priv.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

enum { INIT_BODY_MAX = 512 * 1024, INIT_HEAD_MAX = 4096, INIT_ANSWER_MAX = 65536 };

void abx__gateway_connect(void *arg, struct abx_str target, struct abx_http_call *call)
{
    struct abx__engine *e = arg;
    char path[ABX_SANDBOX_ID_LEN + sizeof("/run")];
    if (!abx_store_id_is_valid(target)) {
        abx_http_connected(call, -EINVAL);
        return;
    }
    snprintf(path, sizeof(path), "%.*s/run", ABX_STR_FMT(target));
    ABX_AUTO_FD dir = openat(e->sandboxes_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) {
        abx_http_connected(call, -errno);
        return;
    }
    int fd = abx_fd_connect_unix(dir, "gateway.sock", SOCK_STREAM | SOCK_NONBLOCK);
    abx_http_connected(call, fd);
}

static void write_body(const struct abx__sandbox *sb, struct abx_buf *b)
{
    struct abx_json_writer w;
    char now[ABX_TIME_TEXT];
    abx_time_format(abx_time_wall_ns(), 9, now);
    abx_json_writer_init(&w, b);
    abx_json_begin_object(&w);
    if (sb->token[0] != '\0')
        abx_json_kv_c(&w, "accessToken", sb->token);
    abx_json_key(&w, ABX_STR("envVars"));
    abx_json_raw(&w, sb->envs_text);
    abx_json_kv_c(&w, "timestamp", now);
    const struct abx_image *image = sb->blueprint == NULL ? NULL : sb->blueprint->image;
    abx_json_kv_c(&w, "defaultUser", image == NULL ? ABX_USER_NAME : image->user);
    abx_json_kv_c(&w, "defaultWorkdir", image == NULL ? ABX_USER_HOME : image->workdir);
    abx_json_end_object(&w);
}

static void on_head(struct abx_http_call *c, const struct abx_http_head *head)
{
    struct abx__sandbox *sb = abx_http_call_owner(c);
    if (head->status >= 200)
        sb->init_status = head->status;
}

/* What stands in the answer is of no use to us, and it comes from a sandbox. */
static void on_body(struct abx_http_call *c, const char *data, size_t len)
{
    struct abx__sandbox *sb = abx_http_call_owner(c);
    struct abx_error err = {0};
    (void)data;
    sb->init_bytes += len;
    if (sb->init_bytes <= INIT_ANSWER_MAX)
        return;
    abx_http_call_cancel(ABX_TAKE(sb->init_call));
    abx_err_set(&err, ABX_INTERNAL, "/init: the answer has more than %d bytes", INIT_ANSWER_MAX);
    abx__sandbox_inited(sb, &err, false);
}

static void on_end(struct abx_http_call *c)
{
    struct abx__sandbox *sb = abx_http_call_owner(c);
    struct abx_error err = {0};
    int status = sb->init_status;
    sb->init_call = NULL;
    if (status == 204 || status == 200) {
        abx__sandbox_inited(sb, NULL, false);
        return;
    }
    abx_err_set(&err, ABX_INTERNAL, "the sandbox answered %d to /init", status);
    abx__sandbox_inited(sb, &err, status == 503);
}

static void on_error(struct abx_http_call *c, const struct abx_error *err, bool head_seen)
{
    struct abx__sandbox *sb = abx_http_call_owner(c);
    struct abx_error copy = *err;
    (void)head_seen;
    sb->init_call = NULL;
    abx_err_wrap(&copy, "/init");
    abx__sandbox_inited(sb, &copy, err->code == ABX_UNAVAILABLE);
}

static const struct abx_http_call_ops init_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end, .on_error = on_error};

int abx__provision(struct abx__sandbox *sb, struct abx_error *err)
{
    ABX_AUTO_BUF body = {.max = INIT_BODY_MAX};
    ABX_AUTO_BUF head = {.max = INIT_HEAD_MAX};
    write_body(sb, &body);
    abx_http_write_request(&head, ABX_STR("POST"), ABX_STR("/init"));
    abx_http_write_header(&head, ABX_STR("Host"), abx_str(sb->id));
    abx_http_write_headerf(&head, ABX_HEADER_PORT, "%d", ABX_PORT_ENVD);
    abx_http_write_header(&head, ABX_STR("Content-Type"), ABX_STR("application/json"));
    abx_http_write_headerf(&head, "Content-Length", "%zu", body.len);
    abx_http_write_end(&head);
    if (abx_buf_failed(&body) || abx_buf_failed(&head))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "/init: the body is too large");
    sb->init_bytes = 0;
    if (abx_http_call_start(sb->engine->pool, abx_str(sb->id), abx_buf_str(&head), false, &init_ops,
                            sb, &sb->init_call, err) < 0)
        return -1;
    abx_http_call_write(sb->init_call, body.ptr, body.len);
    abx_http_call_finish(sb->init_call);
    return 0;
}
