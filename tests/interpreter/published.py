"""tests/interpreter/published.py: the code interpreter of the published client (agent-sandbox-client), unmodified, by its
debug way: http://localhost:49999, no engine. Started by tests/interpreter/published in a network namespace of its own."""
import asyncio

from agent_sandbox.code_interpreter import AsyncSandbox, Sandbox


def equal(got, wanted):
    assert got == wanted, f"got {got!r:.300}, wanted {wanted!r:.300}"


def check_sync():
    sandbox = Sandbox.create(debug=True)
    execution = sandbox.run_code("x =1; x")
    equal((execution.text, execution.execution_count), ("1", 1))
    equal(sandbox.run_code("print('h\u00e9\u2028'); 1/0").error.name, "ZeroDivisionError")
    equal(sandbox.run_code("print('h\u00e9\u2028')").logs.stdout, ["h\u00e9\u2028\n"])
    equal(sandbox.run_code("process.version.length > 3", language="js").text, "true")
    equal(sandbox.run_code("echo $A", language="bash", envs={"A": "b"}).logs.stdout, ["b\n"])
    context = sandbox.create_code_context(language="python", cwd="/usr")
    equal(sandbox.run_code("import os; os.getcwd()", context=context).text, "/usr")
    equal(sandbox.run_code("x", context=context).error.value, "name 'x' is not defined")
    listed = getattr(sandbox, "list_code_contexts", None)
    if listed is not None:
        equal(listed()[-1].id, context.id)
        sandbox.restart_code_context(context)
        sandbox.remove_code_context(context)
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2], label='l')\nplt.title('T')\nplt.show()"
    chart = sandbox.run_code(code).results[0].chart
    equal((chart.type.value, chart.title, chart.elements[0].label), ("line", "T", "l"))
    equal(sandbox.run_code("import pandas as pd; pd.DataFrame({'a': [1, 2]})").results[0].data, {"a": [1, 2]})


async def check_async():
    sandbox = await AsyncSandbox.create(debug=True)
    lines = []
    execution = await sandbox.run_code("print('a'); 6*7", on_stdout=lambda m: lines.append(m.line))
    equal((execution.text, lines), ("42", ["a\n"]))


check_sync()
asyncio.run(check_async())
print("published client: ok")
