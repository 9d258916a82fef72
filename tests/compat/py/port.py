"""tests/compat/py/port.py PROGRAM [ARGUMENT...]: a program of the E2B SDK (sdk, template), driven by the root classes of the
published client, which are a port of that SDK (published-client.md 2).

The program finds the package under the SDK's name; what this port lacks it leaves out (`check_of_sdk` of checks.py). That every
public method of the port has a check is the program's own last word, as for the SDK."""
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import agent_sandbox  # noqa: E402
import agent_sandbox.exceptions  # noqa: E402

sys.modules["e2b"] = agent_sandbox
sys.modules["e2b.exceptions"] = agent_sandbox.exceptions
program = sys.argv[1]
sys.argv = sys.argv[1:]
importlib.import_module(program)
