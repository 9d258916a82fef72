/* lib/json/tree.h: a JSON text as a tree that keeps what diagnostics need: the place of every key
 * and value, numbers as they were written, NULs and lone surrogates in strings.
 *
 * For documents that people write (a policy, a manifest compiled from YAML); requests are decoded
 * by json.h. Nodes live in the caller's arena and borrow from nothing. Pure; any thread. */
#pragma once
#include "lib/base/arena.h"

#include <stdint.h>

enum abx_json_kind {
    ABX_JSON_NULL_NODE,
    ABX_JSON_BOOL_NODE,
    ABX_JSON_INT_NODE,  /* digits with an optional sign: no bound but the text's */
    ABX_JSON_REAL_NODE, /* with a fraction or an exponent; always finite */
    ABX_JSON_STR_NODE,
    ABX_JSON_ARRAY_NODE,
    ABX_JSON_OBJECT_NODE,
};

struct abx_json_node {
    enum abx_json_kind kind;
    bool truth; /* of a BOOL */
    struct abx_str
        text;           /* STR: decoded (a lone surrogate takes three bytes); numbers: as written */
    double number;      /* of INT (rounded) and REAL */
    struct abx_str key; /* of an object's member */
    size_t index;       /* position in its array or object */
    size_t count;       /* children */
    const struct abx_json_node *parent;
    struct abx_json_node *first, *next;
    size_t at, key_at; /* byte offsets in the text */
};

struct abx_json_fault {
    size_t at;
    const char *text; /* what was expected, no place in it */
};

enum { ABX_JSON_TREE_DEPTH = 128, ABX_JSON_TREE_MEMBERS = 4096 };

/** Parses one value with nothing after it. Of equal keys the last value counts, in the first one's
 *  place. Bounds: the arena's, ABX_JSON_TREE_DEPTH levels, ABX_JSON_TREE_MEMBERS members an object.
 *  0, or -1 with @fault filled. */
int abx_json_tree_parse(struct abx_str text, struct abx_arena *a, struct abx_json_node **ret,
                        struct abx_json_fault *fault);
const struct abx_json_node *abx_json_tree_get(const struct abx_json_node *object, const char *key);
/** Puts @value at @key of @object, in the place of the old value if there is one. */
void abx_json_tree_set(struct abx_json_node *object, const char *key, struct abx_json_node *value);
/** 1-based line and column (in characters) of byte @at. */
void abx_json_position(struct abx_str text, size_t at, unsigned *ret_line, unsigned *ret_column);
/** The JSON pointer of @node ("" for the root), in @a; NULL without memory. */
char *abx_json_tree_pointer(const struct abx_json_node *node, struct abx_arena *a);
