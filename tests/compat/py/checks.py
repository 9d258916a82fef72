"""tests/compat/py/checks.py: a list of named checks with a hang guard each; prints them and the sum."""
import os
import re
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
GUARD_SECONDS = 60
rows = []


def check(function):
    """Adds a check; they run in the order of adding."""
    rows.append(function)
    return function


def is_port():
    """Whether the published client's port stands in the SDK's place (port.py)."""
    return sys.modules["e2b"].__name__ != "e2b"


def check_of_sdk(function):
    """A check of what the SDK has and its port lacks."""
    return function if is_port() else check(function)


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r:.300}, wanted {wanted!r:.300}")


def claim(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(make, error_class, pattern="."):
    """Expects @make to raise an @error_class whose text matches @pattern; returns it."""
    try:
        value = make()
    except error_class as error:
        claim(re.search(pattern, str(error), re.S), f"{pattern!r} is not in {str(error)!r}")
        return error
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} ({error}) is no {error_class.__name__}") from error
    raise AssertionError(f"expected {error_class.__name__}, got {value!r:.200}")


def until(test, what, seconds=10):
    """Polls until @test gives true."""
    ends = time.monotonic() + seconds
    while not test():
        claim(time.monotonic() < ends, f"{what}: not within {seconds} s")
        time.sleep(0.05)


def on_alarm(_number, _frame):
    raise AssertionError(f"hung for {GUARD_SECONDS} s")


def run_all(at_end=lambda: None):
    """Runs all checks, or those named in ABX_ONLY (comma-separated), then @at_end, and ends the process."""
    only = [n for n in os.environ.get("ABX_ONLY", "").split(",") if n]
    passed = failed = 0
    signal.signal(signal.SIGALRM, on_alarm)
    for function in rows:
        name = function.__name__
        if only and name != "create" and name not in only:
            continue
        began = time.monotonic()
        signal.alarm(GUARD_SECONDS)
        try:
            function()
            passed += 1
            print(f"ok {name} ({(time.monotonic() - began) * 1000:.0f} ms)", flush=True)
        except Exception as error:  # whatever it is, it is this check's failure
            failed += 1
            where = [f for f in traceback.extract_tb(error.__traceback__)
                     if os.path.dirname(f.filename) == HERE and not f.filename.endswith(("checks.py", "driver.py"))]
            line = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
            print(f"not ok {name}: {type(error).__name__}: {str(error)[:600]}{line}", flush=True)
        finally:
            signal.alarm(0)
    at_end()
    print(f"{passed} passed, {failed} failed", flush=True)
    os._exit(1 if failed or not passed else 0)  # a thread of the SDK may still sit in a stream
