/* guest/caps/transfer_rig_priv.h: one upload at a time, for the tests of uploads and downloads. */
#pragma once
#include "guest/caps/files_rig_priv.h"

struct transfer {
    bool done, drained, opened;
    struct abx_error err;
    struct abx_download_info info;
    struct abx_buf got;
    size_t chunk;
    bool closes;
};

static const char *spill; /* of the next uploads; NULL: the usual folders */

static inline void on_drain(struct abx_upload *u)
{
    ((struct transfer *)abx_upload_owner(u))->drained = true;
}

static inline void on_upload_done(struct abx_upload *u, const struct abx_error *err)
{
    struct transfer *t = abx_upload_owner(u);
    assert_false(t->done);
    t->done = true;
    if (err)
        t->err = *err;
    abx_upload_close(u);
}

static const struct abx_upload_ops upload_ops = {on_drain, on_upload_done};

static inline struct abx_upload *start_upload(const char *path, struct transfer *t)
{
    struct abx_upload_spec spec = {.path = path, .user = &self, .spill_dir = spill};
    struct abx_upload *u = NULL;
    *t = (struct transfer){0};
    assert_int_equal(abx_upload_open(&loop, &spec, &upload_ops, t, &u, NULL), 0);
    return u;
}

static inline void upload(const char *path, const char *data, size_t len, struct transfer *t)
{
    struct abx_upload *u = start_upload(path, t);
    for (size_t done = 0; done < len && !t->done;) {
        size_t part = len - done < 65536 ? len - done : 65536;
        t->drained = false;
        bool goes_on = abx_upload_append(u, data + done, part);
        done += part;
        while (!goes_on && !t->drained && !t->done)
            uv_run(&loop.uv, UV_RUN_ONCE);
    }
    if (!t->done)
        abx_upload_finish(u);
    run_until(&t->done);
}
