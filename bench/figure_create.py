"""bench/figure_create.py: `create`, cold: (a) `POST /sandboxes` until its answer, which waits for envd; (b) the JS SDK's
`Sandbox.create()` with its first `commands.run('true')`. Peers run `true` over the same read-only directories."""
import tempfile

from measure import alternate, percentile
from sandboxes import TRUE, Runc, bwrap_command, running_engine, sdk, sdk_floor, spawned


def creates(api, request, count):
    samples, made = api.create(request, count)
    for sandbox in made:
        api.kill(sandbox)
    return [us / 1000 for us in samples]


def run(plan, report):
    with running_engine() as (engine, api), tempfile.TemporaryDirectory(prefix="abx-bench-") as top:
        request = api.create_request()
        count = plan.count(20)
        creates(api, request, 2)
        made = {}

        def runc():
            made.setdefault("runc", None)
            made["runc"] = made["runc"] or Runc(top)
            return made["runc"].run_samples(count, TRUE)

        peers = {"runc run": runc, "bwrap": lambda: spawned(count, *bwrap_command(TRUE)),
                 "posix_spawn": lambda: spawned(count, TRUE)}
        rounds = alternate(plan, {"api": lambda: creates(api, request, count), **peers})
        report.compare("create (a) POST /sandboxes p50", "ms", rounds, "api")
        report.compare("create (a) POST /sandboxes p95", "ms", rounds, "api", pick=lambda r: percentile(r, 0.95))
        rounds = alternate(plan, {"sdk": lambda: sdk(engine, "create", count),
                                  "SDK, answers at once": lambda: sdk_floor("create", count), **peers})
        report.compare("create (b) SDK create+run p50", "ms", rounds, "sdk", "peers run true alone, without any SDK")
        report.compare("create (b) SDK create+run p95", "ms", rounds, "sdk", pick=lambda r: percentile(r, 0.95))
