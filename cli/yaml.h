/* cli/yaml.h: a YAML document as a tree with places, of the part of YAML that all readers agree on:
 * one document, no anchors, aliases or tags, no plain words that are booleans to some only. */
#pragma once
#include "cli/findings.h"
#include "lib/base/buf.h"

enum { CLI_YAML_TEXT_MAX = 256 * 1024, CLI_YAML_DEPTH_MAX = 24, CLI_YAML_NODES_MAX = 20000 };

enum cli_yaml_type {
    CLI_YAML_NULL,
    CLI_YAML_BOOL,
    CLI_YAML_INT,
    CLI_YAML_FLOAT,
    CLI_YAML_STR,
    CLI_YAML_LIST,
    CLI_YAML_MAP,
    CLI_YAML__COUNT
};
struct cli_yaml {
    enum cli_yaml_type type;
    struct abx_str text; /* of a scalar */
    struct abx_str key;  /* of a map's entry */
    unsigned line, column, width;
    unsigned key_line, key_column; /* of a map's entry */
    struct cli_yaml *items;        /* of a list or map */
    size_t count;
};

/** The root of @source in *ret, all of it in @a; a map. Faults go to @f; 0 or -1. */
int cli_yaml_parse(const struct cli_source *source, struct abx_arena *a, struct cli_findings *f,
                   struct cli_yaml **ret);
const char *cli_yaml_type_name(enum cli_yaml_type type);
/** NULL: absent. */
const struct cli_yaml *cli_yaml_get(const struct cli_yaml *map, const char *key);
/** The node at a JSON pointer; when it is absent, the nearest one above it. */
const struct cli_yaml *cli_yaml_at(const struct cli_yaml *root, struct abx_str pointer);
/** As JSON: keys in byte order, no blanks. */
void cli_yaml_to_json(const struct cli_yaml *node, struct abx_buf *out);
