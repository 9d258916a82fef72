"""What IPython imports at its start and a kernel rarely asks for: imported when it is asked for.

While IPython is being imported, stand-ins take the places of these modules; afterwards nobody finds a stand-in any more,
but those that IPython kept a hold of load the module at the first use.
"""
import contextlib
import importlib
import sys
import types

ABSENT = ("jedi",)  # completions: IPython does without
LATE = {  # module: the names that are called, not looked into, by who imports them
    "IPython.terminal.embed": ("embed",),
    "asyncio": (),
    "asyncio.exceptions": (),
    "pygments.formatters": ("HtmlFormatter",),
    "pygments.formatters.terminal256": ("Terminal256Formatter",),
    "pygments.lexers": ("PythonLexer",),
    "pygments.styles": ("get_style_by_name",),
    "stack_data": (),
    "urllib.request": ("Request", "urlopen"),
}
WITH_SHELL = ("IPython.core.completer", "IPython.core.magics")  # imported when a shell is made


class StandIn(types.ModuleType):
    def __init__(self, name, functions):
        super().__init__(name)
        for function in functions:
            setattr(self, function, late(self, function))

    def __getattr__(self, name):
        if name == "__path__":  # asked for by each `from ... import`
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def late(stand_in, function):
    return lambda *arguments, **options: stand_in.__getattr__(function)(*arguments, **options)


@contextlib.contextmanager
def stand_ins():
    held = {name: None for name in ABSENT if name not in sys.modules}
    held.update((name, StandIn(name, functions)) for name, functions in LATE.items() if name not in sys.modules)
    sys.modules.update(held)
    try:
        yield
    finally:
        for name, stand_in in held.items():
            if name in sys.modules and sys.modules[name] is stand_in:
                del sys.modules[name]


def start():
    """Imports IPython; ImportError where it is missing."""
    try:
        with stand_ins():
            for name in ("IPython", *WITH_SHELL):
                importlib.import_module(name)
    except Exception:  # missing, or of a version that wants more of these modules than we know
        for name in [name for name in sys.modules if name.partition(".")[0] == "IPython"]:
            del sys.modules[name]
        importlib.import_module("IPython")
