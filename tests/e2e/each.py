"""tests/e2e/each.py: a suite of checks f(sandbox), each in a sandbox of its own, in one engine.

    sys.exit(each_in_a_sandbox(globals()))   # all functions of the module whose one argument is `sandbox`"""
import http.client
import sys

from harness import Engine, Suite, leftovers, until, world
from rpc import Sandbox


def checks_of(module):
    return [v for _, v in sorted(module.items()) if getattr(v, "__module__", None) == module["__name__"]
            and getattr(v, "__code__", None) and v.__code__.co_varnames[:1] == ("sandbox",) and v.__code__.co_argcount == 1]


def in_a_sandbox(check, engine):
    sandbox = Sandbox(engine)
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


def each_in_a_sandbox(module):
    """Runs all, or those that the command line names; gives the exit code."""
    suite, before, wanted = Suite(), world(), sys.argv[1:]
    try:
        with Engine() as engine:
            for check in checks_of(module):
                if not wanted or check.__name__ in wanted:
                    suite.check(check.__name__, in_a_sandbox, check, engine)
    except Exception as error:
        def failed():
            raise error
        suite.check("engine", failed)
    suite.check("nothing_left", nothing_left, before)
    return suite.end()
