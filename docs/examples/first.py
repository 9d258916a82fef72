# docs/examples/first.py: the E2B SDK as published; eval "$(abx env)" tells it where the engine is.
from e2b import CommandExitException, Sandbox

sandbox = Sandbox.create("host")
sandbox.files.write("note.txt", "kept in the sandbox")
print(sandbox.commands.run("cat note.txt").stdout)
try:
    sandbox.commands.run("exit 7")
except CommandExitException as error:
    print("exit code", error.exit_code)
sandbox.kill()
