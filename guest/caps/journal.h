/* guest/caps/journal.h: the output of one process, by byte offset: memory, then disk, then a gap.
 *
 * Records of {kind, bytes} in one log. The newest ABX_JOURNAL_MEMORY_BYTES are in memory (allocated
 * as output comes), older ones in an unlinked file of at most ABX_JOURNAL_DISK_BYTES; beyond that
 * the oldest are dropped and readers that wanted them are told how many bytes are missing. Without
 * room on disk older output is dropped the same way. While nobody listens no more than 16 KiB stay
 * in memory. Spilling is a write to the page cache on the caller's thread. Offsets count output
 * bytes, not records. Not thread-safe. */
#pragma once
#include "lib/base/str.h"
#include "lib/contract/contract.h"

#include <stdint.h>

struct abx_journal_mark;
struct abx_journal {
    const char *spill_dir; /* borrowed */
    uint64_t memory_max, disk_max;
    char *ring;
    size_t ring_cap;          /* a power of two, or 0 */
    uint64_t start, mem, end; /* record boundaries: oldest kept, oldest in memory, next */
    uint64_t start_offset, mem_offset, end_offset;
    struct abx_journal_mark *marks; /* boundaries in the file, the first one at `start` */
    size_t mark_count, mark_cap;
    int fd; /* the spill file, -1: none */
    bool is_unheard;
};

/* Where a reader is. */
struct abx_journal_cursor {
    uint64_t position, offset;
    uint32_t left; /* of the record it is in */
    uint8_t kind;
};

struct abx_journal_limits {
    uint64_t memory_bytes, disk_bytes; /* memory: a power of two */
};

/** Allocates nothing. @limits NULL: the contract's. */
void abx_journal_init(struct abx_journal *j, const char *spill_dir,
                      const struct abx_journal_limits *limits);
void abx_journal_done(struct abx_journal *j);
/** Appends. Never fails: without memory or disk the oldest (in the end @data itself) becomes a gap.
 */
void abx_journal_append(struct abx_journal *j, uint8_t kind, const void *data, size_t len);
/** Whether somebody reads along. Nobody: gives back memory (what is above 16 KiB goes to the file,
 *  now and while output comes). A new journal is heard. */
void abx_journal_set_heard(struct abx_journal *j, bool is_heard);
/** Drops everything kept; a gap for readers. */
void abx_journal_forget(struct abx_journal *j);
/** Bytes held in memory and on disk. */
uint64_t abx_journal_held(const struct abx_journal *j);

/** Points @cur at output byte @offset (UINT64_MAX or beyond the end: the end). An offset that is
 *  gone shows as a gap at the first peek. */
void abx_journal_seek(struct abx_journal *j, uint64_t offset, struct abx_journal_cursor *cur);

enum abx_journal_peek { ABX_JOURNAL_EMPTY, ABX_JOURNAL_DATA, ABX_JOURNAL_GAP };
struct abx_journal_chunk {
    uint8_t kind;
    uint64_t offset;
    uint64_t lost;       /* GAP: how many bytes from `offset` on are gone */
    struct abx_str data; /* into the ring or @scratch; until the next append */
};
/** The next chunk, at most ABX_DATA_CHUNK_BYTES. @scratch holds so many. A gap moves the cursor
 *  past it; data is passed by abx_journal_advance(). */
enum abx_journal_peek abx_journal_peek(struct abx_journal *j, struct abx_journal_cursor *cur,
                                       char *scratch, struct abx_journal_chunk *ret);
void abx_journal_advance(struct abx_journal_cursor *cur, size_t len);
