"""tests/compat/py/sdk_async.py: the asynchronous half of the SDK, every method of it (sdk.py adds the checks)."""
import asyncio
import inspect
import os

from checks import claim, equal, is_port
from driver import public_methods
from e2b import AsyncSandbox, AsyncVolume, PtySize, SandboxException, SandboxQuery, exceptions

NOTED = set()  # (class name, name) that the programs asked for


class Noting:
    """Notes the names that it is asked for; passes everything on."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        value = getattr(self.target, name)
        NOTED.add((type(self.target).__name__, name))
        return value


async def end(handle):
    try:
        return await handle.wait()
    except Exception as error:
        return error


async def files(box):
    await box.files.write("async/a.txt", "a é")
    await box.files.write_files([{"path": "async/b.txt", "data": b"b"}])
    equal(await box.files.read("async/a.txt"), "a é")
    equal([e.name for e in await box.files.list("async")], ["a.txt", "b.txt"])
    equal((await box.files.get_info("async/b.txt")).size, 1)
    equal((await box.files.rename("async/b.txt", "async/c.txt")).name, "c.txt")
    await box.files.remove("async/c.txt")
    equal(await box.files.exists("async/c.txt"), False)
    equal(await box.files.make_dir("async/d"), True)
    seen = []
    watch = Noting(await box.files.watch_dir("async", on_event=seen.append))
    await box.files.write("async/new", "x")
    for _ in range(100):
        if seen:
            break
        await asyncio.sleep(0.05)
    equal((seen[0].name, seen[0].type.value), ("new", "create"))
    await watch.stop()
    return [watch]


async def send(stream, *texts):
    """By an ordered input stream, and ends it."""
    for text in texts:
        await stream.send(text)
    await stream.close()


async def commands(box):
    equal((await box.commands.run("echo hi")).stdout, "hi\n")
    command = Noting(await box.commands.run("cat; exit 3", background=True, stdin=True))
    claim(any(p.pid == command.pid for p in await box.commands.list()), "it is listed")
    again = Noting(await box.commands.connect(command.pid))
    await box.commands.send_stdin(command.pid, "one\n")
    streams = [] if is_port() else [Noting(box.commands.stream_input(command.pid))]
    await (send(streams[0], "two\n") if streams else command.send_stdin("two\n"))
    await command.send_stdin("three\n")
    await again.disconnect()
    await box.commands.close_stdin(command.pid)
    error = await end(command)
    equal((command.exit_code, command.stdout, command.stderr, error.exit_code), (3, "one\ntwo\nthree\n", "", 3))
    claim("exit status 3" in command.error, command.error)
    second = Noting(await box.commands.run("cat", background=True, stdin=True))
    await second.close_stdin()
    equal((await second.wait()).exit_code, 0)
    third = Noting(await box.commands.run("sleep 300", background=True))
    equal(await third.kill(), True)
    await end(third)
    equal(await box.commands.kill(third.pid), False)
    return [*streams, command, again, second, third]


async def pty(box):
    seen = []
    shell = Noting(await box.pty.create(PtySize(24, 80), on_data=seen.append))
    again = Noting(await box.pty.connect(shell.pid, on_data=lambda _: None))
    await again.disconnect()
    await box.pty.resize(shell.pid, PtySize(40, 120))
    await box.pty.send_stdin(shell.pid, b"stty size\n")
    lines = [b"echo o-$((40+2))\n", b"exit\n"]
    if is_port():
        await box.pty.send_stdin(shell.pid, b"".join(lines))
    else:
        await send(box.pty.stream_input(shell.pid), *lines)
    equal((await shell.wait()).exit_code, 0)
    text = b"".join(map(bytes, seen))
    claim(b"40 120" in text and b"o-42" in text, f"{text!r}")
    other = Noting(await box.pty.create(PtySize(24, 80), on_data=lambda _: None))
    equal(await box.pty.kill(other.pid), True)
    await end(other)
    return [shell, other]


async def drive(sandbox_id):
    sandbox = await AsyncSandbox.connect(sandbox_id)
    box = type("Box", (), {name: Noting(getattr(sandbox, name)) for name in ("files", "commands", "pty")})()
    handles = [*await files(box), *await commands(box), *await pty(box)]
    return {type(noting.target) for noting in [box.files, box.commands, box.pty, *handles]}


def drive_all(sandbox_id):
    """Every public method of the parts and handles, by introspection."""
    classes = asyncio.run(drive(sandbox_id))
    claim(len(classes) == (5 if is_port() else 6), f"{classes}")
    equal(sorted(public_methods(*classes) - NOTED), [])


# --- the sandbox itself, its repositories, volumes ---
async def refused(call, error_class, part):
    try:
        value = await call
    except error_class as error:
        claim(part in str(error), f"{part!r} is not in {error}")
        return
    raise AssertionError(f"expected {error_class.__name__}, got {value!r:.200}")


async def sandbox_class(template):
    made = await AsyncSandbox.create(template, metadata={"async": str(os.getpid())})
    box = Noting(made)
    claim(await box.is_running() and (await box.get_info()).sandbox_id == made.sandbox_id, "it runs")
    await box.set_timeout(200)
    other = await AsyncSandbox.connect(made.sandbox_id)
    equal((await other.commands.run("echo hi")).stdout, "hi\n")
    pages = AsyncSandbox.list(query=SandboxQuery(metadata={"async": str(os.getpid())}))
    equal([s.sandbox_id for s in await pages.next_items()], [made.sandbox_id])
    claim((await box.get_metrics())[-1].cpu_count > 0, "figures")
    equal(box.get_host(80), f"80-{made.sandbox_id}.{os.environ['E2B_DOMAIN']}")
    claim(f"-{made.sandbox_id}." in box.get_mcp_url(), box.get_mcp_url())
    await made.commands.run("mkdir -p /etc/mcp-gateway && printf token > /etc/mcp-gateway/.token", user="root")
    equal(await box.get_mcp_token(), "token")
    for url in (box.upload_url("x"), box.download_url("x")):
        claim("signature=" in (await url if inspect.isawaitable(url) else url), "signed")
    for name in ("pause", "beta_pause", "create_snapshot", *(() if is_port() else ("fork",))):
        await refused(getattr(box, name)(), SandboxException, "not built")
    await refused(box.list_snapshots().next_items(), SandboxException, "not built")
    await refused(box.update_network({"allow_out": ["192.0.2.1"]}), SandboxException, "no egress")
    equal(await AsyncSandbox.delete_snapshot("nosuch"), False)
    await git(Noting(box.git), made)
    equal((await box.kill(), await box.kill()), (True, False))
    return {("AsyncSandbox", name) for name in ("create", "connect", "list", "delete_snapshot")}


async def git(git, box):
    await git.init("work", initial_branch="main")
    await git.configure_user("A", "a@example.test", scope="global")
    await box.files.write("work/a.txt", "one")
    await git.add("work")
    await git.commit("work", "first")
    equal((await git.status("work")).current_branch, "main")
    await git.create_branch("work", "side")
    await git.checkout_branch("work", "main")
    equal(sorted((await git.branches("work")).branches), ["main", "side"])
    await git.delete_branch("work", "side", force=True)
    await git.set_config("abx.test", "v", scope="local", path="work")
    equal(await git.get_config("abx.test", scope="local", path="work"), "v")
    await box.files.write("work/a.txt", "two")
    await git.restore("work", paths=["a.txt"])
    await git.reset("work", mode="hard", target="HEAD")
    equal(await box.files.read("work/a.txt"), "one")
    await git.init("bare.git", bare=True, initial_branch="main")
    await git.remote_add("work", "origin", "/home/user/bare.git")
    equal(await git.remote_get("work", "origin"), "/home/user/bare.git")
    await git.push("work", remote="origin", branch="main", set_upstream=True)
    await git.clone("/home/user/bare.git", path="copy", branch="main")
    await git.pull("copy")
    equal(await box.files.read("copy/a.txt"), "one")
    await git.dangerously_authenticate("me", "secret", host="git.example.test")
    equal(sorted(public_methods(type(git.target)) - NOTED), [])


ATTRIBUTES = {"commands", "files", "pty", "git", "sandbox_id", "sandbox_domain", "traffic_access_token", "envd_api_url", "envd_direct_url",
              "connection_config"}


def drive_class(template):
    called = asyncio.run(sandbox_class(template))
    there = {("AsyncSandbox", name) for name, value in inspect.getmembers(AsyncSandbox)
             if not name.startswith("_") and (callable(value) or isinstance(value, property))}
    claim(len(there) >= 25, f"{there}")
    equal(sorted(n for _, n in there - NOTED - called if n not in ATTRIBUTES), [])


async def volumes():
    """There are none, and each method says so."""
    volume = AsyncVolume(volume_id="v", name="v", token=os.environ["E2B_API_KEY"])
    given = {"path": "/x", "data": "x", "name": "v", "volume_id": "v"}
    methods = [name for name, value in inspect.getmembers(AsyncVolume) if not name.startswith("_") and callable(value)]
    claim(len(methods) >= 8, f"{methods}")
    for name in methods:
        method = getattr(volume, name)
        needed = [p.name for p in inspect.signature(method).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        await refused(method(*(given[n] for n in needed)), exceptions.VolumeException, "not built")


def drive_volumes():
    asyncio.run(volumes())
