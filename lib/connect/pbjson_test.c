/* lib/connect/pbjson_test.c: the proto3 JSON mapping of envd.md 4.8, both directions. */
#include "lib/connect/filesystem.pb-c.h"
#include "lib/connect/pbjson.h"
#include "lib/connect/process.pb-c.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

struct fixture {
    struct abx_arena arena;
    struct abx_buf out;
    struct abx_error err;
};
static struct fixture fx;

static void begin(void)
{
    abx_arena_init(&fx.arena, 1 << 20);
    abx_buf_init(&fx.out, 1 << 20);
    fx.err = (struct abx_error){0};
}

static void end(void)
{
    abx_arena_done(&fx.arena);
    abx_buf_done(&fx.out);
}

static const char *round_json(const char *json, const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *m = NULL;
    if (abx_pb_from_json(abx_str(json), d, &fx.arena, &m, &fx.err) < 0)
        return fx.err.msg;
    abx_buf_clear(&fx.out);
    abx_pb_to_json(m, &fx.out);
    return fx.out.ptr;
}

TEST(pbjson_reads_a_start_request)
{
    begin();
    ProtobufCMessage *m = NULL;
    assert_int_equal(
        abx_pb_from_json(
            ABX_STR("{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo \\u00e9\"],"
                    "\"envs\":{\"A\":\"1\",\"B\":\"\"},\"cwd\":\"\"},\"stdin\":false,"
                    "\"tag\":null,\"other\":{\"x\":[1]}}"),
            &process__start_request__descriptor, &fx.arena, &m, &fx.err),
        0);
    const Process__StartRequest *r = (const Process__StartRequest *)m;
    assert_string_equal(r->process->cmd, "/bin/bash");
    assert_int_equal(r->process->n_args, 3);
    assert_string_equal(r->process->args[2], "echo \xC3\xA9");
    assert_int_equal(r->process->n_envs, 2);
    assert_string_equal(r->process->envs[0]->key, "A");
    assert_string_equal(r->process->envs[1]->value, "");
    assert_string_equal(r->process->cwd, ""); /* present and empty */
    assert_true(r->has_stdin && !r->stdin);
    assert_null(r->tag);
    assert_null(r->pty);
    end();
}

TEST(pbjson_mapping_rows)
{
    static const struct {
        const ProtobufCMessageDescriptor *d;
        const char *in, *out;
    } rows[] = {
        {&process__list_request__descriptor, "{}", "{}"},
        {&process__start_response__descriptor, "{\"event\":{\"keepalive\":{}}}",
         "{\"event\":{\"keepalive\":{}}}"},
        {&process__start_response__descriptor, "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}",
         "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}"},
        {&process__start_response__descriptor, "{\"event\":{\"data\":{\"pty\":\"_-8\"}}}",
         "{\"event\":{\"data\":{\"pty\":\"/+8=\"}}}"},
        {&process__start_response__descriptor, "{\"event\":{\"data\":{\"stderr\":\"\"}}}",
         "{\"event\":{\"data\":{\"stderr\":\"\"}}}"},
        {&process__start_response__descriptor,
         "{\"event\":{\"end\":{\"exit_code\":-1,\"status\":\"signal: killed\"}}}",
         "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\"}}}"},
        {&process__send_signal_request__descriptor,
         "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGKILL\"}",
         "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGKILL\"}"},
        {&process__send_signal_request__descriptor, "{\"process\":{\"tag\":\"\"},\"signal\":2}",
         "{\"process\":{\"tag\":\"\"},\"signal\":2}"},
        {&process__send_signal_request__descriptor, "{\"process\":{\"pid\":\"7\"}}",
         "{\"process\":{\"pid\":7}}"},
        {&process__send_signal_request__descriptor, "{\"process\":{\"pid\":7.0}}",
         "{\"process\":{\"pid\":7}}"},
        {&filesystem__stat_response__descriptor,
         "{\"entry\":{\"name\":\"a\",\"type\":1,\"size\":5,\"mode\":420,"
         "\"modifiedTime\":\"2026-08-01T12:00:00.5+02:00\",\"metadata\":{\"k\":\"v\"}}}",
         "{\"entry\":{\"name\":\"a\",\"type\":\"FILE_TYPE_FILE\",\"size\":\"5\",\"mode\":420,"
         "\"modifiedTime\":\"2026-08-01T10:00:00.500Z\",\"metadata\":{\"k\":\"v\"}}}"},
        {&filesystem__stat_response__descriptor,
         "{\"entry\":{\"size\":\"-9223372036854775808\",\"symlink_target\":\"\"}}",
         "{\"entry\":{\"size\":\"-9223372036854775808\",\"symlinkTarget\":\"\"}}"},
        {&filesystem__stat_response__descriptor,
         "{\"entry\":{\"modifiedTime\":\"1969-12-31T23:59:59.999999999Z\"}}",
         "{\"entry\":{\"modifiedTime\":\"1969-12-31T23:59:59.999999999Z\"}}"},
        {&filesystem__list_dir_response__descriptor, "{\"entries\":[{},{\"name\":\"\\n\"}]}",
         "{\"entries\":[{},{\"name\":\"\\n\"}]}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        assert_string_equal(round_json(rows[i].in, rows[i].d), rows[i].out);
        end();
    }
}

TEST(pbjson_names_the_field_that_it_refuses)
{
    static const struct {
        const ProtobufCMessageDescriptor *d;
        const char *in, *msg;
    } rows[] = {
        {&process__start_request__descriptor, "[]", "message: expected an object"},
        {&process__start_request__descriptor, "{\"process\":{\"cmd\":1}}",
         "process.cmd: expected a string"},
        {&process__start_request__descriptor, "{\"process\":{\"args\":[\"a\",null]}}",
         "process.args[1]: expected a string"},
        {&process__start_request__descriptor, "{\"process\":{\"args\":{}}}",
         "process.args: expected an array"},
        {&process__start_request__descriptor, "{\"process\":{\"envs\":[]}}",
         "process.envs: expected an object"},
        {&process__start_request__descriptor, "{\"process\":{\"envs\":{\"A\":1}}}",
         "process.envs.A: expected a string"},
        {&process__start_request__descriptor, "{\"stdin\":\"false\"}", "stdin: expected a boolean"},
        {&process__send_signal_request__descriptor, "{\"signal\":\"SIGNAL_SIGFOO\"}",
         "signal: unknown value \"SIGNAL_SIGFOO\""},
        {&process__send_signal_request__descriptor, "{\"signal\":[]}",
         "signal: expected a name or a whole number"},
        {&process__send_signal_request__descriptor, "{\"process\":{\"pid\":-1}}",
         "process.pid: -1 is out of range"},
        {&process__send_signal_request__descriptor, "{\"process\":{\"pid\":1.5}}",
         "process.pid: expected a whole number"},
        {&process__send_signal_request__descriptor, "{\"process\":{\"pid\":1,\"tag\":\"x\"}}",
         "process.tag: another member of its oneof is set"},
        {&process__send_input_request__descriptor, "{\"input\":{\"stdin\":\"a\"}}",
         "input.stdin: expected base64 text"},
        {&process__send_input_request__descriptor, "{\"input\":{\"stdin\":\"a b=\"}}",
         "input.stdin: expected base64 text"},
        {&filesystem__stat_response__descriptor, "{\"entry\":{\"modifiedTime\":\"today\"}}",
         "entry.modifiedTime: expected an RFC 3339 time"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        assert_string_equal(round_json(rows[i].in, rows[i].d), rows[i].msg);
        assert_int_equal(fx.err.code, ABX_INVALID_ARGUMENT);
        end();
    }
}

TEST(pbjson_arena_cap_is_an_error)
{
    begin();
    fx.arena.max = 200;
    assert_string_equal(
        round_json("{\"process\":{\"cmd\":\"12345678901234567890123456789012345678901234567890"
                   "1234567890123456789012345678901234567890123456789012345678901234567890\"}}",
                   &process__start_request__descriptor),
        "process.cmd: too large");
    assert_int_equal(fx.err.code, ABX_RESOURCE_EXHAUSTED);
    end();
}

TEST(pbjson_depth_is_capped)
{
    begin();
    struct abx_buf deep;
    abx_buf_init(&deep, 1000);
    abx_buf_put_c(&deep, "{\"other\":");
    for (int i = 0; i < 40; i++)
        abx_buf_put_byte(&deep, '[');
    assert_string_equal(round_json(deep.ptr, &process__list_request__descriptor),
                        "JSON nested deeper than 32 levels");
    abx_buf_done(&deep);
    end();
}

TEST(pbjson_binary_and_json_agree)
{
    begin();
    ProtobufCMessage *m = NULL;
    static const char json[] = "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":true,"
                               "\"status\":\"x\",\"error\":\"y\"}}}";
    assert_int_equal(abx_pb_from_json(ABX_STR(json), &process__start_response__descriptor,
                                      &fx.arena, &m, &fx.err),
                     0);
    uint8_t packed[64];
    static const uint8_t wire[] = {0x0a, 0x0c, 0x1a, 0x0a, 0x08, 0x01, 0x10,
                                   0x01, 0x1a, 0x01, 'x',  0x22, 0x01, 'y'};
    assert_int_equal(protobuf_c_message_pack(m, packed), sizeof(wire));
    assert_memory_equal(packed, wire, sizeof(wire)); /* exit_code is zig-zag: 01 is -1 */
    ProtobufCAllocator allocator = abx_pb_allocator(&fx.arena);
    m = protobuf_c_message_unpack(&process__start_response__descriptor, &allocator, sizeof(wire),
                                  wire);
    assert_non_null(m);
    abx_pb_to_json(m, &fx.out);
    assert_string_equal(fx.out.ptr, json);
    end();
}

TEST(pbjson_leaves_out_a_time_that_has_no_text)
{
    begin();
    Google__Protobuf__Timestamp t = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    t.has_seconds = true;
    t.seconds = INT64_MAX;
    Filesystem__EntryInfo e = FILESYSTEM__ENTRY_INFO__INIT;
    e.modified_time = &t;
    abx_pb_to_json(&e.base, &fx.out);
    assert_string_equal(fx.out.ptr, "{}");
    end();
}

TEST(pbjson_any_failed_allocation_is_reported)
{
    unsigned n = 1;
    for (; abx_alloc_fail(n); n++) {
        ProtobufCMessage *m = NULL;
        begin();
        int rc = abx_pb_from_json(ABX_STR("{\"process\":{\"cmd\":\"x\",\"args\":[\"a\"],\"envs\":"
                                          "{\"k\":\"v\"}},\"stdin\":true}"),
                                  &process__start_request__descriptor, &fx.arena, &m, &fx.err);
        if (rc == 0)
            abx_pb_to_json(m, &fx.out);
        if (abx_alloc_failed())
            assert_true((rc < 0 && fx.err.code == ABX_RESOURCE_EXHAUSTED) ||
                        abx_buf_failed(&fx.out));
        end();
    }
    assert_true(n > 2);
}
