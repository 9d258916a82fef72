"""The Python side of the command host protocol, version 1 (command-hosts.md 3).

The main thread reads the socket; every call runs in a thread of its own. Nothing here is for user code.
"""
import atexit
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import signal
import socket
import sys
import threading
import traceback

from . import _calls, _link, _notices
from ._version import __version__
from .registry import default_registry
from .router import default_table
from .runtime import context_from, detached_engine

LINE_MAX = 64 << 20
CALLS_MAX = 128
_PART = re.compile(r"\{(\w+)\}")
_REGEX = re.compile(r"[()\[\]*+?|\\^$]")
_ID = re.compile(rb'\{"op":"(?:call|request)","id":([0-9]+),')


class Host:
    """One connection to the server."""

    def __init__(self, sock, files, base_dir):
        self._sock = sock
        self._reader = sock.makefile("rb", buffering=65536)
        self._send_lock = threading.Lock()
        self._lock = threading.Lock()
        self._calls = {}
        self._asked = {}
        self._next_question = 0
        self._early = []
        self._files = files
        self._serving_thread = None
        self._routes = []
        self.registry = default_registry()
        self.table = default_table()
        self.engine = detached_engine(base_dir)

    # ---- sending

    def send(self, message):
        self.send_text(json.dumps(message, separators=(",", ":")))

    def send_text(self, text):
        self.send_line(self.line(text))

    def line(self, text):
        """The bytes of it; ValueError: the server takes no line so long."""
        data = text.encode() + b"\n"
        if len(data) > LINE_MAX:
            raise ValueError(f"the answer is larger than {LINE_MAX} bytes")
        return data

    def send_line(self, data):
        with self._send_lock:
            self._sock.sendall(data)

    def log(self, text):
        self.send({"op": "log", "level": "error", "message": text[:16384]})

    # ---- questions of ours

    def ask(self, what, fields):
        waiter = {"done": threading.Event()}
        with self._lock:
            self._next_question += 1
            number = self._next_question
            self._asked[number] = waiter
        self.send({"op": "ask", "q": number, "what": what, **fields})
        if self._serving_thread in (None, threading.current_thread()):
            self._read_until(waiter["done"])
        elif not waiter["done"].wait(30):
            raise TimeoutError("the server did not answer")
        with self._lock:
            self._asked.pop(number, None)
        if "answer" not in waiter:
            raise RuntimeError("the server is gone")
        return waiter["answer"]

    def _read_until(self, done):
        """While the file is still being loaded, this thread is the only reader."""
        while not done.is_set():
            message = self._read()
            if message is None:
                return
            if message.get("op") == "answer":
                self._on_answer(message)
            else:
                self._early.append(message)

    def _on_answer(self, message):
        with self._lock:
            waiter = self._asked.get(message.get("q"))
        if waiter is not None:
            waiter["answer"] = message
            waiter["done"].set()

    # ---- receiving

    def _read(self):
        line = self._reader.readline(LINE_MAX + 1)
        if not line.endswith(b"\n"):
            return None
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as exc:
            found = _ID.match(line)
            if found:
                self.send({"op": "error", "id": int(found[1]), "status": 400, "type": "ValueError",
                           "message": f"the body can not be read: {exc}"})
            return {}

    def serve(self):
        """Answers calls until the server says shutdown or is gone."""
        self._serving_thread = threading.current_thread()
        handlers = {"call": self._on_call, "request": self._on_call, "answer": self._on_answer,
                    "cancel": self._on_cancel, "pause": self._on_pause, "resume": self._on_resume,
                    "ask": self._on_ask}
        while True:
            message = self._early.pop(0) if self._early else self._read()
            if message is None or message.get("op") == "shutdown":
                break
            if message.get("op") == "reject":
                sys.stderr.write(f"the server refused this file: {message.get('error')}\n")
                return 1
            handler = handlers.get(message.get("op"))
            if handler is not None:
                handler(message)
        with self._lock:
            running = list(self._calls.values())
        for call in running:
            call.cancel()
        return 0

    def _on_call(self, message):
        with self._lock:
            if len(self._calls) >= CALLS_MAX:
                self.send({"op": "error", "id": message["id"], "status": 429, "type": "RateLimited",
                           "message": "too many calls are running", "code": "concurrency_limited"})
                return
            call = _calls.Call(self, message["id"])
            self._calls[message["id"]] = call
        ctx = context_from(message.get("ctx") or {}, message["id"], self.engine)
        if message["op"] == "call":
            work = (_calls.run_command, call, self.registry.get(message["command"]), message)
        else:
            route = self._routes[message["n"]]
            context = {"policy": ctx, "registry": self.registry, "route_table": self.table}
            work = (_calls.run_route, call, route, message, context)
        call.thread = threading.Thread(target=self._run, args=work, name=f"call-{message['id']}", daemon=True)
        try:
            call.thread.start()
        except RuntimeError as exc:
            self._forget(call)
            self.send({"op": "error", "id": call.id, "status": 503, "type": "RuntimeError", "message": str(exc)})

    def _run(self, function, call, *rest):
        try:
            function(call, *rest)
        except BaseException as exc:  # the call must have its answer
            call.fail(exc)
        finally:
            self._forget(call)

    def _forget(self, call):
        with self._lock:
            self._calls.pop(call.id, None)

    def _call(self, message):
        with self._lock:
            return self._calls.get(message.get("id"))

    def _on_cancel(self, message):
        call = self._call(message)
        if call is not None:
            call.cancel()

    def _on_pause(self, message):
        call = self._call(message)
        if call is not None:
            call.may_send.clear()

    def _on_resume(self, message):
        call = self._call(message)
        if call is not None:
            call.may_send.set()

    def _on_ask(self, message):
        answer = {"op": "answer", "q": message.get("q"), "ok": False}
        if message.get("what") == "match" and message.get("n") in range(len(self._routes)):
            found = self._routes[message["n"]]._regex.fullmatch(message.get("path", ""))
            answer = {**answer, "ok": True, "value": found.groupdict() if found else None}
        self.send(answer)

    # ---- the file

    def load(self):
        """Imports every file given. Returns an exit code, or None when all is well."""
        seen = set()
        for name in self._files:
            try:
                is_file = name.endswith(".py") or "/" in name or os.path.exists(name)
                key = os.path.realpath(name) if is_file else name
                if key in seen:
                    continue
                seen.add(key)
                _notices.current_file = name
                sys.argv = [name]
                code = _load_file(name) if is_file else importlib.import_module(name) and None
                if code is not None:
                    return code
            except SystemExit as exc:
                return _exit_code(exc)
            except BaseException:
                traceback.print_exc()
                return 1
        return None

    def hello(self, serve=None, policy=None, name=None):
        """Freezes what was registered and tells it to the server."""
        self.registry.freeze()
        self.table._frozen = True
        self.table._on_disable = lambda group: self.send({"op": "groups", "disable": [group.value]})
        self._routes = list(self.table._routes)
        self.send({
            "op": "hello", "protocol": 1, "name": name or ", ".join(self._files),
            "runtime": f"python {platform.python_version()}",
            "commands": [_command(entry) for entry in self.registry.list_all().values()],
            "routes": [_route(n, route) for n, route in enumerate(self._routes)],
            "groups": {group.value: on for group, on in self.table.group_overrides.items()},
            "builtins": self.table._has_built_ins, "policy": policy, "serve": serve, "notices": _notices.take()})

    def serve_from_file(self, server, port):
        """start() or serve() while the file is being imported: ends registration and blocks."""
        if self._serving_thread is not None:
            raise RuntimeError("the server is already running")
        self.registry, self.table = server.registry, server.route_table
        policy = server.policy.to_dict() if server._given_policy else None
        self.hello({"host": server.host, "port": port, "pty_port": server.pty_port}, policy)
        code = self.serve()
        _leave(code)

    def stop(self):
        self.send({"op": "stop"})


def _command(entry):
    return {"name": entry.name, "description": entry.description, "hidden": bool(entry.hidden),
            "scopes": list(entry.scopes), "timeout_s": None,
            "args": [{"name": a.name, "type": a.type, "required": a.required, "default": a.default,
                      "description": a.description} for a in entry.args]}


def _route(number, route):
    plain = _PART.sub("", route.path_pattern)
    return {"n": number, "method": route.method, "path": route.path_pattern, "regex": bool(_REGEX.search(plain)),
            "group": route.group.value, "auth_required": route.auth_required, "streaming": route.streaming,
            "name": route.name, "scopes": list(route.scopes), "summary": route.summary}


def _exit_code(exc):
    if exc.code is None:
        return 0
    if isinstance(exc.code, int):
        return exc.code & 0xFF
    sys.stderr.write(f"{exc.code}\n")
    return 1


def _load_file(path):
    real = os.path.realpath(path)
    name = "_abx_user_commands_" + hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        sys.stderr.write(f"cannot load commands file {path!r}\n")
        return 1
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return None


def _leave(code):
    """Ends this process without waiting for threads of user code."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)


def main():
    """The program that the server starts: socket in ABX_HOST_FD, what to load in the last argument."""
    fd = int(os.environ.pop("ABX_HOST_FD"))
    os.set_inheritable(fd, False)
    sock = socket.socket(fileno=fd)
    config = json.loads(sys.argv[1])
    sys.path[:] = config["path"] + [p for p in sys.path[1:] if p not in config["path"]]
    host = Host(sock, config["files"], config["base_dir"])
    _link.host = host
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the server's business
    code = host.load()
    if code is None:
        host.hello()
        code = host.serve()
    _leave(code)


def serve_directly(server, port):
    """`python3 commands.py`: this process is the host, the server is its child."""
    import subprocess

    ours, theirs = socket.socketpair()
    theirs.set_inheritable(True)
    name = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    argv = [_link.binary(), "serve", "--host", server.host, "--port", str(port), "--host-fd", str(theirs.fileno())]
    if server.pty_port is not None:
        argv += ["--pty-port", str(server.pty_port)]
    child = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
    theirs.close()
    host = Host(ours, [name], os.environ.get("ABX_SERVER_BASE_DIR") or "/home/user")
    _link.host = host
    server._serving = host
    host.registry, host.table = server.registry, server.route_table
    old = _forward_signals(child)
    try:
        host.hello({"host": server.host, "port": port, "pty_port": server.pty_port},
                   server.policy.to_dict() if server._given_policy else None, name)
        host.serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has said why
    code = child.wait()
    for number, handler in old.items():
        signal.signal(number, handler)
    _link.host = None
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    if code:
        sys.exit(code)


def _forward_signals(child):
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, lambda got, _frame: child.send_signal(got))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
