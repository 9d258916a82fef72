"""Which command lines may be run (policy.md A12)."""
import fnmatch
import os
import re
import shlex

from .._denied import PolicyDenied

_WORDS_MAX, _WORD_MAX, _REST_MAX = 256, 4096, 3
_INT = re.compile(r"[0-9]{1,9}\Z")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+=,-]*\Z")
_GLOB = re.compile(r"[*?\[]")


def expand_short_flags(argv):
    """Grouped short flags taken apart: -la is -l -a."""
    out = []
    for index, word in enumerate(argv):
        if index and re.match(r"-[A-Za-z]{2,}\Z", word):
            out.extend("-" + letter for letter in word[1:])
        else:
            out.append(word)
    return out


def _first(pattern, word):
    return fnmatch.fnmatchcase(word, pattern) or fnmatch.fnmatchcase(os.path.basename(word), pattern)


class _Pattern:
    def __init__(self, text):
        try:
            self.words = shlex.split(text)
        except ValueError:
            self.words = []
        if not self.words or self.words.count("...") > _REST_MAX:
            raise PolicyDenied("command_invalid", f"Unreadable command pattern {text!r}", status=400,
                               error_type="ValueError")

    def _one(self, want, word, guard):
        if want == "{int}":
            return bool(_INT.match(word))
        if want == "{word}":
            return bool(_WORD.match(word))
        if want == "{path}":
            return bool(word) and not word.startswith("-") and (guard is None or guard.permits(word, "exec"))
        if _GLOB.search(want):
            for odd in ("/", ".."):
                if odd in word and odd not in want:
                    return False
            if word.startswith("-") and not want.startswith("-"):
                return False
            return fnmatch.fnmatchcase(word, want)
        return want == word

    def matches(self, argv, guard):
        words = self.words
        if len(words) == 1 and words[0] != "..." and not words[0].startswith("{"):
            return _first(words[0], argv[0])
        states = {0}  # positions in the pattern that the words so far may have reached
        for index, word in enumerate(argv):
            states = self._close(states)
            following = set()
            for at in states:
                if at == len(words):
                    continue
                if words[at] == "...":
                    following.add(at)
                elif _first(words[at], word) if index == 0 and at == 0 and not words[0].startswith("{") else \
                        self._one(words[at], word, guard):
                    following.add(at + 1)
            states = following
        return len(words) in self._close(states)

    def _close(self, states):
        out = set(states)
        for at in states:
            while at < len(self.words) and self.words[at] == "...":
                at += 1
                out.add(at)
        return out


class CommandGuard:
    """Deny patterns first, then allow patterns where there are some."""

    def __init__(self, allow=(), deny=(), *, shell=False, path_guard=None, require_allow=False):
        self._allow, self._deny = tuple(allow), tuple(deny)
        self._shell, self._paths, self._require = shell, path_guard, require_allow

    @staticmethod
    def normalise(command=None, argv=None):
        """The words of a command line, or of an argument list."""
        if argv is not None:
            return list(argv)
        try:
            return shlex.split(command)
        except ValueError as exc:
            raise PolicyDenied("command_invalid", f"Unreadable command: {exc}", status=400,
                               error_type="ValueError") from None

    def check(self, argv, *, shell=False):
        if not argv or len(argv) > _WORDS_MAX or any(
                not isinstance(w, str) or "\0" in w or len(w) > _WORD_MAX for w in argv):
            raise PolicyDenied("command_invalid", "Invalid command line", status=400, error_type="ValueError")
        if shell and not self._shell and (self._allow or self._require):
            raise PolicyDenied("command_not_allowed", "A shell command line can not be judged")
        forms = [list(argv), expand_short_flags(argv)]
        if any(_Pattern(p).matches(form, self._paths) for p in self._deny for form in forms):
            raise PolicyDenied("command_not_allowed", f"Command {argv[0]!r} is denied by the policy")
        if (self._allow or self._require) and not any(
                _Pattern(p).matches(form, self._paths) for p in self._allow for form in forms):
            raise PolicyDenied("command_not_allowed", f"Command {argv[0]!r} is not allowed by the policy")
        return list(argv)

    def permits(self, argv):
        try:
            self.check(argv)
        except PolicyDenied:
            return False
        return True


def command_guard(allow=(), deny=(), *, shell=False, path_guard=None):
    """A guard over patterns of the author's choice."""
    return CommandGuard(allow, deny, shell=shell, path_guard=path_guard)


def command_guard_from_context(ctx):
    """The guard that the endpoint's allow_commands and deny_commands make."""
    return CommandGuard(ctx.param("allow_commands") or (), ctx.param("deny_commands") or (), path_guard=ctx.guard())


def check_command(ctx, argv, *, shell=False):
    return command_guard_from_context(ctx).check(argv, shell=shell)
