"""bench/figure_proxy.py: `proxy`: GET through two hops of lib/http, as edge and gateway are, to an nginx; and through the
edge and gateway of a live sandbox to the same nginx run in it, which stands in another network namespace. Peers: nginx twice."""
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack

from figure_http import CASES, NGINX, PASS, load, start_nginx, start_printing_port, stop
from measure import PROGRAMS, Skipped, alternate, until
from sandboxes import running_engine

IN_SANDBOX = 8080


def two_hops(stack, start_hop, port):
    """A chain of two proxies before @port: (their pids, the outer port)."""
    inner, port = start_hop(port)
    outer, port = start_hop(port)
    return (inner, outer), port


def wrk(port, connections, seconds, headers=()):
    """(requests per second, median latency in us)"""
    words = [word for header in headers for word in ("-H", header)]
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *words, f"http://127.0.0.1:{port}/health"],
                          capture_output=True, text=True, timeout=seconds + 30)
    if "Non-2xx" in done.stdout:
        raise AssertionError(done.stdout)
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", done.stdout).groups()
    return float(re.search(r"Requests/sec:\s*([\d.]+)", done.stdout).group(1)), float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def nginx_in_sandbox(stack, engine, api):
    """An nginx of the host run in a sandbox `host`: the headers that reach it."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    sandbox = api.create(api.create_request(), 1)[1][0]["sandboxID"]
    conf = NGINX.format(top="/tmp", port=IN_SANDBOX, action="return 204;", upstream=1, path="/health")
    with tempfile.NamedTemporaryFile("w", prefix="abx-bench-") as f:
        f.write(conf)
        f.flush()
        engine.abx("cp", f.name, f"{sandbox}:/tmp/conf")
    process = subprocess.Popen(["abx", "exec", "--timeout-ms", "0", sandbox, "--", nginx, "-c", "/tmp/conf", "-p", "/tmp"],
                               env={**engine.base, **engine.env}, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(stop, process)
    headers = [f"E2b-Sandbox-Id: {sandbox}", f"E2b-Sandbox-Port: {IN_SANDBOX}"]

    def answers():
        words = [word for header in headers for word in ("-H", header)]
        done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *words, f"http://{api.host}:{api.port}/health"],
                              capture_output=True, text=True, timeout=10)
        return done.stdout == "204"
    until(answers, "nginx in a sandbox")
    return headers


def run_hops(plan, report, seconds):
    with ExitStack() as stack:
        _, origin = start_nginx(stack)
        hop = os.path.join(PROGRAMS, "http_proxy")
        chains = {"lib/http": two_hops(stack, lambda port: start_printing_port(stack, [hop, str(port)]), origin),
                  "nginx proxy_pass": two_hops(stack, lambda port: start_nginx(stack, PASS, port), origin)}
        for case, connections, headers in CASES[:1] if plan.is_smoke else CASES[:2]:
            rounds = alternate(plan, {name: lambda at=at: [load(*at, connections, headers, seconds)] for name, at in chains.items()})
            for kind, unit, column in (("cpu", "us/request", 0), ("rate", "requests/s", 1)):
                samples = {name: [[sample[column] for sample in r] for r in rs] for name, rs in rounds.items()}
                report.compare(f"proxy twice {kind}, {case}", unit, samples, "lib/http", "both hops")


def run_sandbox(plan, report, seconds):
    with ExitStack() as stack:
        engine, api = stack.enter_context(running_engine())
        headers = nginx_in_sandbox(stack, engine, api)
        _, origin = start_nginx(stack)
        _, outer = two_hops(stack, lambda port: start_nginx(stack, PASS, port), origin)
        for connections in (1,) if plan.is_smoke else (1, 16):
            rounds = alternate(plan, {"sandbox": lambda: [wrk(api.port, connections, seconds, headers)],
                                      "nginx proxy_pass twice": lambda: [wrk(outer, connections, seconds)],
                                      "nginx itself": lambda: [wrk(origin, connections, seconds)]})
            for kind, unit, column in (("rate", "requests/s", 0), ("latency p50", "us", 1)):
                samples = {name: [[sample[column] for sample in r] for r in rs] for name, rs in rounds.items()}
                report.compare(f"proxy to a sandbox, {kind}, {connections} in flight", unit, samples, "sandbox")


def run(plan, report):
    if not shutil.which("wrk"):
        raise Skipped("wrk is not installed")
    seconds = 1 if plan.is_smoke else 2
    run_hops(plan, report, seconds)
    run_sandbox(plan, report, seconds)
