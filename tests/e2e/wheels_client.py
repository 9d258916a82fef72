"""Run by tests/e2e/wheels in a venv with the published client and our wheels: a sandbox from template host, a server
in it with a commands file, by ProviderSandbox and by its server client. ABX_PROVIDER=abx. Fails by exception."""
import asyncio
import os

from agent_sandbox import ProviderSandbox

TOKEN = "0123456789abcdef0123456789abcdef"
COMMANDS = '''
from agent_sandbox.server import command, default_table, CapabilityGroup, SSEResponse


@command("greet", description="say hello")
def greet(name: str = "world"):
    return f"Hello, {name}!"


@command("fail")
def fail():
    raise LookupError("on purpose")


@default_table().route("GET", "/count/{n}", group=CapabilityGroup.COMMANDS, streaming=True)
def count(request):
    return SSEResponse(event_iterator=(f"data: {i}\\n\\n" for i in range(int(request.path_params["n"]))))
'''


async def refused(awaitable, code, *parts):
    try:
        await awaitable
    except Exception as error:
        text = f"{getattr(error, 'code', '')} {error}"
        assert code in text and all(part in text for part in parts), text
    else:
        raise AssertionError(f"wanted {code}")


async def use_server(sandbox):
    await sandbox.files.write("/home/user/commands.py", COMMANDS)
    server = await sandbox.start_server(port=9100, token=TOKEN, commands="/home/user/commands.py")
    assert await server.health()
    assert [c.name for c in await server.commands.list()] == ["greet", "fail"]
    assert await server.commands.run("greet", name="世界") == "Hello, 世界!"
    assert await server.commands.run("greet") == "Hello, world!"
    await refused(server.commands.run("greet", nam="x"), "Unexpected argument(s): ['nam']; declared: ['name']")
    await refused(server.commands.run("fail"), "on purpose")
    await refused(server.commands.run("nosuch"), "E3005")
    await refused(server.with_token(None).commands.list(), "E9001")
    found = await server.discover()
    assert found.api_version == 2, found
    return server


async def use_files(server):
    data = bytes(range(256)) * 100
    await server.files.upload("/home/user/wide.bin", data)
    got = await server.files.download("/home/user/wide.bin")
    assert getattr(got, "content", got) == data
    assert (await server.files.stat("/home/user/wide.bin")).size == len(data)
    assert "wide.bin" in [e.name for e in await server.files.list("/home/user")]
    await server.files.delete("/home/user/wide.bin")
    assert not await server.files.exists("/home/user/wide.bin")


async def main():
    sandbox = await ProviderSandbox.create(template="host")
    try:
        assert sandbox.provider == "abx"
        done = await sandbox.commands.run("echo hi")
        assert done.stdout == "hi\n" and done.exit_code == 0, done
        await sandbox.files.write("/tmp/two", b"\x00\xff\n")
        assert await sandbox.files.read_bytes("/tmp/two") == b"\x00\xff\n"
        server = await use_server(sandbox)
        await use_files(server)
        other = await ProviderSandbox.connect(sandbox.id)
        assert await other.server_at(9100, token=TOKEN).commands.run("greet", name="again") == "Hello, again!"
    finally:
        await sandbox.kill()


if __name__ == "__main__":
    assert os.environ["ABX_PROVIDER"] == "abx"
    asyncio.run(main())
    print("client: ok\n1 passed, 0 failed")
