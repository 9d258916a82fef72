/* lib/base/map.c: string-keyed hash map, linear probing, tombstones. */
#include "lib/base/map.h"

#include "lib/base/buf.h"

#include <stdlib.h>

#include "lib/base/banned.h"

struct abx_map_slot {
    char *key; /* NULL: never used */
    size_t key_len;
    void *value;
    uint32_t hash;
    bool live;
};

static uint32_t hash_of(struct abx_str key)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < key.len; i++)
        h = (h ^ (unsigned char)key.ptr[i]) * 16777619u;
    return h ^ h >> 15;
}

void abx_map_init(struct abx_map *m, size_t max_entries)
{
    *m = (struct abx_map){.max = max_entries};
}

void abx_map_done(struct abx_map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i].key);
    free(m->slots);
    *m = (struct abx_map){.max = m->max};
}

/* The slot that holds @key, or the one where it would go; NULL only in an empty table. */
static struct abx_map_slot *find(const struct abx_map *m, struct abx_str key, uint32_t hash)
{
    struct abx_map_slot *grave = NULL;
    if (m->cap == 0)
        return NULL;
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct abx_map_slot *s = &m->slots[i];
        if (s->key == NULL && !s->live)
            return grave ? grave : s;
        if (!s->live)
            grave = grave ? grave : s;
        else if (s->hash == hash && abx_str_eq(abx_str_n(s->key, s->key_len), key))
            return s;
    }
}

static int grow(struct abx_map *m)
{
    size_t cap = m->cap ? m->cap : 8;
    if (m->count * 2 >= cap)
        cap *= 2;
    struct abx_map bigger = {.cap = cap, .max = m->max, .slots = calloc(cap, sizeof(*m->slots))};
    if (bigger.slots == NULL)
        return -1;
    for (size_t i = 0; i < m->cap; i++) {
        struct abx_map_slot *s = &m->slots[i];
        if (!s->live) {
            free(s->key);
            continue;
        }
        *find(&bigger, abx_str_n(s->key, s->key_len), s->hash) = *s;
        bigger.count++;
    }
    free(m->slots);
    *m = bigger;
    return 0;
}

int abx_map_set(struct abx_map *m, struct abx_str key, void *value, void **ret_old)
{
    uint32_t hash = hash_of(key);
    struct abx_map_slot *s = find(m, key, hash);
    if (s != NULL && s->live) {
        if (ret_old)
            *ret_old = s->value;
        s->value = value;
        return 0;
    }
    if (ret_old)
        *ret_old = NULL;
    if (m->count >= m->max)
        return -1;
    if ((m->count + m->dead + 1) * 4 > m->cap * 3) {
        if (grow(m) < 0)
            return -1;
        s = find(m, key, hash);
    }
    char *copy = abx_str_dup(key);
    if (copy == NULL)
        return -1;
    if (s->key != NULL) {
        m->dead--;
        free(s->key);
    }
    *s = (struct abx_map_slot){copy, key.len, value, hash, true};
    m->count++;
    return 0;
}

void *abx_map_get(const struct abx_map *m, struct abx_str key)
{
    struct abx_map_slot *s = find(m, key, hash_of(key));
    return s != NULL && s->live ? s->value : NULL;
}

void *abx_map_remove(struct abx_map *m, struct abx_str key)
{
    struct abx_map_slot *s = find(m, key, hash_of(key));
    if (s == NULL || !s->live)
        return NULL;
    s->live = false; /* the key stays as a tombstone until the table is rebuilt */
    m->count--;
    m->dead++;
    return s->value;
}

bool abx_map_next(const struct abx_map *m, size_t *it, struct abx_str *ret_key, void **ret_value)
{
    for (; *it < m->cap; ++*it) {
        struct abx_map_slot *s = &m->slots[*it];
        if (!s->live)
            continue;
        if (ret_key)
            *ret_key = abx_str_n(s->key, s->key_len);
        if (ret_value)
            *ret_value = s->value;
        ++*it;
        return true;
    }
    return false;
}
