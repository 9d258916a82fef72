/* guest/envd/rpc_common.c: what handlers of both services ask first: as whom, and where. */
#include "guest/envd/envd_priv.h"

#include "lib/base/banned.h"

int abx__rpc_user(struct abx_rpc *rpc, struct abx_user *ret)
{
    struct abx_http_req *req = abx_rpc_req(rpc);
    const struct abx__envd *e = abx__envd_of(req);
    struct abx_str name = e->state.default_user;
    struct abx_error err = {0};
    abx__basic_user(req, &name);
    if (abx_user_by_name(abx__users_root(e), name, ret, &err) == 0)
        return 0;
    if (err.code == ABX_NOT_FOUND)
        abx_rpc_failf(rpc, ABX_UNAUTHENTICATED, "invalid username: '%s'", abx__show(req, name));
    else
        abx_rpc_fail(rpc, &err);
    return -1;
}

int abx__rpc_path(struct abx_rpc *rpc, const char *raw, const struct abx_user *user,
                  char out[ABX_FILES_PATH])
{
    const struct abx__envd *e = abx__envd_of(abx_rpc_req(rpc));
    struct abx_error err = {0};
    int rc = abx_path_resolve(abx_str(raw ? raw : ""), user, e->state.default_workdir, out, &err);
    if (rc == 0 && out[0] == '\0') /* no workdir is set */
        rc = abx_path_resolve(ABX_STR("~"), user, ABX_STR(""), out, &err);
    if (rc < 0)
        abx_rpc_fail(rpc, &err);
    return rc;
}
