"""tests/compat/py/server_errors.py: every exception of the published ServerClient, provoked by an answer of our server.

cNN_... are the checks of that number of the published client's checklist (docs/compatibility.md)."""
import json
import os
import subprocess

import servers
from agent_sandbox.api import server_client
from agent_sandbox.models import errors
from checks import check, claim, equal, refused
from driver import awaited

CLASSES = {c for n, c in vars(server_client).items() if isinstance(c, type) and c.__module__ == errors.__name__}
box = servers.strict()
wide = servers.noting_client(box, servers.WIDE)
narrow = servers.client(box, servers.NARROW)
nobody = servers.client(box, None)
seen = set()


def inside(name):
    return os.path.join(box.base, name)


def twice(call):
    awaited(call())
    return awaited(call())


# name, class, code, what is called, fields that the exception must have
ROWS = [
    ("no_token", errors.ServerAuthError, "E9001", lambda: nobody.files.list(box.base), {"status_code": 401}),
    ("wrong_token", errors.ServerAuthError, "E9001", lambda: servers.client(box, "x" * 32).files.list(box.base), {"status_code": 401}),
    ("missing_scope", errors.PolicyDeniedError, "E9002", lambda: narrow.process.shell("true"),
     {"status_code": 403, "scope": "process:run", "endpoint": "shell", "error_code": "missing_scope"}),
    ("path_not_allowed", errors.FilePolicyDeniedError, "E9002", lambda: wide.files.list("/etc"), {"error_code": "path_not_allowed"}),
    ("path_denied", errors.FilePolicyDeniedError, "E9002", lambda: wide.files.download(inside("secret.txt")), {"error_code": "path_denied"}),
    ("read_only", errors.FilePolicyDeniedError, "E9002", lambda: wide.files.mkdir(inside("x")), {"error_code": "read_only"}),
    ("symlink_denied", errors.FilePolicyDeniedError, "E9002", lambda: wide.files.stat(inside("link")), {"error_code": "symlink_denied"}),
    ("extension", errors.FilePolicyDeniedError, "E9002", lambda: wide.files.upload(inside("a.exe"), "x"), {"error_code": "extension_not_allowed"}),
    ("file_exists", errors.FilePolicyDeniedError, "E9002", lambda: wide.files.upload(inside("there"), "x"),
     {"error_code": "file_exists", "status_code": 409}),
    ("disabled", errors.EndpointNotAvailableError, "E9003", lambda: wide.system.packages(), {"rule": "policy:endpoints.packages", "status_code": 404}),
    ("opt_in", errors.EndpointNotAvailableError, "E9003", lambda: wide.devtools.git_status(box.base), {"rule": "default:opt-in:dev_tools"}),
    ("missing_file", errors.FileNotFoundError_, "E4001", lambda: wide.files.download(inside("nothing")), {}),
    ("too_large", errors.PayloadTooLargeError, "E9004", lambda: wide.files.upload(inside("big"), b"x" * 1001), {"limit": 1000, "status_code": 413}),
    ("rate", errors.RateLimitedError, "E9005", lambda: wide.system.info(), {"status_code": 429}),
    ("time", errors.CommandTimeoutError, "E3001", lambda: wide.process.shell("sleep 300", timeout=1), {}),
    ("unknown_command", errors.CommandNotFoundError, "E3005", lambda: wide.commands.run("none"), {}),
    ("wrong_argument", errors.CommandArgumentError, "E9000", lambda: wide.commands.run("greet", nam="x"), {"status_code": 400}),
    ("command_raises", errors.CommandExecutionError, "E9000", lambda: wide.commands.run("broken"), {"error_type": "LookupError", "status_code": 500}),
    ("other", errors.ServerAPIError, "E9000", lambda: wide.process.get(3_999_999), {"status_code": 404}),
    ("no_connection", errors.ConnectionError_, "E5001", lambda: server_client.ServerClient("http://127.0.0.1:1").files.list("/"), {}),
]


def row(name, kind, code, call, fields):
    def run():
        if name == "rate":
            awaited(call())
        error = refused(lambda: awaited(call()), errors.SandboxError)
        equal((type(error), error.code), (kind, code))
        equal({key: getattr(error, key) for key in fields}, fields)
        claim(str(error), "a text")
        if name == "rate":
            claim(0 < error.retry_after <= 60, f"retry after {error.retry_after}")
        seen.add(kind)
    run.__name__ = f"error_{name}"
    check(run)


for fields_of_row in ROWS:
    row(*fields_of_row)


@check
def every_error_class_was_provoked():
    """Those that the package's own module can raise."""
    claim(len(CLASSES) >= 13, "the classes are found")
    equal(sorted(c.__name__ for c in CLASSES - seen), [])


@check
def no_connection_is_no_health():
    equal(awaited(server_client.ServerClient("http://127.0.0.1:1").health()), False)


@check
def after_discovery_they_come_before_the_wire():
    """A second server that only the discovery was asked of: what is refused then left no answer."""
    other = servers.noting_client(box, servers.WIDE)
    awaited(other.discover())
    count = len(servers.ANSWERS)
    refused(lambda: awaited(other.system.packages()), errors.EndpointNotAvailableError)
    refused(lambda: awaited(other.files.upload(inside("big"), b"x" * 1001)), errors.PayloadTooLargeError)
    equal(len(servers.ANSWERS), count)
    awaited(narrow.discover())
    refused(lambda: awaited(narrow.process.shell("true")), errors.PolicyDeniedError)
    narrow.forget_discovery()


@check
def c40_no_token_unless_one_is_set():
    with servers.opened() as free:
        anybody = servers.client(free, None)
        equal(awaited(anybody.process.shell("echo hi")).stdout, "hi\n")
        equal(awaited(anybody.discover()).identity_id, "anonymous")


@check
def c41_success_is_a_json_object():
    for call in (lambda: wide.files.upload(inside("c41"), "x"), lambda: wide.files.delete(inside("c41")), lambda: wide.commands.list(),
                 lambda: wide.commands.run("greet"), lambda: wide.system.metrics(), lambda: wide.process.list(), lambda: wide.pty.list()):
        awaited(call())
    made = awaited(wide.pty.create("/bin/sh"))
    awaited(wide.pty.delete(made.session_id))
    good = [a for a in servers.ANSWERS if a[0] < 400]
    claim(len(good) >= 10, f"{len(good)} answers")
    for status, kind, body in good:
        claim(status in (200, 201) and kind.startswith("application/json"), f"{status} {kind}")
        claim(isinstance(json.loads(body), dict), f"{body!r}")


@check
def c42_health_is_open():
    equal((awaited(nobody.health()), awaited(servers.client(box, "wrong" * 8).health())), (True, True))


@check
def c43_discovery_lists_every_id():
    found = awaited(servers.client(box, servers.WIDE).discover())
    equal(found.api_version, 2)
    equal(sorted(set(server_client.ServerClient.ENDPOINT_METHODS) - set(found.endpoints)), [])
    for name, info in found.endpoints.items():
        claim(info.enabled or (info.reason == "endpoint_disabled" and info.rule), f"{name}: off without a reason or rule")
    equal(sum(1 for i in found.endpoints.values() if i.enabled), sum(g["enabled"] for g in found.group_summary.values()))


@check
def c45_a_foreign_access_token_beside_a_good_bearer():
    """As behind a gateway, which keeps X-Access-Token for itself."""
    both = servers.client(box, servers.WIDE, headers={"X-Access-Token": "of-the-gateway"})
    equal(both.auth_headers()["X-Access-Token"], "of-the-gateway")
    equal(awaited(both.discover()).identity_id, "wide")
    awaited(both.files.list(box.base))


@check
def c46_terminals_are_refused_by_the_published_close_codes():
    made = awaited(wide.pty.create("/bin/sh"))
    for who, code in ((nobody, 4001), (servers.client(box, "wrong" * 8), 4001), (narrow, 4003), (wide, None)):
        term = who.pty.connect(made.session_id if code else "none")
        awaited(term.open())
        ws = term._ws  # the package has no name for how a connection ended
        equal(awaited(term.recv(10)), None)
        equal(ws.close_code, code or 1008)
        awaited(term.close())
    awaited(wide.pty.delete(made.session_id))
    gone = server_client.ServerClient("http://127.0.0.1:1", pty_url="ws://127.0.0.1:1")  # not 9001: somebody may be there
    refused(lambda: awaited(gone.pty.connect("x").open()), errors.ConnectionError_)


@check
def c47_a_taken_terminal_port_ends_a_start_only_when_named():
    with servers.opened() as second:  # names its port
        env = {**second.env({}), "ABX_PTY_PORT": str(second.pty_port)}
        for extra in (["--pty-port", str(second.pty_port)], []):
            ended = subprocess.run([second.program, "serve", "--host", "127.0.0.1", "--port", str(servers.RUN.free_port()), *extra],
                                   env=env, capture_output=True, text=True, timeout=15)
            equal(ended.returncode, 1)
            claim(str(second.pty_port) in ended.stderr, ended.stderr)
        lines = subprocess.run([second.program, "serve", "--host", "127.0.0.1", "--port", str(second.port)], env=second.env({}),
                               capture_output=True, text=True, timeout=30)
        equal(lines.returncode, 1)
        claim(str(second.port) in lines.stderr, lines.stderr)


@check
def c49_presets_as_the_package_names_them():
    for name in ("default", "transfer-only", "read-only", "hardened", "locked"):
        with servers.opened("--preset", name) as one:
            equal(awaited(servers.client(one, None).discover()).preset, name)
