/* lib/json/scan.h: where the values of a JSON text stand. Checks the grammar, converts
 * nothing: integers of any size and every spelling of a string survive as they came. Pure. */
#pragma once
#include "lib/base/str.h"

enum { ABX_SCAN_DEPTH = 4096 };

/** The value at the start of @text (after blanks): its length in *ret_value. The rest of @text,
 * after it and its blanks, in *ret_rest. -1: no JSON, or nested deeper than ABX_SCAN_DEPTH. Strings
 * must be UTF-8. */
int abx_scan_value(struct abx_str text, struct abx_str *ret_value, struct abx_str *ret_rest);
/** Whether @text is one JSON value and nothing else. */
bool abx_scan_is_json(struct abx_str text);

/* A walk over the members of an object. */
struct abx_scan_object {
    struct abx_str rest;
    bool began, failed;
};
/** @object as abx_scan_value() gave it. */
void abx_scan_object_init(struct abx_scan_object *o, struct abx_str object);
/** The next member: the key without its quotes, not unescaped, and the value. False at the end, or
 * with o->failed where it is no object. */
bool abx_scan_object_next(struct abx_scan_object *o, struct abx_str *ret_key,
                          struct abx_str *ret_value);
