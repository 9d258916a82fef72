/* host/engine/plan.c: the body of a build's start, decoded and checked (control-plane 8.1, 8.2). */
#include "host/engine/plan_priv.h"

#include "host/engine/names_priv.h"
#include "lib/base/assert.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { PLAN_JSON_MAX = 1024 * 1024, COMMAND_MAX = 64 * 1024 };

struct anything {
    char unused;
};
static const struct abx_json_field any_fields[] = {{0}};
static const struct abx_json_field step_fields[] = {
    {"type", ABX_JSON_STR, offsetof(struct abx__plan_step, type), ABX_JSON_REQUIRED},
    {"args", ABX_JSON_ARRAY, offsetof(struct abx__plan_step, args), .item = ABX_JSON_STR},
    {"filesHash", ABX_JSON_STR, offsetof(struct abx__plan_step, files_hash), 0},
    {"force", ABX_JSON_BOOL, offsetof(struct abx__plan_step, force), 0},
    {0}};

struct own {
    struct abx_str envd_inject, network;
    bool proc_hidepid, has_hidepid;
};
static const struct abx_json_field own_fields[] = {
    {"envdInject", ABX_JSON_STR, offsetof(struct own, envd_inject), 0},
    {"network", ABX_JSON_STR, offsetof(struct own, network), 0},
    {"procHidepid", ABX_JSON_BOOL, offsetof(struct own, proc_hidepid),
     .has_offset = offsetof(struct own, has_hidepid)},
    {0}};

struct body {
    struct abx__plan plan;
    struct own own;
    struct anything registry;
    bool has_registry, has_image, has_template;
};
#define PLAN(field) offsetof(struct body, plan.field)
static const struct abx_json_field body_fields[] = {
    {"fromImage", ABX_JSON_STR, PLAN(from_image), .has_offset = offsetof(struct body, has_image)},
    {"fromTemplate", ABX_JSON_STR, PLAN(from_template),
     .has_offset = offsetof(struct body, has_template)},
    {"fromImageRegistry", ABX_JSON_OBJECT, offsetof(struct body, registry), 0, any_fields,
     sizeof(struct anything), .has_offset = offsetof(struct body, has_registry)},
    {"steps", ABX_JSON_ARRAY, PLAN(steps), 0, step_fields, sizeof(struct abx__plan_step)},
    {"startCmd", ABX_JSON_STR, PLAN(start), 0},
    {"readyCmd", ABX_JSON_STR, PLAN(ready), 0},
    {"force", ABX_JSON_BOOL, PLAN(force), 0},
    {"abx", ABX_JSON_OBJECT, offsetof(struct body, own), 0, own_fields, sizeof(struct own)},
    {0}};

/* Each instruction: how many arguments, and what it is to host/image. */
static const struct instruction {
    const char *name;
    enum abx_step_type type;
    size_t min, max;
    bool is_even;
} instructions[] = {
    {"RUN", ABX_STEP_RUN, 1, 2, false},   {"COPY", ABX_STEP_COPY, 2, 4, false},
    {"ADD", ABX_STEP_COPY, 2, 4, false},  {"ENV", ABX_STEP_ENV, 2, 256, true},
    {"ARG", ABX_STEP_ENV, 2, 256, true},  {"WORKDIR", ABX_STEP_WORKDIR, 1, 1, false},
    {"USER", ABX_STEP_USER, 1, 2, false},
};

static const struct instruction *find(struct abx_str type)
{
    for (size_t i = 0; i < ABX_COUNTOF(instructions); i++) {
        if (abx_str_is(type, instructions[i].name))
            return &instructions[i];
    }
    return NULL;
}

bool abx__plan_is_copy(const struct abx__plan_step *s)
{
    const struct instruction *in = find(s->type);
    return in != NULL && in->type == ABX_STEP_COPY;
}

static int check_step(const struct abx__plan_step *s, size_t number, struct abx_error *err)
{
    const struct instruction *in = find(s->type);
    const struct abx_str *args = s->args.items;
    if (in == NULL)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "step %zu: unknown type '%.*s'; there are RUN, COPY, ADD, ENV, ARG,"
                           " WORKDIR, USER",
                           number, (int)(s->type.len < 32 ? s->type.len : 32), s->type.ptr);
    if (s->args.count < in->min || s->args.count > in->max ||
        (in->is_even && s->args.count % 2 != 0))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "step %zu: %s with %zu arguments", number,
                           in->name, s->args.count);
    if (in->type != ABX_STEP_COPY && args[0].len == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "step %zu: %s of nothing", number, in->name);
    if (in->type == ABX_STEP_COPY && s->files_hash.len == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "step %zu: COPY requires files hash to be set", number);
    if (in->type == ABX_STEP_COPY && !abx__hash_is_valid(s->files_hash))
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "step %zu: filesHash: 64 lower-case hex digits are needed", number);
    for (size_t i = 0; i < s->args.count; i++) {
        if (args[i].len > COMMAND_MAX || memchr(args[i].ptr, 0, args[i].len) != NULL)
            return abx_err_set(err, ABX_INVALID_ARGUMENT,
                               "step %zu: argument %zu holds a NUL, or is longer than %d bytes",
                               number, i + 1, COMMAND_MAX);
    }
    return 0;
}

static int check_own(const struct body *b, struct abx_error *err)
{
    if (b->has_registry)
        return abx_err_set(err, ABX_UNIMPLEMENTED,
                           "fromImageRegistry: this engine pulls from no registry; import the image"
                           " with `abx image import NAME FILE` and build from that name");
    if (b->own.network.len != 0 && !abx_str_is(b->own.network, "none"))
        return abx_err_set(err, ABX_UNIMPLEMENTED,
                           "build.network: only 'none' is built: RUN has loopback only; put what"
                           " it needs into the context and COPY it");
    if (b->own.envd_inject.len != 0 && !abx_str_is(b->own.envd_inject, "true") &&
        !abx_str_is(b->own.envd_inject, "false"))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "abx.envdInject: \"true\" or \"false\"");
    return 0;
}

int abx__plan_read(struct abx_str json, struct abx_arena *a, struct abx__plan *ret,
                   struct abx_error *err)
{
    struct body b = {0};
    if (json.len > PLAN_JSON_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "more than %d bytes", PLAN_JSON_MAX);
    if (abx_json_decode_text(json, true, body_fields, &b, a, err) < 0)
        return abx_err_wrap(err, "validation error");
    if (check_own(&b, err) < 0)
        return -1;
    if ((b.plan.from_image.len != 0) == (b.plan.from_template.len != 0))
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "validation error: exactly one of fromImage and fromTemplate is needed");
    if (b.plan.steps.count > ABX__STEPS_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "validation error: more than %d steps",
                           ABX__STEPS_MAX);
    for (size_t i = 0; i < b.plan.steps.count; i++) {
        if (check_step(abx__plan_step(&b.plan, i), i + 1, err) < 0)
            return abx_err_wrap(err, "validation error");
    }
    if (b.plan.start.len > COMMAND_MAX || b.plan.ready.len > COMMAND_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "validation error: startCmd, readyCmd: more than %d bytes", COMMAND_MAX);
    b.plan.envd_inject = b.own.envd_inject;
    b.plan.proc_hidepid = b.own.proc_hidepid;
    b.plan.has_hidepid = b.own.has_hidepid;
    *ret = b.plan;
    return 0;
}

static const char *argument(const struct abx__plan_step *s, size_t i, struct abx_arena *a)
{
    const struct abx_str *args = s->args.items;
    if (i >= s->args.count || args[i].len == 0)
        return NULL;
    return abx_arena_c(a, args[i]);
}

static int fill_env(const struct abx__plan_step *s, struct abx_arena *a, struct abx_step *ret)
{
    const struct abx_str *args = s->args.items;
    const char **pairs = abx_arena_array(a, s->args.count + 1, sizeof(*pairs));
    for (size_t i = 0; pairs != NULL && i < s->args.count; i++) {
        pairs[i] = abx_arena_c(a, args[i]);
        if (pairs[i] == NULL)
            return -1;
    }
    ret->pairs = pairs;
    return pairs == NULL ? -1 : 0;
}

int abx__plan_fill(const struct abx__plan_step *s, struct abx_arena *a, struct abx_step *ret)
{
    const struct instruction *in = find(s->type);
    ABX_ASSERT(in != NULL);
    *ret = (struct abx_step){.type = in->type, .take_archive_fd = -1};
    switch (in->type) {
    case ABX_STEP_RUN:
        ret->command = argument(s, 0, a);
        ret->user = argument(s, 1, a);
        return ret->command == NULL ? -1 : 0;
    case ABX_STEP_COPY:
        ret->src = argument(s, 0, a);
        ret->dest = argument(s, 1, a);
        ret->owner = argument(s, 2, a);
        ret->mode = argument(s, 3, a);
        ret->src = ret->src == NULL ? "." : ret->src;
        ret->dest = ret->dest == NULL ? "." : ret->dest;
        return 0;
    case ABX_STEP_ENV:
        return fill_env(s, a, ret);
    case ABX_STEP_WORKDIR:
        ret->name = argument(s, 0, a);
        return ret->name == NULL ? -1 : 0;
    case ABX_STEP_USER: {
        const char *sudo = argument(s, 1, a);
        ret->name = argument(s, 0, a);
        ret->sudo = sudo != NULL && strcmp(sudo, "true") == 0;
        return ret->name == NULL ? -1 : 0;
    }
    case ABX_STEP__COUNT:
        break;
    }
    return -1;
}

void abx__plan_describe(const struct abx__plan_step *s, char out[256])
{
    const struct abx_str *args = s->args.items;
    size_t at =
        (size_t)snprintf(out, 200, "%.*s", (int)(s->type.len < 16 ? s->type.len : 16), s->type.ptr);
    for (size_t i = 0; i < s->args.count && at < 200; i++) {
        if (args[i].len == 0)
            continue;
        size_t room = 200 - at, n = args[i].len < room ? args[i].len : room;
        at += (size_t)snprintf(out + at, 256 - at, " %.*s", (int)n, args[i].ptr);
    }
    for (char *c = out; *c != '\0'; c++)
        *c = (unsigned char)*c < ' ' ? ' ' : *c;
}
