/* host/engine/edge_answer.c: what the edge says itself: text, JSON, or HTML for a person
 * (control-plane 12.2). Loop thread. */
#include "host/engine/edge_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

void abx__edge_text(struct abx_http_req *req, int status, const char *text)
{
    ABX_AUTO_BUF b = {.max = 512};
    struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("text/plain; charset=utf-8")},
                                     {"X-Content-Type-Options", ABX_STR("nosniff")},
                                     {0}};
    abx_buf_put_c(&b, text);
    abx_buf_put_byte(&b, '\n');
    abx_http_answer(req, status, extra, abx_buf_str(&b));
}

static bool contains_nocase(struct abx_str s, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.len; i++) {
        if (abx_str_is_nocase(abx_str_sub(s, i, n), word))
            return true;
    }
    return false;
}

static bool any_word(struct abx_str s, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (contains_nocase(s, *words))
            return true;
    }
    return false;
}

bool abx__wants_html(const struct abx_http_head *head)
{
    static const char *const browsers[] = {"mozilla", "chrome", "safari", "firefox",
                                           "edge",    "opera",  "msie",   NULL};
    static const char *const scripted[] = {"cors", "no-cors", "same-origin", "websocket"};
    struct abx_str accept = abx_http_header(head, "Accept");
    struct abx_str mode = abx_http_header(head, "Sec-Fetch-Mode");
    if (!any_word(abx_http_header(head, "User-Agent"), browsers))
        return false;
    if (contains_nocase(accept, "application/json") && !contains_nocase(accept, "text/html"))
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(scripted); i++) {
        if (abx_str_is_nocase(mode, scripted[i]))
            return false;
    }
    return abx_http_header(head, "X-Requested-With").ptr == NULL;
}

static void put_escaped(struct abx_buf *b, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            abx_buf_putf(b, "&#%d;", *text);
        else
            abx_buf_put_byte(b, *text);
    }
}

static void answer_html(struct abx_http_req *req, const struct abx__edge_error *x)
{
    ABX_AUTO_BUF b = {.max = 4096};
    struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("text/html; charset=utf-8")},
                                     {"X-Content-Type-Options", ABX_STR("nosniff")},
                                     {"Content-Security-Policy", ABX_STR("default-src 'none'")},
                                     {0}};
    abx_buf_putf(&b, "<!doctype html><html><head><title>%d</title></head><body><h1>%d</h1><p>",
                 x->status, x->status);
    put_escaped(&b, x->message);
    abx_buf_put_c(&b, "</p>");
    if (x->sandbox_id.ptr != NULL) /* [a-z0-9]+ by now */
        abx_buf_putf(&b, "<p>%.*s</p>", ABX_STR_FMT(x->sandbox_id));
    abx_buf_put_c(&b, "</body></html>\n");
    abx_http_answer(req, x->status, extra, abx_buf_str(&b));
}

void abx__edge_error(struct abx_http_req *req, const struct abx__edge_error *x)
{
    ABX_AUTO_BUF b = {.max = 4096};
    struct abx_json_writer w;
    struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("application/json; charset=utf-8")},
                                     {"X-Content-Type-Options", ABX_STR("nosniff")},
                                     {"Access-Control-Allow-Origin", ABX_STR("*")},
                                     {0}};
    if (abx__wants_html(req->head)) {
        answer_html(req, x);
        return;
    }
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    if (x->sandbox_id.ptr != NULL)
        abx_json_kv_str(&w, "sandboxId", x->sandbox_id);
    abx_json_kv_c(&w, "message", x->message);
    if (x->path != NULL)
        abx_json_kv_c(&w, "path", x->path);
    abx_json_kv_i64(&w, "code", x->status);
    if (x->connection_limit != 0)
        abx_json_kv_i64(&w, "connectionLimit", x->connection_limit);
    abx_json_end_object(&w);
    abx_http_answer(req, x->status, extra, abx_buf_str(&b));
}

void abx__edge_envd_error(struct abx_http_req *req, int status, const char *message)
{
    ABX_AUTO_BUF b = {.max = 1024};
    struct abx_json_writer w;
    struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("application/json; charset=utf-8")},
                                     {"X-Content-Type-Options", ABX_STR("nosniff")},
                                     {"Access-Control-Allow-Origin", ABX_STR("*")},
                                     {"Vary", ABX_STR("Origin")},
                                     {0}};
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "code", status);
    abx_json_kv_c(&w, "message", message);
    abx_json_end_object(&w);
    abx_buf_put_byte(&b, '\n');
    abx_http_answer(req, status, extra, abx_buf_str(&b));
}
