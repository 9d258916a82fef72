/* lib/policy/revision.c: the name of a document's meaning: a hash over its normal form, printed as
 * the published server prints it. Spec: policy.md A14. */
#include "lib/base/buf.h"
#include "lib/base/parse.h"
#include "lib/policy/policy_priv.h"

#include <sodium.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { NORMAL_BYTES = 16 << 20 };

static void put(struct abx_buf *out, const struct abx_json_node *n, struct abx_arena *a);

static int compare_keys(const void *left, const void *right)
{
    const struct abx_json_node *a = *(const struct abx_json_node *const *)left,
                               *b = *(const struct abx_json_node *const *)right;
    size_t least = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = least ? memcmp(a->key.ptr, b->key.ptr, least) : 0;
    return order != 0 ? order : a->key.len < b->key.len ? -1 : a->key.len > b->key.len;
}

static void put_object(struct abx_buf *out, const struct abx_json_node *n, struct abx_arena *a)
{
    const struct abx_json_node **sorted = abx_arena_array(a, n->count + 1, sizeof(void *));
    size_t count = 0;
    if (sorted == NULL) {
        out->failed = true;
        return;
    }
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next)
        sorted[count++] = c;
    qsort(sorted, count, sizeof(*sorted), compare_keys);
    abx_buf_put_byte(out, '{');
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            abx_buf_put_byte(out, ',');
        abx__put_json_string(out, sorted[i]->key);
        abx_buf_put_byte(out, ':');
        put(out, sorted[i], a);
    }
    abx_buf_put_byte(out, '}');
}

static void put_array(struct abx_buf *out, const struct abx_json_node *n, struct abx_arena *a)
{
    abx_buf_put_byte(out, '[');
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        if (c != n->first)
            abx_buf_put_byte(out, ',');
        put(out, c, a);
    }
    abx_buf_put_byte(out, ']');
}

/* ["process"] is {"process":true}; names come sorted and once. */
static void put_group_list(struct abx_buf *out, const struct abx_json_node *n)
{
    const char *names[ABX_GROUP__COUNT] = {"agents",  "browser",   "commands",
                                           "core",    "dev_tools", "file_ops",
                                           "process", "system",    "terminal"};
    const char *sep = "";
    abx_buf_put_byte(out, '{');
    for (size_t i = 0; i < ABX_GROUP__COUNT; i++)
        for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
            if (c->kind != ABX_JSON_STR_NODE || !abx_str_is(c->text, names[i]))
                continue;
            abx_buf_putf(out, "%s\"%s\":true", sep, names[i]);
            sep = ",";
            break;
        }
    abx_buf_put_byte(out, '}');
}

static unsigned depth_of(const struct abx_json_node *n)
{
    unsigned depth = 0;
    for (; n->parent != NULL; n = n->parent)
        depth++;
    return depth;
}

static bool is_member(const struct abx_json_node *n, const char *key, unsigned depth)
{
    return n->parent != NULL && n->parent->kind == ABX_JSON_OBJECT_NODE &&
           abx_str_is(n->key, key) && depth_of(n) == depth;
}

/* A size that stands as text in /defaults/limits or /endpoints/X/limits. */
static bool is_size_text(const struct abx_json_node *n, double *ret)
{
    if (n->kind != ABX_JSON_STR_NODE || n->parent == NULL ||
        !(is_member(n->parent, "limits", 2) || is_member(n->parent, "limits", 3)))
        return false;
    return abx__size_parse(n->text, ret);
}

static void put_lower(struct abx_buf *out, struct abx_str hex)
{
    abx_buf_put_byte(out, '"');
    for (size_t i = 0; i < hex.len; i++) {
        bool upper = hex.ptr[i] >= 'A' && hex.ptr[i] <= 'F';
        abx_buf_put_byte(out, upper ? (char)(hex.ptr[i] | 0x20) : hex.ptr[i]);
    }
    abx_buf_put_byte(out, '"');
}

static void put_string(struct abx_buf *out, const struct abx_json_node *n)
{
    double size;
    if (is_size_text(n, &size))
        abx_buf_putf(out, "%.0f", size);
    else if (is_member(n, "token_sha256", 4))
        put_lower(out, n->text);
    else
        abx__put_json_string(out, n->text);
}

static void put(struct abx_buf *out, const struct abx_json_node *n, struct abx_arena *a)
{
    if (is_member(n, "description", 1)) {
        ABX_AUTO_BUF text;
        abx_buf_init(&text, NORMAL_BYTES);
        abx__put_python(&text, n, false);
        abx__put_json_string(out, text.len ? abx_buf_str(&text) : ABX_STR(""));
        out->failed |= text.failed;
        return;
    }
    switch (n->kind) {
    case ABX_JSON_NULL_NODE:
        abx_buf_put_c(out, "null");
        break;
    case ABX_JSON_BOOL_NODE:
        abx_buf_put_c(out, n->truth ? "true" : "false");
        break;
    case ABX_JSON_INT_NODE:
        abx__put_integer(out, n->text);
        break;
    case ABX_JSON_REAL_NODE:
        abx__put_real(out, n->number);
        break;
    case ABX_JSON_STR_NODE:
        put_string(out, n);
        break;
    case ABX_JSON_ARRAY_NODE:
        if (is_member(n, "groups", 1))
            put_group_list(out, n);
        else
            put_array(out, n, a);
        break;
    case ABX_JSON_OBJECT_NODE:
        put_object(out, n, a);
        break;
    }
}

int abx__revision(struct abx__load *l)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    ABX_AUTO_BUF text;
    abx_buf_init(&text, NORMAL_BYTES);
    put(&text, l->policy->root, l->arena);
    if (text.failed) {
        l->no_memory = true;
        return -1;
    }
    crypto_hash_sha256(hash, (const unsigned char *)text.ptr, text.len);
    abx_hex_encode(hash, 8, l->policy->revision);
    return 0;
}
