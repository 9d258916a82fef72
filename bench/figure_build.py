"""bench/figure_build.py: `build`: a template of 10 steps cold, all from the cache, and after a late change, from sending
the start of the build to its end, against `buildah bud --layers` of the same steps on the same base."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

from measure import ROOT, Skipped, alternate
from sandboxes import running_engine

BASE = os.path.join(ROOT, "build/cache/compat-base.tar")
STEPS = 10


def steps(salt, last=""):
    """Ten RUN steps that write a few files; @salt makes a build cold, @last changes its ninth step."""
    made = [f": {salt}; mkdir -p /srv/{i} && for f in 1 2 3 4 5; do echo {i} > /srv/{i}/$f; done" for i in range(STEPS)]
    made[STEPS - 2] += f"; : {last}"
    return made


class Ours:
    def __init__(self, engine):
        self.url, self.key = engine.env["E2B_API_URL"], engine.env["E2B_API_KEY"]
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, method, path, body=None, data=None):
        data = json.dumps(body).encode() if body is not None else data
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"X-API-KEY": self.key})
        with self.opener.open(request, timeout=300) as answer:
            return json.loads(answer.read() or b"null")

    def take_base(self):
        with open(BASE, "rb") as f:
            self.ask("POST", "/abx/v1/images/base?recipe=bench", data=f.read())

    def build(self, commands):
        """Milliseconds from the start of the build to `ready`."""
        made = self.ask("POST", "/v3/templates", {"name": "bench"})
        path = f"/v2/templates/{made['templateID']}/builds/{made['buildID']}"
        began = time.perf_counter()
        self.ask("POST", path, {"fromImage": "e2bdev/base", "steps": [{"type": "RUN", "args": [c, "root"]} for c in commands]})
        status = {"status": "building"}
        while status["status"] == "building":
            status = self.ask("GET", f"/templates/{made['templateID']}/builds/{made['buildID']}/status?limit=1")
        took = (time.perf_counter() - began) * 1000
        assert status["status"] == "ready", status
        return took


class Buildah:
    """buildah with a store of its own, the same root file system as its base."""

    def __init__(self, top):
        if not shutil.which("buildah"):
            raise Skipped("buildah is not installed")
        self.top = os.path.join(top, "buildah")
        os.mkdir(self.top)
        self.store = ["--storage-driver", "overlay", "--root", os.path.join(self.top, "root"), "--runroot", os.path.join(self.top, "run")]
        shutil.copyfile(BASE, os.path.join(self.top, "base.tar"))
        self.run("FROM scratch\nADD base.tar /\n", "base")

    def run(self, dockerfile, name):
        with open(os.path.join(self.top, "Dockerfile"), "w", encoding="utf-8") as f:
            f.write(dockerfile)
        began = time.perf_counter()
        subprocess.run(["buildah", *self.store, "bud", "--layers", "--isolation", "chroot", "-t", name, self.top],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
        return (time.perf_counter() - began) * 1000

    def build(self, commands):
        return self.run("FROM localhost/base\n" + "".join(f"RUN {c}\n" for c in commands), "bench")

    def close(self):
        subprocess.run(["buildah", *self.store, "rm", "--all"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        subprocess.run(["buildah", *self.store, "rmi", "--all", "--force"], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=120)
        subprocess.run(["umount", os.path.join(self.top, "root/overlay")], check=False, stderr=subprocess.DEVNULL)  # it stays mounted


def run(plan, report):
    if not os.path.exists(BASE):
        raise Skipped(f"{os.path.relpath(BASE, ROOT)} is not there: tests/compat/templates makes it")
    with running_engine() as (engine, _), tempfile.TemporaryDirectory(prefix="abx-bench-") as top:
        ours, peers, count = Ours(engine), {}, 0
        ours.take_base()

        def buildah():
            if "buildah" not in peers:
                peers["buildah"] = Buildah(top)
            return peers["buildah"]

        def subjects(commands):
            """Both sides of one round; @commands gives the round's steps."""
            return {"ours": lambda: [ours.build(commands("ours"))], "buildah": lambda: [buildah().build(commands("buildah"))]}

        def fresh(side):
            nonlocal count
            count += 1
            return steps(f"{side}-{count}")

        def late(side):
            nonlocal count
            count += 1
            return steps(side, count)
        try:
            report.compare("build cold, 10 steps", "ms", alternate(plan, subjects(fresh)), "ours", "goal 0.5 x buildah")
            ours.build(steps("ours"))
            if "buildah" in peers:
                peers["buildah"].build(steps("buildah"))
            report.compare("build warm, full hit", "ms", alternate(plan, subjects(steps)), "ours", "goal 0.2 x buildah")
            report.compare("build, the 9th step changed", "ms", alternate(plan, subjects(late)), "ours", "goal 0.3 x buildah")
        finally:
            if "buildah" in peers:
                peers["buildah"].close()
