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
