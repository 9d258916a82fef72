"""Named commands of user code (command-hosts.md 2.1, 2.2)."""
import dataclasses
import inspect
import json
import threading
import typing
from typing import Any, Callable, List, Optional, Tuple

from . import _notices
from ._coerce import TYPES, parse_array_default

__all__ = ["CommandArg", "CommandRegistry", "RegisteredCommand", "command", "default_registry"]


@dataclasses.dataclass
class CommandArg:
    """One argument; `default` is text (JSON for a string_array) or None."""

    name: str
    type: str = "string"
    required: bool = False
    default: Optional[str] = None
    description: str = ""

    def __post_init__(self):
        if self.type not in TYPES:
            raise ValueError(f"Invalid arg type {self.type!r}; allowed: {sorted(TYPES)}")
        if self.type == "string_array" and self.default is not None:
            parse_array_default(self.default)


@dataclasses.dataclass
class RegisteredCommand:
    name: str
    fn: Callable[..., Any]
    args: List[CommandArg] = dataclasses.field(default_factory=list)
    description: str = ""
    hidden: bool = False
    scopes: Tuple[str, ...] = ()


_SCALARS = {int: "integer", float: "float", bool: "boolean", str: "string"}
if hasattr(typing, "Annotated"):
    _ANNOTATED = type(typing.Annotated[int, ""])
else:
    _ANNOTATED = None


def _type_of(annotation):
    if _ANNOTATED is not None and isinstance(annotation, _ANNOTATED):
        annotation = annotation.__origin__
    if typing.get_origin(annotation) is list and typing.get_args(annotation) == (str,):
        return "string_array"
    try:
        return _SCALARS.get(annotation, "string")
    except TypeError:  # an annotation that can not be hashed
        return "string"


def _hints(fn, parameters):
    """Annotations by parameter. A postponed set that does not resolve counts as none."""
    own = {name: p.annotation for name, p in parameters.items() if p.annotation is not p.empty}
    holder = inspect.unwrap(fn) if callable(fn) else fn
    holder = getattr(holder, "func", holder)
    if not hasattr(holder, "__annotations__") and not inspect.ismethod(holder):
        holder = getattr(type(holder), "__call__", holder)
    names = getattr(holder, "__globals__", None) or getattr(getattr(holder, "__func__", None), "__globals__", {})
    texts = [a for a in own.values() if isinstance(a, str)]
    out = {}
    for name, annotation in own.items():
        if not isinstance(annotation, str):
            out[name] = annotation
            continue
        try:
            out[name] = eval(annotation, names)  # noqa: S307 - the author's own annotation
        except Exception:
            if len(texts) == len(own):  # `from __future__ import annotations`
                return {}
    return out


def _default_text(default, kind):
    if kind == "string_array":
        return json.dumps(default)
    return None if default is None else str(default)


def _infer(fn):
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return []
    hints = _hints(fn, parameters)
    out = []
    for name, parameter in parameters.items():
        kind = _type_of(hints[name]) if name in hints else "string"
        if parameter.default is parameter.empty:
            out.append(CommandArg(name, kind, required=True))
            continue
        if name not in hints and parameter.default is not None and not isinstance(parameter.default, str):
            _notices.add(f"argument {name!r} of {getattr(fn, '__name__', fn)!s} has no annotation: "
                         f"its default arrives as the text {str(parameter.default)!r}")
        out.append(CommandArg(name, kind, default=_default_text(parameter.default, kind)))
    return out


class CommandRegistry:
    """Commands by name, in order of registration. Frozen once serving begins."""

    def __init__(self):
        self._commands = {}
        self._origins = {}
        self._lock = threading.Lock()
        self._frozen = False

    def register(self, name, fn, *, args=None, description="", hidden=False, scopes=()):
        if self._frozen:
            raise RuntimeError("Cannot register command after the registry has been frozen")
        entry = RegisteredCommand(name, fn, list(args or ()), description, hidden, tuple(scopes))
        with self._lock:
            self._note_twice(name)
            self._commands[name] = entry

    def _note_twice(self, name):
        origin = _notices.current_file
        if name in self._commands:
            other = self._origins.get(name)
            if origin != other:
                raise ValueError(f"command {name!r} is registered by two files: {other} and {origin}")
            _notices.add(f"command {name!r} is registered twice: the later one runs")
        self._origins[name] = origin

    def command(self, name=None, *, hidden=False, **kwargs):
        if callable(name):
            fn = name
            _notices.add(f"@command without parentheses: {fn.__name__!r} is registered under its own name")
            self.register(fn.__name__, fn, args=_infer(fn))
            return fn

        def decorate(fn):
            options = dict(kwargs)
            if options.get("args") is None:
                options["args"] = _infer(fn)
            self.register(fn.__name__ if name is None else name, fn, hidden=hidden, **options)
            return fn

        return decorate

    def freeze(self):
        self._frozen = True

    def get(self, name):
        return self._commands.get(name)

    def list_all(self):
        return dict(self._commands)

    def list_visible(self):
        return {name: entry for name, entry in self._commands.items() if not entry.hidden}

    def __contains__(self, name):
        return name in self._commands

    def __len__(self):
        return len(self._commands)

    def __repr__(self):
        return f"<CommandRegistry commands={list(self._commands)}{' (frozen)' if self._frozen else ''}>"


_DEFAULT = CommandRegistry()


def default_registry():
    """The registry that `command` fills and `serve` offers."""
    return _DEFAULT


def command(name=None, *, hidden=False, **kwargs):
    """Registers the decorated function in the default registry."""
    return _DEFAULT.command(name, hidden=hidden, **kwargs)
