/* guest/server/ends.h: the two paths of /files/move and /files/copy. server-api.md 4.4. */
#pragma once
#include "guest/server/files_priv.h"

struct abx__ends {
    struct abx_str source, destination; /* as asked; in the body, which the job has */
    enum abx_path_op source_op;
    int taken_status; /* a name that is there already, in a folder: this answer */
    const char *taken_type;
    struct abx__bounds bounds;
    /* filled, in the job's arena: */
    struct abx_str from, to;
    struct abx_str final; /* @to, or the name in it when it is a folder */
};
/** Reads both; false: answered. Loop thread. */
bool abx__ends_read(struct abx__call *c, struct abx__ends *e);
/** Judges both and looks whether the source is there: *ret_st. False: the outcome is set. */
bool abx__ends_judge(struct abx__job *j, struct abx__ends *e, struct stat *ret_st);
/** Fills @final, which is judged too (P6). False: the outcome is set. */
bool abx__ends_name(struct abx__job *j, struct abx__ends *e);
/** Makes the folder of @final. False: the outcome is set. */
bool abx__ends_make_folder(struct abx__job *j, const struct abx__ends *e);
/** `source`, `destination`, `final_path`, into an open object. */
void abx__ends_put(struct abx_json_writer *w, const struct abx__ends *e);
