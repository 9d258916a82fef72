/* guest/server/audit_log.c: the latest lines of the audit in memory, for GET /audit. A bounded
 * ring; an identity sees its own lines, a wide one all (security S25). Loop thread. */
#include "guest/server/server_priv.h"

#include "lib/base/assert.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { LINES_MAX = 8192, BYTES_MAX = 4 << 20, ANSWER_LINES = 1000 };

struct line {
    char *text;     /* without its end */
    char *identity; /* NULL: before it was known */
    size_t bytes;
};
struct abx__audit_log {
    struct line lines[LINES_MAX];
    uint64_t first, next; /* numbers: kept are first..next-1, at number % LINES_MAX */
    size_t bytes;
};

struct abx__audit_log *abx__audit_log_new(void)
{
    return calloc(1, sizeof(struct abx__audit_log));
}

static struct line *at(struct abx__audit_log *l, uint64_t number)
{
    return &l->lines[number % LINES_MAX];
}

static void drop_first(struct abx__audit_log *l)
{
    struct line *line = at(l, l->first++);
    l->bytes -= line->bytes;
    free(line->text);
    free(line->identity);
    *line = (struct line){0};
}

void abx__audit_log_free(struct abx__audit_log *l)
{
    while (l && l->first < l->next)
        drop_first(l);
    free(l);
}

void abx__audit_log_keep(struct abx__audit_log *l, struct abx_str identity, struct abx_str text)
{
    if (abx_str_ends(text, "\n"))
        text = abx_str_sub(text, 0, text.len - 1);
    struct line line = {.text = abx_str_dup(text), .bytes = text.len + identity.len};
    if (identity.ptr)
        line.identity = abx_str_dup(identity);
    if (line.text == NULL || (identity.ptr && line.identity == NULL)) {
        free(line.text);
        free(line.identity);
        return; /* it was written; only its copy is missing */
    }
    while (l->first < l->next &&
           (l->next - l->first == LINES_MAX || l->bytes + line.bytes > BYTES_MAX))
        drop_first(l);
    *at(l, l->next++) = line;
    l->bytes += line.bytes;
}

static bool may_see(const struct abx_policy_identity *who, const struct line *line)
{
    return who->is_wide || (line->identity && abx_str_is(who->id, line->identity));
}

void abx__audit_log_write(const struct abx__audit_log *l, const struct abx_policy_identity *who,
                          uint64_t since, struct abx_buf *out)
{
    struct abx_json_writer w;
    uint64_t number = since > l->first ? since : l->first;
    size_t shown = 0;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("lines"));
    abx_json_begin_array(&w);
    for (; number < l->next && shown < ANSWER_LINES; number++) {
        const struct line *line = &l->lines[number % LINES_MAX];
        if (!may_see(who, line))
            continue;
        abx_json_raw(&w, abx_str(line->text));
        shown++;
    }
    abx_json_end_array(&w);
    abx_json_key(&w, ABX_STR("next"));
    abx_json_u64(&w, number < l->next ? number : l->next);
    abx_json_kv_bool(&w, "dropped", since < l->first);
    abx_json_end_object(&w);
}
