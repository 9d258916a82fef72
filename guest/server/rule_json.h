/* guest/server/rule_json.h: what the rule of an endpoint says, as members of a JSON object: for
 * /capabilities, check-config, the table of routes and the hosts of commands. Pure. */
#pragma once
#include "lib/json/json.h"
#include "lib/policy/policy.h"

/** "KEY": ["...", ...]. */
void abx__put_list(struct abx_json_writer *w, const char *key, struct abx_str_list list);
/** "limits": those that are set, each with the text of the document. */
void abx__put_limits(struct abx_json_writer *w, const struct abx_policy_rule *r);
/** "params": those that are set. */
void abx__put_params(struct abx_json_writer *w, const struct abx_policy_rule *r);
