/* lib/policy/report.c: findings with places, and advice for mistyped names. */
#include "lib/policy/report.h"

#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { REPORT_BYTES = 1 << 20, PLACE_BYTES = 1024, TEXT_BYTES = 1024, WORD_MAX = 64 };

void abx_report_init(struct abx_report *r)
{
    *r = (struct abx_report){0};
    abx_arena_init(&r->arena, REPORT_BYTES);
}

void abx_report_done(struct abx_report *r)
{
    abx_arena_done(&r->arena);
    *r = (struct abx_report){0};
}

const struct abx_finding *abx_report_first_error(const struct abx_report *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].kind != ABX_FINDING_WARNING)
            return &r->items[i];
    return NULL;
}

static struct abx_finding *next_slot(struct abx_report *r)
{
    if (r->items == NULL)
        r->items = abx_arena_array(&r->arena, ABX_REPORT_MAX, sizeof(*r->items));
    if (r->items == NULL || r->count == ABX_REPORT_MAX) {
        r->dropped++;
        return NULL;
    }
    return &r->items[r->count++];
}

/* "policy.auth.tokens[0].id" */
static const char *dotted_place(struct abx_report *r, const struct abx_json_node *node)
{
    const struct abx_json_node *path[ABX_JSON_TREE_DEPTH + 1];
    size_t depth = 0;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PLACE_BYTES);
    for (; node->parent != NULL && depth < ABX_JSON_TREE_DEPTH; node = node->parent)
        path[depth++] = node;
    abx_buf_put_c(&out, "policy");
    while (depth-- > 0) {
        if (path[depth]->parent->kind == ABX_JSON_ARRAY_NODE)
            abx_buf_putf(&out, "[%zu]", path[depth]->index);
        else
            abx_buf_putf(&out, ".%.*s", ABX_STR_FMT(path[depth]->key));
    }
    return out.failed ? "policy" : abx_arena_c(&r->arena, abx_buf_str(&out));
}

static void fill(struct abx_report *r, struct abx_str text, const struct abx__finding *f,
                 struct abx_finding *slot)
{
    slot->kind = f->kind;
    slot->rule = f->rule;
    slot->is_error_level = f->is_error_level;
    if (f->place != NULL)
        slot->place = f->place[0] ? abx_arena_c(&r->arena, abx_str(f->place)) : NULL;
    if (f->node == NULL)
        return;
    if (f->place == NULL)
        slot->place = dotted_place(r, f->node);
    slot->pointer = abx_json_tree_pointer(f->node, &r->arena);
    bool at_key = f->at_key && f->node->key.ptr != NULL;
    abx_json_position(text, at_key ? f->node->key_at : f->node->at, &slot->line, &slot->column);
}

static void add(struct abx_report *r, struct abx_str text, const struct abx__finding *f,
                const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));

static void add(struct abx_report *r, struct abx_str text, const struct abx__finding *f,
                const char *fmt, va_list ap)
{
    char message[TEXT_BYTES];
    r->errors += f->kind != ABX_FINDING_WARNING;
    struct abx_finding *slot = next_slot(r);
    if (slot == NULL)
        return;
    vsnprintf(message, sizeof(message), fmt, ap);
    fill(r, text, f, slot);
    slot->text = abx_arena_c(&r->arena, abx_str(message));
    if (slot->text == NULL)
        slot->text = "out of memory";
}

void abx__report_add(struct abx_report *r, struct abx_str text, const struct abx__finding *f,
                     const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(r, text, f, fmt, ap);
    va_end(ap);
}

bool abx__mistake(struct abx__load *l, const struct abx_json_node *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .node = node};
    add(l->report, l->facts->text, &f, fmt, ap);
    va_end(ap);
    return false;
}

bool abx__mistake_at_key(struct abx__load *l, const struct abx_json_node *node, const char *fmt,
                         ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .node = node, .at_key = true};
    add(l->report, l->facts->text, &f, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- did you mean ---- */

/* Edits (Levenshtein, and two neighbours exchanged) from @a to @b; both are short. */
static unsigned distance(struct abx_str a, struct abx_str b)
{
    unsigned row[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b.len; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a.len; i++) {
        unsigned *now = row[i % 3], *up = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b.len; j++) {
            unsigned best = up[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);
            best = up[j] + 1 < best ? up[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            bool swapped =
                i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1];
            if (swapped && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[a.len % 3][b.len];
}

const char *abx__nearest(struct abx_str word, const char *const *names, size_t count)
{
    const char *best = NULL;
    unsigned least = (unsigned)(word.len + 2) / 3 + 1; /* a third of the word may be wrong */
    if (word.len > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct abx_str name = abx_str(names[i]);
        if (name.len > WORD_MAX)
            continue;
        unsigned d = distance(word, name);
        bool begins = word.len >= 3 && abx_str_starts(name, "") && name.len > word.len &&
                      memcmp(name.ptr, word.ptr, word.len) == 0;
        if (begins && d > 1)
            d = 1 + (d > 8);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

void abx__put_names(struct abx_buf *out, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        abx_buf_putf(out, "%s%s", i ? ", " : "", names[i]);
}

bool abx__unknown_key(struct abx__load *l, const struct abx_json_node *node,
                      const char *const *names, size_t count)
{
    const char *meant = abx__nearest(node->key, names, count);
    ABX_AUTO_BUF allowed;
    abx_buf_init(&allowed, TEXT_BYTES);
    abx__put_names(&allowed, names, count);
    const char *list = allowed.failed || allowed.len == 0 ? "nothing" : allowed.ptr;
    if (meant != NULL)
        return abx__mistake_at_key(l, node, "no such key; did you mean \"%s\"? Allowed: %s", meant,
                                   list);
    return abx__mistake_at_key(l, node, "no such key. Allowed: %s", list);
}
