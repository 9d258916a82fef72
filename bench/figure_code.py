"""bench/figure_code.py: `code`: the first cell `1+1` of a code interpreter that has just started, and a hundred more.
The peer is an IPython kernel driven by `jupyter_client`, when ABX_BENCH_JUPYTER names a Python that has `ipykernel`; ours
then runs the same Python, else that of tests/interpreter. Beside it ours without IPython, which the peer can not be."""
import http.client
import json
import os
import subprocess
import tempfile
import time
from contextlib import contextmanager

from figure_http import free_port, stop
from measure import BUILD, ROOT, Skipped, alternate, until

BODY = json.dumps({"code": "1+1"})
PEER = """
import sys, time
from jupyter_client import KernelManager
count = int(sys.argv[1])
times = []
began = time.monotonic()
manager = KernelManager(kernel_name='python3')
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
def run():
    client.execute('1+1')
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message['msg_type'] == 'status' and message['content']['execution_state'] == 'idle':
            if message['parent_header'].get('msg_type') == 'execute_request':
                return
for n in range(count + 1):
    run()
    times.append((time.monotonic() - began) * 1000)
    began = time.monotonic()
manager.shutdown_kernel(now=True)
print(*times)
"""


def jupyter():
    python = os.environ.get("ABX_BENCH_JUPYTER")
    if not python or not os.path.exists(python):
        raise Skipped("ABX_BENCH_JUPYTER names no Python with ipykernel")
    return python


def with_ipython():
    python = os.environ.get("ABX_BENCH_JUPYTER") or f"{ROOT}/build/deps/kernel/bin/python"
    if not os.path.exists(python):
        raise Skipped(f"{python} is not there (tools/setup)")
    return os.path.dirname(python)


@contextmanager
def interpreter(folder):
    """The service with the Python of @folder; it is up, no kernel is."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="abx-bench-") as home:
        process = subprocess.Popen([os.path.join(BUILD, "bin/abx-guest"), "sandbox-code-interpreter", "--port", str(port), "--cwd", home],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "HOME": home, "PATH": f"{folder}:/usr/bin:/bin"})
        try:
            until(lambda: answers(port), "the interpreter")
            yield port
        finally:
            stop(process)


def answers(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def ours(folder, count):
    times = []
    with interpreter(folder) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(count + 1):
            began = time.monotonic()
            connection.request("POST", "/execute", BODY)
            text = connection.getresponse().read()
            times.append((time.monotonic() - began) * 1000)
            assert b'"text": "2"' in text and b"end_of_execution" in text, text
        connection.close()
    return times


def peer(count):
    done = subprocess.run([jupyter(), "-c", PEER, str(count)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return [float(word) for word in done.stdout.split()]


def run(plan, report):
    count = plan.count(100)
    rounds = alternate(plan, {
        "interpreter": lambda: ours(with_ipython(), count),
        "jupyter_client": lambda: peer(count),
        "interpreter, no IPython": lambda: ours(f"{ROOT}/build/deps/py/bin", count)})
    report.compare("code: first cell 1+1", "ms", {name: [r[:1] for r in kept] for name, kept in rounds.items()}, "interpreter",
                   "the start of the kernel is in it")
    report.compare("code: second cell 1+1 at once", "ms", {name: [r[1:2] for r in kept] for name, kept in rounds.items()}, "interpreter",
                   "ours imports IPython between the two")
    report.compare("code: a later cell 1+1 p50", "ms", {name: [r[2:] for r in kept] for name, kept in rounds.items()}, "interpreter")
