/* lib/policy/fields.c: the fields of the endpoints (fields.h). */
#include "lib/policy/fields.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

#define ROW(endpoint, name, in, type, required, help)                                              \
    {                                                                                              \
        endpoint, name, ABX_FIELD_##in, ABX_FIELD_##type, required, help                           \
    }

/* clang-format off */
static const struct abx_endpoint_field fields[] = {
    ROW("capabilities_check", "endpoint", BODY, STRING, true, "ID of the endpoint"),
    ROW("capabilities_check", "path", BODY, STRING, false, "Path to judge"),
    ROW("capabilities_check", "paths", BODY, STRINGS, false, "More paths to judge"),
    ROW("capabilities_check", "op", BODY, STRING, false, "read, write, delete or exec"),
    ROW("capabilities_check", "user", BODY, STRING, false, "User to start a program as"),
    ROW("run_command", "name", PATH, STRING, true, "Name of the command"),
    ROW("files_list", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_list", "recursive", QUERY, BOOLEAN, false, "List what is beneath too"),
    ROW("files_list", "max_entries", QUERY, INTEGER, false, "At most so many entries (1000)"),
    ROW("files_stat", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_stat", "follow", QUERY, BOOLEAN, false, "false: of a link itself"),
    ROW("files_mkdir", "path", BODY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_delete", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_move", "source", BODY, STRING, true, "What is moved"),
    ROW("files_move", "destination", BODY, STRING, true, "Where it goes"),
    ROW("files_search", "path", BODY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_search", "pattern", BODY, STRING, true, "Shell pattern over the names"),
    ROW("files_search", "max_depth", BODY, INTEGER, false, "Levels to look into (5)"),
    ROW("files_search", "max_results", BODY, INTEGER, false, "At most so many results (100)"),
    ROW("files_upload_stream", "path", BODY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_upload_stream", "content_base64", BODY, STRING, true, "The content in base64"),
    ROW("files_download_stream", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_archive", "paths", BODY, STRINGS, true, "Files and folders to pack"),
    ROW("files_archive", "format", BODY, STRING, false, "tar.gz or zip"),
    ROW("files_watch", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_watch", "recursive", QUERY, BOOLEAN, false, "Watch what is beneath too"),
    ROW("files_watch", "interval", QUERY, NUMBER, false, "Seconds between two looks (0.5)"),
    ROW("files_watch", "timeout", QUERY, NUMBER, false, "Seconds until the end (300)"),
    ROW("files_copy", "source", BODY, STRING, true, "What is copied"),
    ROW("files_copy", "destination", BODY, STRING, true, "Where the copy goes"),
    ROW("files_append", "path", BODY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_append", "content", BODY, STRING, false, "Text to add"),
    ROW("files_append", "content_base64", BODY, STRING, false, "Bytes to add, in base64"),
    ROW("files_chmod", "path", BODY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_chmod", "mode", BODY, STRING, true, "Octal digits, such as 0644"),
    ROW("files_chmod", "recursive", BODY, BOOLEAN, false, "What is beneath a folder too"),
    ROW("files_chmod", "directory_mode", BODY, STRING, false, "Of folders, where it is another one (mode)"),
    ROW("shell", "command", BODY, STRING, true, "Words of the program, split as a shell splits them; with `shell`, its line"),
    ROW("shell", "args", BODY, STRINGS, false, "Words that follow, as they are"),
    ROW("shell", "shell", BODY, STRING, false, "sh or bash (true: sh): runs the line; args are $1 and on (no shell)"),
    ROW("shell", "cwd", BODY, STRING, false, "Folder to run in"),
    ROW("shell", "env", BODY, MAP, false, "Variables to add"),
    ROW("shell", "timeout", BODY, NUMBER, false, "Seconds (300)"),
    ROW("shell", "user", BODY, STRING, false, "Name or number of a user that confine.users lists (the server's own)"),
    ROW("shell", "encoding", BODY, STRING, false, "Of stdout and stderr in the answer: utf-8, or base64 for the bytes"),
    ROW("shell_stream", "command", BODY, STRING, true, "Words of the program, split as a shell splits them; with `shell`, its line"),
    ROW("shell_stream", "args", BODY, STRINGS, false, "Words that follow, as they are"),
    ROW("shell_stream", "shell", BODY, STRING, false, "sh or bash (true: sh): runs the line; args are $1 and on (no shell)"),
    ROW("shell_stream", "cwd", BODY, STRING, false, "Folder to run in"),
    ROW("shell_stream", "env", BODY, MAP, false, "Variables to add"),
    ROW("shell_stream", "timeout", BODY, NUMBER, false, "Seconds (300)"),
    ROW("shell_stream", "user", BODY, STRING, false, "Name or number of a user that confine.users lists (the server's own)"),
    ROW("shell_stream", "flush", BODY, BOOLEAN, false, "Send an unfinished line after 100 ms"),
    ROW("shell_stream", "detach", BODY, BOOLEAN, false, "Let the program go on when the caller leaves"),
    ROW("process_start", "command", BODY, STRING, true, "Words of the program, split as a shell splits them; with `shell`, its line"),
    ROW("process_start", "args", BODY, STRINGS, false, "Words that follow, as they are"),
    ROW("process_start", "shell", BODY, STRING, false, "sh or bash (true: sh): runs the line; args are $1 and on (no shell)"),
    ROW("process_start", "cwd", BODY, STRING, false, "Folder to run in"),
    ROW("process_start", "env", BODY, MAP, false, "Variables to add"),
    ROW("process_start", "timeout", BODY, NUMBER, false, "Seconds (300)"),
    ROW("process_start", "user", BODY, STRING, false, "Name or number of a user that confine.users lists (the server's own)"),
    ROW("process_start", "capture_output", BODY, BOOLEAN, false, "Keep the output for /process/{pid}/output"),
    ROW("process_start", "stdin", BODY, BOOLEAN, false, "Give it an input to write to"),
    ROW("process_detail", "pid", PATH, INTEGER, true, "Number of the process"),
    ROW("process_signal", "pid", PATH, INTEGER, true, "Number of the process"),
    ROW("process_signal", "signal", BODY, INTEGER, true, "Number of the signal"),
    ROW("process_signal", "group", BODY, BOOLEAN, false, "false: to the process alone, not to its group"),
    ROW("process_stdin", "pid", PATH, INTEGER, true, "Number of the process"),
    ROW("process_stdin", "data", BODY, STRING, false, "Text to write"),
    ROW("process_stdin", "data_base64", BODY, STRING, false, "Bytes to write, in base64"),
    ROW("process_stdin", "eof", BODY, BOOLEAN, false, "Close the input then"),
    ROW("process_output", "pid", PATH, INTEGER, true, "Number of the process"),
    ROW("process_output", "since", QUERY, INTEGER, false, "First event wanted (0)"),
    ROW("process_output", "wait", QUERY, NUMBER, false, "Seconds to wait for one (0)"),
    ROW("pty_create_session", "shell", BODY, STRING, false, "Shell to start (/bin/bash)"),
    ROW("pty_create_session", "cols", BODY, INTEGER, false, "Columns (80)"),
    ROW("pty_create_session", "rows", BODY, INTEGER, false, "Rows (24)"),
    ROW("pty_create_session", "env", BODY, MAP, false, "Variables to add"),
    ROW("pty_create_session", "user", BODY, STRING, false, "Name or number of a user that confine.users lists (the server's own)"),
    ROW("pty_create_session", "share", BODY, STRINGS, false, "Identities that may attach too"),
    ROW("pty_detail", "id", PATH, STRING, true, "ID of the session"),
    ROW("pty_resize", "id", PATH, STRING, true, "ID of the session"),
    ROW("pty_resize", "cols", BODY, INTEGER, true, "Columns"),
    ROW("pty_resize", "rows", BODY, INTEGER, true, "Rows"),
    ROW("pty_delete_session", "id", PATH, STRING, true, "ID of the session"),
    ROW("pty_connect", "session_id", QUERY, STRING, true, "ID of the session"),
    ROW("pty_connect", "replay", QUERY, INTEGER, false, "Begin with the last so many bytes"),
    ROW("pty_connect", "token", QUERY, STRING, false, "The token of a client that can send no header"),
    ROW("pty_connect", "ticket", QUERY, STRING, false, "A ticket of /pty/ticket, in place of a token"),
    ROW("pty_ticket", "session_id", BODY, STRING, true, "ID of the session"),
    ROW("env_get", "filter", QUERY, STRING, false, "Names, separated by commas"),
    ROW("env_set", "vars", BODY, MAP, false, "Variables to set"),
    ROW("packages", "manager", QUERY, STRING, false, "pip or npm"),
    ROW("code_run", "code", BODY, STRING, true, "The code"),
    ROW("code_run", "language", BODY, STRING, false, "python, node or bash"),
    ROW("code_run", "timeout", BODY, INTEGER, false, "Seconds (30)"),
    ROW("code_run", "user", BODY, STRING, false, "Name or number of a user that confine.users lists (the server's own)"),
    ROW("code_contexts_create", "language", BODY, STRING, false, "python, javascript, typescript or bash"),
    ROW("code_contexts_run", "id", PATH, STRING, true, "ID of the context"),
    ROW("code_contexts_run", "code", BODY, STRING, true, "The code"),
    ROW("code_contexts_run", "timeout", BODY, NUMBER, false, "Seconds (30)"),
    ROW("code_contexts_delete", "id", PATH, STRING, true, "ID of the context"),
    ROW("git_status", "path", QUERY, STRING, false, "Folder in the repository"),
    ROW("git_diff", "path", QUERY, STRING, false, "Folder in the repository"),
    ROW("git_diff", "staged", QUERY, BOOLEAN, false, "What is staged"),
    ROW("git_diff", "file", QUERY, STRING, false, "One file"),
    ROW("browser_navigate", "url", BODY, STRING, true, "Address of the page"),
    ROW("browser_navigate", "wait_until", BODY, STRING, false, "load, domcontentloaded or networkidle"),
    ROW("browser_navigate", "timeout", BODY, INTEGER, false, "Milliseconds (30000)"),
    ROW("browser_screenshot", "selector", BODY, STRING, false, "Element to show"),
    ROW("browser_screenshot", "full_page", BODY, BOOLEAN, false, "The whole page"),
    ROW("browser_screenshot", "format", BODY, STRING, false, "png or jpeg"),
    ROW("browser_content", "type", QUERY, STRING, false, "html or text"),
    ROW("browser_click", "selector", BODY, STRING, true, "Element to click"),
    ROW("browser_click", "timeout", BODY, INTEGER, false, "Milliseconds (5000)"),
    ROW("browser_type", "selector", BODY, STRING, true, "Element to type into"),
    ROW("browser_type", "text", BODY, STRING, true, "Text to type"),
    ROW("browser_type", "delay", BODY, INTEGER, false, "Milliseconds between keys (50)"),
    ROW("browser_type", "clear", BODY, BOOLEAN, false, "Empty it first"),
    ROW("browser_evaluate", "script", BODY, STRING, true, "Script to run in the page"),
    ROW("browser_evaluate", "timeout", BODY, INTEGER, false, "Milliseconds (10000)"),
    ROW("browser_pdf", "format", BODY, STRING, false, "Paper (A4)"),
    ROW("browser_pdf", "landscape", BODY, BOOLEAN, false, "Turn the paper"),
    ROW("files_raw_get", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_raw_put", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_tree_get", "path", QUERY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_tree_get", "format", QUERY, STRING, false, "tar.gz, tar or zip"),
    ROW("files_tree_put", "path", QUERY, STRING, true, "Folder; a relative one starts at the first root"),
    ROW("files_tree_put", "format", QUERY, STRING, false, "tar.gz or tar"),
    ROW("files_grep", "path", BODY, STRING, true, "Path; a relative one starts at the first root"),
    ROW("files_grep", "pattern", BODY, STRING, true, "What a line must hold"),
    ROW("files_grep", "regex", BODY, BOOLEAN, false, "The pattern is a regular expression"),
    ROW("files_grep", "ignore_case", BODY, BOOLEAN, false, "ASCII letters alike"),
    ROW("files_grep", "globs", BODY, STRINGS, false, "Only such files; !glob: not those"),
    ROW("files_grep", "gitignore", BODY, BOOLEAN, false, "Leave out what git ignores (true)"),
    ROW("files_grep", "context", BODY, INTEGER, false, "Lines before and after (0)"),
    ROW("files_grep", "max_depth", BODY, INTEGER, false, "Levels to look into (100)"),
    ROW("files_grep", "max_results", BODY, INTEGER, false, "At most so many lines (1000)"),
    ROW("process_journal", "pid", PATH, INTEGER, true, "Number of the process"),
    ROW("process_journal", "since", QUERY, INTEGER, false, "First byte wanted (0)"),
    ROW("process_journal", "follow", QUERY, BOOLEAN, false, "Go on as server-sent events"),
    ROW("git_log", "path", QUERY, STRING, false, "Folder in the repository"),
    ROW("git_log", "rev", QUERY, STRING, false, "Name or hash of a commit (HEAD)"),
    ROW("git_log", "file", QUERY, STRING, false, "Commits that touch this file"),
    ROW("git_log", "limit", QUERY, INTEGER, false, "At most so many (50)"),
    ROW("git_log", "skip", QUERY, INTEGER, false, "Leave out so many first"),
    ROW("git_show", "path", QUERY, STRING, false, "Folder in the repository"),
    ROW("git_show", "rev", QUERY, STRING, false, "Name or hash of a commit (HEAD)"),
    ROW("git_show", "file", QUERY, STRING, false, "One file"),
    ROW("git_branches", "path", QUERY, STRING, false, "Folder in the repository"),
    ROW("git_blame", "path", QUERY, STRING, false, "Folder in the repository"),
    ROW("git_blame", "file", QUERY, STRING, true, "The file"),
    ROW("git_blame", "rev", QUERY, STRING, false, "Name or hash of a commit (HEAD)"),
    ROW("git_blame", "start", QUERY, INTEGER, false, "First line"),
    ROW("git_blame", "end", QUERY, INTEGER, false, "Last line"),
    ROW("audit_read", "since", QUERY, INTEGER, false, "Number of the first line wanted (0)"),
};

static const struct abx_endpoint_media media[] = {
    {"files_watch", "text/event-stream", NULL},
    {"shell_stream", "text/event-stream", NULL},
    {"files_raw_put", NULL, "application/octet-stream"},
    {"files_tree_get", "application/octet-stream", NULL},
    {"files_tree_put", NULL, "application/octet-stream"},
    {"files_grep", "application/x-ndjson", NULL},
    {"mcp_stream", "text/event-stream", NULL},
    {"metrics", "text/plain", NULL},
    {"files_raw_get", "application/octet-stream", NULL},
};
/* clang-format on */

static const char *const type_names[] = {
    [ABX_FIELD_STRING] = "string",   [ABX_FIELD_INTEGER] = "integer", [ABX_FIELD_NUMBER] = "number",
    [ABX_FIELD_BOOLEAN] = "boolean", [ABX_FIELD_STRINGS] = "array",   [ABX_FIELD_MAP] = "object",
};
_Static_assert(ABX_COUNTOF(type_names) == ABX_FIELD__COUNT, "one name per type");

const struct abx_endpoint_field *abx_endpoint_fields(size_t *ret_count)
{
    *ret_count = ABX_COUNTOF(fields);
    return fields;
}

const struct abx_endpoint_field *abx_endpoint_fields_of(const char *endpoint, size_t *ret_count)
{
    const struct abx_endpoint_field *first = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < ABX_COUNTOF(fields); i++) {
        if (strcmp(fields[i].endpoint, endpoint) != 0)
            continue;
        first = first ? first : &fields[i];
        ++*ret_count;
    }
    return first;
}

const char *abx_field_type_name(enum abx_field_type type)
{
    return type_names[type];
}

const struct abx_endpoint_media *abx_endpoint_media_of(const char *endpoint)
{
    for (size_t i = 0; i < ABX_COUNTOF(media); i++)
        if (strcmp(media[i].endpoint, endpoint) == 0)
            return &media[i];
    return NULL;
}
