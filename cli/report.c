/* cli/report.c: how errors are shown, and the client that commands share. */
#include "cli/cli.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <jansson.h>

#include "lib/base/banned.h"

static void report_json(const struct abx_client_error *e)
{
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 8192);
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("error"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "id", e->id);
    abx_json_kv_c(&w, "hop", e->hop);
    abx_json_kv_i64(&w, "status", e->http_status);
    abx_json_kv_c(&w, "message", e->message);
    abx_json_kv_c(&w, "next", e->next);
    abx_json_end_object(&w);
    abx_json_end_object(&w);
    fprintf(stderr, "%s\n", b.ptr ? b.ptr : "{}");
}

/* C0 and DEL; C1 is two bytes in UTF-8. */
static bool is_control(const unsigned char *at)
{
    return (*at < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7f ||
           (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0);
}

char *cli_plain(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        if (!is_control(at))
            continue;
        if (*at == 0xc2)
            *at++ = '?';
        *at = '?';
    }
    return text;
}

int cli_fail(struct cli *cli)
{
    struct abx_client_error *e = &cli->err;
    if (cli->v.json)
        report_json(e);
    else {
        fprintf(stderr, "abx: %s %s\n", e->id, cli_plain(e->message));
        if (e->next[0])
            fprintf(stderr, "     next: %s\n", cli_plain(e->next));
    }
    return abx_client_error_exit(e);
}

int cli_usage(const struct cli_command *cmd, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("abx: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n     next: abx %s%s--help\n", cmd ? cmd->name : "", cmd ? " " : "");
    return 2;
}

int cli_fail_base(const struct abx_error *err)
{
    fprintf(stderr, "abx: %s\n", err->msg);
    return abx_code_exit(err->code);
}

/* Whether the caller named a platform; then no local engine is started for it. */
static bool is_remote(const struct cli *cli)
{
    static const char *const names[] = {"ABX_SANDBOX_BASE_URL", "E2B_API_URL"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return true;
    }
    return cli->v.url != NULL;
}

int cli_engine_ensure(struct cli *cli)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    struct abx_error base;
    if (cli->v.url != NULL || (state && cli_engine_pid(state) != 0))
        return 0;
    if (!cli->v.quiet)
        fprintf(stderr, "abx: starting the local engine, state in %s\n", state ? state : "");
    if (cli_engine_start(cli, &base) == 0)
        return 0;
    cli->err = (struct abx_client_error){.id = "E5001", .hop = "engine"};
    snprintf(cli->err.message, sizeof(cli->err.message), "%s", base.msg);
    snprintf(cli->err.next, sizeof(cli->err.next), "abx engine doctor");
    return -1;
}

int cli_client(struct cli *cli)
{
    if (cli->client != NULL)
        return 0;
    if (!is_remote(cli) && cli_engine_ensure(cli) < 0)
        return -1;
    struct abx_client_options o = {.url = cli->v.url, .api_key = cli->v.api_key};
    return abx_client_open(&o, &cli->client, &cli->err);
}

/* "network.rules: x" per line: the answer's keys are the API's, whatever it grows. */
static void print_value(const char *prefix, const char *key, json_t *value)
{
    char name[256];
    snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] ? "." : "", key);
    const char *sub;
    json_t *item;
    if (json_is_object(value)) {
        json_object_foreach(value, sub, item)
        {
            print_value(name, sub, item);
        }
        return;
    }
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 1 << 20);
    abx_json_writer_init(&w, &b);
    abx_json_value(&w, value);
    if (json_is_string(value))
        printf("%-24s %s\n", name, json_string_value(value));
    else
        printf("%-24s %s\n", name, b.ptr);
}

int cli_print_json(const struct cli *cli, const char *json)
{
    struct abx_json_limits limits = {.max_bytes = 16 << 20, .max_depth = 64};
    struct abx_error base;
    json_t *doc, *value;
    const char *key;
    if (cli->v.json) {
        puts(json);
        return 0;
    }
    if (abx_json_parse(abx_str(json), &limits, &doc, &base) < 0)
        return cli_fail_base(&base);
    json_object_foreach(doc, key, value)
    {
        print_value("", key, value);
    }
    abx_json_free(doc);
    return 0;
}
