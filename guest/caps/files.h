/* guest/caps/files.h: files as the API sees them: paths, uploads, downloads, entries, trees.
 *
 * Rights are the daemon's own (root): the user decides the home directory and the owner of what is
 * created. Every system call that may block runs on the loop's pool with copies of its arguments
 * (S80). Functions are called on the loop thread and call back there, never before they return.
 * An operation that failed to start (-1) calls nothing back. */
#pragma once
#include "guest/caps/users.h"
#include "lib/base/buf.h"
#include "lib/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ABX_FILES_PATH = 4096,                /* PATH_MAX, with the terminator */
    ABX_FILES_ENTRIES = 100000,           /* of one listing */
    ABX_FILES_CHUNK = 256 * 1024,         /* of a download */
    ABX_FILES_UPLOAD_BUFFER = 1024 * 1024 /* an upload holds so much before it says stop */
};

/** envd.md 3.1: "" is @workdir (when not "") or stays ""; "~" and "~/x" use the home of @user;
 *  absolute is kept byte for byte; relative joins the home and is cleaned lexically.
 *  Writes a terminated path. INVALID_ARGUMENT "failed to expand path ...", too long, or a NUL. */
int abx_path_resolve(struct abx_str raw, const struct abx_user *user, struct abx_str workdir,
                     char out[ABX_FILES_PATH], struct abx_error *err);
/** The part after the last slash (trailing slashes aside); "/" for the root. Borrows. */
struct abx_str abx_path_base(struct abx_str path);

enum abx_entry_type { ABX_ENTRY_UNSPECIFIED, ABX_ENTRY_FILE, ABX_ENTRY_DIRECTORY };

enum { ABX_FILES_META_BYTES = 4096 }; /* longest value that is read */
/* One row of a file's metadata: extended attribute "user.e2b.KEY". */
struct abx_meta {
    struct abx_str key, value;
};

/* envd.md 6.2; strings live as long as what gave the entry. */
struct abx_entry {
    struct abx_str name;
    enum abx_entry_type type;
    struct abx_str path;
    int64_t size;
    uint32_t mode;        /* permission bits */
    char permissions[24]; /* "-rw-r--r--", "Lrwxrwxrwx" */
    struct abx_str owner, group;
    int64_t mtime_ns;
    struct abx_str symlink_target; /* ptr NULL: not a link */
    const struct abx_meta *meta;
    size_t meta_count;
};

struct abx_files_op; /* a running operation */
/** Its callback will not come; the system calls may still happen. Accepts NULL. An op ends by
 *  itself when its callback has returned. */
void abx_files_cancel(struct abx_files_op *op);

/** @entries are valid during the call. @err NULL on success. */
typedef void abx_entries_fn(void *arg, const struct abx_entry *entries, size_t count,
                            const struct abx_error *err);

enum abx_files_verb {
    ABX_FILES_STAT,   /* one entry */
    ABX_FILES_LIST,   /* the entries below, `depth` levels (0 means 1) */
    ABX_FILES_MKDIR,  /* the new folder's entry; parents and it belong to `user` */
    ABX_FILES_MOVE,   /* the entry at `destination`; its new parents belong to `user` */
    ABX_FILES_REMOVE, /* no entry; recursive; a missing path is fine */
    ABX_FILES__COUNT
};
struct abx_files_request {
    enum abx_files_verb verb;
    const char *path, *destination; /* resolved */
    uint32_t depth;
    const struct abx_user *user; /* for MKDIR and MOVE */
    abx_entries_fn *fn;
    void *arg;
};
/** The codes and texts of envd.md 6.3. Copies @r. *ret (may be NULL) borrows the op until the
 *  callback. */
int abx_files_start(struct abx_loop *l, const struct abx_files_request *r,
                    struct abx_files_op **ret, struct abx_error *err);

/* --- upload: one file ---
 * The system calls of envd.md 3.4 in its order; nothing on disk is touched before 256 KiB came or
 * finish() was called. A body that breaks off leaves no new file, and an old one as it was: more
 * than 256 KiB for it are kept in a nameless file, and are copied into it after finish(). Only
 * where that file can not be had or grow (caps/spool.h) is the old one written while the body
 * comes; it is left empty then. */
struct abx_upload;
struct abx_upload_spec {
    const char *path; /* resolved */
    const struct abx_user *user;
    const char *spill_dir; /* for the nameless file; borrowed; NULL: the usual ones */
    bool has_total;        /* the length of the request is known: for the text of 507 */
    uint64_t total;
    /* The file's metadata from now on, instead of what it had; keys without NUL, <= 246 bytes.
     * Copied. */
    const struct abx_meta *meta;
    size_t meta_count;
};
struct abx_upload_ops {
    /** append() answered false earlier: there is room again. */
    void (*on_drain)(struct abx_upload *u);
    /** The file is complete (err NULL), or failed: stop appending. Once; then only close() is
     *  allowed. INVALID_ARGUMENT "path is a directory: /x" -> 400; RESOURCE_EXHAUSTED with sys
     *  ENOSPC or EDQUOT -> 507; INTERNAL -> 500. */
    void (*on_done)(struct abx_upload *u, const struct abx_error *err);
};
int abx_upload_open(struct abx_loop *l, const struct abx_upload_spec *spec,
                    const struct abx_upload_ops *ops, void *owner, struct abx_upload **ret,
                    struct abx_error *err);
void *abx_upload_owner(const struct abx_upload *u);
/** Copies. False: pause the source until on_drain (the bytes are taken all the same, but one call
 *  must not bring more than ABX_FILES_UPLOAD_BUFFER). After a failure bytes are dropped. */
bool abx_upload_append(struct abx_upload *u, const void *data, size_t len);
/** The body is complete: on_done follows. */
void abx_upload_finish(struct abx_upload *u);
/** Lets go. Before on_done it aborts: see above. No callback after. Accepts NULL. */
void abx_upload_close(struct abx_upload *u);

/* --- compose --- */
struct abx_compose;
/** @err: NOT_FOUND (a source), INVALID_ARGUMENT, RESOURCE_EXHAUSTED with sys ENOSPC, INTERNAL. */
typedef void abx_compose_fn(void *arg, const struct abx_error *err);
struct abx_compose_request {
    const char *const *sources; /* resolved */
    size_t count;
    const char *destination;
    const struct abx_user *user; /* owner of the destination and its new parents */
    abx_compose_fn *fn;
    void *arg;
};
/** Writes the sources one after the other beside the destination, renames that over it and removes
 *  the sources. Copies @r. *ret is the op until the callback. */
int abx_compose_start(struct abx_loop *l, const struct abx_compose_request *r,
                      struct abx_compose **ret, struct abx_error *err);
/** The callback will not come; the work may still be done. Accepts NULL. */
void abx_compose_cancel(struct abx_compose *c);

/* --- download --- */
struct abx_download;
struct abx_download_info {
    uint64_t size; /* what stat says; 0 for much of /proc: read to the end all the same */
    int64_t mtime_ns;
    bool is_virtual; /* on procfs or sysfs: the size means nothing */
};
struct abx_download_ops {
    /** Opened, or err: NOT_FOUND "path '/x' does not exist", INVALID_ARGUMENT "path '/x' is a
     *  directory" or "... is not a regular file", INTERNAL (500). */
    void (*on_open)(struct abx_download *d, const struct abx_download_info *info,
                    const struct abx_error *err);
    /** Answer to abx_download_read(): the bytes (valid during the call), len 0 at the end of file
     *  or on err. */
    void (*on_data)(struct abx_download *d, struct abx_str data, const struct abx_error *err);
};
int abx_download_open(struct abx_loop *l, const char *path, const struct abx_download_ops *ops,
                      void *owner, struct abx_download **ret, struct abx_error *err);
void *abx_download_owner(const struct abx_download *d);
/** Reads up to @len (<= ABX_FILES_CHUNK) bytes at @offset. One at a time. */
int abx_download_read(struct abx_download *d, uint64_t offset, size_t len, struct abx_error *err);
/** No callback after. Accepts NULL. */
void abx_download_close(struct abx_download *d);
