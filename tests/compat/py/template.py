"""tests/compat/py/template.py: the Python SDK's own template builder, unmodified, against the engine that the
environment names."""
import asyncio
import http.server
import json
import os
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request

from checks import check, claim, equal, refused, run_all, until
from driver import public_methods
from e2b import AsyncTemplate, BuildException, CopyItem, FileUploadException, Sandbox, SandboxException, Template, wait_for_file

RUN = f"py{os.getpid()}-{time.time_ns()}"
context = tempfile.mkdtemp(prefix="abx-compat-")
os.makedirs(os.path.join(context, "app/deep"))
for name, data in (("app/main.txt", b"from the context\n"), ("app/deep/x.bin", bytes(300_000)), ("one.txt", b"one\n")):
    with open(os.path.join(context, name), "wb") as f:
        f.write(data)
os.symlink("main.txt", os.path.join(context, "app/link"))
logs = []
sandbox = None


def on_log(entry):
    logs.append(entry.message)


def texts():
    return "\n".join(logs)


def image():
    return Template(file_context_path=context).from_base_image()


def full():
    return (image()
            .set_envs({"GREETING": "hello"})
            .set_envs({"TARGET": "$GREETING world"})
            .run_cmd("mkdir -p /opt/made && echo built > /opt/made/file", user="root")
            .copy("app", "/srv/app/", user="user")
            .copy("one.txt", "/home/user/copied.txt")
            .set_workdir("/srv/app")
            .run_cmd(["echo to stdout", "echo to stderr >&2", "cat main.txt"])
            .set_start_cmd('echo "start says $TARGET"; date +%N > /tmp/started; sleep 1000',
                           wait_for_file("/tmp/started")))


def output(text):
    return sandbox.commands.run(text).stdout.strip()


@check
def build():
    built = Template.build(full(), f"{RUN}:v1", tags=["prod"], cpu_count=1, memory_mb=512, on_build_logs=on_log)
    equal(built.name, f"{RUN}:v1")
    for text in ("base: stand-in for runtime/base:", "RUN has loopback only", "[stdout]: to stdout",
                 "[stderr]: to stderr", "from the context", "start says hello world"):
        claim(text in texts(), f"{text!r} is not in {texts()!r}")


@check
def create():
    global sandbox
    sandbox = Sandbox.create(f"{RUN}:v1")
    equal(output("cat /opt/made/file"), "built")
    equal(output("pwd; echo $TARGET; whoami"), "/srv/app\nhello world\nuser")
    equal(output("cat main.txt link; stat -c %U:%s main.txt deep/x.bin"),
          "from the context\nfrom the context\nuser:17\nuser:300000")
    equal(output("cat /home/user/copied.txt"), "one")
    equal(output("pgrep -c sleep"), "1")
    info = sandbox.get_info()
    equal((info.name, info.cpu_count, info.memory_mb), (RUN, 1, 512))


@check
def second_build_is_cached():
    logs.clear()
    Template.build(full(), f"{RUN}:v2", on_build_logs=on_log)
    equal(sum(line.startswith("CACHED [builder") for line in logs), 5)  # all that made a layer


@check
def failing_run():
    logs.clear()
    broken = (image().run_cmd("true")
              .run_cmd('for i in $(seq 60); do echo "line $i"; done; exit 7')
              .run_cmd("echo never"))
    error = refused(lambda: Template.build(broken, f"{RUN}-broken", on_build_logs=on_log), BuildException,
                    "exit status 7")
    claim("step 2" in str(error) and "line 60" in str(error) and "line 11\n" in str(error), str(error))
    claim("line 10\n" not in str(error) and "never" not in texts(), str(error))
    frames = []
    trace = error.__traceback__
    while trace:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    claim(any(f.endswith("template.py") for f in frames), str(frames))
    refused(lambda: Sandbox.create(f"{RUN}-broken"), Exception, "default")


@check
def never_ready():
    stuck = image().set_start_cmd("echo giving up; exit 4", wait_for_file("/nowhere"))
    error = refused(lambda: Template.build(stuck, f"{RUN}-stuck"), BuildException, "exit status 4")
    claim("giving up" in str(error), str(error))


@check
def missing_image():
    refused(lambda: Template.build(Template().from_image("python:3.12"), f"{RUN}-none"), BuildException, "registry")


class Falsifier(http.server.BaseHTTPRequestHandler):
    """Stands before the engine; upload links that it gives out get another signature."""
    api = os.environ["E2B_API_URL"]

    def log_message(self, *_arguments):
        pass

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        names = ("x-api-key", "content-type")
        request = urllib.request.Request(self.api + self.path, body or None, {n: self.headers[n] for n in names if self.headers[n]}, method=self.command)
        try:
            answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)
        except urllib.error.HTTPError as error:
            answer = error
        data = answer.read()
        if "/files/" in self.path:
            link = json.loads(data)
            link["url"] = link["url"][:-4] + "0000"
            data = json.dumps(link).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = handle_any


@check
def error_FileUploadException():
    """The engine takes no file by a link that it did not give."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Falsifier)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(os.path.join(context, "fresh.txt"), "w", encoding="utf-8") as f:
        f.write(RUN)
    os.environ["E2B_API_URL"] = f"http://127.0.0.1:{server.server_port}"
    try:
        refused(lambda: Template.build(image().copy("fresh.txt", "/srv/"), f"{RUN}-link"), FileUploadException, "403")
    finally:
        os.environ["E2B_API_URL"] = Falsifier.api
        server.shutdown()


@check
def exists_and_tags():
    equal(Template.exists(RUN), True)
    equal(Template.exists(f"{RUN}-no"), False)
    Template.assign_tags(f"{RUN}:v1", ["stable"])
    equal(sorted(t.tag for t in Template.get_tags(RUN)), ["prod", "stable", "v1", "v2"])
    Template.remove_tags(RUN, ["stable"])
    equal(sorted(t.tag for t in Template.get_tags(RUN)), ["prod", "v1", "v2"])


NOTED = set()  # names of methods of Template, AsyncTemplate and of what they make, that came back


class Chain:
    """A template in the making, or the class of it: notes what is called, and hands on what comes back."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        method = getattr(self.target, name)

        def call(*arguments, **options):
            value = method(*(a.target if isinstance(a, Chain) else a for a in arguments), **options)
            NOTED.add(name)
            return Chain(value) if type(value).__name__ in ("TemplateBuilder", "TemplateFinal", "Template", "AsyncTemplate") else value
        return call


def begun():
    return Chain(Template(file_context_path=context))


def steps_of(chain):
    return json.loads(Chain(Template).to_json(chain))


@check
def every_step_that_needs_nothing_from_outside():
    made = (begun().skip_cache().from_base_image().skip_cache().make_dir("/srv/d", mode=0o750, user="root")
            .run_cmd("echo x > /srv/d/a", user="root").make_symlink("/srv/d/a", "/srv/d/link", user="root")
            .rename("/srv/d/a", "/srv/d/b", user="root").remove("/srv/d/link", user="root")
            .copy_items([CopyItem(src="one.txt", dest="/srv/items/one")]).copy("one.txt", "/srv/items/two", mode=0o600)
            .set_envs({"A": "b"}).set_user("user").set_workdir("/tmp").set_ready_cmd("true"))
    Chain(Template).build(made, f"{RUN}-steps")
    with Sandbox.create(f"{RUN}-steps") as box:
        made = box.commands.run("ls /srv/d; stat -c %a /srv/d /srv/items/two; cat /srv/items/one", user="root").stdout
        equal(made.split(), ["b", "750", "600", "one"])
        equal(box.commands.run("whoami; pwd; echo $A").stdout.split(), ["user", "/tmp", "b"])


@check
def from_a_dockerfile_and_from_a_template():
    text = "FROM e2bdev/base\nENV A=1\nRUN echo from-file > /tmp/d\nCOPY one.txt /tmp/one\n"
    Chain(Template).build(begun().from_dockerfile(text), f"{RUN}-file")
    Chain(Template).build(begun().from_template(f"{RUN}-file").run_cmd("echo more >> /tmp/d", user="root").set_start_cmd("sleep 1000", "true"), f"{RUN}-more")
    begun_soon = "for i in $(seq 100); do pgrep -x sleep >/dev/null && break; sleep 0.05; done"  # ready says nothing of it
    with Sandbox.create(f"{RUN}-more") as box:
        equal(box.commands.run(f"cat /tmp/d /tmp/one; {begun_soon}; pgrep -c sleep; echo $A").stdout.split(),
              ["from-file", "more", "one", "1", "1"])


@check
def steps_that_need_a_network():
    """They are written as their commands; RUN has loopback only, and that is where they fail."""
    chain = (begun().from_base_image().apt_install("git").pip_install("flask").npm_install("left-pad", g=True).bun_install("left-pad")
             .git_clone("https://git.example.test/r.git", "/srv/r", depth=1))
    written = json.dumps(steps_of(chain))
    for part in ("apt-get", "pip install", "npm install", "bun install", "git clone"):
        claim(part in written, f"{part!r} is not in {written}")
    refused(lambda: Chain(Template).build(chain, f"{RUN}-net"), BuildException, "exit status")
    for name, step in (("mcp-gateway", lambda t: t.add_mcp_server("exa")), ("devcontainer", lambda t: t.beta_dev_container_prebuild("/srv")),
                       ("devcontainer", lambda t: t.beta_set_dev_container_start("/srv"))):
        claim(steps_of(step(begun().from_template(name)))["fromTemplate"] == name, name)
        refused(lambda step=step: step(begun().from_base_image()), BuildException)


@check
def images_of_registries():
    names = [n for n in dir(Template) if n.startswith("from_") and n.endswith("_image") and n not in ("from_image", "from_base_image")]
    claim(len(names) >= 5, f"{names}")
    for name in names:
        image_name = steps_of(getattr(begun(), name)())["fromImage"]
        refused(lambda name=name: Chain(Template).build(getattr(begun(), name)(), f"{RUN}-{name}"), BuildException, "registry")
        claim(name.split("_")[1] in image_name or name == "from_bun_image", image_name)
    for chain in (begun().from_image("registry.example.test/x", username="u", password="p"),
                  begun().from_aws_registry("1.dkr.ecr.example.test/x", "a", "b", "r"), begun().from_gcp_registry("gcr.example.test/x", {"type": "y"})):
        claim("fromImageRegistry" in steps_of(chain), "credentials")
        refused(lambda chain=chain: Chain(Template).build(chain, f"{RUN}-registry"), BuildException, "501|[Rr]egistry")


@check
def in_the_background():
    made = Chain(Template).build_in_background(begun().from_base_image().run_cmd("sleep 1"), f"{RUN}-later")
    until(lambda: Chain(Template).get_build_status(made).status.value == "ready", "the build's end", 30)
    equal((Chain(Template).alias_exists(f"{RUN}-later"), Chain(Template).exists(f"{RUN}-later")), (True, True))
    Chain(Template).assign_tags(f"{RUN}-later:default", ["a", "b"])
    claim("a" in [t.tag for t in Chain(Template).get_tags(f"{RUN}-later")], "tagged")
    Chain(Template).remove_tags(f"{RUN}-later", "a")
    claim("RUN true" in Chain(Template).to_dockerfile(begun().from_image("debian:12").run_cmd("true")), "as a Dockerfile")


@check
def every_method_of_a_template_has_a_check():
    there = {n for _, n in public_methods(*Template.__mro__[:-1], type(image()), type(image().set_ready_cmd("true")))}
    claim(len(there) >= 35, f"{sorted(there)}")
    equal(sorted(there - NOTED), [])


async def drive_async():
    async def done(value):
        return await value
    name, chain = f"{RUN}-async", Chain(AsyncTemplate)
    steps = AsyncTemplate().from_base_image().run_cmd("echo async > /tmp/a")
    await done(chain.build(steps, name))
    made = await done(chain.build_in_background(steps, f"{name}2"))
    while (await done(chain.get_build_status(made))).status.value == "building":
        await asyncio.sleep(0.2)
    equal((await done(chain.exists(name)), await done(chain.alias_exists(f"{name}-no"))), (True, False))
    await done(chain.assign_tags(f"{name}:default", ["x"]))
    claim("x" in [t.tag for t in await done(chain.get_tags(name))], "tagged")
    await done(chain.remove_tags(name, ["x"]))
    claim("fromImage" in json.loads(chain.to_json(steps)) and chain.to_dockerfile(AsyncTemplate().from_image("debian:12")), "as text")


@check
def async_template():
    NOTED.clear()
    asyncio.run(drive_async())
    own = {n for n in dir(AsyncTemplate) if not n.startswith(("_", "from_")) and n != "skip_cache"}
    claim(len(own) >= 9, f"{own}")
    equal(sorted(own - NOTED), [])


@check
def kill():
    equal(sandbox.kill(), True)
    refused(lambda: Sandbox.create(f"{RUN}-none"), SandboxException, "404")
    shutil.rmtree(context)  # run_all() leaves without atexit


run_all()
