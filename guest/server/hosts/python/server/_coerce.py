"""From JSON values to the arguments of a command (command-hosts.md 2.1)."""
import json

__all__ = ["coerce_kwargs", "parse_scalar"]

TYPES = ("boolean", "float", "integer", "string", "string_array")
_TRUE = ("true", "yes", "1")
_FALSE = ("false", "no", "0")
_ARRAY = "Expected a JSON array containing only strings"


def _boolean(value):
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"Cannot parse {value!r} as boolean; accepted values: true/false/yes/no/1/0")


def _integer(value):
    if isinstance(value, bool):
        raise ValueError("JSON boolean is not an integer argument")
    return int(value)


def _string_array(value):
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(_ARRAY)
    return value


_PARSERS = {"string": str, "integer": _integer, "float": float, "boolean": _boolean, "string_array": _string_array}


def parse_scalar(value, type_str):
    """`value` as the declared type; ValueError or TypeError when it is none."""
    parser = _PARSERS.get(type_str)
    if parser is None:
        raise ValueError(f"Unknown type: {type_str!r}")
    return parser(value)


def parse_array_default(text):
    """The list that the default of a string_array stands for."""
    try:
        return _string_array(json.loads(text))
    except (TypeError, ValueError):
        raise ValueError("string_array default must be a JSON array of strings") from None


def _default(arg):
    try:
        return parse_array_default(arg.default) if arg.type == "string_array" else parse_scalar(arg.default, arg.type)
    except (TypeError, ValueError):
        return arg.default


def coerce_kwargs(args, raw):
    """The keyword arguments for a function with the declared `args`, from a JSON object."""
    declared = {arg.name for arg in args}
    unknown = {key for key in raw} - declared
    if unknown:
        names = sorted(declared)
        raise ValueError(f"Unexpected argument(s): {sorted(unknown)}; declared: {names if names else '(none)'}")
    out = {}
    for arg in args:
        if arg.name in raw:
            try:
                out[arg.name] = parse_scalar(raw[arg.name], arg.type)
            except (TypeError, ValueError) as exc:
                raise TypeError(f"Cannot convert argument {arg.name!r} to {arg.type}: {exc}") from exc
        elif arg.required:
            raise ValueError(f"Required argument {arg.name!r} missing")
        elif arg.default is not None:
            out[arg.name] = _default(arg)
    return out
