"""Start of the Python kernel of the code interpreter: a zip on descriptor 0, the supervisor on descriptor 3.

The sources move into memory, so that nothing of the archive stays on sys.path; then user code owns __main__.
"""
import importlib.util
import os
import sys
import zipimport


class Sources:
    """Finds and loads abx_kernel.*, whose sources are in memory."""

    def __init__(self, archive):
        zipped = zipimport.zipimporter(archive)
        names = zipped._get_files() if hasattr(zipped, "_get_files") else zipped._files
        self.sources = {}
        for path in names:
            if path.startswith("abx_kernel") and path.endswith(".py"):
                name = path[:-3].replace("/", ".")
                is_package = name.endswith(".__init__")
                self.sources[name[:-len(".__init__")] if is_package else name] = (zipped.get_data(path), is_package)

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=self.sources[name][1])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.sources[module.__name__][0], f"<{module.__name__}>", "exec"), module.__dict__)


def main():
    sys.meta_path.insert(0, Sources(sys.path[0]))
    sys.path[0] = ""  # modules beside the user's files, as in an interactive session
    sys.argv = [""]
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    from abx_kernel import serve
    serve.main()


main()
