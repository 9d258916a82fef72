/* guest/caps/users.c: /etc/passwd and /etc/group without NSS (envd.md 1.3, 5.3, 6.2). Any thread.
 */
#include "guest/caps/users.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { FILE_MAX = 4 * 1024 * 1024, FIELDS = 7 };

/* One line of either file, cut at its colons. */
struct line {
    struct abx_str field[FIELDS];
    size_t count;
};

static int read_etc(const char *root, const char *name, char **ret_text, struct abx_str *ret,
                    struct abx_error *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/etc/%s", root, name) >= (int)sizeof(path))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%s/etc/%s: path too long", root, name);
    int rc = abx_fd_read_file(AT_FDCWD, path, FILE_MAX, ret_text, &ret->len);
    if (rc < 0)
        return abx_err_sys(err, rc, "read %s", path);
    ret->ptr = *ret_text;
    return 0;
}

static bool next_line(struct abx_str *rest, struct line *ret)
{
    struct abx_str text;
    while (abx_str_split(rest, '\n', &text)) {
        ret->count = 0;
        struct abx_str part;
        while (ret->count < FIELDS && abx_str_split(&text, ':', &part))
            ret->field[ret->count++] = part;
        if (ret->count > 0 && ret->field[0].len > 0 && ret->field[0].len < ABX_NAME_BYTES)
            return true;
    }
    return false;
}

/* name:x:uid:gid:gecos:home:shell */
static bool parse_user(const struct line *l, uint32_t *ret_uid, uint32_t *ret_gid)
{
    return l->count >= 4 && abx_parse_u32(l->field[2], ret_uid) == 0 &&
           abx_parse_u32(l->field[3], ret_gid) == 0;
}

static struct abx_str field_or(const struct line *l, size_t at, const char *otherwise)
{
    return l->count > at && l->field[at].len > 0 ? l->field[at] : abx_str(otherwise);
}

static bool lists_member(struct abx_str members, const char *name)
{
    struct abx_str one;
    while (abx_str_split(&members, ',', &one))
        if (abx_str_is(one, name))
            return true;
    return false;
}

static bool has_group(const struct abx_user *u, gid_t gid)
{
    for (size_t i = 0; i < u->group_count; i++)
        if (u->groups[i] == gid)
            return true;
    return false;
}

/* A sandbox without /etc/group is fine: the primary group alone. */
static int add_groups(const char *root, struct abx_user *u, struct abx_error *err)
{
    u->groups = calloc(ABX_NAME_GROUPS, sizeof(*u->groups));
    if (u->groups == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "user %s: out of memory", u->name);
    u->groups[u->group_count++] = u->gid;
    ABX_AUTO_FREE char *text = NULL;
    struct abx_str rest;
    if (read_etc(root, "group", &text, &rest, NULL) < 0)
        return 0;
    struct line l;
    uint32_t gid;
    while (u->group_count < ABX_NAME_GROUPS && next_line(&rest, &l)) {
        if (l.count < 4 || abx_parse_u32(l.field[2], &gid) < 0)
            continue;
        if (lists_member(l.field[3], u->name) && !has_group(u, gid))
            u->groups[u->group_count++] = gid;
    }
    return 0;
}

static int fill_user(const char *root, const struct line *l, struct abx_user *ret,
                     struct abx_error *err)
{
    struct abx_user u = {0};
    uint32_t uid = 0, gid = 0;
    ABX_ASSERT(parse_user(l, &uid, &gid));
    memcpy(u.name, l->field[0].ptr, l->field[0].len);
    u.uid = uid;
    u.gid = gid;
    u.home = abx_str_dup(field_or(l, 5, "/"));
    u.shell = abx_str_dup(field_or(l, 6, "/bin/sh"));
    if (u.home == NULL || u.shell == NULL)
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "user %s: out of memory", u.name);
    else if (add_groups(root, &u, err) == 0) {
        *ret = u;
        return 0;
    }
    abx_user_done(&u);
    return -1;
}

/* By name, or by uid where @name is NULL. 1 found, 0 not, -1 error. */
static int find_user(const char *root, const struct abx_str *name, uid_t uid, struct abx_user *ret,
                     struct abx_error *err)
{
    ABX_AUTO_FREE char *text = NULL;
    struct abx_str rest = {0};
    struct abx_error why = {0};
    if (read_etc(root, "passwd", &text, &rest, &why) < 0) {
        if (why.sys == ENOENT)
            return 0;
        if (err)
            *err = why;
        return -1;
    }
    struct line l;
    uint32_t this_uid, gid;
    while (next_line(&rest, &l)) {
        if (!parse_user(&l, &this_uid, &gid))
            continue;
        if (name ? abx_str_eq(l.field[0], *name) : this_uid == uid)
            return fill_user(root, &l, ret, err) < 0 ? -1 : 1;
    }
    return 0;
}

/* A root of one static binary has no accounts (base-image 2): whoever is meant by default is the
 * one that we are, at home in "/". */
static bool stands_in(const char *root, struct abx_str name)
{
    char path[4096];
    if (!abx_str_is(name, ABX_USER_NAME) && !abx_str_is(name, "root"))
        return false;
    int n = snprintf(path, sizeof(path), "%s/etc/passwd", root);
    return n < (int)sizeof(path) && access(path, F_OK) < 0 && errno == ENOENT;
}

static int stand_in(const char *root, struct abx_str name, struct abx_user *ret,
                    struct abx_error *err)
{
    char line[ABX_NAME_BYTES + 64];
    snprintf(line, sizeof(line), "%.*s:x:%u:%u::/:/bin/sh\n", ABX_STR_FMT(name),
             (unsigned)geteuid(), (unsigned)getegid());
    struct abx_str rest = abx_str(line);
    struct line l;
    return next_line(&rest, &l) ? fill_user(root, &l, ret, err) : -1;
}

int abx_user_by_name(const char *root, struct abx_str name, struct abx_user *ret,
                     struct abx_error *err)
{
    int found = find_user(root, &name, 0, ret, err);
    if (found == 0 && stands_in(root, name))
        return stand_in(root, name, ret, err);
    if (found == 0)
        return abx_err_set(err, ABX_NOT_FOUND, "user: unknown user %.*s",
                           (int)(name.len < 128 ? name.len : 128), name.ptr);
    return found < 0 ? -1 : 0;
}

int abx_user_by_uid(const char *root, uid_t uid, struct abx_user *ret, struct abx_error *err)
{
    int found = find_user(root, NULL, uid, ret, err);
    if (found == 0)
        return abx_err_set(err, ABX_NOT_FOUND, "user: unknown userid %u", uid);
    return found < 0 ? -1 : 0;
}

int abx_user_copy(const struct abx_user *u, struct abx_user *ret, struct abx_error *err)
{
    struct abx_user copy = *u;
    copy.home = abx_str_dup(abx_str(u->home));
    copy.shell = abx_str_dup(abx_str(u->shell));
    copy.groups = calloc(u->group_count + 1, sizeof(*copy.groups));
    if (copy.home == NULL || copy.shell == NULL || copy.groups == NULL) {
        abx_user_done(&copy);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "user %s: out of memory", u->name);
    }
    if (u->group_count > 0)
        memcpy(copy.groups, u->groups, u->group_count * sizeof(*copy.groups));
    *ret = copy;
    return 0;
}

void abx_user_done(struct abx_user *u)
{
    free(u->home);
    free(u->shell);
    free(u->groups);
    *u = (struct abx_user){0};
}

/* --- names of many ids --- */

struct id_name {
    uint32_t id;
    uint32_t line; /* the first line of an id wins */
    struct abx_str name;
};
struct id_table {
    char *text;
    struct id_name *rows;
    size_t count;
};
struct abx_names {
    struct id_table users, groups;
};

static int compare_rows(const void *a, const void *b)
{
    const struct id_name *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static int load_table(const char *root, const char *file, struct id_table *t)
{
    struct abx_str rest;
    if (read_etc(root, file, &t->text, &rest, NULL) < 0)
        return 0;
    size_t cap = 1;
    for (size_t i = 0; i < rest.len; i++)
        cap += rest.ptr[i] == '\n';
    t->rows = calloc(cap, sizeof(*t->rows));
    if (t->rows == NULL)
        return -1;
    struct line l;
    uint32_t id;
    while (t->count < cap && next_line(&rest, &l))
        if (l.count >= 3 && abx_parse_u32(l.field[2], &id) == 0) {
            t->rows[t->count] = (struct id_name){id, (uint32_t)t->count, l.field[0]};
            t->count++;
        }
    qsort(t->rows, t->count, sizeof(*t->rows), compare_rows);
    return 0;
}

static const char *look_up(const struct id_table *t, uint32_t id, char out[ABX_NAME_BYTES])
{
    size_t low = 0, high = t->count;
    while (low < high) { /* the first row that is not below id */
        size_t mid = low + (high - low) / 2;
        if (t->rows[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < t->count && t->rows[low].id == id &&
        abx_str_to_c(t->rows[low].name, out, ABX_NAME_BYTES) == 0)
        return out;
    snprintf(out, ABX_NAME_BYTES, "%u", id);
    return out;
}

struct abx_names *abx_names_open(const char *root)
{
    struct abx_names *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return NULL;
    if (load_table(root, "passwd", &n->users) < 0 || load_table(root, "group", &n->groups) < 0) {
        abx_names_close(n);
        return NULL;
    }
    return n;
}

void abx_names_close(struct abx_names *n)
{
    if (n == NULL)
        return;
    free(n->users.text);
    free(n->users.rows);
    free(n->groups.text);
    free(n->groups.rows);
    free(n);
}

const char *abx_names_user(const struct abx_names *n, uid_t uid, char out[ABX_NAME_BYTES])
{
    return look_up(&n->users, uid, out);
}

const char *abx_names_group(const struct abx_names *n, gid_t gid, char out[ABX_NAME_BYTES])
{
    return look_up(&n->groups, gid, out);
}
