"""bench/figure_size.py: `size`: stripped bytes of the programs, PSS of each process of an idle sandbox. Goals are those of
performance.md."""
import os
import shutil
import subprocess
import tempfile

from measure import BUILD, Skipped, pss_kib, until
from sandboxes import running_engine

GOALS_MIB = {"abx-guest": 2.5, "abx": 12, "abx-shim": None}


def stripped_bytes(path):
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfile(path, copy.name)
        subprocess.run(["strip", copy.name], check=True)
        return os.path.getsize(copy.name)


def programs_below(pid):
    """{pid: executable's name} of a process and its descendants."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            below = [int(p) for p in f.read().split()]
        found = {pid: os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))}
    except OSError:
        return {}
    for child in below:
        found.update(programs_below(child))
    return found


def role_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        words = [w.decode(errors="replace") for w in f.read().split(b"\0") if w]
    with open(f"/proc/{pid}/comm") as f:
        return " ".join([f.read().strip(), *words[1:2]])


def shims(sandbox):
    """Processes of ours that name this sandbox or are the parent of its init."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if "abx-shim" in os.readlink(f"/proc/{pid}/exe"):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if sandbox["sandboxID"].encode() in f.read():
                        found[int(pid)] = True
        except OSError:
            continue
    return list(found)


def run(plan, report):
    for name, goal in GOALS_MIB.items():
        path = os.path.join(BUILD, "bin", name)
        if not os.path.exists(path):
            raise Skipped(f"{path} is not built")
        report.figure(f"size, {name} stripped", stripped_bytes(path) / 2**20, "MiB", 1, goal, "goal" if goal else None)
    with running_engine() as (engine, api):
        sandbox = api.create(api.create_request(), 1)[1][0]
        shim = until(lambda: shims(sandbox), "shim of the sandbox")[0]
        processes = programs_below(shim)
        kib = {f"{role_of(pid)} ({pid})": pss_kib(pid) for pid in processes}
        report.keep("size pss", kib)
        for name, value in kib.items():
            report.figure(f"size, PSS {name.rsplit(' ', 1)[0]}", value / 1024, "MiB", 1)
        report.figure("size, PSS of a sandbox", sum(kib.values()) / 1024, "MiB", 1, 1.2, "goal of density")
        report.figure("size, PSS abx", pss_kib(engine.pid()) / 1024, "MiB", 1)
        api.kill(sandbox)
