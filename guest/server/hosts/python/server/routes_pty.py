"""Terminals belong to the server; these names stand for its own."""

__all__ = ["PtySession", "PtySessionManager", "pty_session_manager", "pty_ws_handler", "start_pty_server"]


def _not_built():
    raise RuntimeError("terminals of this server are not built yet: the endpoints of group terminal answer 501")


class PtySession:
    """One terminal."""

    def __init__(self, shell="/bin/bash", cols=80, rows=24, env=None, base_env=None):
        _not_built()

    def read(self, timeout=0.1):
        _not_built()

    def write(self, data):
        _not_built()

    def resize(self, cols, rows):
        _not_built()

    def send_signal(self, sig):
        _not_built()

    def close(self):
        _not_built()

    @property
    def is_alive(self):
        return _not_built()

    @property
    def pid(self):
        return _not_built()

    @property
    def cols(self):
        return _not_built()

    @property
    def rows(self):
        return _not_built()

    def to_dict(self):
        _not_built()


class PtySessionManager:
    """The terminals of the server."""

    def create(self, shell="/bin/bash", cols=80, rows=24, env=None, base_env=None, max_sessions=None):
        _not_built()

    def get(self, session_id):
        return None

    def list_sessions(self):
        return []

    def close(self, session_id):
        return False

    def cleanup_idle(self):
        return 0

    def close_all(self):
        return None


pty_session_manager = PtySessionManager()


def start_pty_server(host="0.0.0.0", port=9001, stop_event=None, ready_event=None, policy_engine=None):
    _not_built()


def pty_ws_handler(websocket):
    _not_built()
