"""tests/compat/py/provider.py: every public method of the published ProviderSandbox, both flavours, through our provider
`abx` (tests/e2e/wheels installs it beside the client), and its exceptions. cNN_... as in server_errors.py."""
import asyncio
import json
import os
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_sandbox import ProviderSandbox  # noqa: E402
from agent_sandbox.api import commands, files, network, sandbox, server_client  # noqa: E402
from agent_sandbox.models import errors  # noqa: E402
import checks  # noqa: E402
from checks import check, claim, equal, run_all, until  # noqa: E402
from driver import DONE, Driver, awaited, public_methods  # noqa: E402

TOKEN = "token-of-the-provider-tests-0123456789"
BASE, KEY = os.environ["ABX_SANDBOX_BASE_URL"], os.environ["ABX_SANDBOX_API_KEY"]
COMMANDS = '''
from agent_sandbox.server import command


@command("greet")
def greet(name: str = "world"):
    return f"Hello, {name}!"
'''
CLASSES = [ProviderSandbox, files.FilesModule, commands.CommandsModule, network.NetworkModule]
# Methods that the manifest of our provider does not declare, and the package refuses without a request (E8004).
UNDECLARED = {("Sandbox", name + flavour) for name in ("pause", "resume", "run_code") for flavour in ("", "_sync")}
# Signed addresses, which the package itself never makes (E4000).
NO_URLS = {(c, name + flavour) for c, names in (("Sandbox", ("download_url", "upload_url", "get_download_url", "get_upload_url")),
                                                ("FilesModule", ())) for name in names for flavour in ("", "_sync")}
INTERPRETER = {("Sandbox", "code")}  # needs a template with the interpreter: tests/compat/interpreter
# Classes of the package that no call of a ProviderSandbox makes of an answer, and why; server_errors.py has those of a server.
OF_A_SERVER = {"ServerAPIError", "CommandNotFoundError", "CommandArgumentError", "CommandExecutionError", "PolicyDeniedError",
               "FilePolicyDeniedError", "EndpointNotAvailableError", "PayloadTooLargeError", "RateLimitedError"}
BASES = {"SandboxError", "AuthenticationError", "ExecutionError", "NetworkError", "SessionError", "CapabilityNotSupportedError"}
NOT_SENT = {
    "PermissionDeniedError": "a user's files that may not be read are 401 or 400 of envd, as E2B's; 403 is never sent",
    "QuotaExceededError": "needs a full engine: tests/e2e/wheels",
    "InvalidCredentialsError": "keys of a cloud", "TokenExchangeError": "keys of a cloud", "RegionUnavailableError": "a region of a cloud",
    "TemplateParseError": "a file", "ProcessError": "raised by nothing", "CodeExecutionError": "needs run_code, which is undeclared (E8004)",
    "SessionNotFoundError": "a file", "SessionAlreadyExistsError": "a file", "GitHubRateLimitError": "an answer of GitHub",
    **{f"Provider{n}Error": "plug-ins and their processes on this machine" for n in
       ("", "NotFound", "Config", "Conflict", "ResourceNotFound", "Install", "Integrity", "Trust", "Version", "Manifest", "Protocol",
        "Process", "Timeout", "Mismatch")},
}
RAISED = set()  # names of the classes that a check has seen
made = []


def refused(make, error_class, pattern="."):
    error = checks.refused(make, error_class, pattern)
    RAISED.add(type(error).__name__)
    return error



def of_class(mode):
    return Driver(ProviderSandbox, mode, "agent_sandbox.api")


def both(function):
    """Adds a check of each flavour, each with one sandbox for all of its checks."""
    for mode in ("async", "sync"):
        def run(mode=mode):
            function(boxes[mode], mode)
        run.__name__ = f"{mode}_{function.__name__}"
        check(run)
    return function


def call_class(mode, name, *args, **options):
    """A method of the class itself; noted as the others are."""
    name += "_sync" if mode == "sync" else ""
    value = awaited(getattr(ProviderSandbox, name)(*args, **options))
    DONE.add(("Sandbox", name))
    return value


boxes, asynchronous = {}, {}  # a synchronous object is for synchronous calls: the rest goes by another one


def create(mode):
    made.append(call_class(mode, "create", template="host", timeout=300, metadata={"mode": mode}, envs={"AT_CREATE": "é"}))
    boxes[mode] = Driver(made[-1], mode, "agent_sandbox.api")
    asynchronous[mode] = made[-1] if mode == "async" else awaited(ProviderSandbox.connect(made[-1].id))


@check
def async_create():
    create("async")


@check
def sync_create():
    create("sync")


@both
def what_it_is(box, mode):
    equal((box.provider, box.is_running(), box.status.value), ("abx", True, "running"))
    claim(box.id and box.info.sandbox_id == box.id and box.url and box.capabilities and box.operations, "attributes")
    equal(box.refresh_info().metadata["mode"], mode)
    box.set_timeout(200)
    equal(call_class(mode, "get_info_by_id", box.id).sandbox_id, box.id)
    call_class(mode, "set_timeout_by_id", box.id, 300)
    claim(box.id in [s.sandbox_id for s in call_class(mode, "list", limit=100)], "it is listed")
    other = call_class(mode, "connect", box.id)
    other = Driver(other, mode, "agent_sandbox.api")
    equal(other.commands.run("echo $AT_CREATE", shell=True).stdout, "é\n")
    other.close()


@both
def commands_run(box, _mode):
    done = box.commands.run("echo out; echo err >&2; exit 3")
    equal((done.stdout, done.stderr, done.exit_code), ("out\n", "err\n", 3))
    equal(box.commands.run("printenv A", env={"A": "x y"}).stdout, "x y\n")
    equal(box.commands.run("pwd", cwd="/tmp").stdout, "/tmp\n")
    equal(box.commands.run("whoami", user="root").stdout, "root\n")
    seen = []
    box.commands.run("echo a; echo b", on_stdout=seen.append)
    equal("".join(seen), "a\nb\n")
    claim(any("a" in str(chunk) for chunk in box.commands.stream("echo a")), "chunks")
    equal(box.commands.run("/no/such/program").exit_code, 127)
    equal(len(box.commands.run(f"printf %s {'x' * 96000}").stdout), 96000)


@both
def commands_in_the_background(box, mode):
    """A list of the package has process numbers only: the first chunk of a stream tells which one it is."""
    readers = []

    def is_there(pid):
        return pid in [p.pid for p in box.commands.list()]

    def start(text):
        readers.append(awaited(asynchronous[mode].commands.start(text)))
        pid = awaited(readers[-1].__anext__()).pid  # it starts when somebody reads
        claim(is_there(pid), f"{pid} is not listed")
        return pid

    for end in (lambda pid: box.commands.send_signal(pid, 15), box.commands.kill):
        pid = start("sleep 300")
        end(pid)
        until(lambda pid=pid: not is_there(pid), "it ended")
    # the package starts everything without stdin, so that its own input is refused
    pid = start("sleep 300")
    equal(refused(lambda: box.commands.send_input(pid, "typed"), errors.EnvdRpcError, "stdin").code, "E3006")
    box.commands.kill(pid)
    DONE.add(("CommandsModule", "send_input" if mode == "async" else "send_input_sync"))
    DONE.add(("CommandsModule", "start"))


@both
def files_of_a_sandbox(box, mode):
    here = os.path.join(os.environ["HOME"], "here")
    box.files.make_dir("/home/user/top")
    box.files.write("/home/user/top/a.txt", "text é")
    box.files.write("/home/user/top/b.bin", b"\0\xff")
    equal((box.files.read("/home/user/top/a.txt"), box.files.read_bytes("/home/user/top/b.bin", max_bytes=100)), ("text é", b"\0\xff"))
    equal(sorted(f.name for f in box.files.list("/home/user/top")), ["a.txt", "b.bin"])
    equal(box.files.get_info("/home/user/top/a.txt").size, 7)
    box.files.move("/home/user/top/b.bin", "/home/user/top/c.bin")
    equal((box.files.exists("/home/user/top/b.bin"), box.files.exists("/home/user/top/c.bin")), (False, True))
    with open(here, "wb") as f:
        f.write(b"local")
    box.files.upload(here, "/home/user/top/up")
    box.files.download("/home/user/top/up", here + ".back")
    with open(here + ".back", "rb") as f:
        equal(f.read(), b"local")
    claim("/files?" in box.files.upload_url("/home/user/x") and "/files?" in box.files.download_url("/home/user/x"), "addresses")
    box.files.remove("/home/user/top")
    equal(box.files.exists("/home/user/top"), False)


@check
def async_files_watch():
    async def watch():
        reader = await made[0].files.watch("/tmp")
        timer = asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(made[0].files.write("/tmp/watched", "x")))
        async for event in reader:
            if event.path.endswith("watched"):
                timer.cancel()
                return event.type
    equal(awaited(watch()), "created")
    DONE.add(("FilesModule", "watch"))


@both
def ports(box, _mode):
    where = f"{BASE}/.p/{box.id}/9000"
    equal((box.network.get_url(9000), box.network.resolve_url(9000), box.network.resolve(9000)[0]), (where, where, where))
    equal(box.network.get_host(9000), where.split("://")[1])
    equal((box.network.get_access_headers(), box.network.get_server_headers()), ({}, {}))


@both
def a_server(box, mode):
    port = 9100 if mode == "async" else 9200
    box.files.write("/home/user/commands.py", COMMANDS)
    server = awaited(asynchronous[mode].start_server(port=port, token=TOKEN, commands="/home/user/commands.py"))
    DONE.add(("Sandbox", "start_server"))
    equal(awaited(server.commands.run("greet", name="世界")), "Hello, 世界!")
    for client in (box.server_at(port, token=TOKEN), box.application_client(port, token=TOKEN)):
        equal(client.discover().target.identity_id, "server")
    refused(lambda: box.server_at(port).commands.list(), errors.ServerAuthError)


@both
def a_server_without_a_token(box, mode):
    """c40: nobody sets one, so there is none; its port is the usual one."""
    box.files.write("/home/user/commands.py", COMMANDS)
    awaited(asynchronous[mode].start_server(commands="/home/user/commands.py", policy={"preset": "default"}))
    equal([c.name for c in box.list_commands()], ["greet"])
    equal(box.run("greet", name="x"), "Hello, x!")
    equal(box.server.commands.run("greet"), "Hello, world!")


@check
def async_terminal():
    async def shell():
        term = await made[0].get_terminal(cols=90, rows=30)
        await term.send("stty size; echo m-$((40+2))\n")
        text, ends = "", time.monotonic() + 20
        while ("30 90" not in text or "m-42" not in text) and time.monotonic() < ends:
            got = await term.receive(timeout=20)
            text += got if isinstance(got, str) else got.decode(errors="replace")
        await term.resize(100, 40)
        await term.close()
        return text
    text = awaited(shell())
    claim("30 90" in text and "m-42" in text, text)
    DONE.add(("Sandbox", "get_terminal"))


@both
def what_the_package_refuses(box, _mode):
    for call in (box.pause, box.resume, lambda: box.run_code("1")):
        equal(refused(call, errors.ProviderFeatureNotSupportedError).code, "E8004")
    for name in ("download_url", "upload_url", "get_download_url", "get_upload_url"):
        refused(lambda name=name: getattr(box, name)("/x"), errors.SandboxError)


# --- errors ---
def with_key(key, **options):
    return lambda: awaited(ProviderSandbox.create(template="host", sandbox_api_key=key, **options))


@check
def errors_of_the_api():
    equal(refused(lambda: awaited(ProviderSandbox.create(template="nosuch")), errors.TemplateNotFoundError).code, "E2001")
    equal(refused(with_key("e2b_" + "a" * 40), errors.InvalidAPIKeyError).code, "E1001")
    equal(refused(lambda: awaited(ProviderSandbox.connect("i0000000000000000none")), errors.SandboxNotFoundError).code, "E2009")
    equal(refused(with_key(KEY, sandbox_base_url="http://127.0.0.1:1"), errors.ConnectionError_).code, "E5001")
    equal(refused(lambda: awaited(ProviderSandbox.create(template="host", gpu="1")), errors.SandboxCreationError, "gpu").code, "E2000")


@both
def errors_of_envd(box, _mode):
    equal(refused(lambda: box.files.read("/nosuch"), errors.FileNotFoundError_).code, "E4001")
    refused(lambda: box.files.list("/etc/hostname"), errors.FileOperationError)
    equal(refused(lambda: box.commands.run("sleep 300", timeout=1), errors.CommandTimeoutError).code, "E3001")
    equal(refused(lambda: box.commands.kill(3_999_999), errors.EnvdRpcError).code, "E3006")


@check
def errors_of_a_start():
    equal(refused(lambda: awaited(made[0].start_server(port=9300, policy="nosuch", timeout=20)), errors.ConnectionError_).code, "E5001")
    refused(lambda: awaited(made[0].start_server(port=9100, commands="/nosuch.py", timeout=10, token=TOKEN, command="false")), errors.ConnectionError_)


@both
def errors_of_sizes(box, _mode):
    box.files.write("/tmp/five", "12345")
    equal(refused(lambda: box.files.read_bytes("/tmp/five", max_bytes=4), errors.FileSizeLimitError).code, "E4003")


@check
def error_of_a_sandbox_without_a_token():
    """The built-in provider knows no envd without one."""
    status, plain = api("POST", "/sandboxes", {"templateID": "host", "timeout": 60, "secure": False}, BEARER)
    equal(status, 201)
    other = awaited(ProviderSandbox.connect(plain["sandboxID"], provider="alicloud-express"))
    equal(refused(lambda: awaited(other.files.read("/etc/hostname")), errors.TokenExpiredError).code, "E1002")
    equal(api("DELETE", f"/sandboxes/{plain['sandboxID']}", headers=BEARER)[0], 204)


# --- the checklist ---
def api(method, path, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, {**({"Content-Type": "application/json"} if data else {}), **(headers or {})}, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        answer = opener.open(request, timeout=60)
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def status_of(path, headers):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return opener.open(urllib.request.Request(BASE + path, headers=headers), timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


BEARER = {"Authorization": f"Bearer {KEY}"}


@check
def c01_bearer_is_the_key():
    equal((api("GET", "/sandboxes", headers=BEARER)[0], api("GET", "/sandboxes", headers={"X-API-KEY": KEY})[0]), (200, 200))
    equal((api("GET", "/sandboxes", headers={"Authorization": "Bearer no"})[0], api("GET", "/sandboxes")[0]), (401, 401))


@check
def c02_c03_the_token_of_v1():
    status, new = api("POST", "/sandboxes", {"templateID": "host", "timeout": 60}, BEARER)
    equal((status, bool(new["envdAccessToken"])), (201, True))
    info = api("GET", f"/sandboxes/{new['sandboxID']}", headers=BEARER)[1]
    equal((info["envdAccessToken"], info["state"], info["metadata"]), (new["envdAccessToken"], "running", {}))
    envd = {"E2b-Sandbox-Id": new["sandboxID"], "E2b-Sandbox-Port": "49983", "Authorization": "Basic dXNlcjo="}
    path = "/files?path=/etc/hostname"
    equal(api("GET", path, headers=envd)[0], 401)
    equal(api("DELETE", f"/sandboxes/{new['sandboxID']}", headers=BEARER)[0], 204)
    status, new = api("POST", "/sandboxes", {"templateID": "host", "timeout": 60, "secure": False}, BEARER)
    equal((status, new.get("envdAccessToken")), (201, None))
    equal(api("DELETE", f"/sandboxes/{new['sandboxID']}", headers=BEARER)[0], 204)


@check
def c05_list_takes_limit_offset_status():
    every = api("GET", "/sandboxes?limit=100&offset=0&status=running", headers=BEARER)[1]
    claim(len(every) >= 2, f"{len(every)}")
    pages = [api("GET", f"/sandboxes?limit=1&offset={n}", headers=BEARER)[1] for n in (0, 1)]
    equal([len(page) for page in pages], [1, 1])
    claim(pages[0][0]["sandboxID"] != pages[1][0]["sandboxID"], "the offset counts")


@check
def c06_pause_and_resume_without_a_body():
    """Pausing is not built: it says so, and is not a complaint about the body."""
    status, said = api("POST", f"/sandboxes/{made[0].id}/pause", headers=BEARER)
    equal(status, 501)
    claim("not built" in said["message"], said)


@check
def c08_bodies_carry_a_message():
    for status, answer in (api("POST", "/sandboxes", {"templateID": "nosuch"}, BEARER), api("GET", "/sandboxes"), api("GET", "/sandboxes/nosuch0", headers=BEARER)):
        claim(status >= 400 and answer["message"], f"{status} {answer}")


@check
def c09_envd_url():
    """The built-in provider, which knows nothing of us, by plain http (W3)."""
    equal(api("GET", f"/sandboxes/{made[0].id}", headers=BEARER)[1]["envdUrl"], BASE)
    plain = awaited(ProviderSandbox.create(template="host", provider="alicloud-express", secure=False))
    equal(awaited(plain.commands.run("echo hi")).stdout, "hi\n")
    awaited(plain.files.write("/tmp/x", "plain"))
    equal(awaited(plain.files.read("/tmp/x")), "plain")
    awaited(plain.kill())


@check
def c13_path_before_headers():
    token = {"X-Access-Token": api("GET", f"/sandboxes/{made[0].id}", headers=BEARER)[1]["envdAccessToken"], "Authorization": "Basic dXNlcjo="}
    path = f"/.p/{made[0].id}/49983/files?path=/nosuch"
    same = {**token, "E2b-Sandbox-Id": made[0].id, "E2b-Sandbox-Port": "49983"}
    equal((status_of(path, same), status_of(path, {**same, "E2b-Sandbox-Port": "1234"})), (404, 400))


@check
def c16_a_closed_port_says_error_too():
    status, said = api("GET", f"/.p/{made[0].id}/7777/x")
    equal((status, said["error"]), (502, said["message"]))


@check
def c17_environment_of_both_families():
    for name in ("E2B_API_KEY", "E2B_API_URL", "E2B_DOMAIN", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL", "ABX_SANDBOX_API_KEY", "ABX_SANDBOX_BASE_URL",
                 "ABX_SANDBOX_DOMAIN", "ABX_HTTP_TIMEOUT"):
        claim(os.environ.get(name), f"abx env does not print {name}")


@both
def z_kill(box, mode):
    box.kill()
    other = call_class(mode, "create", template="host", timeout=60)
    call_class(mode, "kill_by_id", other.id)
    refused(lambda: call_class(mode, "connect", other.id), errors.SandboxNotFoundError)


@check
def every_error_class_was_raised():
    there = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)}
    claim(len(there) > 40, f"{len(there)} classes")
    equal(sorted(there - RAISED - OF_A_SERVER - BASES - set(NOT_SENT)), [])
    equal(sorted(RAISED & (OF_A_SERVER | set(NOT_SENT))), [])


@check
def every_public_method_was_driven():
    """By what the package has; what is refused was called in what_the_package_refuses."""
    there = public_methods(*CLASSES)
    claim(len(there) > 80, f"{len(there)} methods")
    synchronous = {(c, n) for c, n in there if n == "get_terminal_sync"}  # a terminal of the loop that is already over
    equal(sorted(there - DONE - UNDECLARED - NO_URLS - INTERPRETER - synchronous), [])


run_all()
