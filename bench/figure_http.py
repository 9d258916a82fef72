"""bench/figure_http.py: `http`: lib/http's smallest server against nginx `return` and node:http.

CPU per request and requests per second of `GET /health` -> 204 by wrk, at 1, 16 and 256 kept-alive connections and
at 16 with `Connection: close`. CPU is that of the server's process (schedstat), so the load generator does not count."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from measure import NODE, PROGRAMS, Skipped, alternate, cpu_seconds, until

CASES = [("keep-alive 1", 1, []), ("keep-alive 16", 16, []), ("keep-alive 256", 256, []), ("close 16", 16, ["-H", "Connection: close"])]
NGINX = """daemon off; worker_processes 1; pid {top}/pid; error_log {top}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {top}; proxy_temp_path {top};
fastcgi_temp_path {top}; uwsgi_temp_path {top}; scgi_temp_path {top};
upstream up {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}
server {{ listen 127.0.0.1:{port} backlog=4096; location = /health {{ {action} }} }} }}
"""
PASS = 'proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
NODE_SERVER = """const s = require('http').createServer((q, r) => { r.statusCode = 204; r.end() });
s.listen(0, '127.0.0.1', 4096, () => console.log(s.address().port))"""


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stop(process):
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start_printing_port(stack, command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    stack.callback(stop, process)
    return process.pid, int(process.stdout.readline())


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(p) for p in f.read().split()]


def start_nginx(stack, action="return 204;", upstream=1):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not nginx:
        raise Skipped("nginx is not installed")
    top = stack.enter_context(tempfile.TemporaryDirectory())
    os.chmod(top, 0o755)
    port = free_port()
    with open(f"{top}/conf", "w") as f:
        f.write(NGINX.format(top=top, port=port, action=action, upstream=upstream))
    process = subprocess.Popen([nginx, "-c", f"{top}/conf", "-p", top], stderr=subprocess.DEVNULL)
    stack.callback(stop, process)
    return until(lambda: children(process.pid), "nginx worker")[0], port


def start_node(stack):
    if not NODE:
        raise Skipped("node is not installed")
    return start_printing_port(stack, [NODE, "-e", NODE_SERVER])


def load(pids, port, connections, headers, seconds):
    """One burst of wrk: (microseconds of the servers' CPU per request, requests per second)."""
    pids = pids if isinstance(pids, tuple) else (pids,)
    before = sum(map(cpu_seconds, pids))
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *headers, f"http://127.0.0.1:{port}/health"],
                          capture_output=True, text=True, timeout=seconds + 30)
    used = sum(map(cpu_seconds, pids)) - before
    requests = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", done.stdout).group(1))
    if "Non-2xx" in done.stdout:
        raise AssertionError(done.stdout)
    return used / requests * 1e6, rate


def two_hops(stack, start_hop, port):
    """A chain of two proxies before @port: (their pids, the outer port)."""
    inner, port = start_hop(port)
    outer, port = start_hop(port)
    return (inner, outer), port


def run_proxy(plan, report):
    """`proxy` without sandboxes: GET through two hops of lib/http, as edge and gateway are, to an nginx."""
    if not shutil.which("wrk"):
        raise Skipped("wrk is not installed")
    with ExitStack() as stack:
        _, origin = start_nginx(stack)
        hop = os.path.join(PROGRAMS, "http_proxy")
        chains = {"lib/http": two_hops(stack, lambda port: start_printing_port(stack, [hop, str(port)]), origin),
                  "nginx proxy_pass": two_hops(stack, lambda port: start_nginx(stack, PASS, port), origin)}
        seconds = 1 if plan.is_smoke else 2
        for case, connections, headers in CASES[:1] if plan.is_smoke else CASES[:2]:
            rounds = alternate(plan, {name: lambda at=at: [load(*at, connections, headers, seconds)] for name, at in chains.items()})
            for kind, unit, column in (("cpu", "us/request", 0), ("rate", "requests/s", 1)):
                samples = {name: [[sample[column] for sample in r] for r in rs] for name, rs in rounds.items()}
                report.compare(f"proxy twice {kind}, {case}", unit, samples, "lib/http", "both hops")


def run(plan, report):
    if not shutil.which("wrk"):
        raise Skipped("wrk is not installed")
    with ExitStack() as stack:
        servers = {"lib/http": lambda: start_printing_port(stack, [os.path.join(PROGRAMS, "http_server")]),
                   "nginx return": lambda: start_nginx(stack), "node:http": lambda: start_node(stack)}
        running = {}
        for name, start in servers.items():
            try:
                running[name] = start()
            except Skipped as reason:
                print(f"skipped: {name}: {reason}", file=sys.stderr)
        seconds = 1 if plan.is_smoke else 2
        for case, connections, headers in CASES[:1] if plan.is_smoke else CASES:
            rounds = alternate(plan, {name: lambda at=at: [load(*at, connections, headers, seconds)] for name, at in running.items()})
            cpu = {name: [[cpu for cpu, _ in r] for r in rs] for name, rs in rounds.items()}
            rate = {name: [[rate for _, rate in r] for r in rs] for name, rs in rounds.items()}
            report.compare(f"http cpu, {case}", "us/request", cpu, "lib/http")
            report.compare(f"http rate, {case}", "requests/s", rate, "lib/http", "one wrk thread; both share the machine's cores")
