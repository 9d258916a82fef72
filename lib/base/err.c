/* lib/base/err.c: one table maps code, Connect name, HTTP status and CLI exit code. */
#include "lib/base/err.h"

#include "lib/base/assert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/banned.h"

static const struct {
    const char *name;
    int http;
    int exit;
} codes[] = {
    [ABX_OK] = {"ok", 200, 0},
    [ABX_CANCELED] = {"canceled", 499, 1},
    [ABX_UNKNOWN] = {"unknown", 500, 1},
    [ABX_INVALID_ARGUMENT] = {"invalid_argument", 400, 2},
    [ABX_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504, 5},
    [ABX_NOT_FOUND] = {"not_found", 404, 4},
    [ABX_ALREADY_EXISTS] = {"already_exists", 409, 1},
    [ABX_PERMISSION_DENIED] = {"permission_denied", 403, 1},
    [ABX_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429, 6},
    [ABX_FAILED_PRECONDITION] = {"failed_precondition", 400, 1},
    [ABX_ABORTED] = {"aborted", 409, 1},
    [ABX_OUT_OF_RANGE] = {"out_of_range", 400, 2},
    [ABX_UNIMPLEMENTED] = {"unimplemented", 501, 1},
    [ABX_INTERNAL] = {"internal", 500, 1},
    [ABX_UNAVAILABLE] = {"unavailable", 503, 1},
    [ABX_DATA_LOSS] = {"data_loss", 500, 1},
    [ABX_UNAUTHENTICATED] = {"unauthenticated", 401, 3},
};
_Static_assert(ABX_COUNTOF(codes) == ABX_CODE__COUNT, "one row per code");

static const struct {
    int errnum;
    enum abx_code code;
} errnos[] = {
    {ENOENT, ABX_NOT_FOUND},
    {ESRCH, ABX_NOT_FOUND},
    {EEXIST, ABX_ALREADY_EXISTS},
    {EACCES, ABX_PERMISSION_DENIED},
    {EPERM, ABX_PERMISSION_DENIED},
    {EROFS, ABX_PERMISSION_DENIED},
    {EINVAL, ABX_INVALID_ARGUMENT},
    {ENAMETOOLONG, ABX_INVALID_ARGUMENT},
    {ENOTDIR, ABX_INVALID_ARGUMENT},
    {EISDIR, ABX_INVALID_ARGUMENT},
    {ELOOP, ABX_FAILED_PRECONDITION},
    {ENOTEMPTY, ABX_FAILED_PRECONDITION},
    {ENOMEM, ABX_RESOURCE_EXHAUSTED},
    {EMFILE, ABX_RESOURCE_EXHAUSTED},
    {ENFILE, ABX_RESOURCE_EXHAUSTED},
    {ENOSPC, ABX_RESOURCE_EXHAUSTED},
    {EDQUOT, ABX_RESOURCE_EXHAUSTED},
    {EAGAIN, ABX_RESOURCE_EXHAUSTED},
    {ETIMEDOUT, ABX_DEADLINE_EXCEEDED},
    {ECANCELED, ABX_CANCELED},
    {ECONNREFUSED, ABX_UNAVAILABLE},
    {ECONNRESET, ABX_UNAVAILABLE},
    {EPIPE, ABX_UNAVAILABLE},
    {ENOSYS, ABX_UNIMPLEMENTED},
    {EOPNOTSUPP, ABX_UNIMPLEMENTED},
};

int abx_err_setv(struct abx_error *err, enum abx_code code, const char *fmt, va_list ap)
{
    if (err == NULL)
        return -1;
    err->code = code;
    err->sys = 0;
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    return -1;
}

int abx_err_set(struct abx_error *err, enum abx_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    abx_err_setv(err, code, fmt, ap);
    va_end(ap);
    return -1;
}

int abx_err_sys(struct abx_error *err, int neg_errno, const char *fmt, ...)
{
    if (err == NULL)
        return -1;
    int errnum = neg_errno < 0 ? -neg_errno : neg_errno;
    va_list ap;
    va_start(ap, fmt);
    abx_err_setv(err, abx_code_from_errno(errnum), fmt, ap);
    va_end(ap);
    err->sys = errnum;
    size_t used = strlen(err->msg);
    char text[96];
    snprintf(err->msg + used, sizeof(err->msg) - used, ": %s",
             strerror_r(errnum, text, sizeof(text)));
    return -1;
}

int abx_err_wrap(struct abx_error *err, const char *fmt, ...)
{
    if (err == NULL)
        return -1;
    char context[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);
    char whole[2 * sizeof(err->msg) + 2];
    snprintf(whole, sizeof(whole), "%s: %s", context, err->msg);
    whole[sizeof(err->msg) - 1] = '\0';
    memcpy(err->msg, whole, strlen(whole) + 1);
    return -1;
}

const char *abx_code_name(enum abx_code code)
{
    ABX_ASSERT(code < ABX_CODE__COUNT);
    return codes[code].name;
}

int abx_code_parse(const char *name)
{
    for (int i = 0; i < ABX_CODE__COUNT; i++)
        if (strcmp(codes[i].name, name) == 0)
            return i;
    return -1;
}

int abx_code_http(enum abx_code code)
{
    ABX_ASSERT(code < ABX_CODE__COUNT);
    return codes[code].http;
}

int abx_code_exit(enum abx_code code)
{
    ABX_ASSERT(code < ABX_CODE__COUNT);
    return codes[code].exit;
}

enum abx_code abx_code_from_errno(int errnum)
{
    for (size_t i = 0; i < ABX_COUNTOF(errnos); i++)
        if (errnos[i].errnum == errnum)
            return errnos[i].code;
    return ABX_INTERNAL;
}
