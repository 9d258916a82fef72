/* guest/caps/regex_compile.c: a pattern as a tree, the tree as a program. Both are bounded: a
 * nested repetition can not become a program that is too large. */
#include "guest/caps/regex_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { NESTING = 100, REPEAT_MAX = 1000, WITHOUT_END = -1 };

enum kind { EMPTY, SET, ANY_WIDE, ASSERT, JOIN, EITHER, REPEAT };

struct node {
    enum kind kind;
    struct abx__regex_set set;
    enum abx__regex_assert assert;
    struct node *a, *b; /* JOIN, EITHER: both; REPEAT: a */
    int least, most;
};

struct parser {
    struct abx_str text;
    size_t at;
    int depth;
    bool ignores_case;
    struct abx_arena *arena;
    struct abx_error *err;
};

static struct node *parse_either(struct parser *p);

static struct node *fail(struct parser *p, const char *why)
{
    abx_err_set(p->err, ABX_INVALID_ARGUMENT, "pattern, byte %zu: %s", p->at + 1, why);
    return NULL;
}

static struct node *new_node(struct parser *p, enum kind kind, struct node *a, struct node *b)
{
    struct node *n = abx_arena_alloc(p->arena, sizeof(*n));
    if (n == NULL) {
        abx_err_set(p->err, ABX_RESOURCE_EXHAUSTED, "the pattern is too large");
        return NULL;
    }
    n->kind = kind;
    n->a = a;
    n->b = b;
    return n;
}

static int peek(const struct parser *p)
{
    return p->at < p->text.len ? (unsigned char)p->text.ptr[p->at] : -1;
}

static bool accept(struct parser *p, char c)
{
    if (peek(p) != (unsigned char)c)
        return false;
    p->at++;
    return true;
}

/* ---- sets ---- */

static void fold(struct abx__regex_set *s)
{
    for (unsigned c = 'a'; c <= 'z'; c++) {
        if (abx__regex_has(s, (unsigned char)c))
            abx__regex_add(s, c - 32, c - 32);
        if (abx__regex_has(s, (unsigned char)(c - 32)))
            abx__regex_add(s, c, c);
    }
}

static void invert_ascii(struct abx__regex_set *s)
{
    for (int i = 0; i < 4; i++)
        s->bits[i] = ~s->bits[i];
}

static bool add_shorthand(struct abx__regex_set *s, char letter)
{
    struct abx__regex_set one = {0};
    switch (letter | 0x20) {
    case 'd':
        abx__regex_add(&one, '0', '9');
        break;
    case 'w':
        abx__regex_add(&one, '0', '9');
        abx__regex_add(&one, 'a', 'z');
        abx__regex_add(&one, 'A', 'Z');
        abx__regex_add(&one, '_', '_');
        break;
    case 's':
        abx__regex_add(&one, '\t', '\r');
        abx__regex_add(&one, ' ', ' ');
        break;
    default:
        return false;
    }
    if (!(letter & 0x20))
        invert_ascii(&one);
    for (int i = 0; i < 4; i++)
        s->bits[i] |= one.bits[i];
    return true;
}

static bool is_upper_shorthand(char c)
{
    return c == 'D' || c == 'W' || c == 'S';
}

/* The byte that an escape stands for, or -1. */
static int escaped_byte(char c)
{
    static const char letters[] = "tnrfv", bytes[] = "\t\n\r\f\v";
    const char *at = c ? strchr(letters, c) : NULL;
    if (at)
        return bytes[at - letters];
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return is_letter || (unsigned char)c >= 0x80 ? -1 : (unsigned char)c;
}

static struct node *set_node(struct parser *p, const struct abx__regex_set *s)
{
    struct node *n = new_node(p, SET, NULL, NULL);
    if (n) {
        n->set = *s;
        if (p->ignores_case)
            fold(&n->set);
    }
    return n;
}

/* One ASCII set, or any character beyond it. */
static struct node *set_or_wide(struct parser *p, const struct abx__regex_set *s)
{
    struct node *set = set_node(p, s), *wide = new_node(p, ANY_WIDE, NULL, NULL);
    return set && wide ? new_node(p, EITHER, set, wide) : NULL;
}

static struct node *parse_dot(struct parser *p)
{
    struct abx__regex_set s = {0};
    abx__regex_add(&s, 0, 0x7f);
    s.bits[0] &= ~(1u << '\n');
    return set_or_wide(p, &s);
}

/* A byte of a class; -1: it was a shorthand, -2: failed. */
static int class_byte(struct parser *p, struct abx__regex_set *s, bool *inout_is_wide)
{
    int c = peek(p);
    if (c < 0 || c >= 0x80) {
        fail(p, c < 0 ? "'[' is not closed" : "a class takes ASCII characters alone");
        return -2;
    }
    p->at++;
    if (c != '\\')
        return c;
    char e = (char)peek(p);
    if (peek(p) >= 0)
        p->at++;
    if (add_shorthand(s, e)) {
        *inout_is_wide |= is_upper_shorthand(e);
        return -1;
    }
    int byte = escaped_byte(e);
    if (byte < 0)
        fail(p, "no such escape");
    return byte < 0 ? -2 : byte;
}

static struct node *parse_class(struct parser *p)
{
    struct abx__regex_set s = {0};
    bool is_negated = accept(p, '^'), is_first = true, is_wide = false;
    for (; is_first || !accept(p, ']'); is_first = false) {
        int from = class_byte(p, &s, &is_wide), to = from;
        if (from == -2)
            return NULL;
        if (from == -1)
            continue;
        bool is_range = peek(p) == '-' && p->at + 1 < p->text.len && p->text.ptr[p->at + 1] != ']';
        if (is_range) {
            p->at++;
            to = class_byte(p, &s, &is_wide);
            if (to == -2)
                return NULL;
            if (to < from)
                return fail(p, "a range is reversed");
        }
        abx__regex_add(&s, (unsigned)from, (unsigned)to);
    }
    if (p->ignores_case)
        fold(&s);
    if (!is_negated)
        return is_wide ? set_or_wide(p, &s) : set_node(p, &s);
    invert_ascii(&s);
    struct node *n = is_wide ? new_node(p, SET, NULL, NULL) : set_or_wide(p, &s);
    if (n && is_wide)
        n->set = s;
    return n;
}

/* ---- the tree ---- */

static struct node *parse_escape(struct parser *p)
{
    struct abx__regex_set s = {0};
    int c = peek(p);
    if (c < 0)
        return fail(p, "'\\' stands at the end");
    p->at++;
    if (c == 'b' || c == 'B') {
        struct node *n = new_node(p, ASSERT, NULL, NULL);
        if (n)
            n->assert = c == 'b' ? ABX__RE_WORD : ABX__RE_NO_WORD;
        return n;
    }
    if (add_shorthand(&s, (char)c))
        return is_upper_shorthand((char)c) ? set_or_wide(p, &s) : set_node(p, &s);
    int byte = escaped_byte((char)c);
    if (byte < 0)
        return fail(p, "no such escape (back references and look-around are not supported)");
    abx__regex_add(&s, (unsigned)byte, (unsigned)byte);
    return set_node(p, &s);
}

static struct node *parse_group(struct parser *p)
{
    if (++p->depth > NESTING)
        return fail(p, "groups are nested too deeply");
    if (accept(p, '?') && !accept(p, ':'))
        return fail(p, "only (?: ) is supported of the groups that begin with '?'");
    struct node *n = parse_either(p);
    p->depth--;
    if (n && !accept(p, ')'))
        return fail(p, "'(' is not closed");
    return n;
}

static struct node *parse_edge(struct parser *p, enum abx__regex_assert what)
{
    struct node *n = new_node(p, ASSERT, NULL, NULL);
    if (n)
        n->assert = what;
    return n;
}

static size_t utf8_len(unsigned char c)
{
    return c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
}

/* A character as its bytes, so that a quantifier takes it whole. */
static struct node *parse_literal(struct parser *p)
{
    size_t n = utf8_len((unsigned char)peek(p));
    struct node *all = NULL;
    for (size_t i = 0; i < n && peek(p) >= 0 && (i == 0 || (peek(p) & 0xc0) == 0x80); i++) {
        struct abx__regex_set s = {0};
        abx__regex_add(&s, (unsigned)peek(p), (unsigned)peek(p));
        p->at++;
        struct node *byte = set_node(p, &s);
        all = byte && all ? new_node(p, JOIN, all, byte) : byte;
        if (all == NULL)
            return NULL;
    }
    return all;
}

static struct node *parse_atom(struct parser *p)
{
    int c = peek(p);
    switch (c) {
    case '(':
        p->at++;
        return parse_group(p);
    case '[':
        p->at++;
        return parse_class(p);
    case '.':
        p->at++;
        return parse_dot(p);
    case '\\':
        p->at++;
        return parse_escape(p);
    case '^':
    case '$':
        p->at++;
        return parse_edge(p, c == '^' ? ABX__RE_BEGIN : ABX__RE_END);
    case '*':
    case '+':
    case '?':
        return fail(p, "nothing stands before the repetition");
    default:
        return parse_literal(p);
    }
}

static bool parse_number(struct parser *p, int *ret)
{
    size_t begin = p->at;
    *ret = 0;
    while (peek(p) >= '0' && peek(p) <= '9' && *ret <= REPEAT_MAX)
        *ret = *ret * 10 + (p->text.ptr[p->at++] - '0');
    return p->at > begin && *ret <= REPEAT_MAX;
}

/* {m} {m,} {m,n}; a brace that is no repetition is itself. False: it is not one, or it failed. */
static bool parse_braces(struct parser *p, int *least, int *most)
{
    size_t begin = p->at++;
    bool is_good = parse_number(p, least);
    *most = *least;
    if (is_good && accept(p, ',')) {
        *most = WITHOUT_END;
        if (peek(p) != '}')
            is_good = parse_number(p, most);
    }
    is_good = is_good && accept(p, '}') && (*most == WITHOUT_END || *most >= *least);
    if (!is_good) {
        p->at = begin;
        fail(p, "'{' begins no repetition of at most 1000 ('\\{' is the character)");
    }
    return is_good;
}

static struct node *parse_repeats(struct parser *p)
{
    struct node *n = parse_atom(p);
    for (int times = 0; n; times++) {
        int c = peek(p), least = c == '+', most = c == '?' ? 1 : WITHOUT_END;
        if (c != '*' && c != '+' && c != '?' && c != '{')
            return n;
        if (times == NESTING)
            return fail(p, "repetitions are nested too deeply");
        if (c == '{') {
            if (!parse_braces(p, &least, &most))
                return NULL;
        } else {
            p->at++;
        }
        accept(p, '?'); /* the shortest: no difference to whether a line matches */
        n = new_node(p, REPEAT, n, NULL);
        if (n) {
            n->least = least;
            n->most = most;
        }
    }
    return n;
}

static struct node *parse_join(struct parser *p)
{
    struct node *all = new_node(p, EMPTY, NULL, NULL);
    while (all && peek(p) >= 0 && peek(p) != '|' && peek(p) != ')') {
        struct node *n = parse_repeats(p);
        all = n ? new_node(p, JOIN, all, n) : NULL;
    }
    return all;
}

static struct node *parse_either(struct parser *p)
{
    struct node *all = parse_join(p);
    while (all && accept(p, '|')) {
        struct node *n = parse_join(p);
        all = n ? new_node(p, EITHER, all, n) : NULL;
    }
    return all;
}

/* ---- the program ---- */

enum { WIDE_STEPS = 13 };

/* How many steps it becomes; more than ABX_REGEX_PROGRAM once it is too large. */
static uint64_t measure(const struct node *n)
{
    uint64_t a = n->a ? measure(n->a) : 0, b = n->b ? measure(n->b) : 0, all = 0;
    switch (n->kind) {
    case EMPTY:
        break;
    case SET:
    case ASSERT:
        all = 1;
        break;
    case ANY_WIDE:
        all = WIDE_STEPS;
        break;
    case JOIN:
        all = a + b;
        break;
    case EITHER:
        all = a + b + 2;
        break;
    case REPEAT:
        all = (uint64_t)n->least * a +
              (n->most == WITHOUT_END ? a + 2 : (uint64_t)(n->most - n->least) * (a + 1));
        break;
    }
    return all < ABX_REGEX_PROGRAM ? all : ABX_REGEX_PROGRAM;
}

static uint32_t emit(struct abx_regex *re, enum abx__regex_op op)
{
    re->steps[re->count].op = op;
    re->steps[re->count].x = re->count + 1;
    return re->count++;
}

static void emit_range(struct abx_regex *re, unsigned from, unsigned to)
{
    uint32_t at = emit(re, ABX__RE_SET);
    abx__regex_add(&re->steps[at].set, from, to);
}

/* Any character of two to four bytes. */
static void emit_wide(struct abx_regex *re)
{
    static const unsigned leads[][2] = {{0xc2, 0xdf}, {0xe0, 0xef}, {0xf0, 0xf4}};
    uint32_t jumps[2] = {0};
    for (unsigned i = 0; i < 3; i++) {
        uint32_t split = i < 2 ? emit(re, ABX__RE_SPLIT) : 0;
        emit_range(re, leads[i][0], leads[i][1]);
        for (unsigned k = 0; k <= i; k++)
            emit_range(re, 0x80, 0xbf);
        if (i < 2) {
            jumps[i] = emit(re, ABX__RE_JUMP);
            re->steps[split].y = re->count;
        }
    }
    for (unsigned i = 0; i < 2; i++)
        re->steps[jumps[i]].x = re->count;
}

static void emit_node(struct abx_regex *re, const struct node *n);

static void emit_either(struct abx_regex *re, const struct node *n)
{
    uint32_t split = emit(re, ABX__RE_SPLIT);
    emit_node(re, n->a);
    uint32_t jump = emit(re, ABX__RE_JUMP);
    re->steps[split].y = re->count;
    emit_node(re, n->b);
    re->steps[jump].x = re->count;
}

static void emit_repeat(struct abx_regex *re, const struct node *n)
{
    for (int i = 0; i < n->least; i++)
        emit_node(re, n->a);
    if (n->most == WITHOUT_END) {
        uint32_t split = emit(re, ABX__RE_SPLIT);
        emit_node(re, n->a);
        re->steps[emit(re, ABX__RE_JUMP)].x = split;
        re->steps[split].y = re->count;
        return;
    }
    for (int i = n->least; i < n->most; i++) {
        uint32_t split = emit(re, ABX__RE_SPLIT);
        emit_node(re, n->a);
        re->steps[split].y = re->count; /* one fewer ends there, for what follows may be empty */
    }
}

static void emit_node(struct abx_regex *re, const struct node *n)
{
    switch (n->kind) {
    case EMPTY:
        break;
    case SET:
        re->steps[emit(re, ABX__RE_SET)].set = n->set;
        break;
    case ANY_WIDE:
        emit_wide(re);
        break;
    case ASSERT:
        re->steps[emit(re, ABX__RE_ASSERT)].y = n->assert;
        break;
    case JOIN:
        emit_node(re, n->a);
        emit_node(re, n->b);
        break;
    case EITHER:
        emit_either(re, n);
        break;
    case REPEAT:
        emit_repeat(re, n);
        break;
    }
}

/* The bytes that a match may begin with, if it can not be empty. */
static void find_first(struct abx_regex *re, uint32_t *stack, bool *seen)
{
    size_t depth = 0;
    re->has_first = true;
    stack[depth++] = 0;
    while (depth > 0) {
        uint32_t s = stack[--depth];
        const struct abx__regex_step *step = &re->steps[s];
        if (seen[s])
            continue;
        seen[s] = true;
        if (step->op == ABX__RE_MATCH)
            re->has_first = false;
        else if (step->op == ABX__RE_SET)
            for (int i = 0; i < 8; i++)
                re->first.bits[i] |= step->set.bits[i];
        else
            stack[depth++] = step->x;
        if (step->op == ABX__RE_SPLIT)
            stack[depth++] = step->y;
    }
}

int abx_regex_compile(struct abx_str pattern, bool ignores_case, struct abx_arena *a,
                      struct abx_regex **ret, struct abx_error *err)
{
    struct parser p = {.text = pattern, .ignores_case = ignores_case, .arena = a, .err = err};
    if (pattern.len > ABX_REGEX_PATTERN)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the pattern is longer than %d bytes",
                           (int)ABX_REGEX_PATTERN);
    const struct node *tree = parse_either(&p);
    if (tree == NULL)
        return -1;
    if (p.at < pattern.len) {
        fail(&p, "')' closes nothing");
        return -1;
    }
    uint64_t count = measure(tree) + 1;
    if (count > ABX_REGEX_PROGRAM)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the pattern repeats too much");
    struct abx_regex *re = abx_arena_alloc(a, sizeof(*re));
    uint32_t *stack = abx_arena_array(a, 2 * (size_t)count + 2, sizeof(*stack));
    bool *seen = abx_arena_array(a, (size_t)count, sizeof(*seen));
    if (re)
        re->steps = abx_arena_array(a, (size_t)count, sizeof(*re->steps));
    if (re == NULL || stack == NULL || seen == NULL || re->steps == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "the pattern is too large");
    emit_node(re, tree);
    emit(re, ABX__RE_MATCH);
    ABX_ASSERT(re->count == count);
    find_first(re, stack, seen);
    *ret = re;
    return 0;
}
