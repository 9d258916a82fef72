"""start() and SandboxServer: the end of a commands file (command-hosts.md 2.2)."""
from . import _link
from .policy import ServerPolicy
from .registry import default_registry
from .router import default_table
from .runtime import PolicyEngine

__all__ = ["SandboxServer", "start"]


def _as_policy(policy):
    return ServerPolicy.from_dict(policy) if isinstance(policy, dict) else policy


class SandboxServer:
    """What one server offers. serve() hands it to the server program and blocks."""

    def __init__(self, host="0.0.0.0", registry=None, route_table=None, pty_port=None, policy=None):
        self.host = host
        self.registry = registry if registry is not None else default_registry()
        self.route_table = route_table if route_table is not None else default_table()
        self.pty_port = pty_port
        self.policy = _as_policy(policy) if policy is not None else ServerPolicy({"version": 1})
        self._given_policy = policy is not None
        self.policy_engine = PolicyEngine(self.policy, self.route_table, registry=self.registry)
        self.auth_token = None
        self._serving = None

    def serve(self, port=9000):
        from . import _host

        if _link.host is not None:
            self._serving = _link.host
            _link.host.serve_from_file(self, port)
        else:
            _host.serve_directly(self, port)

    def shutdown(self):
        if self._serving is not None:
            self._serving.stop()


def start(port=9000, host="0.0.0.0", registry=None, policy=None):
    """Serves the commands and routes registered so far; returns when the server ends."""
    SandboxServer(host=host, registry=registry, policy=policy).serve(port)
