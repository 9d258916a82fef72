"""bench/figure_exec.py: `exec` on a live sandbox: (a) argv `true` by Connect through edge, gateway and envd, 1 and 16 in
flight; (b) the JS SDK's `commands.run('true')`, which is `bash -l -c true`. The Go envd is a peer when ABX_BENCH_ENVD
names its binary. Peers of (b) spawn the same bash."""
import os
import subprocess
import tempfile
from contextlib import ExitStack

from figure_http import free_port, stop
from measure import BUILD, Skipped, alternate, percentile, program, until
from sandboxes import TRUE, Api, Runc, bwrap_command, running_engine, sdk, sdk_floor, spawned

BASH = ("/bin/bash", "-l", "-c", "true")
END = '"end"'


class Envd(Api):
    """A daemon on a port of its own, in no sandbox, with no hop before it."""

    def __init__(self, stack, command):
        self.host, self.port = "127.0.0.1", free_port()
        self.top = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-"))
        process = subprocess.Popen([part.format(port=self.port) for part in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.top})
        stack.callback(stop, process)
        self.pid = process.pid
        health = self.request_file("GET", "/health", {}, b"")
        until(lambda: self.answers(health), command[0])
        self.request = self.start_request({"sandboxID": "x"}, TRUE, user=b"root")

    def answers(self, request):
        try:
            return self.load(request, 1, 1, 204)
        except AssertionError:
            return None


def go_envd(stack):
    binary = os.environ.get("ABX_BENCH_ENVD")
    if not binary or not os.path.exists(binary):
        raise Skipped("ABX_BENCH_ENVD names no Go envd")
    return Envd(stack, [binary, "-isnotfc", "-port", "{port}"])


def run_alone(plan, report):
    """`envd`: what `exec` (a) is without edge and gateway: the daemon alone, beside the Go one."""
    guest = os.path.join(BUILD, "bin/abx-guest")
    if not os.path.exists(guest):
        raise Skipped(f"{guest} is not built")
    with ExitStack() as stack:
        ours, count, go = Envd(stack, [guest, "envd", "--port", "{port}"]), plan.count(200), []

        def theirs():
            if not go:
                go.append(go_envd(stack))
            return go[0]

        rounds = alternate(plan, {
            "envd": lambda: [us / 1000 for us in ours.load(ours.request, count, 1, 200, END)[0]],
            "Go envd": lambda: [us / 1000 for us in theirs().load(theirs().request, count, 1, 200, END)[0]],
            "posix_spawn": lambda: spawned(count, TRUE)})
        report.compare("envd alone, argv true p50", "ms", rounds, "envd")
        report.compare("envd alone, argv true p95", "ms", rounds, "envd", pick=lambda r: percentile(r, 0.95))
        rates = alternate(plan, {
            "envd": lambda: [ours.load(ours.request, count * 2, 16, 200, END)[1]],
            "Go envd": lambda: [theirs().load(theirs().request, count * 2, 16, 200, END)[1]],
            "posix_spawn": lambda: [program("spawn", count * 2, 16, TRUE)[1]]})
        report.compare("envd alone, 16 in flight", "per second", rates, "envd")


def run(plan, report):
    with ExitStack() as stack:
        engine, api = stack.enter_context(running_engine())
        top = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-"))
        sandbox = api.create(api.create_request(), 1)[1][0]
        request = api.start_request(sandbox, TRUE)
        count, cached = plan.count(200), {}

        def once(name, make):
            if name not in cached:
                cached[name] = make()
            return cached[name]

        def theirs(at_once):
            go = once("go", lambda: go_envd(stack))
            return go.load(go.request, count, at_once, 200, END)

        def runc_exec(argv, n, at_once=1):
            runc = once("runc", lambda: Runc(top))
            name = once("runc name", lambda: stack.enter_context(runc.running()))
            return spawned(n, *runc.command("exec", name, *argv), at_once=at_once)

        few = plan.count(40)
        rounds = alternate(plan, {
            "envd": lambda: [us / 1000 for us in api.load(request, count, 1, 200, END)[0]],
            "Go envd": lambda: [us / 1000 for us in theirs(1)[0]],
            "runc exec": lambda: runc_exec([TRUE], few),
            "bwrap": lambda: spawned(few, *bwrap_command(TRUE)),
            "posix_spawn": lambda: spawned(count, TRUE)})
        report.compare("exec (a) argv true p50", "ms", rounds, "envd")
        report.compare("exec (a) argv true p95", "ms", rounds, "envd", pick=lambda r: percentile(r, 0.95))

        rates = alternate(plan, {
            "envd": lambda: [api.load(request, count * 2, 16, 200, END)[1]],
            "Go envd": lambda: [theirs(16)[1]],
            "posix_spawn": lambda: [program("spawn", count * 2, 16, TRUE)[1]]})
        report.compare("exec (a) 16 in flight", "per second", rates, "envd")

        rounds = alternate(plan, {
            "sdk": lambda: sdk(engine, "exec", few),
            "SDK, answers at once": lambda: sdk_floor("exec", few),
            "runc exec": lambda: runc_exec(BASH, few),
            "posix_spawn": lambda: spawned(few, *BASH)})
        report.compare("exec (b) SDK commands.run p50", "ms", rounds, "sdk", "the same bash -l -c true")
        report.compare("exec (b) SDK commands.run p95", "ms", rounds, "sdk", pick=lambda r: percentile(r, 0.95))
        api.kill(sandbox)
