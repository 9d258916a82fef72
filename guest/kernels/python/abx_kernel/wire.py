"""The line to the supervisor (descriptor 3, one ASCII JSON object a line) and what stands for stdout and stderr.

A SIGINT must not cut a line in two: while the main thread is in a message, the interrupt waits for its end.
"""
import codecs
import io
import json
import os
import sys
import threading
import time

FD = 3
LINE_MAX = 48 << 20  # the supervisor ends a kernel whose line is longer than 64 MiB
CHUNK = 64 << 10
FLUSH_SECONDS = 0.2
CHILD_EVENTS = frozenset(("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec",
                          "os.spawn", "pty.spawn"))

_main = threading.main_thread()
_write_lock = threading.RLock()
_read_lock = threading.RLock()
_received = bytearray()
_pid = os.getpid()


class Interrupts:
    """What SIGINT does: raises in a cell, waits in a message, is nothing between cells."""
    running = False
    depth = 0
    pending = False

    @classmethod
    def on_signal(cls, _number, _frame):
        if not cls.running:
            return
        if cls.depth:
            cls.pending = True
        else:
            raise KeyboardInterrupt

    def __enter__(self):
        if threading.current_thread() is _main:
            Interrupts.depth += 1

    def __exit__(self, kind, value, trace):
        if threading.current_thread() is not _main:
            return
        Interrupts.depth -= 1
        if Interrupts.depth == 0 and Interrupts.pending:
            Interrupts.pending = False
            if Interrupts.running:
                raise KeyboardInterrupt


uninterrupted = Interrupts()


def now():
    """ISO 8601, UTC."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06}+00:00"


def is_kernel():
    """Not in a child that was forked off by user code: it has no business on the line."""
    return os.getpid() == _pid


def send(message):
    data = json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
    if len(data) > LINE_MAX:
        data = json.dumps({"type": "error", "name": "OutputTooLarge", "traceback": "",
                           "value": f"an output of {len(data)} bytes: the limit is {LINE_MAX}; write it to a file"}
                          ).encode("ascii") + b"\n"
    with uninterrupted, _write_lock:
        view = memoryview(data)
        while view:
            view = view[os.write(FD, view):]


def read_line():
    """The supervisor's next line, b"" at its end."""
    with _read_lock:
        while b"\n" not in _received:
            came = os.read(FD, 1 << 16)
            if not came:
                return b""
            _received.extend(came)
        line, _, rest = bytes(_received).partition(b"\n")
        _received[:] = rest
        return line


class Bytes(io.BufferedIOBase):
    """sys.stdout.buffer: bytes go out as the text that they are."""

    def __init__(self, stream):
        self.stream = stream
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        self.stream.write(self.decoder.decode(data))
        return len(data)

    def flush(self):
        self.stream.flush()

    def fileno(self):
        return self.stream.fileno()


class Stream(io.TextIOBase):
    """One print is one message; text without a newline goes out after FLUSH_SECONDS at the latest."""

    def __init__(self, name, fd):
        self._name, self._fd, self._parts, self._size = name, fd, [], 0
        self._partial = threading.Event()
        self._flusher = None
        self.buffer = Bytes(self)

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    line_buffering = True

    @property
    def name(self):
        return f"<{self._name}>"

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._fd

    def reconfigure(self, **_options):
        """Nothing to change: the encoding is UTF-8, buffering is by line."""

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not is_kernel():
            os.write(self._fd, text.encode("utf-8", "replace"))
            return len(text)
        with uninterrupted, _write_lock:
            self._parts.append(text)
            self._size += len(text)
            if text.endswith("\n") or self._size >= CHUNK:
                self.flush()
            elif text:
                self._flush_later()
        return len(text)

    def flush(self):
        if not is_kernel():
            return
        with uninterrupted, _write_lock:
            text = "".join(self._parts)
            self._parts, self._size = [], 0
            for at in range(0, len(text), CHUNK):
                send({"type": self._name, "text": text[at:at + CHUNK], "timestamp": now()})

    def close(self):
        """The stream of a kernel stays open."""

    def _flush_later(self):
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._flush_partial, daemon=True, name=f"flush {self._name}")
            self._flusher.start()
        self._partial.set()

    def _flush_partial(self):
        while True:
            self._partial.wait()
            self._partial.clear()
            time.sleep(FLUSH_SECONDS)
            self.flush()


def flush():
    sys.stdout.flush()
    sys.stderr.flush()


def sync():
    """Returns once the supervisor has taken all that was sent: what a child now writes comes after it."""
    if not Interrupts.running or not is_kernel():
        return
    with uninterrupted, _read_lock:
        stdout.flush()
        stderr.flush()
        send({"type": "sync"})
        read_line()


def on_audit(event, _arguments):
    if event in CHILD_EVENTS:
        sync()


stdout, stderr = Stream("stdout", 1), Stream("stderr", 2)


def install():
    os.set_inheritable(FD, False)  # os.system() closes nothing
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    sys.addaudithook(on_audit)
