/* lib/wire/ws_test.c: frames read at every split, written and read back, the handshake's key. */
#include "lib/base/assert.h"
#include "lib/wire/ws.h"
#include "tests/unit/test.h"

/* Reads @bytes in two parts: "T:text;" for each message, "!code" for an error. */
static void collect(struct abx_str all, size_t split, bool is_server, struct abx_buf *out)
{
    struct abx_ws_parser p;
    struct abx_ws_message m;
    enum abx_ws_event e = ABX_WS_MORE;
    abx_ws_parser_init(&p, is_server, 300);
    for (int part = 0; part < 2 && e != ABX_WS_ERROR; part++) {
        struct abx_str in = part ? abx_str_sub(all, split, all.len) : abx_str_sub(all, 0, split);
        while ((e = abx_ws_parse(&p, &in, &m, NULL)) == ABX_WS_MESSAGE) {
            abx_buf_putf(out, "%c:%.*s", ".TB.....CIO"[m.opcode], ABX_STR_FMT(m.data));
            if (m.opcode == ABX_WS_CLOSE)
                abx_buf_putf(out, "(%u)", m.code);
            abx_buf_put_byte(out, ';');
        }
        if (e == ABX_WS_ERROR)
            abx_buf_putf(out, "!%u", p.close_code);
        else
            assert_int_equal(in.len, 0);
    }
    abx_ws_parser_done(&p);
}

#define B(text) text, sizeof(text) - 1
static const struct {
    const char *bytes;
    size_t len;
    const char *want;
} rows[] = {
    /* from a server */
    {B("\x81\x05Hello"), "T:Hello;"},
    {B("\x01\x03Hel\x80\x02lo"), "T:Hello;"},
    {B("\x01\x03Hel\x89\x01p\x8A\x00\x80\x02lo\x82\x01x"), "I:p;O:;T:Hello;B:x;"},
    {B("\x81\x00\x82\x00"), "T:;B:;"},
    {B("\x88\x00"), "C:(1005);"},
    {B("\x88\x02\x03\xE8"), "C:(1000);"},
    {B("\x88\x05\x0F\xA1"
       "bye"),
     "C:bye(4001);"},
    {B("\x81\x02\xC3\xA9\x01\x01\xC3\x80\x01\xA9"), "T:\xC3\xA9;T:\xC3\xA9;"},
    /* refused */
    {B("\x88\x01\x03"), "!1002"},
    {B("\x88\x02\x03\xED"), "!1002"}, /* 1005 */
    {B("\x88\x02\x27\x10"), "!1002"}, /* 10000 */
    {B("\x88\x03\x03\xE8\xFF"), "!1007"},
    {B("\x81\x01\xFF"), "!1007"},
    {B("\xC1\x00"), "!1002"},     /* a reserved bit */
    {B("\x83\x00"), "!1002"},     /* an unknown opcode */
    {B("\x8B\x00"), "!1002"},     /* the same, of a control frame */
    {B("\x09\x00"), "!1002"},     /* a ping in parts */
    {B("\x89\x7E\x00"), "!1002"}, /* a long ping */
    {B("\x80\x00"), "!1002"},     /* a continuation of nothing */
    {B("\x01\x00\x81\x00"), "!1002"},
    {B("\x81\x7E\x00\x05Hello"), "!1002"}, /* a length that is longer than it need be */
    {B("\x81\x7F\x00\x00\x00\x00\x00\x00\x01\x00"), "!1002"},
    {B("\x81\x7F\x80\x00\x00\x00\x00\x00\x00\x00"), "!1002"},
    {B("\x82\x7E\x01\x2D"), "!1009"}, /* 301 bytes */
    {B("\x82\x7F\x00\x00\x00\x00\x00\x01\x00\x00"), "!1009"},
    {B("\x81\x85\x00\x00\x00\x00Hello"), "!1002"}, /* masked */
};

TEST(frames_of_a_server_are_read_at_every_split)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        for (size_t split = 0; split <= rows[i].len; split++) {
            ABX_AUTO_BUF got;
            abx_buf_init(&got, 4096);
            collect(abx_str_n(rows[i].bytes, rows[i].len), split, false, &got);
            assert_string_equal(got.ptr ? got.ptr : "", rows[i].want);
        }
}

TEST(frames_of_a_client_are_unmasked)
{
    static const char bytes[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58" /* RFC 6455 5.7 */
                                "\x89\x80\x01\x02\x03\x04\x82\x83\x01\x02\x03\x04\x60\x60\x60";
    for (size_t split = 0; split < sizeof(bytes); split++) {
        ABX_AUTO_BUF got;
        abx_buf_init(&got, 4096);
        collect(abx_str_n(bytes, sizeof(bytes) - 1), split, true, &got);
        assert_string_equal(got.ptr, "T:Hello;I:;B:abc;");
    }
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 4096);
    collect(ABX_STR("\x81\x05Hello"), 0, true, &got);
    assert_string_equal(got.ptr, "!1002");
}

TEST(what_is_written_reads_back_whatever_its_length)
{
    static const size_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, 70000};
    static const unsigned char mask[] = {1, 2, 3, 4};
    static char data[70000];
    memset(data, 'x', sizeof(data));
    for (size_t i = 0; i < ABX_COUNTOF(lengths) * 2; i++) {
        bool is_masked = i % 2;
        struct abx_ws_parser p;
        struct abx_ws_message m;
        ABX_AUTO_BUF out;
        abx_buf_init(&out, 1 << 20);
        abx_ws_write(&out, ABX_WS_BINARY, abx_str_n(data, lengths[i / 2]), is_masked ? mask : NULL);
        struct abx_str in = abx_buf_str(&out);
        abx_ws_parser_init(&p, is_masked, sizeof(data));
        assert_int_equal(abx_ws_parse(&p, &in, &m, NULL), ABX_WS_MESSAGE);
        assert_int_equal(in.len, 0);
        assert_true(abx_str_eq(m.data, abx_str_n(data, lengths[i / 2])));
        abx_ws_parser_done(&p);
    }
}

TEST(a_close_frame_keeps_whole_characters_of_its_reason)
{
    char reason[200];
    for (size_t i = 0; i < sizeof(reason); i += 2)
        memcpy(reason + i, "\xC3\xA9", 2);
    struct abx_ws_parser p;
    struct abx_ws_message m;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1024);
    abx_ws_write_close(&out, ABX_WS_POLICY, abx_str_n(reason, sizeof(reason)), NULL);
    abx_ws_write_close(&out, ABX_WS_NO_CODE, ABX_STR("unsaid"), NULL);
    struct abx_str in = abx_buf_str(&out);
    abx_ws_parser_init(&p, false, 10);
    assert_int_equal(abx_ws_parse(&p, &in, &m, NULL), ABX_WS_MESSAGE);
    assert_int_equal(m.code, ABX_WS_POLICY);
    assert_int_equal(m.data.len, 122);
    assert_int_equal(abx_ws_parse(&p, &in, &m, NULL), ABX_WS_MESSAGE);
    assert_int_equal(m.code, ABX_WS_NO_CODE);
    abx_ws_parser_done(&p);
}

TEST(the_handshake_key_is_answered)
{
    char accept[ABX_WS_ACCEPT_TEXT + 1];
    abx_ws_accept(ABX_STR("dGhlIHNhbXBsZSBub25jZQ=="), accept); /* RFC 6455 1.3 */
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_true(abx_ws_is_key(ABX_STR("dGhlIHNhbXBsZSBub25jZQ==")));
    assert_false(abx_ws_is_key(ABX_STR("dGhlIHNhbXBsZSBub25jZQ=")));
    assert_false(abx_ws_is_key(ABX_STR("dGhlIHNhbXBsZSBub25jZTEy")));
    assert_false(abx_ws_is_key(ABX_STR("!!!!IHNhbXBsZSBub25jZQ==")));
    assert_false(abx_ws_is_key(ABX_STR("")));
}
