"""The shell of the first cell, where IPython is installed: a cell of plain Python is run, and what every formatter shows as
its repr is sent, before IPython is imported. IPython then keeps the books of that cell as if it had run it (its history, its
count, its last value), and shows what else the cell has given: another value, an exception."""
import builtins
import linecache
import os
import sys

from abx_kernel import rich, screen, wire

INLINE = "module://matplotlib_inline.backend_inline"
SHOWN_AS_REPR = (bool, float, int, str)


def is_installed(name):
    for finder in sys.meta_path:
        if hasattr(finder, "find_spec") and finder.find_spec(name, None) is not None:
            return True
    return False


def cell_name(source, count):
    """The file name that IPython gives a cell."""
    try:
        from _sha1 import sha1
    except ImportError:
        from hashlib import sha1
    return f"<ipython-input-{count}-{sha1(source.encode()).hexdigest()[:12]}>"


class Past:
    """A cell that was run, and what came of it."""

    def __init__(self, code, count, name, parts):
        self.code, self.count, self.name, self.parts = code, count, name, parts
        self.value, self.error, self.trace = None, None, None
        self.is_sent = False

    @classmethod
    def of(cls, code, count):
        """None: the cell is for IPython to run."""
        source = code if code.endswith("\n") else code + "\n"
        if not screen.is_untouched(source):
            return None
        name = cell_name(source, count)
        parts = screen.plain_parts(source, name)
        if parts is None:
            return None
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        return cls(code, count, name, parts)

    def take(self, value):
        """sys.displayhook of the cell."""
        self.value = value
        if type(value) not in SHOWN_AS_REPR:
            return
        try:
            text = repr(value)
        except ValueError:  # an integer of too many digits
            return
        rich.send_result({"text/plain": text}, True)
        self.is_sent = True

    def run(self, names):
        shown, sys.displayhook = sys.displayhook, self.take
        try:
            for part in self.parts:
                exec(part, names)
        except BaseException as error:  # whatever a cell raises is its answer
            self.error, self.trace = error, error.__traceback__.tb_next
        finally:
            sys.displayhook = shown

    def waits(self):
        return self.error is not None or self.value is not None and not self.is_sent


class Start:
    """The folder, the variables and the path that the kernel started with: inside, they are there again."""

    def __init__(self):
        self.folder, self.variables, self.path = os.getcwd(), dict(os.environ), [place for place in sys.path if place]

    def __enter__(self):
        self.later = dict(os.environ), list(sys.path)
        self.here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.chdir(self.folder)
        replace(self.variables)
        sys.path[:] = self.path

    def __exit__(self, kind, value, trace):
        made = {name: text for name, text in os.environ.items() if self.variables.get(name) != text}
        replace({**self.later[0], **made})
        sys.path[:] = self.later[1]
        os.fchdir(self.here)
        os.close(self.here)


def replace(variables):
    for name in [name for name in os.environ if name not in variables]:
        del os.environ[name]
    for name, text in variables.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


class Shell:
    def __init__(self):
        os.environ.setdefault("MPLBACKEND", INLINE)
        self.start = Start()
        self.module = type(sys)("__main__", "Automatically created module for IPython interactive environment")
        self.module.__dict__.update(__builtin__=builtins, __builtins__=builtins)
        sys.modules["__main__"] = self.module
        self.past, self.whole = None, None

    def run(self, code, count):
        self.past = Past.of(code, count)
        if self.past is None:
            self.settled().run(code, count)
            return
        self.past.run(self.module.__dict__)
        if self.past.waits():
            self.settled()

    def settled(self):
        """The shell of the next cell."""
        if self.whole is None:
            was_running, wire.Interrupts.running = wire.Interrupts.running, False
            try:
                with self.start:
                    self.whole = self.make()
            finally:
                wire.Interrupts.running = was_running
            if self.past is not None:
                self.whole.keep(self.past)
        return self.whole

    def make(self):
        try:
            from abx_kernel import ipython
            return ipython.make_shell(self.module)
        except Exception as error:  # parts of it are missing, or it is broken
            complaint = f"IPython does not start here, cells run without it: {type(error).__name__}: {error}\n"
        if os.environ.get("MPLBACKEND") == INLINE:
            del os.environ["MPLBACKEND"]
        from abx_kernel import plain
        return plain.Shell(self.module, complaint)
