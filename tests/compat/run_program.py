"""tests/compat/run_program.py: one program of checks, run in the environment of an engine."""
import re
import subprocess
import sys

SUM = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
LIMIT_SECONDS = 900


def run_program(engine, name, command):
    """Runs one program, passes its lines on with its name, gives (passed, failed)."""
    try:
        done = engine.run(command, check=False, timeout=LIMIT_SECONDS)
        output, code = done.stdout.decode(errors="replace"), done.returncode
        errors = done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired as e:
        output, code, errors = (e.stdout or b"").decode(errors="replace"), -1, f"hung for {LIMIT_SECONDS} s"
    counted = SUM.findall(output)
    for line in output.splitlines():
        if not SUM.match(line):
            print(re.sub(r"^(ok|not ok) ", rf"\1 {name} ", line))
    passed, failed = map(int, counted[-1]) if counted else (0, 0)
    if (code or not counted) and not failed:
        failed = 1
        print(f"not ok {name}: exit code {code}{'' if counted else ', no count'}: {errors[-2000:]}")
    sys.stdout.flush()
    return passed, failed
