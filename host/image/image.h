/* host/image/image.h: images (a list of layers and a configuration), their import, and the steps of
 * a build. Network side, loop thread only; the work itself is the runtime side's (security S66).
 *
 * A layer is STATE/layers/SHA256, made once and never changed. The name of an imported layer is the
 * SHA-256 of its uncompressed tar; the name of a step's layer is the digest of the layers below it,
 * the instruction and what it reads: a layer that is there needs no work. */
#pragma once
#include "host/runtime/runtime.h"
#include "lib/base/buf.h"

enum {
    ABX_IMAGE_ENV_MAX = 512,
    ABX_IMAGE_TEXT_MAX = 128 * 1024,      /* of one environment entry, argument or name */
    ABX_IMAGE_ENCODED_MAX = 1024 * 1024,  /* an image as JSON */
    ABX_STEP_TIME_MS = 60 * 60 * 1000,    /* security S63 */
    ABX_STEP_LOG_BYTES = 64 * 1024 * 1024 /* security S63 */
};

/* A growing list of owned strings. */
struct abx_strings {
    char **items; /* NULL-terminated once anything was added */
    size_t count;
};

/* ---- images ---- */
struct abx_image {
    struct abx_digest layers[ABX_LAYERS_MAX]; /* topmost first */
    uint32_t layer_count;
    struct abx_strings env;             /* "NAME=VALUE" */
    struct abx_strings entrypoint, cmd; /* as in the image's own configuration */
    char *user, *workdir;               /* never NULL: "root" and "/" by default */
};
/** An image without layers (scratch). NULL without memory. */
struct abx_image *abx_image_new(void);
struct abx_image *abx_image_copy(const struct abx_image *img);
void abx_image_free(struct abx_image *img);
/** Sets or replaces a variable; -1 without memory or over the limits. */
int abx_image_set_env(struct abx_image *img, struct abx_str name, struct abx_str value);
/** The value, or NULL. */
const char *abx_image_env(const struct abx_image *img, const char *name);
int abx_image_set_user(struct abx_image *img, const char *user);
int abx_image_set_workdir(struct abx_image *img, const char *workdir);
/** As JSON, for the database: {"layers":["hex",...],"env":["A=1"],...}. */
void abx_image_encode(const struct abx_image *img, struct abx_buf *out);
int abx_image_decode(struct abx_str json, struct abx_image **ret, struct abx_error *err);
/** SHA-256 over the layers' names, in hex: what an image is called in logs. */
void abx_image_digest(const struct abx_image *img, struct abx_digest *ret);
/** Fills the spec's layers from the image (template_name is set to "image"). The image's
 *  environment, user and working directory go to envd by /init. */
void abx_image_to_spec(const struct abx_image *img, struct abx_sandbox_spec *spec);

/* ---- import ---- */
typedef void abx_image_imported_fn(void *arg, struct abx_image *take_img,
                                   const struct abx_error *err); /* take_img NULL on error */
/** Imports an archive (plain, gzip or zstd) that is read from @take_fd, a file or a pipe, to its
 *  end, in a confined worker (security S53). ROOTFS: one layer and an empty configuration. OCI: an
 *  OCI layout with exactly one image (or one for linux/amd64), its layers and configuration. */
void abx_image_load(struct abx_loop *l, struct abx_runtime *rt, enum abx_import_kind kind,
                    int take_fd, abx_image_imported_fn *done, void *arg);

/* ---- builds ---- */
enum abx_step_type {
    ABX_STEP_RUN,
    ABX_STEP_COPY,
    ABX_STEP_ENV,
    ABX_STEP_WORKDIR,
    ABX_STEP_USER,
    ABX_STEP__COUNT
};
/* Everything is copied by abx_build_step() but the descriptor, which is taken. */
struct abx_step {
    enum abx_step_type type;
    bool no_cache; /* run it even when its layer is there; this layer and those after it are new */
    /* RUN: `/bin/bash -l -c COMMAND`, or the exec form: @argv (NULL-terminated) as it is. */
    const char *command;
    const char *const *argv;
    const char *user; /* RUN: NULL: the image's */
    /* COPY: control-plane.md 8.2. The archive (tar, plain or gzip or zstd; a regular file open for
     * reading, at its start) holds paths relative to the context. */
    const char *src, *dest, *owner, *mode; /* owner and mode: NULL or "" for the defaults */
    int take_archive_fd;
    struct abx_digest archive_digest; /* SHA-256 of the archive's content: part of the cache key */
    /* ENV: name, value, name, value, ..., NULL. $NAME and ${NAME} in values are expanded. */
    const char *const *pairs;
    /* WORKDIR: relative to the current one; made when absent. USER: made when absent. */
    const char *name;
    bool sudo; /* USER: password-less sudo */
};
struct abx_step_result {
    bool cached;
    int exit_code; /* RUN: of the command; 128+N for a signal */
    struct abx_digest layer;
    bool has_layer; /* ENV has none */
};
enum abx_build_stream { ABX_BUILD_STDOUT = 1, ABX_BUILD_STDERR = 2 };
struct abx_build_events {
    /** Output of a RUN as it comes; text borrowed, any bytes. Lines may be split. */
    void (*on_output)(void *arg, enum abx_build_stream stream, struct abx_str text);
    /** The step is over: @err NULL: ok. A RUN that failed: ABORTED "failed to run command 'CMD':
     *  exit status N" and the result's exit_code. Nothing is left of a failed step. */
    void (*on_step)(void *arg, const struct abx_step_result *r, const struct abx_error *err);
    void *arg;
};
struct abx_build_options {
    uint32_t memory_mb, cpu_count; /* 0: the defaults */
    uint64_t step_time_ms;         /* 0: ABX_STEP_TIME_MS */
    struct abx_build_events events;
};
struct abx_build;
/** A build on top of @base (copied). The caller owns *ret: abx_build_close(). */
int abx_build_open(struct abx_loop *l, struct abx_runtime *rt, const struct abx_image *base,
                   const struct abx_build_options *o, struct abx_build **ret,
                   struct abx_error *err);
/** Starts the next step; on_step comes later, from the loop. One at a time. */
void abx_build_step(struct abx_build *b, const struct abx_step *step);
/** The image as it is after the steps so far; borrowed. */
const struct abx_image *abx_build_image(const struct abx_build *b);
/** Ends a running step (without on_step) and frees the build. */
void abx_build_close(struct abx_build *b);
