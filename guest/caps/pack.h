/* guest/caps/pack.h: an archive of files and folders, made in steps: tar, tar.gz or zip. Links are
 * stored as links; what is neither file, folder nor link is left out (a FIFO would never end).
 *
 * All of it blocks: pool threads. Paths are resolved and judged before. */
#pragma once
#include "guest/caps/tree.h"

enum { ABX_PACK_STEP = 256 * 1024 }; /* about what a step makes */

enum abx_pack_form { ABX_PACK_TAR_GZIP, ABX_PACK_TAR, ABX_PACK_ZIP, ABX_PACK__COUNT };
/** "tar.gz", "tar", "zip". */
const char *abx_pack_form_name(enum abx_pack_form form);
/** The form of that name, or -1. */
int abx_pack_form_parse(struct abx_str name);

/* What goes in, and the name that it has there; "" stands for the contents of a folder. */
struct abx_pack_root {
    struct abx_str path, name;
};
struct abx_pack_spec {
    enum abx_pack_form form;
    const struct abx_pack_root *roots; /* they and their texts outlive the pack */
    size_t root_count;
    bool has_folders; /* an entry for every folder; else for the empty ones alone */
    /** False: leave the entry out, with what is beneath. NULL: all. */
    bool (*shows)(void *ctx, const struct abx_tree_entry *e);
    void *ctx;
};
struct abx_pack;
/** NULL: no memory. */
struct abx_pack *abx_pack_new(const struct abx_pack_spec *spec);
/** Appends some of the archive to @out: 1: more follows, 0: that was the end, -errno. A file that
 * shrinks meanwhile is filled up with zeros, one that has gone is left out. */
int abx_pack_step(struct abx_pack *p, struct abx_buf *out);
/** Accepts NULL. */
void abx_pack_free(struct abx_pack *p);
