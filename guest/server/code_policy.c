/* guest/server/code_policy.c: a policy given in code, by start() or SandboxServer(). Loop thread.
 *
 * Alone it is the document. Beside another one it is one more layer that must agree
 * (command-hosts.md 2.2): it can turn endpoints off and ask for scopes. Bounds of two documents are
 * not united: that is refused. */
#include "guest/server/commands_priv.h"

#include <jansson.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static const char *const combined[] = {"version", "description", "preset", "groups", "endpoints"};
static const char *const combined_rule[] = {"enabled", "scopes"};

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* The name of a part that can only be obeyed alone; NULL: none. */
static const char *bound_of(json_t *document)
{
    const char *key, *selector, *part;
    json_t *value, *rule, *ignored;
    json_object_foreach(document, key, value)
    {
        if (!is_one_of(key, combined, sizeof(combined) / sizeof(*combined)))
            return key;
    }
    json_object_foreach(json_object_get(document, "endpoints"), selector, rule)
    {
        json_object_foreach(
            rule, part,
            ignored) if (!is_one_of(part, combined_rule,
                                    sizeof(combined_rule) / sizeof(*combined_rule)) &&
                         json_object_size(ignored) + json_array_size(ignored) > 0) return part;
    }
    return NULL;
}

int abx__server_code_policy(struct abx__server *s, struct json_t *document, struct abx_error *err)
{
    bool is_alone = abx__server_policy_text(s).len == 0 && s->o.preset == NULL;
    const char *bound = is_alone ? NULL : bound_of(document);
    if (bound)
        return abx_err_set(
            err, ABX_UNIMPLEMENTED,
            "the policy given in code has %s, and there is another policy: bounds of "
            "two documents are not united yet; write them into one",
            bound);
    s->code_text = json_dumps(document, JSON_COMPACT);
    s->is_code_alone = is_alone;
    return s->code_text
               ? 0
               : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the policy of the file");
}
