"""What tests/server/files and tests/server/raw_files share: a file of the box, an answer, a refusal."""
import http.client
import importlib.machinery
import importlib.util
import io
import os
import sys
import tarfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))


def load_run():
    loader = importlib.machinery.SourceFileLoader("server_run", os.path.join(HERE, "run"))
    spec = importlib.util.spec_from_loader("server_run", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


RUN = load_run()
RUN.CASES.clear()
case = RUN.case


def write(box, name, content=b"x"):
    path = os.path.join(box.base, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content.encode() if isinstance(content, str) else content)
    return path


def read(path):
    with open(path, "rb") as f:
        return f.read()


def query(**fields):
    return urllib.parse.urlencode(fields)


def raw(box, method, target, body=None, headers=None):
    """Status, headers (lower case) and bytes of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=RUN.GUARD_S)
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, data


def get(box, name, **headers):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    return raw(box, "GET", "/files/raw?" + query(path=os.path.join(box.base, name)), headers=headers)


def check(answer, status, code=None, kind=None):
    """Of an error."""
    assert answer[0] == status, answer
    assert code is None or answer[1].get("code") == code, answer
    assert kind is None or answer[1].get("type") == kind, answer


def search(box, pattern, name="", **more):
    return box.ask("POST", "/files/search", {"path": os.path.join(box.base, name), "pattern": pattern, **more})


def rss_peak_kb(box):
    with open(f"/proc/{box.server.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def packed(data):
    """Members of a tar: name -> (type, mode, content or link)."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: (m.type.decode(), m.mode, archive.extractfile(m).read() if m.isreg() else m.linkname)
                for m in archive.getmembers()}


def grow(box):
    write(box, "t/a.txt", "A")
    write(box, "t/sub/b.txt", "B" * 300000)
    write(box, "t/sub/" + "n" * 200 + ".txt", "long")
    os.mkdir(os.path.join(box.base, "t/empty"))
    os.chmod(os.path.join(box.base, "t/sub"), 0o750)
    os.symlink("sub/b.txt", os.path.join(box.base, "t/in"))
    os.symlink("/etc/passwd", os.path.join(box.base, "t/out"))
    os.mkfifo(os.path.join(box.base, "t/fifo"))
    with open(os.path.join(box.base, "t").encode() + b"/\xff\xfe.bin", "wb") as f:
        f.write(b"raw")
