"""tests/interpreter/first.py: cells that must give the same whether they are the first of a context, which is run before
IPython is imported where it can be, or a later one, which never is. {name: code}, or (code, what a cell after it says)."""

OBJECT = ("class Rich:\n    def __repr__(self):\n        return 'text'\n    def _repr_html_(self):\n        return '<b>h</b>'\n"
          "    def _repr_json_(self):\n        return {'a': 1}\n")
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='a')\nplt.title('T')\n"
SAME = {
    # values
    "int": "1+1", "no_value": "x = 1", "none": "None", "int_of_many_digits": "10 ** 5000", "float": "0.1 + 0.2", "nan": "float('nan')",
    "text": "'it\\'s'", "long_text": "'ab\\n' * 200", "bool": "1 < 2", "bytes": "b'a'", "complex": "1j", "list": "[1, 'a', None]",
    "wide_list": "list(range(100))", "long_list": "list(range(1500))", "dict": "{'a': {'b': [1.5, None]}}", "tuple": "(1,)",
    "set": "{3, 1, 2}", "function": "def f(a, b=2):\n    return a\nf", "type": "class A:\n    pass\nA", "subclass": "class I(int):\n    pass\nI(3)",
    "rich": OBJECT + "Rich()", "broken_repr": "class B:\n    def __repr__(self):\n        return 1 / 0\nB()",
    "date": "import datetime\ndatetime.date(2024, 2, 3)", "path": "from pathlib import PurePath\nPurePath('/a')", "table": "import pandas as pd\npd.DataFrame({'a': [1, 2]})",
    "silent": "5;", "silent_by_comment": "5; # said", "semicolon_inside": "'a;b'", "comment_behind": "5 # a; b", "only_comment": "# nothing",
    "blank": ("  \n", "1"), "two_values": "1\n2", "last_is_assignment": "1\ny = 2", "printed_and_value": "print('a')\n'b'", "printed_only": "print('a', end='')",
    "identity": "a = 1000\nb = 1000\na is b", "ellipsis": "...",
    # what IPython takes away, and what is its own
    "indented": "    x = 4\n    x", "blank_first": "\n\nx = 4\nx", "prompt": ">>> x = 4\n>>> x", "prompt_in_text": "'''\n>>> x\n'''",
    "blanks_in_text": "'''a\n   \nb'''", "carriage_return": "x = 1\r\nx", "form_feed": "x = 1\n\x0cx", "question": "len?", "magic": "%precision 2\n3.14159",
    "cell_magic": "%%bash\necho a", "command": "!echo a", "assigned_command": "y = !echo a\ny", "awaited": "import asyncio\nawait asyncio.sleep(0, 7)",
    "ipython": "get_ipython().execution_count - len(In)", "display": "display({'a': 1})\n2", "history": "In[-1], sorted(Out)[-9:0], _ih is In",
    "names": "sorted(n for n in globals() if n[:1] != '_')", "builtins": "__builtins__.__IPYTHON__, display.__module__", "main": "__name__, __doc__",
    "underscore": "_ = 5\n_", "bound_underscore": "for _ in range(3):\n    pass\n_", "open": "open(0)", "open_file": "open('f', 'w').write('abc')",
    "import_ipython": "import IPython\nIPython.get_ipython() is get_ipython()", "exit": ("exit()", "1"), "system_exit": "raise SystemExit(3)", "sys_exit": "import sys\nsys.exit(3)",
    "hook": "import sys\nsys.displayhook.__class__.__name__", "future": "from __future__ import annotations\ndef f(a: B): pass\nf.__annotations__",
    # exceptions
    "unknown": "xyz", "in_a_function": "def f(n):\n    return 1 / n\n\nf(0)", "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('v') from e",
    "context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined", "own": "class E(Exception):\n    pass\nraise E('a', 1)", "after_output": "print('a')\nimport sys\nprint('b', file=sys.stderr)\n[][1]",
    "in_library": "import json\njson.loads('{')", "keyboard": "raise KeyboardInterrupt", "group": "raise ExceptionGroup('g', [ValueError(1)])",
    "syntax": "1 +", "syntax_later": "x = 1\ndef", "indentation": "if 1:\nx", "not_here": "x = 1\nreturn x", "break": "print('a')\nbreak", "syntax_at_run_time": "import json\nraise SyntaxError('own')",
    "missing_module": "import no_such_module", "assertion": "assert [1] == [2], 'why'", "notes": "e = ValueError('a')\ne.add_note('n')\nraise e", "error_in_a_class": "class A:\n    x = y",
    # warnings
    "escape": "'\\d'", "is_literal": "1 is 1", "deprecated": "from datetime import datetime\nimport datetime as d\nd.datetime.strptime('1', '%d') and None",
    # what a later IPython could see differently
    "folder": ("import os\nos.mkdir('sub')\nos.chdir('sub')", "_dh[-1] == %pwd, os.getcwd().endswith('/home/sub'), len(_dh)"),
    "variable": ("import os\nos.environ['HOME'] = '/nowhere'\nos.environ['NEW'] = 'n'", "import os; os.environ['HOME'], os.environ['NEW'], get_ipython().ipython_dir[:8]"),
    "path_of_modules": ("import sys\nsys.path.insert(0, '/a')", "import sys; sys.path[:2]"),
    "seed": ("import random\nrandom.seed(0)", "import random; random.random()"), "backend": "import os\nos.environ['MPLBACKEND']",
    "module_file": ("import os\nfrom pathlib import Path\nPath('decorator.py').write_text('1/0')\nPath('pygments.py').write_text('1/0')", "1"),
    "function_then": ("def f():\n    return 1 / 0", "f()"), "last_value": ("40 + 2", "_, __, Out[len(In) - 2], _i"), "last_error": ("1 / 0", "%tb"),
    "last_nothing": ("x = 5", "get_ipython().last_execution_result.success, get_ipython().last_execution_succeeded, x"),
    "last_failed": ("1 / 0", "get_ipython().last_execution_succeeded, str(get_ipython().last_execution_result.error_in_exec)"),
    "list_names": ("alpha, beta = 1, 'b'", "%who"), "listed_input": ("q = 3", "%history -l 2"), "inspected": ("def f(a):\n    'Doc.'\n    return a", "f??"),
    "inspect_source": ("def f(a):\n    return a", "import inspect; print(inspect.getsource(f))"), "pickled": ("class P:\n    pass", "import pickle; type(pickle.loads(pickle.dumps(P()))) is P"),
    "reset": ("x = 5", "%reset -f"), "child": "import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c')", "input": "input('?')",
    "precision": ("x = 3.14159", "%precision 2\nx"), "plain_text": ("x = [1]", "get_ipython().display_formatter.formatters['text/plain'](x)"),
    # charts, first used in the first and in the second cell
    "chart": PLOT + "plt.show()", "chart_left_open": PLOT + "print('before');", "chart_later": ("x = 1", PLOT + "plt.show()"), "chart_as_value": PLOT + "plt.gcf()",
    "image": "from PIL import Image\nImage.new('RGB', (2, 2))",
}
