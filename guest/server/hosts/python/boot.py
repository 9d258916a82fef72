"""__main__ of the shim: makes agent_sandbox.server importable from this archive, then runs the host.

The archive is standard input. It answers agent_sandbox.server (and easy_sandbox.server) before any installed copy;
agent_sandbox itself is left to an installed client, or stands empty. Importing the package imports no client.
"""
import os
import sys

if sys.version_info < (3, 8):  # this file alone is in words that such a one reads
    sys.exit("command host: Python 3.8 or newer is needed, and %s is %s: name another one by --python"
             % (sys.executable, sys.version.split()[0]))

import importlib  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import zipimport  # noqa: E402

PACKAGE, OTHER = "agent_sandbox.server", "easy_sandbox.server"


class Sources:
    """Finds and loads the package; its sources are in memory."""

    def __init__(self, archive):
        zipped = zipimport.zipimporter(archive)
        self.sources = {}
        # From 3.13 on the directory is read late, and asked for by a method.
        names = zipped._get_files() if hasattr(zipped, "_get_files") else zipped._files
        for path in names:
            if path.startswith("server") and path.endswith(".py"):
                parts = path[:-3].replace(os.sep, "/").split("/")
                is_package = parts[-1] == "__init__"
                name = ".".join(["agent_sandbox"] + parts[:len(parts) - is_package])
                self.sources[name] = (zipped.get_data(path), is_package)

    def find_spec(self, name, path=None, target=None):
        if name in self.sources:
            return importlib.util.spec_from_loader(name, self, is_package=self.sources[name][1])
        if name.startswith(OTHER + "."):
            return importlib.util.spec_from_loader(name, self)
        if name in ("agent_sandbox", "easy_sandbox"):
            return self.parent(name, path)
        return None

    def parent(self, name, path):
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is not None and found.loader is not None:
            found.loader = Parent(found.loader)
            return found
        spec = importlib.util.spec_from_loader(name, Parent(None), is_package=True)
        if found is not None:  # folders without __init__.py: a shared namespace
            spec.submodule_search_locations = list(found.submodule_search_locations)
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        if name in self.sources:
            exec(compile(self.sources[name][0], "<%s>" % name, "exec"), module.__dict__)
        else:
            sys.modules[name] = importlib.import_module(PACKAGE + name[len(OTHER):])


class Parent:
    """Loads agent_sandbox as it is installed, if it is, with our package as its attribute."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return None if self.loader is None else self.loader.create_module(spec)

    def exec_module(self, module):
        if self.loader is not None:
            self.loader.exec_module(module)
        module.server = sys.modules[PACKAGE]


def main():
    finder = Sources(sys.path[0])
    sys.meta_path.insert(0, finder)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # The package first and by hand: an import statement would import an installed client before it.
    package = importlib.util.module_from_spec(finder.find_spec(PACKAGE))
    sys.modules[PACKAGE] = sys.modules[OTHER] = package
    finder.exec_module(package)
    importlib.import_module(PACKAGE + "._host").main()


main()
