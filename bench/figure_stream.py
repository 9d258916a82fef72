"""bench/figure_stream.py: `stream`, `files`, `pty`: bytes through envd alone, with curl as the client of everybody.

`stream`: output of a child by Connect, JSON and protobuf; `files`: one large file up and down, and a listing; `pty`: a key
and its echo, a terminal opened and closed. The Go envd is a peer of all when ABX_BENCH_ENVD names its binary."""
import base64
import os
import pty
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack

from figure_exec import go_envd, Envd
from figure_http import free_port, stop
from measure import BUILD, Skipped, alternate, until
from sandboxes import envelope

GUEST = os.path.join(BUILD, "bin/abx-guest")
MIB, ENTRIES = 1 << 20, 10_000
NGINX = """daemon off; worker_processes 1; pid {top}/pid; error_log {top}/error.log; user root;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {top}; proxy_temp_path {top}; fastcgi_temp_path {top}; uwsgi_temp_path {top};
scgi_temp_path {top}; client_max_body_size 0; sendfile on;
server {{ listen 127.0.0.1:{port}; root {top}; dav_methods PUT; }} }}"""


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            raise Skipped(f"{name} is not installed")
    if not os.path.exists(GUEST):
        raise Skipped(f"{GUEST} is not built")


def daemons(stack):
    """(ours, theirs): an envd of ours, and what gives the Go one or says that it is not there."""
    found = []

    def theirs():
        if not found:
            found.append(go_envd(stack))
        return found[0]
    return Envd(stack, [GUEST, "envd", "--port", "{port}"]), theirs


def curl(*arguments):
    """Seconds of one exchange; the status must be 2xx."""
    done = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", "-H", "Expect:", *arguments],
                          capture_output=True, text=True, timeout=300)
    if not re.match(r"2\d\d ", done.stdout):
        raise AssertionError(f"curl {arguments[-1]}: {done.stdout} {done.stderr}")
    return float(done.stdout.split()[1])


def peak_kib(daemon):
    with open(f"/proc/{daemon.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))


def base_of(daemon):
    return f"http://{daemon.host}:{daemon.port}"


def proto(field, data):
    """A length-delimited field of protobuf."""
    size, head = len(data), bytes([field << 3 | 2])
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + data


def start_body(is_json, command):
    if is_json:
        return envelope({"process": {"cmd": "/bin/sh", "args": ["-c", command]}, "stdin": False})
    payload = proto(1, proto(1, b"/bin/sh") + proto(2, b"-c") + proto(2, command.encode()))
    return b"\0" + len(payload).to_bytes(4, "big") + payload


def run_stream(plan, report):
    need("curl")
    size = plan.count(1024) * MIB
    with ExitStack() as stack:
        ours, theirs = daemons(stack)
        top = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-"))
        command = f"head -c {size} /dev/zero"

        def through(daemon, is_json):
            body = os.path.join(top, f"start-{is_json}")
            with open(body, "wb") as f:
                f.write(start_body(is_json, command))
            kind = "json" if is_json else "proto"
            return [size / MIB / curl("-X", "POST", "-H", f"Content-Type: application/connect+{kind}", "--data-binary", f"@{body}",
                                      f"{base_of(daemon)}/process.Process/Start")]

        def socat():
            need("socat")
            began = time.monotonic()
            subprocess.run(["socat", "-u", f"EXEC:{command}", "OPEN:/dev/null"], check=True, timeout=300)
            return [size / MIB / (time.monotonic() - began)]
        for kind, is_json in (("JSON", True), ("protobuf", False)):
            rounds = alternate(plan, {"envd": lambda: through(ours, is_json), "Go envd": lambda: through(theirs(), is_json), "socat": socat})
            report.compare(f"stream {kind}", "MiB/s", rounds, "envd", "of the child's bytes; curl reads")
        report.figure("stream peak memory", peak_kib(ours) / 1024, "MiB", 1, note="VmHWM of envd after both")


def start_nginx(stack):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not nginx:
        raise Skipped("nginx is not installed")
    top, port = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-")), free_port()
    with open(f"{top}/conf", "w") as f:
        f.write(NGINX.format(top=top, port=port))
    process = subprocess.Popen([nginx, "-c", f"{top}/conf", "-p", top], stderr=subprocess.DEVNULL)
    stack.callback(stop, process)

    def answers():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/conf").status == 200
        except OSError:
            return False
    until(answers, "nginx")
    return port


def large_file(stack, size):
    """(a scratch folder, a file of @size bytes in it, what gives the URL of an nginx and starts it at first)"""
    top, cached = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-")), []
    source = os.path.join(top, "source")
    with open(source, "wb") as f:
        f.truncate(size)

    def nginx():
        if not cached:
            cached.append(start_nginx(stack))
        return f"http://127.0.0.1:{cached[0]}"
    return top, source, nginx


def run_files(plan, report):
    need("curl")
    size = plan.count(1024) * MIB
    with ExitStack() as stack:
        ours, theirs = daemons(stack)
        top, source, nginx = large_file(stack, size)

        def up(daemon):
            return [size / MIB / curl("-X", "POST", "-T", source, "-H", "Content-Type: application/octet-stream",
                                      f"{base_of(daemon)}/files?path={top}/up&username=root")]

        def down(daemon):
            return [size / MIB / curl(f"{base_of(daemon)}/files?path={top}/up&username=root")]
        rounds = alternate(plan, {"envd": lambda: up(ours), "Go envd": lambda: up(theirs()),
                                  "nginx dav": lambda: [size / MIB / curl("-T", source, nginx() + "/large")]})
        report.compare("files up", "MiB/s", rounds, "envd", "one file, octet-stream; curl sends")
        rounds = alternate(plan, {"envd": lambda: down(ours), "Go envd": lambda: down(theirs()),
                                  "nginx static": lambda: [size / MIB / curl(nginx() + "/large")]})
        report.compare("files down", "MiB/s", rounds, "envd", "identity; curl reads")
        report.figure("files peak memory", peak_kib(ours) / 1024, "MiB", 1, note="VmHWM of envd after both")
        entries = os.path.join(top, "entries")
        os.mkdir(entries)
        for i in range(plan.count(ENTRIES)):
            open(os.path.join(entries, str(i)), "w").close()

        def listing(daemon):
            return [1000 * curl("-X", "POST", "-H", "Content-Type: application/json", "-d", f'{{"path":"{entries}"}}',
                                f"{base_of(daemon)}/filesystem.Filesystem/ListDir")]
        rounds = alternate(plan, {"envd": lambda: listing(ours), "Go envd": lambda: listing(theirs())})
        report.compare(f"files: list {plan.count(ENTRIES)} entries", "ms", rounds, "envd")


class Terminal:
    """`cat` on a terminal of envd: a key goes by SendInput, its echo comes by the stream."""

    def __init__(self, daemon):
        import http.client
        message = {"process": {"cmd": "/bin/cat"}, "pty": {"size": {"cols": 80, "rows": 24}}}
        self.stream = http.client.HTTPConnection(daemon.host, daemon.port, timeout=30)
        self.stream.request("POST", "/process.Process/Start", envelope(message), {"Content-Type": "application/connect+json"})
        self.answer, self.calls = self.stream.getresponse(), http.client.HTTPConnection(daemon.host, daemon.port, timeout=30)
        self.pid = int(re.search(rb'"pid":(\d+)', self.event()).group(1))

    def event(self):
        head = self.answer.read(5)
        return self.answer.read(int.from_bytes(head[1:], "big"))

    def key(self):
        body = f'{{"process":{{"pid":{self.pid}}},"input":{{"pty":"{base64.b64encode(b"x").decode()}"}}}}'
        began = time.monotonic()
        self.calls.request("POST", "/process.Process/SendInput", body, {"Content-Type": "application/json"})
        while b'"pty"' not in self.event():
            pass
        took = time.monotonic() - began
        self.calls.getresponse().read()
        return took * 1000

    def close(self):
        self.calls.request("POST", "/process.Process/SendSignal", f'{{"process":{{"pid":{self.pid}}},"signal":9}}',
                           {"Content-Type": "application/json"})
        self.calls.getresponse().read()
        while b'"end"' not in self.event():
            pass
        self.calls.close()
        self.stream.close()


def run_pty(plan, report):
    need()
    with ExitStack() as stack:
        ours, theirs = daemons(stack)
        count = plan.count(200)

        def keys(daemon):
            terminal = Terminal(daemon)
            samples = [terminal.key() for _ in range(count)]
            terminal.close()
            return samples

        def bare():
            """The kernel's own echo: what a terminal without any hop takes."""
            master, slave = pty.openpty()
            samples = []
            for _ in range(count):
                began = time.monotonic()
                os.write(master, b"x")
                os.read(master, 16)
                samples.append((time.monotonic() - began) * 1000)
            os.close(master)
            os.close(slave)
            return samples

        def open_and_close(daemon):
            samples = []
            for _ in range(plan.count(40)):
                began = time.monotonic()
                Terminal(daemon).close()
                samples.append((time.monotonic() - began) * 1000)
            return samples
        rounds = alternate(plan, {"envd": lambda: keys(ours), "Go envd": lambda: keys(theirs()), "a bare terminal": bare})
        report.compare("pty key to echo", "ms", rounds, "envd", "SendInput and stream, by Python")
        rounds = alternate(plan, {"envd": lambda: open_and_close(ours), "Go envd": lambda: open_and_close(theirs())})
        report.compare("pty open and close", "ms", rounds, "envd")
