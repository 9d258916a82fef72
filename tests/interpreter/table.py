"""tests/interpreter/table.py: the conformance table of the protocol (section 12), and rich results. Each row runs its
steps in one fresh context; `expect` names claims of run's CLAIMS, a value or a function of the value."""

BOTH = ("ipython", "plain")


def one(name, code, language="python", pythons=("ipython",), envs=None, **expect):
    return {"name": name, "language": language, "pythons": pythons,
            "steps": [{"code": code, "envs": envs, "expect": expect}]}


def steps(name, *rows, language="python", pythons=("ipython",)):
    return {"name": name, "language": language, "pythons": pythons,
            "steps": [{"code": code, "expect": expect} for code, expect in rows]}


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
]
