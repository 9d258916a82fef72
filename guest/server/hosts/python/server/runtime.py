"""What a route handler knows of its call: rule, caller, paths (command-hosts.md 2.2, 3)."""
import dataclasses
import os
from types import SimpleNamespace
from typing import Any, Dict, Tuple

from . import _link
from ._denied import PolicyDenied
from .guards.paths import PathGuard
from .policy import Identity

__all__ = ["EffectiveRule", "EndpointContext", "PolicyEngine", "child_env", "context_of"]


@dataclasses.dataclass
class EffectiveRule:
    """The rule of one endpoint, all layers merged."""

    endpoint: str
    enabled: bool = True
    scopes: Tuple[str, ...] = ()
    allow: Tuple[str, ...] = ()
    deny: Tuple[str, ...] = ()
    read_only: bool = False
    symlinks: str = "within"
    limits: Dict[str, Any] = dataclasses.field(default_factory=dict)
    params: Dict[str, Any] = dataclasses.field(default_factory=dict)
    audit: str = "deny"
    disabled_by: str = ""

    def disabled_message(self):
        return f"Endpoint {self.endpoint!r} is disabled by rule {self.disabled_by}"


class EndpointContext:
    """The rule and the caller of one request; paths are judged by the server while it lasts."""

    def __init__(self, engine, rule, identity):
        self.engine = engine
        self.rule = rule
        self.identity = identity
        self.endpoint = rule.endpoint
        self._call = None

    def base_dir(self):
        return os.path.realpath(self.engine.base_dir)

    def guard(self):
        return PathGuard(self.engine.base_dir, self.rule.allow, self.rule.deny, self.rule.read_only, self.rule.symlinks)

    def resolve_path(self, raw, op=None, *, field=""):
        """The path as the endpoint's rule lets it be used. Without a server it is judged here."""
        op = op if op in ("read", "write", "delete", "exec") else "read"
        try:
            if self._call is None or not isinstance(raw, str) or not raw or "\0" in raw:
                return self.guard().resolve(raw, op, field="" if not raw or "\0" in str(raw) else field)
            return _link.ask("path", id=self._call, path=raw, access=op, field=field)
        except PolicyDenied as exc:
            exc.endpoint = exc.endpoint or self.endpoint
            raise

    def limit(self, key, default=None):
        return self.rule.limits.get(key, default)

    def param(self, key, default=None):
        return self.rule.params.get(key, default)

    def require_scope(self, scope):
        if not self.identity.can(scope):
            raise PolicyDenied("missing_scope", f"Identity {self.identity.id!r} lacks scope {scope!r}",
                               endpoint=self.endpoint, scope=scope, identity=self.identity.id)


def _by_server():
    raise RuntimeError("the policy is enforced by the server, not in Python")


class PolicyEngine:
    """A policy bound to routes. Decisions are the server's; what it was built from can be read."""

    def __init__(self, policy, table, *, registry=None, enabled_groups=None):
        self.policy = policy
        self.table = table
        self.registry = registry
        self.base_dir = policy.base_dir or os.environ.get("ABX_SERVER_BASE_DIR") or "/home/user"
        self._enabled_groups = enabled_groups

    @property
    def uses_identities(self):
        return self.policy.has_identities()

    def authenticate(self, headers):
        _by_server()

    def rule_for(self, endpoint):
        _by_server()

    def admit(self, route, identity):
        _by_server()

    def audit(self, *, rule, identity, endpoint, method, status, code="", paths=None):
        _by_server()

    def group_summary(self):
        _by_server()

    def groups(self):
        _by_server()

    def group_enabled(self, group):
        _by_server()

    def describe(self, identity):
        _by_server()

    def check(self, identity, endpoint, *, path=None, paths=None, op=None):
        _by_server()

    def explain(self, endpoint, *, scopes=None, path=None, op=None):
        return self.policy.explain(endpoint, scopes=scopes, path=path, op=op)

    def child_env(self):
        return {name: value for name, value in os.environ.items() if not self.is_secret_env(name)}

    def is_secret_env(self, name):
        secret = {t.get("token_env") for t in self.policy.auth.get("tokens") or () if isinstance(t, dict)}
        return name in secret | {"ABX_SERVER_TOKEN", "ABX_SERVER_POLICY", "ABX_SERVER_POLICY_FILE"}

    def lint(self):
        return self.policy.lint()


def context_of(request):
    """The EndpointContext of a request."""
    return request.context["policy"]


def child_env(request):
    """The environment for a child of this request."""
    return context_of(request).engine.child_env()


def context_from(message, call, engine):
    """The context that the server sent with a call."""
    rule = dict(message.get("rule") or {})
    made = EffectiveRule(
        endpoint=message.get("endpoint", ""), enabled=rule.get("enabled", True), scopes=tuple(rule.get("scopes", ())),
        allow=tuple(rule.get("allow", ())), deny=tuple(rule.get("deny", ())), read_only=rule.get("read_only", False),
        symlinks=rule.get("symlinks", "within"), limits=rule.get("limits", {}), params=rule.get("params", {}),
        audit=rule.get("audit", "deny"))
    who = message.get("identity") or {}
    ctx = EndpointContext(engine, made, Identity(who.get("id", ""), frozenset(who.get("scopes", ()))))
    ctx._call = call
    return ctx


def detached_engine(base_dir):
    """An engine for contexts that the server fills."""
    return SimpleNamespace(base_dir=base_dir, child_env=lambda: dict(os.environ))
