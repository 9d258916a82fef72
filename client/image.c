/* client/image.c: images and templates of the local engine as archives, in and out. */
#include "client/client_priv.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include "lib/base/banned.h"

enum { IMPORT_MS = 60 * 60 * 1000 };

static void put_query(struct abx_buf *target, const char *key, const char *value, char *separator)
{
    if (value == NULL)
        return;
    abx_buf_putf(target, "%c%s=", *separator, key);
    abx_url_encode(target, abx_str(value), "");
    *separator = '&';
}

int abx_image_import(struct abx_client *c, const char *name, const struct abx_image_source *source,
                     char **ret_json, struct abx_client_error *err)
{
    struct abx_http_extra headers[] = {{ABX_HEADER_API_KEY, abx_str(c->api_key)},
                                       {"Content-Type", ABX_STR("application/x-tar")},
                                       {0}};
    ABX_AUTO_BUF target;
    char separator = '?';
    abx_buf_init(&target, 4096);
    abx_buf_putf(&target, "%s/abx/v1/images/", c->path);
    abx_url_encode(&target, abx_str(name), "");
    put_query(&target, "recipe", source->recipe, &separator);
    put_query(&target, "kind", source->kind, &separator);
    if (abx_buf_failed(&target))
        return abx__client_fail(err, "E8002", "client", "the image's name is too long");
    struct client_request r = {.method = "POST",
                               .target = abx_buf_str(&target),
                               .headers = headers,
                               .body_fd = source->fd,
                               .timeout_ms = IMPORT_MS};
    pthread_mutex_lock(&c->lock);
    int result = abx__client_run(c, &r, err);
    pthread_mutex_unlock(&c->lock);
    if (result == 0 && r.status / 100 != 2)
        result = abx__client_fail_answer(err, "engine", "image", r.status, abx_buf_str(&r.answer));
    if (result == 0 && (*ret_json = abx_str_dup(abx_buf_str(&r.answer))) == NULL)
        result = abx__client_fail_memory(err);
    abx_buf_done(&r.answer);
    return result;
}

static int put_out(void *arg, const char *data, size_t len)
{
    return abx_fd_write_all(*(int *)arg, data, len);
}

/* @what: "images" or "templates" */
static int export_archive(struct abx_client *c, const char *what, const char *name, int fd,
                          struct abx_client_error *err)
{
    struct abx_http_extra headers[] = {{ABX_HEADER_API_KEY, abx_str(c->api_key)}, {0}};
    ABX_AUTO_BUF target;
    abx_buf_init(&target, 4096);
    abx_buf_putf(&target, "%s/abx/v1/%s/", c->path, what);
    abx_url_encode(&target, abx_str(name), "");
    abx_buf_put_c(&target, "/archive");
    if (abx_buf_failed(&target))
        return abx__client_fail(err, "E8002", "client", "the name is too long");
    struct client_request r = {.method = "GET",
                               .target = abx_buf_str(&target),
                               .headers = headers,
                               .on_body = put_out,
                               .arg = &fd,
                               .timeout_ms = UINT32_MAX}; /* as long as it takes */
    pthread_mutex_lock(&c->lock);
    int result = abx__client_run(c, &r, err);
    pthread_mutex_unlock(&c->lock);
    if (result == 0 && r.status / 100 != 2)
        result = abx__client_fail_answer(err, "engine", name, r.status, abx_buf_str(&r.answer));
    if (result < 0 && r.status == 404) {
        snprintf(err->id, sizeof(err->id), "E2001");
        abx__client_next(err, "abx %.*s list shows what is there", (int)strlen(what) - 1, what);
    }
    abx_buf_done(&r.answer);
    return result;
}

int abx_image_export(struct abx_client *c, const char *name, int fd, struct abx_client_error *err)
{
    return export_archive(c, "images", name, fd, err);
}

int abx_template_export(struct abx_client *c, const char *name, int fd,
                        struct abx_client_error *err)
{
    return export_archive(c, "templates", name, fd, err);
}
