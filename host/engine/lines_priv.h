/* host/engine/lines_priv.h: output of commands as lines, and the last of them for a failure. */
#pragma once
#include "lib/base/buf.h"

enum {
    ABX__TAIL_LINES = 50,
    ABX__LINE_MAX = 8192,          /* a longer line is cut into several */
    ABX__TAIL_LINE_MAX = 2048,     /* of a line that is kept in a tail */
    ABX__TAIL_TEXT_MAX = 64 * 1024 /* of the tail as one text */
};

/* The last lines; zeroed is empty. */
struct abx__tail {
    char *lines[ABX__TAIL_LINES];
    size_t next, count;
};
void abx__tail_add(struct abx__tail *t, struct abx_str line);
/** Appends "\nLINE" for each, oldest first. */
void abx__tail_write(const struct abx__tail *t, struct abx_buf *out);
void abx__tail_clear(struct abx__tail *t);

/* Collects bytes into lines; zeroed is empty. */
struct abx__lines {
    struct abx_buf partial;
};
typedef void abx__line_fn(void *arg, struct abx_str line);
/** Calls @fn for each complete line, without its "\r" and "\n". */
void abx__lines_feed(struct abx__lines *l, struct abx_str text, abx__line_fn *fn, void *arg);
/** The rest, if any, is a line too. */
void abx__lines_end(struct abx__lines *l, abx__line_fn *fn, void *arg);
void abx__lines_done(struct abx__lines *l);
