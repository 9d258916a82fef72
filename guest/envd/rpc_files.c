/* guest/envd/rpc_files.c: filesystem.Filesystem: thin over guest/caps/files (envd.md 6). */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/connect/filesystem.pb-c.h"

#include "lib/base/banned.h"

/* One running operation; lives in the call's arena. */
struct call {
    struct abx_rpc *rpc;
    struct abx_files_op *op;
    void (*answer)(struct call *c, Filesystem__EntryInfo **entries, size_t count);
};

static const Filesystem__FileType types[] = {
    [ABX_ENTRY_UNSPECIFIED] = FILESYSTEM__FILE_TYPE__FILE_TYPE_UNSPECIFIED,
    [ABX_ENTRY_FILE] = FILESYSTEM__FILE_TYPE__FILE_TYPE_FILE,
    [ABX_ENTRY_DIRECTORY] = FILESYSTEM__FILE_TYPE__FILE_TYPE_DIRECTORY,
};

static char *text_of(struct abx_arena *a, struct abx_str s)
{
    return s.ptr ? abx_arena_c(a, s) : NULL;
}

struct entry_message {
    Filesystem__EntryInfo info;
    Google__Protobuf__Timestamp mtime;
};

static void set_time(Google__Protobuf__Timestamp *t, int64_t ns)
{
    google__protobuf__timestamp__init(t);
    int64_t seconds = ns / 1000000000, nanos = ns % 1000000000;
    if (nanos < 0) {
        nanos += 1000000000;
        seconds--;
    }
    t->has_seconds = true;
    t->seconds = seconds;
    t->has_nanos = true;
    t->nanos = (int32_t)nanos;
}

static bool set_metadata(struct abx_arena *a, const struct abx_entry *e, Filesystem__EntryInfo *out)
{
    if (e->meta_count == 0)
        return true;
    out->metadata = abx_arena_array(a, e->meta_count, sizeof(*out->metadata));
    Filesystem__MetadataEntry *rows = abx_arena_array(a, e->meta_count, sizeof(*rows));
    bool ok = out->metadata && rows;
    for (size_t i = 0; ok && i < e->meta_count; i++) {
        filesystem__metadata_entry__init(&rows[i]);
        rows[i].key = text_of(a, e->meta[i].key);
        rows[i].value = text_of(a, e->meta[i].value);
        out->metadata[out->n_metadata++] = &rows[i];
        ok = rows[i].key && rows[i].value;
    }
    return ok;
}

struct Filesystem__EntryInfo *abx__entry_message(struct abx_arena *a, const struct abx_entry *e)
{
    struct entry_message *m = abx_arena_alloc(a, sizeof(*m));
    if (m == NULL)
        return NULL;
    filesystem__entry_info__init(&m->info);
    set_time(&m->mtime, e->mtime_ns);
    m->info.name = text_of(a, e->name);
    m->info.path = text_of(a, e->path);
    m->info.has_type = e->type != ABX_ENTRY_UNSPECIFIED;
    m->info.type = types[e->type];
    m->info.has_size = e->size != 0;
    m->info.size = e->size;
    m->info.has_mode = e->mode != 0;
    m->info.mode = e->mode;
    m->info.permissions = text_of(a, abx_str(e->permissions));
    m->info.owner = text_of(a, e->owner);
    m->info.group = text_of(a, e->group);
    m->info.modified_time = &m->mtime;
    m->info.symlink_target = text_of(a, e->symlink_target);
    bool ok = m->info.name && m->info.path && m->info.permissions && m->info.owner &&
              m->info.group && (m->info.symlink_target || !e->symlink_target.ptr) &&
              set_metadata(a, e, &m->info);
    return ok ? &m->info : NULL;
}

static void on_entries(void *arg, const struct abx_entry *entries, size_t count,
                       const struct abx_error *err)
{
    struct call *c = arg;
    struct abx_arena a;
    c->op = NULL; /* it ends by itself */
    if (err) {
        abx_rpc_fail(c->rpc, err);
        return;
    }
    abx_arena_init(&a, 256 << 20); /* ABX_FILES_ENTRIES of them, freed below */
    Filesystem__EntryInfo **messages = abx_arena_array(&a, count + 1, sizeof(*messages));
    bool ok = messages != NULL;
    for (size_t i = 0; ok && i < count; i++)
        ok = (messages[i] = abx__entry_message(&a, &entries[i])) != NULL;
    if (ok)
        c->answer(c, messages, count);
    else
        abx_rpc_failf(c->rpc, ABX_RESOURCE_EXHAUSTED, "the answer is too large: list less depth");
    abx_arena_done(&a);
}

static void on_close(struct abx_rpc *rpc)
{
    struct call *c = abx_rpc_data(rpc);
    abx_files_cancel(c->op);
    c->op = NULL;
}

static struct call *new_call(struct abx_rpc *rpc,
                             void (*answer)(struct call *, Filesystem__EntryInfo **, size_t))
{
    struct call *c = abx_arena_alloc(abx_rpc_arena(rpc), sizeof(*c));
    if (c == NULL) {
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    *c = (struct call){.rpc = rpc, .answer = answer};
    abx_rpc_set_data(rpc, c);
    abx_rpc_on_close(rpc, on_close);
    return c;
}

static struct abx_loop *loop_of(struct abx_rpc *rpc)
{
    return &abx__envd_of(abx_rpc_req(rpc))->loop;
}

/* ---- answers ---- */

static void answer_stat(struct call *c, Filesystem__EntryInfo **entries, size_t count)
{
    Filesystem__StatResponse out = FILESYSTEM__STAT_RESPONSE__INIT;
    ABX_ASSERT(count == 1);
    out.entry = entries[0];
    abx_rpc_send(c->rpc, &out.base);
}

static void answer_mkdir(struct call *c, Filesystem__EntryInfo **entries, size_t count)
{
    Filesystem__MakeDirResponse out = FILESYSTEM__MAKE_DIR_RESPONSE__INIT;
    ABX_ASSERT(count == 1);
    out.entry = entries[0];
    abx_rpc_send(c->rpc, &out.base);
}

static void answer_move(struct call *c, Filesystem__EntryInfo **entries, size_t count)
{
    Filesystem__MoveResponse out = FILESYSTEM__MOVE_RESPONSE__INIT;
    ABX_ASSERT(count == 1);
    out.entry = entries[0];
    abx_rpc_send(c->rpc, &out.base);
}

static void answer_remove(struct call *c, Filesystem__EntryInfo **entries, size_t count)
{
    (void)entries;
    (void)count;
    Filesystem__RemoveResponse out = FILESYSTEM__REMOVE_RESPONSE__INIT;
    abx_rpc_send(c->rpc, &out.base);
}

static void answer_list(struct call *c, Filesystem__EntryInfo **entries, size_t count)
{
    Filesystem__ListDirResponse out = FILESYSTEM__LIST_DIR_RESPONSE__INIT;
    out.entries = entries;
    out.n_entries = count;
    abx_rpc_send(c->rpc, &out.base);
}

/* ---- handlers ---- */

struct work {
    const char *raw_path, *raw_destination;
    uint32_t depth;
    enum abx_files_verb verb;
    void (*answer)(struct call *c, Filesystem__EntryInfo **entries, size_t count);
};

static void serve(struct abx_rpc *rpc, const struct work *w)
{
    char path[ABX_FILES_PATH], destination[ABX_FILES_PATH] = "";
    struct abx_user user;
    struct abx_error err = {0};
    if (abx__rpc_user(rpc, &user) < 0)
        return;
    int rc = abx__rpc_path(rpc, w->raw_path, &user, path);
    if (rc == 0 && w->raw_destination)
        rc = abx__rpc_path(rpc, w->raw_destination, &user, destination);
    struct call *c = rc == 0 ? new_call(rpc, w->answer) : NULL;
    const struct abx_files_request r = {w->verb, path, destination, w->depth, &user, on_entries, c};
    if (c && abx_files_start(loop_of(rpc), &r, &c->op, &err) < 0)
        abx_rpc_fail(rpc, &err);
    abx_user_done(&user);
}

static void stat_one(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__StatRequest *r = (const Filesystem__StatRequest *)in;
    serve(rpc, &(struct work){r->path, NULL, 0, ABX_FILES_STAT, answer_stat});
}

static void make_dir(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__MakeDirRequest *r = (const Filesystem__MakeDirRequest *)in;
    serve(rpc, &(struct work){r->path, NULL, 0, ABX_FILES_MKDIR, answer_mkdir});
}

static void move(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__MoveRequest *r = (const Filesystem__MoveRequest *)in;
    const char *to = r->destination ? r->destination : "";
    serve(rpc, &(struct work){r->source, to, 0, ABX_FILES_MOVE, answer_move});
}

static void remove_tree(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__RemoveRequest *r = (const Filesystem__RemoveRequest *)in;
    serve(rpc, &(struct work){r->path, NULL, 0, ABX_FILES_REMOVE, answer_remove});
}

static void list_dir(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__ListDirRequest *r = (const Filesystem__ListDirRequest *)in;
    serve(rpc, &(struct work){r->path, NULL, r->depth, ABX_FILES_LIST, answer_list});
}

static const struct abx_rpc_method methods[] = {
    {"Stat", ABX_RPC_UNARY, &filesystem__stat_request__descriptor,
     &filesystem__stat_response__descriptor, stat_one},
    {"MakeDir", ABX_RPC_UNARY, &filesystem__make_dir_request__descriptor,
     &filesystem__make_dir_response__descriptor, make_dir},
    {"Move", ABX_RPC_UNARY, &filesystem__move_request__descriptor,
     &filesystem__move_response__descriptor, move},
    {"Remove", ABX_RPC_UNARY, &filesystem__remove_request__descriptor,
     &filesystem__remove_response__descriptor, remove_tree},
    {"ListDir", ABX_RPC_UNARY, &filesystem__list_dir_request__descriptor,
     &filesystem__list_dir_response__descriptor, list_dir},
    {"WatchDir", ABX_RPC_SERVER_STREAM, &filesystem__watch_dir_request__descriptor,
     &filesystem__watch_dir_response__descriptor, abx__watch_dir},
    {"CreateWatcher", ABX_RPC_UNARY, &filesystem__create_watcher_request__descriptor,
     &filesystem__create_watcher_response__descriptor, abx__create_watcher},
    {"GetWatcherEvents", ABX_RPC_UNARY, &filesystem__get_watcher_events_request__descriptor,
     &filesystem__get_watcher_events_response__descriptor, abx__get_watcher_events},
    {"RemoveWatcher", ABX_RPC_UNARY, &filesystem__remove_watcher_request__descriptor,
     &filesystem__remove_watcher_response__descriptor, abx__remove_watcher},
    {0}};
const struct abx_rpc_service abx__filesystem_service = {.path = "/filesystem.Filesystem/",
                                                        .methods = methods};
