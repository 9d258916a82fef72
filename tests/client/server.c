/* tests/client/server.c: agent-sandbox-server through libabx, in sandboxes of a real engine: start,
 * server, server_at, with what they give and what they refuse. Only the public header. */
#include "abx/abx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct abx_client *client;
static struct abx_sandbox *sandbox;
static struct abx_client_error err;
static char why[900];

/* A check gives NULL when all is well, else what is not. */
#define WANT(expr)                                                                                 \
    do {                                                                                           \
        if (!(expr)) {                                                                             \
            snprintf(why, sizeof(why), "line %d: %s (last error: %s %d %s: %s)", __LINE__, #expr,  \
                     err.id, err.http_status, err.hop, err.message);                               \
            return why;                                                                            \
        }                                                                                          \
    } while (0)

static bool is_error(const char *id, const char *text)
{
    return strcmp(err.id, id) == 0 && strstr(err.message, text) != NULL;
}

static int start(const struct abx_server_options *o, struct abx_server **ret)
{
    memset(&err, 0, sizeof(err));
    *ret = NULL;
    return abx_sandbox_start_server(sandbox, o, ret, &err);
}

/* Status of a request, -1 when there was no answer. */
static int status_of(struct abx_server *s, const char *method, const char *path, const char *json)
{
    char *body = NULL;
    int status = -1;
    if (abx_server_request(s, method, path, json, &status, &body, &err) < 0)
        return -1;
    free(body);
    return status;
}

static const char *starts_and_outlives_its_handle(void)
{
    struct abx_server_options o = {0};
    struct abx_server *s;
    char *json = NULL;
    WANT(start(&o, &s) == 0);
    WANT(abx_server_health(s, &err) == 0);
    WANT(abx_server_get(s, "/capabilities", &json, &err) == 0);
    WANT(strstr(json, "\"api_version\"") != NULL);
    free(json);
    abx_server_close(s);
    WANT(abx_sandbox_server(sandbox, &s, &err) == 0);
    WANT(abx_server_health(s, &err) == 0);
    abx_server_close(s);
    WANT(abx_sandbox_server_at(sandbox, 0, NULL, &s, &err) == 0); /* 0: 9000 */
    WANT(abx_server_health(s, &err) == 0);
    abx_server_close(s);
    return NULL;
}

static const char *a_taken_port_is_an_error_unless_adopted(void)
{
    struct abx_server_options o = {.port = 9000};
    struct abx_server *s;
    WANT(start(&o, &s) < 0 && s == NULL);
    WANT(is_error("E5001", "a server answers on port 9000 already") && err.next[0] != '\0');
    o.adopt = true;
    WANT(start(&o, &s) == 0 && abx_server_health(s, &err) == 0);
    abx_server_close(s);
    return NULL;
}

static const char *a_token_is_asked_for(void)
{
    struct abx_server_options o = {.port = 9100, .token = "a-token-of-thirty-two-bytes-0123"};
    struct abx_server *s, *other;
    char *json = NULL;
    WANT(start(&o, &s) == 0);
    WANT(abx_server_get(s, "/system/info", &json, &err) == 0);
    free(json);
    abx_server_close(s);
    WANT(abx_sandbox_server_at(sandbox, 9100, NULL, &other, &err) == 0);
    WANT(abx_server_health(other, &err) == 0); /* always open */
    WANT(abx_server_get(other, "/system/info", &json, &err) < 0 && is_error("E9001", ""));
    WANT(err.http_status == 401 && strcmp(err.hop, "server") == 0);
    abx_server_close(other);
    WANT(abx_sandbox_server_at(sandbox, 9100, "wrong", &other, &err) == 0);
    WANT(abx_server_get(other, "/system/info", &json, &err) < 0 && is_error("E9001", ""));
    WANT(abx_client_error_exit(&err) == 3);
    abx_server_close(other);
    return NULL;
}

static const char *a_preset_switches_off(void)
{
    struct abx_server_options o = {.port = 9200, .preset = "read-only"};
    struct abx_server *s;
    char *json = NULL;
    WANT(start(&o, &s) == 0);
    WANT(abx_server_get(s, "/files/list?path=/home/user", &json, &err) == 0);
    free(json);
    WANT(status_of(s, "POST", "/shell", "{\"command\":\"true\"}") == 404);
    WANT(abx_server_get(s, "/browser/content", &json, &err) < 0 && is_error("E9003", ""));
    abx_server_close(s);
    return NULL;
}

static const char *a_policy_holds(void)
{
    struct abx_server_options o = {.port = 9300,
                                   .policy_json = "{\"version\":1,\"groups\":{\"process\":false}}"};
    struct abx_server *s;
    WANT(start(&o, &s) == 0);
    WANT(status_of(s, "POST", "/shell", "{\"command\":\"true\"}") == 404);
    WANT(status_of(s, "GET", "/files/stat?path=/home/user", NULL) == 200);
    abx_server_close(s);
    return NULL;
}

/* None of these reaches the sandbox: nothing listens afterwards. */
static const char *bad_options_are_refused_before_anything_is_sent(void)
{
    static const struct {
        const char *policy, *preset, *text;
    } rows[] = {{"{}", "locked", "a policy or a preset, not both"},
                {"{", NULL, "policy: "},
                {"[]", NULL, "policy: "},
                {"{\"version\":1,\"groups\":{\"core\":false}}", NULL, "core"},
                {"{\"version\":1,\"nothing\":1}", NULL, "nothing"}};
    struct abx_server *s;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct abx_server_options o = {
            .port = 9400, .policy_json = rows[i].policy, .preset = rows[i].preset};
        WANT(start(&o, &s) < 0 && is_error("E8002", rows[i].text));
        WANT(strcmp(err.hop, "client") == 0 && abx_client_error_exit(&err) == 2);
    }
    WANT(abx_sandbox_server_at(sandbox, 9400, NULL, &s, &err) == 0);
    WANT(abx_server_health(s, &err) < 0);
    abx_server_close(s);
    return NULL;
}

static const char *a_server_that_ends_says_why(void)
{
    static const char *const none[] = {"no-such-program", NULL};
    static const char *const five[] = {"sh", "-c", "echo told on stderr >&2; exit 5", NULL};
    struct abx_server_options o = {.port = 9500, .preset = "no-such-preset"};
    struct abx_server *s;
    WANT(start(&o, &s) < 0 && is_error("E5001", "exit status 1"));
    WANT(strstr(err.message, "no-such-preset") != NULL);
    o = (struct abx_server_options){.port = 9500, .commands = "/home/user/none.py"};
    WANT(start(&o, &s) < 0 && is_error("E5001", "none.py"));
    o = (struct abx_server_options){.port = 9500, .command = none};
    WANT(start(&o, &s) < 0 && is_error("E5001", "127"));
    o = (struct abx_server_options){.port = 9500, .command = five};
    WANT(start(&o, &s) < 0 && is_error("E5001", "exit status 5"));
    WANT(strstr(err.message, "told on stderr") != NULL);
    return NULL;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const char *the_wait_has_an_end(void)
{
    static const char *const sleeper[] = {"sleep", "60", NULL};
    struct abx_server_options o = {.port = 9600, .command = sleeper, .timeout_ms = 1500};
    struct abx_server *s;
    int64_t began = now_ms();
    WANT(start(&o, &s) < 0 && is_error("E5001", "port 9600 is not healthy in time"));
    WANT(now_ms() - began >= 1500 && now_ms() - began < 30000);
    o.no_wait = true; /* the start event is enough */
    WANT(start(&o, &s) == 0);
    WANT(abx_server_health(s, &err) < 0);
    abx_server_close(s);
    return NULL;
}

static const char *environment_reaches_the_server(void)
{
    static const struct abx_pair env[] = {{"ABX_TEST_WORD", "f\xc3\xbcnf"}, {NULL, NULL}};
    struct abx_server_options o = {.port = 9700, .env = env};
    struct abx_server *s;
    char *json = NULL;
    WANT(start(&o, &s) == 0);
    WANT(abx_server_get(s, "/env?filter=ABX_TEST_WORD", &json, &err) == 0);
    WANT(strstr(json, "f\xc3\xbcnf") != NULL || strstr(json, "f\\u00fcnf") != NULL);
    free(json);
    abx_server_close(s);
    return NULL;
}

static const char *commands_run_by_name(void)
{
    static const char file[] = "from agent_sandbox.server import command, start\n"
                               "@command(\"greet\")\n"
                               "def greet(name: str = \"World\"):\n"
                               "    return f\"Hello, {name}!\"\n"
                               "@command(\"fail\")\n"
                               "def fail():\n"
                               "    raise ValueError(\"on purpose\")\n"
                               "if __name__ == \"__main__\":\n"
                               "    start()\n";
    struct abx_server_options o = {.port = 9800, .commands = "/home/user/commands.py"};
    struct abx_server *s;
    char *json = NULL;
    int fd = memfd_create("commands", MFD_CLOEXEC);
    WANT(write(fd, file, sizeof(file) - 1) == (ssize_t)sizeof(file) - 1);
    WANT(lseek(fd, 0, SEEK_SET) == 0);
    WANT(abx_sandbox_upload(sandbox, "/home/user/commands.py", fd, &err) == 0);
    close(fd);
    WANT(start(&o, &s) == 0);
    WANT(abx_server_run(s, "greet", "{\"name\":\"libabx\"}", &json, &err) == 0);
    WANT(strcmp(json, "\"Hello, libabx!\"") == 0);
    free(json);
    WANT(abx_server_run(s, "greet", NULL, &json, &err) == 0);
    WANT(strcmp(json, "\"Hello, World!\"") == 0);
    free(json);
    WANT(abx_server_run(s, "none", NULL, &json, &err) < 0 && is_error("E3005", "none"));
    WANT(abx_server_run(s, "fail", NULL, &json, &err) < 0 && strstr(err.message, "on purpose"));
    WANT(abx_server_run(s, "a/b", NULL, &json, &err) < 0 && is_error("E8002", "no command name"));
    WANT(abx_server_run(s, "greet", "{\"nobody\":1}", &json, &err) < 0);
    WANT(err.http_status == 400 && strstr(err.message, "nobody") != NULL);
    abx_server_close(s);
    return NULL;
}

/* What answers there is no server of ours: neither a success nor a crash. */
static const char *strangers_are_not_taken_for_servers(void)
{
    static const char *const web[] = {"python3", "-m", "http.server", "9900", NULL};
    struct abx_server_options o = {.port = 9900, .command = web, .no_wait = true};
    struct abx_server *s;
    char *json = NULL;
    WANT(start(&o, &s) == 0);
    for (int64_t end = now_ms() + 20000; status_of(s, "GET", "/", NULL) != 200;) {
        WANT(now_ms() < end);
        usleep(50000);
    }
    WANT(abx_server_health(s, &err) < 0);
    WANT(abx_server_get(s, "/", &json, &err) < 0 && is_error("E9000", "no JSON object"));
    abx_server_close(s);
    WANT(abx_sandbox_server_at(sandbox, 9999, NULL, &s, &err) == 0); /* makes no request */
    WANT(abx_server_health(s, &err) < 0 && err.http_status == 502);
    abx_server_close(s);
    return NULL;
}

static const char *a_sandbox_that_is_gone_is_an_error(void)
{
    struct abx_create_options o = {.template_name = "host"};
    struct abx_server_options so = {.timeout_ms = 3000};
    struct abx_sandbox *gone = NULL;
    struct abx_server *s = NULL;
    WANT(abx_sandbox_create(client, &o, &gone, &err) == 0);
    WANT(abx_sandbox_kill(client, abx_sandbox_id(gone), &err) == 0);
    WANT(abx_sandbox_start_server(gone, &so, &s, &err) < 0 && s == NULL);
    abx_sandbox_free(gone);
    return NULL;
}

#define CHECK(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    const char *(*run)(void);
} checks[] = {CHECK(starts_and_outlives_its_handle),
              CHECK(a_taken_port_is_an_error_unless_adopted),
              CHECK(a_token_is_asked_for),
              CHECK(a_preset_switches_off),
              CHECK(a_policy_holds),
              CHECK(bad_options_are_refused_before_anything_is_sent),
              CHECK(a_server_that_ends_says_why),
              CHECK(the_wait_has_an_end),
              CHECK(environment_reaches_the_server),
              CHECK(commands_run_by_name),
              CHECK(strangers_are_not_taken_for_servers),
              CHECK(a_sandbox_that_is_gone_is_an_error)};

int main(void)
{
    struct abx_create_options o = {.template_name = "host", .timeout_s = 300};
    unsigned passed = 0, failed = 0;
    if (abx_client_open(&(struct abx_client_options){0}, &client, &err) < 0 ||
        abx_sandbox_create(client, &o, &sandbox, &err) < 0) {
        printf("not ok engine: %s %s\n", err.id, err.message);
        return 1;
    }
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        const char *fault = checks[i].run();
        printf("%s %s%s%s\n", fault ? "not ok" : "ok", checks[i].name, fault ? ": " : "",
               fault ? fault : "");
        fflush(stdout);
        fault ? failed++ : passed++;
    }
    if (abx_sandbox_kill(client, abx_sandbox_id(sandbox), &err) < 0)
        printf("# the sandbox stays: %s\n", err.message);
    abx_sandbox_free(sandbox);
    abx_client_close(client);
    printf("%u passed, %u failed\n", passed, failed);
    return failed ? 1 : 0;
}
