/* guest/interpreter/body.c: request bodies, strict about types: a wrong one is answered in the form
 * of FastAPI, as clients of the service know it. */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"
#include "lib/json/json.h"

#include <jansson.h>

#include "lib/base/banned.h"

enum { ECHO_MAX = 4096, DEPTH_MAX = 32 };

/* ---- what is wrong ---- */

struct fault {
    const char *type, *message;
    const char *field; /* NULL: the body as a whole */
    const char *key;   /* in the field; NULL: the field itself */
    const json_t *input;
    const char *error; /* of the parser; NULL: none */
};

/* The input comes back, as FastAPI does, but not megabytes of it. */
static void put_input(struct abx_json_writer *w, const json_t *input)
{
    ABX_AUTO_BUF text;
    struct abx_json_writer inner;
    abx_buf_init(&text, ECHO_MAX);
    abx_json_writer_init(&inner, &text);
    abx_json_key(w, ABX_STR("input"));
    if (input != NULL)
        abx_json_value(&inner, input);
    if (input == NULL || abx_buf_failed(&text))
        abx_json_null(w);
    else
        abx_json_raw(w, abx_buf_str(&text));
}

static int refuse(struct abx_buf *detail, const struct fault *f)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, detail);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("detail"));
    abx_json_begin_array(&w);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", f->type);
    abx_json_key(&w, ABX_STR("loc"));
    abx_json_begin_array(&w);
    abx_json_str(&w, ABX_STR("body"));
    if (f->error != NULL)
        abx_json_i64(&w, 0);
    if (f->field != NULL)
        abx_json_str(&w, abx_str(f->field));
    if (f->key != NULL)
        abx_json_str(&w, abx_str(f->key));
    abx_json_end_array(&w);
    abx_json_kv_c(&w, "msg", f->message);
    put_input(&w, f->input);
    if (f->error != NULL) {
        abx_json_key(&w, ABX_STR("ctx"));
        abx_json_begin_object(&w);
        abx_json_kv_c(&w, "error", f->error);
        abx_json_end_object(&w);
    }
    abx_json_end_object(&w);
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    return -1;
}

/* ---- reading ---- */

static int read_string(const json_t *body, const char *field, struct abx_arena *a,
                       struct abx_str *ret, struct abx_buf *detail)
{
    const json_t *value = json_object_get(body, field);
    if (value == NULL || json_is_null(value))
        return 0;
    if (!json_is_string(value))
        return refuse(detail, &(struct fault){"string_type", "Input should be a valid string",
                                              field, NULL, value, NULL});
    *ret = abx_arena_str(a, abx_str_n(json_string_value(value), json_string_length(value)));
    return 0;
}

static const char *variable_fault(const char *name, const json_t *value)
{
    if (!json_is_string(value))
        return "Input should be a valid string";
    if (*name == '\0' || strchr(name, '=') != NULL)
        return "Value error, a name of a variable is not empty and has no '='";
    return NULL;
}

static int read_variables(const json_t *body, struct abx_arena *a,
                          struct abx__interp_execution *ret, struct abx_buf *detail)
{
    json_t *map = json_object_get(body, "env_vars"), *value;
    const char *name;
    if (map == NULL || json_is_null(map))
        return 0;
    if (!json_is_object(map))
        return refuse(detail, &(struct fault){"dict_type", "Input should be a valid dictionary",
                                              "env_vars", NULL, map, NULL});
    ret->own = abx_arena_array(a, json_object_size(map) + 1, sizeof(*ret->own));
    json_object_foreach(map, name, value)
    {
        const char *wrong = variable_fault(name, value);
        if (wrong != NULL)
            return refuse(detail,
                          &(struct fault){json_is_string(value) ? "value_error" : "string_type",
                                          wrong, "env_vars", name, value, NULL});
        if (ret->own == NULL)
            break; /* no memory: found at the end */
        struct abx_variable *v = &ret->own[ret->own_count++];
        v->name = abx_arena_str(a, abx_str(name));
        v->value = abx_arena_str(a, abx_str_n(json_string_value(value), json_string_length(value)));
    }
    return 0;
}

static int parse(struct abx_str body, json_t **ret, struct abx_buf *detail)
{
    const struct abx_json_limits limits = {.max_bytes = ABX__INTERP_BODY_MAX,
                                           .max_depth = DEPTH_MAX};
    struct abx_error err = {0};
    json_t *doc = NULL;
    if (body.len == 0)
        return refuse(detail, &(struct fault){"missing", "Field required", NULL, NULL, NULL, NULL});
    if (abx_json_parse(body, &limits, &doc, &err) < 0)
        return refuse(detail, &(struct fault){"json_invalid", "JSON decode error", NULL, NULL, NULL,
                                              err.msg});
    if (!json_is_object(doc)) {
        refuse(detail, &(struct fault){"model_attributes_type",
                                       "Input should be a valid dictionary or object to extract "
                                       "fields from",
                                       NULL, NULL, doc, NULL});
        abx_json_free(doc);
        return -1;
    }
    *ret = doc;
    return 0;
}

int abx__interp_read_execution(struct abx_str body, struct abx_arena *a,
                               struct abx__interp_execution *ret, struct abx_buf *detail)
{
    json_t *doc;
    *ret = (struct abx__interp_execution){0};
    if (parse(body, &doc, detail) < 0)
        return -1;
    int rc = read_string(doc, "code", a, &ret->code, detail);
    const json_t *code = json_object_get(doc, "code");
    if (rc == 0 && code == NULL)
        rc = refuse(detail, &(struct fault){"missing", "Field required", "code", NULL, doc, NULL});
    else if (rc == 0 && json_is_null(code))
        rc = refuse(detail, &(struct fault){"string_type", "Input should be a valid string", "code",
                                            NULL, code, NULL});
    if (rc == 0)
        rc = read_string(doc, "context_id", a, &ret->context_id, detail);
    if (rc == 0)
        rc = read_string(doc, "language", a, &ret->language, detail);
    if (rc == 0)
        rc = read_variables(doc, a, ret, detail);
    abx_json_free(doc);
    return rc;
}

int abx__interp_read_wanted(struct abx_str body, struct abx_arena *a,
                            struct abx__interp_wanted *ret, struct abx_buf *detail)
{
    json_t *doc;
    *ret = (struct abx__interp_wanted){0};
    if (parse(body, &doc, detail) < 0)
        return -1;
    int rc = read_string(doc, "cwd", a, &ret->cwd, detail);
    if (rc == 0)
        rc = read_string(doc, "language", a, &ret->language, detail);
    abx_json_free(doc);
    return rc;
}

/* ---- collecting ---- */

struct collector {
    struct abx_buf body;
    abx__interp_body_fn *fn;
};

static void on_closed(struct abx_http_req *req, bool aborted)
{
    struct collector *c = req->data;
    (void)aborted;
    abx_buf_done(&c->body);
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct collector *c = req->data;
    if (abx_buf_failed(&c->body))
        return;
    abx_buf_put(&c->body, data, len);
    if (!abx_buf_failed(&c->body))
        return;
    req->on_body = NULL;
    req->on_body_end = NULL;
    abx__interp_answer_text(req, 413, "the body is longer than 64 MiB");
}

static void on_body_end(struct abx_http_req *req)
{
    struct collector *c = req->data;
    struct abx_buf body = c->body;
    c->body = (struct abx_buf){0};
    req->data = NULL;
    req->on_close = NULL;
    c->fn(req, abx_buf_str(&body));
    abx_buf_done(&body);
}

void abx__interp_collect(struct abx_http_req *req, abx__interp_body_fn *fn)
{
    struct collector *c = abx_arena_alloc(req->arena, sizeof(*c));
    if (c == NULL) {
        abx__interp_answer_text(req, 500, "no memory");
        return;
    }
    c->fn = fn;
    abx_buf_init(&c->body, ABX__INTERP_BODY_MAX);
    req->data = c;
    req->on_body = on_body;
    req->on_body_end = on_body_end;
    req->on_close = on_closed;
}
