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

void abx_log_init(const char *role, enum abx_log_level least)
{
    log_role = role;
    log_least = least;
}

void abx_log(enum abx_log_level level, const char *fmt, ...)
{
    if (level < log_least)
        return;
    char line[1024], when[ABX_TIME_TEXT];
    abx_time_format(abx_time_wall_ns(), 3, when);
    int n = snprintf(line, sizeof(line), "time=%s level=%s role=%s ", when, level_names[level],
                     log_role);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    va_end(ap);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    for (size_t i = 0; i < len; i++) /* a log line stays one line */
        if ((unsigned char)line[i] < 0x20)
            line[i] = ' ';
    line[len++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
}
