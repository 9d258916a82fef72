"""tests/compat/py/sdk_errors.py: each exception that the SDK has, provoked by an answer of ours (sdk.py adds the checks)."""
import e2b
from checks import check, claim, equal, refused, rows
from e2b import Sandbox, Secret, Template, Volume, exceptions

# Classes that no answer of ours becomes, and why.
NOT_SENT = {
    "FileUploadException": "an upload link takes what the SDK packs",
    "ServiceBusyException": "the routes of the SDK never answer 503",
    "GuestUnresponsiveException": "there is no pause: 501, SandboxException",
    "SecretNotFoundException": "there are no secrets: 501, SecretException",
    "VolumeNotFoundException": "there are no volumes: 501, VolumeException",
    "VolumePathNotFoundException": "there are no volumes: 501, VolumeException",
}
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
        "VolumeException": lambda: refused(lambda: Volume.create("v"), exceptions.VolumeException, "501.*not built"),
        "SecretException": lambda: refused(lambda: Secret.create("s", "v"), exceptions.SecretException, "501.*not built"),
    }
    for name, provoke in provoked.items():
        provoke.__name__ = f"error_{name}"
        check(provoke)

    @check
    def what_is_not_built_says_so():
        for name in NOT_BUILT:
            refused(getattr(box(), name), exceptions.SandboxException, "501.*not built")
        refused(lambda: box().list_snapshots().next_items(), exceptions.SandboxException, "501.*not built")
        refused(lambda: box().update_network({"allow_out": ["192.0.2.1"]}), exceptions.SandboxException, "501.*no egress")

    @check
    def every_exception_has_a_check():
        there = [n for n in dir(exceptions) if n.endswith("Exception")] + ["CommandExitException"]
        claim(len(there) >= 20, f"{len(there)} classes")
        equal([n for n in there if n not in provoked and n not in ELSEWHERE and n not in NOT_SENT], [])
        names = {f.__name__ for f in rows}
        equal([n for n in ELSEWHERE.values() if n not in names], [])

    return what_is_not_built_says_so
