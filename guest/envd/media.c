/* guest/envd/media.c: what a download says about a file: media type, disposition, dates (RFC 9110
 * 5.6.7, 8.3; RFC 6266). Pure. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/wire/url.h"

#include <time.h>

#include "lib/base/banned.h"

static const struct {
    const char *extension, *type;
} by_extension[] = {
    {".avif", "image/avif"},
    {".css", "text/css; charset=utf-8"},
    {".csv", "text/csv; charset=utf-8"},
    {".gif", "image/gif"},
    {".gz", "application/gzip"},
    {".htm", "text/html; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".jpeg", "image/jpeg"},
    {".jpg", "image/jpeg"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".md", "text/markdown; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".mp3", "audio/mpeg"},
    {".mp4", "video/mp4"},
    {".pdf", "application/pdf"},
    {".png", "image/png"},
    {".svg", "image/svg+xml"},
    {".tar", "application/x-tar"},
    {".txt", "text/plain; charset=utf-8"},
    {".wasm", "application/wasm"},
    {".webp", "image/webp"},
    {".xml", "text/xml; charset=utf-8"},
    {".zip", "application/zip"},
};

static const struct {
    struct abx_str magic;
    const char *type;
} by_magic[] = {
    {{"\x89PNG\r\n\x1A\n", 8}, "image/png"},
    {{"\xFF\xD8\xFF", 3}, "image/jpeg"},
    {{"GIF87a", 6}, "image/gif"},
    {{"GIF89a", 6}, "image/gif"},
    {{"%PDF-", 5}, "application/pdf"},
    {{"\x1F\x8B\x08", 3}, "application/x-gzip"},
    {{"PK\x03\x04", 4}, "application/zip"},
    {{"\0asm", 4}, "application/wasm"},
};

static bool is_text(struct abx_str head)
{
    for (size_t i = 0; i < head.len; i++) {
        unsigned char c = (unsigned char)head.ptr[i];
        if (c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1B)
            return false;
    }
    return true;
}

const char *abx__media_by_name(struct abx_str name)
{
    ptrdiff_t dot = abx_str_rchr(name, '.');
    struct abx_str extension = dot < 0 ? ABX_STR("") : abx_str_sub(name, (size_t)dot, name.len);
    for (size_t i = 0; i < ABX_COUNTOF(by_extension); i++)
        if (abx_str_is_nocase(extension, by_extension[i].extension))
            return by_extension[i].type;
    return NULL;
}

const char *abx__media_type(struct abx_str name, struct abx_str head)
{
    const char *known = abx__media_by_name(name);
    if (known)
        return known;
    for (size_t i = 0; i < ABX_COUNTOF(by_magic); i++)
        if (abx_str_eq(abx_str_sub(head, 0, by_magic[i].magic.len), by_magic[i].magic))
            return by_magic[i].type;
    return is_text(abx_str_sub(head, 0, 512)) ? "text/plain; charset=utf-8"
                                              : "application/octet-stream";
}

static bool is_token_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

struct abx_str abx__disposition(struct abx_arena *a, struct abx_str name)
{
    bool is_token = name.len > 0, is_printable = true;
    for (size_t i = 0; i < name.len; i++) {
        is_token &= is_token_byte(name.ptr[i]);
        is_printable &= name.ptr[i] >= 0x20 && name.ptr[i] < 0x7F;
    }
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 4096);
    abx_buf_put_c(&b, "inline; filename");
    if (is_token) {
        abx_buf_put_byte(&b, '=');
        abx_buf_put_str(&b, name);
    } else if (is_printable) {
        abx_buf_put_c(&b, "=\"");
        for (size_t i = 0; i < name.len; i++) {
            if (name.ptr[i] == '"' || name.ptr[i] == '\\')
                abx_buf_put_byte(&b, '\\');
            abx_buf_put_byte(&b, name.ptr[i]);
        }
        abx_buf_put_byte(&b, '"');
    } else {
        abx_buf_put_c(&b, "*=utf-8''");
        abx_url_encode(&b, name, "");
    }
    struct abx_str text = abx_arena_str(a, abx_buf_str(&b));
    return abx_buf_failed(&b) || text.ptr == NULL ? ABX_STR("inline") : text;
}

/* Names of their own: strftime's depend on the locale. */
static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

struct abx_str abx__http_date_text(struct abx_arena *a, int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL)
        return ABX_STR("Thu, 01 Jan 1970 00:00:00 GMT");
    const char *text = abx_arena_printf(
        a, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + (ptrdiff_t)tm.tm_wday * 3, tm.tm_mday,
        months + (ptrdiff_t)tm.tm_mon * 3, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return abx_str(text ? text : "");
}

static int two_digits(const char *c)
{
    return c[0] >= '0' && c[0] <= '9' && c[1] >= '0' && c[1] <= '9' ? (c[0] - '0') * 10 + c[1] - '0'
                                                                    : -1;
}

/* IMF-fixdate only: the obsolete forms are sent by nobody we serve, and an unknown date means that
 * the condition is ignored. */
int abx__http_date_parse(struct abx_str s, int64_t *ret_seconds)
{
    static const char shape[] = "www, dd mmm yyyy hh:mm:ss GMT";
    struct tm tm = {0};
    if (s.len != sizeof(shape) - 1)
        return -1;
    for (size_t i = 0; i < s.len; i++)
        if (strchr(", :GMT", shape[i]) && s.ptr[i] != shape[i])
            return -1;
    tm.tm_mon = -1;
    for (int i = 0; i < 12; i++)
        if (strncmp(months + (ptrdiff_t)i * 3, s.ptr + 8, 3) == 0)
            tm.tm_mon = i;
    int century = two_digits(s.ptr + 12), year = two_digits(s.ptr + 14);
    tm.tm_mday = two_digits(s.ptr + 5);
    tm.tm_hour = two_digits(s.ptr + 17);
    tm.tm_min = two_digits(s.ptr + 20);
    tm.tm_sec = two_digits(s.ptr + 23);
    if (tm.tm_mon < 0 || century < 0 || year < 0 || tm.tm_mday < 1 || tm.tm_mday > 31 ||
        tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59 || tm.tm_sec < 0 ||
        tm.tm_sec > 60)
        return -1;
    tm.tm_year = century * 100 + year - 1900;
    *ret_seconds = (int64_t)timegm(&tm);
    return 0;
}
