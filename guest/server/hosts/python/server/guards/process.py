"""Programs that no policy lets a caller run."""
import os
import shutil

from .._denied import PolicyDenied
from .paths import SYSTEM_DENY


def _is_system(path):
    return any(path == root or path.startswith(root + "/") for root in SYSTEM_DENY)


def check_process(argv):
    """`argv` when its program may be run; it must not lie under /proc, /sys or /dev."""
    if not argv or not isinstance(argv[0], str) or not argv[0] or "\0" in argv[0]:
        raise PolicyDenied("process_invalid", "Empty or invalid program", status=400, error_type="ValueError")
    program = argv[0] if "/" in argv[0] else shutil.which(argv[0]) or argv[0]
    if _is_system(os.path.normpath(program)) or _is_system(os.path.realpath(program)):
        raise PolicyDenied("process_denied", f"Program {argv[0]!r} may not be run")
    return argv
