"""From a bundle {MIME type: value} to the `result` message; JSON of whatever Python values."""
import base64
import datetime
import math
import numbers

from abx_kernel import wire

KEYS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}
DEPTH_MAX = 64


def clean(value, depth=0):
    """@value as JSON: no NaN, keys that are strings, ISO times, arrays as lists."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if depth >= DEPTH_MAX:
        return str(value)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return None if str(value) == "NaT" else value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        plain = value.tolist()
        return str(value) if type(plain) is type(value) else clean(plain, depth + 1)
    return str(value)


def strip_quotes(text):
    """The repr of a string, as the string: one pair of quotes goes, no escape is undone."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def message(bundle, is_main):
    result, extra = {"type": "result"}, {}
    for mime, value in bundle.items():
        if value is None:
            continue
        if mime not in KEYS:
            extra[mime] = clean(value)
        elif mime == "text/plain":
            result["text"] = strip_quotes(str(value))
        else:
            result[KEYS[mime]] = clean(value)
    result["extra"] = extra
    result["is_main_result"] = is_main
    return result


def send_result(bundle, is_main):
    wire.flush()
    wire.send(message(bundle, is_main))


def send_error(name, value, traceback):
    wire.flush()
    wire.send({"type": "error", "name": name, "value": value, "traceback": traceback})


def table_data(frame):
    """A DataFrame as {column: [values]}."""
    return {str(name): clean(frame.iloc[:, at].tolist()) for at, name in enumerate(frame.columns)}


def figure_chart(figure):
    from abx_kernel import chart
    return chart.of_figure(figure)
