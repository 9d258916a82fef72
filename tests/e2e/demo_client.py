"""tests/e2e/demo_client.py SANDBOX TOKEN: the published Python client, unmodified, through our provider `abx`.

The command of the template's own server with the token, then a second server that this client starts itself."""
import asyncio
import sys

from agent_sandbox import ProviderSandbox

COMMANDS = "/home/user/app/commands.py"
OWN_TOKEN = "a-token-of-the-clients-own-0123456789"


async def main(sandbox_id, token):
    sandbox = await ProviderSandbox.connect(sandbox_id, provider="abx")
    server = sandbox.server_at(9000, token=token)
    print(await server.commands.run("greet", name="世界"))
    started = await sandbox.start_server(port=9100, commands=COMMANDS, policy={"preset": "default"}, token=OWN_TOKEN)
    print(await started.commands.run("greet", name="世界"))


asyncio.run(main(*sys.argv[1:]))
