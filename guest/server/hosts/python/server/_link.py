"""The way from this process to the server: asked when a question needs its policy or its files."""
import json
import os

from ._denied import PolicyDenied

host = None  # the _host.Host that serves this process, if one does


class Refused(Exception):
    """The server's answer was no; the text says why."""


def ask(what, **fields):
    """The value of an answer; PolicyDenied when the server refuses by policy."""
    if host is None:
        raise RuntimeError("no server runs this file")
    answer = host.ask(what, fields)
    if answer.get("ok"):
        return answer.get("value")
    if answer.get("code"):
        raise PolicyDenied(answer["code"], answer.get("message", ""), status=answer.get("status", 403),
                           endpoint=answer.get("endpoint", ""), error_type=answer.get("type", "PolicyDenied"),
                           **answer.get("extra", {}))
    raise Refused(answer.get("message", "refused"))


def binary():
    """The server program: the one that started this file, that of this package, or the one on PATH."""
    given = os.environ.get("ABX_SERVER_BIN")
    if given:
        return given
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "agent-sandbox-server")
    if os.path.exists(own):
        return own
    for folder in os.get_exec_path():
        path = os.path.join(folder, "agent-sandbox-server")
        if os.access(path, os.X_OK) and not _is_script(path):
            return path
    raise RuntimeError("agent-sandbox-server is neither in this package nor on PATH: install the package "
                       "agent-sandbox-server")


def _is_script(path):
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def _check_config(document, *options):
    import subprocess
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        done = subprocess.run([binary(), "check-config", "--policy", file.name, *options], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if done.returncode == 1:
        text = (done.stderr.strip().splitlines() or ["refused"])[0]
        raise Refused(text.partition("error: ")[2] or text)
    return json.loads(done.stdout)


def policy(do, document, endpoint=None, scopes=None, path=None, access=None):
    """Checks a policy document ("check") or asks it about a call ("explain")."""
    scopes = None if scopes is None else list(scopes)
    if host is not None:
        return ask("policy", do=do, document=document, endpoint=endpoint, scopes=scopes, path=path, access=access)
    if do == "check":
        found = _check_config(document, "--json")
        return {"revision": found["revision"], "warnings": found["warnings"]}
    options = ["--explain", endpoint]
    for flag, value in (("--scopes", None if scopes is None else ",".join(scopes)), ("--path", path), ("--op", access)):
        if value is not None:
            options += [flag, value]
    return {"answer": _check_config(document, *options)}
