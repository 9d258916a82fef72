"""Commands and routes of your own for agent-sandbox-server.

    from agent_sandbox.server import command, start

    @command("greet")
    def greet(name: str = "world"):
        return f"Hello, {name}!"

    start()
"""
from ._version import __version__
from .app import SandboxServer, start
from .policy import PolicyDenied, ServerPolicy
from .registry import CommandArg, CommandRegistry, RegisteredCommand, command, default_registry
from .router import CapabilityGroup, RouteInfo, RouteTable, default_table
from .routes_pty import PtySession, PtySessionManager, pty_session_manager, start_pty_server
from .types import ServerRequest, ServerResponse, SSEResponse

__all__ = ["__version__", "SandboxServer", "start", "ServerPolicy", "PolicyDenied", "CommandArg", "CommandRegistry",
           "RegisteredCommand", "command", "default_registry", "ServerRequest", "ServerResponse", "SSEResponse",
           "RouteTable", "RouteInfo", "CapabilityGroup", "default_table", "PtySession", "PtySessionManager",
           "pty_session_manager", "start_pty_server"]
