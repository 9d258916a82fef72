/* lib/yaml/yaml.h: a YAML document as a tree with places, of the part of YAML that all readers
 * agree on: one document, no anchors, aliases or tags, no plain words that are booleans to some
 * only. Pure. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"

enum { ABX_YAML_TEXT_MAX = 256 * 1024, ABX_YAML_DEPTH_MAX = 24, ABX_YAML_NODES_MAX = 20000 };

enum abx_yaml_type {
    ABX_YAML_NULL,
    ABX_YAML_BOOL,
    ABX_YAML_INT,
    ABX_YAML_FLOAT,
    ABX_YAML_STR,
    ABX_YAML_LIST,
    ABX_YAML_MAP,
    ABX_YAML__COUNT
};
struct abx_yaml {
    enum abx_yaml_type type;
    struct abx_str text; /* of a scalar */
    struct abx_str key;  /* of a map's entry */
    unsigned line, column, width;
    unsigned key_line, key_column; /* of a map's entry */
    struct abx_yaml *items;        /* of a list or map */
    size_t count;
};

/* The first thing that is wrong. */
struct abx_yaml_fault {
    unsigned line, column, width; /* 1-based; line 0: the document as a whole */
    const char *text;
    const char *advice; /* what to write instead; may be NULL */
};

/** The root of @source in *ret, all of it in @a; a map. -1: see *fault. */
int abx_yaml_parse(struct abx_str source, struct abx_arena *a, struct abx_yaml_fault *fault,
                   struct abx_yaml **ret);
const char *abx_yaml_type_name(enum abx_yaml_type type);
/** NULL: absent. */
const struct abx_yaml *abx_yaml_get(const struct abx_yaml *map, const char *key);
/** The node at a JSON pointer; when it is absent, the nearest one above it. */
const struct abx_yaml *abx_yaml_at(const struct abx_yaml *root, struct abx_str pointer);
/** The entries of a map by the bytes of their keys; the caller frees. NULL: no memory. */
const struct abx_yaml **abx_yaml_sorted(const struct abx_yaml *map);
/** As JSON: keys in byte order, no blanks. */
void abx_yaml_to_json(const struct abx_yaml *node, struct abx_buf *out);
