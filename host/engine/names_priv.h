/* host/engine/names_priv.h: how templates are named (control-plane 7): [team/]name[:tag]. Pure. */
#pragma once
#include "host/store/templates.h"

/* The one team of this engine: the namespace of its templates. */
#define ABX__TEAM "local"

struct abx__ref {
    char name[ABX_STORE_NAME_MAX + 1]; /* an alias or an id, lower case */
    char tag[ABX_STORE_NAME_MAX + 1];  /* "" when none was given */
};
/** Errors: INVALID_ARGUMENT malformed, PERMISSION_DENIED another team's. */
int abx__ref_parse(struct abx_str text, struct abx__ref *ret, struct abx_error *err);
/** [a-z0-9-_.]+, at most 128. */
bool abx__tag_is_valid(struct abx_str tag);
/** What FROM may say of an image that was imported: "python:3.12", "team/app". */
bool abx__image_name_is_valid(struct abx_str name);
/** 64 lower-case hex digits. */
bool abx__hash_is_valid(struct abx_str hash);
/** A UUID in lower case. */
bool abx__build_id_is_valid(struct abx_str id);
/** Whether this engine gives the name itself: "host" and the images of `abx image build`. */
bool abx__name_is_reserved(const char *name);
