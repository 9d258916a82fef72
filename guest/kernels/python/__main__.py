"""Start of the Python kernel of the code interpreter: this text and the kernel's modules are the file on descriptor 0, the
supervisor is descriptor 3.

The file is this source and a NUL, then for each module its name and a NUL, the length of its source in four bytes (the lowest
one first), the source. It stays in memory, so that nothing of it is on sys.path; then user code owns __main__.
"""
import importlib.machinery
import os
import sys

PACKAGE = "abx_kernel"


class Sources:
    """Finds and loads abx_kernel.*, whose sources are in memory."""

    def __init__(self, table):
        self.sources = {}
        while table:
            name, _, table = table.partition(b"\0")
            end = 4 + int.from_bytes(table[:4], "little")
            self.sources[name.decode()], table = table[4:end], table[end:]

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name == PACKAGE)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.sources[module.__name__], f"<{module.__name__}>", "exec"), module.__dict__)


def main(table):
    sys.meta_path.insert(0, Sources(table))
    if sys.path[:1] != [""]:
        sys.path.insert(0, "")  # modules beside the user's files, as in an interactive session
    sys.argv = [""]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    from abx_kernel import serve
    serve.main()
