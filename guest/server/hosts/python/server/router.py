"""Routes of user code (command-hosts.md 2). The server owns the built-in ones."""
import dataclasses
import re
import threading
from typing import Any, Callable, List, Optional, Tuple

from . import _notices
from .endpoints import ENDPOINTS, CapabilityGroup, EndpointSpec

__all__ = ["CapabilityGroup", "RouteInfo", "RouteTable", "default_table"]

_PARAM = re.compile(r"\{(\w+)\}")


@dataclasses.dataclass
class RouteInfo:
    method: str
    path_pattern: str
    handler: Callable[..., Any]
    group: CapabilityGroup
    auth_required: bool = True
    streaming: bool = False
    name: str = ""
    spec: EndpointSpec = dataclasses.field(default_factory=EndpointSpec)
    summary: str = ""
    _regex: Any = None
    _param_names: List[str] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        if self._regex is None:
            self._regex = re.compile(_PARAM.sub(r"(?P<\1>[^/]+)", self.path_pattern))
            self._param_names = list(self._regex.groupindex)

    @property
    def scopes(self):
        return self.spec.scopes


def _built_in_handler(request):
    raise RuntimeError("built-in endpoints are served by the server; they have no handler in Python")


class RouteTable:
    """Routes in order of registration, and groups switched by code."""

    def __init__(self):
        self._routes = []
        self._overrides = {}
        self._order = []
        self._revision = 0
        self._frozen = False
        self._lock = threading.RLock()
        self._on_disable = None
        self._has_built_ins = False

    @property
    def revision(self):
        return self._revision

    def _changing(self):
        if self._frozen:
            raise RuntimeError("Cannot change routes or enable groups after serving has begun")

    def copy(self):
        clone = RouteTable()
        with self._lock:
            clone._routes = list(self._routes)
            clone._overrides = dict(self._overrides)
            clone._order = list(self._order)
            clone._revision = self._revision
            clone._has_built_ins = self._has_built_ins
        return clone

    def mount(self, name, handler):
        endpoint = ENDPOINTS.get(name)
        if endpoint is None:
            raise KeyError(name)
        if endpoint.virtual:
            raise KeyError(f"endpoint {name!r} is served by another transport and has no route")
        self._add(RouteInfo(endpoint.method, endpoint.path, handler, endpoint.group, endpoint.auth_required,
                            endpoint.streaming, name, endpoint.spec, endpoint.summary))

    def _add(self, route):
        with self._lock:
            self._changing()
            self._routes.append(route)
            self._revision += 1

    def register(self, method, path_pattern, handler, *, group, auth_required=True, streaming=False, name="", scopes=(),
                 spec=None, summary=""):
        if spec is None:
            spec = EndpointSpec(scopes=tuple(scopes))
        elif scopes:
            spec = dataclasses.replace(spec, scopes=tuple(scopes))
        method = method.upper()
        self._add(RouteInfo(method, path_pattern, handler, CapabilityGroup(group), auth_required, streaming,
                            name or f"{method} {path_pattern}", spec, summary))

    def route(self, method, path_pattern, **kwargs):
        def decorate(handler):
            self.register(method, path_pattern, handler, **kwargs)
            return handler

        return decorate

    def _all(self):
        return (_built_ins() if self._has_built_ins else []) + self._routes

    def match(self, method, path):
        for route in self._all():
            if route.method == method.upper():
                found = route._regex.fullmatch(path)
                if found:
                    return route, found.groupdict()
        return None, None

    def by_name(self, name):
        return next((route for route in self._all() if route.name == name), None)

    def _switch(self, group, enabled):
        group = CapabilityGroup(group)
        with self._lock:
            if group is not CapabilityGroup.CORE:
                self._overrides[group] = enabled
                self._order.append((group, enabled))
            self._revision += 1

    def enable_group(self, group):
        self._changing()
        if CapabilityGroup(group) is not CapabilityGroup.CORE:
            self._switch(group, True)

    def disable_group(self, group):
        group = CapabilityGroup(group)
        if group is CapabilityGroup.CORE:
            raise ValueError("Cannot disable CORE capability group")
        self._switch(group, False)
        if self._frozen and self._on_disable is not None:
            self._on_disable(group)

    def clear_group_overrides(self):
        self._changing()
        with self._lock:
            self._overrides.clear()
            self._order.clear()
            self._revision += 1

    @property
    def group_overrides(self):
        return dict(self._overrides)


_BUILT_INS = []


def _built_ins():
    if not _BUILT_INS:
        for e in ENDPOINTS.values():
            if not e.virtual:
                _BUILT_INS.append(RouteInfo(e.method, e.path, _built_in_handler, e.group, e.auth_required, e.streaming,
                                            e.name, e.spec, e.summary))
    return _BUILT_INS


_DEFAULT = RouteTable()
_DEFAULT._has_built_ins = True


def default_table():
    """The table that `serve` offers."""
    return _DEFAULT
