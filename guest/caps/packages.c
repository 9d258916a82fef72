/* guest/caps/packages.c: installed packages by their metadata (packages.h). */
#include "guest/caps/packages.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/json/json.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { METADATA_MAX = 1 << 20, FOLDERS_MAX = 8, LEVELS_MAX = 64, VERSION_TEXT = 16 };

struct collector {
    struct abx_arena *arena;
    struct abx_package *items;
    size_t count;
    bool has_failed; /* no memory */
};

static void add(struct collector *c, struct abx_str name, struct abx_str version)
{
    if (c->count == ABX_PACKAGES_MAX || name.len == 0)
        return;
    struct abx_package p = {abx_arena_str(c->arena, name), abx_arena_str(c->arena, version)};
    if (p.name.ptr == NULL || p.version.ptr == NULL)
        c->has_failed = true;
    else
        c->items[c->count++] = p;
}

/* ---- one order for all: as pip compares names ---- */

static char folded(char byte)
{
    return byte == '_' || byte == '.' ? '-' : (char)tolower((unsigned char)byte);
}

static int compare_names(struct abx_str a, struct abx_str b)
{
    for (size_t i = 0; i < a.len && i < b.len; i++)
        if (folded(a.ptr[i]) != folded(b.ptr[i]))
            return (unsigned char)folded(a.ptr[i]) < (unsigned char)folded(b.ptr[i]) ? -1 : 1;
    return (a.len > b.len) - (a.len < b.len);
}

static void finish(struct collector *c, struct abx_packages *ret)
{
    size_t kept = 0; /* by insertion: of equal names the first that was found stays */
    for (size_t i = 0; i < c->count; i++) {
        size_t low = 0, high = kept;
        struct abx_package p = c->items[i];
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (compare_names(c->items[middle].name, p.name) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < kept && compare_names(c->items[low].name, p.name) == 0)
            continue;
        memmove(&c->items[low + 1], &c->items[low], (kept - low) * sizeof(p));
        c->items[low] = p;
        kept++;
    }
    *ret = (struct abx_packages){c->items, kept};
}

static int begin(struct collector *c, struct abx_arena *a)
{
    *c = (struct collector){.arena = a};
    c->items = abx_arena_array(a, ABX_PACKAGES_MAX, sizeof(*c->items));
    return c->items ? 0 : -ENOMEM;
}

/* ---- Python ---- */

struct abx_package abx_package_of_metadata(struct abx_str text)
{
    struct abx_package p = {{0}, {0}};
    struct abx_str line, name;
    while (abx_str_split(&text, '\n', &line)) {
        if (abx_str_ends(line, "\r"))
            line = abx_str_sub(line, 0, line.len - 1);
        if (line.len == 0)
            break; /* the description */
        if (line.ptr[0] == ' ' || line.ptr[0] == '\t' || !abx_str_split(&line, ':', &name))
            continue;
        if (p.name.ptr == NULL && abx_str_is_nocase(name, "Name"))
            p.name = abx_str_trim(line);
        else if (p.version.ptr == NULL && abx_str_is_nocase(name, "Version"))
            p.version = abx_str_trim(line);
    }
    return p;
}

/* "name-1.0.dist-info" */
static struct abx_package package_of_folder(struct abx_str folder, const char *suffix)
{
    struct abx_str stem = abx_str_sub(folder, 0, folder.len - strlen(suffix));
    ptrdiff_t dash = abx_str_chr(stem, '-');
    if (dash < 0)
        return (struct abx_package){stem, ABX_STR("")};
    struct abx_str rest = abx_str_sub(stem, (size_t)dash + 1, stem.len);
    ptrdiff_t next = abx_str_chr(rest, '-'); /* "-py3.11" of an egg */
    return (struct abx_package){abx_str_sub(stem, 0, (size_t)dash),
                                abx_str_sub(rest, 0, next < 0 ? rest.len : (size_t)next)};
}

/* Where the metadata of a folder's entry stands: the entry itself for an old egg file. */
static const struct {
    const char *suffix, *file;
} kinds[] = {{".dist-info", "METADATA"}, {".egg-info", "PKG-INFO"}, {".egg-info", NULL}};

/* False: there is no such file. */
static bool read_entry(struct collector *c, int dir_fd, const char *entry, size_t kind)
{
    char name[PATH_MAX];
    ABX_AUTO_FREE char *text = NULL;
    struct stat st;
    size_t len = 0;
    snprintf(name, sizeof(name), "%s%s%s", entry, kinds[kind].file ? "/" : "",
             kinds[kind].file ? kinds[kind].file : "");
    if (fstatat(dir_fd, name, &st, 0) < 0 || !S_ISREG(st.st_mode) ||
        abx_fd_read_file(dir_fd, name, METADATA_MAX, &text, &len) < 0)
        return false;
    struct abx_package p = abx_package_of_metadata(abx_str_n(text, len)),
                       by_name = package_of_folder(abx_str(entry), kinds[kind].suffix);
    add(c, p.name.len ? p.name : by_name.name, p.version.len ? p.version : by_name.version);
    return true;
}

static void read_site(struct collector *c, const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL && !c->has_failed;)
        for (size_t i = 0; i < ABX_COUNTOF(kinds); i++)
            if (abx_str_ends(abx_str(e->d_name), kinds[i].suffix) &&
                read_entry(c, dirfd(dir), e->d_name, i))
                break;
    closedir(dir);
}

/* "3.11" of "/usr/bin/python3.11"; false when the name has none. */
static bool version_of(const char *real, char out[VERSION_TEXT])
{
    struct abx_str name = abx_str(real);
    name = abx_str_sub(name, (size_t)(abx_str_rchr(name, '/') + 1), name.len);
    if (!abx_str_starts(name, "python"))
        return false;
    name = abx_str_sub(name, strlen("python"), name.len);
    size_t digits = 0;
    while (digits < name.len &&
           (isdigit((unsigned char)name.ptr[digits]) || name.ptr[digits] == '.'))
        digits++;
    return abx_str_chr(abx_str_sub(name, 0, digits), '.') > 0 &&
           abx_str_to_c(abx_str_sub(name, 0, digits), out, VERSION_TEXT) == 0;
}

/* The folder above the one that the program lies in. */
static bool prefix_of(const char *program, char out[PATH_MAX])
{
    struct abx_str path = abx_str(program);
    for (int i = 0; i < 2; i++) {
        ptrdiff_t slash = abx_str_rchr(path, '/');
        if (slash < 0)
            return false;
        path = abx_str_sub(path, 0, (size_t)slash);
    }
    return abx_str_to_c(path, out, PATH_MAX) == 0;
}

struct sites {
    char path[FOLDERS_MAX][PATH_MAX];
    size_t count;
};

static void add_site(struct sites *s, const char *base, const char *middle, const char *sub)
{
    ABX_ASSERT(s->count < FOLDERS_MAX);
    int n = snprintf(s->path[s->count], PATH_MAX, "%s%s%s", base, middle, sub);
    if (n > 0 && n < PATH_MAX)
        s->count++;
}

/* "%s/lib/python3.11/SUB" */
static void add_versioned(struct sites *s, const char *base, const char *version, const char *sub)
{
    char middle[64];
    snprintf(middle, sizeof(middle), "/lib/python%s/", version);
    add_site(s, base, middle, sub);
}

static bool has_system_sites(const char *prefix)
{
    char name[PATH_MAX];
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    struct abx_str rest, line, key;
    int n = snprintf(name, sizeof(name), "%s/pyvenv.cfg", prefix);
    if (n < 0 || n >= PATH_MAX || abx_fd_read_file(AT_FDCWD, name, METADATA_MAX, &text, &len) < 0)
        return true; /* no virtual environment */
    rest = abx_str_n(text, len);
    while (abx_str_split(&rest, '\n', &line))
        if (abx_str_split(&line, '=', &key) &&
            abx_str_is_nocase(abx_str_trim(key), "include-system-site-packages"))
            return abx_str_is_nocase(abx_str_trim(line), "true");
    return false;
}

static void find_sites(const struct abx_packages_where *w, const char *real, struct sites *s)
{
    char version[VERSION_TEXT], own[PATH_MAX], base[PATH_MAX], user[PATH_MAX];
    if (!version_of(real, version) || !prefix_of(w->interpreter, own) || !prefix_of(real, base))
        return;
    add_versioned(s, own, version, "site-packages");
    if (!has_system_sites(own))
        return;
    if (w->home && snprintf(user, sizeof(user), "%s/.local", w->home) < PATH_MAX)
        add_versioned(s, user, version, "site-packages");
    if (strcmp(own, base) != 0)
        add_versioned(s, base, version, "site-packages");
    if (strcmp(base, "/usr") != 0)
        return;
    add_versioned(s, "/usr/local", version, "dist-packages"); /* Debian's places */
    add_site(s, base, "/lib/python3/", "dist-packages");
}

int abx_packages_python(const struct abx_packages_where *w, struct abx_arena *a,
                        struct abx_packages *ret)
{
    struct collector c;
    char real[PATH_MAX];
    *ret = (struct abx_packages){0};
    if (w->interpreter == NULL || realpath(w->interpreter, real) == NULL)
        return 0;
    ABX_AUTO_FREE struct sites *s = calloc(1, sizeof(*s));
    if (s == NULL || begin(&c, a) < 0)
        return -ENOMEM;
    find_sites(w, real, s);
    for (size_t i = 0; i < s->count; i++)
        read_site(&c, s->path[i]);
    finish(&c, ret);
    return c.has_failed ? -ENOMEM : 0;
}

/* ---- npm ---- */

struct manifest {
    struct abx_str name, version;
};
static const struct abx_json_field manifest_fields[] = {
    {"name", ABX_JSON_STR, offsetof(struct manifest, name), 0},
    {"version", ABX_JSON_STR, offsetof(struct manifest, version), 0},
    {0}};

static void read_manifest(struct collector *c, int dir_fd, const char *entry)
{
    char name[PATH_MAX];
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    struct stat st;
    struct manifest m = {{0}, {0}};
    int n = snprintf(name, sizeof(name), "%s/package.json", entry);
    if (n < 0 || n >= PATH_MAX || fstatat(dir_fd, name, &st, 0) < 0 || !S_ISREG(st.st_mode) ||
        abx_fd_read_file(dir_fd, name, METADATA_MAX, &text, &len) < 0 ||
        abx_json_decode_text(abx_str_n(text, len), false, manifest_fields, &m, c->arena, NULL) < 0)
        return;
    add(c, m.name.len ? m.name : abx_str(entry), m.version.ptr ? m.version : ABX_STR(""));
}

static void read_modules(struct collector *c, DIR *dir)
{
    for (struct dirent *e; (e = readdir(dir)) != NULL && !c->has_failed;) {
        if (e->d_name[0] == '.')
            continue;
        if (e->d_name[0] != '@') {
            read_manifest(c, dirfd(dir), e->d_name);
            continue;
        }
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *scope = fd < 0 ? NULL : fdopendir(fd);
        if (scope == NULL) {
            abx_fd_close(&fd);
            continue;
        }
        for (struct dirent *s; (s = readdir(scope)) != NULL;)
            if (s->d_name[0] != '.')
                read_manifest(c, dirfd(scope), s->d_name);
        closedir(scope);
    }
}

/* As npm looks for its project: the next folder that has node_modules or package.json. */
static DIR *open_modules(const char *folder)
{
    struct abx_str path = abx_str(folder);
    for (int level = 0; level < LEVELS_MAX; level++) {
        char name[PATH_MAX];
        int n = snprintf(name, sizeof(name), "%.*s/node_modules", ABX_STR_FMT(path));
        DIR *dir = n > 0 && n < PATH_MAX ? opendir(name) : NULL;
        if (dir)
            return dir;
        snprintf(name, sizeof(name), "%.*s/package.json", ABX_STR_FMT(path));
        ptrdiff_t slash = abx_str_rchr(path, '/');
        if (slash < 0 || path.len == 0 || access(name, F_OK) == 0)
            return NULL;
        path = abx_str_sub(path, 0, (size_t)slash);
    }
    return NULL;
}

int abx_packages_npm(const struct abx_packages_where *w, struct abx_arena *a,
                     struct abx_packages *ret)
{
    struct collector c;
    DIR *dir = open_modules(w->folder);
    *ret = (struct abx_packages){0};
    if (dir == NULL)
        return 0;
    int rc = begin(&c, a);
    if (rc == 0) {
        read_modules(&c, dir);
        finish(&c, ret);
        rc = c.has_failed ? -ENOMEM : 0;
    }
    closedir(dir);
    return rc;
}
