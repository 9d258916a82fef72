/* lib/policy/endpoints_ours.c: the endpoints that only this server has. Their scopes come from
 * their parents. Spec: server.md 5, policy.md C5. */
#include "lib/policy/endpoints.h"

#include "lib/base/assert.h"
#include "lib/policy/endpoints_priv.h"

#include "lib/base/banned.h"

#define L(name) (1u << ABX_LIMIT_##name)
#define P(name) (1u << ABX_PARAM_##name)
#define COMMON  ABX__LIMITS_COMMON
#define OURS    (ABX_EP_EXTENSION | ABX_EP_YIELDS)
#define MCP     (ABX_EP_EXTENSION | ABX_EP_EXEC)
#define GIT     (ABX_EP_EXTENSION | ABX_EP_YIELDS | ABX_EP_PATHS | ABX_EP_EXEC)
#define CODE    (ABX_EP_EXTENSION | ABX_EP_YIELDS | ABX_EP_EXEC)
#define FILES   (ABX_EP_EXTENSION | ABX_EP_PATHS)

/* clang-format off */
static const struct abx_endpoint endpoints[] = {
    {"files_raw_get", "GET", "/files/raw", {NULL}, COMMON | L(MAX_BYTES), 0, ABX_GROUP_FILE_OPS, FILES, ABX_OP_READ,
     "Read the bytes of a file, or a range of them", {"files_download_stream"}},
    {"files_raw_put", "PUT", "/files/raw", {NULL}, COMMON | L(MAX_BYTES), P(ALLOW_EXTENSIONS) | P(DENY_EXTENSIONS) | P(OVERWRITE), ABX_GROUP_FILE_OPS, FILES, ABX_OP_WRITE,
     "Write the bytes of a file, whole or by parts", {"files_upload_stream"}},
    {"files_tree_get", "GET", "/files/tree", {NULL}, COMMON | L(MAX_BYTES) | L(MAX_FILES), 0, ABX_GROUP_FILE_OPS, FILES, ABX_OP_READ,
     "Read a folder as an archive", {"files_archive"}},
    {"files_tree_put", "PUT", "/files/tree", {NULL}, COMMON | L(MAX_BYTES), P(ALLOW_EXTENSIONS) | P(DENY_EXTENSIONS) | P(OVERWRITE), ABX_GROUP_FILE_OPS, FILES, ABX_OP_WRITE,
     "Unpack an archive into a folder", {"files_upload_stream", "files_mkdir"}},
    {"files_copy", "POST", "/files/copy", {NULL}, COMMON | L(MAX_BYTES) | L(MAX_FILES), P(ALLOW_EXTENSIONS) | P(DENY_EXTENSIONS) | P(OVERWRITE), ABX_GROUP_FILE_OPS, FILES, ABX_OP_WRITE,
     "Copy a file or a directory tree", {"files_upload_stream", "files_mkdir", "files_download_stream", "files_archive"}},
    {"files_append", "POST", "/files/append", {NULL}, COMMON | L(MAX_BYTES), P(ALLOW_EXTENSIONS) | P(DENY_EXTENSIONS) | P(OVERWRITE), ABX_GROUP_FILE_OPS, FILES, ABX_OP_WRITE,
     "Add to the end of a file", {"files_upload_stream"}},
    {"files_chmod", "POST", "/files/chmod", {NULL}, COMMON | L(MAX_FILES), P(ALLOW_EXTENSIONS) | P(DENY_EXTENSIONS), ABX_GROUP_FILE_OPS, FILES, ABX_OP_WRITE,
     "Change the mode of a file or of a directory tree", {"files_upload_stream"}},
    {"files_grep", "POST", "/files/grep", {NULL}, COMMON | L(MAX_BYTES) | L(MAX_DEPTH) | L(MAX_RESULTS) | L(TIMEOUT_SECONDS), 0, ABX_GROUP_FILE_OPS, FILES, ABX_OP_READ,
     "Find lines by a text or a regular expression", {"files_search", "files_download_stream"}},
    {"code_contexts_create", "POST", "/code/contexts", {NULL}, COMMON, P(LANGUAGES), ABX_GROUP_DEV_TOOLS, CODE, ABX_OP_READ,
     "Make a context that keeps its state between pieces of code", {"code_run"}},
    {"code_contexts_list", "GET", "/code/contexts", {NULL}, COMMON, 0, ABX_GROUP_DEV_TOOLS, CODE, ABX_OP_READ,
     "List the contexts", {"code_run"}},
    {"code_contexts_run", "POST", "/code/contexts/{id}/run", {NULL}, COMMON | L(MAX_OUTPUT_BYTES) | L(TIMEOUT_SECONDS), P(LANGUAGES), ABX_GROUP_DEV_TOOLS, CODE, ABX_OP_READ,
     "Run a piece of code in a context", {"code_run"}},
    {"code_contexts_delete", "DELETE", "/code/contexts/{id}", {NULL}, COMMON, 0, ABX_GROUP_DEV_TOOLS, CODE, ABX_OP_READ,
     "End a context", {"code_run"}},
    {"git_log", "GET", "/git/log", {NULL}, COMMON, 0, ABX_GROUP_DEV_TOOLS, GIT, ABX_OP_READ,
     "List the commits of a repository", {"git_diff"}},
    {"git_show", "GET", "/git/show", {NULL}, COMMON, 0, ABX_GROUP_DEV_TOOLS, GIT, ABX_OP_READ,
     "Show a commit and its diff", {"git_diff"}},
    {"git_branches", "GET", "/git/branches", {NULL}, COMMON, 0, ABX_GROUP_DEV_TOOLS, GIT, ABX_OP_READ,
     "List the branches of a repository", {"git_diff"}},
    {"git_blame", "GET", "/git/blame", {NULL}, COMMON, 0, ABX_GROUP_DEV_TOOLS, GIT, ABX_OP_READ,
     "Say which commit each line of a file is from", {"git_diff"}},
    {"openapi", "GET", "/openapi.json", {NULL}, COMMON, 0, ABX_GROUP_CORE, OURS, ABX_OP_READ,
     "Describe what the caller may call, as OpenAPI", {"capabilities"}},
    {"metrics", "GET", "/metrics", {NULL}, COMMON, 0, ABX_GROUP_SYSTEM, OURS, ABX_OP_READ,
     "Read the server's counters, as Prometheus reads them", {"system_metrics"}},
    {"audit_read", "GET", "/audit", {"system:audit"}, COMMON, 0, ABX_GROUP_SYSTEM, OURS, ABX_OP_READ,
     "Read the latest lines of the audit", {"capabilities"}},
    {"mcp", "POST", "/mcp", {NULL}, COMMON, 0, ABX_GROUP_COMMANDS, MCP, ABX_OP_READ,
     "Speak the Model Context Protocol: commands and endpoints as tools", {"list_commands"}},
    {"mcp_stream", "GET", "/mcp", {NULL}, COMMON, 0, ABX_GROUP_COMMANDS, MCP | ABX_EP_STREAMING, ABX_OP_READ,
     "Listen to a session of the Model Context Protocol", {"list_commands"}},
    {"mcp_close", "DELETE", "/mcp", {NULL}, COMMON, 0, ABX_GROUP_COMMANDS, MCP, ABX_OP_READ,
     "End a session of the Model Context Protocol", {"list_commands"}},
    {"process_journal", "GET", "/process/{pid}/journal", {NULL}, COMMON, 0, ABX_GROUP_PROCESS, ABX_EP_EXTENSION | ABX_EP_STREAMING, ABX_OP_READ,
     "Read all output of a background process by byte offset, or follow it", {"process_output"}},
    {"pty_ticket", "POST", "/pty/ticket", {NULL}, COMMON, 0, ABX_GROUP_TERMINAL, ABX_EP_EXTENSION, ABX_OP_READ,
     "Make a ticket that opens the socket of a session once, within 30 seconds", {"pty_connect"}},
};
/* clang-format on */

const struct abx_endpoint *abx_endpoint_extensions(size_t *ret_count)
{
    *ret_count = ABX_COUNTOF(endpoints);
    return endpoints;
}
