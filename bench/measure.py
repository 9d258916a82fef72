"""bench/measure.py: rounds, medians, CPU of processes, and how a figure is printed and kept."""
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.environ.get("ABX_BUILD", os.path.join(ROOT, "build/release"))
PROGRAMS = os.path.join(BUILD, "bench")
OUT = os.path.join(HERE, "out")
NODE = next((n for n in (os.path.join(ROOT, "build/deps/bin/node"), shutil.which("node")) if n and os.path.exists(n)), None)


class Skipped(Exception):
    """A peer or a subject that is not there; the text names it."""


class Plan:
    """How much is measured: rounds and the share of the usual number of samples."""

    def __init__(self, is_smoke):
        self.is_smoke = is_smoke
        self.rounds = 1 if is_smoke else 5

    def count(self, usual):
        return max(3, usual // 50) if self.is_smoke else usual

    def seconds(self, usual):
        return 0.3 if self.is_smoke else usual


def percentile(samples, share):
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def alternate(plan, subjects):
    """A B A B: runs each subject once a round; gives {name: [a list of samples per round]}. A subject that
    raises Skipped is named and left out."""
    samples, gone = {name: [] for name in subjects}, {}
    for _ in range(plan.rounds):
        for name, run in subjects.items():
            if name in gone:
                continue
            try:
                samples[name].append(run())
            except Skipped as reason:
                gone[name] = str(reason)
                print(f"skipped: {name}: {reason}", file=sys.stderr)
    return {name: rounds for name, rounds in samples.items() if name not in gone}


def median_of_rounds(rounds, pick=statistics.median):
    """The median over rounds of @pick of each round's samples."""
    return statistics.median(pick(r) for r in rounds)


def program(*command, timeout=120, env=None, pass_fds=()):
    """Runs one of bench/*.c; gives (samples, rate)."""
    done = subprocess.run([os.path.join(PROGRAMS, command[0]), *map(str, command[1:])], capture_output=True, text=True,
                          timeout=timeout, env=env, pass_fds=pass_fds)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr[-1000:]}")
    lines = done.stdout.split("\n")
    samples = [float(line) for line in lines if line and not line.startswith("rate")]
    return samples, next(float(line.split()[1]) for line in lines if line.startswith("rate"))


def cpu_seconds(pid):
    """CPU that a process and all its threads have used, those that ended too, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | 2)  # the process's clock: what clock_getcpuclockid(3) gives


def memory_kib(pid, field):
    """A field of smaps_rollup: Pss, Pss_Dirty, ..."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))


def until(test, what, seconds=10):
    ends = time.monotonic() + seconds
    while not (value := test()):
        if time.monotonic() > ends:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)
    return value


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "?")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "commit": commit,
            "date": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()), "load": os.getloadavg()[0]}


class Report:
    """Prints one JSON line per figure, then the table; keeps raw samples in bench/out."""

    def __init__(self, plan, is_saved):
        self.plan, self.is_saved, self.rows, self.raw = plan, is_saved, [], {}

    def figure(self, bench, ours, unit, n, peer=None, peer_name=None, note=""):
        row = {"bench": bench, "ours": round(ours, 4), "peer": None if peer is None else round(peer, 4),
               "peer_name": peer_name, "ratio": round(ours / peer, 3) if peer else None, "unit": unit, "n": n, "note": note}
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def keep(self, bench, samples):
        self.raw[bench] = samples

    def compare(self, bench, unit, rounds, ours, note="", pick=statistics.median):
        """One figure per peer of @rounds ({name: rounds}), or one alone when no peer is there."""
        self.keep(bench, rounds)
        if ours not in rounds:
            return
        value, n = median_of_rounds(rounds[ours], pick), sum(map(len, rounds[ours]))
        peers = [name for name in rounds if name != ours]
        for name in peers or [None]:
            peer = median_of_rounds(rounds[name], pick) if name else None
            self.figure(bench, value, unit, n, peer, name, note)

    def save(self):
        """Writes bench/RESULTS.md."""
        m = machine()
        lines = ["# Results of the last full run", "", f"{m['date']} UTC, commit {m['commit']}, {m['cores']} cores of {m['cpu']}, Linux "
                 f"{m['kernel']}, load {m['load']:.1f} at the end. Made by `bench/run --save`; how: README.md.", "",
                 "| figure | ours | peer | unit | ratio | peer's name | note |", "|---|---|---|---|---|---|---|"]
        for r in self.rows:
            peer, ratio = ("" if r[k] is None else f"{r[k]:g}" for k in ("peer", "ratio"))
            lines.append(f"| {r['bench']} | {r['ours']:g} | {peer} | {r['unit']} | {ratio} | {r['peer_name'] or ''} | {r['note']} |")
        with open(os.path.join(HERE, "RESULTS.md"), "w") as f:
            f.write("\n".join(lines) + "\n")

    def end(self):
        os.makedirs(OUT, exist_ok=True)
        path = os.path.join(OUT, time.strftime("%Y%m%d-%H%M%S") + ("-smoke" if self.plan.is_smoke else "") + ".json")
        with open(path, "w") as f:
            json.dump({"machine": machine(), "figures": self.rows, "samples": self.raw}, f)
        if self.is_saved:
            self.save()
        print(f"\n{'figure':<34}{'ours':>11}{'peer':>11}  {'unit':<10}{'ratio':>7}  peer", file=sys.stderr)
        for r in self.rows:
            peer, ratio = ("-" if r[k] is None else f"{r[k]:g}" for k in ("peer", "ratio"))
            print(f"{r['bench']:<34}{r['ours']:>11g}{peer:>11}  {r['unit']:<10}{ratio:>7}  {r['peer_name'] or ''}", file=sys.stderr)
        print(f"raw samples: {os.path.relpath(path, ROOT)}", file=sys.stderr)
