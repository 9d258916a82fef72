"""tests/compat/py/sdk_errors.py: each exception that the SDK has, provoked by an answer of ours (sdk.py adds the checks)."""
import inspect
import os

import e2b
from checks import check, claim, equal, is_port, refused, rows, until
from e2b import Sandbox, Template, Volume, exceptions

# Classes that no answer of ours becomes, and why.
NOT_SENT = {
    "GuestUnresponsiveException": "there is no pause: 501, SandboxException",
    "SecretNotFoundException": "there are no secrets: 501, SecretException",
    "VolumeNotFoundException": "there are no volumes: 501, VolumeException",
    "VolumePathNotFoundException": "there are no volumes: 501, VolumeException",
}
# Classes that another program provokes.
OTHER_PROGRAM = {"FileUploadException": "template.py"}
# Classes that other checks of this program provoke.
ELSEWHERE = {
    "AuthenticationException": "run_unknown_user", "CommandExitException": "run_exit_code", "InvalidArgumentException": "run_cwd_missing",
    "NotFoundException": "commands_connect_unknown", "FileNotFoundException": "files_read_missing",
    "SandboxException": "sandbox_unknown_template", "SandboxNotFoundException": "sandbox_connect_unknown", "TimeoutException": "run_timeout",
    "GitAuthException": "git_credentials", "GitUpstreamException": "git_remotes",
}
NOT_BUILT = ("pause", "beta_pause", "create_snapshot", "fork")


def not_enough_space(box):
    box.commands.run("head -c 1G /dev/zero > /dev/shm/full 2>/dev/null; true")
    refused(lambda: box.files.write("/dev/shm/more", "x" * 100_000), exceptions.NotEnoughSpaceException)
    box.commands.run("rm /dev/shm/full")


def not_running(template):
    other = Sandbox.create(template)
    other.kill()
    refused(lambda: other.commands.run("true"), exceptions.SandboxNotRunningException, "was not found")


def busy(template):
    """Its envd stands still, so that the engine has no figures to tell."""
    with Sandbox.create(template) as other:
        other.commands.run("setsid sh -c 'sleep 0.3; pkill -STOP -x envd' >/dev/null 2>&1 &", user="root")
        until(lambda: stands_still(other), "envd stands still", 15)
        refused(other.get_metrics, exceptions.ServiceBusyException, "does not tell its metrics")


def stands_still(box):
    try:
        box.is_running(request_timeout=1)
    except exceptions.TimeoutException:
        return True
    return False


def volumes(cls=Volume):
    """Every method of the class and of an object of it: there are no volumes, and it says so."""
    volume = cls(volume_id="v", name="v", token=os.environ["E2B_API_KEY"])
    calls = {"path": "/x", "data": "x", "name": "v", "volume_id": "v"}
    methods = [(name, value) for name, value in inspect.getmembers(cls) if not name.startswith("_") and callable(value)]
    claim(len(methods) >= 8, f"{methods}")
    for name, _ in methods:
        method = getattr(volume, name)
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        yield name, lambda method=method, needed=needed: method(*(calls[p.name] for p in needed))


def unreachable(box):
    away = Sandbox.connect(box.sandbox_id, sandbox_url="http://127.0.0.1:1")
    refused(lambda: away.commands.run("true", request_timeout=20), exceptions.SandboxUnreachableException)


def add_errors(box, template):
    """Adds the checks; @box gives the sandbox once there is one."""
    provoked = {
        "RateLimitException": lambda: refused(lambda: box().files.list("/usr", depth=60), exceptions.RateLimitException, "100000 entries"),
        "NotEnoughSpaceException": lambda: not_enough_space(box()),
        "SandboxNotRunningException": lambda: not_running(template),
        "SandboxUnreachableException": lambda: unreachable(box()),
        "TemplateException": lambda: refused(lambda: Template.get_tags("nosuch"), exceptions.TemplateException, "404"),
        "BuildException": lambda: refused(lambda: Template.get_build_status(e2b.BuildInfo(template_id="nosuch", build_id="nosuch", name="x", alias="x")),
                                          exceptions.BuildException, "404"),
        "VolumeException": lambda: [refused(call, exceptions.VolumeException, "501.*not built") for _, call in volumes()],
        "SecretException": lambda: refused(lambda: e2b.Secret.create("s", "v"), exceptions.SecretException, "501.*not built"),
        "ServiceBusyException": lambda: busy(template),
    }
    there = [n for n in dir(exceptions) if n.endswith("Exception")] + ["CommandExitException"]
    for name, provoke in provoked.items():
        if name in there:
            provoke.__name__ = f"error_{name}"
            check(provoke)

    @check
    def what_is_not_built_says_so():
        for name in NOT_BUILT:
            if name != "fork" or not is_port():
                refused(getattr(box(), name), exceptions.SandboxException, "501.*not built")
        refused(lambda: box().list_snapshots().next_items(), exceptions.SandboxException, "501.*not built")
        refused(lambda: box().update_network({"allow_out": ["192.0.2.1"]}), exceptions.SandboxException, "501.*no egress")

    @check
    def every_exception_has_a_check():
        claim(len(there) >= (16 if is_port() else 20), f"{len(there)} classes")
        equal([n for n in there if n not in provoked and n not in {**ELSEWHERE, **NOT_SENT, **OTHER_PROGRAM}], [])
        names = {f.__name__ for f in rows}
        equal([n for n in ELSEWHERE.values() if n not in names], [])

    return what_is_not_built_says_so
