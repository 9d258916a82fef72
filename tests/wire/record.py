"""tests/wire/record.py: makes each everyday call of the Python SDK once against the mock in the
environment, each after a mark that names it. Prints one line per call: name, outcome."""
import json
import os
import urllib.request

from e2b import Sandbox, SandboxQuery, SandboxState


def outcome(value):
    return json.dumps(value) if isinstance(value, (str, int, bool)) else "ok"


def call(name, make):
    request = urllib.request.Request(f"{os.environ['E2B_API_URL']}/__mark?op={name}", method="POST")
    urllib.request.urlopen(request).close()
    value = None
    try:
        value = make()
        print(f"{name}\t{outcome(value)}")
    except Exception as error:  # every class of the SDK is an answer here
        print(f"{name}\t{type(error).__name__}: {str(error).splitlines()[0]}")
    return value


def create_options():
    Sandbox.create("hello", timeout=62, metadata={"a": "b c"}, envs={"X": "1"}).kill()


def connect_and_kill(sandbox):
    sleeper = sandbox.commands.run("sleep 100", background=True)
    again = sandbox.commands.connect(sleeper.pid)
    sleeper.disconnect()
    return again.kill()


def main():
    sandbox = call("create", lambda: Sandbox.create("hello"))
    call("create_options", create_options)
    call("create_unknown_template", lambda: Sandbox.create("nosuch"))
    call("connect", lambda: Sandbox.connect(sandbox.sandbox_id))
    call("connect_timeout", lambda: Sandbox.connect(sandbox.sandbox_id, timeout=120))
    call("connect_unknown", lambda: Sandbox.connect("inone"))
    commands, files = sandbox.commands, sandbox.files
    call("run", lambda: commands.run("echo hi").stdout)
    call("run_exit_code", lambda: commands.run("exit 7"))
    call("run_options", lambda: commands.run("echo $A", envs={"A": "x"}, timeout=5, user="user").stdout)
    call("run_no_timeout", lambda: commands.run("true", timeout=0).exit_code)
    command = call("run_background_stdin", lambda: commands.run("cat", background=True, stdin=True, timeout=0))
    call("commands_list", lambda: len(commands.list()))
    call("send_stdin", lambda: commands.send_stdin(command.pid, "line\n"))
    call("close_stdin", lambda: commands.close_stdin(command.pid))
    call("wait", lambda: command.wait().stdout)
    call("commands_connect_and_kill", lambda: connect_and_kill(sandbox))
    call("commands_kill_unknown", lambda: commands.kill(4242))
    call("write_text", lambda: files.write("a.txt", "hello"))
    call("write_bytes", lambda: files.write("b.bin", bytes([0, 1, 254, 255])))
    call("write_many", lambda: files.write_files([{"path": "c.txt", "data": "c"}, {"path": "d/e.txt", "data": "e"}]))
    call("write_octet_stream", lambda: files.write("f.txt", "raw", use_octet_stream=True))
    call("read_text", lambda: files.read("a.txt"))
    call("read_bytes", lambda: len(files.read("b.bin", format="bytes")))
    call("read_missing", lambda: files.read("nosuch"))
    call("list", lambda: len(files.list(".")))
    call("make_dir", lambda: files.make_dir("dir"))
    call("make_dir_again", lambda: files.make_dir("dir"))
    call("exists", lambda: files.exists("dir"))
    call("exists_missing", lambda: files.exists("nosuch"))
    call("file_info", lambda: files.get_info("a.txt").name)
    call("rename", lambda: files.rename("a.txt", "dir/z.txt").path)
    call("remove", lambda: files.remove("dir"))
    call("sandbox_list", lambda: len(Sandbox.list(limit=10).next_items()))
    query = SandboxQuery(metadata={"a b": "c&d"}, state=[SandboxState.RUNNING])
    call("sandbox_list_query", lambda: len(Sandbox.list(query=query).next_items()))
    call("sandbox_info", lambda: Sandbox.get_info(sandbox.sandbox_id).state.value)
    call("set_timeout", lambda: sandbox.set_timeout(90))
    call("is_running", sandbox.is_running)
    call("kill", sandbox.kill)
    call("kill_again", sandbox.kill)
    call("is_running_after_kill", sandbox.is_running)
    call("run_after_kill", lambda: commands.run("true"))


main()
