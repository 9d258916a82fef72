/* guest/server/hosts/native/host.c: the command host of a shared object. A program of its own,
 * linked dynamically (the server is static and can not dlopen); the server carries it and hands it
 * over as a memfd. The main thread reads the socket, each call has a thread. Spec: command-hosts.md
 * 3, 4; the API: include/abx/commands.h. */
#include "abx/commands.h"

#include "guest/server/hosts/text.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/json/scan.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    LINE_MAX_BYTES = 64 << 20,
    COMMANDS_MAX = 4096,
    CALLS_MAX = 128,
    READ_BYTES = 65536,
    EXTRA_MAX_BYTES = 1 << 20
};

struct command {
    char *name;
    abx_command_fn *run;
    void *arg;
};
struct abx_registry {
    struct command *items;
    size_t count;
    struct abx_buf list; /* the commands of the hello, without brackets */
    bool is_closed;
};
struct abx_call {
    struct abx_call *next;
    char id[24];
    const struct command *command;
    char *args, *context;
    struct abx_buf items; /* chunks that become a list */
    bool is_stream, has_head, has_chunks, is_over, is_paused, is_cancelled;
    pthread_cond_t wake;
};

/* The list of calls, their flags, and what is written to the socket. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct abx_call *calls;
static size_t call_count;
static struct abx_registry registry;
static int server_fd = -1;

/* ---- writing ---- */

/* Under the lock. A server that is gone ends this process. */
static void send_line(struct abx_buf *line)
{
    size_t at = 0;
    abx_buf_put_byte(line, '\n');
    if (abx_buf_failed(line)) {
        fputs("native command host: no memory for a message\n", stderr);
        _exit(1);
    }
    while (at < line->len) {
        ssize_t n = write(server_fd, line->ptr + at, line->len - at);
        if (n < 0 && errno != EINTR)
            _exit(1);
        at += n > 0 ? (size_t)n : 0;
    }
}

static void put_string(struct abx_buf *out, const char *text)
{
    struct abx_str s = abx_str(text ? text : "");
    bool is_text = abx_str_is_utf8(s);
    abx_buf_put_byte(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char b = (unsigned char)s.ptr[i];
        if (b == '"' || b == '\\')
            abx_buf_putf(out, "\\%c", b);
        else if (b < 0x20 || b == 0x7f)
            abx_buf_putf(out, "\\u%04x", b);
        else
            abx_buf_put_byte(out, b >= 0x80 && !is_text ? '?' : (char)b);
    }
    abx_buf_put_byte(out, '"');
}

static void put_key(struct abx_buf *out, const char *key, const char *text)
{
    abx_buf_putf(out, ",\"%s\":", key);
    put_string(out, text);
}

/* ---- registration ---- */

static void put_args(struct abx_buf *out, const struct abx_command_arg *a)
{
    abx_buf_put_c(out, ",\"args\":[");
    for (size_t i = 0; a && a[i].name; i++) {
        abx_buf_put_c(out, i ? ",{\"name\":" : "{\"name\":");
        put_string(out, a[i].name);
        put_key(out, "type", a[i].type ? a[i].type : "string");
        abx_buf_putf(out, ",\"required\":%s,\"default\":", a[i].is_required ? "true" : "false");
        if (a[i].default_value)
            put_string(out, a[i].default_value);
        else
            abx_buf_put_c(out, "null");
        put_key(out, "description", a[i].description);
        abx_buf_put_byte(out, '}');
    }
    abx_buf_put_byte(out, ']');
}

static void put_command(struct abx_buf *out, const struct abx_command *c)
{
    abx_buf_put_c(out, out->len ? ",{\"name\":" : "{\"name\":");
    put_string(out, c->name);
    put_key(out, "description", c->description);
    abx_buf_putf(out, ",\"hidden\":%s", c->is_hidden ? "true" : "false");
    if (c->timeout_s > 0 && c->timeout_s < 1e9)
        abx_buf_putf(out, ",\"timeout_s\":%.3f", c->timeout_s);
    abx_buf_put_c(out, ",\"scopes\":[");
    for (size_t i = 0; c->scopes && c->scopes[i]; i++) {
        abx_buf_put_c(out, i ? "," : "");
        put_string(out, c->scopes[i]);
    }
    abx_buf_put_byte(out, ']');
    put_args(out, c->args);
    abx_buf_put_byte(out, '}');
}

int abx_command_add(struct abx_registry *r, const struct abx_command *c)
{
    if (r->is_closed || c->name == NULL || c->run == NULL || r->count == COMMANDS_MAX)
        return -1;
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->items[i].name, c->name) == 0) {
            fprintf(stderr, "command %s is registered twice\n", c->name);
            return -1;
        }
    struct command *items = realloc(r->items, (r->count + 1) * sizeof(*items));
    char *name = strdup(c->name);
    if (items)
        r->items = items;
    if (items == NULL || name == NULL) {
        free(name);
        return -1;
    }
    r->items[r->count++] = (struct command){name, c->run, c->arg};
    put_command(&r->list, c);
    return abx_buf_failed(&r->list) ? -1 : 0;
}

static void say_hello(const char *file)
{
    struct abx_buf line;
    abx_buf_init(&line, LINE_MAX_BYTES);
    abx_buf_put_c(&line, "{\"op\":\"hello\",\"protocol\":1,\"runtime\":\"native\"");
    put_key(&line, "name", file);
    abx_buf_put_c(&line, ",\"commands\":[");
    abx_buf_put_str(&line, abx_buf_str(&registry.list));
    abx_buf_put_c(&line, "],\"routes\":[],\"groups\":{},\"builtins\":true,\"policy\":null,"
                         "\"serve\":null,\"notices\":[]}");
    pthread_mutex_lock(&lock);
    send_line(&line);
    pthread_mutex_unlock(&lock);
    abx_buf_done(&line);
}

/* ---- answers ---- */

/* The line that ends a call. Under the lock. */
static int finish(struct abx_call *c, struct abx_buf *line)
{
    if (c->is_over)
        return -1;
    c->is_over = true;
    send_line(line);
    return 0;
}

/* A value may stand on several lines; blanks between its tokens are all alike. */
static void put_value(struct abx_buf *out, const char *json)
{
    for (; *json; json++)
        abx_buf_put_byte(out, *json == '\n' || *json == '\r' ? ' ' : *json);
}

/* @extra: a JSON object, or NULL. */
static int fail_with_locked(struct abx_call *c, int status, const char *type, const char *message,
                            const char *extra)
{
    struct abx_buf line;
    abx_buf_init(&line, LINE_MAX_BYTES);
    abx_buf_putf(&line, "{\"op\":\"error\",\"id\":%s,\"status\":%d", c->id,
                 status >= 400 && status <= 599 ? status : 500);
    put_key(&line, "type", type ? type : "RuntimeError");
    put_key(&line, "message", message);
    if (extra) {
        abx_buf_put_c(&line, ",\"extra\":");
        put_value(&line, extra);
    }
    abx_buf_put_byte(&line, '}');
    int r = finish(c, &line);
    abx_buf_done(&line);
    return r;
}

static int fail_locked(struct abx_call *c, int status, const char *type, const char *message)
{
    return fail_with_locked(c, status, type, message, NULL);
}

int abx_fail(struct abx_call *c, int status, const char *type, const char *message)
{
    pthread_mutex_lock(&lock);
    int r = fail_locked(c, status, type, message);
    pthread_mutex_unlock(&lock);
    return r;
}

/* JSON of one line. NULL: it is none; the call is failed. Under the lock. */
static const char *checked(struct abx_call *c, const char *json)
{
    struct abx_str s = abx_str(json);
    if (s.len < (size_t)LINE_MAX_BYTES - 256 && abx_scan_is_json(s))
        return json;
    fail_locked(c, 500, "ValueError",
                s.len < (size_t)LINE_MAX_BYTES - 256 ? "the command answered what is no JSON"
                                                     : "the answer is larger than 64 MiB");
    return NULL;
}

static bool is_extra(const char *json)
{
    struct abx_str s = abx_str(json);
    return s.len <= EXTRA_MAX_BYTES && json[strspn(json, " \t\r\n")] == '{' && abx_scan_is_json(s);
}

int abx_fail_with(struct abx_call *c, int status, const char *type, const char *message,
                  const char *extra)
{
    int r = -1;
    pthread_mutex_lock(&lock);
    if (extra == NULL || is_extra(extra))
        r = fail_with_locked(c, status, type, message, extra);
    else
        fail_locked(c, 500, "ValueError",
                    "the extra of an error is no JSON object of at most 1 MiB");
    pthread_mutex_unlock(&lock);
    return r;
}

static void send_head(struct abx_call *c)
{
    struct abx_buf line;
    abx_buf_init(&line, 1024);
    abx_buf_putf(&line,
                 "{\"op\":\"head\",\"id\":%s,\"status\":200,\"headers\":{\"Content-Type\":"
                 "\"text/event-stream\"}}",
                 c->id);
    send_line(&line);
    abx_buf_done(&line);
    c->has_head = true;
}

static void send_event(struct abx_call *c, const char *json)
{
    struct abx_buf line, text;
    abx_buf_init(&line, LINE_MAX_BYTES);
    abx_buf_init(&text, LINE_MAX_BYTES);
    abx_buf_put_c(&text, "data: ");
    put_value(&text, json);
    abx_buf_put_c(&text, "\n\n");
    abx_buf_putf(&line, "{\"op\":\"chunk\",\"id\":%s", c->id);
    put_key(&line, "data", text.ptr);
    abx_buf_put_byte(&line, '}');
    if (abx_buf_failed(&line) || abx_buf_failed(&text))
        fail_locked(c, 500, "ValueError", "an item is larger than 64 MiB");
    else
        send_line(&line);
    abx_buf_done(&line);
    abx_buf_done(&text);
}

static int add_chunk(struct abx_call *c, const char *json)
{
    if (c->is_over || checked(c, json) == NULL)
        return -1;
    c->has_chunks = true;
    if (!c->is_stream) {
        abx_buf_put_c(&c->items, c->items.len ? "," : "");
        put_value(&c->items, json);
        return abx_buf_failed(&c->items)
                   ? (fail_locked(c, 500, "ValueError", "the answer is larger than 64 MiB"), -1)
                   : 0;
    }
    while (c->is_paused && !c->is_cancelled)
        pthread_cond_wait(&c->wake, &lock);
    if (c->is_cancelled)
        return -1;
    if (!c->has_head)
        send_head(c);
    send_event(c, json);
    return c->is_over ? -1 : 0;
}

int abx_chunk(struct abx_call *c, const char *json)
{
    pthread_mutex_lock(&lock);
    int r = add_chunk(c, json ? json : "null");
    pthread_mutex_unlock(&lock);
    return r;
}

static int reply_locked(struct abx_call *c, const char *json)
{
    struct abx_buf line;
    if (json && c->has_chunks && add_chunk(c, json) < 0)
        return -1;
    if (c->is_over || (json && checked(c, json) == NULL))
        return -1;
    abx_buf_init(&line, LINE_MAX_BYTES);
    if (c->has_head) {
        abx_buf_putf(&line, "{\"op\":\"end\",\"id\":%s}", c->id);
    } else {
        abx_buf_putf(&line, "{\"op\":\"result\",\"id\":%s,\"value\":", c->id);
        if (c->has_chunks)
            abx_buf_putf(&line, "[%s]", c->items.ptr);
        else
            put_value(&line, json ? json : "null");
        abx_buf_put_byte(&line, '}');
    }
    int r = finish(c, &line);
    abx_buf_done(&line);
    return r;
}

int abx_reply(struct abx_call *c, const char *json)
{
    pthread_mutex_lock(&lock);
    int r = reply_locked(c, json);
    pthread_mutex_unlock(&lock);
    return r;
}

const char *abx_call_context(const struct abx_call *c)
{
    return c->context;
}

int abx_call_is_cancelled(struct abx_call *c)
{
    pthread_mutex_lock(&lock);
    int r = c->is_cancelled;
    pthread_mutex_unlock(&lock);
    return r;
}

/* ---- calls ---- */

static void free_call(struct abx_call *c)
{
    abx_buf_done(&c->items);
    pthread_cond_destroy(&c->wake);
    free(c->args);
    free(c->context);
    free(c);
}

static void *run_call(void *arg)
{
    struct abx_call *c = arg, **at = &calls;
    c->command->run(c, c->args, c->command->arg);
    pthread_mutex_lock(&lock);
    if (!c->is_over)
        fail_locked(c, c->is_cancelled ? 504 : 500,
                    c->is_cancelled ? "TimeoutError" : "RuntimeError",
                    c->is_cancelled ? "cancelled" : "the command returned without an answer");
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    call_count--;
    pthread_mutex_unlock(&lock);
    free_call(c);
    return NULL;
}

struct message {
    struct abx_str op, id, command, args, ctx, stream, error;
};

static bool read_message(struct abx_str line, struct message *m)
{
    struct abx_str object, rest, key, value;
    struct abx_scan_object o;
    const struct {
        const char *name;
        struct abx_str *slot;
    } fields[] = {{"op", &m->op},      {"id", &m->id},   {"command", &m->command},
                  {"args", &m->args},  {"ctx", &m->ctx}, {"stream", &m->stream},
                  {"error", &m->error}};
    if (abx_scan_value(line, &object, &rest) < 0)
        return false;
    abx_scan_object_init(&o, object);
    while (abx_scan_object_next(&o, &key, &value))
        for (size_t i = 0; i < ABX_COUNTOF(fields); i++)
            if (abx_str_is(key, fields[i].name))
                *fields[i].slot = value;
    return true;
}

static const struct command *find_command(struct abx_str quoted)
{
    struct abx_buf name;
    const struct command *found = NULL;
    abx_buf_init(&name, 65536);
    if (abx_host_text(quoted, &name) == 0)
        for (size_t i = 0; found == NULL && i < registry.count; i++)
            if (abx_str_is(abx_buf_str(&name), registry.items[i].name))
                found = &registry.items[i];
    abx_buf_done(&name);
    return found;
}

static void refuse(struct abx_call *c, const char *why)
{
    pthread_mutex_lock(&lock);
    fail_locked(c, 503, "RuntimeError", why);
    pthread_mutex_unlock(&lock);
    free_call(c);
}

static void begin_call(const struct message *m)
{
    pthread_t thread;
    struct abx_call *c = calloc(1, sizeof(*c));
    if (c == NULL || abx_str_to_c(m->id, c->id, sizeof(c->id)) < 0) {
        fputs("native command host: no memory for a call\n", stderr);
        _exit(1);
    }
    pthread_cond_init(&c->wake, NULL);
    abx_buf_init(&c->items, LINE_MAX_BYTES - 256);
    c->command = find_command(m->command);
    c->args = abx_str_dup(m->args.len ? m->args : ABX_STR("{}"));
    c->context = abx_str_dup(m->ctx.len ? m->ctx : ABX_STR("{}"));
    c->is_stream = abx_str_is(m->stream, "true");
    pthread_mutex_lock(&lock);
    if (c->command == NULL || c->args == NULL || c->context == NULL || call_count >= CALLS_MAX) {
        pthread_mutex_unlock(&lock);
        refuse(c, "the call can not be taken");
        return;
    }
    c->next = calls;
    calls = c;
    call_count++;
    int failed = pthread_create(&thread, NULL, run_call, c);
    if (failed) {
        calls = c->next;
        call_count--;
    }
    pthread_mutex_unlock(&lock);
    if (failed)
        refuse(c, "no thread for the call");
    else
        pthread_detach(thread);
}

static void set_flag(const struct message *m)
{
    bool cancels = abx_str_is(m->op, "\"cancel\"");
    pthread_mutex_lock(&lock);
    for (struct abx_call *c = calls; c; c = c->next) {
        if (!abx_str_is(m->id, c->id))
            continue;
        c->is_cancelled |= cancels;
        c->is_paused = abx_str_is(m->op, "\"pause\"");
        pthread_cond_broadcast(&c->wake);
    }
    pthread_mutex_unlock(&lock);
}

static void reject(const struct message *m)
{
    struct abx_buf text;
    abx_buf_init(&text, 65536);
    if (abx_host_text(m->error, &text) == 0)
        fprintf(stderr, "the server refused this file: %s\n", text.len ? text.ptr : "");
    _exit(1);
}

static void take(struct abx_str line)
{
    struct message m = {0};
    if (!read_message(line, &m))
        return;
    if (abx_str_is(m.op, "\"call\""))
        begin_call(&m);
    else if (abx_str_is(m.op, "\"cancel\"") || abx_str_is(m.op, "\"pause\"") ||
             abx_str_is(m.op, "\"resume\""))
        set_flag(&m);
    else if (abx_str_is(m.op, "\"reject\""))
        reject(&m);
    else if (abx_str_is(m.op, "\"shutdown\""))
        exit(0); /* no routes, so nothing asks whose path it is */
}

/* Until the server is gone. */
static void serve(void)
{
    struct abx_buf in;
    size_t scanned = 0;
    abx_buf_init(&in, (size_t)LINE_MAX_BYTES + READ_BYTES);
    for (;;) {
        char *room = abx_buf_room(&in, READ_BYTES);
        ssize_t n = room ? read(server_fd, room, READ_BYTES) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        abx_buf_wrote(&in, (size_t)n);
        for (const char *end; (end = memchr(in.ptr + scanned, '\n', in.len - scanned)) != NULL;) {
            size_t len = (size_t)(end - in.ptr);
            take(abx_str_n(in.ptr, len));
            abx_buf_consume(&in, len + 1);
            scanned = 0;
        }
        scanned = in.len;
    }
    abx_buf_done(&in);
}

/* ---- start ---- */

static int take_socket(void)
{
    const char *text = getenv("ABX_HOST_FD");
    if (text == NULL || text[0] < '0' || text[0] > '9' || text[1] != '\0') {
        fputs("abx-native-host: started by agent-sandbox-server only\n", stderr);
        return -1;
    }
    server_fd = text[0] - '0';
    unsetenv("ABX_HOST_FD");
    return fcntl(server_fd, F_SETFD, FD_CLOEXEC);
}

static int load(const char *file)
{
    union {
        void *object;
        int (*function)(struct abx_registry *);
    } entry;
    char *path = realpath(file, NULL); /* a bare name would be searched for */
    void *object = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (object == NULL) {
        fprintf(stderr, "cannot load commands file '%s': %s\n", file,
                path ? dlerror() : strerror(errno));
        free(path);
        return -1;
    }
    free(path);
    entry.object = dlsym(object, "abx_commands_register");
    if (entry.object == NULL) {
        fprintf(stderr, "cannot load commands file '%s': it has no abx_commands_register()\n",
                file);
        return -1;
    }
    if (entry.function(&registry) != 0) {
        fprintf(stderr, "commands file '%s': abx_commands_register() failed\n", file);
        return -1;
    }
    registry.is_closed = true;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2 || take_socket() < 0)
        return 1;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, 0) < 0)
        return 1;
    close(null_fd);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is the server's business */
    abx_buf_init(&registry.list, LINE_MAX_BYTES / 2);
    if (load(argv[1]) < 0)
        return 1;
    say_hello(argv[1]);
    serve();
    return 0;
}
