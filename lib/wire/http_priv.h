/* lib/wire/http_priv.h: what the head decoder and the state machine of the HTTP parser share. */
#pragma once
#include "lib/wire/http.h"

/* Why a message is refused: the status to answer and a text; text NULL means accepted. */
struct abx__http_why {
    int status;
    const char *text;
};

bool abx__http_is_token(struct abx_str s);
/** Whether @s may stand in a header value: no control byte but HTAB. */
bool abx__http_is_value(struct abx_str s);
bool abx__http_is_token_byte(char c);
bool abx__http_is_value_byte(char c);
/** Visible ASCII. */
bool abx__http_is_target_byte(char c);
/** Parses lines that all end with CR LF (no empty one) into @out, an array of abx_http_header. */
struct abx__http_why abx__http_fields(struct abx_str lines, struct abx_buf *out);
/** Parses the complete head in p->line into p->head. */
struct abx__http_why abx__http_decode_head(struct abx_http_parser *p);
