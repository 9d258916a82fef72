"""bench/figure_exec.py: `exec` on a live sandbox: (a) argv `true` by Connect through edge, gateway and envd, 1 and 16 in
flight; (b) the JS SDK's `commands.run('true')`, which is `bash -l -c true`. The Go envd is a peer when ABX_BENCH_ENVD
names its binary. Peers of (b) spawn the same bash."""
import os
import subprocess
import tempfile
from contextlib import ExitStack

from figure_http import free_port, stop
from measure import Skipped, alternate, percentile, program, until
from sandboxes import TRUE, Api, Runc, bwrap_command, running_engine, sdk, spawned

BASH = ("/bin/bash", "-l", "-c", "true")
END = '"end"'


class GoEnvd(Api):
    """The published daemon on a port of its own, in no sandbox."""

    def __init__(self, stack, top):
        binary = os.environ.get("ABX_BENCH_ENVD")
        if not binary or not os.path.exists(binary):
            raise Skipped("ABX_BENCH_ENVD names no Go envd")
        self.host, self.port, self.top = "127.0.0.1", free_port(), top
        process = subprocess.Popen([binary, "-isnotfc", "-port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(stop, process)
        health = self.request_file("GET", "/health", {}, b"")
        until(lambda: self.answers(health), "Go envd")

    def answers(self, request):
        try:
            return self.load(request, 1, 1, 204)
        except AssertionError:
            return None


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

        def go_envd(at_once):
            go = once("go", lambda: GoEnvd(stack, stack.enter_context(tempfile.TemporaryDirectory())))
            return go.load(once("go request", lambda: go.start_request({"sandboxID": "x"}, TRUE)), count, at_once, 200, END)

        def runc_exec(argv, n, at_once=1):
            runc = once("runc", lambda: Runc(top))
            name = once("runc name", lambda: stack.enter_context(runc.running()))
            return spawned(n, *runc.command("exec", name, *argv), at_once=at_once)

        few = plan.count(40)
        rounds = alternate(plan, {
            "envd": lambda: [us / 1000 for us in api.load(request, count, 1, 200, END)[0]],
            "Go envd": lambda: [us / 1000 for us in go_envd(1)[0]],
            "runc exec": lambda: runc_exec([TRUE], few),
            "bwrap": lambda: spawned(few, *bwrap_command(TRUE)),
            "posix_spawn": lambda: spawned(count, TRUE)})
        report.compare("exec (a) argv true p50", "ms", rounds, "envd")
        report.compare("exec (a) argv true p95", "ms", rounds, "envd", pick=lambda r: percentile(r, 0.95))

        rates = alternate(plan, {
            "envd": lambda: [api.load(request, count * 2, 16, 200, END)[1]],
            "Go envd": lambda: [go_envd(16)[1]],
            "posix_spawn": lambda: [program("spawn", count * 2, 16, TRUE)[1]]})
        report.compare("exec (a) 16 in flight", "per second", rates, "envd")

        rounds = alternate(plan, {
            "sdk": lambda: sdk(engine, "exec", few),
            "runc exec": lambda: runc_exec(BASH, few),
            "posix_spawn": lambda: spawned(few, *BASH)})
        report.compare("exec (b) SDK commands.run p50", "ms", rounds, "sdk", "the same bash -l -c true")
        report.compare("exec (b) SDK commands.run p95", "ms", rounds, "sdk", pick=lambda r: percentile(r, 0.95))
        api.kill(sandbox)
