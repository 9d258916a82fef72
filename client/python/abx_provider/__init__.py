"""Provider `abx` of the published Python client: its ProviderSandbox against a local engine.

    ABX_PROVIDER=abx ABX_SANDBOX_BASE_URL=http://127.0.0.1:3000 ABX_SANDBOX_API_KEY=... python3 program.py

Everything goes through the engine's one listener by plain http: the API, and each port of a sandbox by its path
/.p/SANDBOX/PORT. No names have to resolve and no certificate is needed. `abx env` prints the variables.
"""
import re
from pathlib import Path
from types import MappingProxyType

from agent_sandbox.models.errors import SandboxNotFoundError
from agent_sandbox.providers.manifest import parse_manifest
from agent_sandbox.providers.rest_provider import RestProvider
from httpx import Limits

__all__ = ["AbxProvider", "provider"]

ENVD_PORT = 49983
DEFAULT_BASE_URL = "http://127.0.0.1:3000"
_ID = re.compile(r"[a-z0-9]{1,64}(-[a-z0-9]+)?")
# A synchronous call of the client has an event loop of its own: a connection that is kept would belong to one that is over.
_NO_KEPT_CONNECTIONS = {"max_keepalive_connections": 0}
_ENVD_LIMITS = {"limits": Limits(**_NO_KEPT_CONNECTIONS)}
_MANIFEST = Path(__file__).with_name("abx-provider.toml")


class PathPortAccess:
    """Ports of one sandbox under the engine's own address."""

    def __init__(self, context, base_url):
        self._context = context
        self._base_url = base_url

    def get_url(self, port):
        return f"{self._base_url}/.p/{self._context.sandbox_id}/{port}"

    def get_host(self, port):
        return self.get_url(port).split("://", 1)[1]

    def get_access_headers(self):
        return {}

    def get_server_headers(self):
        return {}


class AbxProvider(RestProvider):
    """The E2B API of the engine, and its ports by path."""

    endpoint_defaults = MappingProxyType({"sandbox_base_url": DEFAULT_BASE_URL})

    def __init__(self):
        super().__init__(parse_manifest(_MANIFEST.read_bytes()))
        self._base_url = DEFAULT_BASE_URL

    async def build_infra(self, config):
        self._base_url = _base_url(config)
        infra = await super().build_infra(config.model_copy(update=_NO_KEPT_CONNECTIONS))
        infra.http_client._envd_client_kwargs = _ENVD_LIMITS.copy  # of the version that the wheel names
        infra.sandbox_protocol.abx_base_url = self._base_url
        _refuse_malformed_ids(infra.sandbox_protocol)
        stand_in = config.provider_options.get("base_template")
        if stand_in:
            _create_from(infra.sandbox_protocol, stand_in)
        return infra

    def resolve_session_url(self, info, config):
        return f"{_base_url(config)}/.p/{info.sandbox_id}/{ENVD_PORT}"

    def _access(self, context, protocol):
        return PathPortAccess(context, getattr(protocol, "abx_base_url", self._base_url))

    def create_port_access(self, context, protocol=None):
        return self._access(context, protocol)

    async def application_endpoint(self, context, port, protocol=None):
        return {"provider_id": self.id, "sandbox_id": context.sandbox_id, "port": port,
                "url": self._access(context, protocol).get_url(port), "headers": {},
                "authentication_audience": "gateway", "path_mode": "prefix"}


def _refuse_malformed_ids(protocol):
    """An id that no sandbox can have is not there, whatever the E2B API answers to it (400)."""

    def guarded(name):
        call = getattr(protocol, name)

        async def checked(sandbox_id, *args, **kwargs):
            if _ID.fullmatch(sandbox_id):
                return await call(sandbox_id, *args, **kwargs)
            if name == "kill":
                return None  # as for one that is gone
            raise SandboxNotFoundError(f"no sandbox can have the id {sandbox_id!r}")

        return checked

    for name in ("connect", "get_info", "kill", "set_timeout"):
        setattr(protocol, name, guarded(name))


def _create_from(protocol, stand_in):
    """Lets the client's default template `base` be another one, say `host`, which needs no image."""
    create = protocol.create

    async def create_other(config, **kwargs):
        if config.template == "base":
            config = config.model_copy(update={"template": stand_in})
        return await create(config, **kwargs)

    protocol.create = create_other


def _base_url(config):
    return (config.sandbox_base_url or DEFAULT_BASE_URL).rstrip("/")


provider = AbxProvider
