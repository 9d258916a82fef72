"""bench/sandboxes.py: what `create`, `exec` and `size` measure: an engine of ours, requests to it, and its peers."""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from urllib.parse import urlsplit

from measure import BUILD, HERE, NODE, ROOT, Skipped, program

os.environ["ABX_BUILD"] = BUILD
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from harness import Engine  # noqa: E402
from rpc import Sandbox  # noqa: E402,F401

TRUE = "/usr/bin/true"


def need_engine():
    if not os.path.exists(os.path.join(BUILD, "bin/abx")):
        raise Skipped(f"{BUILD}/bin/abx is not built")


def envelope(message):
    payload = json.dumps(message).encode()
    return b"\0" + len(payload).to_bytes(4, "big") + payload


class Api:
    """Requests to an engine as files for bench/load.c, and one-off calls."""

    def __init__(self, engine, top):
        url = urlsplit(engine.env["E2B_API_URL"])
        self.host, self.port, self.key, self.top = url.hostname, url.port, engine.env["E2B_API_KEY"], top

    def request_file(self, method, path, headers, body):
        fields = {"Host": f"{self.host}:{self.port}", "Content-Length": len(body), **headers}
        name = os.path.join(self.top, f"request-{len(os.listdir(self.top))}")
        with open(name, "wb") as f:
            f.write(f"{method} {path} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in fields.items())
                    + b"\r\n" + body)
        return name

    def load(self, request, count, at_once, status, marker="", bodies=None):
        """(microseconds of each answer, rate per second)"""
        if bodies is None:
            return program("load", self.host, self.port, request, count, at_once, status, marker)
        # bodies: a file for descriptor 3 of load
        saved = os.dup(3) if os.path.exists("/proc/self/fd/3") else None
        os.dup2(bodies.fileno(), 3, inheritable=True)
        try:
            return program("load", self.host, self.port, request, count, at_once, status, marker, pass_fds=(3,))
        finally:
            os.close(3) if saved is None else os.dup2(saved, 3)

    def create_request(self):
        body = json.dumps({"templateID": "host", "timeout": 300, "secure": True}).encode()
        return self.request_file("POST", "/sandboxes", {"X-API-Key": self.key, "Content-Type": "application/json"}, body)

    def create(self, request, count, at_once=1):
        """Makes sandboxes: (microseconds of each, the answers)."""
        with tempfile.TemporaryFile() as bodies:
            samples, rate = self.load(request, count, at_once, 201, "sandboxID", bodies)
            bodies.seek(0)
            return samples, [json.loads(line) for line in bodies.read().splitlines() if line]

    def kill(self, sandbox):
        request = self.request_file("DELETE", f"/sandboxes/{sandbox['sandboxID']}", {"X-API-Key": self.key}, b"")
        self.load(request, 1, 1, 204)

    def start_request(self, sandbox, command, *arguments, user=b"user"):
        headers = {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": 49983, "Content-Type": "application/connect+json",
                   "Connect-Protocol-Version": 1, "Authorization": "Basic " + base64.b64encode(user + b":").decode()}
        if sandbox.get("envdAccessToken"):
            headers["X-Access-Token"] = sandbox["envdAccessToken"]
        message = {"process": {"cmd": command, "args": list(arguments)}, "stdin": False}
        return self.request_file("POST", "/process.Process/Start", headers, envelope(message))


@contextmanager
def running_engine():
    need_engine()
    with Engine() as engine, tempfile.TemporaryDirectory(prefix="abx-bench-") as top:
        yield engine, Api(engine, top)


def sdk_module():
    with open(os.path.join(ROOT, "tests/compat/pins.txt")) as f:
        version = [line.split()[2] for line in f if line.startswith("npm e2b ")][-1]
    path = os.path.join(ROOT, f"build/deps/js/{version}/node_modules/e2b/dist/index.mjs")
    if not NODE or not os.path.exists(path):
        raise Skipped("no node or npm e2b: run make setup")
    return path


def sdk(engine, mode, count):
    """Runs bench/sdk.mjs; gives milliseconds."""
    path = sdk_module()
    done = engine.run([NODE, os.path.join(HERE, "sdk.mjs"), path, mode, str(count)], timeout=300)
    return [float(line) for line in done.stdout.split()]


def sdk_floor(mode, count):
    """The same against a server that answers at once: what the SDK itself takes."""
    path = sdk_module()
    server = subprocess.Popen([NODE, os.path.join(HERE, "sdk_floor.mjs")], stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        env = {k: v for k, v in os.environ.items() if not k.startswith("E2B_")}
        env.update(E2B_API_URL=url, E2B_SANDBOX_URL=url, E2B_API_KEY="e2b_" + "0" * 40)
        done = subprocess.run([NODE, os.path.join(HERE, "sdk.mjs"), path, mode, str(count)], env=env, timeout=300, check=True,
                              capture_output=True, text=True)
        return [float(line) for line in done.stdout.split()]
    finally:
        server.terminate()
        server.wait()


def in_ms(result):
    return [us / 1000 for us in result[0]]


def spawned(count, *command, at_once=1):
    """Milliseconds that posix_spawn and wait of a command take."""
    if not shutil.which(command[0]):
        raise Skipped(f"{command[0]} is not installed")
    with tempfile.TemporaryDirectory(prefix="abx-bench-home-") as home:  # a login shell reads root's own profile else
        return in_ms(program("spawn", count, at_once, *command, env={"PATH": os.environ["PATH"], "HOME": home}))


# The host's own system directories, read-only: what our template `host` shows.
SYSTEM = [d for d in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc") if os.path.exists(d)]


def bwrap_command(*command):
    binds = []
    for path in SYSTEM:
        binds += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    return ["bwrap", "--unshare-all", "--die-with-parent", *binds, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", *command]


class Runc:
    """A runc bundle over the same directories."""

    def __init__(self, top):
        if not shutil.which("runc"):
            raise Skipped("runc is not installed")
        self.bundle, self.root = os.path.join(top, "bundle"), os.path.join(top, "runc")
        rootfs = os.path.join(self.bundle, "rootfs")
        os.makedirs(rootfs)
        subprocess.run(["runc", "spec"], cwd=self.bundle, check=True)
        with open(os.path.join(self.bundle, "config.json")) as f:
            self.config = json.load(f)
        for path in SYSTEM:
            if os.path.islink(path):
                os.symlink(os.readlink(path), rootfs + path)
            else:
                os.mkdir(rootfs + path)
                self.config["mounts"].append({"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]})
        for name in ("proc", "dev", "sys", "tmp"):
            os.mkdir(f"{rootfs}/{name}")
        self.config["process"]["terminal"] = False

    def command(self, *arguments):
        return ["runc", "--root", self.root, *arguments]

    def set_program(self, *command):
        self.config["process"]["args"] = list(command)
        with open(os.path.join(self.bundle, "config.json"), "w") as f:
            json.dump(self.config, f)

    def run_samples(self, count, *command):
        self.set_program(*command)
        return spawned(count, *self.command("run", "--bundle", self.bundle, f"abx-bench-{os.getpid()}"))

    @contextmanager
    def running(self):
        """A container that sleeps; gives its name."""
        name = f"abx-bench-exec-{os.getpid()}"
        self.set_program("/usr/bin/sleep", "3600")
        subprocess.run(self.command("run", "-d", "--bundle", self.bundle, name), check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
        try:
            yield name
        finally:
            subprocess.run(self.command("delete", "--force", name), timeout=30, stdout=subprocess.DEVNULL)
