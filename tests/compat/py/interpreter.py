"""tests/compat/py/interpreter.py [TEMPLATE]: e2b-code-interpreter, unmodified, against the engine that the environment
names: every method that talks to the interpreter, sync and async."""
import asyncio
import os
import sys
import threading
import time
import urllib.error
import urllib.request

from checks import check, claim, equal, refused, run_all
from e2b import InvalidArgumentException, NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox

TEMPLATE = sys.argv[1] if len(sys.argv) > 1 else "host"
HOME = "/home/user"
sandbox = None


def text(code, **options):
    execution = sandbox.run_code(code, **options)
    claim(execution.error is None, execution.error)
    return execution.text


@check
def create():
    global sandbox
    sandbox = Sandbox.create(TEMPLATE, envs={"TEST_ENV_VAR": "supertest"}, secure=True,
                             network={"allow_public_traffic": False})


@check
def its_ports_want_the_traffic_token():
    def status(**more):
        asked = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + "/contexts", headers={
            "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999", **more})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    token = "E2B-Traffic-Access-Token"
    equal((status(), status(**{token: "guess"}), status(**{token: sandbox.traffic_access_token})), (403, 403, 200))


@check
def first_run():
    execution = sandbox.run_code("x =1; x")
    equal((execution.text, len(execution.results), execution.execution_count), ("1", 1, 1))
    claim(not execution.results[0].extra, execution.results[0].extra)


@check
def state():
    text("x = 1")
    equal(text("x += 1; x"), "2")


@check
def error():
    seen = []
    execution = sandbox.run_code("xyz", on_error=seen.append)
    equal((execution.error.name, execution.error.value), ("NameError", "name 'xyz' is not defined"))
    equal((len(seen), execution.results), (1, []))


@check
def callbacks():
    out, err, results = [], [], []
    execution = sandbox.run_code("import sys\nprint('hello')\nprint('m', file=sys.stderr)\n5", on_result=results.append,
                                 on_stdout=lambda m: out.append(m.line), on_stderr=lambda m: err.append(m.line))
    equal((out, err, [r.text for r in results]), (["hello\n"], ["m\n"], ["5"]))
    equal((execution.logs.stdout, execution.logs.stderr), (["hello\n"], ["m\n"]))


@check
def line_ends_of_unicode():
    odd = "h\u00e9\u2028\u2029\u0085\x0c\x0b\x1c\U0001f600"
    execution = sandbox.run_code(f"print({odd!r})\n{odd!r}")
    equal(execution.logs.stdout, [odd + "\n"])


@check
def envs():
    code = "import os; os.getenv('TEST_ENV_VAR')"
    equal((text(code), text(code, envs={"TEST_ENV_VAR": "overwrite"}), text(code)),
          ("supertest", "overwrite", "supertest"))


@check
def languages():
    equal(text("process.cwd()", language="js"), HOME)
    equal(sandbox.run_code("const m: string = 'Hello World!'; console.log(m)", language="ts").logs.stdout, ["Hello World!\n"])
    equal("".join(sandbox.run_code("pwd", language="bash").logs.stdout).strip(), HOME)
    equal("".join(sandbox.run_code("!pwd").logs.stdout).strip(), HOME)


@check
def no_r_and_java():
    refused(lambda: sandbox.run_code("1", language="r"), SandboxException, "501.*there is no r kernel")
    refused(lambda: sandbox.create_code_context(language="java"), SandboxException, "501")


@check
def contexts():
    text("only_here = 1")
    context = sandbox.create_code_context(cwd="/usr", language="python")
    equal((context.language, context.cwd), ("python", "/usr"))
    equal(sandbox.list_code_contexts()[-1].id, context.id)
    equal(sandbox.run_code("only_here", context=context).error.value, "name 'only_here' is not defined")
    equal(text("import os; y = 5; os.getcwd()", context=context), "/usr")
    sandbox.restart_code_context(context)
    after = sandbox.run_code("y", context=context)
    equal((after.error.value, after.execution_count), ("name 'y' is not defined", 1))
    sandbox.remove_code_context(context.id)
    claim(context.id not in [c.id for c in sandbox.list_code_contexts()], "it is still listed")
    refused(lambda: sandbox.run_code("1", context=context), NotFoundException)
    refused(lambda: sandbox.remove_code_context(context), NotFoundException)


@check
def context_and_language():
    context = sandbox.create_code_context(language="bash")
    refused(lambda: sandbox.run_code("1", context=context, language="python"), InvalidArgumentException)
    sandbox.remove_code_context(context)


@check
def bad_folder():
    refused(lambda: sandbox.create_code_context(cwd="/no/such/folder"), SandboxException, "500.*/no/such/folder")


@check
def timeout_interrupts():
    refused(lambda: sandbox.run_code("import time; time.sleep(300)", timeout=3), TimeoutException)
    time.sleep(2)
    equal(text("1 + 1", timeout=10), "2")
    equal(text("x"), "2")


@check
def large_output():
    execution = sandbox.run_code("display({'image/png': 'A' * (5 << 20)}, raw=True)")
    equal(len(execution.results[0].png), 5 << 20)


@check
def formats():
    execution = sandbox.run_code(r"display({'text/latex': r'\text{x}'}, raw=True)")
    equal(list(execution.results[0].formats()), ["latex"])


@check
def queue():
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(sandbox.run_code(f"import time; time.sleep(0.2); {n}").text))
               for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(sorted(answers), ["0", "1", "2", "3"])


@check
def connect():
    equal(Sandbox.connect(sandbox.sandbox_id).run_code("x").text, "2")


@check
def the_service_comes_back():
    """Killed, it is back by itself, with new contexts; what is asked meanwhile waits for it."""
    old = [c.id for c in sandbox.list_code_contexts()]
    sandbox.commands.run("kill -9 $(pgrep -x interpreter)", user="root")
    equal(sandbox.run_code("x").error.value, "name 'x' is not defined")
    new = [c.id for c in sandbox.list_code_contexts()]
    claim(not set(old) & set(new), (old, new))
    health = sandbox.commands.run("curl -s http://127.0.0.1:49999/health || true")
    equal(health.stdout, '"OK"')


@check
def asynchronous():
    async def go():
        made = await AsyncSandbox.create(TEMPLATE)
        try:
            lines = []
            execution = await made.run_code("print('a'); 6*7", on_stdout=lambda m: lines.append(m.line))
            equal((execution.text, lines), ("42", ["a\n"]))
            context = await made.create_code_context(language="js")
            equal((await made.run_code("1+1", context=context)).text, "2")
            await made.restart_code_context(context)
            equal((await made.list_code_contexts())[-1].id, context.id)
            await made.remove_code_context(context)
        finally:
            await made.kill()

    asyncio.run(go())


# Which checks drive what the package adds to the SDK: (of Sandbox, of AsyncSandbox); None: an attribute.
METHODS = {"run_code": (first_run, asynchronous), "create_code_context": (contexts, asynchronous), "list_code_contexts": (contexts, asynchronous),
           "remove_code_context": (contexts, asynchronous), "restart_code_context": (contexts, asynchronous), "default_template": None}


@check
def every_method_has_a_check():
    for cls in (Sandbox, AsyncSandbox):
        there = [n for n in vars(cls) if not n.startswith("_")]
        claim(len(there) >= 6, f"{there}")
        equal([n for n in there if n not in METHODS], [])


@check
def killed_while_running():
    made = Sandbox.create(TEMPLATE)
    threading.Timer(2, made.kill).start()
    refused(lambda: made.run_code("import time; time.sleep(60)"), TimeoutException, "killed")


if TEMPLATE == "code-interpreter-v1":
    @check
    def default_template():
        made = Sandbox.create()
        equal(made.run_code("6*7").text, "42")
        made.kill()

    @check
    def data_frame():
        execution = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2, 3]})")
        equal(execution.results[0].data, {"a": [1, 2, 3]})

    @check
    def chart():
        code = "import matplotlib.pyplot as plt\nplt.bar(['A', 'B'], [100, 300])\nplt.title('Sales')\nplt.show()"
        chart = sandbox.run_code(code).results[0].chart
        equal((chart.type.value, chart.title, [(e.label, e.value) for e in chart.elements]),
              ("bar", "Sales", [("A", 100.0), ("B", 300.0)]))

    @check
    def chart_with_chinese_japanese_and_korean_text():
        code = "import matplotlib.pyplot as plt\nplt.plot([-1, 2])\nplt.title('销售额 売上 매출')\nplt.show()"
        execution = sandbox.run_code(code)
        equal((execution.logs.stderr, execution.results[0].chart.title), ([], "销售额 売上 매출"))


@check
def kill():
    claim(sandbox.kill(), "it was not there")


run_all()
