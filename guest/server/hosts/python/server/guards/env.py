"""Variables that a caller may set for a child."""
import fnmatch
import re

from .._denied import PolicyDenied

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_env(updates, *, deny=()):
    """`updates` when every name and value may be used."""
    for name, value in updates.items():
        if not isinstance(name, str) or not _NAME.match(name) or not isinstance(value, str) or "\0" in value:
            raise PolicyDenied("env_invalid", f"Invalid variable {name!r}", status=400, error_type="ValueError")
        if name.upper().startswith("ABX_") or any(fnmatch.fnmatchcase(name, pattern) for pattern in deny):
            raise PolicyDenied("env_var_denied", f"Variable {name!r} may not be set")
    return updates
