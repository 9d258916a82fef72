"""tests/interpreter/table.py: the conformance table of the protocol (section 12), and rich results. Each row runs its
steps in one fresh context; `expect` names claims of run's CLAIMS, a value or a function of the value."""

BOTH = ("ipython", "plain")
PLOT = "import matplotlib.pyplot as plt\n"


def one(name, code, language="python", pythons=("ipython",), envs=None, **expect):
    return {"name": name, "language": language, "pythons": pythons,
            "steps": [{"code": code, "envs": envs, "expect": expect}]}


def steps(name, *rows, language="python", pythons=("ipython",)):
    return {"name": name, "language": language, "pythons": pythons,
            "steps": [{"code": code, "expect": expect} for code, expect in rows]}


def chart(name, code, **expect):
    """A row whose figure is shown; @expect are members of its chart."""
    def fits(got):
        return all(value(got.get(key)) if callable(value) else got.get(key) == value for key, value in expect.items())

    return one(f"chart_{name}", PLOT + code + "\nplt.show()", chart=fits, pythons=("ipython",))


def keys(*names):
    return lambda got: isinstance(got, dict) and set(got) == set(names)


AXES = {"x_label", "y_label", "x_unit", "y_unit"}
TICKS = {"x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale"}
ALWAYS = {"type", "title", "elements"}


def ends_with(text):
    return lambda got: got.strip().endswith(text)


ROWS = [
    one("value", "x =1; x", pythons=BOTH, text="1", results=1),
    one("no_value_with_semicolon", "5;", pythons=BOTH, results=0),
    one("name_error", "xyz", pythons=BOTH, error=("NameError", "name 'xyz' is not defined"), results=0),
    one("print", 'print("hello")', pythons=BOTH, stdout=["hello\n"]),
    one("stderr", 'import sys;print("m", file=sys.stderr)', pythons=BOTH, stderr=["m\n"]),
    one("pwd", "!pwd", pythons=BOTH, stdout_all=ends_with("/home")),
    steps("pwd_twice", ("!pwd", {"count": 1}), ("!pwd", {"count": 2}), pythons=BOTH),
    steps("state", ("x = 1", {"results": 0}), ("x += 1; x", {"text": "2"}), pythons=BOTH),
    one("goes_before_the_daemons", "int(open('/proc/self/oom_score_adj').read())", pythons=BOTH, text="100"),
    one("await", "import asyncio\nawait asyncio.sleep(0.01)\n'done'", pythons=BOTH, text="done"),
    one("indented", "    y = 3\n    if y:\n        y += 1\n    y", pythons=BOTH, text="4"),
    one("json", "{'a': 1, 'b': [None]}", pythons=BOTH, keys=[["json", "text"]]),
    one("magic", "%who_ls", text="[]"),
    one("latex_alone", r"display({'text/latex': r'\text{CustomReprObject}'}, raw=True)", pythons=BOTH, keys=[["latex"]]),
    one("html_of_an_object", "class H:\n    def _repr_html_(self): return '<b>x</b>'\nH()", pythons=BOTH,
        keys=[["html", "text"]]),
    one("syntax_error", "a = (", pythons=BOTH, error=lambda e: e[0] == "SyntaxError"),
    one("system_exit", "exit()", pythons=BOTH, error=lambda e: e[0] == "SystemExit"),
    one("first_error_only", "import asyncio\nraise ValueError('v')", pythons=BOTH, error=("ValueError", "v")),
    steps("display_order", ("print('a'); display('b'); print('c')", {
        "kinds": ["number_of_executions", "stdout", "result", "stdout", "end_of_execution"]}), pythons=BOTH),
    one("js_log", 'console.log("Hello World!")', "js", stdout=["Hello World!\n"]),
    one("js_import", "import { readFileSync } from 'fs'\nimport os, { EOL as end } from 'node:os';\n"
        "import * as path from \"path\"\nconsole.log(typeof readFileSync, typeof os.cpus, typeof end, typeof path.join)",
        "js", stdout=["function function string function\n"]),
    one("js_import_inside_text", "const t = `import x from 'y'\n${1 + 1} import('z')`; // import a from 'b'\n"
        "/* import c from 'd' */ t.length", "js", text="31"),
    one("js_dynamic_import", "(await import('node:path')).basename('/a/b')", "js", text="b"),
    one("js_await", "await Promise.resolve('Hello World!')", "js", text="Hello World!"),
    one("js_promise", "Promise.resolve(5)", "js", text="5"),
    steps("js_declare_again", ("const x = 1; let y = 2; class C {}", {"results": 0}),
          ("const x = 5; let y = 3; class C {}\nx + y", {"text": "8"}), language="js"),
    one("js_error", "null.x", "js", error=lambda e: e[0] == "TypeError"),
    one("js_throw_no_error", "throw 5", "js", error=("Error", "5")),
    one("js_syntax_error", "(", "js", error=lambda e: e[0] == "SyntaxError"),
    one("js_late_error", "setTimeout(() => { throw new RangeError('late') }, 5); await new Promise(r => setTimeout(r, 100))",
        "js", error=("RangeError", "late")),
    one("js_rejection", "Promise.reject(new Error('r')); await new Promise(r => setTimeout(r, 50))", "js", error=("Error", "r")),
    one("js_display", "display({[Symbol.for('Jupyter.display')]: () => ({'text/html': '<b>'})}); 1", "js",
        keys=[["html"], ["text"]]),
    one("ts_types", 'interface P { a: number }\nconst message: string = "Hello World!"; console.log(message)', "ts",
        stdout=["Hello World!\n"]),
    one("ts_import", "import { readFileSync } from 'fs'; console.log(typeof readFileSync)", "ts", stdout=["function\n"]),
    one("ts_error", "const a: = 1", "ts", error=lambda e: e[0] == "SyntaxError"),
    one("js_cwd", "process.cwd()", "js", text=ends_with("/home")),
    one("ts_cwd", "process.cwd()", "ts", text=ends_with("/home")),
    one("bash_pwd", "pwd", "bash", stdout_all=ends_with("/home")),
    steps("bash_state", ("cd /; X=5; f() { echo in f; }", {"stdout": []}),
          ("pwd; echo $X; f", {"stdout_all": "/\n5\nin f\n"}), language="bash"),
    one("bash_multiline", "for i in 1 2; do\n  echo \"$i 'q'\" \\\n    x\ndone\ncat <<E\nhere\nE", "bash",
        stdout_all="1 'q' x\n2 'q' x\nhere\n"),
    one("bash_stderr", "nosuchprogram", "bash", stderr=lambda lines: "nosuchprogram" in "".join(lines)),
    one("bash_no_history", "echo hi!there !! '!x'", "bash", stdout_all="hi!there !! !x\n"),
    {"name": "bash_variables", "language": "bash", "steps": [
        {"code": "echo $FOO", "envs": {"FOO": "bar"}, "expect": {"stdout": ["bar\n"]}},
        {"code": "echo ${FOO:-default}", "expect": {"stdout": ["default\n"]}}]},
    # ---- results of libraries
    one("data_frame", "    import pandas as pd\n    pd.DataFrame({'a': [1, 2, 3]})", data={"a": [1, 2, 3]},
        keys=[["data", "html", "text"]]),
    one("data_frame_times", "import pandas as pd\npd.DataFrame({'t': pd.to_datetime(['2023-09-01', None]), 'v': [1.5, float('nan')],"
        " 5: ['x', None]})", data={"t": ["2023-09-01T00:00:00", None], "v": [1.5, None], "5": ["x", None]}),
    one("numpy_in_json", "import numpy as np\n{'a': np.float64(1.5), 'b': np.arange(3), 'c': np.float64('nan'), np.int64(1): np.bool_(True)}",
        result0=lambda r: r["json"] == {"a": 1.5, "b": [0, 1, 2], "c": None, "1": True}),
    one("plot_shown", PLOT + "plt.plot([1, 2], [3, 4])\nplt.show()",
        result0=lambda r: r["png"] and r["text"] and r["extra"] == {} and not r["is_main_result"] and r["chart"]["type"] == "line"),
    one("plot_shown_then_a_value", PLOT + "import numpy as np\nx = np.arange(3)\nplt.plot(x, x)\nplt.show()\nx", results=2),
    one("plot_left_open", PLOT + "plt.plot([1, 2], [3, 4])\nprint('before');", kinds=[
        "number_of_executions", "stdout", "result", "end_of_execution"]),
    one("figure_as_value", PLOT + "fig, ax = plt.subplots()\nax.plot([1, 2])\nplt.close(fig)\nfig",
        result0=lambda r: r["is_main_result"] and r["png"] and r["chart"]["type"] == "line"),
    one("pil_value", "from PIL import Image\nImage.new('RGB', (4, 4))", 
        result0=lambda r: r["is_main_result"] and r["png"] and r["text"]),
    one("pil_show_and_save", "from PIL import Image\nimage = Image.new('RGB', (4, 4))\nimage.show()\nimage.save('x.png')\n"
        "import io\nimage.save(io.BytesIO(), 'png')", keys=lambda k: len(k) == 2 and all("png" in names for names in k)),
    # ---- charts (section 8)
    chart("line", "plt.plot([1, 2.5], [3, 4], label='a')\nplt.plot([1, 2], [5, 6])\nplt.axhline(3.5)\nplt.grid(True)\n"
          "plt.title('T')\nplt.xlabel('Time (s)')\nplt.ylabel('Amplitude [Hz]')", type="line", title="T",
          elements=[{"label": "a", "points": [[1.0, 3.0], [2.5, 4.0]]}, {"label": "Line 1", "points": [[1.0, 5.0], [2.0, 6.0]]}],
          x_label="Time (s)", x_unit="s", y_unit="Hz", x_scale="linear", y_scale="linear",
          x_ticks=lambda t: all(isinstance(v, float) for v in t), x_tick_labels=lambda t: all(isinstance(v, str) for v in t)),
    one("chart_keys_of_line", PLOT + "plt.plot([1, 2])\nplt.show()", chart=keys(*ALWAYS, *AXES, *TICKS)),
    one("chart_keys_of_scatter", PLOT + "plt.scatter([1, 2], [1, 2])\nplt.show()", chart=keys(*ALWAYS, *AXES, *TICKS)),
    one("chart_keys_of_bar", PLOT + "plt.bar(['a'], [1])\nplt.show()", chart=keys(*ALWAYS, *AXES)),
    one("chart_keys_of_pie", PLOT + "plt.pie([1, 2])\nplt.show()", chart=keys(*ALWAYS)),
    one("chart_keys_of_box", PLOT + "plt.boxplot([[1, 2, 3]], patch_artist=True)\nplt.show()", chart=keys(*ALWAYS, *AXES)),
    chart("dates", "import datetime\nd = [datetime.date(2023, 9, 1), datetime.date(2023, 9, 2)]\nplt.plot(d, [0.0, 1.0], label='x')",
          x_scale="datetime", elements=[{"label": "x", "points": [["2023-09-01", 0.0], ["2023-09-02", 1.0]]}],
          x_ticks=lambda t: all(v.startswith("2023-0") for v in t), x_label=None, title=None),
    chart("numpy_dates", "import numpy as np\nplt.plot(np.array(['2023-09-01T10:00', '2023-09-01T11:00'], dtype='datetime64[ns]'), [1, 2])",
          elements=lambda e: [p[0] for p in e[0]["points"]] == ["2023-09-01T10:00:00", "2023-09-01T11:00:00"]),
    chart("categories", "plt.plot(['x', 'y', 'z'], [1, 2, 3])", x_scale="categorical",
          elements=lambda e: e[0]["points"][0] == ["x", 1.0]),
    chart("log", "plt.plot([1, 2], [10, 100])\nplt.yscale('log')", y_scale="log", x_scale="linear"),
    chart("scatter", "plt.scatter([0.1, 0.4], [0.7, 0.2], label='Dataset')\nplt.xlabel('A')", type="scatter", x_label="A", y_label=None,
          elements=[{"label": "Dataset", "points": [[0.1, 0.7], [0.4, 0.2]]}]),
    chart("bar", "plt.bar(['Author A', 'Author B'], [100, 200], label='Books Sold')\nplt.xlabel('Authors')\n"
          "plt.ylabel('Number of Books Sold')\nplt.title('Book Sales by Authors')", type="bar", title="Book Sales by Authors",
          x_label="Authors", elements=[{"label": "Author A", "group": "Books Sold", "value": 100.0},
                                       {"label": "Author B", "group": "Books Sold", "value": 200.0}]),
    chart("bar_lying", "plt.barh(['a', 'b'], [3, 5])\nplt.xlabel('n')\nplt.ylabel('who')", type="bar", x_label="who", y_label="n",
          elements=[{"label": "a", "group": "Group 0", "value": 3.0}, {"label": "b", "group": "Group 0", "value": 5.0}]),
    chart("bar_groups", "import numpy as np\nx = np.arange(2)\nplt.bar(x - 0.2, [1, 2], 0.4, label='m')\n"
          "plt.bar(x + 0.2, [3, 4], 0.4, label='n')\nplt.xticks(x, ['p', 'q'])", type="bar",
          elements=[{"label": "p", "group": "m", "value": 1.0}, {"label": "q", "group": "m", "value": 2.0},
                    {"label": "p", "group": "n", "value": 3.0}, {"label": "q", "group": "n", "value": 4.0}]),
    chart("pie", "plt.pie([90, 10], labels=['No', 'No, in blue'])\nplt.title('Will I wake up early tomorrow?')", type="pie",
          title="Will I wake up early tomorrow?",
          elements=lambda e: [(w["label"], w["angle"], w["radius"]) for w in e] == [("No", 324, 1), ("No, in blue", 36, 1)]),
    chart("box", "plt.boxplot([[70, 84, 85, 88, 90, 91, 95], [78, 85, 88, 90, 92]], patch_artist=True, tick_labels=['B', 'A'])\n"
          "plt.ylabel('Score')", type="box_and_whisker", y_label="Score",
          elements=lambda e: [b["label"] for b in e] == ["B", "A"] and e[1] == {"label": "A", "min": 78.0, "first_quartile": 85.0,
                                                            "median": 88.0, "third_quartile": 90.0, "max": 92.0, "outliers": []}
          and e[0]["outliers"] == [70.0] and e[0]["min"] == 84.0 and e[0]["max"] == 95.0),
    chart("box_lying", "plt.boxplot([[78, 85, 88, 90, 92]], patch_artist=True, orientation='horizontal', tick_labels=['A'])\n"
          "plt.xlabel('Score')", type="box_and_whisker", y_label="Score", elements=lambda e: e[0]["median"] == 88.0 and e[0]["label"] == "A"
          and (e[0]["min"], e[0]["first_quartile"], e[0]["third_quartile"], e[0]["max"]) == (78.0, 85.0, 90.0, 92.0)),
    chart("unknown", "plt.gca().add_patch(plt.Circle((0, 0), 1))\nplt.title('Two Concentric Circles')", type="unknown",
          title="Two Concentric Circles", elements=[]),
    chart("super", "fig, (a, b) = plt.subplots(1, 2)\na.plot([1, 2])\na.set_title('Sine Wave')\nb.scatter([1], [2])\n"
          "fig.suptitle('Multiple Charts Example')", type="superchart", title="Multiple Charts Example",
          elements=lambda e: [c["type"] for c in e] == ["line", "scatter"] and e[0]["title"] == "Sine Wave"),
    one("chart_of_nothing", PLOT + "plt.figure()\nplt.show()", results=lambda n: n >= 0,
        chart=lambda c: c in ({}, None)),
    one("chart_without_nan", PLOT + "plt.plot([1, float('nan')], [1, 2])\nplt.show()", chart=lambda c: c["elements"][0]["points"][1][0] is None),
]
