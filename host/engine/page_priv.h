/* host/engine/page_priv.h: what the resources of templates share: pages, names, times. */
#pragma once
#include "host/engine/api_priv.h"

enum { ABX__PAGE_MAX = 100, ABX__PAGE_ALL = 10000 };

/* A page of a list: one row more is read, to know whether there is another page. */
struct abx__cursor {
    struct abx_store_page page; /* its limit is one more than asked for */
    uint32_t taken;
    int64_t last_ms;
    char last_id[ABX_STORE_BUILD_LEN + 1];
    bool has_more;
};
/** Reads `limit` (1..@max) and `nextToken`. False: answered 400. */
bool abx__cursor_read(struct abx__call *c, uint32_t max, struct abx__cursor *ret);
/** Whether the row belongs to the page. */
bool abx__cursor_take(struct abx__cursor *p, int64_t created_ms, const char *id);
/** 200, with X-Next-Token when there is more. */
void abx__cursor_answer(struct abx__call *c, const struct abx__cursor *p,
                        const struct abx_buf *json);
/** An integer of the query, between @min and @max, @ret unchanged when absent. False: answered. */
bool abx__query_int(struct abx__call *c, const char *name, int64_t min, int64_t max, int64_t *ret);

/** The template that the first parameter names. False: answered. */
bool abx__named_template(struct abx__call *c, struct abx__ref *ref, struct abx_store_template *ret);
void abx__write_time(struct abx_json_writer *w, const char *key, int64_t ms);
/** Layers that no build and no image names any more go, once nothing is being built. */
void abx__layers_sweep(struct abx__engine *e);
/** Something that kept a wanted sweep waiting is over. */
void abx__layers_settle(struct abx__engine *e);
