/* lib/connect/pbjson_read.c: messages from proto3 JSON (envd.md 4.8). Pure; all memory from an
 * arena.
 */
#include "lib/connect/pbjson_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/json/json.h"

#include <jansson.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { PATH_BYTES = 128 };

struct reader {
    struct abx_arena *arena;
    struct abx_error *err;
    char path[PATH_BYTES];
    size_t path_len;
};

static ProtobufCMessage *read_message(struct reader *r, json_t *v,
                                      const ProtobufCMessageDescriptor *d);

static size_t path_push(struct reader *r, const char *separator, const char *name)
{
    size_t before = r->path_len;
    int n =
        snprintf(r->path + before, sizeof(r->path) - before, "%s%s", before ? separator : "", name);
    size_t len = before + (n > 0 ? (size_t)n : 0);
    r->path_len = len < sizeof(r->path) ? len : sizeof(r->path) - 1;
    return before;
}

static void path_pop(struct reader *r, size_t before)
{
    r->path_len = before;
    r->path[before] = '\0';
}

static int refuse(struct reader *r, const char *wanted)
{
    return abx_err_set(r->err, ABX_INVALID_ARGUMENT, "%s: expected %s",
                       r->path_len ? r->path : "message", wanted);
}

static int no_memory(struct reader *r)
{
    return abx_err_set(r->err, ABX_RESOURCE_EXHAUSTED, "%s: too large",
                       r->path_len ? r->path : "message");
}

static struct abx_str json_text(const json_t *v)
{
    return abx_str_n(json_string_value(v), json_string_length(v));
}

/* A whole number written as a number, a number with an empty fraction, or text. */
static int read_whole(struct reader *r, const json_t *v, int64_t min, int64_t max, int64_t *ret)
{
    int64_t n = 0;
    bool ok = false;
    if (json_is_integer(v)) {
        n = json_integer_value(v);
        ok = true;
    } else if (json_is_string(v))
        ok = abx_parse_i64(json_text(v), &n) == 0;
    else if (json_is_real(v)) {
        double d = json_real_value(v);
        ok = d >= -9007199254740992.0 && d <= 9007199254740992.0 && (double)(int64_t)d == d;
        n = ok ? (int64_t)d : 0;
    }
    if (!ok)
        return refuse(r, "a whole number");
    if (n < min || n > max)
        return abx_err_set(r->err, ABX_INVALID_ARGUMENT, "%s: %lld is out of range", r->path,
                           (long long)n);
    *ret = n;
    return 0;
}

static int read_u64(struct reader *r, const json_t *v, uint64_t *ret)
{
    int64_t n;
    if (json_is_string(v) && abx_parse_u64(json_text(v), ret) == 0)
        return 0;
    if (read_whole(r, v, 0, INT64_MAX, &n) < 0)
        return -1;
    *ret = (uint64_t)n;
    return 0;
}

static int read_enum(struct reader *r, const json_t *v, const ProtobufCFieldDescriptor *f,
                     int32_t *ret)
{
    int64_t n;
    if (json_is_string(v)) {
        const ProtobufCEnumValue *known =
            protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, json_string_value(v));
        if (known == NULL)
            return abx_err_set(r->err, ABX_INVALID_ARGUMENT, "%s: unknown value \"%.60s\"", r->path,
                               json_string_value(v));
        *ret = known->value;
        return 0;
    }
    if (!json_is_integer(v))
        return refuse(r, "a name or a whole number");
    if (read_whole(r, v, INT32_MIN, INT32_MAX, &n) < 0)
        return -1;
    *ret = (int32_t)n;
    return 0;
}

static int read_string(struct reader *r, const json_t *v, char **ret)
{
    if (!json_is_string(v))
        return refuse(r, "a string");
    *ret = abx_arena_c(r->arena, json_text(v));
    return *ret ? 0 : no_memory(r);
}

static int read_bytes(struct reader *r, const json_t *v, ProtobufCBinaryData *ret)
{
    if (!json_is_string(v))
        return refuse(r, "base64 text");
    struct abx_str text = json_text(v);
    /* A buffer that never grows, over arena memory: the decoder asks for at most len/4*3+3. */
    size_t room = text.len / 4 * 3 + 4;
    struct abx_buf b = {.ptr = abx_arena_alloc(r->arena, room), .cap = room, .max = room - 1};
    if (b.ptr == NULL)
        return no_memory(r);
    if (abx_base64_decode(text, &b) < 0)
        return refuse(r, "base64 text");
    *ret = (ProtobufCBinaryData){b.len, (uint8_t *)b.ptr};
    return 0;
}

static void set_timestamp_part(ProtobufCMessage *m, const char *name, int64_t v)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    ABX_ASSERT(f != NULL);
    *(protobuf_c_boolean *)abx__pb_at(m, f->quantifier_offset) = true;
    void *at = abx__pb_at(m, f->offset);
    if (f->type == PROTOBUF_C_TYPE_INT32)
        *(int32_t *)at = (int32_t)v;
    else
        *(int64_t *)at = v;
}

static int read_timestamp(struct reader *r, const json_t *v, ProtobufCMessage *m)
{
    int64_t ns;
    if (!json_is_string(v) || abx_time_parse(json_text(v), &ns) < 0)
        return refuse(r, "an RFC 3339 time");
    int64_t seconds = ns / 1000000000, nanos = ns % 1000000000;
    if (nanos < 0) {
        nanos += 1000000000;
        seconds--;
    }
    set_timestamp_part(m, "seconds", seconds);
    set_timestamp_part(m, "nanos", nanos);
    return 0;
}

static int read_int32(struct reader *r, const json_t *v, int32_t *ret)
{
    int64_t n;
    if (read_whole(r, v, INT32_MIN, INT32_MAX, &n) < 0)
        return -1;
    *ret = (int32_t)n;
    return 0;
}

static int read_uint32(struct reader *r, const json_t *v, uint32_t *ret)
{
    int64_t n;
    if (read_whole(r, v, 0, UINT32_MAX, &n) < 0)
        return -1;
    *ret = (uint32_t)n;
    return 0;
}

static int read_real(struct reader *r, const json_t *v, ProtobufCType type, void *at)
{
    if (!json_is_number(v))
        return refuse(r, "a number");
    if (type == PROTOBUF_C_TYPE_FLOAT)
        *(float *)at = (float)json_number_value(v);
    else
        *(double *)at = json_number_value(v);
    return 0;
}

static int read_bool(struct reader *r, const json_t *v, protobuf_c_boolean *ret)
{
    if (!json_is_boolean(v))
        return refuse(r, "a boolean");
    *ret = json_is_true(v);
    return 0;
}

static int read_value(struct reader *r, json_t *v, const ProtobufCFieldDescriptor *f, void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return read_int32(r, v, at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return read_uint32(r, v, at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return read_whole(r, v, INT64_MIN, INT64_MAX, at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return read_u64(r, v, at);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_real(r, v, f->type, at);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(r, v, at);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(r, v, f, at);
    case PROTOBUF_C_TYPE_STRING:
        return read_string(r, v, at);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(r, v, at);
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)at = read_message(r, v, f->descriptor);
        return *(ProtobufCMessage **)at ? 0 : -1;
    }
    return refuse(r, "a known type");
}

static ProtobufCMessage *new_message(struct reader *r, const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *m = abx_arena_alloc(r->arena, d->sizeof_message);
    if (m == NULL) {
        no_memory(r);
        return NULL;
    }
    protobuf_c_message_init(d, m);
    return m;
}

static int read_array(struct reader *r, json_t *v, const ProtobufCFieldDescriptor *f, char *items)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        char index[32];
        snprintf(index, sizeof(index), "[%zu]", i);
        size_t before = path_push(r, "", index);
        if (read_value(r, json_array_get(v, i), f, items + i * abx__pb_size(f->type)) < 0)
            return -1;
        path_pop(r, before);
    }
    return 0;
}

static int read_map(struct reader *r, json_t *v, const ProtobufCFieldDescriptor *f,
                    ProtobufCMessage **items)
{
    const ProtobufCMessageDescriptor *d = f->descriptor;
    const ProtobufCFieldDescriptor *value_field = &d->fields[1];
    const char *key;
    json_t *value;
    json_object_foreach(v, key, value)
    {
        ProtobufCMessage *entry = new_message(r, d);
        if (entry == NULL)
            return -1;
        size_t before = path_push(r, ".", key);
        char *copy = abx_arena_c(r->arena, abx_str(key));
        if (copy == NULL)
            return no_memory(r);
        *(char **)abx__pb_at(entry, d->fields[0].offset) = copy;
        if (read_value(r, value, value_field, abx__pb_at(entry, value_field->offset)) < 0)
            return -1;
        if (value_field->type != PROTOBUF_C_TYPE_STRING &&
            value_field->type != PROTOBUF_C_TYPE_MESSAGE)
            *(protobuf_c_boolean *)abx__pb_at(entry, value_field->quantifier_offset) = true;
        path_pop(r, before);
        *items++ = entry;
    }
    return 0;
}

static int read_repeated(struct reader *r, json_t *v, const ProtobufCFieldDescriptor *f,
                         ProtobufCMessage *m)
{
    bool is_map = abx__pb_is_map(f);
    if (is_map ? !json_is_object(v) : !json_is_array(v))
        return refuse(r, is_map ? "an object" : "an array");
    size_t count = is_map ? json_object_size(v) : json_array_size(v);
    if (count == 0)
        return 0;
    void *items = abx_arena_array(r->arena, count, abx__pb_size(f->type));
    if (items == NULL)
        return no_memory(r);
    if (is_map ? read_map(r, v, f, items) < 0 : read_array(r, v, f, items) < 0)
        return -1;
    *(void **)abx__pb_at(m, f->offset) = items;
    *(size_t *)abx__pb_at(m, f->quantifier_offset) = count;
    return 0;
}

static int read_field(struct reader *r, json_t *v, const ProtobufCFieldDescriptor *f,
                      ProtobufCMessage *m)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return read_repeated(r, v, f, m);
    void *quantifier = abx__pb_at(m, f->quantifier_offset);
    bool in_oneof = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    if (in_oneof && *(uint32_t *)quantifier != 0)
        return abx_err_set(r->err, ABX_INVALID_ARGUMENT, "%s: another member of its oneof is set",
                           r->path);
    if (read_value(r, v, f, abx__pb_at(m, f->offset)) < 0)
        return -1;
    if (in_oneof)
        *(uint32_t *)quantifier = f->id;
    else if (f->label == PROTOBUF_C_LABEL_OPTIONAL && f->type != PROTOBUF_C_TYPE_STRING &&
             f->type != PROTOBUF_C_TYPE_MESSAGE)
        *(protobuf_c_boolean *)quantifier = true;
    return 0;
}

static ProtobufCMessage *read_message(struct reader *r, json_t *v,
                                      const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *m = new_message(r, d);
    if (m == NULL)
        return NULL;
    if (abx__pb_is_timestamp(d))
        return read_timestamp(r, v, m) < 0 ? NULL : m;
    if (!json_is_object(v)) {
        refuse(r, "an object");
        return NULL;
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        char name[ABX__PB_NAME];
        abx__pb_json_name(d->fields[i].name, name);
        json_t *member = json_object_get(v, name);
        if (member == NULL)
            member = json_object_get(v, d->fields[i].name);
        if (member == NULL || json_is_null(member))
            continue;
        size_t before = path_push(r, ".", name);
        if (read_field(r, member, &d->fields[i], m) < 0)
            return NULL;
        path_pop(r, before);
    }
    return m;
}

int abx_pb_from_json(struct abx_str json, const ProtobufCMessageDescriptor *d, struct abx_arena *a,
                     ProtobufCMessage **ret, struct abx_error *err)
{
    /* The caller has capped the bytes; depth and the number of values are capped in lib/json. */
    struct abx_json_limits limits = {.max_bytes = json.len + 1};
    struct reader r = {.arena = a, .err = err};
    json_t *doc = NULL;
    if (abx_json_parse(json, &limits, &doc, err) < 0)
        return -1;
    ProtobufCMessage *m = read_message(&r, doc, d);
    abx_json_free(doc);
    if (m == NULL)
        return -1;
    *ret = m;
    return 0;
}
