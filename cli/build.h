/* cli/build.h: building a template's folder, shared by `template build` and `template deploy`. */
#pragma once
#include "cli/project.h"

/** Lints, prepares the context and builds; progress on stderr. 0 and *ret (freed by nobody), or the
 *  exit code after a message. */
int cli_build(struct cli *cli, const char *dir, struct abx_build_result *ret);
/** Name of the template that cli_build() made: --name, else of template.yaml; into @out. */
extern const struct cli_option cli_build_options[];

/** Puts what the build makes into the folder: .abx/ with the server's wheel, server-policy.json.
 *  0 or -1 with *err. */
int cli_prepare(struct cli *cli, struct cli_project *p, struct abx_error *err);
