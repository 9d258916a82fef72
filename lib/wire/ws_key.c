/* lib/wire/ws_key.c: the handshake's key (RFC 6455 4.2.2), with the SHA-1 that it asks for (FIPS
 * 180-4). Not for anything that must be secret or unforgeable. */
#include "lib/wire/ws.h"

#include "lib/base/parse.h"

#include "lib/base/banned.h"

enum { BLOCK = 64, DIGEST = 20, ROUNDS = 80, MESSAGE_MAX = 2 * BLOCK };

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static uint32_t mix(int round, const uint32_t s[5])
{
    static const uint32_t constants[] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
    uint32_t b = s[1], c = s[2], d = s[3], k = constants[round / 20];
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + k;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + k;
    default:
        return (b ^ c ^ d) + k;
    }
}

static void take_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[ROUNDS], s[5];
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < ROUNDS; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t t = rotate(s[0], 5) + mix(i, s) + s[4] + w[i];
        s[4] = s[3];
        s[3] = s[2];
        s[2] = rotate(s[1], 30);
        s[1] = s[0];
        s[0] = t;
    }
    for (int i = 0; i < 5; i++)
        state[i] += s[i];
}

/* @len fits into two blocks with what is added. */
static void sha1(const char *data, size_t len, unsigned char out[DIGEST])
{
    uint32_t state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    unsigned char message[MESSAGE_MAX] = {0};
    size_t total = len + 9 <= BLOCK ? BLOCK : MESSAGE_MAX;
    memcpy(message, data, len);
    message[len] = 0x80;
    for (size_t i = 0; i < 8; i++)
        message[total - 1 - i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    for (size_t at = 0; at < total; at += BLOCK)
        take_block(state, message + at);
    for (size_t i = 0; i < DIGEST; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

bool abx_ws_is_key(struct abx_str key)
{
    char bytes[32];
    struct abx_buf out = {.ptr = bytes, .cap = sizeof(bytes), .max = sizeof(bytes) - 1};
    return key.len == ABX_WS_KEY_TEXT && abx_base64_decode(key, &out) == 0 && out.len == 16;
}

void abx_ws_accept(struct abx_str key, char out[ABX_WS_ACCEPT_TEXT + 1])
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[ABX_WS_KEY_TEXT + sizeof(magic)] = "";
    unsigned char digest[DIGEST];
    struct abx_buf accept = {.ptr = out, .cap = ABX_WS_ACCEPT_TEXT + 1, .max = ABX_WS_ACCEPT_TEXT};
    size_t n = key.len < ABX_WS_KEY_TEXT ? key.len : ABX_WS_KEY_TEXT;
    memcpy(text, key.ptr, n);
    memcpy(text + n, magic, sizeof(magic) - 1);
    sha1(text, n + sizeof(magic) - 1, digest);
    abx_base64_encode(digest, sizeof(digest), true, &accept);
    out[ABX_WS_ACCEPT_TEXT] = '\0';
}
