"""bench/figure_http.py: `http`: lib/http's smallest server against nginx `return` and node:http; then agent-sandbox-server's
policed `GET /files/stat` with token, policy and audit on against them and the published Python server.

CPU per request and requests per second by wrk, at 1, 16 and 256 kept-alive connections and at 16 with
`Connection: close`. CPU is that of the server's process, so the load generator does not count."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from measure import BUILD, NODE, PROGRAMS, ROOT, Skipped, alternate, cpu_seconds, until

CASES = [("keep-alive 1", 1, []), ("keep-alive 16", 16, []), ("keep-alive 256", 256, []), ("close 16", 16, ["-H", "Connection: close"])]
NGINX = """daemon off; worker_processes 1; pid {top}/pid; error_log {top}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {top}; proxy_temp_path {top};
fastcgi_temp_path {top}; uwsgi_temp_path {top}; scgi_temp_path {top};
upstream up {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}
server {{ listen 127.0.0.1:{port} backlog=4096; location = {path} {{ {action} }} }} }}
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


def start_nginx(stack, action="return 204;", upstream=1, path="/health"):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not nginx:
        raise Skipped("nginx is not installed")
    top = stack.enter_context(tempfile.TemporaryDirectory())
    os.chmod(top, 0o755)
    port = free_port()
    with open(f"{top}/conf", "w") as f:
        f.write(NGINX.format(top=top, port=port, action=action, upstream=upstream, path=path))
    process = subprocess.Popen([nginx, "-c", f"{top}/conf", "-p", top], stderr=subprocess.DEVNULL)
    stack.callback(stop, process)
    return until(lambda: children(process.pid), "nginx worker")[0], port


def start_node(stack, program=NODE_SERVER):
    if not NODE:
        raise Skipped("node is not installed")
    return start_printing_port(stack, [NODE, "-e", program])


def load(pids, port, connections, headers, seconds, path="/health"):
    """One burst of wrk: (microseconds of the servers' CPU per request, requests per second)."""
    pids = pids if isinstance(pids, tuple) else (pids,)
    before = sum(map(cpu_seconds, pids))
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *headers, f"http://127.0.0.1:{port}{path}"],
                          capture_output=True, text=True, timeout=seconds + 30)
    used = sum(map(cpu_seconds, pids)) - before
    requests = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", done.stdout).group(1))
    if "Non-2xx" in done.stdout:
        raise AssertionError(done.stdout)
    return used / requests * 1e6, rate


TOKEN = "bench-token-of-thirty-two-bytes-0"
STAT = "/files/stat?path=file.txt"
POLICY = {"version": 1, "auth": {"tokens": [{"id": "bench", "token_env": "BENCH_TOKEN", "scopes": ["files:read"]}]},
          "endpoints": {"files_stat": {"audit": "all", "paths": {"deny": ["*.key"]}}}}
# What a server that does none of it answers: as many bytes.
PLAIN = json.dumps({"exists": True, "path": "file.txt", "type": "file", "size": 5, "modified": 1700000000.0, "mode": "0o644"})
NODE_JSON = f"""const body = {PLAIN!r}; const s = require('http').createServer((q, r) => {{ r.setHeader('Content-Type', 'application/json');
r.end(body) }}); s.listen(0, '127.0.0.1', 4096, () => console.log(s.address().port))"""


def start_server(stack, command, has_lines):
    """agent-sandbox-server, ours or the published one, with a token, a policy and the audit of every call: (pid, port).
    @has_lines: the audit goes to stderr; the published one hands it to a logger that nobody reads."""
    top = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-"))
    port, pty = free_port(), free_port()
    with open(f"{top}/file.txt", "w") as f:
        f.write("text\n")
    with open(f"{top}/policy.json", "w") as f:
        json.dump({**POLICY, "base_dir": top}, f)
    env = {"PATH": os.environ["PATH"], "HOME": top, "LANG": "C.UTF-8", "BENCH_TOKEN": TOKEN, "ABX_PTY_PORT": str(pty)}
    log = stack.enter_context(open(f"{top}/log", "w"))  # where the audit's lines go
    process = subprocess.Popen([*command, "serve", "--host", "127.0.0.1", "--port", str(port), "--policy", f"{top}/policy.json"],
                               env=env, cwd=top, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    stack.callback(stop, process)

    def answers():
        assert process.poll() is None, f"{command[0]} ended: {open(f'{top}/log').read()[-500:]}"
        url = f"http://127.0.0.1:{port}{STAT}"
        done = subprocess.run(["curl", "-s", "-o", f"{top}/said", "-w", "%{http_code}", "-H", f"Authorization: Bearer {TOKEN}", url],
                              capture_output=True, text=True, timeout=10)
        return done.stdout == "200"

    until(answers, f"{command[0]} serves {STAT}")
    refused = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{port}{STAT}"],
                             capture_output=True, text=True, timeout=10)
    assert refused.stdout in ("401", "403"), f"{command[0]} asks for no token: {refused.stdout}"
    if has_lines:
        until(lambda: "files_stat" in open(f"{top}/log").read(), f"{command[0]} writes the audit's lines")
    return process.pid, port


def published_server():
    found = sorted(glob.glob(os.path.join(ROOT, "build/deps/oracle/agent-sandbox-server-*/bin/agent-sandbox-server")))
    if not found:
        raise Skipped("the published server is not there: run make setup")
    return found[-1]


def compare_bursts(plan, report, running, ours, name, cases, path="/health"):
    """@running: {subject: (pid, port, headers)}; the figures of each case."""
    seconds = 1 if plan.is_smoke else 2
    for case, connections, headers in cases[:1] if plan.is_smoke else cases:
        subjects = {who: lambda pid=pid, port=port, more=more: [load(pid, port, connections, headers + more, seconds, path)]
                    for who, (pid, port, more) in running.items()}
        rounds = alternate(plan, subjects)
        for kind, unit, column, note in (("cpu", "us/request", 0, ""),
                                         ("rate", "requests/s", 1, "one wrk thread; both share the machine's cores")):
            samples = {who: [[sample[column] for sample in r] for r in rs] for who, rs in rounds.items()}
            report.compare(f"{name} {kind}, {case}", unit, samples, ours, note)


def run_policed(plan, report):
    """The published server closes after each answer: its figures are those of a connection a request in every case."""
    bearer = ["-H", f"Authorization: Bearer {TOKEN}"]
    action = f"default_type application/json; return 200 '{PLAIN}';"
    with ExitStack() as stack:
        servers = {"agent-sandbox-server": lambda: (*start_server(stack, [os.path.join(BUILD, "bin/agent-sandbox-server")], True), bearer),
                   "nginx return": lambda: (*start_nginx(stack, action, path="/files/stat"), []),
                   "node:http": lambda: (*start_node(stack, NODE_JSON), []),
                   "published server": lambda: (*start_server(stack, [published_server()], False), bearer)}
        running = {}
        for name, start in servers.items():
            try:
                running[name] = start()
            except Skipped as reason:
                print(f"skipped: {name}: {reason}", file=sys.stderr)
        compare_bursts(plan, report, running, "agent-sandbox-server", "http policed", CASES, STAT)


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
        running = {name: (*at, []) for name, at in running.items()}
        compare_bursts(plan, report, running, "lib/http", "http", CASES)
    run_policed(plan, report)
