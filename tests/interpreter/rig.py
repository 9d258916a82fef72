"""tests/interpreter/rig.py: the code interpreter as a program of its own, a client that keeps the bytes, and an envd that
only knows /envs."""
import contextlib
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from ports import free_port  # noqa: E402,F401
BUILD = os.environ.get("ABX_BUILD", os.path.join(ROOT, "build/dev"))
DEPS = os.path.join(ROOT, "build/deps")
# A build with sanitizers has a guest that runs on the host beside the one for sandboxes; a static one is both.
GUEST = next(path for path in (f"{BUILD}/bin/abx-guest-host", f"{BUILD}/bin/abx-guest") if os.path.exists(path))
GUARD_S = 60
PYTHONS = {"ipython": f"{DEPS}/kernel/bin", "plain": f"{DEPS}/py/bin"}  # with and without IPython
TOKEN = "the-envd-token"


def until(condition, what, seconds=GUARD_S):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)


class Envd(http.server.ThreadingHTTPServer):
    """Answers GET /envs to those who bring the token; counts the questions."""
    daemon_threads = True

    def __init__(self, variables):
        self.variables, self.asked = variables, []
        super().__init__(("127.0.0.1", 0), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            token = self.headers.get("X-Access-Token")
            self.server.asked.append((self.path, token))
            body = json.dumps(self.server.variables).encode() if token == TOKEN else b"no"
            self.send_response(200 if token == TOKEN else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass


class Answer:
    """One exchange: status, headers, the raw body, and the lines of a stream."""

    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.raw = response.read()

    @property
    def text(self):
        return self.raw.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def lines(self):
        return [json.loads(line) for line in self.raw.decode("ascii").splitlines()]

    def of(self, kind):
        return [line for line in self.lines if line["type"] == kind]

    @property
    def stdout(self):
        return "".join(line["text"] for line in self.of("stdout"))

    @property
    def stderr(self):
        return "".join(line["text"] for line in self.of("stderr"))

    @property
    def result(self):
        """The text of the main result."""
        return next((line.get("text") for line in self.of("result") if line["is_main_result"]), None)

    @property
    def error(self):
        found = self.of("error")
        return (found[0]["name"], found[0]["value"]) if found else None


class Interpreter:
    def __init__(self, python="ipython", envd=None, path=None, guard=False, port=None, **environment):
        self.top = tempfile.mkdtemp(prefix="abx-interp-")
        self.home = os.path.join(self.top, "home")
        os.mkdir(self.home)
        self.port = port or free_port()
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "ABX_", "PYTHON", "VIRTUAL_ENV"))}
        path = path or f"{PYTHONS[python]}:{DEPS}/bin:/usr/bin:/bin"
        self.env = {**keep, "PATH": path, "HOME": self.home, "LANG": "C.UTF-8", **environment}
        if guard:
            self.env["ABX_LOOPBACK_GUARD"] = "1"
        self.arguments = ["--port", str(self.port), "--cwd", self.home]
        if envd:
            self.arguments += ["--envd-port", str(envd.server_port)]
        self.child = None

    def __enter__(self):
        self.log = open(os.path.join(self.top, "log"), "wb")
        self.child = subprocess.Popen([GUEST, "sandbox-code-interpreter", *self.arguments],
                                      env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until(self.answers, "the interpreter answers")
        return self

    def answers(self):
        assert self.child.poll() is None, self.read_log()
        with contextlib.suppress(OSError):
            return self.get("/health").status == 200
        return False

    def read_log(self):
        with open(os.path.join(self.top, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def __exit__(self, kind, _value, _trace):
        self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(GUARD_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            code = "killed: it did not end by TERM"
        self.log.close()
        log = self.read_log()
        shutil.rmtree(self.top, ignore_errors=True)
        if kind is None:
            assert code == 0 and "ERROR: " not in log and "descriptor left" not in log, f"exit {code}: {log[-3000:]}"

    def request(self, method, path, body=None, headers=None, timeout=GUARD_S):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def delete(self, path):
        return self.request("DELETE", path)

    def run(self, code, language=None, context=None, envs=None, headers=None, timeout=GUARD_S):
        body = {"code": code, "language": language, "context_id": context, "env_vars": envs}
        answer = self.post("/execute", body, headers=headers, timeout=timeout)
        assert answer.status == 200, (answer.status, answer.text)
        assert answer.lines[-1] == {"type": "end_of_execution"}, answer.lines
        return answer

    def context(self, **wanted):
        answer = self.post("/contexts", wanted)
        assert answer.status == 200, (answer.status, answer.text)
        return answer.json["id"]

    def begin(self, code, **more):
        """Sends an execution and leaves the stream open: (socket, file). For clients that go away."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=GUARD_S)
        body = json.dumps({"code": code, **more}).encode()
        connection.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return connection, connection.makefile("rb")
