"""tests/e2e/rpc.py: the API and envd's RPC by hand, and the processes of a sandbox as the host sees them.

    sandbox = Sandbox(engine)                    # POST /sandboxes, template host
    stream = sandbox.start("/bin/echo", "hi")    # process.Process/Start
    stream.wait()                                # (b"hi\\n", b"", 0)
    sandbox.roles()                              # {"shim": pid, "init": pid, "gateway": pid, "envd": pid}

Every call takes protocol="proto" too: the same messages, as protobuf on the wire."""
import base64
import http.client
import json
import os
import socket
import time
from urllib.parse import urlsplit

import protobuf

LIMIT_SECONDS = 30  # of one silence
STREAM_SECONDS = 120  # that a stream may keep its reader waiting, all in all: one with keepalives is never silent


class Cut(Exception):
    """A stream ended without its end frame."""


class Api:
    def __init__(self, engine):
        url = urlsplit(engine.env["E2B_API_URL"])
        self.address, self.key = (url.hostname, url.port), engine.env["E2B_API_KEY"]

    def connect(self):
        return http.client.HTTPConnection(*self.address, timeout=LIMIT_SECONDS)

    def call(self, method, path, body=None):
        """(status, decoded JSON or None)"""
        connection = self.connect()
        try:
            headers = {"X-API-Key": self.key, **({"Content-Type": "application/json"} if body is not None else {})}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data else None
        finally:
            connection.close()


def encode(method, message, protocol="json"):
    return protobuf.encode(method, message) if protocol == "proto" else json.dumps(message).encode()


def framed(payload):
    return b"\0" + len(payload).to_bytes(4, "big") + payload


def envelope(message):
    return framed(json.dumps(message).encode())


class Stream:
    """The answer of a streaming RPC, one event at a time; @decode makes a dict of a message."""

    def __init__(self, connection, answer, decode=json.loads):
        self.connection, self.answer, self.decode, self.pid, self.end_frame = connection, answer, decode, None, None
        self.waited = 0.0

    def read_exactly(self, size):
        data = b""
        while len(data) < size:
            if self.waited > STREAM_SECONDS:
                raise AssertionError(f"the stream hangs: no end after {self.waited:.0f} s of waiting")
            began = time.monotonic()
            try:
                part = self.answer.read(size - len(data))
            except (http.client.HTTPException, ConnectionError) as error:
                raise Cut(f"{type(error).__name__}: {error}") from error
            finally:
                self.waited += time.monotonic() - began
            if not part:
                raise Cut(f"end of file after {len(data)} of {size} bytes")
            data += part
        return data

    def message(self):
        """The next message of any RPC; None once the end frame came (self.end_frame), which is JSON always."""
        head = self.read_exactly(5)
        data = self.read_exactly(int.from_bytes(head[1:], "big"))
        if head[0] & 2:
            self.end_frame = json.loads(data)
            return None
        return self.decode(data)

    def event(self):
        """The next event of a process; None at the end."""
        message = self.message()
        if message is None:
            return None
        event = message["event"]
        self.pid = event.get("start", {}).get("pid", self.pid)
        return event

    def until_start(self):
        while self.pid is None:
            if self.event() is None:
                raise AssertionError(f"no start: {self.end_frame}")
        return self

    def wait(self):
        """(stdout, stderr, exit code or the status text)"""
        out, err, status = [], [], None
        while (event := self.event()) is not None:
            data = event.get("data", {})
            out.append(base64.b64decode(data.get("stdout", "")))
            err.append(base64.b64decode(data.get("stderr", "")))
            if "end" in event:
                end = event["end"]
                status = end.get("exitCode", 0) if end.get("exited") else end.get("status")
        if "error" in self.end_frame:
            raise AssertionError(f"end frame: {self.end_frame}")
        return b"".join(out), b"".join(err), status

    def close(self):
        self.connection.close()

    def reset(self):
        """Goes away without a word: the peer sees a reset."""
        self.answer.close()
        if self.connection.sock:
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()


class Sandbox:
    def __init__(self, engine, **fields):
        self.api, self.namespace = Api(engine), None
        status, self.made = self.api.call("POST", "/sandboxes", {"templateID": "host", "timeout": 300, **fields})
        if status != 201:
            raise AssertionError(f"create: {status} {self.made}")
        self.id = self.made["sandboxID"]

    def headers(self, **more):
        token = self.made.get("envdAccessToken")
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "Connect-Protocol-Version": "1",
                "Authorization": "Basic dXNlcjo=", **({"X-Access-Token": token} if token else {}), **more}

    def unary(self, method, message, protocol="json"):
        """(status, decoded answer) of a unary RPC; errors are JSON always."""
        connection = self.api.connect()
        try:
            connection.request("POST", f"/{method}", encode(method, message, protocol),
                               self.headers(**{"Content-Type": f"application/{protocol}"}))
            answer = connection.getresponse()
            data = answer.read()
            if protocol == "proto" and answer.status == 200:
                return 200, protobuf.decode(method, data)
            return answer.status, json.loads(data or b"null")
        finally:
            connection.close()

    def stream(self, method, message, protocol="json", **headers):
        connection = self.api.connect()
        connection.request("POST", f"/{method}", framed(encode(method, message, protocol)),
                           self.headers(**{"Content-Type": f"application/connect+{protocol}", **headers}))
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError(f"{method}: {answer.status} {answer.read()[:500]!r}")
        return Stream(connection, answer, (lambda data: protobuf.decode(method, data)) if protocol == "proto" else json.loads)

    def start(self, command, *arguments, **fields):
        return self.stream("process.Process/Start", {"process": {"cmd": command, "args": list(arguments)}, "stdin": False, **fields})

    def connect(self, pid, offset=None):
        """From now on, or from byte @offset of all that the process has written."""
        headers = {} if offset is None else {"X-Abx-Journal-Offset": str(offset)}
        return self.stream("process.Process/Connect", {"process": {"pid": pid}}, **headers)

    def shell(self, text):
        """(stdout, stderr, exit code) of `sh -c`."""
        return self.start("/bin/sh", "-c", text).wait()

    def signal(self, pid, name="SIGNAL_SIGKILL"):
        return self.unary("process.Process/SendSignal", {"process": {"pid": pid}, "signal": name})

    def list(self):
        """The running processes that envd knows."""
        status, answer = self.unary("process.Process/List", {})
        if status != 200:
            raise AssertionError(f"List: {status} {answer}")
        return answer.get("processes", [])

    def kill(self):
        return self.api.call("DELETE", f"/sandboxes/{self.id}")[0]

    def processes(self):
        """{host pid: (pid inside, name)} of all processes of this sandbox, found by its pid namespace."""
        if self.namespace is None:
            self.namespace = self.shell("readlink /proc/self/ns/pid")[0].decode().strip()
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                namespace = os.readlink(f"/proc/{pid}/ns/pid")
            except OSError:
                continue
            inside = status_field(pid, "NSpid").split()
            if namespace == self.namespace and len(inside) > 1:
                found[int(pid)] = (int(inside[-1]), status_field(pid, "Name"))
        return found

    def roles(self):
        """Host pids of the sandbox's own daemons by name, init and its parent, the shim, included."""
        found = {}
        for pid, (inside, name) in sorted(self.processes().items(), key=lambda p: p[1][0]):
            if inside == 1:
                found["init"], found["shim"] = pid, int(status_field(pid, "PPid"))
            elif int(status_field(pid, "PPid") or 0) == found.get("init"):
                found.setdefault(name, pid)
        return found


def status_field(pid, name):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith(name + ":")), "")
    except OSError:
        return ""
