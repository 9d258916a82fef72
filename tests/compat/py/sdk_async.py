"""tests/compat/py/sdk_async.py: the asynchronous half of the SDK, every method of it that talks to envd (sdk.py adds the check)."""
import asyncio

from checks import claim, equal
from driver import public_methods
from e2b import AsyncSandbox, PtySize

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
    stream = Noting(box.commands.stream_input(command.pid))
    await send(stream, "two\n")
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
    return [stream, command, again, second, third]


async def pty(box):
    seen = []
    shell = Noting(await box.pty.create(PtySize(24, 80), on_data=seen.append))
    again = Noting(await box.pty.connect(shell.pid, on_data=lambda _: None))
    await again.disconnect()
    await box.pty.resize(shell.pid, PtySize(40, 120))
    await box.pty.send_stdin(shell.pid, b"stty size\n")
    await send(box.pty.stream_input(shell.pid), b"echo o-$((40+2))\n", b"exit\n")
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
    claim(len(classes) == 6, f"{classes}")
    equal(sorted(public_methods(*classes) - NOTED), [])
