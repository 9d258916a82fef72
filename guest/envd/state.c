/* guest/envd/state.c: provisioning: what /init sets, kept over restarts in a sealed memfd (S41).
 *
 * A state is made whole and replaces the earlier one; the memfd holds it as JSON and is read by the
 * next envd only. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct init_body {
    struct abx_str token, timestamp, default_user, default_workdir, events_ip;
    bool has_token;
    struct abx_json_map envs;
};
static const struct abx_json_field init_fields[] = {
    {"accessToken", ABX_JSON_STR, offsetof(struct init_body, token),
     .has_offset = offsetof(struct init_body, has_token)},
    {"timestamp", ABX_JSON_STR, offsetof(struct init_body, timestamp)},
    {"defaultUser", ABX_JSON_STR, offsetof(struct init_body, default_user)},
    {"defaultWorkdir", ABX_JSON_STR, offsetof(struct init_body, default_workdir)},
    {"hyperloopIP", ABX_JSON_STR, offsetof(struct init_body, events_ip)},
    {"envVars", ABX_JSON_MAP, offsetof(struct init_body, envs)},
    {0}};

#define EVENTS_ADDRESS "E2B_EVENTS_ADDRESS"

/* Once set they stay: a later init carries the caller's variables only. */
static const char *const reserved_envs[] = {"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID",
                                            EVENTS_ADDRESS};

void abx__state_init(struct abx__state *s)
{
    *s = (struct abx__state){.default_user = ABX_STR("root"), .default_workdir = ABX_STR("")};
    abx_arena_init(&s->arena, ABX__STATE_MAX * 2);
}

void abx__state_done(struct abx__state *s)
{
    abx_arena_done(&s->arena);
}

bool abx__secret_eq(struct abx_str a, struct abx_str b)
{
    unsigned char one[crypto_hash_sha256_BYTES], two[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(one, (const unsigned char *)a.ptr, a.len);
    crypto_hash_sha256(two, (const unsigned char *)b.ptr, b.len);
    return sodium_memcmp(one, two, sizeof(one)) == 0;
}

const char *abx__state_refusal(const struct abx__state *now, struct abx_str body_token,
                               struct abx_str header_token)
{
    if (now->token.ptr == NULL)
        return NULL;
    if (header_token.len && abx__secret_eq(header_token, now->token))
        return NULL;
    if (body_token.len == 0)
        return "access token reset not authorized";
    if (!abx__secret_eq(body_token, now->token))
        return "access token validation failed";
    return NULL;
}

void abx__state_without_user(struct abx__state *s, const char *users_root)
{
    struct abx_user user;
    if (!abx_str_is(s->default_user, ABX_USER_NAME))
        return;
    if (abx_user_by_name(users_root, s->default_user, &user, NULL) == 0) {
        abx_user_done(&user);
        return;
    }
    s->default_user = ABX_STR("root");
    if (abx_str_is(s->default_workdir, ABX_USER_HOME))
        s->default_workdir = ABX_STR("");
}

static bool is_reserved(struct abx_str name)
{
    for (size_t i = 0; i < ABX_COUNTOF(reserved_envs); i++)
        if (abx_str_is(name, reserved_envs[i]))
            return true;
    return false;
}

static const struct abx_env_pair *find_env(const struct abx__state *s, struct abx_str name)
{
    for (size_t i = 0; i < s->env_count; i++)
        if (abx_str_eq(s->envs[i].name, name))
            return &s->envs[i];
    return NULL;
}

static int add_env(struct abx__state *s, struct abx_str name, struct abx_str value)
{
    struct abx_env_pair pair = {abx_arena_str(&s->arena, name), abx_arena_str(&s->arena, value)};
    if (pair.name.ptr == NULL || pair.value.ptr == NULL)
        return -1;
    s->envs[s->env_count++] = pair;
    return 0;
}

/* Where the events service is, for the programs that ask the environment: the platform's to say. */
static int add_events_address(struct abx__state *s, struct abx_str ip, struct abx_error *err)
{
    union abx_address a;
    if (ip.len == 0)
        return 0;
    if (abx__hosts_check(ip, &a, err) < 0)
        return -1;
    const char *url = abx_arena_printf(
        &s->arena, a.any.sa_family == AF_INET6 ? "http://[%.*s]" : "http://%.*s", ABX_STR_FMT(ip));
    if (url == NULL || add_env(s, ABX_STR(EVENTS_ADDRESS), abx_str(url)) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "hyperloopIP: out of memory");
    return 0;
}

static int copy_envs(const struct abx__state *now, const struct abx_json_map *given,
                     struct abx__state *next, struct abx_error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < now->env_count; i++)
        if (is_reserved(now->envs[i].name) && !find_env(next, now->envs[i].name))
            ok = add_env(next, now->envs[i].name, now->envs[i].value) == 0;
    for (size_t i = 0; ok && i < given->count; i++) {
        const struct abx_json_pair *p = &given->pairs[i];
        if (p->key.len == 0 || abx_str_chr(p->key, '=') >= 0)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "envVars: a name is empty or has a '='");
        if (!is_reserved(p->key) || !find_env(next, p->key))
            ok = add_env(next, p->key, p->value) == 0;
    }
    return ok ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "envVars: too large");
}

/* @given over @present; an empty one changes nothing. */
static struct abx_str pick(struct abx__state *next, struct abx_str given, struct abx_str present)
{
    return abx_arena_str(&next->arena, given.len ? given : present);
}

static int fill(const struct abx__state *now, const struct init_body *b, struct abx__state *next,
                struct abx_error *err)
{
    if (b->token.len > ABX__TOKEN_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "accessToken: longer than %d bytes",
                           (int)ABX__TOKEN_MAX);
    if (b->token.len)
        next->token = abx_arena_str(&next->arena, b->token);
    next->default_user = pick(next, b->default_user, now->default_user);
    next->default_workdir = pick(next, b->default_workdir, now->default_workdir);
    if ((b->token.len && next->token.ptr == NULL) || next->default_user.ptr == NULL ||
        next->default_workdir.ptr == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    next->is_provisioned = true;
    next->envs =
        abx_arena_array(&next->arena, now->env_count + b->envs.count + 2, sizeof(*next->envs));
    if (next->envs == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "envVars: too large");
    if (add_events_address(next, b->events_ip, err) < 0)
        return -1;
    return copy_envs(now, &b->envs, next, err);
}

int abx__state_next(const struct abx__state *now, struct abx_str body, struct abx__state *ret_next,
                    bool *ret_stale, struct abx_error *err)
{
    struct init_body b = {0};
    struct abx_arena scratch;
    struct abx__state next;
    abx_arena_init(&scratch, ABX__STATE_MAX);
    abx__state_init(&next);
    next.timestamp_ns = now->timestamp_ns;
    int rc = abx_json_decode_text(body, true, init_fields, &b, &scratch, err);
    int64_t at = 0;
    if (rc == 0 && b.timestamp.len && abx_time_parse(b.timestamp, &at) < 0)
        rc = abx_err_set(err, ABX_INVALID_ARGUMENT, "timestamp: expected an RFC 3339 time");
    *ret_stale = rc == 0 && b.timestamp.len && now->timestamp_ns && at <= now->timestamp_ns;
    if (rc == 0 && !*ret_stale) {
        next.timestamp_ns = b.timestamp.len ? at : now->timestamp_ns;
        rc = fill(now, &b, &next, err);
    }
    abx_arena_done(&scratch);
    if (rc < 0 || *ret_stale)
        abx__state_done(&next);
    else
        *ret_next = next;
    return rc;
}

static void write_state(const struct abx__state *s, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    if (s->token.ptr)
        abx_json_kv_str(&w, "accessToken", s->token);
    if (s->timestamp_ns) {
        char text[ABX_TIME_TEXT];
        abx_time_format(s->timestamp_ns, 9, text);
        abx_json_kv_c(&w, "timestamp", text);
    }
    abx_json_kv_str(&w, "defaultUser", s->default_user);
    abx_json_kv_str(&w, "defaultWorkdir", s->default_workdir);
    abx_json_key(&w, ABX_STR("envVars"));
    abx_json_begin_object(&w);
    for (size_t i = 0; i < s->env_count; i++) {
        abx_json_key(&w, s->envs[i].name);
        abx_json_str(&w, s->envs[i].value);
    }
    abx_json_end_object(&w);
    abx_json_end_object(&w);
}

int abx__state_seal(const struct abx__state *s, struct abx_error *err)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX__STATE_MAX);
    write_state(s, &text);
    if (abx_buf_failed(&text))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "provisioning of more than %d bytes",
                           (int)ABX__STATE_MAX);
    ABX_AUTO_FD fd = memfd_create("envd-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return abx_err_sys(err, -errno, "memfd");
    int rc = abx_fd_write_all(fd, text.ptr, text.len);
    if (rc < 0)
        return abx_err_sys(err, rc, "memfd");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return abx_err_sys(err, -errno, "memfd seals");
    return abx_fd_take(&fd);
}

int abx__state_unseal(int fd, struct abx__state *ret, struct abx_error *err)
{
    struct abx__state nothing;
    struct stat st;
    bool stale;
    if (fstat(fd, &st) < 0)
        return abx_err_sys(err, -errno, "provisioning");
    if (st.st_size <= 0 || st.st_size > ABX__STATE_MAX)
        return abx_err_set(err, ABX_DATA_LOSS, "provisioning of %lld bytes", (long long)st.st_size);
    size_t size = (size_t)st.st_size, have = 0;
    ABX_AUTO_FREE char *text = malloc(size);
    while (text && have < size) {
        ssize_t n = pread(fd, text + have, size - have, (off_t)have);
        if (n <= 0)
            return abx_err_sys(err, n < 0 ? -errno : -EIO, "provisioning");
        have += (size_t)n;
    }
    if (text == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    abx__state_init(&nothing);
    if (abx__state_next(&nothing, abx_str_n(text, size), ret, &stale, err) < 0)
        return abx_err_wrap(err, "provisioning");
    return 0;
}
