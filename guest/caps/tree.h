/* guest/caps/tree.h: files by resolved paths: an open that meets a link on the way fails, so what
 * is opened is what was judged (security S17). Protocol-free.
 *
 * All of these but abx_tree_stat_cached() block: they run on the loop's pool. System leaf: >= 0 or
 * -errno. Paths are absolute and normalised. -EXDEV: the object lies on a file system of the
 * kernel's own (proc, sysfs, cgroup...), which is never served. */
#pragma once
#include "lib/base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/** Follows all links of @path; missing parts stay, a loop stays as it is. @keep_last: a link that
 * is the last component is not followed. Appends to @out, which must be empty. -ENOMEM,
 * -ENAMETOOLONG. */
int abx_tree_resolve(struct abx_str path, bool keep_last, struct abx_buf *out);
/** A descriptor. Never blocks on a FIFO, never makes a terminal ours. -ELOOP: there is a link. */
int abx_tree_open(struct abx_str path, int flags, mode_t mode);
/** Of the object itself, also of a link when it is the last component. */
int abx_tree_stat(struct abx_str path, struct stat *ret);
/** As abx_tree_stat(), on any thread: it never blocks. Only what the kernel has in memory, on a
 * local file system, at a path without any link; everything else is -EAGAIN. */
int abx_tree_stat_cached(struct abx_str path, struct stat *ret);
/** What the link @path says, without a terminator: the length. -EINVAL: it is no link. */
int abx_tree_read_link(struct abx_str path, char *out, size_t cap);
/** Makes @path and its parents (0777 less the umask). 1: it was there. -EEXIST: it is no folder;
 *  -ENOTDIR: a parent is none. */
int abx_tree_mkdirs(struct abx_str path);

struct abx_tree_entry {
    struct abx_str name, path;
    struct stat st; /* of the entry itself */
};
struct abx_tree_walk {
    struct abx_str path;
    uint32_t depth; /* 1: the folder alone */
    /** False: leave the entry out, with what is beneath. */
    bool (*shows)(void *ctx, const struct abx_tree_entry *e);
    /** False: enough. */
    bool (*take)(void *ctx, const struct abx_tree_entry *e);
    void *ctx;
};
/** Depth first, in the order of the folders; links are entries and are not followed; folders that
 * can not be read are passed over, but for the first: -ENOTDIR, -EACCES. */
int abx_tree_walk(const struct abx_tree_walk *w);
/** Removes @path: a link itself, a folder with everything in it. -ENOENT. */
int abx_tree_remove(struct abx_str path);

/** Gives @from the name @to, whose folder is there. A file or link at @to is replaced. Between file
 * systems: a copy with modes, times, owners and user attributes appears whole, then @from goes.
 * -EISDIR, -ENOTDIR: @to is a folder, or no folder where @from is one. -EINVAL: into itself. */
int abx_tree_move(struct abx_str from, struct abx_str to);
/** For tests: moves as between two file systems, though it is one. */
int abx_tree_move_copying(struct abx_str from, struct abx_str to);

/* What is copied next: the entry itself, and the place that it is for. */
struct abx_tree_copy_entry {
    struct abx_str from, to;
    struct stat st;
    struct abx_str target; /* of a link, which the copy gets; else ptr NULL */
    bool is_top;
};
struct abx_tree_copy {
    struct abx_str from, to;
    bool must_be_new;
    uint64_t max_bytes, max_entries;
    /** 1: copy it; 0: leave it out, with what is beneath; below 0: the end, with that result. */
    int (*judge)(void *ctx, const struct abx_tree_copy_entry *e);
    void *ctx;
    const atomic_bool *cancel; /* set by another thread: -ECANCELED */
};
struct abx_tree_copied {
    uint64_t files, folders, links, skipped, bytes;
    struct abx_buf failed; /* the source's path where it ended; abx_buf_done() */
};
/** Copies a file, a link itself, or a folder with what is in it, to @to, whose folder is there. The
 * copy appears when it is complete, or not at all: with modes (less set-id bits), times and user
 * attributes; holes stay holes; its owner is the server's user, or that of the file that gives way.
 * -EEXIST, -EISDIR, -ENOTDIR: what is at @to does not give way. -EINVAL: into itself. -ENOTSUP:
 * neither file, folder nor link. -EFBIG, -E2BIG: max_bytes, max_entries. -EOVERFLOW: nested too
 * deep. */
int abx_tree_copy(const struct abx_tree_copy *spec, struct abx_tree_copied *ret);

struct abx_tree_chmod {
    struct abx_str path;
    mode_t file_mode, folder_mode; /* of 01777 */
    bool is_recursive;
    uint64_t max_entries;
    /** Before each entry; below 0: the end, with that result. */
    int (*judge)(void *ctx, struct abx_str path, const struct stat *st);
    void *ctx;
    const atomic_bool *cancel;
};
/** Of files and folders; beneath a folder everything else is passed over, links too. -EINVAL: the
 * path is neither. -E2BIG, -ECANCELED: as abx_tree_copy(), but what was changed stays so. */
int abx_tree_chmod(const struct abx_tree_chmod *spec, uint64_t *ret_changed);

struct abx_tree_put {
    struct abx_str path, content;
    int from_fd; /* with a size: instead of content, the first bytes of this file */
    uint64_t size;
    bool must_be_new; /* else -EEXIST */
};
/** A new file without a name, in @dir if that can be, else in /tmp: what is not yet known where it
 * goes. It is gone once it is closed. */
int abx_tree_spool(struct abx_str dir);
/** Writes a whole file: a new one beside it, then a rename; in place where the file has several
 * names. An existing file keeps its mode (less set-id bits) and owner; a new one gets 0666 less the
 * umask. The folder must be there. -EISDIR; -EINVAL: it is neither file nor folder. */
int abx_tree_put(const struct abx_tree_put *put);
/** Adds the content to the end of a file, which is made when it is missing; set-id bits go. A file
 * that fails to take all of it is as it was, unless others wrote to it too. *ret_size is the new
 * size. As abx_tree_put(), and -EFBIG: it would be larger than @max_size. */
int abx_tree_append(const struct abx_tree_put *put, uint64_t max_size, uint64_t *ret_size);
