/* guest/caps/tree_priv.h: what the files of the tree share. Pool threads; >= 0 or -errno. */
#pragma once
#include "guest/caps/tree.h"

#include <limits.h>

enum { ABX__BESIDE = 40 };

/* Beneath @dir_fd, through no link; CLOEXEC, never blocking on a FIFO. */
int abx__tree_open_at(int dir_fd, const char *name, int flags, mode_t mode);
/* Whether the object is there and no component of @path, the last one too, is a link. */
bool abx__tree_is_plain(const char *path);
/* The folder that holds @path (O_PATH), and the last component. */
int abx__tree_parent(struct abx_str path, char name[NAME_MAX + 1]);
/* A new file under a name that nobody else uses, open for both. */
int abx__tree_beside(int dir_fd, mode_t mode, char name[ABX__BESIDE]);
/* Of proc, sysfs, cgroup and the like. */
bool abx__tree_is_kernels_own(int fd);
/* Whether @inner lies beneath @outer, by their text. */
bool abx__tree_is_inside(struct abx_str outer, struct abx_str inner);
int abx__tree_remove_at(int dir_fd, const char *name, bool is_folder);

/* One copy of a file or tree. */
struct abx__copier {
    bool is_move; /* owners, set-id bits, and what is neither file, folder nor link, are kept */
    const struct abx_tree_copy *spec; /* NULL: a move, without judge and bounds */
    struct abx_tree_copied *count;    /* with a spec */
    struct abx_buf from, to;          /* with a spec: the paths of the entry that is copied */
    struct stat made; /* the folder that is being filled: never copied into itself */
};
struct abx__copy_place {
    int dir_fd;
    const char *name;
    bool must_be_new;         /* -EEXIST */
    const struct stat *owner; /* of the file that gives way, which keeps its owner; NULL: none */
};
/* The copy appears under its name when it is complete, or not at all. */
int abx__tree_copy_into(struct abx__copier *c, int from_fd, const char *from,
                        const struct abx__copy_place *to);
