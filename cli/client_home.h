/* cli/client_home.h: ~/.abx, the folder of the published client. Nothing is written there unasked.
 */
#pragma once
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stddef.h>

struct cli_export {
    const char *name, *value;
};
/** The folder, made where it is missing; a descriptor, or -1. */
int cli_client_home_open(struct abx_error *err);
/** Writes the variables to ~/.abx/.env, mode 0600; lines about others stay. */
int cli_client_home_save(const struct cli_export *exports, size_t count, struct abx_error *err);
