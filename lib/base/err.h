/* lib/base/err.h: the one error object. Codes are Connect's 16, in its numbering. Any thread.
 *
 * Two shapes of failure exist in this code base: system leaves return >= 0 or -errno; everything
 * else takes a last parameter `struct abx_error *err` and returns 0 or -1. */
#pragma once
#include <stdarg.h>

enum abx_code {
    ABX_OK = 0,
    ABX_CANCELED = 1,
    ABX_UNKNOWN = 2,
    ABX_INVALID_ARGUMENT = 3,
    ABX_DEADLINE_EXCEEDED = 4,
    ABX_NOT_FOUND = 5,
    ABX_ALREADY_EXISTS = 6,
    ABX_PERMISSION_DENIED = 7,
    ABX_RESOURCE_EXHAUSTED = 8,
    ABX_FAILED_PRECONDITION = 9,
    ABX_ABORTED = 10,
    ABX_OUT_OF_RANGE = 11,
    ABX_UNIMPLEMENTED = 12,
    ABX_INTERNAL = 13,
    ABX_UNAVAILABLE = 14,
    ABX_DATA_LOSS = 15,
    ABX_UNAUTHENTICATED = 16,
    ABX_CODE__COUNT
};

struct abx_error {
    enum abx_code code;
    int sys; /* errno behind it, 0 if none */
    char msg[240];
};

/** Fills @err (may be NULL). Returns -1, so that it can stand in a return statement. */
int abx_err_set(struct abx_error *err, enum abx_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int abx_err_setv(struct abx_error *err, enum abx_code code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
/** As abx_err_set, with the code and the text of @neg_errno (a -errno) appended. Returns -1. */
int abx_err_sys(struct abx_error *err, int neg_errno, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Puts "context: " before the message of @err. Returns -1. */
int abx_err_wrap(struct abx_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Connect's name of the code ("not_found"); "ok" for ABX_OK. */
const char *abx_code_name(enum abx_code code);
/** The code whose name is @name, or -1. */
int abx_code_parse(const char *name);
/** HTTP status of a unary Connect answer with this code (Connect protocol, "Error Codes"). */
int abx_code_http(enum abx_code code);
/** Exit code of the CLI for this code. */
int abx_code_exit(enum abx_code code);
/** The code that stands for a system error number (positive errno). */
enum abx_code abx_code_from_errno(int errnum);
