"""tests/e2e/rows.py: what the tables of cases have in common: commands by stream, protocol and way, rows side by side.

    stream = open_way(sandbox, "Connect", "proto", "pty", "printf x")   # ready, its text runs from now on
    heard(stream)                                                       # ({"pty": b"x"}, 0)
    in_parallel(check, [(1, "a"), (2, "b")])                            # check(1, "a"), check(2, "b"); all that failed are told"""
import base64
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

PROTOCOLS, STREAMS, WAYS = ("json", "proto"), ("stdout", "stderr", "pty"), ("Start", "Connect")
SIZE = {"size": {"cols": 80, "rows": 24}}
PREFIXES = {"stdout": "", "stderr": "exec >&2; ", "pty": "stty raw -echo; "}
SLOW_SECONDS = 20  # hang guard of waits whose figure is below 2 s


def expect(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {str(got)[:300]!r}, want {str(want)[:300]!r}")


def claim(holds, what):
    if not holds:
        raise AssertionError(what)


def product(*lists):
    return list(itertools.product(*lists))


def in_parallel(check, rows, workers=12):
    """Runs check(*row) for every row; one error with all rows that failed."""
    failures = []

    def one(row):
        try:
            check(*row)
        except Exception as error:  # whatever it is, it is this row's failure
            failures.append(f"{str(row)[:120]}: {type(error).__name__}: {error}")
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, rows))
    if failures:
        raise AssertionError(f"{len(failures)} of {len(rows)} rows: " + "; ".join(sorted(failures)[:8]))


def soon(began, what):
    claim(time.monotonic() - began < SLOW_SECONDS, f"{what}: not within {SLOW_SECONDS} s")


def command(stream, text, envs=None, **fields):
    """The message of Start for a shell whose output goes to @stream as it is."""
    message = {"process": {"cmd": "/bin/sh", "args": ["-c", PREFIXES[stream] + text], "envs": envs or {}}, **fields}
    return {**message, "pty": SIZE} if stream == "pty" else message


def start(sandbox, protocol, stream, text, headers=None, **fields):
    return sandbox.stream("process.Process/Start", command(stream, text, **fields), protocol, **(headers or {}))


def connect(sandbox, protocol, pid, offset=None):
    headers = {} if offset is None else {"X-Abx-Journal-Offset": str(offset)}
    return sandbox.stream("process.Process/Connect", {"process": {"pid": pid}}, protocol, **headers)


def write(sandbox, protocol, pid, stream, data):
    """SendInput to the process @pid, whose output is @stream."""
    kind = "pty" if stream == "pty" else "stdin"
    status, answer = sandbox.unary("process.Process/SendInput", {
        "process": {"pid": pid}, "input": {kind: base64.b64encode(data).decode()}}, protocol)
    expect(status, 200, f"SendInput: {answer}: status")


def outputs(event):
    """[(stream, bytes)] of an event: one, or none."""
    return [(kind, base64.b64decode(data)) for kind, data in event.get("data", {}).items()]


def until_seen(stream, kind, wanted):
    """What came as @kind until @wanted is in it."""
    seen = b""
    while wanted not in seen:
        event = stream.event()
        claim(event is not None, f"{kind} ended after {seen!r}: {stream.end_frame}")
        seen += b"".join(data for k, data in outputs(event) if k == kind)
    return seen


def status_of(event):
    """The exit code, or the text of a signal's end."""
    end = event["end"]
    return end.get("exitCode", 0) if end.get("exited") else end.get("status")


def heard(stream):
    """({stream: all that came on it}, exit code or text) to the end of the call; its error is an error."""
    seen, status = {}, None
    while (event := stream.event()) is not None:
        for kind, data in outputs(event):
            seen[kind] = seen.get(kind, b"") + data
        status = status_of(event) if "end" in event else status
    claim("error" not in stream.end_frame, f"end frame: {stream.end_frame}")
    stream.close()
    return seen, status


def ready(sandbox, protocol, stream, text, **fields):
    """A process that runs @text once it is sent a line; what it wrote before is read."""
    opened = start(sandbox, protocol, stream, "printf ready; read go; " + text, **fields).until_start()
    until_seen(opened, stream, b"ready")
    return opened


def open_way(sandbox, way, protocol, stream, text, **fields):
    """A stream that hears @text from its beginning: the one of Start, or a second client's, the first being gone."""
    if way == "Start":
        return start(sandbox, protocol, stream, text, **fields).until_start()
    first = ready(sandbox, protocol, stream, text, **fields)
    second = connect(sandbox, protocol, first.pid).until_start()
    expect(second.pid, first.pid, "pid that Connect tells")
    first.reset()
    write(sandbox, protocol, first.pid, stream, b"go\n")
    return second
