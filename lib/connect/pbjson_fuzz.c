/* lib/connect/pbjson_fuzz.c: any bytes as JSON or protobuf of any of our requests: what is accepted
 * comes out the same after a further round. The first byte picks the message and the direction. */
#include "lib/base/assert.h"
#include "lib/connect/filesystem.pb-c.h"
#include "lib/connect/pbjson.h"
#include "lib/connect/process.pb-c.h"

#include "lib/base/banned.h"

static const ProtobufCMessageDescriptor *const messages[] = {
    &process__start_request__descriptor,        &process__send_input_request__descriptor,
    &process__list_response__descriptor,        &process__start_response__descriptor,
    &process__stream_input_request__descriptor, &process__send_signal_request__descriptor,
    &filesystem__list_dir_response__descriptor, &filesystem__watch_dir_response__descriptor,
};

/* One round from message to JSON and back; NULL when the arena was too small for it. */
static ProtobufCMessage *round_trip(const ProtobufCMessage *m, struct abx_buf *json,
                                    struct abx_arena *a)
{
    ProtobufCMessage *again = NULL;
    struct abx_error err = {0};
    abx_pb_to_json(m, json);
    ABX_ASSERT(!json->failed);
    if (abx_pb_from_json(abx_buf_str(json), m->descriptor, a, &again, &err) < 0)
        ABX_ASSERT(err.code == ABX_RESOURCE_EXHAUSTED);
    return again;
}

/* The first round may drop what JSON can not say (equal keys of a map, bytes that are not UTF-8).
 */
static void check_json(const ProtobufCMessage *m, struct abx_arena *a)
{
    ABX_AUTO_BUF one;
    ABX_AUTO_BUF two;
    ABX_AUTO_BUF three;
    abx_buf_init(&one, 4 << 20);
    abx_buf_init(&two, 4 << 20);
    abx_buf_init(&three, 4 << 20);
    ProtobufCMessage *second = round_trip(m, &one, a);
    ProtobufCMessage *third = second ? round_trip(second, &two, a) : NULL;
    if (third == NULL)
        return;
    abx_pb_to_json(third, &three);
    ABX_ASSERT(abx_str_eq(abx_buf_str(&two), abx_buf_str(&three)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 16384)
        return 0;
    const ProtobufCMessageDescriptor *d = messages[data[0] & 7];
    struct abx_arena a;
    abx_arena_init(&a, 16 << 20);
    ProtobufCAllocator allocator = abx_pb_allocator(&a);
    ProtobufCMessage *m = NULL;
    struct abx_error err = {0};
    if (data[0] & 8)
        m = protobuf_c_message_unpack(d, &allocator, size - 1, data + 1);
    else if (abx_pb_from_json(abx_str_n((const char *)data + 1, size - 1), d, &a, &m, &err) < 0)
        ABX_ASSERT(err.code != ABX_OK && err.msg[0]);
    if (m) {
        check_json(m, &a);
        uint8_t *packed = abx_arena_alloc(&a, protobuf_c_message_get_packed_size(m) + 1);
        size_t len = packed ? protobuf_c_message_pack(m, packed) : 0;
        ProtobufCMessage *again =
            packed ? protobuf_c_message_unpack(d, &allocator, len, packed) : NULL;
        if (again)
            check_json(again, &a);
    }
    abx_arena_done(&a);
    return 0;
}
