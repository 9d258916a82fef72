/* lib/json/json_priv.h: what the files of this folder share. */
#pragma once
#include "lib/json/json.h"

/** Rewrites in place every number that jansson would refuse as too large. @text[@len] is NUL. */
void abx__json_narrow(char *text, size_t len);
