/* guest/envd/rpc_process.c: process.Process: one row and one handler per RPC (envd.md 5). */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/connect/process.pb-c.h"

#include "lib/base/banned.h"

static struct abx__envd *envd_of(struct abx_rpc *rpc)
{
    return abx__envd_of(abx_rpc_req(rpc));
}

/* The selected process, or NULL after the call has failed. */
static struct abx_process *select_process(struct abx_rpc *rpc,
                                          const Process__ProcessSelector *selector, bool live_only)
{
    struct abx_procs *table = envd_of(rpc)->procs;
    struct abx_process *p = NULL;
    bool by_pid = selector && selector->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_PID;
    bool by_tag = selector && selector->selector_case == PROCESS__PROCESS_SELECTOR__SELECTOR_TAG;
    if (by_pid)
        p = abx_procs_by_pid(table, selector->pid);
    else if (by_tag)
        p = abx_procs_by_tag(table, abx_str(selector->tag));
    if (p && !(live_only && abx_process_has_ended(p)))
        return p;
    if (by_pid)
        abx_rpc_failf(rpc, ABX_NOT_FOUND, "process with pid %u not found", selector->pid);
    else if (by_tag)
        abx_rpc_failf(rpc, ABX_NOT_FOUND, "process with tag %.128s not found", selector->tag);
    else
        abx_rpc_failf(rpc, ABX_UNIMPLEMENTED, "the process selector has neither pid nor tag");
    return NULL;
}

/* ---- List ---- */

static char *text_of(struct abx_rpc *rpc, struct abx_str s)
{
    return s.ptr ? abx_arena_c(abx_rpc_arena(rpc), s) : NULL;
}

static Process__ProcessConfig *list_config(struct abx_rpc *rpc, const struct abx_process_spec *spec)
{
    struct abx_arena *a = abx_rpc_arena(rpc);
    Process__ProcessConfig *c = abx_arena_alloc(a, sizeof(*c));
    if (c == NULL)
        return NULL;
    process__process_config__init(c);
    c->cmd = text_of(rpc, spec->cmd);
    c->cwd = text_of(rpc, spec->cwd_given);
    c->args = abx_arena_array(a, spec->arg_count + 1, sizeof(*c->args));
    c->envs = abx_arena_array(a, spec->env_count + 1, sizeof(*c->envs));
    bool ok = c->cmd && c->args && c->envs;
    for (size_t i = 0; ok && i < spec->arg_count; i++)
        ok = (c->args[c->n_args++] = text_of(rpc, spec->args[i])) != NULL;
    for (size_t i = 0; ok && i < spec->env_count; i++) {
        Process__EnvsEntry *entry = abx_arena_alloc(a, sizeof(*entry));
        ok = entry != NULL;
        if (!ok)
            break;
        process__envs_entry__init(entry);
        entry->key = text_of(rpc, spec->envs[i].name);
        entry->value = text_of(rpc, spec->envs[i].value);
        c->envs[c->n_envs++] = entry;
    }
    return ok ? c : NULL;
}

static Process__ProcessInfo *list_info(struct abx_rpc *rpc, const struct abx_process *p)
{
    const struct abx_process_spec *spec = abx_process_config(p);
    Process__ProcessInfo *info = abx_arena_alloc(abx_rpc_arena(rpc), sizeof(*info));
    if (info == NULL)
        return NULL;
    process__process_info__init(info);
    info->config = list_config(rpc, spec);
    info->has_pid = true;
    info->pid = abx_process_pid(p);
    info->tag = text_of(rpc, spec->tag);
    return info->config ? info : NULL;
}

static void list(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    (void)in;
    struct abx_procs *table = envd_of(rpc)->procs;
    Process__ListResponse out = PROCESS__LIST_RESPONSE__INIT;
    out.processes = abx_arena_array(abx_rpc_arena(rpc), abx_procs_live_count(table) + 1,
                                    sizeof(*out.processes));
    bool ok = out.processes != NULL;
    for (struct abx_process *p = NULL; ok && (p = abx_procs_next_live(table, p)) != NULL;)
        ok = (out.processes[out.n_processes++] = list_info(rpc, p)) != NULL;
    if (ok)
        abx_rpc_send(rpc, &out.base);
    else
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "the list is too large");
}

/* ---- Start ---- */

static int fill_command(struct abx_rpc *rpc, const Process__ProcessConfig *c,
                        struct abx_process_spec *spec)
{
    struct abx_arena *a = abx_rpc_arena(rpc);
    struct abx_str *args = abx_arena_array(a, c->n_args + 1, sizeof(*args));
    struct abx_env_pair *envs = abx_arena_array(a, c->n_envs + 1, sizeof(*envs));
    if (args == NULL || envs == NULL) {
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "the request is too large");
        return -1;
    }
    for (size_t i = 0; i < c->n_args; i++)
        args[i] = abx_str(c->args[i]);
    for (size_t i = 0; i < c->n_envs; i++) {
        const char *name = c->envs[i]->key, *value = c->envs[i]->value;
        if (name == NULL || name[0] == '\0' || strchr(name, '=')) {
            abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT,
                          "process.envs: a variable's name is empty or has a '='");
            return -1;
        }
        envs[i] = (struct abx_env_pair){abx_str(name), abx_str(value ? value : "")};
    }
    spec->cmd = abx_str(c->cmd ? c->cmd : "");
    spec->args = args;
    spec->arg_count = c->n_args;
    spec->envs = envs;
    spec->env_count = c->n_envs;
    spec->cwd_given = abx_str(c->cwd);
    return 0;
}

static uint16_t cut16(uint32_t n)
{
    return n > UINT16_MAX ? UINT16_MAX : (uint16_t)n;
}

static void fill_pty(const Process__PTY *pty, struct abx_process_spec *spec)
{
    spec->has_pty = pty != NULL;
    if (pty && pty->size) {
        spec->cols = cut16(pty->size->cols);
        spec->rows = cut16(pty->size->rows);
    }
}

static void start(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__StartRequest *r = (const Process__StartRequest *)in;
    const struct abx__envd *e = envd_of(rpc);
    char cwd[ABX_FILES_PATH];
    struct abx_user user;
    struct abx_process *p;
    struct abx_error err = {0};
    struct abx_process_spec spec = {.globals = e->state.envs,
                                    .global_count = e->state.env_count,
                                    .user = &user,
                                    .tag = abx_str(r->tag),
                                    .has_stdin = !r->has_stdin || r->stdin,
                                    .may_be_sh = true,
                                    .deadline_ms = abx_rpc_timeout_ms(rpc)};
    if (r->process == NULL) {
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "process: missing");
        return;
    }
    fill_pty(r->pty, &spec);
    if (fill_command(rpc, r->process, &spec) < 0 || abx__rpc_user(rpc, &user) < 0)
        return;
    int rc = abx__rpc_path(rpc, r->process->cwd, &user, cwd);
    if (rc == 0) {
        spec.cwd = abx_str(cwd);
        if (abx_process_start(e->procs, &spec, &p, &err) < 0)
            abx_rpc_fail(rpc, &err);
        else
            abx__stream_begin(rpc, p, 0, true);
    }
    abx_user_done(&user);
}

/* ---- Connect ---- */

static void connect_to(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__ConnectRequest *r = (const Process__ConnectRequest *)in;
    struct abx_str text = abx_http_header(abx_rpc_req(rpc)->head, ABX_HEADER_JOURNAL_OFFSET);
    uint64_t from = ABX_PROCESS_FROM_NOW;
    if (text.ptr && abx_parse_u64(text, &from) < 0) {
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, ABX_HEADER_JOURNAL_OFFSET ": not a number");
        return;
    }
    struct abx_process *p = select_process(rpc, r->process, false);
    if (p == NULL)
        return;
    if (text.ptr && from == 0)
        from = abx_process_journal_start(p);
    abx__stream_begin(rpc, p, from, false);
}

/* ---- input ---- */

struct input_call {
    struct abx_rpc *rpc;
    struct abx_process *process;
    struct abx_error err;
};

static void on_input_close(struct abx_rpc *rpc)
{
    struct input_call *c = abx_rpc_data(rpc);
    if (c->process == NULL)
        return;
    abx_process_write_cancel(c->process, c);
    abx_process_unref(c->process);
    c->process = NULL;
}

static void on_written(void *arg, const struct abx_error *err)
{
    struct input_call *c = arg;
    Process__SendInputResponse out = PROCESS__SEND_INPUT_RESPONSE__INIT;
    if (err)
        abx_rpc_fail(c->rpc, err);
    else
        abx_rpc_send(c->rpc, &out.base);
}

/* Starts the write of one input; 0, or -1 after the call has failed. */
static int write_input(struct input_call *c, const Process__ProcessInput *input,
                       abx_process_written_fn *fn)
{
    struct abx_error err = {0};
    bool to_pty = input && input->input_case == PROCESS__PROCESS_INPUT__INPUT_PTY;
    if (input == NULL || input->input_case == PROCESS__PROCESS_INPUT__INPUT__NOT_SET) {
        abx_rpc_failf(c->rpc, ABX_UNIMPLEMENTED, "the input has neither stdin nor pty");
        return -1;
    }
    const ProtobufCBinaryData *data = to_pty ? &input->pty : &input->stdin;
    struct abx_str bytes = abx_str_n((const char *)data->data, data->len);
    if (abx_process_write(c->process, to_pty, bytes, fn, c, &err) == 0)
        return 0;
    abx_rpc_fail(c->rpc, &err);
    return -1;
}

static struct input_call *new_input_call(struct abx_rpc *rpc, struct abx_process *p)
{
    struct input_call *c = abx_arena_alloc(abx_rpc_arena(rpc), sizeof(*c));
    if (c == NULL) {
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    c->rpc = rpc;
    c->process = abx_process_ref(p);
    abx_rpc_set_data(rpc, c);
    abx_rpc_on_close(rpc, on_input_close);
    return c;
}

static void send_input(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__SendInputRequest *r = (const Process__SendInputRequest *)in;
    struct abx_process *p = select_process(rpc, r->process, true);
    struct input_call *c = p ? new_input_call(rpc, p) : NULL;
    if (c)
        write_input(c, r->input, on_written);
}

/* StreamInput: the body is read on only while little waits: the write of each message must be done
 * before more of the body is asked for. */
static void on_stream_written(void *arg, const struct abx_error *err)
{
    struct input_call *c = arg;
    if (err)
        abx_rpc_fail(c->rpc, err);
    else
        abx_http_resume_body(abx_rpc_req(c->rpc));
}

static void stream_input(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__StreamInputRequest *r = (const Process__StreamInputRequest *)in;
    if (r->event_case != PROCESS__STREAM_INPUT_REQUEST__EVENT_START) {
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "the first message must be start");
        return;
    }
    struct abx_process *p = select_process(rpc, r->start->process, true);
    if (p)
        new_input_call(rpc, p);
}

static void stream_input_message(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__StreamInputRequest *r = (const Process__StreamInputRequest *)in;
    struct input_call *c = abx_rpc_data(rpc);
    if (r == NULL) {
        Process__StreamInputResponse out = PROCESS__STREAM_INPUT_RESPONSE__INIT;
        abx_rpc_send(rpc, &out.base);
        abx_rpc_finish(rpc);
    } else if (r->event_case == PROCESS__STREAM_INPUT_REQUEST__EVENT_START)
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "start came twice");
    else if (r->event_case == PROCESS__STREAM_INPUT_REQUEST__EVENT_DATA &&
             write_input(c, r->data->input, on_stream_written) == 0)
        abx_http_pause_body(abx_rpc_req(rpc));
}

/* ---- the others ---- */

static void send_signal(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__SendSignalRequest *r = (const Process__SendSignalRequest *)in;
    int number = r->has_signal ? (int)r->signal : 0;
    struct abx_error err = {0};
    struct abx_process *p = select_process(rpc, r->process, true);
    if (p == NULL)
        return;
    if (number < 1 || number > 64) {
        if (number == 0)
            abx_rpc_failf(rpc, ABX_UNIMPLEMENTED, "invalid signal: SIGNAL_UNSPECIFIED");
        else
            abx_rpc_failf(rpc, ABX_UNIMPLEMENTED, "invalid signal: %d", number);
        return;
    }
    Process__SendSignalResponse out = PROCESS__SEND_SIGNAL_RESPONSE__INIT;
    if (abx_process_signal(p, number, &err) < 0)
        abx_rpc_fail(rpc, &err);
    else
        abx_rpc_send(rpc, &out.base);
}

static void close_stdin(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__CloseStdinRequest *r = (const Process__CloseStdinRequest *)in;
    Process__CloseStdinResponse out = PROCESS__CLOSE_STDIN_RESPONSE__INIT;
    struct abx_error err = {0};
    struct abx_process *p = select_process(rpc, r->process, true);
    if (p == NULL)
        return;
    if (abx_process_close_stdin(p, &err) < 0)
        abx_rpc_fail(rpc, &err);
    else
        abx_rpc_send(rpc, &out.base);
}

static void update(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Process__UpdateRequest *r = (const Process__UpdateRequest *)in;
    Process__UpdateResponse out = PROCESS__UPDATE_RESPONSE__INIT;
    struct abx_error err = {0};
    struct abx_process *p = select_process(rpc, r->process, true);
    if (p == NULL)
        return;
    const Process__PTY__Size *size = r->pty ? r->pty->size : NULL;
    if (r->pty &&
        abx_process_resize(p, cut16(size ? size->cols : 0), cut16(size ? size->rows : 0), &err) < 0)
        abx_rpc_fail(rpc, &err);
    else
        abx_rpc_send(rpc, &out.base);
}

static const struct abx_rpc_method methods[] = {
    {"List", ABX_RPC_UNARY, &process__list_request__descriptor, &process__list_response__descriptor,
     list},
    {"Start", ABX_RPC_SERVER_STREAM, &process__start_request__descriptor,
     &process__start_response__descriptor, start},
    {"Connect", ABX_RPC_SERVER_STREAM, &process__connect_request__descriptor,
     &process__connect_response__descriptor, connect_to},
    {"Update", ABX_RPC_UNARY, &process__update_request__descriptor,
     &process__update_response__descriptor, update},
    {"SendInput", ABX_RPC_UNARY, &process__send_input_request__descriptor,
     &process__send_input_response__descriptor, send_input},
    {"StreamInput", ABX_RPC_CLIENT_STREAM, &process__stream_input_request__descriptor,
     &process__stream_input_response__descriptor, stream_input, stream_input_message},
    {"SendSignal", ABX_RPC_UNARY, &process__send_signal_request__descriptor,
     &process__send_signal_response__descriptor, send_signal},
    {"CloseStdin", ABX_RPC_UNARY, &process__close_stdin_request__descriptor,
     &process__close_stdin_response__descriptor, close_stdin},
    {0}};
const struct abx_rpc_service abx__process_service = {.path = "/process.Process/",
                                                     .methods = methods};
