/* guest/caps/pack_priv.h: how a member is written in each form. Bytes out, no descriptor. */
#pragma once
#include "guest/caps/gzip.h"
#include "guest/caps/pack.h"

enum { ABX__PACK_DIRECTORY = 64 * 1024 * 1024 }; /* of a zip: its central directory */

struct abx__member {
    struct abx_str name; /* a folder's ends with "/" */
    struct abx_str link; /* ptr NULL: none */
    struct stat st;      /* st_size: bytes of content that follow; 0 unless it is a file */
};

struct abx__zip {
    struct abx_deflate deflate;
    struct abx_buf directory;
    uint64_t offset, count; /* written so far; members */
    /* of the member in hand */
    uint64_t at, packed, size;
    uint32_t crc;
    struct abx_buf entry; /* its name and times for the directory */
    bool is_wide;
};

void abx__tar_begin(struct abx_buf *out, const struct abx__member *m);
/* Fills the last block of @size bytes. */
void abx__tar_pad(struct abx_buf *out, uint64_t size);
void abx__tar_end(struct abx_buf *out);

void abx__zip_init(struct abx__zip *z);
void abx__zip_done(struct abx__zip *z);
/* 0 or -errno, all of them. */
int abx__zip_begin(struct abx__zip *z, struct abx_buf *out, const struct abx__member *m);
int abx__zip_data(struct abx__zip *z, struct abx_buf *out, struct abx_str data);
int abx__zip_close(struct abx__zip *z, struct abx_buf *out);
int abx__zip_end(struct abx__zip *z, struct abx_buf *out);
