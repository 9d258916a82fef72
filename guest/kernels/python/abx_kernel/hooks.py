"""Changes to libraries, made when user code first imports them."""
import importlib.util
import sys

_wanted = {}  # module: function that changes it


class Loader:
    def __init__(self, loader, change):
        self.loader, self.change = loader, change

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.change(module)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        change = _wanted.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, change)
        return spec


def after_import(name, change):
    if name in sys.modules:
        change(sys.modules[name])
        return
    if not _wanted:
        sys.meta_path.insert(0, Finder)
    _wanted[name] = change


def show_images(display):
    """Image.show() displays instead of opening a viewer; Image.save("path") displays as well."""
    def change(module):
        save = module.Image.save

        def save_and_show(self, fp, *arguments, **options):
            save(self, fp, *arguments, **options)
            if isinstance(fp, str):
                display(self)

        module.Image.show = lambda self, *_arguments, **_options: display(self)
        module.Image.save = save_and_show

    after_import("PIL.Image", change)
