"""tests/compat/py/template.py: the Python SDK's own template builder, unmodified, against the engine that the
environment names."""
import os
import shutil
import tempfile
import time

from checks import check, claim, equal, refused, run_all
from e2b import BuildException, Sandbox, SandboxException, Template, wait_for_file

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


@check
def exists_and_tags():
    equal(Template.exists(RUN), True)
    equal(Template.exists(f"{RUN}-no"), False)
    Template.assign_tags(f"{RUN}:v1", ["stable"])
    equal(sorted(t.tag for t in Template.get_tags(RUN)), ["prod", "stable", "v1", "v2"])
    Template.remove_tags(RUN, ["stable"])
    equal(sorted(t.tag for t in Template.get_tags(RUN)), ["prod", "v1", "v2"])


@check
def kill():
    equal(sandbox.kill(), True)
    refused(lambda: Sandbox.create(f"{RUN}-none"), SandboxException, "404")
    shutil.rmtree(context)  # run_all() leaves without atexit


run_all()
