/* guest/caps/watch_record.c: decodes what inotify wrote (inotify(7)). Pure. */
#include "guest/caps/watch_priv.h"

#include <sys/inotify.h>

#include "lib/base/banned.h"

bool abx__record_next(struct abx_str *in, struct abx__record *ret)
{
    struct inotify_event head;
    if (in->len < sizeof(head))
        return false;
    memcpy(&head, in->ptr, sizeof(head));
    if (head.len > in->len - sizeof(head))
        return false;
    const char *name = in->ptr + sizeof(head);
    *ret = (struct abx__record){head.wd, head.mask, head.cookie, {name, strnlen(name, head.len)}};
    *in = abx_str_sub(*in, sizeof(head) + head.len, in->len);
    return true;
}
