/* host/engine/plan_priv.h: what a build is to do: the body of its start (control-plane 8.1). Pure.
 */
#pragma once
#include "host/image/image.h"
#include "lib/json/json.h"

enum { ABX__STEPS_MAX = 120 }; /* each may be a layer; the rest is the base's */

struct abx__plan_step {
    struct abx_str type, files_hash;
    struct abx_json_array args; /* struct abx_str */
    bool force;
};
struct abx__plan {
    struct abx_str from_image, from_template, start, ready;
    struct abx_str envd_inject;     /* "true", "false" or empty */
    bool proc_hidepid, has_hidepid; /* has_hidepid: it was said; else as what it is built on */
    struct abx_json_array steps;    /* struct abx__plan_step */
    bool force;
};
/** Decodes and checks; strings live in @a. Errors name the step: INVALID_ARGUMENT, UNIMPLEMENTED.
 */
int abx__plan_read(struct abx_str json, struct abx_arena *a, struct abx__plan *ret,
                   struct abx_error *err);
static inline const struct abx__plan_step *abx__plan_step(const struct abx__plan *p, size_t i)
{
    return (const struct abx__plan_step *)p->steps.items + i;
}
bool abx__plan_is_copy(const struct abx__plan_step *s);
/** For host/image, of a step that was checked; strings live in @a. The archive is the caller's. -1:
 *  no memory. */
int abx__plan_fill(const struct abx__plan_step *s, struct abx_arena *a, struct abx_step *ret);
/** "RUN apt-get update", cut to one line of 200 bytes. */
void abx__plan_describe(const struct abx__plan_step *s, char out[256]);
