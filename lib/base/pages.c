/* lib/base/pages.c: the segments of the program without write permission: relocated data is not
 * among them, so what they hold is what the file holds. */
#include "lib/base/pages.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden"))); /* of the linker */

void abx_pages_let_go(void)
{
    uintptr_t start = (uintptr_t)&__ehdr_start, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)(start + __ehdr_start.e_phoff);
    const ElfW(Phdr) *end = p + __ehdr_start.e_phnum;
    uintptr_t linked_at = UINTPTR_MAX;
    for (; p < end; p++) {
        if (p->p_type != PT_LOAD)
            continue;
        if (linked_at == UINTPTR_MAX) /* the first one holds the headers */
            linked_at = p->p_vaddr - p->p_offset;
        if (p->p_flags & PF_W)
            continue;
        uintptr_t from = start - linked_at + p->p_vaddr, to = from + p->p_memsz;
        from &= ~(page - 1);
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
    }
}
