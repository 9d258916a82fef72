"""tests/compat/py/driver.py: a client object that notes which of its public methods were called and came back.

One Driver is of one mode: "async" awaits on a loop of its own, "sync" takes the `_sync` twin where there is one."""
import asyncio
import inspect

LOOP = asyncio.new_event_loop()
DONE = set()  # (class name, method name) that returned


async def collected(generator):
    return [item async for item in generator]


def awaited(value):
    """What an awaitable gives, all that an asynchronous generator yields, anything else as it is."""
    if inspect.isasyncgen(value):
        return LOOP.run_until_complete(collected(value))
    return LOOP.run_until_complete(value) if inspect.isawaitable(value) else value


class Driver:
    def __init__(self, target, mode, module):
        self.target, self.mode, self.module = target, mode, module

    def wrapped(self, value):
        return Driver(value, self.mode, self.module) if type(value).__module__.startswith(self.module) else value

    def noted(self, name, value):
        owners = [c for c in type(self.target).__mro__ if name in vars(c)]
        DONE.add((owners[0].__name__, name) if owners else (type(self.target).__name__, name))
        return self.wrapped(value)

    def __getattr__(self, name):
        if self.mode == "sync" and hasattr(self.target, name + "_sync"):
            name += "_sync"
        value = getattr(self.target, name)
        if not callable(value) or type(value).__module__.startswith(self.module):
            return self.noted(name, value)
        return lambda *args, **options: self.noted(name, awaited(value(*args, **options)))


def public_methods(*classes):
    """(class name, method name) of everything callable, and every property, that a user may reach."""
    return {(c.__name__, name) for c in classes for name, value in vars(c).items()
            if not name.startswith("_") and (callable(value) or isinstance(value, (property, staticmethod, classmethod)))}
