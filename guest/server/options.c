/* guest/server/options.c: option rows of the verbs. server.md 1. */
#include "guest/server/options.h"

#include "lib/base/parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/banned.h"

enum { EXIT_USAGE = 2 };

static void put_usage(FILE *to, const struct abx__option *rows, const char *verb)
{
    fprintf(to, "usage: agent-sandbox-server %s [OPTION...]\n", verb);
    for (; rows->name; rows++)
        fprintf(to, "  %s %s\t%s\n", rows->name, rows->value ? rows->value : "", rows->help);
}

static int usage_error(const char *verb, const char *what, const char *why)
{
    fprintf(stderr, "agent-sandbox-server %s: %s: %s; -h lists the options\n", verb, what, why);
    return EXIT_USAGE;
}

/* The row of that name, or the only one that begins so. *ret_is_ambiguous: there are several. */
static const struct abx__option *find(const struct abx__option *rows, struct abx_str name,
                                      bool *ret_is_ambiguous)
{
    const struct abx__option *found = NULL;
    *ret_is_ambiguous = false;
    for (; rows->name; rows++) {
        if (abx_str_is(name, rows->name)) {
            *ret_is_ambiguous = false;
            return rows;
        }
        if (name.len > 2 && strncmp(rows->name, name.ptr, name.len) == 0) {
            *ret_is_ambiguous = found != NULL;
            found = rows;
        }
    }
    return found;
}

static bool add_item(struct abx__option_list *list, const char *value)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof(*items));
    if (items == NULL)
        return false;
    list->items = items;
    list->items[list->count++] = value;
    return true;
}

static bool take_real(const char *value, double *ret)
{
    char *end;
    *ret = strtod(value, &end);
    return end != value && *end == '\0' && !isnan(*ret);
}

static bool take_value(const struct abx__option *row, const char *value, void *out)
{
    void *slot = (char *)out + row->offset;
    switch (row->kind) {
    case ABX__OPTION_TEXT:
        *(const char **)slot = value;
        return true;
    case ABX__OPTION_NUMBER:
        return abx_parse_i64(abx_str(value), slot) == 0;
    case ABX__OPTION_REAL:
        return take_real(value, slot);
    case ABX__OPTION_LIST:
        return add_item(slot, value);
    case ABX__OPTION_FLAG:
        break;
    }
    return false;
}

/* One option at argv[*at]; ABX__OPTIONS_OK and *at moved on, or the exit code. */
static int take(const struct abx__option *rows, char **argv, int *at, void *out)
{
    struct abx_str rest = abx_str(argv[*at]), name;
    bool is_ambiguous, has_value = abx_str_chr(rest, '=') >= 0;
    abx_str_split(&rest, '=', &name);
    const struct abx__option *row = find(rows, name, &is_ambiguous);
    if (row == NULL || is_ambiguous)
        return usage_error(argv[0], argv[*at], row ? "ambiguous option" : "unknown option");
    if (row->has_offset)
        *(bool *)((char *)out + row->has_offset) = true;
    if (row->kind == ABX__OPTION_FLAG) {
        if (has_value)
            return usage_error(argv[0], row->name, "takes no value");
        *(bool *)((char *)out + row->offset) = true;
        ++*at;
        return ABX__OPTIONS_OK;
    }
    const char *value = has_value ? rest.ptr : argv[*at + 1];
    if (value == NULL)
        return usage_error(argv[0], row->name, "needs a value");
    if (!take_value(row, value, out))
        return usage_error(argv[0], row->name, "is no number");
    *at += has_value ? 1 : 2;
    return ABX__OPTIONS_OK;
}

int abx__options_read(const struct abx__option *rows, int argc, char **argv, void *out)
{
    for (int at = 1; at < argc;) {
        if (strcmp(argv[at], "-h") == 0 || strcmp(argv[at], "--help") == 0) {
            put_usage(stdout, rows, argv[0]);
            return 0;
        }
        if (strncmp(argv[at], "--", 2) != 0)
            return usage_error(argv[0], argv[at], "unexpected argument");
        int rc = take(rows, argv, &at, out);
        if (rc != ABX__OPTIONS_OK)
            return rc;
    }
    return ABX__OPTIONS_OK;
}
