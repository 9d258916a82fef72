/* lib/connect/pbjson.h: proto3 JSON mapping over protobuf-c descriptors (envd.md 4.8). Pure.
 *
 * Names: snake_case in the .proto, lowerCamelCase in JSON; both are accepted. Maps are repeated
 * messages named *Entry {key=1, value=2}. google.protobuf.Timestamp is a message of that name with
 * seconds and nanos. Oneof members stand directly in their message. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <protobuf-c/protobuf-c.h>

/** An allocator whose memory goes with the arena; pass it to *_unpack. */
ProtobufCAllocator abx_pb_allocator(struct abx_arena *a);
/** JSON to message, all memory from the arena. Errors: INVALID_ARGUMENT with the field's path. */
int abx_pb_from_json(struct abx_str json, const ProtobufCMessageDescriptor *d, struct abx_arena *a,
                     ProtobufCMessage **ret, struct abx_error *err);
void abx_pb_to_json(const ProtobufCMessage *m, struct abx_buf *out);
