/* client/config.h: the client configuration, for the CLI too: "key: value" lines. */
#pragma once

/** The value of @key in the file @path; heap, NULL if absent. */
char *abx_config_value(const char *path, const char *key);
