/* guest/server/table_load.c: a YAML file of commands, read once at start. command-hosts.md 4. */
#include "guest/server/commands_priv.h"
#include "guest/server/table_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/yaml/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

#include "lib/base/banned.h"

enum { HELLO_BYTES = 4 << 20, ENV_MAX = 256 };

struct loader {
    struct abx__commands_host *host;
    struct abx_arena *arena; /* of what was registered */
    struct abx_error *err;
};

static int fail(struct loader *l, const struct abx_yaml *at, const char *text)
{
    return abx_err_set(l->err, ABX_INVALID_ARGUMENT, "%.100s:%u: %.*s: %s", l->host->files[0],
                       at->line, (int)(at->key.len < 64 ? at->key.len : 64),
                       at->key.ptr ? at->key.ptr : "", text);
}

/* ---- shapes ---- */

struct shape {
    const char *key;
    unsigned types; /* of 1 << enum abx_yaml_type */
    const char *wants;
};
#define TYPE(name) (1u << ABX_YAML_##name)
static const struct shape command_keys[] = {
    {"argv", TYPE(LIST), "a list of words"},
    {"args", TYPE(MAP), "a mapping of names to types or rows"},
    {"cwd", TYPE(STR), "text"},
    {"env", TYPE(MAP), "a mapping of names to texts"},
    {"stdin", TYPE(STR), "text"},
    {"timeout", TYPE(INT) | TYPE(FLOAT), "seconds"},
    {"result", TYPE(STR), "text, json or lines"},
    {"check", TYPE(BOOL), "true or false"},
    {"description", TYPE(STR), "text"},
    {"hidden", TYPE(BOOL), "true or false"},
    {"scopes", TYPE(LIST), "a list of scopes"},
    {0},
};
static const struct shape arg_keys[] = {
    {"type", TYPE(STR), "the name of a type"},
    {"required", TYPE(BOOL), "true or false"},
    {"default", TYPE(STR) | TYPE(INT) | TYPE(FLOAT) | TYPE(BOOL) | TYPE(LIST) | TYPE(NULL),
     "a value"},
    {"description", TYPE(STR), "text"},
    {0},
};

static int check_keys(struct loader *l, const struct abx_yaml *map, const struct shape *shapes)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct abx_yaml *node = &map->items[i];
        const struct shape *s = shapes;
        while (s->key && !abx_str_is(node->key, s->key))
            s++;
        if (s->key == NULL)
            return fail(l, node, "unknown key");
        if (!(s->types & 1u << node->type))
            return fail(l, node, s->wants);
    }
    return 0;
}

static int check_items(struct loader *l, const struct abx_yaml *list, unsigned types)
{
    for (size_t i = 0; list && i < list->count; i++)
        if (!(types & 1u << list->items[i].type))
            return fail(l, list, "its items are texts");
    return 0;
}

static bool is_true(const struct abx_yaml *node)
{
    return node && abx_str_is(node->text, "true");
}

/* ---- the same as a hello ---- */

static void put_text(struct abx_json_writer *w, const char *key, const struct abx_yaml *node)
{
    if (node)
        abx_json_kv_str(w, key, node->text);
}

/* The default as text; of a list its JSON. */
static void put_default(struct abx_json_writer *w, const struct abx_yaml *node)
{
    ABX_AUTO_BUF json;
    abx_buf_init(&json, HELLO_BYTES);
    abx_json_key(w, ABX_STR("default"));
    if (node == NULL || node->type == ABX_YAML_NULL) {
        abx_json_null(w);
    } else if (node->type == ABX_YAML_LIST) {
        abx_yaml_to_json(node, &json);
        abx_json_str(w, abx_buf_str(&json));
    } else {
        abx_json_str(w, node->text);
    }
}

static int put_arg(struct loader *l, struct abx_json_writer *w, const struct abx_yaml *arg)
{
    const struct abx_yaml *type = arg->type == ABX_YAML_STR ? arg : abx_yaml_get(arg, "type");
    if (arg->type != ABX_YAML_STR && arg->type != ABX_YAML_MAP)
        return fail(l, arg, "the name of a type, or a mapping");
    if (arg->type == ABX_YAML_MAP && check_keys(l, arg, arg_keys) < 0)
        return -1;
    if (type && abx_arg_type_parse(type->text) < 0)
        return fail(l, type, "unknown type; one of string, integer, float, boolean, string_array");
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", arg->key);
    abx_json_kv_str(w, "type", type ? type->text : ABX_STR("string"));
    abx_json_kv_bool(w, "required", is_true(abx_yaml_get(arg, "required")));
    put_default(w, abx_yaml_get(arg, "default"));
    const struct abx_yaml *said = abx_yaml_get(arg, "description");
    abx_json_kv_str(w, "description", said ? said->text : ABX_STR(""));
    abx_json_end_object(w);
    return 0;
}

static int put_command(struct loader *l, struct abx_json_writer *w, const struct abx_yaml *c)
{
    const struct abx_yaml *args = abx_yaml_get(c, "args"), *scopes = abx_yaml_get(c, "scopes");
    const struct abx_yaml *timeout = abx_yaml_get(c, "timeout");
    if (c->type != ABX_YAML_MAP)
        return fail(l, c, "a mapping with argv");
    if (check_keys(l, c, command_keys) < 0 || check_items(l, scopes, TYPE(STR)) < 0)
        return -1;
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", c->key);
    put_text(w, "description", abx_yaml_get(c, "description"));
    abx_json_kv_bool(w, "hidden", is_true(abx_yaml_get(c, "hidden")));
    if (timeout) {
        abx_json_key(w, ABX_STR("timeout_s"));
        abx_json_raw(w, timeout->text);
    }
    abx_json_key(w, ABX_STR("scopes"));
    abx_json_begin_array(w);
    for (size_t i = 0; scopes && i < scopes->count; i++)
        abx_json_str(w, scopes->items[i].text);
    abx_json_end_array(w);
    abx_json_key(w, ABX_STR("args"));
    abx_json_begin_array(w);
    for (size_t i = 0; args && i < args->count; i++)
        if (put_arg(l, w, &args->items[i]) < 0)
            return -1;
    abx_json_end_array(w);
    abx_json_end_object(w);
    return 0;
}

static int register_all(struct loader *l, const struct abx_yaml *commands)
{
    ABX_AUTO_BUF hello;
    struct abx_json_writer w;
    abx_buf_init(&hello, HELLO_BYTES);
    abx_json_writer_init(&w, &hello);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "protocol", ABX_HOST_PROTOCOL);
    abx_json_key(&w, ABX_STR("commands"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < commands->count; i++)
        if (put_command(l, &w, &commands->items[i]) < 0)
            return -1;
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    if (abx_buf_failed(&hello))
        return fail(l, commands, "the file is too large");
    return abx__commands_take_hello(l->host, abx_buf_str(&hello), l->err);
}

/* ---- what is run ---- */

static int read_word(struct loader *l, const struct abx_yaml *node, const struct abx_args *declared,
                     struct abx__word *ret)
{
    struct abx_error why = {0};
    if (abx__word_parse(abx_arena_str(l->arena, node->text), declared, l->arena, ret, &why) == 0)
        return 0;
    return fail(l, node, why.msg);
}

static int read_argv(struct loader *l, const struct abx_yaml *c, const struct abx_args *declared,
                     struct abx__table_row *row)
{
    const struct abx_yaml *argv = abx_yaml_get(c, "argv");
    unsigned words = TYPE(STR) | TYPE(INT) | TYPE(FLOAT) | TYPE(BOOL);
    if (argv == NULL || argv->count == 0)
        return fail(l, c, "argv is missing");
    if (check_items(l, argv, words) < 0)
        return -1;
    row->argv = abx_arena_array(l->arena, argv->count, sizeof(*row->argv));
    if (row->argv == NULL)
        return fail(l, argv, "no memory");
    for (; row->argc < argv->count; row->argc++) {
        struct abx_yaml item = argv->items[row->argc];
        item.key = argv->key;
        if (read_word(l, &item, declared, &row->argv[row->argc]) < 0)
            return -1;
    }
    if (row->argv[0].count == 0 || abx__word_varies(&row->argv[0]))
        return fail(l, argv, "the first word is the program: no argument decides it");
    return 0;
}

static bool is_variable(struct abx_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalpha((unsigned char)name.ptr[i]) && name.ptr[i] != '_' &&
            (i == 0 || !isdigit((unsigned char)name.ptr[i])))
            return false;
    return name.len > 0;
}

static int read_env(struct loader *l, const struct abx_yaml *c, const struct abx_args *declared,
                    struct abx__table_row *row)
{
    const struct abx_yaml *env = abx_yaml_get(c, "env");
    unsigned texts = TYPE(STR) | TYPE(INT) | TYPE(FLOAT) | TYPE(BOOL);
    if (env == NULL)
        return 0;
    row->env = abx_arena_array(l->arena, env->count + 1, sizeof(*row->env));
    if (row->env == NULL || env->count > ENV_MAX)
        return fail(l, env, "more than 256 variables, or no memory");
    for (; row->env_count < env->count; row->env_count++) {
        const struct abx_yaml *node = &env->items[row->env_count];
        struct abx__table_env *out = &row->env[row->env_count];
        if (!is_variable(node->key) || !(texts & 1u << node->type))
            return fail(l, node, "no variable with a text");
        out->name = abx_arena_str(l->arena, node->key);
        if (read_word(l, node, declared, &out->value) < 0)
            return -1;
    }
    return 0;
}

static int read_result(struct loader *l, const struct abx_yaml *c, struct abx__table_row *row)
{
    static const char *const names[] = {[ABX__TABLE_RAW] = "",
                                        [ABX__TABLE_TEXT] = "text",
                                        [ABX__TABLE_JSON] = "json",
                                        [ABX__TABLE_LINES] = "lines"};
    _Static_assert(ABX_COUNTOF(names) == ABX__TABLE__RESULTS, "one name per result");
    const struct abx_yaml *node = abx_yaml_get(c, "result");
    for (int i = 1; node && i < ABX__TABLE__RESULTS; i++)
        if (abx_str_is(node->text, names[i]))
            row->result = (enum abx__table_result)i;
    return node && row->result == ABX__TABLE_RAW ? fail(l, node, "text, json or lines") : 0;
}

static int read_row(struct loader *l, const struct abx_yaml *c, struct abx__command *command)
{
    const struct abx_yaml *cwd = abx_yaml_get(c, "cwd"), *input = abx_yaml_get(c, "stdin");
    struct abx__table_row *row = abx_arena_alloc(l->arena, sizeof(*row));
    if (row == NULL)
        return fail(l, c, "no memory");
    command->row = row;
    row->is_checked = is_true(abx_yaml_get(c, "check"));
    row->has_input = input != NULL;
    if (read_argv(l, c, command->declared, row) < 0 || read_env(l, c, command->declared, row) < 0 ||
        read_result(l, c, row) < 0)
        return -1;
    if (cwd && read_word(l, cwd, command->declared, &row->cwd) < 0)
        return -1;
    return input ? read_word(l, input, command->declared, &row->input) : 0;
}

static int read_rows(struct loader *l, const struct abx_yaml *commands)
{
    struct abx__commands *all = l->host->all;
    for (size_t i = 0; i < all->command_count; i++) {
        struct abx__command *command = &all->commands[i];
        if (command->host != l->host)
            continue;
        const struct abx_yaml *c = commands->items; /* the names are unique in a mapping */
        while (!abx_str_eq(c->key, command->name))
            c++;
        if (read_row(l, c, command) < 0)
            return -1;
    }
    return 0;
}

/* ---- the file ---- */

static int read_text(struct loader *l, struct abx_buf *out)
{
    const char *file = l->host->files[0];
    ABX_AUTO_FD fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *room = abx_buf_room(out, ABX_YAML_TEXT_MAX + 1); /* one more: then it is too large */
    ssize_t n = fd < 0 ? -errno : room ? abx_fd_read_all(fd, room, ABX_YAML_TEXT_MAX + 1) : -ENOMEM;
    if (n < 0)
        return abx_err_sys(l->err, (int)n, "cannot load commands file '%.100s'", file);
    abx_buf_wrote(out, (size_t)n);
    return 0;
}

static int load(struct loader *l, struct abx_str text, struct abx_arena *a)
{
    struct abx_yaml_fault fault;
    struct abx_yaml *root;
    if (abx_yaml_parse(text, a, &fault, &root) < 0)
        return abx_err_set(l->err, ABX_INVALID_ARGUMENT, "%.100s:%u:%u: %s%s%s", l->host->files[0],
                           fault.line, fault.column, fault.text, fault.advice ? ": " : "",
                           fault.advice ? fault.advice : "");
    const struct abx_yaml *commands = abx_yaml_get(root, "commands");
    for (size_t i = 0; i < root->count; i++)
        if (&root->items[i] != commands)
            return fail(l, &root->items[i], "unknown key; the file has one: commands");
    if (commands == NULL || commands->type != ABX_YAML_MAP)
        return fail(l, commands ? commands : root, "commands is a mapping of names");
    return register_all(l, commands) < 0 ? -1 : read_rows(l, commands);
}

int abx__table_load(struct abx__commands_host *h, struct abx_error *err)
{
    struct loader l = {.host = h, .arena = &h->all->arena, .err = err};
    struct abx_arena a;
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX_YAML_TEXT_MAX + 2);
    abx_arena_init(&a, 32 << 20);
    int r = read_text(&l, &text);
    if (r == 0)
        r = load(&l, text.len ? abx_buf_str(&text) : ABX_STR(""), &a);
    abx_arena_done(&a);
    return r;
}
