"""One call: arguments in, one answer or a stream out (command-hosts.md 2.2)."""
import base64
import inspect
import json
import math
import re
import threading
import traceback

from ._coerce import coerce_kwargs
from ._denied import PolicyDenied
from .types import ServerRequest, ServerResponse, SSEResponse

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_JSON = "application/json; charset=utf-8"
_OCTETS = "application/octet-stream"
_BYTES = (bytes, bytearray, memoryview)
_BODYLESS = (204, 304)
TEXT_MAX = 1 << 20  # characters of an exception, 12 bytes of JSON each at most


class Cancelled(BaseException):
    """The caller is gone or the time is over."""


class Call:
    def __init__(self, host, number):
        self.host = host
        self.id = number
        self.thread = None
        self.may_send = threading.Event()
        self.may_send.set()
        self.is_cancelled = False
        self.has_head = False
        self.is_over = False

    def cancel(self):
        """Raises TimeoutError in the thread, as soon as it runs Python code again."""
        self.is_cancelled = True
        self.may_send.set()
        if self.thread is None or self.thread.ident is None:
            return
        try:
            import ctypes

            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident), ctypes.py_object(TimeoutError))
        except ImportError:
            pass

    def _finish(self, text):
        if not self.is_over:
            line = self.host.line(text)  # may refuse it: then the call has no answer yet
            self.is_over = True
            self.host.send_line(line)

    def result(self, text):
        self._finish(f'{{"op":"result","id":{self.id},"value":{text}}}')

    def respond(self, status, headers, body):
        """The body is JSON text, or bytes, or None."""
        head = json.dumps(headers)
        tail = "" if body is None else f',"body":{body}'
        if isinstance(body, bytes):
            tail = f',"base64":"{base64.b64encode(body).decode()}"'
        self._finish(f'{{"op":"response","id":{self.id},"status":{status},"headers":{head}{tail}}}')

    def error(self, status, kind, text, code=None, extra=None):
        message = {"op": "error", "id": self.id, "status": status, "type": kind, "message": text}
        if code is not None:
            message["code"] = code
        if extra:
            message["extra"] = extra
        self._finish(json.dumps(message, separators=(",", ":")))

    def fail(self, exc):
        """Answers 500 for whatever user code raised, and puts the traceback into the log."""
        if self.is_over:
            return
        try:
            text = str(exc)
        except BaseException as other:
            exc, text = other, "no text"
            try:
                text = str(other)
            except BaseException:
                pass
        try:
            if not self.is_cancelled:
                self.host.log("".join(traceback.format_exception(type(exc), exc, exc.__traceback__)))
            self.error(500, type(exc).__name__, text[:TEXT_MAX])
        except (OSError, ValueError):
            self.is_over = True  # the server is gone

    def head(self, status, headers):
        self.has_head = True
        self.host.send({"op": "head", "id": self.id, "status": status, "headers": headers})

    def chunk(self, data):
        self.may_send.wait()
        if self.is_cancelled:
            raise Cancelled
        if isinstance(data, _BYTES):
            self.host.send({"op": "chunk", "id": self.id, "base64": base64.b64encode(data).decode()})
        elif isinstance(data, str):
            self.host.send({"op": "chunk", "id": self.id, "data": data})
        else:
            raise TypeError(f"a stream gives str or bytes, not {type(data).__name__}")

    def end(self):
        self._finish(f'{{"op":"end","id":{self.id}}}')


# ---- values


def _finite(value):
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def encode(value):
    """JSON as the published server writes it; NaN and Infinity, which JSON lacks, become null."""
    text = json.dumps(value, default=str)
    return json.dumps(_finite(value), default=str) if "NaN" in text or "Infinity" in text else text


def _iterate(values):
    """The items of a generator of either kind, one by one, in this thread."""
    if hasattr(values, "__aiter__"):
        import asyncio

        loop = asyncio.new_event_loop()
        try:
            items = values.__aiter__()
            while True:
                try:
                    yield loop.run_until_complete(items.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(values, "aclose", None)
            if close is not None:
                loop.run_until_complete(close())
            loop.close()
    else:
        try:
            yield from values
        finally:
            close = getattr(values, "close", None)
            if close is not None:
                close()


def _is_generator(value):
    return inspect.isgenerator(value) or inspect.isasyncgen(value)


def _awaited(value):
    if not inspect.isawaitable(value):
        return value

    import asyncio

    async def wait():
        return await value

    return asyncio.run(wait())


# ---- commands


def run_command(call, entry, message):
    raw = message.get("args")
    if not raw:
        raw = {}
    try:
        kwargs = coerce_kwargs(entry.args, raw)
    except (ValueError, TypeError) as exc:
        call.error(400, type(exc).__name__, str(exc))
        return
    value = _awaited(entry.fn(**kwargs))
    if not _is_generator(value):
        call.result(encode(value))
    elif message.get("stream"):
        _stream(call, 200, {"Content-Type": "text/event-stream"}, (f"data: {encode(v)}\n\n" for v in _iterate(value)))
    else:
        call.result(encode(list(_iterate(value))))


# ---- routes


def run_route(call, route, message, context):
    request = ServerRequest(message["method"], message["path"], message.get("query") or {}, message.get("headers") or {},
                            message.get("body"), message.get("path_params") or {}, context)
    try:
        answer = _awaited(route.handler(request))
        if isinstance(answer, SSEResponse):
            frames = answer.event_iterator if answer.event_iterator is not None else ()
            _stream(call, answer.status, _headers(answer.headers, "text/event-stream"), _iterate(frames))
        elif _is_generator(answer):
            _stream(call, 200, {"Content-Type": "text/event-stream"}, _iterate(answer))
        elif isinstance(answer, ServerResponse):
            _respond(call, answer)
        else:
            call.error(500, "TypeError", f"the handler of {route.name} returned {type(answer).__name__}, "
                                         "not ServerResponse or SSEResponse")
    except PolicyDenied as exc:
        if call.has_head:
            raise
        _deny(call, exc, context["policy"].endpoint)


def _respond(call, answer):
    is_bytes = isinstance(answer.body, _BYTES)
    headers = _headers(answer.headers, _OCTETS if is_bytes else _JSON)
    body = None if answer.status in _BODYLESS else bytes(answer.body) if is_bytes else encode(answer.body)
    if body is None or (answer.status == 202 and not answer.body):
        body = None
        if not any(name.lower() == "content-type" for name in answer.headers):
            headers.pop("Content-Type")
    call.respond(_status(answer.status), headers, body)


def _status(status):
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 999:
        raise ValueError(f"{status!r} is no status of an answer")
    return int(status)


def _headers(given, content_type):
    out = {}
    for name, value in given.items():
        text = str(value)
        if not isinstance(name, str) or not _TOKEN.match(name):
            raise ValueError(f"{name!r} is no name of a header")
        if _BAD_VALUE.search(text):
            raise ValueError(f"the value of header {name!r} holds control characters")
        try:
            text.encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"the value of header {name!r} does not fit into Latin-1") from None
        out[name] = text
    if not any(name.lower() == "content-type" for name in out):
        out["Content-Type"] = content_type
    return out


def _deny(call, exc, endpoint):
    exc.endpoint = exc.endpoint or endpoint
    headers = {"Content-Type": _JSON}
    if exc.extra.get("retry_after") is not None:
        headers["Retry-After"] = str(exc.extra["retry_after"])
    call.respond(_status(exc.status), headers, encode(exc.to_body()))


def _stream(call, status, headers, frames):
    try:
        first = True
        for frame in frames:
            if first:
                call.head(_status(status), headers)
                first = False
            call.chunk(frame)
        if first:
            call.head(_status(status), headers)
        call.end()
    except Cancelled:
        call.error(500, "TimeoutError", "cancelled")
    finally:
        frames.close()
