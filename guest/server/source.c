/* guest/server/source.c: where the policy document comes from. policy.md A1, server.md 1. */
#include "guest/server/source.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

enum { DOCUMENT_MAX = 4 << 20, UPLOAD_CAP = 104857600 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int read_file(struct abx__source *s, const char *path, struct abx_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct abx_str name = abx_str(path);
    if (abx_str_ends(name, ".yaml") || abx_str_ends(name, ".yml"))
        return abx_err_set(err, ABX_UNIMPLEMENTED,
                           "%s: YAML documents are not built yet; write it as JSON", path);
    int rc = abx_fd_read_file(AT_FDCWD, path, DOCUMENT_MAX, &text, &len);
    if (rc < 0)
        return abx_err_sys(err, rc, "%s", path);
    s->text = (struct abx_buf){.ptr = text, .len = len, .cap = len + 1, .max = DOCUMENT_MAX};
    s->has_text = true;
    s->origin = path;
    return 0;
}

static int take_text(struct abx__source *s, const char *text, const char *origin)
{
    abx_buf_init(&s->text, DOCUMENT_MAX);
    abx_buf_put_c(&s->text, text);
    s->has_text = true;
    s->origin = origin;
    return abx_buf_failed(&s->text) ? -1 : 0;
}

static bool is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int abx__source_read(const char *policy_file, const char *preset, struct abx__source *ret,
                     struct abx_error *err)
{
    const char *value;
    *ret = (struct abx__source){.origin = "none", .preset = abx_str(preset)};
    if (policy_file)
        return read_file(ret, policy_file, err);
    if (preset) {
        ret->origin = "--preset";
        return 0;
    }
    if ((value = variable(ABX_ENV_SERVER_POLICY)) != NULL) {
        if (take_text(ret, value, ABX_ENV_SERVER_POLICY) < 0)
            return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "%s: too large", ABX_ENV_SERVER_POLICY);
        return 0;
    }
    if ((value = variable(ABX_ENV_SERVER_POLICY_FILE)) != NULL)
        return read_file(ret, value, err);
    if (is_regular(ABX_SERVER_POLICY_PATH))
        return read_file(ret, ABX_SERVER_POLICY_PATH, err);
    return 0;
}

void abx__source_done(struct abx__source *s)
{
    abx_buf_done(&s->text);
}

static const char *look_up(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

struct abx_policy_facts abx__source_facts(const struct abx__source *s)
{
    uint64_t cap = UPLOAD_CAP;
    const char *text = variable("ABX_MAX_UPLOAD_SIZE");
    if (text == NULL || abx_parse_u64(abx_str(text), &cap) < 0)
        cap = UPLOAD_CAP;
    return (struct abx_policy_facts){
        .text = abx_buf_str(&s->text),
        .has_text = s->has_text,
        .preset = s->preset,
        .enabled_groups = abx_str(variable("ABX_SERVER_ENABLED_GROUPS")),
        .base_dir = abx_str(variable(ABX_ENV_SERVER_BASE_DIR)),
        .getenv = look_up,
        .upload_cap = cap,
    };
}

void abx__source_print_errors(const struct abx_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct abx_finding *f = &r->items[i];
        if (f->kind == ABX_FINDING_WARNING)
            continue;
        fprintf(stderr, "%s error: %s%s%s",
                f->kind == ABX_FINDING_DOCUMENT ? "policy" : "configuration",
                f->place ? f->place : "", f->place ? ": " : "", f->text);
        if (f->line)
            fprintf(stderr, " (line %u, column %u)", f->line, f->column);
        fputc('\n', stderr);
    }
}
