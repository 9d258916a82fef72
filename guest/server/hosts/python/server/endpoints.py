"""The published endpoints; the rows come from the server's own table."""
import dataclasses
import enum
from typing import FrozenSet, Tuple

from ._endpoints import ROWS

__all__ = ["CORE_ENDPOINTS", "CapabilityGroup", "ENDPOINTS", "Endpoint", "EndpointSpec", "OPT_IN_GROUPS",
           "TRANSFER_ENDPOINTS", "endpoints_of"]


class CapabilityGroup(enum.Enum):
    CORE = "core"
    COMMANDS = "commands"
    FILE_OPS = "file_ops"
    PROCESS = "process"
    TERMINAL = "terminal"
    SYSTEM = "system"
    DEV_TOOLS = "dev_tools"
    BROWSER = "browser"
    AGENTS = "agents"


@dataclasses.dataclass(frozen=True)
class EndpointSpec:
    """What a policy may say about an endpoint."""

    scopes: Tuple[str, ...] = ()
    limits: FrozenSet[str] = frozenset()
    params: FrozenSet[str] = frozenset()
    paths: bool = False
    exec: bool = False


@dataclasses.dataclass(frozen=True)
class Endpoint:
    name: str
    method: str
    path: str
    group: CapabilityGroup
    spec: EndpointSpec
    summary: str = ""
    streaming: bool = False
    auth_required: bool = True
    virtual: bool = False


def _endpoint(row):
    spec = EndpointSpec(tuple(row["scopes"]), frozenset(row["limits"]), frozenset(row["params"]), row["paths"],
                        row["exec"])
    return Endpoint(row["name"], row["method"], row["path"], CapabilityGroup(row["group"]), spec, row["summary"],
                    row["streaming"], row["auth_required"], row["virtual"])


ENDPOINTS = {row["name"]: _endpoint(row) for row in ROWS}
CORE_ENDPOINTS = frozenset(name for name, e in ENDPOINTS.items() if e.group is CapabilityGroup.CORE)
OPT_IN_GROUPS = frozenset({CapabilityGroup.DEV_TOOLS, CapabilityGroup.BROWSER, CapabilityGroup.AGENTS})
TRANSFER_ENDPOINTS = ("files_upload_stream", "files_download_stream")


def endpoints_of(group):
    """The IDs of a group, in the order of listing."""
    group = CapabilityGroup(group)
    return tuple(name for name, e in ENDPOINTS.items() if e.group is group)
