"""tests/e2e/each.py: a suite of checks f(sandbox) in one engine: all functions of the module whose one argument is `sandbox`.

    sys.exit(each_in_a_sandbox(globals()))   # a sandbox each
    sys.exit(all_in_a_sandbox(globals()))    # one for all, and a new one after a check that failed"""
import http.client
import sys

from harness import Engine, Suite, leftovers, until, world
from rpc import Sandbox


def checks_of(module):
    return [v for _, v in sorted(module.items()) if getattr(v, "__module__", None) == module["__name__"]
            and getattr(v, "__code__", None) and v.__code__.co_varnames[:1] == ("sandbox",) and v.__code__.co_argcount == 1]


def in_a_sandbox(check, engine, **fields):
    sandbox = Sandbox(engine, **fields)
    sandbox.engine = engine
    try:
        check(sandbox)
    except (http.client.HTTPException, OSError) as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    finally:
        sandbox.kill()


def nothing_left(before):
    left = {}

    def is_clean():
        left.clear()
        left.update(leftovers(before))
        return not left
    try:
        until(is_clean, "a clean machine", 20)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left}") from error


def each_in_own(suite, checks, engine):
    for check in checks:
        suite.check(check.__name__, in_a_sandbox, check, engine)


def all_in_one(suite, checks, engine):
    """What fails ends the round: its sandbox may be in any state."""
    while checks:
        def round_of_checks(sandbox):
            while checks:
                check = checks.pop(0)
                if not suite.check(check.__name__, check, sandbox):
                    return
        in_a_sandbox(round_of_checks, engine, timeout=1800)


def run_checks(module, how):
    """Runs all, or those that the command line names; gives the exit code."""
    suite, before, wanted = Suite(), world(), sys.argv[1:]
    try:
        with Engine() as engine:
            how(suite, [check for check in checks_of(module) if not wanted or check.__name__ in wanted], engine)
    except Exception as error:
        def failed():
            raise error
        suite.check("engine", failed)
    suite.check("nothing_left", nothing_left, before)
    return suite.end()


def each_in_a_sandbox(module):
    return run_checks(module, each_in_own)


def all_in_a_sandbox(module):
    return run_checks(module, all_in_one)
