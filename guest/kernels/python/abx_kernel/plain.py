"""The shell where IPython is missing: top-level await, the last value, `!command`, display()."""
import ast
import asyncio
import builtins
import inspect
import io
import linecache
import os
import subprocess
import sys
import textwrap
import tokenize
import traceback
import types

from abx_kernel import hooks, jsonable, rich

METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def figure_png(figure):
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    return image.getvalue()


def is_a(value, module, name):
    return any(kind.__name__ == name and kind.__module__.split(".")[0] == module for kind in type(value).__mro__)


def bundle_of(value):
    """What the display methods of @value give; one that fails is left out."""
    bundle = {}
    if hasattr(type(value), "_repr_mimebundle_"):
        made = value._repr_mimebundle_()
        bundle.update(made[0] if isinstance(made, tuple) else made)
    for method, mime in METHODS.items():
        if mime in bundle or not hasattr(type(value), method):
            continue
        try:
            made = getattr(value, method)()
        except Exception:  # of the object's author
            continue
        bundle[mime] = made[0] if isinstance(made, tuple) else made
    if isinstance(value, (dict, list)):
        bundle["application/json"] = jsonable.clean(value)
    if is_a(value, "pandas", "DataFrame"):
        bundle["e2b/data"] = rich.table_data(value)
    if is_a(value, "matplotlib", "Figure"):
        bundle["image/png"], bundle["e2b/chart"] = figure_png(value), rich.figure_chart(value)
    bundle.setdefault("text/plain", repr(value))
    return bundle


def display(*values, raw=False, **_options):
    for value in values:
        rich.send_result(value if raw else bundle_of(value), False)


def show_figures(*_arguments, **_options):
    """plt.show(), and what happens to figures that a cell leaves open."""
    plt = sys.modules["matplotlib.pyplot"]
    for number in plt.get_fignums():
        display(plt.figure(number))
    plt.close("all")


def run_command(text):
    subprocess.run(text, shell=True, executable="/bin/sh", check=False)


def translate(source):
    """Lines of a shell syntax as calls. For a source that is no Python as it stands."""
    lines = []
    for line in source.split("\n"):
        bare = line.lstrip()
        indent = line[:len(line) - len(bare)]
        if bare.startswith("!"):
            line = f"{indent}__abx_command({bare[1:]!r})"
        elif bare.startswith("%cd "):
            line = f"{indent}__abx_cd({bare[4:].strip()!r})"
        elif bare.startswith("%pip "):
            line = f"{indent}__abx_command({sys.executable + ' -m pip ' + bare[5:]!r})"
        elif bare.startswith("%"):
            raise SyntaxError(f"{bare.split()[0]} is a magic of IPython, which is not installed (pip install ipython)")
        lines.append(line)
    return "\n".join(lines)


def ends_with_semicolon(source):
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
                last = token.string
    except (tokenize.TokenError, SyntaxError):
        return False
    return last == ";"


class Shell:
    def __init__(self, module=None, complaint=""):
        """@module: of the user's names, once there are some; @complaint: is said in the next cell."""
        os.environ.setdefault("MPLBACKEND", "agg")
        self.module, self.complaint = module or types.ModuleType("__main__"), complaint
        self.names = self.module.__dict__
        self.names.update(__builtins__=builtins, __abx_command=run_command, __abx_cd=os.chdir)
        builtins.display = display
        sys.modules["__main__"] = self.module
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        hooks.show_images(display)
        hooks.after_import("matplotlib.pyplot", lambda module: setattr(module, "show", show_figures))

    def settled(self):
        return self

    def keep(self, past):
        """Shows of a cell that was run before (early.py) what was not shown."""
        if past.error is not None:
            self.report(past.error.with_traceback(past.trace), past.name)
        elif past.value is not None:
            self.names["_"] = past.value
            if not past.is_sent:
                rich.send_result(bundle_of(past.value), True)

    def run(self, code, count):
        sys.stderr.write(self.complaint)
        self.complaint = ""
        name = f"<cell {count}>"
        try:
            value = self.evaluate(code, name)
            if value is not None:
                self.names["_"] = value
                rich.send_result(bundle_of(value), True)
            if "matplotlib.pyplot" in sys.modules:
                show_figures()
        except BaseException as error:  # whatever a cell raises is its answer
            self.report(error, name)

    def evaluate(self, code, name):
        source = textwrap.dedent(code)
        tree, source = self.parse(source, name)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not ends_with_semicolon(source):
            last = ast.Expression(tree.body.pop().value)
        self.execute(compile(tree, name, "exec", flags=FLAGS))
        return None if last is None else self.execute(compile(last, name, "eval", flags=FLAGS))

    @staticmethod
    def parse(source, name):
        try:
            return ast.parse(source, name), source
        except SyntaxError:
            if not any(line.lstrip()[:1] in ("!", "%") for line in source.split("\n")):
                raise
        source = translate(source)
        return ast.parse(source, name), source

    def execute(self, code):
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            return self.loop.run_until_complete(value)
        return value

    @staticmethod
    def report(error, name):
        trace = error.__traceback__  # from the cell on; none of it for a cell that can not be parsed
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error.with_traceback(trace), trace))
        rich.send_error(type(error).__name__, str(error), text)
