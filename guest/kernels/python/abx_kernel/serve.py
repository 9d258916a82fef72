"""The life of the kernel: one shell, one cell at a time, variables of a cell set before and reset after it."""
import builtins
import json
import os
import signal
import sys

from abx_kernel import early, rich, wire


class Environment:
    """os.environ under a cell: the sandbox's variables stay, those of one cell go with it."""

    def __init__(self):
        self.sandbox = {}

    def enter(self, sandbox, own):
        if sandbox:
            self.sandbox.update(sandbox)
            os.environ.update(sandbox)
        os.environ.update(own)

    def leave(self, own):
        for name in own:
            if name in self.sandbox:
                os.environ[name] = self.sandbox[name]
            else:
                os.environ.pop(name, None)


def refuse_input(prompt="", *_more, **_options):
    raise RuntimeError("input() was called, but the code interpreter has no one to ask; pass the value in the code")


def make_shell():
    if early.is_installed("IPython"):
        return early.Shell()
    from abx_kernel import plain
    return plain.Shell()


def run_cell(shell, message):
    signal.signal(signal.SIGINT, wire.Interrupts.on_signal)
    wire.Interrupts.pending = False
    try:
        try:
            wire.Interrupts.running = True
            shell.run(message["code"], message["n"])
        finally:
            wire.Interrupts.running = False
    except KeyboardInterrupt:  # it came outside of the user's code
        wire.Interrupts.running = False
        rich.send_error("KeyboardInterrupt", "", "KeyboardInterrupt")


def main():
    wire.install()
    builtins.input = refuse_input
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # of children: their output is streamed, too
    signal.signal(signal.SIGINT, wire.Interrupts.on_signal)
    shell = make_shell()
    environment = Environment()
    wire.send({"type": "ready"})
    while True:
        line = wire.read_line()
        if not line:
            break
        message = json.loads(line)
        own = message.get("envs") or {}
        try:
            environment.enter(message.get("globals"), own)
            run_cell(shell, message)
        except (ValueError, OSError) as error:  # a variable that can not be set, say
            rich.send_error(type(error).__name__, str(error), "")
        environment.leave(own)
        wire.flush()
        wire.send({"type": "done"})
        shell = shell.settled()
    sys.stdout.flush()
    os._exit(0)
