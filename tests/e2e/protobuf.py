"""tests/e2e/protobuf.py: the messages of envd.md 5.1 and 6.1 as protobuf, to and from the same dicts as their JSON.

    encode("process.Process/Connect", {"process": {"pid": 7}})    # b"\\n\\2\\10\\7"
    decode("process.Process/Connect", data)                       # {"event": {"start": {"pid": 7}}}

Written from the table of the protocol, not from the .proto files of the daemon, so that the two can differ."""
import base64

# name=number:type; * repeated, ? a oneof or optional member (told even when it is 0). Types: s text, b bytes, u uint32,
# i sint32, l int64, o bool, m map of texts, t timestamp, E:Enum, else a message.
MESSAGES = """
Size cols=1:u rows=2:u
PTY size=1:Size
ProcessConfig cmd=1:s args=2:s* envs=3:m cwd=4:s?
ProcessSelector pid=1:u? tag=2:s?
ProcessInfo config=1:ProcessConfig pid=2:u tag=3:s?
Empty
ListResponse processes=1:ProcessInfo*
StartRequest process=1:ProcessConfig pty=2:PTY tag=3:s? stdin=4:o?
ByProcess process=1:ProcessSelector
EventResponse event=1:ProcessEvent
ProcessEvent start=1:StartEvent data=2:DataEvent end=3:EndEvent keepalive=4:Empty
StartEvent pid=1:u
DataEvent stdout=1:b? stderr=2:b? pty=3:b?
EndEvent exitCode=1:i exited=2:o status=3:s error=4:s?
UpdateRequest process=1:ProcessSelector pty=2:PTY
ProcessInput stdin=1:b? pty=2:b?
SendInputRequest process=1:ProcessSelector input=2:ProcessInput
StreamInputRequest start=1:ByProcess data=2:InputData keepalive=3:Empty
InputData input=2:ProcessInput
SendSignalRequest process=1:ProcessSelector signal=2:E:Signal
PathRequest path=1:s
MoveRequest source=1:s destination=2:s
ListDirRequest path=1:s depth=2:u
WatchRequest path=1:s recursive=2:o includeEntry=3:o allowNetworkMounts=4:o
EntryResponse entry=1:EntryInfo
ListDirResponse entries=1:EntryInfo*
WatchDirResponse start=1:Empty filesystem=2:FilesystemEvent keepalive=3:Empty
FilesystemEvent name=1:s type=2:E:EventType entry=3:EntryInfo
Watcher watcherId=1:s
EventsResponse events=1:FilesystemEvent*
EntryInfo name=1:s type=2:E:FileType path=3:s size=4:l mode=5:u permissions=6:s owner=7:s group=8:s modifiedTime=9:t symlinkTarget=10:s? metadata=11:m
"""
ENUMS = {"Signal": {0: "SIGNAL_UNSPECIFIED", 9: "SIGNAL_SIGKILL", 15: "SIGNAL_SIGTERM"},
         "FileType": dict(enumerate(("FILE_TYPE_UNSPECIFIED", "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_SYMLINK"))),
         "EventType": {i: "EVENT_TYPE_" + n for i, n in enumerate(("UNSPECIFIED", "CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"))}}
METHODS = {
    "process.Process/List": ("Empty", "ListResponse"), "process.Process/Start": ("StartRequest", "EventResponse"),
    "process.Process/Connect": ("ByProcess", "EventResponse"), "process.Process/Update": ("UpdateRequest", "Empty"),
    "process.Process/SendInput": ("SendInputRequest", "Empty"), "process.Process/StreamInput": ("StreamInputRequest", "Empty"),
    "process.Process/SendSignal": ("SendSignalRequest", "Empty"), "process.Process/CloseStdin": ("ByProcess", "Empty"),
    "filesystem.Filesystem/Stat": ("PathRequest", "EntryResponse"), "filesystem.Filesystem/MakeDir": ("PathRequest", "EntryResponse"),
    "filesystem.Filesystem/Move": ("MoveRequest", "EntryResponse"), "filesystem.Filesystem/Remove": ("PathRequest", "Empty"),
    "filesystem.Filesystem/ListDir": ("ListDirRequest", "ListDirResponse"),
    "filesystem.Filesystem/WatchDir": ("WatchRequest", "WatchDirResponse"),
    "filesystem.Filesystem/CreateWatcher": ("WatchRequest", "Watcher"),
    "filesystem.Filesystem/GetWatcherEvents": ("Watcher", "EventsResponse"),
    "filesystem.Filesystem/RemoveWatcher": ("Watcher", "Empty")}


def parse_table(text):
    table = {}
    for line in text.split("\n"):
        name, *fields = line.split() or [""]
        table[name] = {}
        for field in fields:
            key, rest = field.split("=")
            number, kind = rest.split(":", 1)
            table[name][key] = (int(number), kind.rstrip("*?"), kind.endswith("*"))
    return table


TABLE = parse_table(MESSAGES)
VARINTS = ("u", "i", "l", "o")


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def wire(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def one_value(number, kind, value):
    if kind.startswith("E:"):
        named = {name: i for i, name in ENUMS[kind[2:]].items()}
        return varint(number << 3) + varint(value if isinstance(value, int) else named[value])
    if kind in VARINTS:
        value = int(value)
        return varint(number << 3) + varint(value << 1 ^ value >> 31 if kind == "i" else value)
    if kind == "m":
        return b"".join(wire(number, wire(1, k.encode()) + wire(2, v.encode())) for k, v in value.items())
    if kind == "s":
        return wire(number, value.encode())
    return wire(number, base64.b64decode(value) if kind == "b" else message(kind, value))


def message(name, fields):
    out = b""
    for key, value in fields.items():
        number, kind, is_repeated = TABLE[name][key]
        for item in value if is_repeated else [value]:
            out += one_value(number, kind, item)
    return out


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def read_fields(data):
    """(number, integer or bytes) of every field of a message."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
            if at > len(data):
                raise ValueError(f"field {key >> 3} is longer than its message")
        elif key & 7:
            raise ValueError(f"wire type {key & 7} of field {key >> 3}")
        yield key >> 3, value


def seconds_and_nanos(data):
    fields = dict(read_fields(data))
    return f"{fields.get(1, 0)}.{fields.get(2, 0):09}"


def read_value(kind, value):
    if kind.startswith("E:"):
        return ENUMS[kind[2:]].get(value, value)
    if kind == "i":
        return value >> 1 ^ -(value & 1)
    simple = {"u": int, "l": str, "o": bool, "s": lambda v: v.decode(), "b": lambda v: base64.b64encode(v).decode(),
              "t": seconds_and_nanos}
    return simple[kind](value) if kind in simple else read_message(kind, value)


def read_message(name, data):
    numbers = {number: (key, kind, is_repeated) for key, (number, kind, is_repeated) in TABLE[name].items()}
    out = {}
    for number, value in read_fields(data):
        key, kind, is_repeated = numbers[number]
        if kind == "m":
            pair = dict(read_fields(value))
            out.setdefault(key, {})[pair.get(1, b"").decode()] = pair.get(2, b"").decode()
        elif is_repeated:
            out.setdefault(key, []).append(read_value(kind, value))
        else:
            out[key] = read_value(kind, value)
    return out


def encode(method, fields):
    return message(METHODS[method][0], fields)


def decode(method, data):
    return read_message(METHODS[method][1], data)
