/* cli/cmd_list.c: abx list: the sandboxes that are there. */
#include "cli/cli.h"

#include "lib/base/banned.h"

static void print_json(const struct abx_sandbox_list *l)
{
    ABX_AUTO_BUF b;
    struct abx_json_writer w;
    abx_buf_init(&b, 64 << 20);
    abx_json_writer_init(&w, &b);
    abx_json_begin_array(&w);
    for (size_t i = 0; i < l->count; i++) {
        const struct abx_sandbox_row *r = &l->rows[i];
        abx_json_begin_object(&w);
        abx_json_kv_c(&w, "sandboxID", r->id);
        abx_json_kv_c(&w, "template", r->template_name);
        abx_json_kv_c(&w, "state", r->state);
        abx_json_kv_c(&w, "startedAt", r->started_at);
        abx_json_kv_c(&w, "endAt", r->end_at);
        abx_json_kv_i64(&w, "cpuCount", r->cpu_count);
        abx_json_kv_i64(&w, "memoryMB", r->memory_mb);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    puts(b.ptr);
}

static int run(struct cli *cli)
{
    struct abx_sandbox_list l = {0};
    if (cli_client(cli) < 0 || abx_sandbox_list(cli->client, &l, &cli->err) < 0)
        return cli_fail(cli);
    if (cli->v.json)
        print_json(&l);
    else if (l.count > 0 && !cli->v.quiet)
        printf("%-22s %-12s %-8s %-24s %s\n", "ID", "TEMPLATE", "STATE", "STARTED", "ENDS");
    for (size_t i = 0; !cli->v.json && i < l.count; i++) {
        const struct abx_sandbox_row *r = &l.rows[i];
        if (cli->v.quiet)
            puts(r->id);
        else
            printf("%-22s %-12s %-8s %-24.24s %.24s\n", r->id, r->template_name, r->state,
                   r->started_at, r->end_at);
    }
    abx_sandbox_list_free(&l);
    return 0;
}

const struct cli_command cmd_list = {
    .name = "list", .args = "", .help = "List the sandboxes (--quiet: ids only)", .run = run};
