"""Checks that user code may apply to its own arguments, as the endpoints apply them to theirs."""
from .commands import (CommandGuard, check_command, command_guard, command_guard_from_context, expand_short_flags)
from .env import check_env
from .paths import (MAX_PATH_LENGTH, OP_DELETE, OP_EXEC, OP_READ, OP_WRITE, SYSTEM_DENY, PathGuard, open_checked,
                    path_guard, path_guard_from_context)
from .process import check_process
from .urls import check_url

__all__ = ["CommandGuard", "MAX_PATH_LENGTH", "OP_DELETE", "OP_EXEC", "OP_READ", "OP_WRITE", "PathGuard", "SYSTEM_DENY",
           "check_command", "check_env", "check_process", "check_url", "command_guard", "command_guard_from_context",
           "expand_short_flags", "open_checked", "path_guard", "path_guard_from_context"]
