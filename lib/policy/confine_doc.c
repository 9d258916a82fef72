/* lib/policy/confine_doc.c: the key `confine` of a document, or the same object from elsewhere.
 * Strict as the rest of the language. Spec: policy.md C1. */
#include "lib/policy/confine.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

enum { SHOWN_BYTES = 80, AUDIT_KEEP_MAX = 100, PORT_MAX = 65535 };

static const struct {
    const char *name;
    enum abx_confine_mode mode;
} modes[] = {{"off", ABX_CONFINE_OFF},
             {"auto", ABX_CONFINE_AUTO},
             {"advisory", ABX_CONFINE_ADVISORY},
             {"require", ABX_CONFINE_REQUIRE}};

const char *abx_confine_mode_name(enum abx_confine_mode mode)
{
    for (size_t i = 0; i < ABX_COUNTOF(modes); i++)
        if (modes[i].mode == mode)
            return modes[i].name;
    return NULL;
}

const char *abx_rlimit_name(enum abx_rlimit which)
{
    static const char *const names[] = {"nofile", "nproc", "fsize", "as", "cpu", "memory"};
    _Static_assert(ABX_COUNTOF(names) == ABX_RLIMIT__COUNT, "one name per limit");
    return names[which];
}

static bool is_object(struct abx__load *l, const struct abx_json_node *n, const char *const *keys,
                      size_t count)
{
    if (n->kind != ABX_JSON_OBJECT_NODE)
        return abx__mistake(l, n, "expected an object");
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        bool known = false;
        for (size_t i = 0; i < count && !known; i++)
            known = abx_str_is(c->key, keys[i]);
        if (!known)
            abx__unknown_key(l, c, keys, count);
    }
    return true;
}

static void read_mode(struct abx__load *l, const struct abx_json_node *n)
{
    for (size_t i = 0; i < ABX_COUNTOF(modes); i++)
        if (n->kind == ABX_JSON_STR_NODE && abx_str_is(n->text, modes[i].name)) {
            l->policy->confine.mode = modes[i].mode;
            return;
        }
    abx__mistake(l, n, "expected \"off\", \"auto\", \"advisory\" or \"require\"");
}

static void read_paths(struct abx__load *l, const struct abx_json_node *n, struct abx_str_list *ret)
{
    struct abx_str_list list;
    if (!abx__read_strings(l, n, &list, "a list of folders"))
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct abx_str s = list.items[i];
        if (s.len == 0 || s.ptr[0] != '/' || memchr(s.ptr, '\0', s.len) != NULL) {
            abx__mistake(l, n, "\"%.*s\" is not absolute; begin it with /",
                         (int)(s.len < SHOWN_BYTES ? s.len : SHOWN_BYTES), s.len ? s.ptr : "");
            return;
        }
    }
    *ret = list;
}

static void read_read(struct abx__load *l, const struct abx_json_node *n)
{
    read_paths(l, n, &l->policy->confine.read);
}

static void read_write(struct abx__load *l, const struct abx_json_node *n)
{
    read_paths(l, n, &l->policy->confine.write);
}

static void read_names(struct abx__load *l, const struct abx_json_node *n, const char *wanted,
                       struct abx_str_list *ret)
{
    struct abx_str_list list;
    if (!abx__read_strings(l, n, &list, wanted))
        return;
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].len == 0 || memchr(list.items[i].ptr, '\0', list.items[i].len)) {
            abx__mistake(l, n, "item %zu is empty or holds a NUL", i);
            return;
        }
    *ret = list;
}

static void read_hosts(struct abx__load *l, const struct abx_json_node *n)
{
    read_names(l, n, "a list of host names", &l->policy->confine.hosts);
}

static void read_origins(struct abx__load *l, const struct abx_json_node *n)
{
    read_names(l, n, "a list of origins", &l->policy->confine.origins);
}

static void read_nested_pty(struct abx__load *l, const struct abx_json_node *n)
{
    abx__read_bool(l, n, &l->policy->confine.nested_pty);
}

static void read_privileged(struct abx__load *l, const struct abx_json_node *n)
{
    abx__read_bool(l, n, &l->policy->confine.privileged);
}

static void read_allow_override(struct abx__load *l, const struct abx_json_node *n)
{
    abx__read_bool(l, n, &l->policy->confine.allow_override);
}

/* ---- network ---- */

static bool is_integer_in(const struct abx_json_node *n, double low, double high)
{
    return n->kind == ABX_JSON_INT_NODE && n->number >= low && n->number <= high;
}

/* Services that would act for whoever reaches them (S03). */
static bool is_own_port(const struct abx__load *l, uint16_t port)
{
    static const uint16_t platform[] = {ABX_PORT_GATEWAY, ABX_PORT_ENVD, ABX_PORT_INTERPRETER};
    for (size_t i = 0; i < ABX_COUNTOF(platform); i++)
        if (platform[i] == port)
            return true;
    for (size_t i = 0; i < l->facts->own_port_count; i++)
        if (l->facts->own_ports[i] == port)
            return true;
    return false;
}

static void read_ports(struct abx__load *l, const struct abx_json_node *n, bool connects,
                       struct abx_policy_ports *ret)
{
    size_t count = 0;
    if (n->kind != ABX_JSON_ARRAY_NODE || n->count > ABX__LIST_MAX) {
        abx__mistake(l, n, "expected a list of at most %d ports", (int)ABX__LIST_MAX);
        return;
    }
    uint16_t *items = abx_arena_array(l->arena, n->count + 1, sizeof(*items));
    if (items == NULL) {
        l->no_memory = true;
        return;
    }
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        if (!is_integer_in(c, 0, PORT_MAX)) {
            abx__mistake(l, c, "expected a port, 0 to 65535");
            return;
        }
        uint16_t port = (uint16_t)c->number;
        if (connects && is_own_port(l, port)) {
            abx__mistake(l, c,
                         "port %u is the server's or the platform's: whoever reaches it acts "
                         "outside this policy",
                         port);
            return;
        }
        items[count++] = port;
    }
    *ret = (struct abx_policy_ports){items, count, true};
}

static void read_flag(struct abx__load *l, const struct abx_json_node *n, int *ret)
{
    bool value;
    if (abx__read_bool(l, n, &value))
        *ret = value;
}

static void read_network(struct abx__load *l, const struct abx_json_node *n)
{
    static const char *const keys[] = {"bind_ports", "connect_ports", "udp", "unix"};
    struct abx_policy_network *net = &l->policy->confine.network;
    if (!is_object(l, n, keys, ABX_COUNTOF(keys)))
        return;
    const struct abx_json_node *connect = abx_json_tree_get(n, "connect_ports"),
                               *bind = abx_json_tree_get(n, "bind_ports"),
                               *udp = abx_json_tree_get(n, "udp"),
                               *unix_sockets = abx_json_tree_get(n, "unix");
    net->is_set = true;
    if (connect != NULL)
        read_ports(l, connect, true, &net->connect);
    if (bind != NULL)
        read_ports(l, bind, false, &net->bind);
    if (udp != NULL)
        read_flag(l, udp, &net->udp);
    if (unix_sockets != NULL)
        read_flag(l, unix_sockets, &net->unix_sockets);
}

/* ---- limits, audit ---- */

static bool read_amount(struct abx__load *l, const struct abx_json_node *n, bool is_bytes,
                        uint64_t *ret)
{
    double v = n->kind == ABX_JSON_INT_NODE ? n->number : 0;
    if (is_bytes && n->kind == ABX_JSON_STR_NODE && !abx__size_parse(n->text, &v))
        v = 0;
    if (!(v >= 1))
        return abx__mistake(l, n,
                            is_bytes ? "expected a size: 1048576, \"10MB\", \"1GiB\""
                                     : "expected a number above 0");
    *ret = v < 9e18 ? (uint64_t)v : UINT64_MAX / 2;
    return true;
}

static void read_rlimits(struct abx__load *l, const struct abx_json_node *n)
{
    const char *keys[ABX_RLIMIT__COUNT];
    for (int i = 0; i < ABX_RLIMIT__COUNT; i++)
        keys[i] = abx_rlimit_name((enum abx_rlimit)i);
    if (!is_object(l, n, keys, ABX_COUNTOF(keys)))
        return;
    for (int i = 0; i < ABX_RLIMIT__COUNT; i++) {
        const struct abx_json_node *c = abx_json_tree_get(n, keys[i]);
        bool is_bytes = i == ABX_RLIMIT_FSIZE || i == ABX_RLIMIT_AS || i == ABX_RLIMIT_MEMORY;
        if (c != NULL)
            l->policy->confine.rlimits[i].is_set =
                read_amount(l, c, is_bytes, &l->policy->confine.rlimits[i].value);
    }
}

static void read_audit(struct abx__load *l, const struct abx_json_node *n)
{
    static const char *const keys[] = {"file", "keep", "max_bytes"};
    if (!is_object(l, n, keys, ABX_COUNTOF(keys)))
        return;
    const struct abx_json_node *file = abx_json_tree_get(n, "file"),
                               *keep = abx_json_tree_get(n, "keep"),
                               *max = abx_json_tree_get(n, "max_bytes");
    if (file != NULL && (file->kind != ABX_JSON_STR_NODE || file->text.len == 0 ||
                         file->text.ptr[0] != '/' || memchr(file->text.ptr, '\0', file->text.len)))
        abx__mistake(l, file, "expected an absolute path");
    else if (file != NULL)
        l->policy->confine.audit.file = file->text;
    if (max != NULL)
        read_amount(l, max, true, &l->policy->confine.audit.max_bytes);
    if (keep != NULL && !is_integer_in(keep, 0, AUDIT_KEEP_MAX))
        abx__mistake(l, keep, "expected how many old files to keep, 0 to %d", (int)AUDIT_KEEP_MAX);
    else if (keep != NULL)
        l->policy->confine.audit.keep = (uint64_t)keep->number;
}

/* ---- the object ---- */

static const struct {
    const char *key;
    void (*read)(struct abx__load *l, const struct abx_json_node *n);
} blocks[] = {{"allow_override", read_allow_override},
              {"audit", read_audit},
              {"hosts", read_hosts},
              {"mode", read_mode},
              {"nested_pty", read_nested_pty},
              {"network", read_network},
              {"origins", read_origins},
              {"privileged", read_privileged},
              {"read", read_read},
              {"rlimits", read_rlimits},
              {"users", abx__read_users},
              {"write", read_write}};

void abx__confine_defaults(struct abx_policy_confine *c)
{
    enum { AUDIT_BYTES = 10 * 1000 * 1000, AUDIT_KEEP = 3 };
    *c = (struct abx_policy_confine){.mode = ABX_CONFINE_OFF};
    c->network.udp = c->network.unix_sockets = ABX__ABSENT;
    c->audit.max_bytes = AUDIT_BYTES;
    c->audit.keep = AUDIT_KEEP;
}

void abx__read_confine(struct abx__load *l, const struct abx_json_node *n)
{
    const char *keys[ABX_COUNTOF(blocks)];
    abx__confine_defaults(&l->policy->confine);
    l->policy->confine.is_set = true;
    if (n->kind == ABX_JSON_STR_NODE) {
        read_mode(l, n);
        return;
    }
    for (size_t i = 0; i < ABX_COUNTOF(blocks); i++)
        keys[i] = blocks[i].key;
    if (!is_object(l, n, keys, ABX_COUNTOF(keys)))
        return;
    for (size_t i = 0; i < ABX_COUNTOF(blocks); i++) {
        const struct abx_json_node *c = abx_json_tree_get(n, blocks[i].key);
        if (c != NULL)
            blocks[i].read(l, c);
    }
}

const struct abx_policy_confine *abx_policy_confinement(const struct abx_policy *p)
{
    return &p->confine;
}

enum abx_confine_mode abx_policy_confine(const struct abx_policy *p)
{
    return p->confine.mode;
}
