/* lib/policy/codes.c: the codes of refusals and the bodies that carry them. Spec: policy.md A15. */
#include "lib/base/assert.h"
#include "lib/json/json.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

static const struct {
    const char *name;
    int status;
    const char *type;
} codes[] = {
    [ABX_POLICY_OK] = {NULL, 200, NULL},
    [ABX_POLICY_AMBIGUOUS_CREDENTIALS] = {"ambiguous_credentials", 400, "ValueError"},
    [ABX_POLICY_DUPLICATE_PARAMETER] = {"duplicate_parameter", 400, "ValueError"},
    [ABX_POLICY_UNSUPPORTED_ENCODING] = {"unsupported_encoding", 400, "ValueError"},
    [ABX_POLICY_INVALID_PATH] = {"invalid_path", 400, "ValueError"},
    [ABX_POLICY_PROCESS_INVALID] = {"process_invalid", 400, "ValueError"},
    [ABX_POLICY_ENV_INVALID] = {"env_invalid", 400, "ValueError"},
    [ABX_POLICY_COMMAND_INVALID] = {"command_invalid", 400, "ValueError"},
    [ABX_POLICY_URL_INVALID] = {"url_invalid", 400, "ValueError"},
    [ABX_POLICY_UNAUTHORIZED] = {"unauthorized", 401, "AuthError"},
    [ABX_POLICY_MISSING_SCOPE] = {"missing_scope", 403, "PolicyDenied"},
    [ABX_POLICY_PATH_NOT_ALLOWED] = {"path_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_SYMLINK_DENIED] = {"symlink_denied", 403, "PolicyDenied"},
    [ABX_POLICY_PATH_DENIED] = {"path_denied", 403, "PolicyDenied"},
    [ABX_POLICY_READ_ONLY] = {"read_only", 403, "PolicyDenied"},
    [ABX_POLICY_EXTENSION_NOT_ALLOWED] = {"extension_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_COMMAND_NOT_ALLOWED] = {"command_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_PROCESS_DENIED] = {"process_denied", 403, "PolicyDenied"},
    [ABX_POLICY_ENV_VAR_DENIED] = {"env_var_denied", 403, "PolicyDenied"},
    [ABX_POLICY_ENV_VAR_NOT_ALLOWED] = {"env_var_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_SHELL_NOT_ALLOWED] = {"shell_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_SIGNAL_NOT_ALLOWED] = {"signal_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_LANGUAGE_NOT_ALLOWED] = {"language_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_URL_NOT_ALLOWED] = {"url_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_URL_DENIED] = {"url_denied", 403, "PolicyDenied"},
    [ABX_POLICY_USER_NOT_ALLOWED] = {"user_not_allowed", 403, "PolicyDenied"},
    [ABX_POLICY_CONFINEMENT_UNAVAILABLE] = {"confinement_unavailable", 403, "PolicyDenied"},
    [ABX_POLICY_ENDPOINT_DISABLED] = {"endpoint_disabled", 404, "ValueError"},
    [ABX_POLICY_FILE_EXISTS] = {"file_exists", 409, "FileExistsError"},
    [ABX_POLICY_PAYLOAD_TOO_LARGE] = {"payload_too_large", 413, "ValueError"},
    [ABX_POLICY_RATE_LIMITED] = {"rate_limited", 429, "RateLimited"},
    [ABX_POLICY_CONCURRENCY_LIMITED] = {"concurrency_limited", 429, "RateLimited"},
    [ABX_POLICY_UNKNOWN_ENDPOINT] = {"unknown_endpoint", 404, "ValueError"},
    [ABX_POLICY_BAD_PATTERN] = {NULL, 400, "ValueError"},
};
_Static_assert(ABX_COUNTOF(codes) == ABX_POLICY__COUNT, "one row per code");

const char *abx_policy_code_name(enum abx_policy_code code)
{
    return codes[code].name;
}

int abx_policy_code_status(enum abx_policy_code code)
{
    return codes[code].status;
}

const char *abx_policy_code_type(enum abx_policy_code code)
{
    return codes[code].type;
}

bool abx_policy_deny(struct abx_policy_verdict *v, enum abx_policy_code code, const char *fmt, ...)
{
    va_list ap;
    v->code = code;
    va_start(ap, fmt);
    vsnprintf(v->text, sizeof(v->text), fmt, ap);
    va_end(ap);
    return false;
}

static void put_if(struct abx_json_writer *w, const char *key, struct abx_str value)
{
    if (value.ptr != NULL)
        abx_json_kv_str(w, key, value);
}

void abx_policy_verdict_write(struct abx_json_writer *w, const struct abx_policy_verdict *v)
{
    const char *name = codes[v->code].name;
    abx_json_begin_object(w);
    abx_json_kv_c(w, "error", v->text);
    abx_json_kv_c(w, "type", codes[v->code].type ? codes[v->code].type : "");
    if (name != NULL)
        abx_json_kv_c(w, "code", name);
    put_if(w, "endpoint", v->endpoint);
    put_if(w, "rule", v->rule);
    put_if(w, "scope", v->scope);
    put_if(w, "identity", v->identity);
    if (v->retry_after_s > 0)
        abx_json_kv_i64(w, "retry_after", (int64_t)v->retry_after_s);
    if (v->code == ABX_POLICY_PAYLOAD_TOO_LARGE) {
        abx_json_key(w, ABX_STR("limit"));
        abx_json_u64(w, v->limit_bytes);
    }
    abx_json_end_object(w);
}
