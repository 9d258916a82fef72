/* host/image/base.c: the official names of base images, and the recipes of the local stand-ins
 * (base-image.md 4, decisions "Base images"). Pure. */
#include "host/image/base.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include <sodium.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { COMMAND_BYTES = 16 * 1024 };

#define SUITE "trixie"
/* Timestamps of the image: the same inputs give the same digest. */
#define EPOCH "SOURCE_DATE_EPOCH=1767225600"

#define PACKAGES_BASE                                                                              \
    "bash,coreutils,ca-certificates,curl,git,iproute2,procps,python3,python-is-python3,"           \
    "python3-pip,python3-venv,sudo,tzdata"
static const char packages_base[] = PACKAGES_BASE;
/* What the kernels of the code interpreter use where they find it. */
static const char packages_interpreter[] = PACKAGES_BASE
    ",nodejs,esbuild,python3-ipython,python3-numpy,python3-pandas,python3-matplotlib,python3-pil,"
    "fonts-wqy-microhei";

/* Run in the new root by mmdebstrap, in this order. `user` may use sudo without a password. */
static const char *const hooks[] = {
    "chroot \"$1\" useradd --create-home --shell /bin/bash --uid 1000 --user-group user",
    "printf 'user ALL=(ALL:ALL) NOPASSWD: ALL\\n' > \"$1/etc/sudoers.d/90-user\"",
    "chmod 0440 \"$1/etc/sudoers.d/90-user\"",
    ": > \"$1/etc/machine-id\"",
    "rm -f \"$1/etc/resolv.conf\" \"$1/etc/hostname\" \"$1/etc/ssh/\"ssh_host_*",
    "rm -rf \"$1/var/log/\"*.log \"$1/var/cache/ldconfig/\"* \"$1/var/lib/apt/lists/\"*",
    NULL,
};

/* Of Chinese, Japanese and Korean: matplotlib takes a glyph that one font lacks from the next. */
static const char hook_fonts[] =
    "printf 'font.family: DejaVu Sans, WenQuanYi Micro Hei\\n' >> \"$1/etc/matplotlibrc\"";

static const struct recipe {
    const char *name, *packages;
    const char *own_hook; /* after those of all; NULL: none */
} recipes[] = {
    {"base", packages_base, NULL},
    {"code-interpreter-v1", packages_interpreter, hook_fonts},
};

const char *const abx_base_environment[] = {EPOCH, NULL};

static const struct recipe *find(struct abx_str name)
{
    for (size_t i = 0; i < ABX_COUNTOF(recipes); i++)
        if (abx_str_is(name, recipes[i].name))
            return &recipes[i];
    return NULL;
}

bool abx_base_is_known(const char *name)
{
    return find(abx_str(name)) != NULL;
}

/* ---- names ---- */
static bool is_label(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!((s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || (s.ptr[i] >= '0' && s.ptr[i] <= '9') ||
              s.ptr[i] == '-'))
            return false;
    return s.len > 0 && s.len <= 63;
}

/* "v0.0.N" */
static bool is_tag(struct abx_str s)
{
    uint32_t n;
    return abx_str_starts(s, "v0.0.") && abx_parse_u32(abx_str_sub(s, 5, s.len), &n) == 0;
}

bool abx_base_match(struct abx_str from, const char **ret_name, struct abx_str *ret_tag)
{
    static const char prefix[] = "fc-e2b-registry.", middle[] = ".cr.aliyuncs.com/runtime/";
    if (!abx_str_starts(from, prefix))
        return false;
    struct abx_str rest = abx_str_sub(from, sizeof(prefix) - 1, from.len), name;
    ptrdiff_t at = abx_str_find(rest, abx_str(middle));
    if (at <= 0 || !is_label(abx_str_sub(rest, 0, (size_t)at)))
        return false;
    rest = abx_str_sub(rest, (size_t)at + sizeof(middle) - 1, rest.len);
    if (!abx_str_split(&rest, ':', &name) || !is_tag(rest))
        return false;
    const struct recipe *r = find(name);
    if (r == NULL)
        return false;
    *ret_name = r->name;
    *ret_tag = rest;
    return true;
}

void abx_base_describe(const char *name, const char *tag, char out[128])
{
    snprintf(out, 128, "base: stand-in for runtime/%.40s:%.40s", name, tag);
}

/* ---- recipes ---- */
static void add(struct abx_base_command *c, size_t *count, const char *fmt, const char *value)
{
    size_t at = c->memory.len;
    if (*count + 1 >= ABX_BASE_ARGV_MAX) {
        c->memory.failed = true;
        return;
    }
    abx_buf_put_c(&c->memory, fmt);
    abx_buf_put_c(&c->memory, value);
    abx_buf_put_byte(&c->memory, 0);
    c->argv[(*count)++] = abx_buf_failed(&c->memory) ? NULL : c->memory.ptr + at;
}

int abx_base_command(const char *name, bool is_root, const char *output,
                     struct abx_base_command *ret, struct abx_error *err)
{
    const struct recipe *r = find(abx_str(name));
    size_t count = 0;
    if (r == NULL)
        return abx_err_set(
            err, ABX_NOT_FOUND,
            "no recipe for an image \"%.60s\": base and code-interpreter-v1 are known", name);
    *ret = (struct abx_base_command){0};
    abx_buf_init(&ret->memory, COMMAND_BYTES);
    /* All of it at once, so that pointers into it stay good. */
    if (abx_buf_room(&ret->memory, COMMAND_BYTES - 1) == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    add(ret, &count, "mmdebstrap", "");
    add(ret, &count, "--mode=", is_root ? "root" : "unshare");
    add(ret, &count, "--variant=", "minbase");
    add(ret, &count, "--format=", "tar");
    add(ret, &count, "--architectures=", "amd64");
    add(ret, &count, "--skip=", "output/dev"); /* devices are refused in layers (S53) */
    add(ret, &count, "--include=", r->packages);
    for (const char *const *hook = hooks; *hook != NULL; hook++)
        add(ret, &count, "--customize-hook=", *hook);
    if (r->own_hook != NULL)
        add(ret, &count, "--customize-hook=", r->own_hook);
    add(ret, &count, "", SUITE);
    add(ret, &count, "", output);
    ret->argv[count] = NULL;
    if (abx_buf_failed(&ret->memory)) {
        abx_base_command_done(ret);
        return abx_err_set(err, ABX_INTERNAL, "the recipe is too long");
    }
    return 0;
}

void abx_base_command_done(struct abx_base_command *c)
{
    abx_buf_done(&c->memory);
}

int abx_base_recipe(const char *name, char ret_hash[65])
{
    const struct recipe *r = find(abx_str(name));
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state h;
    if (r == NULL)
        return -1;
    const char *const parts[] = {"abx-base-1", SUITE, EPOCH, r->name, r->packages};
    crypto_hash_sha256_init(&h);
    for (size_t i = 0; i < ABX_COUNTOF(parts); i++)
        crypto_hash_sha256_update(&h, (const unsigned char *)parts[i], strlen(parts[i]) + 1);
    for (const char *const *hook = hooks; *hook != NULL; hook++)
        crypto_hash_sha256_update(&h, (const unsigned char *)*hook, strlen(*hook) + 1);
    if (r->own_hook != NULL)
        crypto_hash_sha256_update(&h, (const unsigned char *)r->own_hook, strlen(r->own_hook) + 1);
    crypto_hash_sha256_final(&h, digest);
    abx_hex_encode(digest, sizeof(digest), ret_hash);
    return 0;
}
