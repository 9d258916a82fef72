"""tests/compat/py/server_client.py: every public method of the published ServerClient, both flavours, against our server.

What a user of that package would rely on; which answers become which of its exceptions is in server_errors.py."""
import inspect
import io
import os
import subprocess
import sys
import tarfile
import threading
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from agent_sandbox.api import server_capabilities, server_client  # noqa: E402
from checks import check, claim, equal, run_all, until  # noqa: E402
from driver import DONE, Driver, public_methods  # noqa: E402

CLASSES = [c for n, c in inspect.getmembers(server_client, inspect.isclass)
           if c.__module__ == server_client.__name__ and not n.startswith("_")] + [server_capabilities.ServerCapabilities]
wide = servers.wide()


def both(function):
    """Adds a check of each flavour of the client."""
    for mode in ("async", "sync"):
        def run(mode=mode):
            target = servers.client(wide, servers.WIDE)
            server = Driver(target, mode, "agent_sandbox.api")
            try:
                function(server)
            finally:
                server.aclose()
        run.__name__ = f"{mode}_{function.__name__}"
        check(run)
    return function


def base(name):
    return os.path.join(wide.base, name)


@both
def health_and_token(server):
    equal(server.health(), True)
    equal(server.with_token(None).health(), True)
    equal(server.auth_headers(), {"Authorization": f"Bearer {servers.WIDE}", "X-Access-Token": servers.WIDE})
    equal(server.pty_url, f"ws://127.0.0.1:{wide.pty_port}")


@both
def discovery(server):
    equal(server.capabilities, None)
    found = server.discover()
    equal((found.target.api_version, found.target.preset, found.target.identity_id), (2, "default", "server"))
    equal(sorted(set(server_client.ServerClient.ENDPOINT_METHODS) - set(found.target.endpoints)), [])
    claim(found.can("files_list") and not found.can("agents_sessions_list"), "what is on")
    equal((found.denial("files_list"), found.denial("no_such")), (None, "unknown_endpoint"))
    equal((found.denial("agents_sessions_list"), found.rule("agents_sessions_list")), ("endpoint_disabled", "default:opt-in:agents"))
    equal((found.info("files_list").method, found.require("files_list").path), ("GET", "/files/list"))
    equal(found.limit("system_metrics", "rate_per_minute"), 6000)
    equal(found.param("files_upload_stream", "deny_extensions"), [".exe"])
    equal(found.paths("files_list").read_only, False)
    claim("shell" in found.endpoints_for("process:run") and "shell" in found.available(), "lists")
    equal(found.check_path("files_stat", base("x")).allowed, True)
    equal(found.check_path("files_stat", "/proc/1/environ").allowed, False)
    equal(found.as_dict()["api_version"], 2)
    claim(server.capabilities is not None, "it is kept")
    server.forget_discovery()
    equal(server.capabilities, None)
    equal(server.check("files_delete", paths=[base("x")], op="delete").allowed, True)


@both
def commands(server):
    found = {c.name: c for c in server.commands.list()}
    equal(sorted(found), ["broken", "greet", "slow"])
    equal([(a.name, a.type, a.required, a.default) for a in found["greet"].args],
          [("name", "string", False, "world"), ("times", "integer", False, "1")])
    equal(found["greet"].description, "say hello")
    equal(server.commands.run("greet"), "Hello, world!")
    equal(server.commands.run("greet", name="世界", times=2, timeout=20), "Hello, 世界!Hello, 世界!")


@both
def files(server):
    top, data = base("files"), bytes(range(256)) * 500
    equal((server.files.mkdir(top).path, server.files.exists(top)), (top, True))
    sent = server.files.upload(f"{top}/wide.bin", data)
    equal((sent.path, sent.size), (f"{top}/wide.bin", len(data)))
    equal(server.files.download(f"{top}/wide.bin"), data)
    server.files.upload(f"{top}/sub/é漢.txt", "text é漢\n")
    equal(server.files.read_text(f"{top}/sub/é漢.txt"), "text é漢\n")
    info = server.files.stat(f"{top}/wide.bin")
    equal((info.name, info.type, info.size, info.exists), ("wide.bin", "file", len(data), True))
    equal((server.files.stat(f"{top}/none").exists, server.files.exists(f"{top}/none")), (False, False))
    equal({(e.name, e.is_dir) for e in server.files.list(top)}, {("wide.bin", False), ("sub", True)})
    claim(any(e.name.endswith("é漢.txt") for e in server.files.list(top, recursive=True)), "recursive")
    equal(len(server.files.list(top, max_entries=1)), 1)
    found = server.files.search(top, "*.txt", max_depth=3, max_results=5)
    equal(([h.name for h in found.results], found.timed_out), (["é漢.txt"], False))
    moved = server.files.move(f"{top}/wide.bin", f"{top}/moved.bin")
    equal((moved.source, moved.destination), (f"{top}/wide.bin", f"{top}/moved.bin"))
    equal(server.files.delete(top).deleted, True)
    equal(server.files.exists(top), False)


@both
def files_of_this_side(server):
    here, back = os.path.join(wide.top, "here"), os.path.join(wide.top, "back")
    with open(here, "wb") as f:
        f.write(b"local\0bytes")
    equal(server.files.upload_file(here, base("there")).size, 11)
    equal(server.files.download_file(base("there"), back), 11)
    with open(back, "rb") as f:
        equal(f.read(), b"local\0bytes")


@both
def files_archive(server):
    server.files.upload(base("packed/a.txt"), "a")
    packed = server.files.archive([base("packed")])
    equal((packed.format, packed.size), ("tar.gz", len(packed.data)))
    claim(any(n.endswith("a.txt") for n in tarfile.open(fileobj=io.BytesIO(packed.data)).getnames()), "the member")
    packed = server.files.archive([base("packed")], format="zip")
    claim(any(n.endswith("a.txt") for n in zipfile.ZipFile(io.BytesIO(packed.data)).namelist()), "the member of the zip")


def later(seconds, run):
    timer = threading.Timer(seconds, run)
    timer.start()
    return timer


def touch(path):
    with open(path, "w", encoding="utf-8") as f:
        f.write("x")


@both
def files_watch(server):
    server.files.mkdir(base("watched"))
    for name, watch in (("a", lambda: server.files.watch(base("watched"), timeout=2, interval=0.1)),
                        ("b", lambda: server.files.watch_for(base("watched"), 2, recursive=True, interval=0.1))):
        timer = later(0.7, lambda name=name: touch(base(f"watched/{name}")))
        events = watch()
        timer.join()
        claim(any(e.path.endswith(f"watched/{name}") and e.type == "created" and not e.is_dir for e in events), f"{events!r}")
    server.files.delete(base("watched"))


@both
def shell(server):
    done = server.process.shell("sh -c 'echo out; echo err >&2; echo $A; pwd; exit 3'", env={"A": "é"}, cwd=wide.base, timeout=20)
    equal((done.stdout, done.stderr, done.exit_code, done.truncated, done.success), (f"out\né\n{wide.base}\n", "err\n", 3, False, False))


@both
def shell_stream(server):
    events = [(e.event.value, e.data.rstrip("\n"), e.exit_code) for e in server.process.shell_stream("sh -c 'echo a; echo b >&2; exit 2'")]
    equal(sorted(events[:-1]), [("stderr", "b", None), ("stdout", "a", None)])
    equal(events[-1], ("exit", "", 2))
    seen, wrong = [], []
    done = server.process.run_stream("sh -c 'echo a; echo b >&2; exit 2'", on_stdout=seen.append, on_stderr=wrong.append, cwd=wide.base, env={"B": "1"}, timeout=20)
    equal(("".join(seen).strip(), "".join(wrong).strip(), done.exit_code), ("a", "b", 2))


@both
def processes(server):
    child = server.process.start("sh -c 'read line; echo got $line; echo bad >&2; cat; exit 4'", capture_output=True, stdin=True, cwd=wide.base, env={"C": "1"})
    claim(any(p.pid == child.pid and p.running for p in server.process.list()), "it is listed")
    equal(server.process.get(child.pid).state, "running")
    equal(server.process.send_stdin(child.pid, "word\n").written, 5)
    equal(server.process.close_stdin(child.pid).closed, True)
    equal(server.process.wait(child.pid, timeout=20, poll=0.1), 4)
    until(lambda: server.process.output(child.pid).exit_code == 4, "the output is complete")
    out = server.process.output(child.pid, since=0, wait=0.1)
    equal((out.stdout, out.stderr, out.exit_code, out.dropped), ("got word\n", "bad\n", 4, False))
    equal(server.process.output(child.pid, since=out.next).events, [])
    equal("".join(e.data for e in server.process.follow(child.pid, poll=1.0) if e.stream == "stdout"), "got word\n")


@both
def process_signals(server):
    for send, number in ((lambda pid: server.process.signal(pid, 2), 2), (server.process.terminate, 15), (server.process.kill, 9)):
        child = server.process.start("sleep 300")
        equal(send(child.pid).signal, number)
        equal(server.process.wait(child.pid, timeout=20, poll=0.1), -number)


@both
def terminals(server):
    made = server.pty.create("/bin/bash", cols=90, rows=30, env={"MARK": "m4rk"})
    claim(made.ws_url and made.pid, f"{made!r}")
    claim(made.session_id in [s.id for s in server.pty.list()], "it is listed")
    equal((server.pty.get(made.session_id).cols, server.pty.resize(made.session_id, 100, 40).rows), (90, 40))
    term = server.pty.connect(made.session_id)
    term.open()
    first = term.recv(10)
    equal((first.type, first.event, first.session_id), ("event", "started", made.session_id))
    term.send("echo $((40+2))-$MARK; stty size\n")
    text = term.expect("40 100")
    claim("42-m4rk" in text, text)
    term.resize(77, 33)
    term.send("stty size\n")
    term.expect("33 77")
    term.send("sleep 300\n")
    term.expect("sleep 300")
    until(lambda: servers.RUN.has_terminal(made.pid, "sleep"), "the program runs")
    term.signal("SIGINT")
    term.send("echo after-$?\n")
    term.expect("after-130")
    term.close()
    server.pty.delete(made.session_id)
    claim(made.session_id not in [s.id for s in server.pty.list()], "it is gone")


@both
def terminal_that_ends(server):
    made = server.pty.create("/bin/sh")
    term = server.pty.connect(made.session_id)
    term.open()
    term.send("exit\n")
    events = []
    while (message := term.recv(10)) is not None:
        events.append(message.event)
    equal([e for e in events if e], ["started", "exited"])
    term.close()


@both
def system(server):
    info, metrics = server.system.info(), server.system.metrics()
    equal((info.os.lower(), info.hostname, info.cpu_count > 0, info.memory_total_mb > 0), ("linux", os.uname().nodename, True, True))
    claim(metrics.memory_total_mb == info.memory_total_mb and 0 < metrics.memory_percent <= 100, f"{metrics!r}")
    equal(server.system.set_env({"SET_BY_TEST": "é", "OTHER_OF_TEST": "2"}), ["OTHER_OF_TEST", "SET_BY_TEST"])
    equal(server.system.env(["SET_BY_TEST"]), {"SET_BY_TEST": "é"})
    claim("PATH" in server.system.env() and "ABX_SERVER_TOKEN" not in server.system.env(), "no secrets")
    equal(server.process.shell("sh -c 'echo $SET_BY_TEST'").stdout, "é\n")
    claim(any(p.port == wide.port for p in server.system.ports()), "our own port is listed")
    equal(server.system.packages("pip").manager, "pip")


@both
def devtools(server):
    done = server.devtools.run_code("import sys; print('é'); sys.exit(3)", "python", timeout=20)
    equal((done.stdout, done.exit_code, done.language, done.truncated), ("é\n", 3, "python", False))
    repository = base("repository")
    if not os.path.isdir(repository):
        for words in (["init", "-q", "-b", "main", repository], ["-C", repository, "-c", "user.name=t", "-c", "user.email=t@t.test",
                                                               "commit", "-q", "--allow-empty", "-m", "x"]):
            subprocess.run(["git", *words], check=True, timeout=60)
    server.files.upload(f"{repository}/new.txt", "new\n")
    status = server.devtools.git_status(repository)
    equal((status.branch, status.clean, [f.path for f in status.files]), ("main", False, ["new.txt"]))
    subprocess.run(["git", "-C", repository, "add", "new.txt"], check=True, timeout=60)
    claim("+new" in server.devtools.git_diff(repository, staged=True, file="new.txt").diff, "the diff")
    subprocess.run(["git", "-C", repository, "rm", "-q", "--cached", "new.txt"], check=True, timeout=60)


def browser(mode):
    """In a browser of its own: one page, all eight calls."""
    with servers.Pages() as pages, servers.browser() as box:
        server = Driver(servers.client(box, None), mode, "agent_sandbox.api")
        page = server.browser.navigate(pages.url, wait_until="load", timeout=30000)
        equal((page.url, page.title, page.status), (pages.url, "Hello", 200))
        claim("<h1>Hi</h1>" in server.browser.content().content, "the page")
        equal(server.browser.content("text").content.split()[0], "Hi")
        equal([row["text"] for row in server.browser.console()], ["said 1"])
        server.browser.type("#i", "new", clear=True, delay=1)
        server.browser.click("#b", timeout=10000)
        equal(server.browser.evaluate("[document.title, document.querySelector('#i').value]", timeout=10000), ["clicked", "new"])
        claim(server.browser.screenshot(selector="h1", full_page=False).startswith(b"\x89PNG"), "a PNG")
        claim(server.browser.pdf(format="A5", landscape=True).startswith(b"%PDF"), "a PDF")
        server.aclose()


if servers.HAS_NAMESPACE:
    @check
    def async_browser():
        browser("async")

    @check
    def sync_browser():
        browser("sync")
else:
    print("# browser: left out, it needs a network namespace, and so root")
    CLASSES.remove(server_client.ServerBrowserApi)

import server_errors  # noqa: E402, F401  (its checks come here)


@check
def every_public_method_was_driven():
    """By what the package has, not by a list of ours; nothing is left out."""
    equal(sorted(public_methods(*CLASSES) - DONE), [])
    known = {word for words in server_client.ServerClient.ENDPOINT_METHODS.values() for word in words}
    claim(len(public_methods(*CLASSES)) > len(known) > 40, "the package has what it had")


run_all(servers.close_all)
