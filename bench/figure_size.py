"""bench/figure_size.py: `size`: stripped bytes of the programs, memory of each process of an idle sandbox and of an idle
agent-sandbox-server, and the time from spawning envd and the server to their first answer. Goals are those of
performance.md."""
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from figure_http import free_port
from measure import BUILD, Skipped, alternate, memory_kib, until
from sandboxes import Sandbox, running_engine

GOALS_MIB = {"abx-guest": 2.5, "abx": 12, "abx-shim": None}


def stripped_bytes(path):
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfile(path, copy.name)
        subprocess.run(["strip", copy.name], check=True)
        return os.path.getsize(copy.name)


def first_answer_ms(command):
    """From posix_spawn to the first byte of an answer to GET /health."""
    port, request = free_port(), b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in range(3)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], [part.format(port=port) for part in command], {"HOME": "/tmp"}, file_actions=null)
    try:
        while time.perf_counter() - began < 10:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    s.sendall(request)
                    s.recv(100)
                    return (time.perf_counter() - began) * 1000
        raise AssertionError(f"{command[0]} does not answer")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def go_first_answer_ms():
    binary = os.environ.get("ABX_BENCH_ENVD")
    if not binary:
        raise Skipped("ABX_BENCH_ENVD names no Go envd")
    return first_answer_ms([binary, "-isnotfc", "-port", "{port}"])


def server_command(port):
    return [os.path.join(BUILD, "bin/agent-sandbox-server"), "serve", "--host", "127.0.0.1", "--port", port,
            "--pty-port", str(free_port()), "--base-dir", "/tmp"]


def idle_server_kib():
    """PSS and dirty PSS of a server that has answered once."""
    port = free_port()
    process = subprocess.Popen(server_command(str(port)), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/health"
        until(lambda: subprocess.run(["curl", "-s", "-o", "/dev/null", url], timeout=10).returncode == 0, "an answer")
        time.sleep(0.5)
        return memory_kib(process.pid, "Pss"), memory_kib(process.pid, "Pss_Dirty")
    finally:
        process.kill()
        process.wait()


def run(plan, report):
    for name, goal in GOALS_MIB.items():
        path = os.path.join(BUILD, "bin", name)
        if not os.path.exists(path):
            raise Skipped(f"{path} is not built")
        report.figure(f"size, {name} stripped", stripped_bytes(path) / 2**20, "MiB", 1, goal, "goal" if goal else None)
    with running_engine() as (engine, _):
        sandbox = Sandbox(engine)
        roles = until(lambda: (r := sandbox.roles()) and len(r) >= 4 and r, "shim, init, gateway and envd")
        pss = {role: memory_kib(pid, "Pss") for role, pid in roles.items()}
        private = sum(memory_kib(pid, "Pss_Dirty") for pid in roles.values())
        report.keep("size pss", pss)
        for role, value in pss.items():
            report.figure(f"size, PSS {role}", value / 1024, "MiB", 1)
        report.figure("size, PSS of a sandbox", sum(pss.values()) / 1024, "MiB", 1, 4, "goal")
        report.figure("size, dirty PSS of a sandbox", private / 1024, "MiB", 1, 1.2, "goal of density")
        report.figure("size, PSS abx", memory_kib(engine.pid(), "Pss") / 1024, "MiB", 1)
        sandbox.kill()
    guest, count = os.path.join(BUILD, "bin/abx-guest"), plan.count(20)
    pss, dirty = idle_server_kib()
    report.figure("size, PSS agent-sandbox-server", pss / 1024, "MiB", 1, 2, "goal")
    report.figure("size, dirty PSS agent-sandbox-server", dirty / 1024, "MiB", 1)
    server = [first_answer_ms(server_command("{port}")) for _ in range(count)]
    report.figure("size, agent-sandbox-server spawn to first answer", statistics.median(server), "ms", count, 2, "goal")
    rounds = alternate(plan, {"envd": lambda: [first_answer_ms([guest, "envd", "--port", "{port}"]) for _ in range(count)],
                              "Go envd": lambda: [go_first_answer_ms() for _ in range(count)]})
    report.compare("size, envd spawn to first answer", "ms", rounds, "envd", "goal 2 ms")
