"""tests/compat/py/sdk.py [TEMPLATE]: the Python SDK, unmodified, against the engine that the
environment names (eval "$(abx env)"). Every check says what a user of the SDK would rely on."""
import asyncio
import datetime
import hashlib
import importlib
import io
import os
import sys
import threading
import time
import urllib.parse
import urllib.request

import sdk_async
from checks import check, check_of_sdk, claim, equal, is_port, refused, run_all, until
from e2b import (AsyncSandbox, AuthenticationException, CommandExitException, InvalidArgumentException,
                 NotFoundException, PtySize, Sandbox, SandboxException, SandboxNotFoundException, SandboxQuery,
                 SandboxState, TimeoutException)
from e2b.exceptions import FileNotFoundException
from sdk_errors import add_errors
from sdk_git import add_git

TEMPLATE = sys.argv[1] if len(sys.argv) > 1 else "host"
RUN = f"run{os.getpid()}-{time.time_ns()}"
RANDOM = os.urandom(8 << 20)
sandbox = None


def run(text, **options):
    return sandbox.commands.run(text, **options)


def output(text, **options):
    return run(text, **options).stdout.strip()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def every(query, limit=None):
    pages, found = Sandbox.list(query=query, limit=limit), []
    while pages.has_next:
        found += pages.next_items()
    return found


@check
def create():
    global sandbox
    sandbox = Sandbox.create(TEMPLATE, metadata={"run": RUN, "n": "0"}, envs={"AT_CREATE": "yes"})
    claim(sandbox.sandbox_id.isalnum(), sandbox.sandbox_id)


@check
def run_plain():
    result = run("echo hi")
    equal((result.stdout, result.stderr, result.exit_code), ("hi\n", "", 0))


@check
def run_stderr():
    result = run("echo out; echo err >&2")
    equal((result.stdout, result.stderr), ("out\n", "err\n"))


@check
def run_exit_code():
    error = refused(lambda: run("echo out; echo err >&2; exit 7"), CommandExitException)
    equal((error.exit_code, error.stdout, error.stderr), (7, "out\n", "err\n"))


@check
def run_no_such_program():
    equal(refused(lambda: run("/no/such/program"), CommandExitException).exit_code, 127)


@check
def run_killed_by_signal():
    error = refused(lambda: run("kill -9 $$"), CommandExitException)
    equal((error.exit_code, error.error), (-1, "signal: killed"))


@check
def run_streams_while_running():
    seen = []
    run("echo one; sleep 1; echo two", on_stdout=lambda text: seen.append((text, time.monotonic())))
    ended = time.monotonic()
    equal([s[0] for s in seen], ["one\n", "two\n"])
    claim(ended - seen[0][1] >= 0.7, f"the first chunk came {ended - seen[0][1]:.2f} s before the end")


@check
def run_on_stderr():
    seen = []
    run("echo err >&2", on_stderr=seen.append)
    equal("".join(seen), "err\n")


@check
def run_env_at_create():
    equal(output("echo $AT_CREATE"), "yes")


@check
def run_env_of_command():
    equal(output("echo $A-$AT_CREATE", envs={"A": "x y", "AT_CREATE": "no"}), "x y-no")


@check
def run_env_of_sandbox():
    equal(output("echo $E2B_SANDBOX $E2B_SANDBOX_ID"), f"true {sandbox.sandbox_id}")


@check
def run_user_and_home():
    equal(output("whoami; echo $HOME; pwd"), "user\n/home/user\n/home/user")


@check
def run_cwd():
    equal(output("pwd", cwd="/tmp"), "/tmp")


@check
def run_cwd_missing():
    refused(lambda: run("pwd", cwd="/no/such"), InvalidArgumentException, "does not exist")


@check
def run_unknown_user():
    refused(lambda: run("true", user="nosuch"), AuthenticationException, "nosuch")


@check
def run_timeout():
    began = time.monotonic()
    refused(lambda: run("sleep 988", timeout=0.7), TimeoutException)
    claim(time.monotonic() - began < 10, "it took too long")
    until(lambda: output("ps -eo args | grep -c '[s]leep 988' || true") == "0", "the command is gone")


@check
def run_multibyte():
    equal(output("for i in $(seq 3000); do printf 'aé漢'; done"), "aé漢" * 3000)


@check
def run_long_command():
    equal(output(f": '{'x' * 200_000}'; echo done"), "done")


@check
def run_background_child_keeps_pipe():
    began = time.monotonic()
    equal(output("sleep 300 & echo done"), "done")
    claim(time.monotonic() - began < 20, "it waited for the child")


@check
def run_20_mb_output():
    result = run("head -c 20000000 /dev/zero | tr '\\0' x")
    equal(len(result.stdout), 20_000_000)
    claim(result.stdout == "x" * 20_000_000, "the bytes differ")


@check
def run_20_at_once():
    codes = [None] * 20

    def one(i):
        try:
            codes[i] = run(f"exit {i + 1}").exit_code
        except CommandExitException as error:
            codes[i] = error.exit_code

    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(codes, list(range(1, 21)))


@check
def background_connect_kill():
    first = run("echo started; sleep 300", background=True)
    claim(any(p.pid == first.pid and "-c" in p.args for p in sandbox.commands.list()), "it is not listed")
    second = sandbox.commands.connect(first.pid)
    equal(second.pid, first.pid)
    equal(second.kill(), True)
    equal(refused(first.wait, CommandExitException).error, "signal: killed")
    equal(refused(second.wait, CommandExitException).error, "signal: killed")
    equal(sandbox.commands.kill(first.pid), False)
    claim(all(p.pid != first.pid for p in sandbox.commands.list()), "it is still listed")


@check
def background_survives_disconnect():
    run("sleep 1; echo late > /tmp/late", background=True).disconnect()
    until(lambda: sandbox.files.exists("/tmp/late"), "the command went on")


@check
def background_iterates():
    seen = [out for out, _, _ in run("echo one; sleep 0.3; echo two", background=True) if out]
    equal(seen, ["one\n", "two\n"])


@check
def commands_connect_unknown():
    refused(lambda: sandbox.commands.connect(3_999_999), NotFoundException, "not found")


@check
def stdin():
    command = run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(command.pid, "line one\n")
    sandbox.commands.send_stdin(command.pid, "line two\n")
    sandbox.commands.close_stdin(command.pid)
    equal(command.wait().stdout, "line one\nline two\n")


@check
def stdin_is_null_by_default():
    equal(output("wc -c"), "0")


@check
def files_text():
    info = sandbox.files.write("a.txt", "hello é漢\n")
    equal((info.path, info.name, info.type.value), ("/home/user/a.txt", "a.txt", "file"))
    equal(sandbox.files.read("a.txt"), "hello é漢\n")
    equal(output("cat a.txt; stat -c %U:%a a.txt"), "hello é漢\nuser:644")


@check
def files_empty():
    sandbox.files.write("empty", "")
    equal(sandbox.files.read("empty"), "")


@check
def files_odd_name():
    name = "/home/user/odd dir/a&b=c+d é漢'%20.txt"
    sandbox.files.write(name, "odd")
    equal(sandbox.files.read(name), "odd")
    equal(sandbox.files.list("/home/user/odd dir")[0].path, name)


@check
def files_8_mb_random():
    sandbox.files.write("random.bin", RANDOM)
    equal(output("sha256sum < random.bin").split()[0], sha256(RANDOM))
    back = bytes(sandbox.files.read("random.bin", format="bytes"))
    equal(len(back), len(RANDOM))
    claim(back == RANDOM, "the bytes differ")


@check
def files_octet_stream():
    sandbox.files.write("stream.bin", io.BytesIO(RANDOM[:1 << 20]), use_octet_stream=True)
    equal(output("sha256sum < stream.bin").split()[0], sha256(RANDOM[:1 << 20]))


@check
def files_read_stream():
    equal(sha256(b"".join(sandbox.files.read("random.bin", format="stream"))), sha256(RANDOM))


@check
def files_read_proc():
    claim(len(sandbox.files.read("/proc/sys/kernel/random/boot_id").strip()) == 36, "no boot id")


@check
def files_write_many():
    infos = sandbox.files.write_files([{"path": "many/1.txt", "data": "1"}, {"path": "many/2.txt", "data": "2"}])
    equal([i.path for i in infos], ["/home/user/many/1.txt", "/home/user/many/2.txt"])
    equal(output("cat many/1.txt many/2.txt"), "12")


@check
def files_read_missing():
    refused(lambda: sandbox.files.read("nosuch"), FileNotFoundException, "nosuch' does not exist")


@check
def files_read_directory():
    refused(lambda: sandbox.files.read("many"), InvalidArgumentException, "is a directory")


@check
def files_list():
    entries = sandbox.files.list("many")
    equal([(e.name, e.type.value, e.path, e.size) for e in entries],
          [("1.txt", "file", "/home/user/many/1.txt", 1), ("2.txt", "file", "/home/user/many/2.txt", 1)])


@check
def files_list_depth():
    sandbox.files.write("deep/a/b/c.txt", "")
    equal([e.name for e in sandbox.files.list("deep")], ["a"])
    equal([e.name for e in sandbox.files.list("deep", depth=3)], ["a", "b", "c.txt"])


@check
def files_list_missing():
    refused(lambda: sandbox.files.list("nosuch"), NotFoundException)


@check
def files_list_file():
    refused(lambda: sandbox.files.list("a.txt"), InvalidArgumentException)


@check
def files_make_dir():
    equal(sandbox.files.make_dir("made/inner"), True)
    equal(sandbox.files.make_dir("made/inner"), False)
    equal(output("stat -c %F made/inner"), "directory")


@check
def files_exists():
    equal(sandbox.files.exists("made"), True)
    equal(sandbox.files.exists("nosuch"), False)


@check
def files_info():
    run("ln -sf a.txt link")
    info = sandbox.files.get_info("a.txt")
    equal((info.name, info.type.value, info.size, info.mode, info.permissions, info.owner, info.group),
          ("a.txt", "file", 12, 0o644, "-rw-r--r--", "user", "user"))
    equal(sandbox.files.get_info("link").symlink_target, "/home/user/a.txt")
    refused(lambda: sandbox.files.get_info("nosuch"), NotFoundException)


@check
def files_rename():
    info = sandbox.files.rename("a.txt", "renamed/b.txt")
    equal((info.path, info.type.value), ("/home/user/renamed/b.txt", "file"))
    equal(sandbox.files.exists("a.txt"), False)
    refused(lambda: sandbox.files.rename("nosuch", "x"), NotFoundException)


@check
def files_remove():
    sandbox.files.remove("renamed")
    equal(sandbox.files.exists("renamed"), False)
    sandbox.files.remove("nosuch")


@check
def files_write_gzip():
    text = "packed " * 100_000
    sandbox.files.write("packed.txt", text, gzip=True, use_octet_stream=True)
    equal(output("sha256sum < packed.txt").split(" ")[0], sha256(text.encode()))
    equal(sandbox.files.read("packed.txt", gzip=True), text)


@check
def files_metadata():
    both = {"owner": "me", "run-id": "7"}
    equal(sandbox.files.write("meta.txt", "x", metadata={"Owner": "me", "run-id": "7"}).metadata, both)
    equal(sandbox.files.get_info("meta.txt").metadata, both)
    equal([e.metadata for e in sandbox.files.list(".") if e.name == "meta.txt"], [both])
    claim(not sandbox.files.write("meta.txt", "x").metadata, "the second upload has none")
    claim(not sandbox.files.get_info("meta.txt").metadata, "and clears what was there")


def told(events):
    return [(e.name, e.type.value) for e in events]


UPLOAD = ["create", "chmod", "write"]


@check
def files_watch_polling():
    sandbox.files.make_dir("polled/sub")
    for recursive, name in ((False, "a"), (True, "b"), (True, "sub/c")):
        handle = sandbox.files.watch_dir("polled", recursive=recursive)
        equal(handle.get_new_events(), [])
        sandbox.files.write(f"polled/{name}", "text")
        equal(told(handle.get_new_events()), [(name, change) for change in UPLOAD])
        equal(handle.get_new_events(), [])
        handle.stop()
        refused(handle.get_new_events, SandboxException)


@check
def files_watch_entries():
    handle = sandbox.files.watch_dir("polled", include_entry=True, allow_network_mounts=True)
    sandbox.files.write("polled/entry", "four")
    last = handle.get_new_events()[-1]  # a new file is its user's once it has been created
    equal((last.entry.path, last.entry.owner), ("/home/user/polled/entry", "user"))
    handle.stop()


@check
def files_watch_refused():
    refused(lambda: sandbox.files.watch_dir("nosuch"), NotFoundException, "nosuch")
    refused(lambda: sandbox.files.watch_dir("meta.txt"), InvalidArgumentException, "not a directory")


async def watch_with_async():
    other, seen = await AsyncSandbox.connect(sandbox.sandbox_id), []
    handle = await other.files.watch_dir("polled", on_event=seen.append, recursive=True)
    await other.files.write("polled/async", "text")
    ends = time.monotonic() + 10
    while len(seen) < 3 and time.monotonic() < ends:
        await asyncio.sleep(0.05)
    await handle.stop()
    return seen


@check
def files_watch_streaming():
    equal(told(asyncio.run(watch_with_async())), [("async", change) for change in UPLOAD])


@check
def pty():
    shell, seen = sandbox.pty.create(PtySize(rows=24, cols=80), envs={"A": "pty"}), []
    sandbox.pty.resize(shell.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(shell.pid, b"stty size; tput cols; echo $A-$TERM; exit\n")
    equal(shell.wait(on_pty=lambda data: seen.append(bytes(data))).exit_code, 0)
    text = b"".join(seen).decode()
    for part in ("40 120", "\n120", "pty-xterm-256color"):
        claim(part in text, f"{part!r} is not in {text!r}")


@check
def pty_connect_and_kill():
    shell = sandbox.pty.create(PtySize(rows=24, cols=80))
    shell.disconnect()
    again = sandbox.pty.connect(shell.pid)
    equal(again.pid, shell.pid)
    equal(sandbox.pty.kill(shell.pid), True)
    equal(refused(again.wait, CommandExitException).error, "signal: killed")
    equal(sandbox.pty.kill(shell.pid), False)


@check_of_sdk
def stream_input():
    lines = [f"{number}\n" for number in range(100)]
    command = run("cat", background=True, stdin=True)
    sandbox.commands.stream_input(command.pid, iter(lines))
    sandbox.commands.close_stdin(command.pid)
    equal(command.wait().stdout, "".join(lines))


@check_of_sdk
def pty_stream_input():
    shell, seen = sandbox.pty.create(PtySize(rows=24, cols=80)), []
    sandbox.pty.stream_input(shell.pid, iter([b"echo one-$((40+", b"2))\n", b"exit\n"]))
    equal(shell.wait(on_pty=lambda data: seen.append(bytes(data))).exit_code, 0)
    claim(b"one-42" in b"".join(seen), "the shell got all parts")


@check
def stdin_of_a_handle():
    command = run("cat; echo bad >&2; exit 3", background=True, stdin=True)
    command.send_stdin("word\n")
    command.close_stdin()
    error = refused(command.wait, CommandExitException)
    equal((error.exit_code, error.stdout, error.stderr), (3, "word\n", "bad\n"))


@check
def sandbox_addresses():
    equal(sandbox.get_host(8080), f"8080-{sandbox.sandbox_id}.{os.environ['E2B_DOMAIN']}")
    claim(f"-{sandbox.sandbox_id}." in sandbox.get_mcp_url(), sandbox.get_mcp_url())
    run("mkdir -p /etc/mcp-gateway && printf token > /etc/mcp-gateway/.token", user="root")
    equal(sandbox.get_mcp_token(), "token")


@check
def urls():
    sandbox.files.write("signed.txt", "by url")
    claim("signature=" in sandbox.upload_url("signed.txt"), "signed")
    url = urllib.parse.urlsplit(sandbox.download_url("signed.txt", use_signature_expiration=60))
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983"}
    request = urllib.request.Request(f"{os.environ['E2B_SANDBOX_URL']}{url.path}?{url.query}", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    equal(opener.open(request, timeout=20).read(), b"by url")


@check
def async_methods():
    sdk_async.drive_all(sandbox.sandbox_id)


@check
def async_sandbox():
    sdk_async.drive_class(TEMPLATE)


@check
def async_volumes():
    sdk_async.drive_volumes()


GIT = add_git(lambda: sandbox)
what_is_not_built_says_so = add_errors(lambda: sandbox, TEMPLATE)

# Which checks drive which public method that talks to envd.
METHODS = {
    "files": {"exists": files_exists, "get_info": files_info, "list": files_list, "make_dir": files_make_dir,
              "read": files_text, "remove": files_remove, "rename": files_rename, "watch_dir": files_watch_polling,
              "write": files_text, "write_files": files_write_many},
    "commands": {"close_stdin": stdin, "connect": background_connect_kill, "kill": background_connect_kill,
                 "list": background_connect_kill, "run": run_plain, "send_stdin": stdin, "stream_input": stream_input},
    "pty": {"connect": pty_connect_and_kill, "create": pty, "kill": pty_connect_and_kill, "resize": pty,
            "send_stdin": pty, "stream_input": pty_stream_input},
}


@check
def sandbox_info():
    info = Sandbox.get_info(sandbox.sandbox_id)
    equal((info.sandbox_id, info.state, info.metadata),
          (sandbox.sandbox_id, SandboxState.RUNNING, {"run": RUN, "n": "0"}))
    # 300 s from the start, or from the last connect() of the checks before this one
    life = (info.end_at - info.started_at).total_seconds()
    age = (datetime.datetime.now(datetime.timezone.utc) - info.started_at).total_seconds()
    claim(299 < life < 301 + age, f"lives {life} s at the age of {age} s, not the 300 s of the default")


@check
def sandbox_set_timeout():
    sandbox.set_timeout(500)
    left = (Sandbox.get_info(sandbox.sandbox_id).end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    claim(abs(left - 500) < 5, f"{left} s are left")


@check
def sandbox_connect():
    before = Sandbox.get_info(sandbox.sandbox_id).end_at
    other = Sandbox.connect(sandbox.sandbox_id)
    equal(other.commands.run("echo hi").stdout, "hi\n")
    equal(Sandbox.get_info(sandbox.sandbox_id).end_at, before)


@check
def sandbox_connect_unknown():
    refused(lambda: Sandbox.connect("i0000000000000000none"), SandboxNotFoundException)


@check
def sandbox_unknown_template():
    refused(lambda: Sandbox.create("no-such-template"), SandboxException, "404.*no-such-template")


@check
def sandbox_wrong_key():
    refused(lambda: Sandbox.create(TEMPLATE, api_key="e2b_" + "a" * 40), AuthenticationException)


@check
def sandbox_is_running():
    equal(sandbox.is_running(), True)


@check
def sandbox_list():
    more = [Sandbox.create(TEMPLATE, metadata={"run": RUN, "n": f"{n} &=+é"}) for n in (1, 2)]
    pages = Sandbox.list(query=SandboxQuery(metadata={"run": RUN}), limit=2)
    first = pages.next_items()
    equal((len(first), pages.has_next), (2, True))
    rest = pages.next_items()
    equal((len(rest), pages.has_next), (1, False))
    equal({s.sandbox_id for s in first + rest}, {s.sandbox_id for s in [sandbox, *more]})
    one = every(SandboxQuery(metadata={"n": "2 &=+é", "run": RUN}, state=[SandboxState.RUNNING]))
    equal([s.sandbox_id for s in one], [more[1].sandbox_id])
    equal([s.kill() for s in more], [True, True])


@check
def sandbox_metrics():
    now = datetime.datetime.now(datetime.timezone.utc)
    sample = sandbox.get_metrics(start=now - datetime.timedelta(minutes=1))[0]
    info = sandbox.get_info()
    equal((sample.cpu_count, sample.mem_total), (info.cpu_count, info.memory_mb << 20))
    claim(sample.mem_used > 0 and sample.disk_total >= sample.disk_used and sample.cpu_used_pct >= 0, f"{sample}")
    equal(sandbox.get_metrics(end=now - datetime.timedelta(hours=1)), [])


@check
def metrics_of_several():
    """By the call that the SDK generates and no class of it uses."""
    package = Sandbox.__module__.partition(".sandbox_sync")[0]
    config = importlib.import_module(f"{package}.connection_config").ConnectionConfig()
    client = importlib.import_module(f"{package}.api.client_sync").get_api_client(config)
    ask = importlib.import_module(f"{package}.api.client.api.sandboxes.get_sandboxes_metrics").sync
    with Sandbox.create(TEMPLATE) as other:
        ids = [sandbox.sandbox_id, other.sandbox_id]
        told = ask(client=client, sandbox_ids=[*ids, "i0000000000000000none"]).sandboxes
        equal(sorted(told), sorted(ids))
        equal(told[ids[1]]["memTotal"], other.get_info().memory_mb << 20)


@check
def sandboxes_are_apart():
    with Sandbox.create(TEMPLATE) as other:
        other.files.write("/tmp/mine", "x")
        equal(sandbox.files.exists("/tmp/mine"), False)
        claim(other.commands.run("hostname").stdout != run("hostname").stdout, "they share a host name")


@check
def sandbox_timeout_kills():
    other = Sandbox.create(TEMPLATE, timeout=2)
    until(lambda: not other.is_running(), "the sandbox ended", 15)
    refused(lambda: Sandbox.get_info(other.sandbox_id), NotFoundException)


def killed_in_the_middle(work):
    """Runs @work(sandbox, began) and kills the sandbox once began is set: the SDK says that it was killed."""
    other, began, outcome = Sandbox.create(TEMPLATE), threading.Event(), []

    def run_it():
        try:
            outcome.append(work(other, began))
        except Exception as error:
            outcome.append(error)

    worker = threading.Thread(target=run_it, daemon=True)
    worker.start()
    claim(began.wait(20), "it did not begin")
    equal(other.kill(), True)
    worker.join(20)
    claim(outcome and isinstance(outcome[0], TimeoutException), f"got {outcome!r:.300}")
    claim("killed or reached its end of life" in str(outcome[0]), f"{outcome[0]}")


@check
def kill_in_mid_stream():
    unkept = {} if is_port() else {"retain_output": False}
    killed_in_the_middle(lambda other, began: other.commands.run("yes", timeout=0, on_stdout=lambda _: began.set(), **unkept))


@check
def kill_in_a_quiet_stream():
    def wait(other, began):
        command = other.commands.run("sleep 300", background=True, timeout=0)
        began.set()
        return command.wait()

    killed_in_the_middle(wait)


@check
def kill_in_mid_download():
    def download(other, began):
        other.commands.run("truncate -s 8G /tmp/large")
        threading.Timer(0.4, began.set).start()
        return len(other.files.read("/tmp/large", format="bytes"))

    killed_in_the_middle(download)


@check
def sandbox_metrics():
    last = sandbox.get_metrics()[-1]
    claim(0 < last.mem_used < last.mem_total and last.cpu_count > 0, f"{last!r}")


@check
def sandbox_delete_snapshot():
    equal(Sandbox.delete_snapshot("nosuch"), False)


def compare(what, thing, known):
    there = [n for n in dir(thing) if not n.startswith("_")]
    claim(len(there) >= 2, f"{what} has methods")
    equal([n for n in there if n not in known], [])


@check
def every_method_has_a_check():
    command, watch = run("sleep 300", background=True), sandbox.files.watch_dir("/tmp")
    for part, known in {**METHODS, "git": GIT}.items():
        compare(part, getattr(sandbox, part), known)
    compare("handle", command, HANDLE)
    compare("watch", watch, WATCH)
    compare("sandbox", sandbox, SANDBOX)
    watch.stop()
    command.kill()


@check
def sandbox_kill():
    equal(sandbox.kill(), True)
    equal(sandbox.is_running(), False)
    equal(sandbox.kill(), False)
    equal(Sandbox.kill(sandbox.sandbox_id), False)
    refused(lambda: Sandbox.connect(sandbox.sandbox_id), SandboxNotFoundException)
    refused(lambda: Sandbox.get_info(sandbox.sandbox_id), SandboxNotFoundException)
    refused(lambda: run("true"), SandboxException)
    equal(every(SandboxQuery(metadata={"run": RUN})), [])


# The rest of what a sandbox gives; None: an attribute, nothing is asked.
HANDLE = {"wait": run_exit_code, "kill": background_connect_kill, "disconnect": background_survives_disconnect,
          "send_stdin": stdin_of_a_handle, "close_stdin": stdin_of_a_handle, "pid": None}
WATCH = {"get_new_events": files_watch_polling, "stop": files_watch_polling}
SANDBOX = {
    "create": create, "connect": sandbox_connect, "get_info": sandbox_info, "is_running": sandbox_is_running, "kill": sandbox_kill,
    "list": sandbox_list, "set_timeout": sandbox_set_timeout, "upload_url": urls, "download_url": urls, "get_host": sandbox_addresses,
    "get_mcp_url": sandbox_addresses, "get_mcp_token": sandbox_addresses, "delete_snapshot": sandbox_delete_snapshot, "get_metrics": sandbox_metrics,
    **dict.fromkeys(("pause", "beta_pause", "create_snapshot", "fork", "list_snapshots", "update_network"), what_is_not_built_says_so),
    **dict.fromkeys(("commands", "files", "pty", "git", "connection_config", "sandbox_id", "sandbox_domain", "traffic_access_token", "envd_api_url",
                     "envd_direct_url", "mcp_port", "default_mcp_template", "default_sandbox_timeout", "default_template")),
}

run_all()
