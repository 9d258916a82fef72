/* guest/server/rule_json.c: rule_json.h. */
#include "guest/server/rule_json.h"

#include "lib/base/banned.h"

void abx__put_list(struct abx_json_writer *w, const char *key, struct abx_str_list list)
{
    abx_json_key(w, abx_str(key));
    abx_json_begin_array(w);
    for (size_t i = 0; i < list.count; i++)
        abx_json_str(w, list.items[i]);
    abx_json_end_array(w);
}

void abx__put_limits(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    abx_json_key(w, ABX_STR("limits"));
    abx_json_begin_object(w);
    for (int i = 0; i < ABX_LIMIT__COUNT; i++)
        if (r->limits[i].is_set) {
            abx_json_key(w, abx_str(abx_limit_name((enum abx_limit)i)));
            abx_json_raw(w, r->limits[i].text);
        }
    abx_json_end_object(w);
}

static bool is_flag(enum abx_param which)
{
    return which == ABX_PARAM_OVERWRITE || which == ABX_PARAM_BLOCK_PRIVATE_NETWORKS;
}

static void put_param(struct abx_json_writer *w, enum abx_param which,
                      const struct abx_policy_param *p)
{
    const char *name = abx_param_name(which);
    if (is_flag(which)) {
        abx_json_kv_bool(w, name, p->flag);
    } else if (which == ABX_PARAM_ALLOWED_SIGNALS) {
        abx_json_key(w, abx_str(name));
        abx_json_begin_array(w);
        for (size_t i = 0; i < p->number_count; i++)
            abx_json_i64(w, p->numbers[i]);
        abx_json_end_array(w);
    } else {
        abx__put_list(w, name, p->words);
    }
}

void abx__put_params(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    abx_json_key(w, ABX_STR("params"));
    abx_json_begin_object(w);
    for (int i = 0; i < ABX_PARAM__COUNT; i++)
        if (r->params[i].is_set)
            put_param(w, (enum abx_param)i, &r->params[i]);
    abx_json_end_object(w);
}
