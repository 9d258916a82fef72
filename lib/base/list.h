/* lib/base/list.h: an intrusive circular list. A head and a node are the same type. */
#pragma once
#include "lib/base/assert.h"

#include <stdbool.h>
#include <stddef.h>

struct abx_list {
    struct abx_list *prev, *next;
};

static inline void abx_list_init(struct abx_list *l)
{
    l->prev = l->next = l;
}
/** True for an empty head and for a node that is in no list. */
static inline bool abx_list_empty(const struct abx_list *l)
{
    return l->next == l || l->next == NULL;
}
static inline void abx_list_push(struct abx_list *head, struct abx_list *node) /* at the end */
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}
/** Takes @node out of its list; harmless for one that is in none (or zeroed). */
static inline void abx_list_remove(struct abx_list *node)
{
    if (node->next == NULL)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    abx_list_init(node);
}
#define abx_list_first(head, type, member)                                                         \
    (abx_list_empty(head) ? NULL : ABX_CONTAINER_OF((head)->next, type, member))
/* The body may remove the current element. */
#define abx_list_foreach(pos, head, type, member)                                                  \
    for (struct abx_list *it_ = (head)->next, *next_ = it_->next;                                  \
         it_ != (head) && ((pos) = ABX_CONTAINER_OF(it_, type, member), true);                     \
         it_ = next_, next_ = it_->next)
