/* guest/server/audit.c: one JSON line per call, on standard error or in a file. policy.md A13, C4,
 * P11.
 *
 * Never in it: tokens, headers, query, bodies, arguments. A reader that does not keep up loses
 * lines, which are counted; the server goes on. */
#include "guest/server/audit_file.h"
#include "guest/server/server_priv.h"

#include "lib/base/time.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LINE_MAX_BYTES = 32768, LINE_USUAL = 512, PATH_SHOWN = 512 };

static void put_remote(struct abx_json_writer *w, const struct abx__call *c)
{
    struct abx_str peer = abx__call_peer(c);
    if (peer.len)
        abx_json_kv_str(w, "remote", peer);
}

/* The line is written before the last byte of the answer: what still runs then has no exit. */
static void put_program(struct abx_json_writer *w, const struct abx__ran *ran)
{
    if (ran->argv0[0] == '\0')
        return;
    abx_json_kv_c(w, "argv0", ran->argv0);
    if (ran->user[0] != '\0')
        abx_json_kv_c(w, "user", ran->user);
    abx_json_kv_i64(w, "pid", ran->pid);
    abx_json_key(w, ABX_STR("exit"));
    if (ran->has_ended)
        abx_json_i64(w, ran->exit_code);
    else
        abx_json_null(w);
}

static void put_line(struct abx_buf *out, const struct abx__call *c, const char *code)
{
    struct abx_json_writer w;
    char ts[32];
    int64_t now = abx_time_wall_ms();
    snprintf(ts, sizeof(ts), "%lld.%03d", (long long)(now / 1000), (int)(now % 1000));
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("ts"));
    abx_json_raw(&w, abx_str(ts));
    abx_json_key(&w, ABX_STR("identity"));
    if (c->who.id.ptr)
        abx_json_str(&w, c->who.id);
    else
        abx_json_null(&w);
    abx_json_kv_str(&w, "endpoint", c->rule->id);
    abx_json_kv_str(&w, "method", c->req->head->method);
    abx_json_kv_c(&w, "decision", code ? "deny" : "allow");
    abx_json_kv_i64(&w, "status", c->status);
    abx_json_key(&w, ABX_STR("code"));
    if (code)
        abx_json_str(&w, abx_str(code));
    else
        abx_json_null(&w);
    abx_json_key(&w, ABX_STR("paths"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < c->audit_path_count; i++)
        abx_json_str(&w, c->audit_paths[i]);
    abx_json_end_array(&w);
    abx_json_kv_c(&w, "id", c->id);
    put_remote(&w, c);
    abx_json_kv_str(&w, "path", abx_str_sub(c->path, 0, PATH_SHOWN));
    if (c->audit_rule.ptr)
        abx_json_kv_str(&w, "rule", c->audit_rule);
    put_program(&w, &c->ran);
    abx_json_kv_i64(&w, "ms", abx_time_mono_ms() - c->began_ms);
    abx_json_end_object(&w);
    abx_buf_put_byte(out, '\n');
}

/* In one write, and only when it will not block. */
static void write_line(struct abx__server *s, struct abx_str line)
{
    if (s->audit_file) {
        s->audit_lost += !abx__audit_file_write(s->audit_file, line);
        return;
    }
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    if ((!s->is_error_file && (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))) ||
        write(STDERR_FILENO, line.ptr, line.len) != (ssize_t)line.len)
        s->audit_lost++;
}

void abx__audit_call(struct abx__call *c)
{
    if (c->is_audited || c->rule == NULL)
        return;
    c->is_audited = true;
    abx__counters_add(c->server->counters, c);
    const char *code = c->audit_code;
    if (code == NULL && (c->status >= 400 || c->status == 0))
        code = "error";
    if (c->rule->audit == ABX_AUDIT_OFF || (c->rule->audit == ABX_AUDIT_DENY && code == NULL))
        return;
    ABX_AUTO_BUF line;
    abx_buf_init(&line, LINE_MAX_BYTES);
    (void)abx_buf_room(&line, LINE_USUAL);
    put_line(&line, c, code);
    if (abx_buf_failed(&line)) {
        c->server->audit_lost++;
        return;
    }
    write_line(c->server, abx_buf_str(&line));
    abx__audit_log_keep(c->server->audit_log, c->who.id, abx_buf_str(&line));
}
