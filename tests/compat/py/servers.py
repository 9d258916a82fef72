"""tests/compat/py/servers.py: servers of ours for the published ServerClient, each in a scratch folder of its own."""
import contextlib
import http.server
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import threading

import httpx
from agent_sandbox.api.server_client import ServerClient

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
WIDE, NARROW = "wide-token-of-the-tests-0123456789", "narrow-token-of-the-tests-0123456"
COMMANDS = '''
import time
from agent_sandbox.server import command


@command("greet", description="say hello")
def greet(name: str = "world", times: int = 1):
    return f"Hello, {name}!" * times


@command("broken")
def broken():
    raise LookupError("on purpose")


@command("slow")
def slow():
    time.sleep(300)
'''
PAGE = b"""<!doctype html><title>Hello</title><h1>Hi</h1><input id=i value=old><button id=b onclick="document.title='clicked'">go</button>
<script>console.log('said', 1)</script>"""
PAGES = "11.1.1.1"  # of the loopback device in the namespace of tests/compat/server
HAS_NAMESPACE = os.environ.get("ABX_COMPAT_NS") == "1"
OPEN = []  # every server that runs
ANSWERS = []  # (status, content type, body or None) of every answer that was read whole


def load_run():
    """tests/server/run as a module: how a server is started is said there."""
    loader = importlib.machinery.SourceFileLoader("server_run", os.path.join(ROOT, "tests/server/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("server_run", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


RUN = load_run()
PROGRAM = os.path.abspath(os.path.join(RUN.BUILD, "bin/agent-sandbox-server"))


class Box(RUN.Box):
    """A server that knows its terminal port."""

    def __init__(self):
        super().__init__(PROGRAM)
        self.pty_port = RUN.free_port()
        OPEN.append(self)

    def start(self, *args, env=None, **rest):
        env = {"HOME": self.base, **(env or {})}  # no start-up files
        return super().start("--pty-port", str(self.pty_port), *args, env=env, **rest)

    def commands(self):
        path = os.path.join(self.top, "commands.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(COMMANDS)
        return path


def close_all():
    while OPEN:
        OPEN.pop().close()


async def note(response):
    if "text/event-stream" in response.headers.get("content-type", ""):
        return
    await response.aread()
    ANSWERS.append((response.status_code, response.headers.get("content-type", ""), response.content))


def client(box, token, **options):
    return ServerClient(f"http://127.0.0.1:{box.port}", token=token, pty_url=f"ws://127.0.0.1:{box.pty_port}", **options)


def noting_client(box, token):
    """One whose answers are kept in ANSWERS."""
    http_client = httpx.AsyncClient(event_hooks={"response": [note]}, timeout=30, trust_env=False)
    return client(box, token, http_client=http_client)


def wide():
    """Everything on but agents and the browser, one token with every scope."""
    box = Box()
    policy = {"groups": {"dev_tools": True}, "endpoints": {"files_upload_stream": {"params": {"deny_extensions": [".exe"]}},
                                                           "system_metrics": {"limits": {"rate_per_minute": 6000}}}}
    return box.start("--commands", box.commands(), policy=policy, env={"ABX_SERVER_TOKEN": WIDE})


def strict():
    """A narrow token beside the wide one, and a limit or rule for every refusal that has a class of its own."""
    box = Box()
    tokens = [{"id": "wide", "scopes": ["*"], "token_env": "WIDE"}, {"id": "narrow", "scopes": ["files:read"], "token_env": "NARROW"}]
    policy = {"auth": {"tokens": tokens}, "endpoints": {
        "files_upload_stream": {"limits": {"max_bytes": 1000}, "params": {"overwrite": False, "deny_extensions": [".exe"]}},
        "files_mkdir": {"paths": {"read_only": True}},
        "files_stat": {"paths": {"symlinks": "never"}},
        "files_*": {"paths": {"deny": ["**/secret*"]}},
        "system_info": {"limits": {"rate_per_minute": 1}},
        "packages": {"enabled": False}}}
    box.start("--commands", box.commands(), policy=policy, env={"WIDE": WIDE, "NARROW": NARROW})
    with open(os.path.join(box.base, "there"), "w", encoding="utf-8") as f:
        f.write("x")
    os.symlink("there", os.path.join(box.base, "link"))
    return box


@contextlib.contextmanager
def opened(*args):
    """One without any policy, for the time of a check."""
    box = Box()
    try:
        yield box.start(*args)
    finally:
        box.close()
        OPEN.remove(box)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_args):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)


class Pages:
    """A page to look at: the browser of a server never reaches loopback addresses, so it has another one."""

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer((PAGES, 0), Handler)
        self.url = f"http://{PAGES}:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def browser():
    """A server with the browser group; Chromium does not run as root, so then all of it is uid 1000's."""
    box = Box()
    library = os.path.join(ROOT, "build/deps/js/playwright-core/node_modules")
    program = box.program
    if os.geteuid() == 0:
        os.chown(box.top, 1000, 1000)
        os.chown(box.base, 1000, 1000)
        box.program = os.path.join(box.top, "as-user")
        with open(box.program, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nexec setpriv --reuid=1000 --regid=1000 --clear-groups {program} "$@"\n')
        os.chmod(box.program, 0o755)
    box.start(policy={"groups": ["browser"]}, env={"NODE_PATH": library, "HOME": box.top, "TMPDIR": box.top})
    try:
        yield box
    finally:
        box.server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            box.server.wait(15)
        box.close()
        OPEN.remove(box)
