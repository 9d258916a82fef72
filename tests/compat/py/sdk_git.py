"""tests/compat/py/sdk_git.py: the Git class of the SDK, on repositories within one sandbox (sdk.py adds the checks)."""
from checks import check, equal, refused, until
from e2b import GitAuthException, GitUpstreamException, InvalidArgumentException

REFUSING = """import http.server as h
class R(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm=x'); self.send_header('Content-Length', '0'); self.end_headers()
h.HTTPServer(('127.0.0.1', 8402), R).serve_forever()"""


def add_git(box):
    """Adds the checks; @box gives the sandbox once there is one. Gives which check drives which method."""
    def output(text):
        return box().commands.run(text).stdout.strip()

    @check
    def git_commit():
        git = box().git
        git.init("work", initial_branch="main")
        git.configure_user("A Name", "a@example.test", scope="global")
        box().files.write("work/a.txt", "one\n")
        equal([(f.name, f.status) for f in git.status("work").file_status], [("a.txt", "untracked")])
        git.add("work", files=["a.txt"])
        git.commit("work", "first é", author_name="B", author_email="b@example.test")
        equal(git.status("work").current_branch, "main")
        equal(output('git -C work log -1 --format="%s %an"'), "first é B")

    @check
    def git_branches():
        git = box().git
        git.create_branch("work", "side")
        git.checkout_branch("work", "main")
        found = git.branches("work")
        equal((sorted(found.branches), found.current_branch), (["main", "side"], "main"))
        git.delete_branch("work", "side", force=True)
        equal(git.branches("work").branches, ["main"])

    @check
    def git_reset_and_restore():
        git = box().git
        box().files.write("work/a.txt", "two\n")
        git.restore("work", paths=["a.txt"])
        equal(output("cat work/a.txt"), "one")
        box().files.write("work/a.txt", "three\n")
        git.add("work")
        git.reset("work", mode="hard", target="HEAD")
        equal(output("cat work/a.txt"), "one")

    @check
    def git_config():
        git = box().git
        git.set_config("abx.test", "a value", scope="local", path="work")
        equal(git.get_config("abx.test", scope="local", path="work"), "a value")
        refused(lambda: git.set_config("abx.test", "x", scope="nowhere"), InvalidArgumentException)

    @check
    def git_remotes():
        git = box().git
        git.init("bare.git", bare=True, initial_branch="main")
        refused(lambda: git.pull("work"), GitUpstreamException)
        git.remote_add("work", "origin", "/home/user/bare.git")
        equal(git.remote_get("work", "origin"), "/home/user/bare.git")
        git.push("work", remote="origin", branch="main", set_upstream=True)
        git.clone("/home/user/bare.git", path="copy", branch="main")
        box().files.write("work/b.txt", "b\n")
        git.add("work")
        git.commit("work", "second")
        git.push("work")
        git.pull("copy")
        equal(output("cat copy/a.txt copy/b.txt"), "one\nb")

    @check
    def git_credentials():
        git = box().git
        box().files.write("refusing.py", REFUSING)
        server = box().commands.run("python3 refusing.py", background=True)
        until(lambda: output("(: < /dev/tcp/127.0.0.1/8402) 2>/dev/null && echo up || true") == "up", "it listens")
        refused(lambda: git.clone("http://127.0.0.1:8402/x.git", path="refused"), GitAuthException)
        server.kill()
        git.dangerously_authenticate("me", "secret", host="git.example.test")
        equal(output("cat ~/.git-credentials"), "https://me:secret@git.example.test")

    return {"init": git_commit, "configure_user": git_commit, "status": git_commit, "add": git_commit, "commit": git_commit,
            "branches": git_branches, "create_branch": git_branches, "checkout_branch": git_branches, "delete_branch": git_branches,
            "reset": git_reset_and_restore, "restore": git_reset_and_restore, "set_config": git_config, "get_config": git_config,
            "remote_add": git_remotes, "remote_get": git_remotes, "push": git_remotes, "pull": git_remotes, "clone": git_remotes,
            "dangerously_authenticate": git_credentials}
