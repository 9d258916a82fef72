/* lib/http/proxy_tunnel.c: after a 101: two streams, bytes both ways, half-close passed on.
 * Loop thread. */
#include "lib/http/proxy_priv.h"

#include "lib/base/banned.h"

enum { FLUSH_MS = 30000 };

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx__side *side = s->owner;
    if (side->other->stream && !abx_stream_write(side->other->stream, data, len))
        abx_stream_pause(s);
}

static void on_drain(struct abx_stream *s)
{
    struct abx__side *side = s->owner;
    if (side->other->stream)
        abx_stream_resume(side->other->stream);
}

static void close_both(struct abx__exchange *x)
{
    if (x->client.stream)
        abx_stream_close_after_flush(x->client.stream, FLUSH_MS);
    if (x->server.stream)
        abx_stream_close_after_flush(x->server.stream, FLUSH_MS);
}

static void on_end(struct abx_stream *s, int err)
{
    struct abx__side *side = s->owner;
    if (err < 0) {
        abx__exchange_cut_tunnel(side->x);
        return;
    }
    side->ended = true;
    if (side->other->ended)
        close_both(side->x);
    else if (side->other->stream)
        abx_stream_shutdown(side->other->stream);
}

static void on_client_closed(struct abx_stream *s)
{
    struct abx__side *side = s->owner;
    side->stream = NULL; /* the request's on_close follows and drops its reference */
    if (side->other->stream)
        abx_stream_close_after_flush(side->other->stream, FLUSH_MS);
}

static void on_server_closed(struct abx_stream *s)
{
    struct abx__side *side = s->owner;
    side->stream = NULL;
    if (side->other->stream)
        abx_stream_close_after_flush(side->other->stream, FLUSH_MS);
    abx__exchange_unref(side->x);
}

static const struct abx_stream_ops client_ops = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .on_closed = on_client_closed};
static const struct abx_stream_ops server_ops = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .on_closed = on_server_closed};

void abx__exchange_start_tunnel(struct abx__exchange *x)
{
    x->is_tunnel = true;
    x->refs++;
    x->client = (struct abx__side){.x = x, .other = &x->server};
    x->server = (struct abx__side){.x = x, .other = &x->client};
    struct abx_http_call *call = x->call;
    x->call = NULL;
    x->server.stream = abx_http_call_take_stream(call, &server_ops, &x->server);
    x->client.stream = abx_http_take_stream(x->req, &client_ops, &x->client);
    abx_stream_resume(x->server.stream);
    abx_stream_resume(x->client.stream);
}

void abx__exchange_cut_tunnel(struct abx__exchange *x)
{
    if (x->client.stream)
        abx_stream_reset(x->client.stream);
    if (x->server.stream)
        abx_stream_reset(x->server.stream);
}
