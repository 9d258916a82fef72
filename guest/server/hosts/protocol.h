/* guest/server/hosts/protocol.h: the protocol between the server and a command host, version 1: one
 * JSON object a line. Bytes in, messages out. Spec: command-hosts.md 3.
 *
 * Beside the table there: server -> host {"op":"pause","id"} and {"op":"resume","id"}, by which one
 * slow caller stops its own stream and no other. Values are slices of the line, copied on, never
 * converted. */
#pragma once
#include "guest/server/hosts/text.h"
#include "lib/base/err.h"

enum {
    ABX_HOST_PROTOCOL = 1,
    ABX_HOST_LINE_MAX = 64 << 20,
    ABX_HOST_CALLS_MAX = 128, /* in flight in one host */
};

/* ---- lines ---- */

struct abx_host_lines {
    struct abx_buf buf;
    size_t taken;   /* bytes of lines already given out */
    size_t scanned; /* no newline before */
};
void abx_host_lines_init(struct abx_host_lines *l);
void abx_host_lines_done(struct abx_host_lines *l);
/** -1: a line is longer than the protocol allows, or memory is short. */
int abx_host_lines_feed(struct abx_host_lines *l, const char *data, size_t len);
/** The next complete line without its newline, valid until the next feed. */
bool abx_host_lines_next(struct abx_host_lines *l, struct abx_str *ret_line);

/* ---- what a host says ---- */

enum abx_host_op {
    ABX_HOST_HELLO,
    ABX_HOST_RESULT,
    ABX_HOST_ERROR,
    ABX_HOST_RESPONSE,
    ABX_HOST_HEAD,
    ABX_HOST_CHUNK,
    ABX_HOST_END,
    ABX_HOST_ASK,
    ABX_HOST_ANSWER,
    ABX_HOST_GROUPS,
    ABX_HOST_STOP,
    ABX_HOST_LOG,
    ABX_HOST_UNKNOWN, /* to be ignored */
    ABX_HOST__OPS
};

/* Slices are JSON values as they stood in the line; ptr NULL: not there. */
struct abx_host_message {
    enum abx_host_op op;
    struct abx_str line;
    uint64_t id, q, status, n; /* 0 when not there */
    bool has_id, has_q;
    struct abx_str value, body, headers, type, message, code, extra, data, base64, what, ok;
    struct abx_str level, disable;
    struct abx_str ask_do, document, endpoint, scopes, path, access, field;
};
/** Reads one line. -1: not JSON, no object, or a number where none is. */
int abx_host_message_parse(struct abx_str line, struct abx_host_message *ret,
                           struct abx_error *err);

/* ---- what the server says ---- */

struct abx_host_call_text {
    uint64_t id;
    struct abx_str ctx; /* JSON */
    /* a command: */
    struct abx_str command;
    struct abx_str args; /* JSON; empty: none */
    bool stream;
    uint32_t deadline_ms; /* 0: none */
    /* a request; method.ptr NULL: a command */
    size_t n;
    struct abx_str method, path;
    struct abx_str query, headers, path_params; /* JSON */
    struct abx_str body;                        /* JSON; empty: none */
};
void abx_host_write_call(struct abx_buf *out, const struct abx_host_call_text *call);
void abx_host_write_ready(struct abx_buf *out, struct abx_str base_dir, struct abx_str version);
void abx_host_write_reject(struct abx_buf *out, struct abx_str why);
/** @op: "cancel", "pause", "resume". */
void abx_host_write_id(struct abx_buf *out, const char *op, uint64_t id);
void abx_host_write_shutdown(struct abx_buf *out);
void abx_host_write_match(struct abx_buf *out, uint64_t q, size_t n, struct abx_str path);
