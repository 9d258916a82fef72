/* guest/server/files_priv.h: what the file endpoints share. Pool thread, in a job's run. */
#pragma once
#include "guest/server/server_priv.h"

/** Judges the path with the bounds of the job's endpoint. False: the outcome is set. */
bool abx__files_judge(struct abx__job *j, const struct abx__path_ask *ask, struct abx__bounds *b,
                      struct abx_str *ret);
/** The query's `path`; false: 400 is set. */
bool abx__files_query_path(struct abx__job *j, struct abx_str *ret);
/** 404 FileNotFoundError; returns false. */
bool abx__files_not_found(struct abx__job *j, const char *what, struct abx_str path);
/** 413 with the limit; returns false. */
bool abx__files_too_large(struct abx__job *j, uint64_t limit);
struct abx_str abx__files_base_name(struct abx_str path);

void abx__upload_post(struct abx__call *c);  /* transfer.c */
void abx__download_get(struct abx__call *c); /* transfer.c */
