/* lib/connect/pbjson_priv.h: what both directions of the JSON mapping share. */
#pragma once
#include "lib/connect/pbjson.h"

enum { ABX__PB_NAME = 64 }; /* bytes of a JSON field name with its terminator */

/** "exit_code" to "exitCode". */
void abx__pb_json_name(const char *name, char out[ABX__PB_NAME]);
/** A repeated field of *Entry messages {key, value}: an object in JSON. */
bool abx__pb_is_map(const ProtobufCFieldDescriptor *f);
bool abx__pb_is_timestamp(const ProtobufCMessageDescriptor *d);
/** Where a member of the message stands. */
void *abx__pb_at(const ProtobufCMessage *m, unsigned offset);
/** The size of one value of that type in a message struct or an array. */
size_t abx__pb_size(ProtobufCType type);
