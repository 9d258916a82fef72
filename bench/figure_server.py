"""bench/figure_server.py: bytes and terminals of agent-sandbox-server, beside the published one, nginx, tar and ssh.

`server-stream`: a child's output as server-sent events; `server-files`: one large file and 10,000 small ones, raw, and
10,000 as one archive; `server-pty`: a key and its echo by WebSocket, a session opened and closed. `ssh -t` is a peer when
`sshd` is installed or ABX_BENCH_SSHD names one."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from urllib.parse import urlsplit

from figure_http import free_port, published_server, stop
from figure_stream import curl, large_file, need, peak_kib
from measure import BUILD, ROOT, Skipped, alternate, percentile, until
from sandboxes import Api

sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from websocket import WebSocket  # noqa: E402

MIB, FILES = 1 << 20, 10_000
LINE = b"x" * 65535 + b"\n"
UNBOUND = {"max_bytes": "4GiB", "max_request_bytes": "4GiB"}
POLICY = {"version": 1, "endpoints": {"shell_stream": {"limits": {"max_output_bytes": "2GiB"}},
                                      "files_upload_stream": {"limits": UNBOUND}}}
OURS_ONLY = {"files_raw_put": {"limits": UNBOUND}, "files_raw_get": {"limits": {"max_bytes": "4GiB"}},
             "files_tree_get": {"limits": {"max_files": 100_000}}}


class Server:
    """One agent-sandbox-server on a scratch folder."""

    def __init__(self, stack, command, endpoints):
        self.host, self.port, self.pty_port = "127.0.0.1", free_port(), free_port()
        self.top = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-"))
        policy = os.path.join(self.top, "policy.json")
        with open(policy, "w") as f:
            json.dump({**POLICY, "endpoints": {**POLICY["endpoints"], **endpoints}}, f)
        self.base = os.path.join(self.top, "base")
        os.mkdir(self.base)
        with open(os.path.join(self.top, "log"), "w") as log:
            process = subprocess.Popen([*command, "serve", "--host", self.host, "--port", str(self.port), "--pty-port", str(self.pty_port),
                                        "--base-dir", self.base, "--policy", policy],
                                       env={"PATH": os.environ["PATH"], "HOME": self.top, "LANG": "C.UTF-8"},
                                       cwd=self.base, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        stack.callback(stop, process)
        self.pid, self.url = process.pid, f"http://{self.host}:{self.port}"
        until(lambda: self.answers(process), command[0])

    def answers(self, process):
        assert process.poll() is None, open(os.path.join(self.top, "log")).read()[-500:]
        try:
            return self.ask("GET", "/health")
        except OSError:
            return None

    def ask(self, method, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


def servers(stack):
    """(ours, what gives the published one or says that it is not there)"""
    found = []

    def theirs():
        if not found:
            found.append(Server(stack, [published_server()], {}))
        return found[0]
    return Server(stack, [os.path.join(BUILD, "bin/agent-sandbox-server")], OURS_ONLY), theirs


def run_stream(plan, report):
    need("curl", "socat")
    size = plan.count(1024)  # of lines of 64 KiB and of files of as many lines: MiB of the child's output
    with ExitStack() as stack:
        ours, theirs = servers(stack)
        top = stack.enter_context(tempfile.TemporaryDirectory(prefix="abx-bench-"))
        source = os.path.join(top, "lines")
        with open(source, "wb") as f:
            f.write(LINE * 1024)

        def command(mib):
            return "cat" + f" {source}" * max(1, mib // 64), max(1, mib // 64) * 64

        def through(server, mib):
            line, sent = command(mib)
            body = os.path.join(top, "body")
            with open(body, "w") as f:
                json.dump({"command": line}, f)
            return [sent / curl("-X", "POST", "-H", "Content-Type: application/json", "--data-binary", f"@{body}",
                                f"{server.url}/shell/stream")]

        def socat():
            line, sent = command(size)
            began = time.monotonic()
            subprocess.run(["socat", "-u", f"EXEC:{line}", "OPEN:/dev/null"], check=True, timeout=300)
            return [sent / (time.monotonic() - began)]
        rounds = alternate(plan, {"server": lambda: through(ours, size), "published server": lambda: through(theirs(), 64),
                                  "socat": socat})
        report.compare("server-stream SSE", "MiB/s", rounds, "server", "lines of 64 KiB, curl reads; the published one 64 MiB only")
        report.figure("server-stream peak memory", peak_kib(ours) / 1024, "MiB", 1, note="VmHWM of the server after it")


def put_request(api, path, length):
    return api.request_file("PUT", path, {}, b"x" * length)


def timed(*argv, **kw):
    began = time.monotonic()
    subprocess.run(argv, check=True, timeout=300, **kw)
    return [1000 * (time.monotonic() - began)]


def run_files(plan, report):
    need("curl", "tar")
    size, count = plan.count(1024) * MIB, plan.count(FILES)
    with ExitStack() as stack:
        ours, _ = servers(stack)
        top, source, nginx = large_file(stack, size)
        raw = f"{ours.url}/files/raw?path=large"
        rounds = alternate(plan, {"server": lambda: [size / MIB / curl("-T", source, raw)],
                                  "nginx dav": lambda: [size / MIB / curl("-T", source, nginx() + "/large")]})
        report.compare("server-files up", "MiB/s", rounds, "server", "PUT /files/raw, written anew and renamed by both")
        rounds = alternate(plan, {"server": lambda: [size / MIB / curl(raw)],
                                  "nginx static": lambda: [size / MIB / curl(nginx() + "/large")]})
        report.compare("server-files down", "MiB/s", rounds, "server", "GET /files/raw")
        report.figure("server-files peak memory", peak_kib(ours) / 1024, "MiB", 1, note="VmHWM of the server after both")

        one_kib = os.path.join(top, "one")
        with open(one_kib, "wb") as f:
            f.write(b"x" * 1024)

        def small(server, path, status):
            api = Api.__new__(Api)
            api.host, api.port, api.top = server.host, server.port, top
            return [us / 1000 for us in api.load(put_request(api, path, 1024), count // 10, 1, status)[0]]

        def nginx_small():
            peer = SimpleNamespace(host="127.0.0.1", port=urlsplit(nginx()).port)
            curl("-T", one_kib, nginx() + "/small")  # so that each is an overwrite: 204
            return small(peer, "/small", 204)
        rounds = alternate(plan, {"server": lambda: small(ours, "/files/raw?path=small", 200), "nginx dav": nginx_small})
        report.compare("server-files, 1 KiB written p50", "ms", rounds, "server")

        entries = os.path.join(ours.base, "entries")
        os.mkdir(entries)
        for i in range(count):
            with open(os.path.join(entries, str(i)), "wb") as f:
                f.write(b"x" * 1024)
        archive, out = os.path.join(top, "archive"), os.path.join(top, "out")
        os.mkdir(out)
        subprocess.run(["tar", "cf", archive, "-C", entries, "."], check=True)
        tree = f"{ours.url}/files/tree?format=tar&path="

        def unpacked():
            path = os.path.join(out, str(len(os.listdir(out))))
            os.mkdir(path)
            return timed("tar", "xf", archive, "-C", path)

        def put_tree():
            path = f"unpacked-{len(os.listdir(ours.base))}"
            os.mkdir(os.path.join(ours.base, path))
            return [1000 * curl("-T", archive, f"{tree}{path}")]
        rounds = alternate(plan, {"server": lambda: [1000 * curl(f"{tree}entries")],
                                  "tar": lambda: timed("sh", "-c", f"tar cf - -C '{entries}' . | cat >/dev/null")})
        report.compare(f"server-files: tree of {count} out", "ms", rounds, "server")
        rounds = alternate(plan, {"server": put_tree, "tar": unpacked})
        report.compare(f"server-files: tree of {count} in", "ms", rounds, "server")


class Session:
    """A terminal of a server; the kernel echoes, keys and echoes are the published JSON texts."""

    def __init__(self, server):
        self.server = server
        self.id = server.ask("POST", "/pty/sessions", {"shell": "/bin/sh", "cols": 80, "rows": 24})["session_id"]
        at = SimpleNamespace(api=SimpleNamespace(address=(server.host, server.pty_port)), headers=dict)
        self.socket = until(lambda: self.attach(at), "the terminals' port")
        assert self.socket.status == 101, self.socket.status
        self.key()  # the shell is up

    def attach(self, at):
        try:
            return WebSocket(at, f"/pty?session_id={self.id}")
        except ConnectionRefusedError:  # the published one opens the port with its first session
            return None

    def key(self):
        began = time.monotonic()
        self.socket.send(b'{"type":"input","data":"k"}')
        while True:
            _, payload = self.socket.hear()
            message = json.loads(payload)
            if message["type"] == "output" and "k" in message["data"]:
                return 1000 * (time.monotonic() - began)

    def close(self):
        self.socket.close()
        self.server.ask("DELETE", f"/pty/sessions/{self.id}")


@contextmanager
def ssh_server():
    """A private sshd: the words of an `ssh -tt` to it."""
    sshd = os.environ.get("ABX_BENCH_SSHD") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if not sshd or not shutil.which("ssh"):
        raise Skipped("no sshd (ABX_BENCH_SSHD names one)")
    with tempfile.TemporaryDirectory(prefix="abx-bench-") as top:
        port = free_port()
        for name in ("host", "me"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{top}/{name}"], check=True)
        shutil.copy(f"{top}/me.pub", f"{top}/authorized")
        process = subprocess.Popen([os.path.abspath(sshd), "-D", "-e", "-f", "/dev/null", "-h", f"{top}/host", "-o", f"Port={port}",
                                    "-o", "ListenAddress=127.0.0.1", "-o", f"AuthorizedKeysFile={top}/authorized",
                                    "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "PermitRootLogin=yes", "-o", "UsePAM=no"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            words = ["ssh", "-q", "-tt", "-F", "/dev/null", "-i", f"{top}/me", "-p", str(port), "-o", "StrictHostKeyChecking=no",
                     "-o", "UserKnownHostsFile=/dev/null", "127.0.0.1"]
            try:
                until(lambda: subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode == 0, "sshd")
            except AssertionError as gone:
                raise Skipped(f"{gone} (it needs its account and /run/sshd)") from gone
            yield words
        finally:
            stop(process)


class Ssh:
    def __init__(self, words):
        self.process = subprocess.Popen([*words, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.key()  # the session is up

    def key(self):
        began = time.monotonic()
        self.process.stdin.write(b"k")
        while b"k" not in self.process.stdout.read(4096):
            pass
        return 1000 * (time.monotonic() - began)

    def close(self):
        self.process.stdin.write(b"\r\4")
        while self.process.stdout.read(4096):
            pass
        self.process.wait(30)


def run_pty(plan, report):
    with ExitStack() as stack:
        ours, theirs = servers(stack)
        found = []

        def ssh():
            if not found:
                found.append(stack.enter_context(ssh_server()))
            return found[0]
        makers = {"server": lambda: Session(ours), "published server": lambda: Session(theirs()), "ssh -t": lambda: Ssh(ssh())}

        def keys(make):
            terminal = make()
            samples = [terminal.key() for _ in range(plan.count(200))]
            terminal.close()
            return samples

        def open_and_close(make):
            samples = []
            for _ in range(plan.count(5)):  # the published one takes 3 s to close
                began = time.monotonic()
                terminal = make()
                terminal.key()
                terminal.close()
                samples.append(1000 * (time.monotonic() - began))
            return samples
        rounds = alternate(plan, {name: lambda make=make: keys(make) for name, make in makers.items()})
        for name, pick in (("p50", statistics.median), ("p99", lambda r: percentile(r, 0.99))):
            report.compare(f"server-pty key to echo {name}", "ms", rounds, "server", "by Python", pick=pick)
        rounds = alternate(plan, {name: lambda make=make: open_and_close(make) for name, make in makers.items()})
        report.compare("server-pty open, key, close", "ms", rounds, "server")
