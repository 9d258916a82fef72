/* lib/contract/step.h: what a builder and PID 1 of a build step say to each other, over one stream
 * socket. Both are of the same build and machine: native integers. The host trusts none of it.
 *
 * Host to guest: struct abx_step_head and its texts (each a tag byte, the text, a NUL); for COPY
 * then entries, each followed by its path, link and content, up to one of type END or ERROR; then
 * the direction is shut down. Guest to host: frames; EXIT is the last. */
#pragma once
#include <stdint.h>

enum {
    ABX_STEP_MAGIC = 0x61627835,
    ABX_STEP_TEXT_BYTES = 192 * 1024, /* of all texts of one step */
    ABX_STEP_PATH_BYTES = 4096,
    ABX_STEP_FRAME_BYTES = 32 * 1024
};

enum abx_step_verb {
    ABX_STEP_DO_RUN = 1, /* ARG..., ENV..., USER, WORKDIR */
    ABX_STEP_DO_COPY,    /* SOURCE, DEST, USER, WORKDIR, OWNER, MODE */
    ABX_STEP_DO_WORKDIR, /* DEST, USER, WORKDIR */
    ABX_STEP_DO_USER     /* NAME, SUDO */
};
enum abx_step_tag {
    ABX_STEP_TAG_ARG = 'a',
    ABX_STEP_TAG_ENV = 'e',
    ABX_STEP_TAG_USER = 'u',
    ABX_STEP_TAG_WORKDIR = 'w',
    ABX_STEP_TAG_SOURCE = 's',
    ABX_STEP_TAG_DEST = 'd',
    ABX_STEP_TAG_OWNER = 'o',
    ABX_STEP_TAG_MODE = 'm', /* octal */
    ABX_STEP_TAG_NAME = 'n',
    ABX_STEP_TAG_SUDO = 'S'
};
struct abx_step_head {
    uint32_t magic, verb, text_bytes;
};

enum abx_step_entry_type {
    ABX_STEP_END = 1,
    ABX_STEP_FAILED, /* path: why */
    ABX_STEP_FILE,
    ABX_STEP_DIR,
    ABX_STEP_SYMLINK,
    ABX_STEP_HARDLINK, /* link: the path of an earlier entry */
    ABX_STEP_FIFO
};
struct abx_step_entry {
    uint32_t magic, type, mode;
    uint32_t path_bytes, link_bytes; /* without terminators */
    uint64_t size;                   /* of a file's content */
    int64_t mtime_s;
};

enum abx_step_frame_type { ABX_STEP_STDOUT = 1, ABX_STEP_STDERR, ABX_STEP_EXIT };
struct abx_step_frame {
    uint32_t type, bytes; /* bytes <= ABX_STEP_FRAME_BYTES */
};
struct abx_step_exit { /* content of an EXIT frame */
    int32_t exit_code, signum;
    int32_t is_failure; /* the step itself could not be done: message says why */
    char message[200];
};
