/* guest/server/raw.h: what reading and writing of raw bytes share. */
#pragma once
#include "guest/server/server_priv.h"
#include "lib/wire/coding.h"

#include <sys/stat.h>

enum { ABX__TAG = 96 };

/** The ETag of the file as it is sent (RFC 9110 8.8.3.3: each coding has its own): another one
 *  after every change of its content. */
void abx__raw_tag(const struct stat *st, enum abx_coding coding, char out[ABX__TAG]);
/** Whether a list of If-Match, or (@is_weak: RFC 9110 13.1.2) of If-None-Match, names @tag or is
 *  "*". */
bool abx__raw_names_tag(struct abx_str list, const char *tag, bool is_weak);

void abx__raw_get(struct abx__call *c); /* raw_get.c */
void abx__raw_put(struct abx__call *c); /* raw_put.c */
