/* guest/init/provision.c: envd's provisioning state, kept by PID 1 over envd's deaths (S41). */
#include "guest/init/init_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

enum { NO_TOKEN_BYTES = 1, MAX_STATE_BYTES = 4 << 20, MAX_FDS = 4 };
static const int needed_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static bool is_sealed_memfd(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & needed_seals) == needed_seals && fstat(fd, &st) == 0 &&
           S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= MAX_STATE_BYTES;
}

void abx__provision_receive(struct abx__init *in)
{
    unsigned char text[ABX_STATE_HASH + 1]; /* one more than any message has */
    int fds[MAX_FDS];
    size_t count = MAX_FDS;
    ssize_t n = abx_fd_recv(in->init_pair[0], text, sizeof(text), fds, &count);
    if (n < 0 && n != -EAGAIN && n != -EINTR)
        abx_log(ABX_LOG_WARN, "provisioning message lost errno=%d", (int)-n);
    if (n < 0)
        return;
    bool has_token = n == ABX_STATE_HASH;
    bool good = (has_token || (n == NO_TOKEN_BYTES && text[0] == 0)) && count == 1 &&
                is_sealed_memfd(fds[0]);
    if (good) {
        abx_fd_close(&in->provision_fd);
        in->provision_fd = abx_fd_take(&fds[0]);
        abx_state_page_set_token(in->page, has_token ? text : NULL);
        abx_state_page_provisioned(in->page);
    } else {
        abx_log(ABX_LOG_WARN, "provisioning message refused bytes=%zd descriptors=%zu", n, count);
    }
    for (size_t i = 0; i < count; i++)
        abx_fd_close(&fds[i]);
}
