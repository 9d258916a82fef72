"""python -m agent_sandbox.server, and the command agent-sandbox-server: becomes the program itself."""
import os
import sys


def main():
    from ._link import binary

    path = binary()
    os.execv(path, ["agent-sandbox-server", *sys.argv[1:]])


if __name__ == "__main__":
    main()
