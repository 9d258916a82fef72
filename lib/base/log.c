/* lib/base/log.c: log lines, each written with one write(2). */
#include "lib/base/log.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *log_role = "abx";
static enum abx_log_level log_least = ABX_LOG_INFO;
static bool log_is_json;

void abx_log_init(const char *role, enum abx_log_level least)
{
    log_role = role;
    log_least = least;
}

void abx_log_set_json(bool is_json)
{
    log_is_json = is_json;
}

/* A log line stays one line, and a JSON string a string. */
static size_t put_escaped(char *out, size_t cap, const char *text)
{
    size_t n = 0;
    for (; *text && n + 2 < cap; text++) {
        unsigned char c = (unsigned char)*text;
        if (log_is_json && (c == '"' || c == '\\'))
            out[n++] = '\\';
        out[n++] = c < 0x20 ? ' ' : (char)c;
    }
    return n;
}

void abx_log(enum abx_log_level level, const char *fmt, ...)
{
    enum { CLOSING = 4 };
    if (level < log_least)
        return;
    char line[1024], text[900], when[ABX_TIME_TEXT];
    abx_time_format(abx_time_wall_ns(), 3, when);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    int n = snprintf(line, sizeof(line),
                     log_is_json ? "{\"time\":\"%s\",\"level\":\"%s\",\"role\":\"%s\",\"msg\":\""
                                 : "time=%s level=%s role=%s ",
                     when, level_names[level], log_role);
    size_t len = n < 0 || (size_t)n >= sizeof(line) ? 0 : (size_t)n;
    len += put_escaped(line + len, sizeof(line) - len - CLOSING, text);
    if (log_is_json) {
        line[len++] = '"';
        line[len++] = '}';
    }
    line[len++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
}
