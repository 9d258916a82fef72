/* host/image/base.h: the base images: their official names, and how the local stand-in is made of
 * Debian packages. Pure; the caller runs mmdebstrap and hands the tar to the engine. */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"

enum { ABX_BASE_ARGV_MAX = 32 };

/** Whether @from is fc-e2b-registry.REGION.cr.aliyuncs.com/runtime/NAME:v0.0.N for a local image:
 *  *ret_name gets its NAME ("base"), ret_tag the tag. Region and tag may be any. */
bool abx_base_match(struct abx_str from, const char **ret_name, struct abx_str *ret_tag);
/** Whether an image of that name can be made here by `abx image build NAME`. */
bool abx_base_is_known(const char *name);
/** Hex SHA-256 over everything that goes into the image @name. 0, or -1 for an unknown one. */
int abx_base_recipe(const char *name, char ret_hash[65]);
/** "base: stand-in for runtime/NAME:TAG": line 1 of a build's log and `template info`. */
void abx_base_describe(const char *name, const char *tag, char out[128]);

/* One run of mmdebstrap: its arguments, NULL-terminated, into buf's memory. */
struct abx_base_command {
    char *argv[ABX_BASE_ARGV_MAX];
    struct abx_buf memory;
};
/** The command that writes the image's root as a plain tar to @output. Also sets the environment
 *  that must be added (SOURCE_DATE_EPOCH=N). As an ordinary user: --mode=unshare. */
int abx_base_command(const char *name, bool is_root, const char *output,
                     struct abx_base_command *ret, struct abx_error *err);
void abx_base_command_done(struct abx_base_command *c);
extern const char *const abx_base_environment[]; /* "SOURCE_DATE_EPOCH=...", ...; NULL */
