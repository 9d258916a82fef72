/* host/image/unpack_priv.h: the parts of the unpacker: names (pure), reading, and where it goes. */
#pragma once
#include "host/image/unpack.h"

enum { ABX__TAR_PATH = 4096, ABX__TAR_NAME = 255, ABX__TAR_DEPTH = 128 };

/* ---- names: policy, without a file system ---- */
/** The entry's name without "./", "//" and a trailing "/"; "." for the root. Refuses absolute
 *  names, "..", and what is over the limits of S53. */
int abx__tar_clean(const char *raw, char ret[ABX__TAR_PATH], struct abx_error *err);
enum abx__tar_mark { ABX__TAR_PLAIN, ABX__TAR_WHITEOUT, ABX__TAR_OPAQUE };
/** Whether a clean name is a mark of an OCI layer. *ret_at: the name that a whiteout hides, or the
 *  folder that is opaque ("." for the root). */
int abx__tar_mark(const char *clean, enum abx__tar_mark *ret, char ret_at[ABX__TAR_PATH],
                  struct abx_error *err);
/** Whether an extended attribute of an archive is kept (S52). */
bool abx__tar_keeps_xattr(const char *name);

struct abx__tar_budget {
    uint64_t in, out, entries; /* bytes read; bytes unpacked */
};
/** RESOURCE_EXHAUSTED beyond the limits of S53. */
int abx__tar_afford(const struct abx__tar_budget *b, struct abx_error *err);

/* ---- reading ---- */
enum abx__tar_type {
    ABX__TAR_FILE,
    ABX__TAR_DIR,
    ABX__TAR_SYMLINK,
    ABX__TAR_HARDLINK,
    ABX__TAR_FIFO,
    ABX__TAR_HIDE /* a whiteout: character device 0:0, or .wh.NAME */
};
struct archive_entry;
struct abx__tar_entry { /* texts live until the next entry */
    enum abx__tar_type type;
    bool is_opaque; /* path is a folder to be marked; nothing else of it counts */
    char path[ABX__TAR_PATH];
    char link[ABX__TAR_PATH]; /* HARDLINK: a clean name; SYMLINK: any text */
    uint32_t mode;
    int64_t uid, gid, mtime_s;
    uint64_t size;
    struct archive_entry *raw;
};
struct abx__tar;
/** Reads the archive on @fd (not closed): plain, gzip or zstd tar. */
int abx__tar_open(int fd, struct abx__tar **ret, struct abx_error *err);
void abx__tar_close(struct abx__tar *t);
/** 1: an entry; 0: the end; -1. @marks: names of OCI layers have their meaning. */
int abx__tar_next(struct abx__tar *t, bool marks, struct abx__tar_entry *ret,
                  struct abx_error *err);
/** Content of the current entry: bytes, 0 at its end, -1. */
ssize_t abx__tar_data(struct abx__tar *t, void *data, size_t len, struct abx_error *err);
/** Reads what is behind the last entry; digests of the file as it came and of the tar in it. */
int abx__tar_finish(struct abx__tar *t, struct abx_digest *ret_file, struct abx_digest *ret_tar,
                    struct abx_error *err);
const struct abx__tar_budget *abx__tar_spent(const struct abx__tar *t);
/** Counts an entry that the archive did not name (a missing parent). */
int abx__tar_count(struct abx__tar *t, struct abx_error *err);

/* ---- where it goes ---- */
/* FILES: folders, files, and links called X.tar, by which a docker-archive repeats a layer. */
enum abx__disk_kind { ABX__DISK_LAYER, ABX__DISK_FILES };
/** Unpacks @fd into the new folder @name below @at_fd. @ret_file may be NULL. */
int abx__disk_unpack(int fd, int at_fd, const char *name, enum abx__disk_kind kind,
                     struct abx_layer_info *ret, struct abx_digest *ret_file,
                     struct abx_error *err);
/** Normalises @in_fd for a COPY step on @out_fd; failures are said there. */
int abx__copy_feed(int in_fd, int out_fd, struct abx_error *err);
/** Unpacks the OCI layout or docker-archive on @fd into the layers l0 (topmost), l1, ... below
 *  @at_fd. */
int abx__oci_unpack(int fd, int at_fd, struct abx_unpack_result *ret, struct abx_error *err);
/** The docker-archive that lies in @dir_fd, into the same layers. */
int abx__docker_unpack(int dir_fd, int at_fd, struct abx_unpack_result *ret, struct abx_error *err);
/** "sha256:HEX" */
int abx__digest_parse(struct abx_str text, struct abx_digest *ret, struct abx_error *err);
/** Two layers of one content are two folders: the later one, @at, goes by another name. */
void abx__layers_name_apart(struct abx_unpack_result *r, uint32_t at);

/* ---- the other way ---- */
/** Writes the layer in @root_fd, the worker's root, as the tar of an OCI layer to @out_fd.
 *  @is_runtime: it is the engine's own, and the server in it stays behind. */
int abx__pack_layer(int root_fd, int out_fd, bool is_runtime, struct abx_layer_info *ret,
                    struct abx_error *err);
