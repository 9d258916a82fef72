/* host/runtime/server_python.h: what `import agent_sandbox.server` finds in a sandbox
 * (published-client.md C27). The table is made by cmake/server-python.cmake. */
#pragma once

struct abx__server_python {
    const char *name, *text; /* "server/app.py", below agent_sandbox; text NULL: a folder */
};
extern const struct abx__server_python abx__server_python[]; /* folders first; name NULL ends */
