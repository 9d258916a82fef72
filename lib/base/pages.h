/* lib/base/pages.h: the program itself as it lies in memory. */
#pragma once

/** Lets the pages of the program go that are only read. What is used of them comes back by minor
 * faults, out of the page cache. For a daemon whose start, which touches most of it once, is over.
 */
void abx_pages_let_go(void);
