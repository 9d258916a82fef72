"""Which cells are plain Python to IPython as well: what it would run is what they say, and nothing in them can tell
whether it is there. A cell that is not recognized as such is none."""
import _ast
import warnings

MODULES = frozenset((
    "base64", "bisect", "calendar", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "glob", "hashlib", "heapq", "io", "itertools", "json", "math", "operator", "os", "pathlib", "platform",
    "random", "re", "shutil", "statistics", "string", "subprocess", "sys", "tempfile", "textwrap", "time", "typing", "uuid",
    "zlib"))
# What IPython puts before user code, what shows it, what it could trip over when it comes, and exceptions whose traceback
# begins with a line of its own.
WORDS = frozenset((
    "In", "Out", "get_ipython", "display", "exit", "quit", "open", "SystemExit",
    "breakpoint", "compile", "copyright", "credits", "delattr", "dir", "eval", "exec", "getattr", "globals", "hasattr", "help",
    "license", "locals", "setattr", "vars",
    "addaudithook", "displayhook", "excepthook", "meta_path", "modules", "path_hooks", "path_importer_cache", "ps1", "ps2",
    "set_int_max_str_digits", "setprofile", "setrecursionlimit", "settrace", "setswitchinterval", "unraisablehook",
    "BaseExceptionGroup", "ExceptionGroup", "IndentationError", "SyntaxError", "TabError",
    "chroot", "fork", "forkpty", "setgid", "setuid", "*"))
ODD = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # ends of lines to some; half a character is none, either
PROMPTS = (">>>", "...", "In [", "[ins]", "[nav]")
ONLY_AST, TOP_LEVEL_AWAIT, COROUTINE = 0x400, 0x2000, 0x80  # ast.PyCF_*, inspect.CO_COROUTINE


def is_untouched(source):
    """IPython takes indents, blank lines and prompts away before it parses."""
    if source[0].isspace() or any(c in ODD or "\ud800" <= c <= "\udfff" for c in set(source)):
        return False
    lines = source.split("\n")
    return not any(line.isspace() or line.lstrip().startswith(PROMPTS) for line in lines)


def is_free(word):
    """A name that tells nothing; those with an underscore in front may be IPython's."""
    return word not in WORDS and (word[:1] != "_" or word == "__name__")


def passes_import(kind, node):
    if kind == "ImportFrom":
        return node.level == 0 and node.module.partition(".")[0] in MODULES
    return all(name.name.partition(".")[0] in MODULES for name in node.names)


def passes_attribute(node):
    """Libraries are not changed, only objects of the cell."""
    is_own = type(node.value).__name__ == "Name" and node.value.id == "self"
    if type(node.ctx).__name__ != "Load" and not is_own:
        return False
    return node.attr not in WORDS and (is_own or node.attr[:1] != "_" or node.attr == "__init__")


def passes_function(node):
    is_special = node.name[:2] == "__" and node.name[-2:] == "__"
    return is_special or is_free(node.name)


RULES = {"Attribute": passes_attribute, "FunctionDef": passes_function,
         "Import": lambda node: passes_import("Import", node), "ImportFrom": lambda node: passes_import("ImportFrom", node)}
HAVE_OWN_WORDS = frozenset(("Attribute", "Constant", "FunctionDef", "ImportFrom"))


def passes(tree):
    rest = [tree]
    while rest:
        node = rest.pop()
        kind = type(node).__name__
        rule = RULES.get(kind)
        if rule is not None and not rule(node):
            return False
        for field in node._fields:
            value = getattr(node, field, None)
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, str):
                    if kind not in HAVE_OWN_WORDS and not is_free(item):
                        return False
                elif hasattr(item, "_fields"):
                    rest.append(item)
    return True


def after(source, node):
    lines = source.encode("utf-8").split(b"\n")[node.end_lineno - 1:]
    return b"\n".join([lines[0][node.end_col_offset:], *lines[1:]])


def parts_of(source, name):
    """One code object a statement, as IPython makes them; the value of a last expression goes to sys.displayhook."""
    tree = compile(source, name, "exec", ONLY_AST, True)
    if not tree.body or not passes(tree):
        return None
    last = tree.body[-1]
    if b";" in after(source, last):
        return None  # it may ask for silence
    parts = []
    for node in tree.body:
        is_shown = node is last and type(node).__name__ == "Expr"
        whole, mode = (_ast.Interactive([node]), "single") if is_shown else (_ast.Module([node], []), "exec")
        part = compile(whole, name, mode, TOP_LEVEL_AWAIT, True)
        if part.co_flags & COROUTINE:
            return None
        parts.append(part)
    return parts


def plain_parts(source, name):
    """The code objects of @source, which is_untouched(); None: it is not plain, not right, or to be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return parts_of(source, name)
        except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError, Warning):
            return None
