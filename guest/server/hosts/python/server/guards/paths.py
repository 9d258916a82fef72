"""Which path may be touched: roots, deny patterns, read-only (policy.md A10)."""
import fnmatch
import os

from .._denied import PolicyDenied

MAX_PATH_LENGTH = 4096
OP_READ, OP_WRITE, OP_DELETE, OP_EXEC = "read", "write", "delete", "exec"
SYSTEM_DENY = ("/proc", "/sys", "/dev")


def _invalid(text, field):
    return PolicyDenied("invalid_path", f"{field}: {text}" if field else text, status=400, error_type="ValueError")


def _beneath(path, root):
    return path == root or root == "/" or path.startswith(root.rstrip("/") + "/")


def _ancestors(path):
    while path not in ("/", ""):
        yield path
        path = os.path.dirname(path)


def deny_matches(pattern, path):
    """Whether one deny pattern hits `path` or what it lies beneath."""
    if "/" not in pattern:
        return any(fnmatch.fnmatchcase(part, pattern) for part in path.split("/") if part)
    if pattern.startswith("/"):
        want = pattern.rstrip("/")
        return any(p == want or fnmatch.fnmatchcase(p, want) for p in _ancestors(path))
    tail = pattern[3:] if pattern.startswith("**/") else pattern
    return any(fnmatch.fnmatchcase(p, "*/" + tail) or fnmatch.fnmatchcase(p, tail) for p in _ancestors(path))


class PathGuard:
    """Resolves paths and refuses those outside of its roots."""

    def __init__(self, base_dir, allow=(), deny=(), read_only=False, symlinks="within", relative_to_root=True):
        self._given = tuple(allow) or (base_dir,)
        self._deny = tuple(deny) + SYSTEM_DENY
        self._read_only = read_only
        self._symlinks = symlinks
        self._relative_to_root = relative_to_root

    def roots(self):
        return [os.path.realpath(root) for root in self._given]

    def primary_root(self):
        return self.roots()[0]

    def resolve(self, raw, op=OP_READ, *, field=""):
        """The path with all links followed; PolicyDenied when the guard says no."""
        if not isinstance(raw, str) or not raw:
            raise _invalid("Missing or invalid path", field)
        if "\0" in raw:
            raise _invalid("Path contains a NUL byte", field)
        if len(raw) > MAX_PATH_LENGTH:
            raise _invalid(f"Path has more than {MAX_PATH_LENGTH} characters", field)
        start = self.primary_root() if self._relative_to_root else os.getcwd()
        lexical = os.path.normpath(os.path.join(start, raw))
        resolved = os.path.realpath(lexical)
        self._check(resolved, lexical, op, field)
        return resolved

    def _refuse(self, code, text, field):
        raise PolicyDenied(code, f"{field}: {text}" if field else text)

    def _check(self, resolved, lexical, op, field=""):
        root = next((r for r in self.roots() if _beneath(resolved, r)), None)
        if root is None:
            self._refuse("path_not_allowed", "Path is outside the allowed directories", field)
        if self._symlinks == "never" and not self._is_plain(resolved, lexical):
            self._refuse("symlink_denied", "Path goes through a symbolic link", field)
        if any(deny_matches(pattern, p) for pattern in self._deny for p in (resolved, lexical)):
            self._refuse("path_denied", "Path is denied by the policy", field)
        if self._read_only and op in (OP_WRITE, OP_DELETE):
            self._refuse("read_only", "Path is read-only", field)

    def _is_plain(self, resolved, lexical):
        for given in self._given:
            real = os.path.realpath(given)
            for root in (os.path.normpath(given), real):
                if _beneath(lexical, root) and os.path.normpath(real + lexical[len(root):]) == resolved:
                    return True
        return False

    def check_resolved(self, resolved, op=OP_READ):
        self._check(resolved, resolved, op)

    def permits(self, path, op=OP_READ):
        try:
            self.resolve(path, op)
        except PolicyDenied:
            return False
        return True


def path_guard(*roots, deny=(), readonly=False, symlinks="within"):
    """A guard over directories of the author's choice."""
    if not roots:
        raise ValueError("path_guard needs at least one root")
    for root in roots:
        if not isinstance(root, (str, os.PathLike)) or not os.path.isabs(root):
            raise ValueError(f"root must be an absolute directory path: {root!r}")
        if any(c in str(root) for c in "*?["):
            raise ValueError(f"root must be a directory, not a pattern: {str(root)!r}")
        if os.path.normpath(root).strip("/") == "":
            raise ValueError(f"root {str(root)!r} is not allowed: it would expose /proc and every secret")
    if symlinks not in ("within", "never"):
        raise ValueError(f"symlinks must be 'within' or 'never', got {symlinks!r}")
    found = tuple(os.fspath(root) for root in roots)
    return PathGuard(found[0], found, tuple(deny), readonly, symlinks)


def path_guard_from_context(ctx):
    """The guard of the endpoint that is being served."""
    return ctx.guard()


def open_checked(guard, resolved, flags, op, mode=0o666):
    """Opens what `resolve` gave; refuses when another file stands there by now."""
    fd = os.open(resolved, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        guard.check_resolved(os.path.realpath(f"/proc/self/fd/{fd}"), op)
    except BaseException:
        os.close(fd)
        raise
    return fd
