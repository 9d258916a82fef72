"""What a route gets and gives: ServerRequest, ServerResponse, SSEResponse (command-hosts.md 2)."""
import dataclasses
from typing import Any, Dict, Iterable, List, Optional, Union

__all__ = ["SSEResponse", "ServerRequest", "ServerResponse"]


@dataclasses.dataclass
class ServerRequest:
    """One request to a custom route. `query` holds lists, `body` any JSON value."""

    method: str
    path: str
    query: Dict[str, List[str]] = dataclasses.field(default_factory=dict)
    headers: Dict[str, str] = dataclasses.field(default_factory=dict)
    body: Any = None
    path_params: Dict[str, str] = dataclasses.field(default_factory=dict)
    context: Dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class ServerResponse:
    """A whole answer; the body is sent as JSON, bytes as they are."""

    status: int
    body: Any = dataclasses.field(default_factory=dict)
    headers: Dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def ok(cls, data):
        return cls(status=200, body=data)

    @classmethod
    def error(cls, status, message, error_type="ValueError"):
        return cls(status=status, body={"error": message, "type": error_type})


@dataclasses.dataclass
class SSEResponse:
    """An answer that is written as its iterator gives frames (str or bytes)."""

    status: int = 200
    headers: Dict[str, str] = dataclasses.field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    event_iterator: Optional[Iterable[Union[str, bytes]]] = None
