/* host/image/image_priv.h: what the files of host/image share on the network side. */
#pragma once
#include "host/image/image.h"
#include "lib/json/json.h"

/** Puts a layer on top. */
int abx__image_add_layer(struct abx_image *img, const struct abx_digest *layer,
                         struct abx_error *err);
/** Appends strings without NULs. -1 without memory or over the limits. */
int abx__image_take_strings(struct abx_strings *to, const struct abx_json_array *list);
/** Takes user, environment, ... from an OCI image configuration (hostile; may be empty). */
int abx__image_take_config(struct abx_image *img, struct abx_str json, struct abx_error *err);

/* ---- a step's line (lib/contract/step.h), without descriptors ---- */
/** The order for @step on @img. RESOURCE_EXHAUSTED when it is too long. */
int abx__order_encode(const struct abx_step *step, const struct abx_image *img, struct abx_buf *out,
                      struct abx_error *err);
/** The name of the layer that @step makes on @img. */
void abx__order_digest(const struct abx_step *step, const struct abx_image *img,
                       struct abx_digest *ret);
/** What a finished step changes in the configuration. */
int abx__order_apply(const struct abx_step *step, struct abx_image *img, struct abx_error *err);
/** $NAME and ${NAME} from the image's environment; "\$" is a dollar. */
int abx__order_expand(const struct abx_image *img, struct abx_str text, struct abx_buf *out);
