/* guest/kernels/protocol.c: reading events, writing cells and lines. Pure. */
#include "guest/kernels/protocol.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"
#include "lib/json/json.h"
#include "lib/json/scan.h"

#include "lib/base/banned.h"

/* ---- events ---- */

static const char *const events[] = {
    [ABX_KERNEL_READY] = "\"ready\"",   [ABX_KERNEL_STDOUT] = "\"stdout\"",
    [ABX_KERNEL_STDERR] = "\"stderr\"", [ABX_KERNEL_RESULT] = "\"result\"",
    [ABX_KERNEL_ERROR] = "\"error\"",   [ABX_KERNEL_SYNC] = "\"sync\"",
    [ABX_KERNEL_DONE] = "\"done\"",
};
_Static_assert(ABX_COUNTOF(events) == ABX_KERNEL__EVENTS, "one name per event");

static bool is_printable_ascii(struct abx_str line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.ptr[i] < 0x20 || line.ptr[i] > 0x7e)
            return false;
    return true;
}

static int find_event(struct abx_str type, enum abx_kernel_event *ret)
{
    for (size_t i = 0; i < ABX_COUNTOF(events); i++)
        if (abx_str_is(type, events[i])) {
            *ret = (enum abx_kernel_event)i;
            return 0;
        }
    return -1;
}

int abx_kernel_line_parse(struct abx_str line, enum abx_kernel_event *ret, struct abx_error *err)
{
    struct abx_str whole, rest, key, value, type = {0};
    struct abx_scan_object o;
    if (!is_printable_ascii(line) || abx_scan_value(line, &whole, &rest) < 0 || rest.len > 0 ||
        whole.ptr[0] != '{')
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "a line of the kernel is no JSON object in ASCII");
    abx_scan_object_init(&o, whole);
    while (abx_scan_object_next(&o, &key, &value))
        if (abx_str_is(key, "type"))
            type = value;
    if (o.failed || find_event(type, ret) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "a line of the kernel is no event");
    return 0;
}

/* ---- text as ASCII ---- */

/* How many bytes a character takes that begins with @first; 0: none begins so. */
static size_t utf8_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

static uint32_t utf8_value(struct abx_str c)
{
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = (unsigned char)c.ptr[0] & mask[c.len];
    for (size_t i = 1; i < c.len; i++)
        value = value << 6 | ((unsigned char)c.ptr[i] & 0x3f);
    return value;
}

static void put_escaped(struct abx_buf *out, uint32_t c)
{
    static const char named[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (const char *n = named; *n != '\0'; n += 2)
        if ((uint32_t)n[0] == c) {
            abx_buf_put_byte(out, '\\');
            abx_buf_put_byte(out, n[1]);
            return;
        }
    if (c >= 0x20 && c < 0x7f) {
        abx_buf_put_byte(out, (char)c);
    } else if (c > 0xffff) {
        c -= 0x10000;
        abx_buf_putf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    } else {
        abx_buf_putf(out, "\\u%04x", c);
    }
}

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void abx_kernel_put_ascii(struct abx_buf *out, struct abx_str text)
{
    abx_buf_put_byte(out, '"');
    for (size_t at = 0; at < text.len;) {
        size_t plain = at;
        while (plain < text.len && is_plain(text.ptr[plain]))
            plain++;
        abx_buf_put(out, text.ptr + at, plain - at);
        at = plain;
        if (at == text.len)
            break;
        size_t len = utf8_length((unsigned char)text.ptr[at]);
        struct abx_str c = abx_str_sub(text, at, len);
        bool ok = len > 0 && c.len == len && abx_str_is_utf8(c);
        put_escaped(out, ok ? utf8_value(c) : 0xfffd);
        at += ok ? len : 1;
    }
    abx_buf_put_byte(out, '"');
}

size_t abx_kernel_utf8_tail(struct abx_str text)
{
    for (size_t back = 1; back <= 3 && back <= text.len; back++) {
        unsigned char c = (unsigned char)text.ptr[text.len - back];
        if ((c & 0xc0) == 0x80)
            continue;
        return utf8_length(c) > back ? back : 0;
    }
    return 0;
}

/* ---- lines for a client ---- */

void abx_kernel_write_output(struct abx_buf *out, bool is_stderr, struct abx_str text)
{
    char now[ABX_TIME_TEXT];
    abx_time_format(abx_time_wall_ns(), 6, now);
    abx_buf_putf(out, "{\"type\":\"%s\",\"text\":", is_stderr ? "stderr" : "stdout");
    abx_kernel_put_ascii(out, text);
    abx_buf_putf(out, ",\"timestamp\":\"%s\"}", now);
}

void abx_kernel_write_error(struct abx_buf *out, const char *name, const char *value)
{
    abx_buf_put_c(out, "{\"type\":\"error\",\"name\":");
    abx_kernel_put_ascii(out, abx_str(name));
    abx_buf_put_c(out, ",\"value\":");
    abx_kernel_put_ascii(out, abx_str(value));
    abx_buf_put_c(out, ",\"traceback\":\"\"}");
}

/* ---- a cell as JSON ---- */

static void put_variables(struct abx_json_writer *w, const char *key,
                          const struct abx_variable *list, size_t count)
{
    abx_json_key(w, abx_str(key));
    abx_json_begin_object(w);
    for (size_t i = 0; i < count; i++) {
        abx_json_key(w, list[i].name);
        abx_json_str(w, list[i].value);
    }
    abx_json_end_object(w);
}

void abx_kernel_write_cell(struct abx_buf *out, const struct abx_cell *cell)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "n", cell->number);
    abx_json_kv_bool(&w, "strip_types", cell->strip_types);
    if (cell->sets_sandbox)
        put_variables(&w, "globals", cell->sandbox, cell->sandbox_count);
    put_variables(&w, "envs", cell->own, cell->own_count);
    abx_json_kv_str(&w, "code", cell->code);
    abx_json_end_object(&w);
    abx_buf_put_byte(out, '\n');
}

/* ---- a cell as commands of bash ---- */

/* Inside of $'...': one line, whatever @text holds. */
static void put_quoted(struct abx_buf *out, struct abx_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20 || c == 0x7f)
            abx_buf_putf(out, "\\%03o", c);
        else if (c == '\'' || c == '\\')
            abx_buf_putf(out, "\\%c", c);
        else
            abx_buf_put_byte(out, (char)c);
    }
}

static void put_export(struct abx_buf *out, const struct abx_variable *v)
{
    abx_buf_put_c(out, "builtin export $'");
    put_quoted(out, v->name);
    abx_buf_put_byte(out, '=');
    put_quoted(out, v->value);
    abx_buf_put_c(out, "'\n");
}

static const struct abx_variable *find(const struct abx_cell *cell, struct abx_str name)
{
    for (size_t i = 0; i < cell->sandbox_count; i++)
        if (abx_str_eq(cell->sandbox[i].name, name))
            return &cell->sandbox[i];
    return NULL;
}

static void put_reset(struct abx_buf *out, const struct abx_cell *cell,
                      const struct abx_variable *own)
{
    const struct abx_variable *outer = find(cell, own->name);
    if (outer != NULL) {
        put_export(out, outer);
        return;
    }
    abx_buf_put_c(out, "builtin unset -v $'");
    put_quoted(out, own->name);
    abx_buf_put_c(out, "'\n");
}

void abx_kernel_write_shell(struct abx_buf *out, const struct abx_cell *cell)
{
    for (size_t i = 0; cell->sets_sandbox && i < cell->sandbox_count; i++)
        put_export(out, &cell->sandbox[i]);
    for (size_t i = 0; i < cell->own_count; i++)
        put_export(out, &cell->own[i]);
    abx_buf_put_c(out, "__abx_run $'");
    put_quoted(out, cell->code);
    abx_buf_put_c(out, "'\n");
    for (size_t i = 0; i < cell->own_count; i++)
        put_reset(out, cell, &cell->own[i]);
    abx_buf_put_c(out, "builtin printf '{\"type\":\"done\"}\\n' >&3\n");
}
