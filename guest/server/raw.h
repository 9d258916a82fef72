/* guest/server/raw.h: what reading and writing of raw bytes share. */
#pragma once
#include "guest/server/server_priv.h"

#include <sys/stat.h>

enum { ABX__TAG = 96 };

/** The file's ETag: another one after every change of its content. */
void abx__raw_tag(const struct stat *st, char out[ABX__TAG]);
/** Whether a list of If-Match or If-None-Match names @tag, or is "*". */
bool abx__raw_names_tag(struct abx_str list, const char *tag);

void abx__raw_get(struct abx__call *c); /* raw_get.c */
void abx__raw_put(struct abx__call *c); /* raw_put.c */
