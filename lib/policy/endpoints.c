/* lib/policy/endpoints.c: the table of endpoints and the names around it. Spec: policy.md A4.
 *
 * Rows of the agents group stand in endpoints_agents.c: they have nothing but the common limits. */
#include "lib/policy/endpoints.h"

#include "lib/base/assert.h"
#include "lib/policy/endpoints_priv.h"

#include "lib/base/banned.h"

#define L(name) (1u << ABX_LIMIT_##name)
#define P(name) (1u << ABX_PARAM_##name)
#define COMMON  ABX__LIMITS_COMMON

/* clang-format off */
static const struct abx_endpoint endpoints[] = {
    {"health", "GET", "/health", {NULL}, COMMON, 0, ABX_GROUP_CORE, ABX_EP_OPEN | ABX_EP_ALWAYS, ABX_OP_READ,
     "Say that the server is up"},
    {"list_commands", "GET", "/commands", {"commands:list"}, COMMON, 0, ABX_GROUP_COMMANDS, 0, ABX_OP_READ,
     "List the commands that user code offers"},
    {"run_command", "POST", "/commands/{name}", {"commands:run"}, COMMON, 0, ABX_GROUP_COMMANDS, 0, ABX_OP_READ,
     "Run a command of user code"},
    {"shell", "POST", "/shell", {"process:run"}, COMMON | L(MAX_OUTPUT_BYTES) | L(MAX_PROCESSES) | L(TIMEOUT_SECONDS), P(ALLOW_COMMANDS) | P(DENY_COMMANDS), ABX_GROUP_PROCESS, ABX_EP_PATHS | ABX_EP_EXEC, ABX_OP_EXEC,
     "Run a command and wait for its output"},
    {"browser_navigate", "POST", "/browser/navigate", {"browser:use"}, COMMON, P(BLOCK_PRIVATE_NETWORKS) | P(URL_ALLOW) | P(URL_DENY), ABX_GROUP_BROWSER, ABX_EP_EXEC, ABX_OP_READ,
     "Open a page in the browser"},
    {"browser_screenshot", "POST", "/browser/screenshot", {"browser:use"}, COMMON, 0, ABX_GROUP_BROWSER, 0, ABX_OP_READ,
     "Take a picture of the page"},
    {"browser_content", "GET", "/browser/content", {"browser:use"}, COMMON, 0, ABX_GROUP_BROWSER, 0, ABX_OP_READ,
     "Read the page's document"},
    {"browser_click", "POST", "/browser/click", {"browser:use"}, COMMON, 0, ABX_GROUP_BROWSER, 0, ABX_OP_READ,
     "Click an element of the page"},
    {"browser_type", "POST", "/browser/type", {"browser:use"}, COMMON, 0, ABX_GROUP_BROWSER, 0, ABX_OP_READ,
     "Type text into an element of the page"},
    {"browser_evaluate", "POST", "/browser/evaluate", {"browser:evaluate"}, COMMON, 0, ABX_GROUP_BROWSER, ABX_EP_EXEC, ABX_OP_READ,
     "Run a script in the page"},
    {"browser_pdf", "POST", "/browser/pdf", {"browser:use"}, COMMON, 0, ABX_GROUP_BROWSER, 0, ABX_OP_READ,
     "Print the page to PDF"},
    {"browser_console", "GET", "/browser/console", {"browser:use"}, COMMON, 0, ABX_GROUP_BROWSER, 0, ABX_OP_READ,
     "Read the messages of the page's console"},
    {"code_run", "POST", "/code/run", {"devtools:run"}, COMMON | L(MAX_OUTPUT_BYTES) | L(TIMEOUT_SECONDS), P(LANGUAGES), ABX_GROUP_DEV_TOOLS, ABX_EP_EXEC, ABX_OP_READ,
     "Run a piece of code in a given language"},
    {"git_status", "GET", "/git/status", {"devtools:read"}, COMMON, 0, ABX_GROUP_DEV_TOOLS, ABX_EP_PATHS, ABX_OP_READ,
     "Describe the state of a repository"},
    {"git_diff", "GET", "/git/diff", {"devtools:read"}, COMMON, 0, ABX_GROUP_DEV_TOOLS, ABX_EP_PATHS, ABX_OP_READ,
     "Show the changes in a repository"},
    {"files_list", "GET", "/files/list", {"files:read"}, COMMON | L(MAX_DEPTH) | L(MAX_ENTRIES), 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_READ,
     "List a directory"},
    {"files_stat", "GET", "/files/stat", {"files:read"}, COMMON, 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_READ,
     "Describe a file or directory"},
    {"files_mkdir", "POST", "/files/mkdir", {"files:write"}, COMMON, 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_WRITE,
     "Make a directory, with its parents"},
    {"files_delete", "DELETE", "/files", {"files:delete"}, COMMON, 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_DELETE,
     "Remove a file or a directory tree"},
    {"files_move", "POST", "/files/move", {"files:write", "files:delete"}, COMMON, 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_DELETE,
     "Move or rename a file or directory"},
    {"files_search", "POST", "/files/search", {"files:read"}, COMMON | L(MAX_DEPTH) | L(MAX_RESULTS) | L(TIMEOUT_SECONDS), 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_READ,
     "Find files by name or content"},
    {"files_upload_stream", "POST", "/files/upload-stream", {"files:write"}, COMMON | L(MAX_BYTES), P(ALLOW_EXTENSIONS) | P(DENY_EXTENSIONS) | P(OVERWRITE), ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_WRITE,
     "Write a file, whole or in parts"},
    {"files_download_stream", "GET", "/files/download-stream", {"files:read"}, COMMON | L(MAX_BYTES), 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_READ,
     "Read a file, whole or in parts"},
    {"files_archive", "POST", "/files/archive", {"files:read"}, COMMON | L(MAX_BYTES) | L(MAX_FILES), 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS, ABX_OP_READ,
     "Pack a directory into an archive"},
    {"files_watch", "GET", "/files/watch", {"files:read"}, COMMON | L(MAX_DURATION_SECONDS), 0, ABX_GROUP_FILE_OPS, ABX_EP_PATHS | ABX_EP_STREAMING, ABX_OP_READ,
     "Follow changes beneath a directory"},
    {"shell_stream", "POST", "/shell/stream", {"process:run"}, COMMON | L(MAX_OUTPUT_BYTES) | L(MAX_PROCESSES) | L(TIMEOUT_SECONDS), P(ALLOW_COMMANDS) | P(DENY_COMMANDS), ABX_GROUP_PROCESS, ABX_EP_PATHS | ABX_EP_EXEC | ABX_EP_STREAMING, ABX_OP_EXEC,
     "Run a command and stream its output"},
    {"process_start", "POST", "/process/start", {"process:run"}, COMMON | L(MAX_OUTPUT_BYTES) | L(MAX_PROCESSES) | L(TIMEOUT_SECONDS), P(ALLOW_COMMANDS) | P(DENY_COMMANDS), ABX_GROUP_PROCESS, ABX_EP_PATHS | ABX_EP_EXEC, ABX_OP_EXEC,
     "Start a process in the background"},
    {"process_list", "GET", "/process/list", {"process:read"}, COMMON, 0, ABX_GROUP_PROCESS, 0, ABX_OP_READ,
     "List background processes"},
    {"process_detail", "GET", "/process/{pid}", {"process:read"}, COMMON, 0, ABX_GROUP_PROCESS, 0, ABX_OP_READ,
     "Describe a background process"},
    {"process_signal", "POST", "/process/{pid}/signal", {"process:manage"}, COMMON, P(ALLOWED_SIGNALS), ABX_GROUP_PROCESS, 0, ABX_OP_READ,
     "Send a signal to a background process"},
    {"process_stdin", "POST", "/process/{pid}/stdin", {"process:manage"}, COMMON, 0, ABX_GROUP_PROCESS, 0, ABX_OP_READ,
     "Write to the standard input of a background process"},
    {"process_output", "GET", "/process/{pid}/output", {"process:read"}, COMMON, 0, ABX_GROUP_PROCESS, 0, ABX_OP_READ,
     "Read the captured output of a background process"},
    {"pty_create_session", "POST", "/pty/sessions", {"terminal:use"}, COMMON | L(MAX_SESSIONS), P(ENV_DENY) | P(SHELLS), ABX_GROUP_TERMINAL, 0, ABX_OP_READ,
     "Open a terminal session"},
    {"pty_list_sessions", "GET", "/pty/sessions", {"terminal:use"}, COMMON, 0, ABX_GROUP_TERMINAL, 0, ABX_OP_READ,
     "List terminal sessions"},
    {"pty_detail", "GET", "/pty/sessions/{id}", {"terminal:use"}, COMMON, 0, ABX_GROUP_TERMINAL, 0, ABX_OP_READ,
     "Describe a terminal session"},
    {"pty_resize", "POST", "/pty/sessions/{id}/resize", {"terminal:use"}, COMMON, 0, ABX_GROUP_TERMINAL, 0, ABX_OP_READ,
     "Change the size of a terminal"},
    {"pty_delete_session", "DELETE", "/pty/sessions/{id}", {"terminal:use"}, COMMON, 0, ABX_GROUP_TERMINAL, 0, ABX_OP_READ,
     "Close a terminal session"},
    {"capabilities", "GET", "/capabilities", {"core:read"}, COMMON, 0, ABX_GROUP_CORE, ABX_EP_ALWAYS, ABX_OP_READ,
     "Describe the server, the caller and what the caller may do"},
    {"capabilities_check", "POST", "/capabilities/check", {"core:read"}, COMMON, 0, ABX_GROUP_CORE, ABX_EP_ALWAYS, ABX_OP_READ,
     "Ask whether one call would be allowed"},
    {"system_info", "GET", "/system/info", {"system:read"}, COMMON, 0, ABX_GROUP_SYSTEM, 0, ABX_OP_READ,
     "Describe the operating system and the machine"},
    {"env_get", "GET", "/env", {"system:read"}, COMMON, P(ALLOW_VARS) | P(DENY_VARS), ABX_GROUP_SYSTEM, 0, ABX_OP_READ,
     "Read environment variables"},
    {"env_set", "POST", "/env", {"system:write"}, COMMON, P(ALLOW_VARS) | P(DENY_VARS), ABX_GROUP_SYSTEM, 0, ABX_OP_READ,
     "Change environment variables for later processes"},
    {"ports", "GET", "/ports", {"system:read"}, COMMON, 0, ABX_GROUP_SYSTEM, 0, ABX_OP_READ,
     "List listening ports"},
    {"packages", "GET", "/packages", {"system:read"}, COMMON, 0, ABX_GROUP_SYSTEM, 0, ABX_OP_READ,
     "List installed packages"},
    {"system_metrics", "GET", "/system/metrics", {"system:read"}, COMMON, 0, ABX_GROUP_SYSTEM, 0, ABX_OP_READ,
     "Read processor, memory and disk figures"},
    {"pty_connect", "WS", "/pty", {"terminal:use"}, COMMON, 0, ABX_GROUP_TERMINAL, ABX_EP_STREAMING | ABX_EP_VIRTUAL, ABX_OP_READ,
     "Attach to a terminal session by WebSocket"},
};
/* clang-format on */

/* The agents' rows stand behind the fourth: the order in which the published server looks at
 * endpoints, which shows in what it says first of several mistakes. */
enum { OWN = ABX_COUNTOF(endpoints), ALL = OWN + ABX__ENDPOINTS_AGENTS, BEFORE_AGENTS = 4 };

/* One array for all; filled before main(), constant afterwards. */
static struct abx_endpoint all[ALL];

__attribute__((constructor)) static void join(void)
{
    const size_t row = sizeof(endpoints[0]);
    memcpy(all, endpoints, BEFORE_AGENTS * row);
    memcpy(all + BEFORE_AGENTS, abx__endpoints_agents, sizeof(abx__endpoints_agents));
    memcpy(all + BEFORE_AGENTS + ABX__ENDPOINTS_AGENTS, endpoints + BEFORE_AGENTS,
           (OWN - BEFORE_AGENTS) * row);
}

static const char *const group_names[] = {
    [ABX_GROUP_CORE] = "core",           [ABX_GROUP_COMMANDS] = "commands",
    [ABX_GROUP_FILE_OPS] = "file_ops",   [ABX_GROUP_PROCESS] = "process",
    [ABX_GROUP_TERMINAL] = "terminal",   [ABX_GROUP_SYSTEM] = "system",
    [ABX_GROUP_DEV_TOOLS] = "dev_tools", [ABX_GROUP_BROWSER] = "browser",
    [ABX_GROUP_AGENTS] = "agents",
};
_Static_assert(ABX_COUNTOF(group_names) == ABX_GROUP__COUNT, "one name per group");

static const char *const limit_names[] = {
    [ABX_LIMIT_MAX_BYTES] = "max_bytes",
    [ABX_LIMIT_MAX_CONCURRENCY] = "max_concurrency",
    [ABX_LIMIT_MAX_DEPTH] = "max_depth",
    [ABX_LIMIT_MAX_DURATION_SECONDS] = "max_duration_seconds",
    [ABX_LIMIT_MAX_ENTRIES] = "max_entries",
    [ABX_LIMIT_MAX_FILES] = "max_files",
    [ABX_LIMIT_MAX_OUTPUT_BYTES] = "max_output_bytes",
    [ABX_LIMIT_MAX_PROCESSES] = "max_processes",
    [ABX_LIMIT_MAX_REQUEST_BYTES] = "max_request_bytes",
    [ABX_LIMIT_MAX_RESULTS] = "max_results",
    [ABX_LIMIT_MAX_SESSIONS] = "max_sessions",
    [ABX_LIMIT_RATE_PER_MINUTE] = "rate_per_minute",
    [ABX_LIMIT_TIMEOUT_SECONDS] = "timeout_seconds",
};
_Static_assert(ABX_COUNTOF(limit_names) == ABX_LIMIT__COUNT, "one name per limit");

static const char *const param_names[] = {
    [ABX_PARAM_ALLOW_COMMANDS] = "allow_commands",
    [ABX_PARAM_ALLOW_EXTENSIONS] = "allow_extensions",
    [ABX_PARAM_ALLOW_VARS] = "allow_vars",
    [ABX_PARAM_ALLOWED_SIGNALS] = "allowed_signals",
    [ABX_PARAM_BLOCK_PRIVATE_NETWORKS] = "block_private_networks",
    [ABX_PARAM_DENY_COMMANDS] = "deny_commands",
    [ABX_PARAM_DENY_EXTENSIONS] = "deny_extensions",
    [ABX_PARAM_DENY_VARS] = "deny_vars",
    [ABX_PARAM_ENV_DENY] = "env_deny",
    [ABX_PARAM_LANGUAGES] = "languages",
    [ABX_PARAM_OVERWRITE] = "overwrite",
    [ABX_PARAM_SHELLS] = "shells",
    [ABX_PARAM_URL_ALLOW] = "url_allow",
    [ABX_PARAM_URL_DENY] = "url_deny",
};
_Static_assert(ABX_COUNTOF(param_names) == ABX_PARAM__COUNT, "one name per param");

static const char *const op_names[] = {
    [ABX_OP_READ] = "read",
    [ABX_OP_WRITE] = "write",
    [ABX_OP_DELETE] = "delete",
    [ABX_OP_EXEC] = "exec",
};
_Static_assert(ABX_COUNTOF(op_names) == ABX_OP__COUNT, "one name per operation");

static int find_name(const char *const *names, size_t count, struct abx_str name)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_is(name, names[i]))
            return (int)i;
    return -1;
}

const struct abx_endpoint *abx_endpoints(size_t *ret_count)
{
    *ret_count = ALL;
    return all;
}

const struct abx_endpoint *abx_endpoint_find(struct abx_str id)
{
    for (size_t i = 0; i < ALL; i++)
        if (abx_str_is(id, all[i].id))
            return &all[i];
    size_t count;
    const struct abx_endpoint *ours = abx_endpoint_extensions(&count);
    for (size_t i = 0; i < count; i++)
        if (abx_str_is(id, ours[i].id))
            return &ours[i];
    return NULL;
}

const char *abx_group_name(enum abx_group group)
{
    return group_names[group];
}

const char *abx_limit_name(enum abx_limit limit)
{
    return limit_names[limit];
}

const char *abx_param_name(enum abx_param param)
{
    return param_names[param];
}

const char *abx_path_op_name(enum abx_path_op op)
{
    return op_names[op];
}

int abx_group_parse(struct abx_str name)
{
    return find_name(group_names, ABX_GROUP__COUNT, name);
}

int abx_limit_parse(struct abx_str name)
{
    return find_name(limit_names, ABX_LIMIT__COUNT, name);
}

int abx_param_parse(struct abx_str name)
{
    return find_name(param_names, ABX_PARAM__COUNT, name);
}

int abx_path_op_parse(struct abx_str name)
{
    return find_name(op_names, ABX_OP__COUNT, name);
}

bool abx_group_is_opt_in(enum abx_group group)
{
    return group == ABX_GROUP_DEV_TOOLS || group == ABX_GROUP_BROWSER || group == ABX_GROUP_AGENTS;
}
