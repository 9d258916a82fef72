"""bench/figure_size.py: `size`: stripped bytes of the programs, PSS of each process of an idle sandbox. Goals are those of
performance.md."""
import os
import shutil
import subprocess
import tempfile

from measure import BUILD, Skipped, pss_kib, until
from sandboxes import Sandbox, running_engine

GOALS_MIB = {"abx-guest": 2.5, "abx": 12, "abx-shim": None}


def stripped_bytes(path):
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfile(path, copy.name)
        subprocess.run(["strip", copy.name], check=True)
        return os.path.getsize(copy.name)


def run(plan, report):
    for name, goal in GOALS_MIB.items():
        path = os.path.join(BUILD, "bin", name)
        if not os.path.exists(path):
            raise Skipped(f"{path} is not built")
        report.figure(f"size, {name} stripped", stripped_bytes(path) / 2**20, "MiB", 1, goal, "goal" if goal else None)
    with running_engine() as (engine, _):
        sandbox = Sandbox(engine)
        roles = until(lambda: (r := sandbox.roles()) and len(r) >= 4 and r, "shim, init, gateway and envd")
        kib = {role: pss_kib(pid) for role, pid in roles.items()}
        report.keep("size pss", kib)
        for role, value in kib.items():
            report.figure(f"size, PSS {role}", value / 1024, "MiB", 1)
        report.figure("size, PSS of a sandbox", sum(kib.values()) / 1024, "MiB", 1, 1.2, "goal of density")
        report.figure("size, PSS abx", pss_kib(engine.pid()) / 1024, "MiB", 1)
        sandbox.kill()
