/* host/store/templates.h: what the engine remembers of templates, builds, tags, images, uploads.
 *
 * A template has one alias and any number of builds; a tag names one ready build. What a build has
 * reached stands in its row (steps_done, state), so that one that a crash interrupted goes on from
 * there. Loop thread only; each call is one transaction. */
#pragma once
#include "host/store/store.h"

enum {
    ABX_STORE_TEMPLATE_LEN = 20, /* of [a-z0-9] */
    ABX_STORE_BUILD_LEN = 36,    /* a UUID */
    ABX_STORE_NAME_MAX = 128,    /* of an alias, a tag, an image */
    ABX_STORE_HASH_LEN = 64,     /* of an upload: hex */
    ABX_STORE_TAGS_MAX = 8192,   /* of a build, with their commas and a terminator */
    ABX_STORE_BUILDS_KEPT = 20,  /* of a template, beside those that a tag names */
};

struct abx_store_template {
    char id[ABX_STORE_TEMPLATE_LEN + 1];
    char alias[ABX_STORE_NAME_MAX + 1];
    bool is_public;
    int64_t created_ms, updated_ms, spawned_ms; /* spawned_ms 0: never */
    int64_t spawn_count, build_count;
};

enum abx_store_status {
    ABX_STORE_WAITING,
    ABX_STORE_BUILDING,
    ABX_STORE_READY,
    ABX_STORE_ERROR,
    ABX_STORE_STATUS__COUNT
};
/** "waiting", "building", "ready", "error". */
const char *abx_store_status_name(enum abx_store_status status);

struct abx_store_build {
    char id[ABX_STORE_BUILD_LEN + 1];
    char template_id[ABX_STORE_TEMPLATE_LEN + 1];
    enum abx_store_status status;
    uint32_t cpu, memory_mb;
    uint32_t steps_done;    /* so many of the request's steps are in `state` */
    struct abx_str tags;    /* comma-separated; they name it once it is ready */
    struct abx_str request; /* JSON of the start; "" while waiting */
    struct abx_str state;   /* JSON of the engine: layers, environment, commands */
    struct abx_str reason, reason_step;
    int64_t created_ms, updated_ms, finished_ms;
};

typedef void abx_store_template_fn(void *arg, const struct abx_store_template *t);
/** The strings live during the call only. It must not change the store. */
typedef void abx_store_build_fn(void *arg, const struct abx_store_build *b);

/** A new build, and its template when there is none of that alias: t->id then becomes a row, else
 *  t is overwritten with the one that exists. b->template_id is filled in. Old builds of it that no
 *  tag names are forgotten. */
int abx_store_build_new(struct abx_store *s, struct abx_store_template *t,
                        struct abx_store_build *b, struct abx_error *err);
/** By id, else by alias. NOT_FOUND. */
int abx_store_template_get(struct abx_store *s, struct abx_str ref, struct abx_store_template *ret,
                           struct abx_error *err);
/** Newest first, at most @limit, those after (@before_ms, @after_id); "" and INT64_MAX: from the
 *  first. */
struct abx_store_page {
    int64_t before_ms;
    struct abx_str after_id;
    uint32_t limit;
};
int abx_store_template_each(struct abx_store *s, const struct abx_store_page *page,
                            abx_store_template_fn *fn, void *arg, struct abx_error *err);
int abx_store_template_set_public(struct abx_store *s, const char *id, bool is_public,
                                  struct abx_error *err);
/** A sandbox was made of it. */
int abx_store_template_spawned(struct abx_store *s, const char *id, struct abx_error *err);
/** With its builds, logs and tags. An unknown id is fine. */
int abx_store_template_delete(struct abx_store *s, const char *id, struct abx_error *err);

/** @fn is called once, or NOT_FOUND. @template_id NULL: of any template. */
int abx_store_build_get(struct abx_store *s, const char *template_id, struct abx_str id,
                        abx_store_build_fn *fn, void *arg, struct abx_error *err);
/** Of one template, newest first, a page. */
int abx_store_build_each(struct abx_store *s, const char *template_id,
                         const struct abx_store_page *page, abx_store_build_fn *fn, void *arg,
                         struct abx_error *err);
/** Of all templates, by status, oldest first. */
int abx_store_build_each_status(struct abx_store *s, enum abx_store_status status,
                                abx_store_build_fn *fn, void *arg, struct abx_error *err);
/** waiting -> building. FAILED_PRECONDITION when it is not waiting. */
int abx_store_build_start(struct abx_store *s, const char *id, struct abx_str request,
                          struct abx_error *err);
/** One more step is done. */
int abx_store_build_progress(struct abx_store *s, const char *id, uint32_t steps_done,
                             struct abx_str state, struct abx_error *err);
/** -> ready with @state, and its tags name it now; -> error with the reason. */
struct abx_store_build_end {
    enum abx_store_status status;
    struct abx_str state;               /* ready */
    struct abx_str reason, reason_step; /* error */
};
int abx_store_build_finish(struct abx_store *s, const char *id,
                           const struct abx_store_build_end *end, struct abx_error *err);

struct abx_store_log {
    int64_t seq, at_ms;
    int level; /* 0 debug, 1 info, 2 warn, 3 error */
    struct abx_str step, message;
};
typedef void abx_store_log_fn(void *arg, const struct abx_store_log *e);
/** Appends with the numbers that the entries carry. */
int abx_store_log_add(struct abx_store *s, const char *build_id, const struct abx_store_log *logs,
                      size_t count, struct abx_error *err);
/** Forwards from number @from, or backwards below it, at most @limit of at least @level. */
struct abx_store_log_query {
    int64_t from;
    uint32_t limit;
    int level;
    bool is_backward;
    int64_t at_ms; /* not before it (forwards), not after it (backwards); 0: any */
};
int abx_store_log_each(struct abx_store *s, const char *build_id,
                       const struct abx_store_log_query *q, abx_store_log_fn *fn, void *arg,
                       struct abx_error *err);
/** The number after the last. */
int abx_store_log_next(struct abx_store *s, const char *build_id, int64_t *ret,
                       struct abx_error *err);

/** The build that @tag of the template names. NOT_FOUND. */
int abx_store_tag_get(struct abx_store *s, const char *template_id, struct abx_str tag,
                      char ret_build[ABX_STORE_BUILD_LEN + 1], struct abx_error *err);
int abx_store_tag_set(struct abx_store *s, const char *template_id, struct abx_str tag,
                      const char *build_id, struct abx_error *err);
/** NOT_FOUND when there is no such tag. */
int abx_store_tag_delete(struct abx_store *s, const char *template_id, struct abx_str tag,
                         struct abx_error *err);
typedef void abx_store_tag_fn(void *arg, struct abx_str tag, struct abx_str build_id,
                              int64_t created_ms);
int abx_store_tag_each(struct abx_store *s, const char *template_id, abx_store_tag_fn *fn,
                       void *arg, struct abx_error *err);

/** The archive of @hash is there, whole; @digest: SHA-256 of its content in hex. */
int abx_store_upload_put(struct abx_store *s, struct abx_str hash, int64_t bytes,
                         const char *digest, struct abx_error *err);
/** NOT_FOUND. Marks it as used now. */
int abx_store_upload_use(struct abx_store *s, struct abx_str hash,
                         char ret_digest[ABX_STORE_HASH_LEN + 1], struct abx_error *err);
int abx_store_upload_forget(struct abx_store *s, struct abx_str hash, struct abx_error *err);
/** The sum of all, and the one that was not used for longest ("" when there is none). */
int abx_store_upload_oldest(struct abx_store *s, int64_t *ret_total,
                            char ret_hash[ABX_STORE_HASH_LEN + 1], struct abx_error *err);

struct abx_store_image {
    struct abx_str name, recipe, state; /* state: JSON of the engine */
    int64_t created_ms;
};
typedef void abx_store_image_fn(void *arg, const struct abx_store_image *image);
int abx_store_image_put(struct abx_store *s, const struct abx_store_image *image,
                        struct abx_error *err);
/** @fn is called once, or NOT_FOUND. */
int abx_store_image_get(struct abx_store *s, struct abx_str name, abx_store_image_fn *fn, void *arg,
                        struct abx_error *err);
int abx_store_image_each(struct abx_store *s, abx_store_image_fn *fn, void *arg,
                         struct abx_error *err);
