/* cli/cmd_image.c: abx image build, list: images that templates stand on. */
#include "cli/cli.h"
#include "cli/ids.h"
#include "host/image/base.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ENV_MAX = 1024, TAIL_MAX = 4096 };
static const char search_dirs[] = ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";

/* ---- mmdebstrap ---- */

struct run {
    struct abx_loop *loop;
    struct abx_proc_status status;
    bool is_over;
};

static void on_exit_status(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct run *r = arg;
    (void)p;
    r->status = *st;
    r->is_over = true;
    abx_loop_stop(r->loop);
}

/* The environment of this process and what the recipe adds; the array is heap. */
static char **make_environment(void)
{
    char **env = calloc(ENV_MAX + 8, sizeof(*env));
    size_t n = 0;
    for (char **e = environ; env && e && *e && n < ENV_MAX; e++)
        env[n++] = *e;
    for (const char *const *e = abx_base_environment; env && *e && n < ENV_MAX + 7; e++)
        env[n++] = (char *)(uintptr_t)*e;
    return env;
}

/* Runs @command with its output in @out_fd; what it says goes to @log_fd. */
static int run_command(const struct abx_base_command *command, int out_fd, int log_fd,
                       struct abx_error *err)
{
    struct abx_loop loop;
    struct run r = {.loop = &loop};
    struct abx_proc *proc = NULL;
    char path[PATH_MAX];
    const char *own = getenv("PATH");
    snprintf(path, sizeof(path), "%s%s", own ? own : "", search_dirs);
    ABX_AUTO_FREE char **env = make_environment();
    struct abx_proc_spec spec = {.path = command->argv[0],
                                 .search_path = path,
                                 .argv = command->argv,
                                 .envp = env,
                                 .stdio = {-1, out_fd, log_fd},
                                 .oom_score_adj = INT_MIN,
                                 .die_with_parent = true};
    if (env == NULL || abx_loop_init(&loop, err) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    int result = abx_proc_spawn(&loop, &spec, on_exit_status, &r, &proc, err);
    if (result < 0 && err->code == ABX_NOT_FOUND)
        abx_err_set(err, ABX_NOT_FOUND, "%s is not installed: apt install mmdebstrap",
                    command->argv[0]);
    while (result == 0 && !r.is_over)
        abx_loop_run(&loop);
    abx_proc_close(proc);
    abx_loop_done(&loop);
    if (result == 0 && (!r.status.exited || r.status.exit_code != 0)) {
        char text[64];
        abx_proc_status_text(&r.status, text);
        result = abx_err_set(err, ABX_UNKNOWN, "%s: %s", command->argv[0], text);
    }
    return result;
}

/* The end of what mmdebstrap said. */
static void print_tail(int log_fd)
{
    char text[TAIL_MAX];
    off_t size = lseek(log_fd, 0, SEEK_END);
    off_t from = size > TAIL_MAX ? size - TAIL_MAX : 0;
    ssize_t n = size > 0 ? pread(log_fd, text, sizeof(text), from) : 0;
    if (n > 0)
        fwrite(text, 1, (size_t)n, stderr);
}

/* A file without a name, in the state folder: the image is some hundred megabytes. */
static int open_output(const struct cli *cli, struct abx_error *err)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    int fd = open(state ? state : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT)
        fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? abx_err_sys(err, -errno, "make a temporary file in %s", state ? state : "")
                  : fd;
}

static int make_root(struct cli *cli, const char *name, int out_fd)
{
    struct abx_base_command command;
    struct abx_error err;
    ABX_AUTO_FD log = memfd_create("abx-image-log", MFD_CLOEXEC);
    if (log < 0 || abx_base_command(name, geteuid() == 0, "-", &command, &err) < 0)
        return log < 0 ? 1 : cli_fail_base(&err);
    int result = run_command(&command, out_fd, cli->v.verbose ? STDERR_FILENO : log, &err);
    abx_base_command_done(&command);
    if (result == 0)
        return 0;
    print_tail(log);
    return cli_fail_base(&err);
}

/* ---- image build ---- */

/* The image's row at the engine, a new reference; NULL: it has none. */
static json_t *find_image(struct cli *cli, const char *name)
{
    char path[128];
    int status;
    ABX_AUTO_FREE char *body = NULL;
    snprintf(path, sizeof(path), "/abx/v1/images/%.64s", name);
    if (abx_client_request(cli->client, "GET", path, NULL, &status, &body, &cli->err) < 0 ||
        status != 200)
        return NULL;
    return json_loads(body, 0, NULL);
}

static bool is_made(struct cli *cli, const char *name, const char *recipe)
{
    json_t *row = find_image(cli, name);
    const char *have = json_string_value(json_object_get(row, "recipe"));
    bool same = have != NULL && strcmp(have, recipe) == 0;
    json_decref(row);
    return same;
}

static void print_done(const struct cli *cli, const char *name, const char *recipe, bool cached)
{
    if (cli->v.json)
        printf("{\"name\":\"%s\",\"recipe\":\"%s\",\"cached\":%s}\n", name, recipe,
               cached ? "true" : "false");
    else
        printf("%s %.12s%s\n", name, recipe, cached ? " (cached)" : "");
}

/* Without a range of ids neither mmdebstrap nor the engine can make one: an exit code, 0 with it.
 */
static int need_range(void)
{
    char name[CLI_USER_NAME];
    if (geteuid() == 0 || (cli_ids_have_range(name) && access("/usr/bin/newuidmap", X_OK) == 0))
        return 0;
    fprintf(stderr,
            "abx: E8004 an image needs a range of ids, and %s has none\n"
            "     next: as root, apt install uidmap, and add the line \"%s:100000:65536\" to "
            "/etc/subuid and the same line to /etc/subgid\n",
            name, name);
    return 1;
}

static int run_build(struct cli *cli)
{
    const char *name = cli->args[0];
    char recipe[65], base[128];
    struct abx_error err;
    if (abx_base_recipe(name, recipe) < 0) {
        fprintf(stderr,
                "abx: E8004 no recipe makes an image '%s'; there are: base, code-interpreter-v1\n",
                name);
        return 4;
    }
    abx_base_describe(name, ABX_BASE_IMAGE_TAG, base);
    if (!cli->v.quiet)
        fprintf(stderr, "%s\n", base);
    if (cli_client(cli) < 0)
        return cli_fail(cli);
    if (!cli->v.refresh && is_made(cli, name, recipe)) {
        print_done(cli, name, recipe, true);
        return 0;
    }
    int lacks = need_range();
    if (lacks != 0)
        return lacks;
    if (!cli->v.quiet)
        fputs("abx: making it of Debian packages; this takes half a minute\n", stderr);
    ABX_AUTO_FD out = open_output(cli, &err);
    if (out < 0)
        return cli_fail_base(&err);
    int code = make_root(cli, name, out);
    ABX_AUTO_FREE char *answer = NULL;
    struct abx_image_source source = {.fd = out, .recipe = recipe};
    if (code == 0 && (lseek(out, 0, SEEK_SET) < 0 ||
                      abx_image_import(cli->client, name, &source, &answer, &cli->err) < 0))
        code = cli_fail(cli);
    if (code == 0)
        print_done(cli, name, recipe, false);
    return code;
}

static const struct cli_option build_options[] = {
    {"--refresh", 0, CLI_FLAG, CLI_VALUE(refresh), 0, NULL, "make it again with today's packages"},
    {0}};

const struct cli_command cmd_image_build = {
    .name = "image build",
    .args = "NAME",
    .help = "Make the image 'base' or 'code-interpreter-v1' of Debian packages, where the engine "
            "lacks it",
    .options = build_options,
    .min_args = 1,
    .max_args = 1,
    .run = run_build,
};

/* ---- image list ---- */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static int run_list(struct cli *cli)
{
    ABX_AUTO_FREE char *body = NULL;
    int status;
    size_t i;
    json_t *row;
    if (cli_client(cli) < 0 || abx_client_request(cli->client, "GET", "/abx/v1/images", NULL,
                                                  &status, &body, &cli->err) < 0)
        return cli_fail(cli);
    json_t *doc = status == 200 ? json_loads(body, 0, NULL) : NULL;
    if (doc == NULL) {
        fprintf(stderr, "abx: this platform lists no images (HTTP status %d)\n", status);
        return 1;
    }
    if (cli->v.json)
        puts(body);
    json_array_foreach(doc, i, row)
    {
        if (cli->v.quiet)
            puts(text_of(row, "name"));
        else if (!cli->v.json)
            printf("%-16s %.12s %-24s %s\n", text_of(row, "name"), text_of(row, "recipe"),
                   text_of(row, "createdAt"), text_of(row, "base"));
    }
    json_decref(doc);
    return 0;
}

const struct cli_command cmd_image_list = {.name = "image list",
                                           .args = "",
                                           .help = "List the images of the local engine",
                                           .run = run_list};
