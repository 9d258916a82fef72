/* guest/server/files_priv.h: what the file endpoints share. Pool thread, in a job's run. */
#pragma once
#include "guest/server/server_priv.h"

/** Judges the path with the bounds of the job's endpoint. False: the outcome is set. */
bool abx__files_judge(struct abx__job *j, const struct abx__path_ask *ask, struct abx__bounds *b,
                      struct abx_str *ret);
/** The query's `path`; false: 400 is set. */
bool abx__files_query_path(struct abx__job *j, struct abx_str *ret);
/** `name` and `path`, and both in base64 where they are no UTF-8. */
void abx__files_put_name(struct abx_json_writer *w, struct abx_str name, struct abx_str path);
/** 404 FileNotFoundError; returns false. */
bool abx__files_not_found(struct abx__job *j, const char *what, struct abx_str path);
/** The same for what "it is not there" looks like, else the error's class; returns false. */
bool abx__files_fail_absent(struct abx__job *j, int rc, struct abx_str path);
/** Whether a tree may go from where it is: no root, and nothing in it is denied. */
bool abx__files_may_remove(struct abx__job *j, const struct abx__bounds *b, struct abx_str path);
/** As Python's int() reads a text: blanks around, a sign, single underscores between digits. */
bool abx__files_integer(struct abx_str s, int64_t *ret);
/** A number of seconds as Python's float() reads it, but a finite one. */
bool abx__files_seconds(struct abx_str s, double *ret);
/** "true", "yes", "1". */
bool abx__files_is_yes(struct abx_str text);
/** A member that int() takes; false: answered. Loop thread. */
bool abx__files_number(struct abx__call *c, const char *name, int64_t fallback, int64_t *ret);
/** 413 with the limit; returns false. */
bool abx__files_too_large(struct abx__job *j, uint64_t limit);
struct abx_str abx__files_base_name(struct abx_str path);

void abx__move_post(struct abx__call *c);    /* move.c */
void abx__copy_post(struct abx__call *c);    /* copy.c */
void abx__chmod_post(struct abx__call *c);   /* chmod.c */
void abx__grep_post(struct abx__call *c);    /* grep.c */
void abx__watch_get(struct abx__call *c);    /* watch.c */
void abx__search_post(struct abx__call *c);  /* search.c */
void abx__upload_post(struct abx__call *c);  /* upload.c */
void abx__upload_large(struct abx__call *c); /* upload.c */
void abx__append_post(struct abx__call *c);  /* upload.c */
void abx__append_large(struct abx__call *c); /* upload.c */
void abx__download_get(struct abx__call *c); /* download.c */
