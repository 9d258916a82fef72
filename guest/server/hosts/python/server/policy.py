"""Policy documents as Python values (policy.md A). Judging them is the server's business."""
import collections
import copy
import dataclasses
import json
import os
import re

from . import _link
from ._denied import PolicyDenied
from .endpoints import CORE_ENDPOINTS, ENDPOINTS, TRANSFER_ENDPOINTS, CapabilityGroup, EndpointSpec, endpoints_of

__all__ = ["CORE_ENDPOINTS", "ENABLED_GROUPS_ENV_VAR", "EndpointSpec", "Identity", "Layer", "PRESETS",
           "PolicyConfigError", "PolicyDenied", "ServerPolicy", "parse_size", "scope_granted"]

ENABLED_GROUPS_ENV_VAR = "ABX_SERVER_ENABLED_GROUPS"
_OFF, _ON = {"enabled": False}, {"enabled": True}
_NO_PROCESSES = {"process": False, "terminal": False, "dev_tools": False, "browser": False}
_SECRETS = ["/proc", "/sys", "/dev", "**/.ssh", "**/.env", "**/.env.*", "**/*.pem", "**/id_rsa*", "**/id_ed25519*"]
PRESETS = {
    "default": {},
    "transfer-only": {"endpoints": {"*": _OFF, "files_upload_stream": _ON, "files_download_stream": _ON}},
    "read-only": {"groups": _NO_PROCESSES,
                  "endpoints": {name: _OFF for name in ("files_mkdir", "files_delete", "files_move",
                                                        "files_upload_stream", "env_set")}},
    "hardened": {"groups": _NO_PROCESSES,
                 "endpoints": {"env_set": _OFF, "files_*": {"paths": {"deny": _SECRETS, "symlinks": "within"}}},
                 "defaults": {"audit": "deny"}},
    "locked": {"endpoints": {"*": _OFF, "list_commands": _ON, "run_command": _ON}},
}
_KEYS = ("version", "description", "preset", "base_dir", "groups", "defaults", "auth", "endpoints")
_SIZES = ("max_bytes", "max_output_bytes", "max_request_bytes")
_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000 ** 2, "gb": 1000 ** 3, "kib": 1024, "mib": 1024 ** 2, "gib": 1024 ** 3}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*\Z")


class PolicyConfigError(ValueError):
    """A policy document that can not be used; the text names the place."""


Layer = collections.namedtuple("Layer", "selector rank rule origin")


@dataclasses.dataclass(frozen=True)
class Identity:
    """Who calls, and with which scopes."""

    id: str
    scopes: frozenset

    def can(self, scope):
        return scope.startswith("core:") or scope_granted(self.scopes, scope)


def scope_granted(granted, required):
    """Whether scopes that may end in * hold one that is required."""
    return any(g in ("*", required) or (g.endswith(":*") and required.startswith(g[:-1])) for g in granted)


def parse_size(value):
    """Bytes from a number or from text as '5MB' and '1GiB'."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise PolicyConfigError(f"invalid size {value!r}")
    if isinstance(value, str):
        found = _SIZE.match(value)
        if not found or found[2].lower() not in _UNITS:
            raise PolicyConfigError(f"invalid size {value!r} (use an integer or e.g. '5MB', '1GiB')")
        number = int(float(found[1]) * _UNITS[found[2].lower()])
    else:
        number = value
    if number <= 0:
        raise PolicyConfigError(f"size must be positive, got {value}")
    return number


def _with_sizes(rule):
    if not isinstance(rule, dict) or not isinstance(rule.get("limits"), dict):
        return rule
    limits = {k: parse_size(v) if k in _SIZES else v for k, v in rule["limits"].items()}
    return {**rule, "limits": limits}


def _normalise(data):
    out = copy.deepcopy({"version": 1, **data})
    if isinstance(out.get("groups"), (list, tuple)):
        out["groups"] = {name: True for name in out["groups"]}
    if isinstance(out.get("endpoints"), dict):
        out["endpoints"] = {name: _with_sizes(rule) for name, rule in out["endpoints"].items()}
    if "defaults" in out:
        out["defaults"] = _with_sizes(out["defaults"])
    return {key: out[key] for key in (*_KEYS, *(k for k in out if k not in _KEYS)) if key in out}


def _checked(data):
    if not isinstance(data, dict):
        raise PolicyConfigError("policy: expected an object")
    try:
        _link.policy("check", data)
    except _link.Refused as exc:
        raise PolicyConfigError(str(exc)) from None
    return ServerPolicy(_normalise(data))


class ServerPolicy:
    """A checked policy document; each change gives a new one."""

    def __init__(self, config):
        self._config = config

    @classmethod
    def from_dict(cls, data):
        return _checked(data)

    @classmethod
    def from_json(cls, text):
        try:
            data = json.loads(text)
        except ValueError as exc:
            raise PolicyConfigError(f"policy is not valid JSON: {exc}") from None
        return _checked(data)

    @classmethod
    def from_file(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls.from_json(file.read())

    @classmethod
    def preset(cls, name, **overrides):
        if name not in PRESETS:
            raise PolicyConfigError(f"unknown preset {name!r}")
        return _checked({"preset": name, **overrides})

    @classmethod
    def only(cls, *endpoint_ids, paths=None, **rule):
        """Everything off but the endpoints named; `transfer` and `group:G` stand for several."""
        endpoints = {"*": {"enabled": False}}
        for name in endpoint_ids:
            for one in _expand(name):
                endpoints[one] = _only_rule(one, paths, rule)
        return _checked({"endpoints": endpoints})

    @classmethod
    def from_environment(cls):
        text = os.environ.get("ABX_SERVER_POLICY")
        if text:
            return cls.from_json(text)
        path = os.environ.get("ABX_SERVER_POLICY_FILE") or "/etc/agent-sandbox/server-policy.json"
        return cls.from_file(path) if os.path.exists(path) else cls.from_dict({})

    def with_endpoint(self, selector, **rule):
        data = self.to_dict()
        endpoints = data.setdefault("endpoints", {})
        endpoints[selector] = {**endpoints.get(selector, {}), **rule}
        return _checked(data)

    def with_options(self, **top):
        return _checked({**self.to_dict(), **top})

    def to_dict(self):
        return copy.deepcopy(self._config)

    @property
    def base_dir(self):
        return self._config.get("base_dir")

    @property
    def groups(self):
        return dict(self._config.get("groups", {}))

    @property
    def auth(self):
        return copy.deepcopy(self._config.get("auth", {}))

    @property
    def preset_name(self):
        return self._config.get("preset", "default")

    @property
    def revision(self):
        return _link.policy("check", self._config)["revision"]

    def has_identities(self):
        return bool(self.auth.get("tokens"))

    def layers(self):
        out = []
        preset = PRESETS[self.preset_name]
        for rank, label, source in ((2, f"preset:{self.preset_name}", preset), (3, "policy", self._config)):
            if "defaults" in source:
                out.append(Layer("@defaults", rank, source["defaults"], f"{label}:defaults"))
            for group, on in source.get("groups", {}).items():
                out.append(Layer(f"group:{group}", rank, {"enabled": on}, f"{label}:groups.{group}"))
            for selector, rule in source.get("endpoints", {}).items():
                out.append(Layer(selector, rank, rule, f"{label}:endpoints.{selector}"))
        return out

    @property
    def configured(self):
        return any(key != "version" for key in self._config)

    def bind(self, table=None, *, registry=None):
        from .router import default_table
        from .runtime import PolicyEngine

        return PolicyEngine(self, table if table is not None else default_table(), registry=registry)

    def explain(self, endpoint, *, scopes=None, path=None, op=None):
        return _link.policy("explain", self._config, endpoint=endpoint, scopes=scopes, path=path, access=op)["answer"]

    def lint(self):
        return _link.policy("check", self._config)["warnings"]

    def __repr__(self):
        return f"ServerPolicy(preset={self.preset_name!r}, revision={self.revision!r})"


def _expand(name):
    if name == "transfer":
        return TRANSFER_ENDPOINTS
    if name.startswith("group:"):
        try:
            return endpoints_of(CapabilityGroup(name[6:]))
        except ValueError:
            raise PolicyConfigError(f"unknown group {name[6:]!r}") from None
    return (name,)


def _only_rule(name, paths, rule):
    out = {"enabled": True, **rule}
    endpoint = ENDPOINTS.get(name)
    if endpoint is not None and "limits" in rule:
        out["limits"] = {k: v for k, v in rule["limits"].items() if k in endpoint.spec.limits}
    if paths is not None and (endpoint is None or endpoint.spec.paths):
        out["paths"] = paths
    return out
