"""tests/wire/mock.py: a small recording stand-in for an E2B platform, control plane and envd on one port.

It answers just enough for the SDKs' everyday calls and keeps what they sent, as sent. Commands run
for real, as the caller, with a scratch HOME. POST /__mark?op=NAME starts a new group of requests.
Only for tests, only on loopback."""
import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

API_KEY = "e2b_" + "0" * 40
ENVD_VERSION = "0.5.7"
HOME = "/home/user"


def rfc3339(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + ".000000Z"


class Fault(Exception):
    """An answer that is no success: REST by status, Connect by code."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Process:
    """A child whose output every subscriber gets from its subscription on."""

    def __init__(self, pid, config, stdin, home):
        self.pid, self.config, self.events, self.changed = pid, config, [], threading.Condition()
        env = {"PATH": os.environ["PATH"], "HOME": home, "USER": "user", **config.get("envs", {})}
        cwd = config.get("cwd") or home
        if not os.path.isdir(cwd):
            raise Fault(200, "invalid_argument", f"cwd '{cwd}' does not exist")
        self.child = subprocess.Popen([config["cmd"], *config.get("args", [])], cwd=cwd, env=env, start_new_session=True,
                                      stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        readers = [threading.Thread(target=self.read, args=(name,), daemon=True) for name in ("stdout", "stderr")]
        for reader in readers:
            reader.start()
        threading.Thread(target=self.reap, args=(readers,), daemon=True).start()

    def read(self, name):
        stream = getattr(self.child, name)
        while data := os.read(stream.fileno(), 32768):
            self.say({"data": {name: base64.b64encode(data).decode()}})

    def reap(self, readers):
        code = self.child.wait()
        for reader in readers:
            reader.join(2)
        if code < 0:
            name = {9: "killed", 15: "terminated"}.get(-code, str(-code))
            end = {"exitCode": -1, "status": f"signal: {name}", "error": f"signal: {name}"}
        else:
            end = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
            if code:
                end["error"] = end["status"]
        self.say({"end": end})

    def say(self, event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def follow(self, at, deadline, is_alive):
        while True:
            with self.changed:
                while len(self.events) <= at:
                    if not is_alive():
                        return
                    if deadline and time.monotonic() > deadline:
                        self.signal(signal.SIGKILL)
                        raise Fault(200, "deadline_exceeded", "context deadline exceeded")
                    self.changed.wait(0.05)
                event = self.events[at]
            at += 1
            yield event
            if "end" in event:
                return

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass


class Sandbox:
    def __init__(self, number, body):
        self.id = f"imock{number:016d}"
        self.token = f"{number:064x}"
        self.body, self.home = body, tempfile.mkdtemp(prefix="abx-mock-")
        self.started, self.ends = time.time(), time.time() + body.get("timeout", 300)
        self.is_alive, self.processes, self.connections = True, {}, set()

    def brief(self):
        return {"templateID": self.body["templateID"], "sandboxID": self.id, "clientID": "mock",
                "envdVersion": ENVD_VERSION, "envdAccessToken": self.token, "domain": None}

    def detail(self):
        return {**self.brief(), "startedAt": rfc3339(self.started), "endAt": rfc3339(self.ends), "cpuCount": 2,
                "memoryMB": 1024, "diskSizeMB": 1024, "state": "running", "metadata": self.body.get("metadata") or {}}

    def kill(self):
        self.is_alive = False
        for process in self.processes.values():
            process.signal(signal.SIGKILL)
        for connection in list(self.connections):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self.home, ignore_errors=True)


class Mock(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.sandboxes, self.groups, self.next_pid, self.lock = {}, [], 1000, threading.Lock()

    def environment(self):
        return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_API_KEY": API_KEY}

    @staticmethod
    def expire(sandbox):
        """Kills a sandbox at the end of its time, as setTimeout may move it."""
        while sandbox.is_alive:
            if time.time() >= sandbox.ends:
                sandbox.kill()
            time.sleep(0.05)

    def close(self):
        for sandbox in self.sandboxes.values():
            if sandbox.is_alive:
                sandbox.kill()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # a client that goes away in mid-stream is part of the game


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def answer(self, status, value=None, headers=()):
        body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
            if not isinstance(value, bytes):
                self.send_header("Content-Type", "application/json")
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        body = self.read_body()
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        if url.path == "/__mark":
            self.server.groups.append({"op": self.query["op"], "requests": []})
            return self.answer(204)
        if self.server.groups:
            self.server.groups[-1]["requests"].append((self.command, self.path, list(self.headers.items()), body))
        try:
            if url.path.startswith(("/process.Process/", "/filesystem.Filesystem/", "/files", "/health")):
                return self.envd(url.path, body)
            return self.api(url.path, body)
        except Fault as fault:
            self.answer(fault.status, {"code": fault.code, "message": fault.message})

    do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = handle_any

    # The control plane.
    def api(self, path, body):
        if self.headers.get("X-API-KEY") != API_KEY:
            raise Fault(401, 401, "Invalid API key")
        parts = [p for p in path.split("/") if p and p not in ("v2", "v3")]
        if parts[:1] != ["sandboxes"] or len(parts) > 3:
            raise Fault(404, 404, f"no route {path}")
        values = json.loads(body) if body else {}
        if len(parts) == 1:
            return self.create(values) if self.command == "POST" else self.list_sandboxes()
        sandbox = self.server.sandboxes.get(parts[1])
        if sandbox is None or not sandbox.is_alive:
            raise Fault(404, 404, f'Sandbox "{parts[1]}" doesn\'t exist or you don\'t have access to it')
        return self.on_sandbox(sandbox, parts[2] if len(parts) == 3 else "", values)

    def create(self, values):
        if values.get("templateID") not in ("hello", "host"):
            raise Fault(404, 404, f"template '{values.get('templateID')}' not found")
        with self.server.lock:
            sandbox = Sandbox(len(self.server.sandboxes) + 1, values)
            self.server.sandboxes[sandbox.id] = sandbox
        threading.Thread(target=self.server.expire, args=(sandbox,), daemon=True).start()
        self.answer(201, sandbox.brief())

    def list_sandboxes(self):
        alive = [s for s in self.server.sandboxes.values() if s.is_alive]
        limit = int(self.query.get("limit", 100))
        at = int(self.query.get("nextToken", 0))
        page = sorted(alive, key=lambda s: s.id, reverse=True)[at:at + limit]
        more = [("X-Next-Token", str(at + limit))] if at + limit < len(alive) else []
        self.answer(200, [{k: v for k, v in s.detail().items() if k not in ("envdAccessToken", "domain")} for s in page], more)

    def on_sandbox(self, sandbox, verb, values):
        if self.command == "DELETE" and verb == "":
            sandbox.kill()
            return self.answer(204)
        if self.command == "GET" and verb == "":
            return self.answer(200, sandbox.detail())
        if verb == "connect":
            sandbox.ends = max(sandbox.ends, time.time() + values.get("timeout", 300))
            return self.answer(200, sandbox.brief())
        if verb == "timeout":
            sandbox.ends = time.time() + values["timeout"]
            return self.answer(204)
        raise Fault(501, 501, f"{verb} is not part of this mock")

    # Inside a sandbox.
    def envd(self, path, body):
        sandbox = self.server.sandboxes.get(self.headers.get("E2b-Sandbox-Id", ""))
        if sandbox is None or not sandbox.is_alive:
            return self.answer(502, {"sandboxId": "x", "message": "The sandbox was not found", "code": 502})
        if path == "/health":
            return self.answer(204)
        if self.headers.get("X-Access-Token") != sandbox.token:
            raise Fault(401, 401, "unauthorized access, please provide a valid access token or method signing if supported")
        if path == "/files":
            return self.files_get(sandbox) if self.command == "GET" else self.files_post(sandbox, body)
        method = path.rpartition("/")[2]
        if method in ("Start", "Connect"):
            return self.stream(sandbox, method, json.loads(body[5:]))
        call = getattr(self, "rpc_" + method.lower(), None)
        if call is None:
            raise Fault(501, "unimplemented", f"{method} is not part of this mock")
        self.answer(200, call(sandbox, json.loads(body)))

    def real(self, sandbox, path):
        full = os.path.normpath(os.path.join(HOME, path))
        if full != HOME and not full.startswith(HOME + "/"):
            raise Fault(400, "invalid_argument", "the mock has files under /home/user only")
        return full, sandbox.home + full[len(HOME):]

    def files_get(self, sandbox):
        full, real = self.real(sandbox, self.query.get("path", ""))
        if not os.path.exists(real):
            raise Fault(404, 404, f"path '{full}' does not exist")
        with open(real, "rb") as f:
            self.answer(200, f.read())

    def files_post(self, sandbox, body):
        kind = self.headers["Content-Type"]
        wanted = self.query.get("path")
        if kind.startswith("multipart/"):
            message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
            parts = [(wanted or p.get_filename(), p.get_payload(decode=True)) for p in message.get_payload()
                     if p.get_param("name", header="content-disposition") == "file"]
        else:
            parts = [(wanted, body)]
        written = []
        for path, data in parts:
            full, real = self.real(sandbox, path)
            os.makedirs(os.path.dirname(real), exist_ok=True)
            with open(real, "wb") as f:
                f.write(data)
            written.append({"path": full, "name": os.path.basename(full), "type": "file"})
        self.answer(200, written)

    def entry(self, full, real):
        info = os.lstat(real)
        kind = "FILE_TYPE_DIRECTORY" if os.path.isdir(real) else "FILE_TYPE_FILE"
        return {"name": os.path.basename(full), "path": full, "type": kind, "size": str(info.st_size),
                "mode": info.st_mode & 0o7777, "permissions": "-rw-r--r--", "owner": "user", "group": "user",
                "modifiedTime": rfc3339(info.st_mtime)}

    def rpc_stat(self, sandbox, values):
        full, real = self.real(sandbox, values["path"])
        if not os.path.lexists(real):
            raise Fault(404, "not_found", f"file not found: lstat {full}: no such file or directory")
        return {"entry": self.entry(full, real)}

    def rpc_makedir(self, sandbox, values):
        full, real = self.real(sandbox, values["path"])
        if os.path.isdir(real):
            raise Fault(409, "already_exists", f"directory already exists: {full}")
        os.makedirs(real)
        return {"entry": self.entry(full, real)}

    def rpc_move(self, sandbox, values):
        _, source = self.real(sandbox, values["source"])
        full, real = self.real(sandbox, values["destination"])
        if not os.path.lexists(source):
            raise Fault(404, "not_found", "source file not found")
        os.makedirs(os.path.dirname(real), exist_ok=True)
        os.rename(source, real)
        return {"entry": self.entry(full, real)}

    def rpc_remove(self, sandbox, values):
        _, real = self.real(sandbox, values["path"])
        if os.path.isdir(real):
            shutil.rmtree(real)
        elif os.path.lexists(real):
            os.unlink(real)
        return {}

    def rpc_listdir(self, sandbox, values):
        full, real = self.real(sandbox, values["path"])
        if not os.path.isdir(real):
            raise Fault(404, "not_found", f"path not found: {full}")
        return {"entries": [self.entry(f"{full}/{n}", f"{real}/{n}") for n in sorted(os.listdir(real))]}

    def process(self, sandbox, values):
        pid = values.get("process", {}).get("pid", 0)
        if pid not in sandbox.processes:
            raise Fault(404, "not_found", f"process with pid {pid} not found")
        return sandbox.processes[pid]

    def rpc_list(self, sandbox, values):
        return {"processes": [{"config": p.config, "pid": p.pid} for p in sandbox.processes.values()
                              if p.child.poll() is None]}

    def rpc_sendinput(self, sandbox, values):
        stdin = self.process(sandbox, values).child.stdin
        if stdin is None or stdin.closed:
            raise Fault(500, "internal", "error writing to stdin: stdin not enabled or closed")
        stdin.write(base64.b64decode(values["input"]["stdin"]))
        stdin.flush()
        return {}

    def rpc_closestdin(self, sandbox, values):
        stdin = self.process(sandbox, values).child.stdin
        if stdin is not None:
            stdin.close()
        return {}

    def rpc_sendsignal(self, sandbox, values):
        process = self.process(sandbox, values)
        if process.child.poll() is not None:
            raise Fault(404, "not_found", f"process with pid {process.pid} not found")
        process.signal(signal.SIGKILL if values["signal"] == "SIGNAL_SIGKILL" else signal.SIGTERM)
        return {}

    def frame(self, flags, value):
        data = json.dumps(value, separators=(",", ":")).encode()
        data = struct.pack(">BI", flags, len(data)) + data
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def stream(self, sandbox, method, values):
        self.send_response(200)
        self.send_header("Content-Type", "application/connect+json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sandbox.connections.add(self.connection)
        end = {}
        try:
            process, at = self.attach(sandbox, method, values)
            self.frame(0, {"event": {"start": {"pid": process.pid}}})
            limit = int(self.headers.get("Connect-Timeout-Ms") or 0)
            deadline = time.monotonic() + limit / 1000 if limit else None
            for event in process.follow(at, deadline, lambda: sandbox.is_alive):
                self.frame(0, {"event": event})
        except Fault as fault:
            end = {"error": {"code": fault.code, "message": fault.message}}
        finally:
            sandbox.connections.discard(self.connection)
        if sandbox.is_alive:
            self.frame(2, end)
            self.wfile.write(b"0\r\n\r\n")

    def attach(self, sandbox, method, values):
        if method == "Connect":
            process = self.process(sandbox, values)
            return process, len(process.events) - (1 if process.child.poll() is not None else 0)
        with self.server.lock:
            pid = self.server.next_pid
            self.server.next_pid += 1
        config = dict(values["process"])
        config["envs"] = {**(sandbox.body.get("envVars") or {}), **(config.get("envs") or {})}
        process = Process(pid, config, values.get("stdin", True), sandbox.home)
        sandbox.processes[pid] = process
        return process, 0


def start():
    mock = Mock()
    threading.Thread(target=mock.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return mock


def main():
    """Prints the exports and serves until its standard input ends: for trying programs by hand."""
    mock = start()
    for name, value in mock.environment().items():
        print(f"export {name}={value}", flush=True)
    try:
        sys.stdin.read()
    finally:
        mock.close()


if __name__ == "__main__":
    main()
