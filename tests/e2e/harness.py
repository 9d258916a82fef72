"""tests/e2e/harness.py: an engine of its own for a test, and what the machine held before and after.

    with Engine() as engine:          # `abx up --detach` in a scratch state folder, `abx down` at the end
        engine.abx("create", "host")
        engine.env                    # what `abx env` exports, for SDKs

Programs come from $ABX_BUILD (default build/dev). Engine(user="name") runs all of it as that user."""
import fcntl
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ABX_BUILD", os.path.join(ROOT, "build/dev"))
SCRATCH = re.compile(r"abx[a-z0-9-]*-[A-Za-z0-9_]{6,8}")  # mkdtemp folders of test suites that run beside us
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
STATES = set()  # state folders of the engines of this run; empty: all engines of the machine are looked at
REPORT = re.compile(rb"ERROR: (?:Address|Leak|Thread)Sanitizer|runtime error:|WARNING: ThreadSanitizer|descriptor left open")


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def clean_environment(home, state):
    """What a fresh login has: no proxies, nothing that names another engine."""
    keep = {k: v for k, v in os.environ.items()
            if k.lower() not in PROXIES and not k.startswith(("E2B_", "ABX_", "XDG_"))}
    return {**keep, "HOME": home, "ABX_STATE": state, "PATH": f"{BUILD}/bin:{keep.get('PATH', '/usr/bin:/bin')}"}


class Engine:
    def __init__(self, user=None, up_arguments=()):
        self.user, self.up_arguments, self.env = user, list(up_arguments), {}
        self.top = tempfile.mkdtemp(prefix="abx-e2e-")
        self.state, self.home = os.path.join(self.top, "state"), os.path.join(self.top, "home")
        os.mkdir(self.home)
        STATES.add(self.state)
        if user:
            entry = pwd.getpwnam(user)
            for path in (self.top, self.home):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        self.base = clean_environment(self.home, self.state)

    def run(self, command, check=True, timeout=60, **options):
        """Runs a program in the engine's environment as its user; gives the CompletedProcess (bytes)."""
        identity = {}
        if self.user:
            entry = pwd.getpwnam(self.user)
            identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": self.home}
        done = subprocess.run(command, env={**self.base, **self.env}, timeout=timeout, capture_output=True,
                              **{"stdin": subprocess.DEVNULL, **identity, **options})
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done

    def abx(self, *arguments, **options):
        return self.run([f"{BUILD}/bin/abx", *arguments], **options)

    def up(self):
        self.env = {}  # an engine that starts again may find its port taken: nothing may name the old one
        self.abx("up", "--detach", *self.up_arguments)
        shown = self.run(["bash", "-c", 'eval "$(abx env)" && env -0'])
        pairs = (p.decode().split("=", 1) for p in shown.stdout.split(b"\0") if b"=" in p)
        self.env = {k: v for k, v in pairs if k.startswith(("E2B_", "ABX_"))}

    def pid(self):
        found = re.search(rb'"pid"\s*:\s*(\d+)', read(os.path.join(self.state, "abxd.json")))
        return int(found.group(1)) if found else None

    def kill_engine(self):
        """kill -9 of the engine, as a crash."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), "the engine died")

    def down(self):
        self.abx("down", timeout=120)

    def reports(self):
        """Sanitizer reports in any file below the state folder: (path, last lines)."""
        for folder, folders, names in os.walk(self.state):
            if folder == self.state:
                folders[:] = [name for name in folders if name != "layers"]  # what is in images is not ours
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 1 << 24:
                    data = read(path)
                    if not data.startswith(b"\x7fELF") and REPORT.search(data):
                        yield path, data[-4000:].decode(errors="replace")

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        pid = self.pid()
        try:
            self.down()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as e:
            if pid and is_alive(pid):
                raise AssertionError(f"abx down failed, the engine {pid} still runs: {e}") from e
        reports = list(self.reports())
        shutil.rmtree(self.top, ignore_errors=True)
        if os.path.exists(self.top):  # without root: layers belong to this account's range of ids
            subprocess.run(["unshare", "--map-auto", "--map-root-user", "rm", "-rf", self.top], check=False, capture_output=True)
        if reports:
            raise AssertionError("sanitizer reports:\n" + "\n".join(f"{p}:\n{t}" for p, t in reports))


def is_sanitized():
    """Whether the programs were built with sanitizers: freed memory then stays for a while by design."""
    return re.search(rb"^ABX_SANITIZE:\w+=.", read(os.path.join(BUILD, "CMakeCache.txt")), re.M) is not None


def is_alive(pid):
    state = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def until(test, what, seconds=10):
    """Polls until @test gives true; gives its value."""
    ends = time.monotonic() + seconds
    while not (value := test()):
        if time.monotonic() > ends:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return value


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def cgroup_name(state):
    """host/runtime/cgroup.c: FNV-1a of the state folder."""
    h = 14695981039346656037
    for byte in state.encode():
        h = (h ^ byte) * 1099511628211 & (1 << 64) - 1
    return f"abx-{h:016x}"


def is_ours(pid, executable):
    """Programs of this build: outside a sandbox by path, inside by the size of the guest."""
    if "/.fce2b/" in executable:
        return size_of(f"/proc/{pid}/exe") == size_of(f"{BUILD}/bin/abx-guest")
    return executable.startswith((f"{BUILD}/bin/", *(f"{state}/" for state in STATES)))


def look_at_processes():
    """(namespaces, processes); what lives in a sandbox of another build beside us is not looked at."""
    seen = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            executable = os.readlink(f"/proc/{pid}/exe")
            spaces = {k: os.readlink(f"/proc/{pid}/ns/{k}") for k in os.listdir(f"/proc/{pid}/ns")}
        except OSError:
            continue
        if "pid" in spaces:  # one that is just dying has none any more
            seen.append((pid, executable, spaces))
    foreign = {spaces["pid"] for pid, executable, spaces in seen if "/.fce2b/" in executable and not is_ours(pid, executable)}
    namespaces, processes = set(), set()
    for pid, executable, spaces in seen:
        if spaces["pid"] not in foreign:
            namespaces |= set(spaces.values())
        if is_ours(pid, executable):
            processes.add((int(pid), executable))
    return namespaces, processes


def ids_are_locked():
    """Whether a sandbox of any engine holds its slot (host/runtime/slots.c): then the file belongs there."""
    try:
        with open("/run/abx/ids", "r+b") as f:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            return struct.unpack("hhqqi4x", fcntl.fcntl(f, 36, asked))[0] != fcntl.F_UNLCK  # F_OFD_GETLK
    except OSError:
        return os.path.exists("/run/abx/ids") and os.geteuid() != 0


def world():
    """What must not grow: mounts, our cgroups, namespaces, our processes, files in shared folders."""
    mounts = {line.split(b" ")[4].decode() for line in read("/proc/self/mountinfo").splitlines()}
    names = {cgroup_name(state) for state in STATES}
    cgroups = {os.path.join(d, n) for d, found, _ in os.walk("/sys/fs/cgroup") for n in found
               if n.startswith("abx") and (not names or n in names)}
    namespaces, processes = look_at_processes()
    busy = {"/run/abx"} if ids_are_locked() else set()
    files = {os.path.join(d, n) for d in ("/tmp", "/run", "/var/lib", os.path.expanduser("~"))
             for n in os.listdir(d) if ("abx" in n or "fce2b" in n) and not SCRATCH.fullmatch(n)} - busy
    return {"mounts": mounts, "cgroups": cgroups, "namespaces": namespaces, "processes": processes, "files": files}


def leftovers(before):
    """What is there now and was not at @before, by kind; empty when clean."""
    now = world()
    return {kind: sorted(map(str, now[kind] - before[kind])) for kind in now if now[kind] - before[kind]}


class Suite:
    """Named checks, printed as they end: suite.check("name", function); suite.end() gives the exit code."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, function, *arguments):
        began = time.monotonic()
        try:
            function(*arguments)
        except Exception as error:  # whatever it is, it is this check's failure
            self.failed += 1
            print(f"not ok {name}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
            return False
        self.passed += 1
        print(f"ok {name} ({time.monotonic() - began:.2f} s)", flush=True)
        return True

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0
