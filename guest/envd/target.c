/* guest/envd/target.c: the query, signature, user and path that both file routes begin with
 * (envd.md 3.1, 3.3, 3.4). */
#include "guest/envd/envd_priv.h"

#include "lib/wire/url.h"

#include "lib/base/banned.h"

/* 1 found, 0 absent, -1 answered. */
static int query_value(struct abx_http_req *req, const char *name, struct abx_str *ret)
{
    int rc = abx_url_query_get(req->query, name, req->arena, ret);
    if (rc < 0)
        abx__answer_error(req, 400, "malformed query");
    else if (rc == 0)
        *ret = abx_str_n(NULL, 0);
    return rc;
}

int abx__target_query(struct abx_http_req *req, const char *operation, struct abx__target *t)
{
    const struct abx__envd *e = abx__envd_of(req);
    *t = (struct abx__target){.query.operation = operation};
    int has_path = query_value(req, "path", &t->query.path);
    int has_name = has_path < 0 ? -1 : query_value(req, "username", &t->query.username);
    if (has_name < 0 || query_value(req, "signature", &t->query.signature) < 0 ||
        query_value(req, "signature_expiration", &t->query.expiration) < 0)
        return -1;
    t->has_path = has_path > 0;
    const char *refusal = abx__files_refusal(e, req, &t->query);
    if (refusal) {
        abx__answer_error(req, 401, "%s", refusal);
        return -1;
    }
    t->username = t->query.username.len ? t->query.username : e->state.default_user;
    if (t->username.len == 0) {
        abx__answer_error(req, 400, "username not provided");
        return -1;
    }
    return 0;
}

int abx__target_user(struct abx_http_req *req, struct abx__target *t)
{
    struct abx_error err = {0};
    const char *root = abx__users_root(abx__envd_of(req));
    if (abx_user_by_name(root, t->username, &t->user, &err) == 0)
        return 0;
    if (err.code == ABX_NOT_FOUND)
        abx__answer_error(req, 401, "error looking up user '%s': user: unknown user %s",
                          abx__show(req, t->username), abx__show(req, t->username));
    else
        abx__answer_error(req, 500, "error looking up user '%s': %s", abx__show(req, t->username),
                          err.msg);
    return -1;
}

int abx__target_resolve(struct abx_http_req *req, const struct abx__target *t, struct abx_str raw,
                        char out[ABX_FILES_PATH], struct abx_error *err)
{
    const struct abx__envd *e = abx__envd_of(req);
    if (abx_path_resolve(raw, &t->user, e->state.default_workdir, out, err) < 0)
        return -1;
    return out[0] ? 0 : abx_path_resolve(ABX_STR("~"), &t->user, ABX_STR(""), out, err);
}
