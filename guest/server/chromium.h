/* guest/server/chromium.h: the bounds of the browser's host and of Chromium under `confine`
 * (security S19). */
#pragma once
#include "guest/server/view.h"
#include "lib/base/arena.h"

/* What the program abx-chromium is told by its host. */
#define ABX__CHROMIUM_PROGRAM "ABX_CHROMIUM_PROGRAM" /* the Chromium to become */
#define ABX__CHROMIUM_FOLDER  "ABX_CHROMIUM_FOLDER"  /* the one place where it writes */
#define ABX__CHROMIUM_PORT    "ABX_CHROMIUM_PORT"    /* of the proxy */

#define ABX__CHROMIUM_HOME_NAME "abx-.chromium" /* no caller's folder has such a name */
#define ABX__CHROMIUM_HOME      ABX__HOMES "/" ABX__CHROMIUM_HOME_NAME

/** Whether the server runs in a sandbox of ours, where nobody makes user namespaces (S19, S54). */
bool abx__browser_is_in_sandbox(void);
/** Under @p the kernel holds the browser group: `confine` is on, and the group not wholly off. */
bool abx__chromium_is_held(const struct abx_policy *p);
/** "off", "with its own sandbox", "without its own sandbox" (in one of ours), "not as root". */
const char *abx__chromium_level(const struct abx_policy *p);
/** What the document's `network` says of connections: the proxy keeps to it. */
bool abx__chromium_may_connect(const struct abx_policy *p, uint32_t port);
/** This program, which the host starts as abx-chromium; NULL without memory. */
const char *abx__chromium_wall(struct abx_arena *a);

enum { ABX__CHROMIUM_ROOTS = 5 };
/** What the host needs beside the system; *ret has room for all. How many. Blocks. */
size_t abx__chromium_roots(struct abx_arena *a, struct abx__view_root *ret);
/** The rest of the host's confinement; the roots are the caller's. */
void abx__chromium_bound(struct abx_confine_spec *spec);
