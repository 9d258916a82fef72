/* lib/connect/pbjson.c: proto3 JSON from messages (envd.md 4.8), and what both directions share.
 * pbjson_read.c is the other direction. Pure. */
#include "lib/connect/pbjson_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/json/json.h"

#include <stdio.h>

#include "lib/base/banned.h"

static void write_message(struct abx_json_writer *w, const ProtobufCMessage *m);

static void *arena_alloc(void *arena, size_t size)
{
    return abx_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

ProtobufCAllocator abx_pb_allocator(struct abx_arena *a)
{
    return (ProtobufCAllocator){arena_alloc, arena_free, a};
}

void abx__pb_json_name(const char *name, char out[ABX__PB_NAME])
{
    size_t n = 0;
    bool upper = false;
    for (const char *c = name; *c; c++) {
        if (*c == '_') {
            upper = true;
            continue;
        }
        ABX_ASSERT(n + 1 < ABX__PB_NAME);
        out[n++] = upper && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        upper = false;
    }
    out[n] = '\0';
}

bool abx__pb_is_map(const ProtobufCFieldDescriptor *f)
{
    if (f->label != PROTOBUF_C_LABEL_REPEATED || f->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    const ProtobufCMessageDescriptor *d = f->descriptor;
    return d->n_fields == 2 && abx_str_ends(abx_str(d->short_name), "Entry") &&
           strcmp(d->fields[0].name, "key") == 0 && strcmp(d->fields[1].name, "value") == 0 &&
           d->fields[0].type == PROTOBUF_C_TYPE_STRING;
}

bool abx__pb_is_timestamp(const ProtobufCMessageDescriptor *d)
{
    return strcmp(d->name, "google.protobuf.Timestamp") == 0;
}

void *abx__pb_at(const ProtobufCMessage *m, unsigned offset)
{
    return (char *)(uintptr_t)m + offset;
}

size_t abx__pb_size(ProtobufCType type)
{
    static const size_t sizes[] = {
        [PROTOBUF_C_TYPE_INT32] = sizeof(int32_t),
        [PROTOBUF_C_TYPE_SINT32] = sizeof(int32_t),
        [PROTOBUF_C_TYPE_SFIXED32] = sizeof(int32_t),
        [PROTOBUF_C_TYPE_INT64] = sizeof(int64_t),
        [PROTOBUF_C_TYPE_SINT64] = sizeof(int64_t),
        [PROTOBUF_C_TYPE_SFIXED64] = sizeof(int64_t),
        [PROTOBUF_C_TYPE_UINT32] = sizeof(uint32_t),
        [PROTOBUF_C_TYPE_FIXED32] = sizeof(uint32_t),
        [PROTOBUF_C_TYPE_UINT64] = sizeof(uint64_t),
        [PROTOBUF_C_TYPE_FIXED64] = sizeof(uint64_t),
        [PROTOBUF_C_TYPE_FLOAT] = sizeof(float),
        [PROTOBUF_C_TYPE_DOUBLE] = sizeof(double),
        [PROTOBUF_C_TYPE_BOOL] = sizeof(protobuf_c_boolean),
        [PROTOBUF_C_TYPE_ENUM] = sizeof(int32_t),
        [PROTOBUF_C_TYPE_STRING] = sizeof(char *),
        [PROTOBUF_C_TYPE_BYTES] = sizeof(ProtobufCBinaryData),
        [PROTOBUF_C_TYPE_MESSAGE] = sizeof(ProtobufCMessage *),
    };
    ABX_ASSERT(type < ABX_COUNTOF(sizes) && sizes[type]);
    return sizes[type];
}

/* ---- writing ---- */

static void write_enum(struct abx_json_writer *w, const ProtobufCFieldDescriptor *f, int32_t v)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(f->descriptor, v);
    if (known)
        abx_json_str(w, abx_str(known->name));
    else
        abx_json_i64(w, v);
}

static void write_bytes(struct abx_json_writer *w, const ProtobufCBinaryData *data)
{
    abx_json_raw(w, ABX_STR("\""));
    abx_base64_encode(data->data, data->len, true, w->out);
    abx_buf_put_byte(w->out, '"');
}

/* 64-bit numbers are strings: a JSON number loses them in JavaScript. */
static void write_64(struct abx_json_writer *w, bool is_signed, const void *at)
{
    char text[24];
    if (is_signed)
        snprintf(text, sizeof(text), "%lld", (long long)*(const int64_t *)at);
    else
        snprintf(text, sizeof(text), "%llu", (unsigned long long)*(const uint64_t *)at);
    abx_json_str(w, abx_str(text));
}

static int64_t timestamp_part(const ProtobufCMessage *m, const char *name)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    ABX_ASSERT(f != NULL);
    if (!*(protobuf_c_boolean *)abx__pb_at(m, f->quantifier_offset))
        return 0;
    const void *at = abx__pb_at(m, f->offset);
    return f->type == PROTOBUF_C_TYPE_INT32 ? *(const int32_t *)at : *(const int64_t *)at;
}

/* Whether it fits the nanoseconds of our clock (years 1678 to 2261). */
static bool timestamp_ns(const ProtobufCMessage *m, int64_t *ret)
{
    int64_t seconds = timestamp_part(m, "seconds"), nanos = timestamp_part(m, "nanos");
    if (nanos < 0 || nanos > 999999999 || seconds < -9214560000 || seconds > 9214646400)
        return false;
    *ret = seconds * 1000000000 + nanos;
    return true;
}

static void write_submessage(struct abx_json_writer *w, const ProtobufCMessage *m)
{
    int64_t ns;
    if (!abx__pb_is_timestamp(m->descriptor)) {
        write_message(w, m);
        return;
    }
    if (!timestamp_ns(m, &ns)) { /* a field of that kind is left out by is_present() */
        abx_json_null(w);
        return;
    }
    char text[ABX_TIME_TEXT];
    abx_time_format_min(ns, text);
    abx_json_str(w, abx_str(text));
}

static void write_value(struct abx_json_writer *w, const ProtobufCFieldDescriptor *f,
                        const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        abx_json_i64(w, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        abx_json_i64(w, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        write_64(w, true, at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        write_64(w, false, at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        abx_json_f64(w, (double)*(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        abx_json_f64(w, *(const double *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        abx_json_bool(w, *(const protobuf_c_boolean *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(w, f, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        abx_json_str(w, abx_str(*(char *const *)at));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(w, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        write_submessage(w, *(ProtobufCMessage *const *)at);
        break;
    }
}

static void write_map(struct abx_json_writer *w, const ProtobufCFieldDescriptor *f,
                      ProtobufCMessage *const *entries, size_t count)
{
    const ProtobufCMessageDescriptor *d = f->descriptor;
    abx_json_begin_object(w);
    for (size_t i = 0; i < count; i++) {
        const char *key = *(char **)abx__pb_at(entries[i], d->fields[0].offset);
        abx_json_key(w, abx_str(key ? key : ""));
        const void *value = abx__pb_at(entries[i], d->fields[1].offset);
        bool is_null = d->fields[1].type == PROTOBUF_C_TYPE_STRING && *(char *const *)value == NULL;
        if (is_null)
            abx_json_str(w, ABX_STR(""));
        else
            write_value(w, &d->fields[1], value);
    }
    abx_json_end_object(w);
}

static void write_repeated(struct abx_json_writer *w, const ProtobufCFieldDescriptor *f,
                           const ProtobufCMessage *m)
{
    size_t count = *(size_t *)abx__pb_at(m, f->quantifier_offset);
    char *items = *(char **)abx__pb_at(m, f->offset);
    if (abx__pb_is_map(f)) {
        write_map(w, f, (ProtobufCMessage **)(void *)items, count);
        return;
    }
    abx_json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        write_value(w, f, items + i * abx__pb_size(f->type));
    abx_json_end_array(w);
}

static bool is_pointer(ProtobufCType type)
{
    return type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_MESSAGE;
}

static bool is_present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *at = abx__pb_at(m, f->offset);
    const void *quantifier = abx__pb_at(m, f->quantifier_offset);
    int64_t ns;
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)quantifier > 0;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(const uint32_t *)quantifier != f->id)
        return false;
    if (is_pointer(f->type) && *(void *const *)at == NULL)
        return false;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && abx__pb_is_timestamp(f->descriptor))
        return timestamp_ns(*(ProtobufCMessage *const *)at, &ns);
    if (is_pointer(f->type) || f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return true;
    return f->label == PROTOBUF_C_LABEL_REQUIRED || *(const protobuf_c_boolean *)quantifier;
}

static void write_message(struct abx_json_writer *w, const ProtobufCMessage *m)
{
    char name[ABX__PB_NAME];
    abx_json_begin_object(w);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (!is_present(m, f))
            continue;
        abx__pb_json_name(f->name, name);
        abx_json_key(w, abx_str(name));
        if (f->label == PROTOBUF_C_LABEL_REPEATED)
            write_repeated(w, f, m);
        else
            write_value(w, f, abx__pb_at(m, f->offset));
    }
    abx_json_end_object(w);
}

void abx_pb_to_json(const ProtobufCMessage *m, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    write_submessage(&w, m);
}
