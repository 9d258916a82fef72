/* lib/proc/capability.c: what this process is allowed beyond what its ids allow. Any thread. */
#include "lib/proc/proc.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

bool abx_proc_has_capability(int capability)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (capability < 0 || capability > CAP_LAST_CAP || syscall(SYS_capget, &head, data) < 0)
        return false;
    return (data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}
