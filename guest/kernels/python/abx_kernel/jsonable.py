"""JSON of whatever Python values."""
import base64
import datetime
import math
import numbers

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
