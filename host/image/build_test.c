/* host/image/build_test.c: real builds: import, steps, cache, sandboxes left behind (engine.md 4).
 */
#include "host/image/testkit_priv.h"

#include "lib/base/time.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

/* Folders of sandboxes that are made ahead of need are there as long as the engine runs. */
static int count_in(const struct kit *k, const char *folder)
{
    char path[128];
    bool is_sandboxes = strcmp(folder, "sandboxes") == 0;
    snprintf(path, sizeof(path), "%s/%s", k->state, folder);
    int n = 0;
    DIR *dir = opendir(path);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
             !(is_sandboxes && strncmp(e->d_name, ".new-", 5) == 0);
    if (dir != NULL)
        closedir(dir);
    return n;
}

static int body_builds(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    CHECK(k->image->layer_count == 1 && kit_missing(k, k->image) == 0);
    struct abx_build *b = kit_build(k, k->image);
    CHECK(b != NULL);
    CHECK(kit_run_step(k, b, "echo out; echo err >&2; echo kept > /kept; id -u") == 0);
    CHECK(strstr(k->text, "out\n") && strstr(k->text, "err\n") && strstr(k->text, "0\n"));
    CHECK(!k->result.cached && k->result.has_layer);
    CHECK(kit_run_step(k, b, "cat /kept; cat /etc/hosts; [ -e /.fce2b/step ]") == 0);
    CHECK(strncmp(k->text, "kept\n", 5) == 0 && strstr(k->text, "build"));

    const char *pairs[] = {"A", "1", "B", "x$A", "C", "${A}y\\$A", NULL};
    struct abx_step env = {.type = ABX_STEP_ENV, .pairs = pairs};
    const char *first[] = {"A", "one", NULL};
    struct abx_step before = {.type = ABX_STEP_ENV, .pairs = first};
    CHECK(kit_step(k, b, &before) == 0 && !k->result.has_layer);
    CHECK(kit_step(k, b, &env) == 0);
    CHECK(kit_run_step(k, b, "echo $A $B $C") == 0);
    CHECK(strcmp(k->text, "1 xone oney$A\n") == 0);

    struct abx_step user = {.type = ABX_STEP_USER, .name = "app", .sudo = true};
    struct abx_step dir = {.type = ABX_STEP_WORKDIR, .name = "/srv/x/../app"};
    CHECK(kit_step(k, b, &user) == 0);
    CHECK(kit_step(k, b, &dir) == 0);
    CHECK(strcmp(abx_build_image(b)->workdir, "/srv/app") == 0);
    CHECK(kit_run_step(k, b,
                       "id -un; echo $HOME; stat -c %U:%a .; stat -c %n ~/.profile; "
                       "echo mine > file; cat /etc/passwd") == 0);
    CHECK(strncmp(k->text, "app\n/home/app\napp:755\n/home/app/.profile\n", 41) == 0);

    struct abx_step exec = {
        .type = ABX_STEP_RUN, .argv = (const char *const[]){"cat", "file", NULL}, .user = "root"};
    CHECK(kit_step(k, b, &exec) == 0 && strcmp(k->text, "mine\n") == 0);
    CHECK(kit_run_step(k, b, "echo before; exit 7") < 0);
    CHECK(k->err.code == ABX_ABORTED && k->result.exit_code == 7);
    CHECK(strstr(k->err.msg, "failed to run command 'echo before; exit 7': exit status 7"));
    CHECK(strcmp(k->text, "before\n") == 0);
    CHECK(kit_run_step(k, b, "kill -9 $$") < 0 && k->result.exit_code == 137);
    uint32_t layers = abx_build_image(b)->layer_count;
    CHECK(layers == 8);
    CHECK(count_in(k, "sandboxes") == 0); /* nothing of a step is left */
    struct abx_image *built = abx_image_copy(abx_build_image(b));
    abx_build_close(b);

    /* the same again: every layer is there */
    b = kit_build(k, k->image);
    CHECK(kit_run_step(k, b, "echo out; echo err >&2; echo kept > /kept; id -u") == 0);
    CHECK(k->result.cached && k->len == 0);
    CHECK(kit_run_step(k, b, "cat /kept; cat /etc/hosts; [ -e /.fce2b/step ]") == 0);
    CHECK(k->result.cached);
    CHECK(kit_step(k, b, &before) == 0 && kit_step(k, b, &env) == 0);
    CHECK(kit_run_step(k, b, "echo $A $B $C") == 0 && k->result.cached);
    CHECK(kit_step(k, b, &user) == 0 && k->result.cached);
    CHECK(kit_step(k, b, &dir) == 0 && k->result.cached);
    struct abx_step fresh = {.type = ABX_STEP_RUN, .command = "echo new", .no_cache = true};
    CHECK(kit_step(k, b, &fresh) == 0 && !k->result.cached && strcmp(k->text, "new\n") == 0);
    abx_build_close(b);

    CHECK(kit_gc(k, built) == 0);
    CHECK(kit_missing(k, built) == 0);
    CHECK(count_in(k, "layers") == 2 * 8); /* each with its description; the fresh one is gone */
    CHECK(kit_gc(k, NULL) == 0);
    CHECK(count_in(k, "layers") == 0);
    abx_image_free(built);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(build_runs_steps_and_caches_them)
{
    kit_run(false, body_builds);
}

TEST(build_runs_steps_as_an_ordinary_user)
{
    kit_run(true, body_builds);
}

static const struct kit_entry context[] = {
    {"app", AE_IFDIR},
    {"app/main.py", 0, 0644, "main"},
    {"app/sub", AE_IFDIR, 0700},
    {"app/sub/\xe4\xb8\x96\xe7\x95\x8c.txt", 0, 0600, "world"},
    {"app/setuid", 0, 04755, "s"},
    {"app/link", AE_IFLNK, 0777, NULL, "/etc/passwd"},
    {"app/hard", 0, 0644, NULL, NULL, "app/main.py"},
    {"one.txt", 0, 0640, "one"},
};

static struct abx_step copy_step(const char *src, const char *dest)
{
    int fd = kit_tar_of("gzip", context, sizeof(context) / sizeof(context[0]));
    return (struct abx_step){.type = ABX_STEP_COPY,
                             .src = src,
                             .dest = dest,
                             .take_archive_fd = fd,
                             .archive_digest = kit_digest(fd)};
}

static int body_copies(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_build *b = kit_build(k, k->image);
    CHECK(b != NULL);
    struct abx_step user = {.type = ABX_STEP_USER, .name = "app"};
    struct abx_step dir = {.type = ABX_STEP_WORKDIR, .name = "/w"};
    CHECK(kit_step(k, b, &user) == 0 && kit_step(k, b, &dir) == 0);
    struct abx_step s = copy_step("app/*", "d"); /* relative to /w, as app */
    CHECK(kit_step(k, b, &s) == 0);
    CHECK(kit_run_step(k, b,
                       "cd d; stat -c '%n %F %a %U' * sub/*; cat main.py hard sub/*; "
                       "[ main.py -ef hard ] && echo same") == 0);
    CHECK(strstr(k->text, "main.py regular file 644 app") && strstr(k->text, "sub directory 700"));
    CHECK(strstr(k->text, "\xe4\xb8\x96\xe7\x95\x8c.txt regular file 600 app"));
    CHECK(strstr(k->text, "setuid regular file 4755 app") && strstr(k->text, "link symbolic link"));
    CHECK(strstr(k->text, "mainmainworldsame"));
    s = copy_step("one.txt", "/named");
    CHECK(kit_step(k, b, &s) == 0);
    s = copy_step("one.txt", "/tmp"); /* a folder of the image */
    CHECK(kit_step(k, b, &s) == 0);
    s = copy_step("./one.txt", "new/deep/");
    s.owner = "root:staff";
    s.mode = "0751";
    CHECK(kit_step(k, b, &s) == 0);
    s = copy_step("app", "/bin/../bin/x"); /* through a link of the image, inside it */
    CHECK(kit_step(k, b, &s) == 0);
    CHECK(kit_run_step(k, b,
                       "cat /named /tmp/one.txt; stat -c %U:%G:%a new/deep/one.txt; "
                       "cat /usr/bin/x/main.py") == 0);
    CHECK(strcmp(k->text, "oneoneroot:staff:751\nmain") == 0);
    s = copy_step("app", "/bin/../bin/x");
    CHECK(kit_step(k, b, &s) == 0 && !k->result.cached); /* other layers below */
    s = copy_step("absent", "/x");
    CHECK(kit_step(k, b, &s) < 0 && strstr(k->err.msg, "\"absent\" is not in the context"));
    s = copy_step("../x", "/x");
    CHECK(kit_step(k, b, &s) < 0 && strstr(k->err.msg, "leads out of the context"));
    s = copy_step("one.txt", "/x");
    s.owner = "nobody-knows";
    CHECK(kit_step(k, b, &s) < 0 && strstr(k->err.msg, "nobody-knows"));
    abx_build_close(b);
    CHECK(count_in(k, "sandboxes") == 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(copy_places_owns_and_modes)
{
    kit_run(false, body_copies);
}

TEST(copy_works_as_an_ordinary_user)
{
    kit_run(true, body_copies);
}

/* A COPY archive with what S53 refuses fails the step, and the machine is untouched. */
static int body_copy_attacks(struct kit *k)
{
    static const struct {
        struct kit_entry entries[2];
        const char *want;
    } rows[] = {
        {{{"../out", 0, 0, "x"}}, "name with .."},
        {{{"a/../../out", 0, 0, "x"}}, "name with .."},
        {{{"/etc/passwd", 0, 0, "x"}}, "absolute name"},
        {{{"dev", AE_IFCHR, 0, NULL, NULL, NULL, 0, 0x103}}, "device"},
        {{{"blk", AE_IFBLK, 0, NULL, NULL, NULL, 0, 0x103}}, "device"},
        {{{"a", 0, 0, "x"}, {"h", 0, 0, NULL, NULL, "../a"}}, "name with .."},
        {{{"a", 0, 0, "x"}, {"h", 0, 0, NULL, NULL, "/etc/passwd"}}, "absolute name"},
    };
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_build *b = kit_build(k, k->image);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = kit_tar_of(NULL, rows[i].entries, rows[i].entries[1].name ? 2 : 1);
        struct abx_step s = {
            .type = ABX_STEP_COPY, .src = ".", .dest = "/x", .take_archive_fd = fd};
        CHECK(kit_step(k, b, &s) < 0);
        CHECK(strstr(k->err.msg, rows[i].want) != NULL);
    }
    /* a link that leads out leads to the image's own root */
    const struct kit_entry way[] = {{"up", AE_IFLNK, 0, NULL, "../../../../../../etc"},
                                    {"up/planted", 0, 0, "x"}};
    int fd = kit_tar_of(NULL, way, 2);
    struct abx_step s = {.type = ABX_STEP_COPY, .src = ".", .dest = "/x", .take_archive_fd = fd};
    CHECK(kit_step(k, b, &s) == 0);
    CHECK(kit_run_step(k, b, "cat /etc/planted") == 0 && strcmp(k->text, "x") == 0);
    CHECK(access("/etc/planted", F_OK) < 0);
    abx_build_close(b);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s53_copy_attacks_are_refused)
{
    kit_run(false, body_copy_attacks);
}

/* What a layer has of setuid and devices is nothing to the machine; a step is as confined as any
 * sandbox. */
static int body_steps_are_confined(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_build *b = kit_build(k, k->image);
    CHECK(kit_run_step(k, b, "chmod 4755 /bin/cat && stat -c %a:%u /bin/cat") == 0);
    CHECK(strcmp(k->text, "4755:0\n") == 0);
    char hex[65], path[256];
    struct stat st;
    abx_hex_encode(k->result.layer.bytes, 32, hex);
    snprintf(path, sizeof(path), "%s/layers/%s/usr/bin/cat", k->state, hex);
    if (geteuid() == 0) {
        CHECK(stat(path, &st) == 0 && st.st_uid != 0 && (st.st_mode & 04000));
        snprintf(path, sizeof(path), "%s/layers", k->state);
        CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
    }
    CHECK(kit_run_step(k, b,
                       "cat /proc/net/dev; echo x > /proc/sys/kernel/hostname || echo no; "
                       "cat < /dev/tcp/127.0.0.1/1 || echo refused") == 0);
    CHECK(strstr(k->text, "lo:") && !strstr(k->text, "eth") && strstr(k->text, "no\n"));
    abx_build_close(b);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s63_steps_are_confined)
{
    kit_run(false, body_steps_are_confined);
}

/* A sandbox of an image: its own runtime layer on top, its own names in /etc. */
static void on_created(void *arg, const struct abx_sandbox_info *info, const struct abx_error *err)
{
    (void)info;
    kit_end(arg, err);
}

static int ask_guest(struct kit *k, const char *id, const char *request, const char *want)
{
    const struct timeval limit = {.tv_sec = 20};
    char path[256];
    snprintf(path, sizeof(path), "%s/sandboxes/%s/run", k->state, id);
    ABX_AUTO_FD dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD s = abx_fd_connect_unix(dir, "gateway.sock", SOCK_STREAM);
    CHECK(s >= 0 && setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    CHECK(abx_fd_write_all(s, request, strlen(request)) == 0);
    ssize_t n = abx_fd_read_all(s, k->text, KIT_TEXT - 1);
    CHECK(n > 0);
    k->text[n] = 0;
    CHECK(strncmp(k->text, want, strlen(want)) == 0);
    return 0;
}

/* Nobody has provisioned it: its envd is alive and does nothing for anybody (S41). */
static int make_and_ask(struct kit *k, const struct abx_sandbox_spec *spec)
{
    k->done = false;
    abx_runtime_create(k->rt, spec, on_created, k);
    CHECK(kit_wait(k) == 0);
    CHECK(ask_guest(k, spec->id,
                    "GET /health HTTP/1.1\r\nHost: x\r\nX-Sandbox-Port: 49983\r\n"
                    "Connection: close\r\n\r\n",
                    "HTTP/1.1 204 ") == 0);
    CHECK(ask_guest(k, spec->id,
                    "GET /envs HTTP/1.1\r\nHost: x\r\nX-Sandbox-Port: 49983\r\n"
                    "Connection: close\r\n\r\n",
                    "HTTP/1.1 503 ") == 0);
    return 0;
}

static int body_sandbox(struct kit *k)
{
    struct abx_sandbox_spec spec = {.memory_mb = 256, .cpu_count = 1, .pids_max = 128};
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    abx_image_to_spec(k->image, &spec);
    /* the first ones find nothing made ahead for their layers, the later ones their whole root */
    for (int i = 0; i < 6; i++) {
        if (i > 0) {
            k->done = false;
            abx_runtime_destroy(k->rt, spec.id, kit_on_done, k);
            CHECK(kit_wait(k) == 0);
        }
        snprintf(spec.id, sizeof(spec.id), "i0123456789abcdefgh%02d", i);
        CHECK(make_and_ask(k, &spec) == 0);
    }
    /* its layers are in use: a gc leaves them */
    k->done = false;
    abx_runtime_layers_gc(k->rt, NULL, 0, kit_on_done, k);
    CHECK(kit_wait(k) == 0 && kit_missing(k, k->image) == 0);
    k->done = false;
    abx_runtime_destroy(k->rt, spec.id, kit_on_done, k);
    CHECK(kit_wait(k) == 0 && kit_gc(k, NULL) == 0 && kit_missing(k, k->image) == 1);
    k->done = false; /* without its layer: an error that names it, and nothing is left */
    abx_runtime_create(k->rt, &spec, on_created, k);
    CHECK(kit_wait(k) < 0 && strstr(k->err.msg, "layer ") != NULL);
    CHECK(count_in(k, "sandboxes") == 0);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(sandboxes_run_on_an_image)
{
    kit_run(false, body_sandbox);
}

TEST(sandboxes_run_on_an_image_as_an_ordinary_user)
{
    kit_run(true, body_sandbox);
}

/* ---- ends ---- */
static int body_limits(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_build *b = NULL;
    struct abx_build_options o = {.step_time_ms = 3000, .events = {kit_on_output, kit_on_step, k}};
    CHECK(abx_build_open(&k->loop, k->rt, k->image, &o, &b, &k->err) == 0);
    CHECK(kit_run_step(k, b, "sleep 600 & sleep 600") < 0);
    CHECK(k->err.code == ABX_DEADLINE_EXCEEDED);
    abx_build_close(b);
    b = kit_build(k, k->image);
    CHECK(kit_run_step(k, b, "head -c 70000000 /dev/zero") < 0);
    CHECK(k->err.code == ABX_RESOURCE_EXHAUSTED && strstr(k->err.msg, "64 MiB of output"));
    /* a daemon does not outlive its step */
    int64_t start = abx_time_mono_ms();
    CHECK(kit_run_step(k, b, "sleep 600 & echo started") == 0);
    CHECK(strcmp(k->text, "started\n") == 0 && abx_time_mono_ms() - start < 60000);
    /* a build that is closed while a step runs leaves nothing */
    struct abx_step s = {.type = ABX_STEP_RUN, .command = "echo up; sleep 600"};
    k->done = false;
    k->len = 0;
    abx_build_step(b, &s);
    abx_build_close(b);
    CHECK(kit_stop(k) == 0);
    for (int64_t end = abx_time_mono_ms() + 20000; abx_time_mono_ms() < end; usleep(5000))
        if (count_in(k, "sandboxes") == 0)
            break;
    CHECK(count_in(k, "sandboxes") == 0);
    return 0;
}

TEST(build_steps_have_limits)
{
    kit_run(false, body_limits);
}

/* The runtime side is killed at each stage of a step; the next start and its gc leave nothing. */
static int body_killed(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) == 0);
    struct abx_image *base = abx_image_copy(k->image);
    CHECK(base != NULL);
    for (int stage = 0; stage < 4; stage++) {
        struct abx_build *b = kit_build(k, base);
        struct abx_step s = {.type = ABX_STEP_RUN, .command = "echo up; sleep 600"};
        int fd = kit_rootfs();
        k->done = false;
        k->len = 0;
        if (stage == 3)
            abx_image_load(&k->loop, k->rt, ABX_IMPORT_ROOTFS, fd, kit_on_imported, k);
        else
            abx_build_step(b, &s);
        for (int turns = stage == 1 ? 3 : 1; turns > 0; turns--)
            uv_run(&k->loop.uv, UV_RUN_ONCE);
        while (stage == 2 && k->len == 0)
            uv_run(&k->loop.uv, UV_RUN_ONCE);
        if (stage != 3)
            close(fd);
        CHECK(kill(k->pid, SIGKILL) == 0);
        while (!k->lost)
            abx_loop_run(&k->loop);
        abx_build_close(b);
        CHECK(kit_stop(k) != 0);
        CHECK(kit_start(k) == 0);
        CHECK(kit_gc(k, base) == 0);
        CHECK(count_in(k, "sandboxes") == 0);
        CHECK(count_in(k, "layers") == 2);
        CHECK(kit_missing(k, base) == 0);
    }
    struct abx_build *b = kit_build(k, base);
    CHECK(kit_run_step(k, b, "echo again") == 0 && strcmp(k->text, "again\n") == 0);
    abx_build_close(b);
    abx_image_free(base);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(build_killed_at_each_stage_leaves_nothing)
{
    kit_run(false, body_killed);
}

TEST(build_killed_leaves_nothing_as_an_ordinary_user)
{
    kit_run(true, body_killed);
}

/* Without a range of ids: the two lines (S58). */
static int body_no_range(struct kit *k)
{
    CHECK(kit_start(k) == 0);
    CHECK(strcmp(k->isolation.ids, "shared-uid") == 0);
    CHECK(kit_import(k, ABX_IMPORT_ROOTFS, kit_rootfs()) < 0);
    CHECK(k->err.code == ABX_FAILED_PRECONDITION && strstr(k->err.msg, "61235:100000:65536") &&
          strstr(k->err.msg, "/etc/subuid") && strstr(k->err.msg, "/etc/subgid"));
    struct abx_image *empty = abx_image_new();
    struct abx_build *b = kit_build(k, empty);
    CHECK(kit_run_step(k, b, "true") < 0 && k->err.code == ABX_FAILED_PRECONDITION);
    abx_build_close(b);
    abx_image_free(empty);
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(images_need_a_range_of_ids)
{
    struct kit k;
    if (geteuid() != 0)
        skip();
    kit_init(&k, 61235);
    int line = kit_as(&k, 61235, body_no_range);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, k.dir), 0);
    assert_int_equal(line, 0);
}
