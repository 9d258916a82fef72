/* client/files.c: a file out of and into a sandbox, streamed (envd.md 3). */
#include "client/client_priv.h"
#include "lib/base/fd.h"
#include "lib/wire/url.h"

#include <unistd.h>

#include "lib/base/banned.h"

static int put_out(void *arg, const char *data, size_t len)
{
    return abx_fd_write_all(*(int *)arg, data, len);
}

static int run(struct abx_sandbox *sb, struct client_request *r, const char *type, const char *path,
               struct abx_client_error *err)
{
    struct abx_http_extra headers[CLIENT_HEADERS];
    ABX_AUTO_BUF target;
    abx_buf_init(&target, 16384);
    abx_buf_put_c(&target, "/files?path=");
    abx_url_encode(&target, abx_str(path), "/");
    if (abx_buf_failed(&target))
        return abx__client_fail(err, "E8002", "client", "the path is too long");
    abx__sandbox_headers(sb, type, NULL, headers);
    r->target = abx_buf_str(&target);
    r->headers = headers;
    r->timeout_ms = UINT32_MAX; /* a transfer takes as long as it takes */
    pthread_mutex_lock(&sb->client->lock);
    int result = abx__client_run(sb->client, r, err);
    pthread_mutex_unlock(&sb->client->lock);
    if (result == 0 && r->status / 100 != 2)
        result = abx__client_fail_answer(err, "envd", path, r->status, abx_buf_str(&r->answer));
    abx_buf_done(&r->answer);
    return result;
}

int abx_sandbox_download(struct abx_sandbox *sb, const char *path, int fd,
                         struct abx_client_error *err)
{
    struct client_request r = {.method = "GET", .on_body = put_out, .arg = &fd};
    return run(sb, &r, NULL, path, err);
}

int abx_sandbox_upload(struct abx_sandbox *sb, const char *path, int fd,
                       struct abx_client_error *err)
{
    /* body_fd 0 means none; a caller's stdin is moved out of the way */
    struct client_request r = {.method = "POST", .body_fd = fd};
    ABX_AUTO_FD moved = -1;
    if (fd == 0 && (r.body_fd = moved = dup(fd)) < 0)
        return abx__client_fail(err, "E9000", "client", "dup of stdin failed");
    return run(sb, &r, "application/octet-stream", path, err);
}
