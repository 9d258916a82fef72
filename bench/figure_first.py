"""bench/figure_first.py: `first`: from `tar xzf` of the distribution to the first `hi` of a `host` sandbox, as an ordinary
user (uid 1000), offline. Needs the tarball of `make dist`."""
import glob
import os
import shutil
import subprocess
import tempfile
import time

from measure import ROOT, Skipped, alternate

UID = 1000


def unpack_and_run(tarball):
    top = tempfile.mkdtemp(prefix="abx-bench-first-")
    os.chown(top, UID, UID)
    who = {"user": UID, "group": UID, "extra_groups": []} if os.getuid() == 0 else {}
    env = {"PATH": "/usr/bin:/bin", "HOME": top, "ABX_STATE": f"{top}/state", "LANG": "C.UTF-8"}

    def shell(command):
        return subprocess.run(["sh", "-ec", command], cwd=top, env=env, timeout=60, capture_output=True, text=True, **who)

    try:
        began = time.monotonic()
        done = shell(f"tar xzf '{tarball}'; cd */.; ./abx up -d >&2; ./abx exec \"$(./abx create host)\" -- echo hi")
        took = time.monotonic() - began
        if done.stdout != "hi\n":
            raise AssertionError(f"first: {done.returncode}: {done.stdout!r} {done.stderr[-1000:]}")
        return [took]
    finally:
        shell("cd */. && ./abx down || true")
        shutil.rmtree(top, ignore_errors=True)


def run(plan, report):
    tarballs = sorted(glob.glob(os.path.join(ROOT, "build/dist/*.tar.gz")), key=os.path.getmtime)
    if not tarballs:
        raise Skipped("no build/dist/*.tar.gz: run make dist")
    rounds = alternate(plan, {"abx": lambda: unpack_and_run(tarballs[-1])})
    report.compare("first, tar xzf to hi", "s", rounds, "abx", "goal 3 s")
