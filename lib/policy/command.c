/* lib/policy/command.c: command lines against allow_commands and deny_commands. A belt for honest
 * callers, no wall (security.md S09). Spec: policy.md A12. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/guards.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

enum { LINE_MAX = 16 << 20, ELLIPSES_MAX = 3 };

/* ---- words ---- */

struct splitter {
    struct abx_str line;
    size_t at;
    struct abx_buf word;
    bool in_word;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Inside double quotes a backslash stands before a quote or a backslash only. */
static int take_quoted(struct splitter *s, char quote)
{
    for (s->at++; s->at < s->line.len && s->line.ptr[s->at] != quote; s->at++) {
        bool escapes = quote == '"' && s->line.ptr[s->at] == '\\' && s->at + 1 < s->line.len &&
                       strchr("\"\\", s->line.ptr[s->at + 1]) != NULL &&
                       s->line.ptr[s->at + 1] != '\0';
        s->at += escapes;
        abx_buf_put_byte(&s->word, s->line.ptr[s->at]);
    }
    if (s->at >= s->line.len)
        return -1;
    s->at++;
    return 0;
}

/* One character, quote or escape of a word. */
static int take_piece(struct splitter *s)
{
    char c = s->line.ptr[s->at];
    s->in_word = true;
    if (c == '\'' || c == '"')
        return take_quoted(s, c);
    if (c == '\\' && ++s->at >= s->line.len)
        return -1;
    abx_buf_put_byte(&s->word, s->line.ptr[s->at++]);
    return 0;
}

static size_t most_words(struct abx_str line)
{
    size_t count = 1;
    for (size_t i = 0; i < line.len; i++)
        count += is_blank(line.ptr[i]);
    return count;
}

static int end_word(struct splitter *s, struct abx_arena *a, struct abx_str *words, size_t *count)
{
    if (!s->in_word)
        return 0;
    struct abx_str text = s->word.len ? abx_buf_str(&s->word) : ABX_STR("");
    words[*count] = abx_arena_str(a, text);
    bool ok = !s->word.failed && words[*count].ptr != NULL;
    (*count)++;
    abx_buf_clear(&s->word);
    s->in_word = false;
    return ok ? 0 : -1;
}

int abx_policy_words_split(struct abx_str line, struct abx_arena *a, struct abx_str_list *ret)
{
    struct splitter s = {.line = line};
    struct abx_str *words = abx_arena_array(a, most_words(line), sizeof(*words));
    size_t count = 0;
    int failed = words == NULL ? -1 : 0;
    abx_buf_init(&s.word, LINE_MAX);
    while (failed == 0 && s.at < line.len) {
        if (!is_blank(line.ptr[s.at])) {
            failed = take_piece(&s);
            continue;
        }
        failed = end_word(&s, a, words, &count);
        s.at++;
    }
    if (failed == 0)
        failed = end_word(&s, a, words, &count);
    abx_buf_done(&s.word);
    if (failed == 0)
        *ret = (struct abx_str_list){words, count};
    return failed;
}

/* ---- one word of a pattern ---- */

static bool has_glob(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] != '\0' && strchr("*?[", s.ptr[i]) != NULL)
            return true;
    return false;
}

static bool is_int_word(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len >= 1 && s.len <= 9;
}

static bool is_plain_word(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || (i > 0 && c != '\0' && strchr(".@:+=,-", c) != NULL);
        if (!plain)
            return false;
    }
    return s.len > 0;
}

static bool takes_word(struct abx_str pattern, struct abx_str word)
{
    if (abx_str_is(pattern, "{int}"))
        return is_int_word(word);
    if (abx_str_is(pattern, "{word}"))
        return is_plain_word(word);
    if (abx_str_is(pattern, "{path}"))
        return word.len > 0 && word.ptr[0] != '-';
    if (!has_glob(pattern))
        return abx_str_eq(pattern, word);
    if ((abx_str_chr(word, '/') >= 0 && abx_str_chr(pattern, '/') < 0) ||
        (abx_str_find(word, ABX_STR("..")) >= 0 && abx_str_find(pattern, ABX_STR("..")) < 0) ||
        (abx_str_starts(word, "-") && !abx_str_starts(pattern, "-")))
        return false;
    return abx_glob_match(pattern, word);
}

static struct abx_str base_name(struct abx_str path)
{
    return abx_str_sub(path, (size_t)(abx_str_rchr(path, '/') + 1), path.len);
}

/* @strict: an allow list. A name admits a path only where the server's PATH leads to that very file
 * (P4): else "ls" would admit "./ls". */
static bool takes_program(struct abx_str pattern, const struct abx_policy_command *c, bool strict)
{
    struct abx_str argv0 = c->argv.items[0];
    bool by_text = abx_glob_match(pattern, argv0);
    if (!by_text && !abx_glob_match(pattern, base_name(argv0)))
        return false;
    if (!strict || abx_str_chr(argv0, '/') < 0 || abx_str_chr(pattern, '/') >= 0 ||
        abx_str_is(pattern, "*"))
        return true;
    return c->program.ptr != NULL && c->path_program.ptr != NULL &&
           abx_str_eq(c->program, c->path_program);
}

/* ---- whole patterns ---- */

/* argv with grouped short flags taken apart; origin[i] is the index in argv. */
struct flat {
    struct abx_str *words;
    size_t *origin;
    size_t count;
};

static bool is_flag_group(struct abx_str s)
{
    if (s.len < 3 || s.ptr[0] != '-')
        return false;
    for (size_t i = 1; i < s.len; i++)
        if ((s.ptr[i] | 0x20) < 'a' || (s.ptr[i] | 0x20) > 'z')
            return false;
    return true;
}

static bool flatten(struct abx_str_list argv, struct abx_arena *a, struct flat *ret)
{
    size_t most = 0;
    for (size_t i = 0; i < argv.count; i++)
        most += is_flag_group(argv.items[i]) ? argv.items[i].len : 1;
    ret->words = abx_arena_array(a, most, sizeof(*ret->words));
    ret->origin = abx_arena_array(a, most, sizeof(*ret->origin));
    ret->count = 0;
    if (ret->words == NULL || ret->origin == NULL)
        return false;
    for (size_t i = 0; i < argv.count; i++) {
        struct abx_str word = argv.items[i];
        size_t letters = is_flag_group(word) ? word.len - 1 : 0;
        for (size_t k = 1; k <= (letters ? letters : 1); k++) {
            const char flag[2] = {'-', letters ? word.ptr[k] : '\0'};
            ret->origin[ret->count] = i;
            ret->words[ret->count] = letters ? abx_arena_str(a, abx_str_n(flag, 2)) : word;
            if (ret->words[ret->count++].ptr == NULL)
                return false;
        }
    }
    return true;
}

/* Whether pattern words from @p on take the argv words from @w on; chosen[] gets which pattern word
 * took each. The "..." are few, so the ways back are bounded by their number. */
static bool match_words(const struct abx_str_list *pattern, const struct flat *argv, size_t p,
                        size_t w, size_t *chosen)
{
    struct {
        size_t p, w;
    } back[ELLIPSES_MAX];
    size_t depth = 0;
    for (;;) {
        bool ok = true;
        if (p < pattern->count && abx_str_is(pattern->items[p], "...")) {
            back[depth].p = ++p;
            back[depth++].w = w;
            continue;
        }
        if (p == pattern->count && w == argv->count)
            return true;
        ok = p < pattern->count && w < argv->count && takes_word(pattern->items[p], argv->words[w]);
        if (ok) {
            chosen[w++] = p++;
            continue;
        }
        /* The last "..." takes one word more; only it: what stands before it matched already. */
        if (depth == 0 || back[depth - 1].w >= argv->count)
            return false;
        p = back[depth - 1].p;
        w = ++back[depth - 1].w;
        chosen[w - 1] = SIZE_MAX;
    }
}

static size_t count_ellipses(const struct abx_str_list *words)
{
    size_t count = 0;
    for (size_t i = 0; i < words->count; i++)
        count += abx_str_is(words->items[i], "...");
    return count;
}

struct match {
    const struct abx_policy_rule *rule;
    const struct abx_policy_command *command;
    struct abx_arena *a;
    struct flat flat;
    size_t *chosen;
};

static bool matches(const struct match *m, const struct abx_str_list *pattern, bool strict)
{
    struct abx_str first = pattern->items[0];
    bool is_name = !abx_str_is(first, "...");
    for (size_t i = 0; i < m->flat.count; i++)
        m->chosen[i] = SIZE_MAX;
    if (is_name && !takes_program(first, m->command, strict))
        return false;
    if (is_name && pattern->count == 1 && first.ptr[0] != '{')
        return true;
    return match_words(pattern, &m->flat, is_name, is_name, m->chosen);
}

/* Judges the words that {path} took and puts their canonical forms into @argv. */
static bool use_paths(const struct match *m, const struct abx_str_list *pattern,
                      struct abx_str *argv, struct abx_policy_verdict *v)
{
    for (size_t i = 0; i < m->flat.count; i++) {
        if (m->chosen[i] == SIZE_MAX || !abx_str_is(pattern->items[m->chosen[i]], "{path}"))
            continue;
        struct abx_str canonical;
        if (!m->command->path(m->command->path_ctx, m->flat.words[i], m->a, &canonical, v)) {
            v->endpoint = m->rule->id;
            return false;
        }
        argv[m->flat.origin[i]] = canonical;
    }
    return true;
}

/* All patterns of a list as words; false with 400 in @v for one that can not be read. */
static bool read_patterns(const struct match *m, struct abx_str_list list,
                          struct abx_str_list **ret, struct abx_policy_verdict *v)
{
    struct abx_str_list *patterns = abx_arena_array(m->a, list.count + 1, sizeof(*patterns));
    for (size_t i = 0; patterns != NULL && i < list.count; i++) {
        if (abx_policy_words_split(list.items[i], m->a, &patterns[i]) == 0 &&
            patterns[i].count > 0 && patterns[i].items[0].len > 0 &&
            count_ellipses(&patterns[i]) <= ELLIPSES_MAX)
            continue;
        return abx_policy_deny(v, ABX_POLICY_BAD_PATTERN,
                               "the policy's command pattern %zu can not be read", i);
    }
    *ret = patterns;
    return patterns != NULL ||
           abx_policy_deny(v, ABX_POLICY_BAD_PATTERN, "the policy's command patterns are too long");
}

static bool check_words(const struct abx_policy_rule *rule, struct abx_str_list argv,
                        struct abx_policy_verdict *v)
{
    v->endpoint = rule->id;
    if (argv.count > ABX_ARGV_MAX)
        return abx_policy_deny(v, ABX_POLICY_COMMAND_INVALID, "more than %d words",
                               (int)ABX_ARGV_MAX);
    for (size_t i = 0; i < argv.count; i++) {
        size_t characters = 0;
        for (size_t at = 0; at < argv.items[i].len; characters++)
            abx__next_char(argv.items[i], &at);
        if (characters > ABX_ARGV_WORD_MAX ||
            (argv.items[i].len > 0 && memchr(argv.items[i].ptr, '\0', argv.items[i].len) != NULL))
            return abx_policy_deny(v, ABX_POLICY_COMMAND_INVALID,
                                   "word %zu holds a NUL or more than %d characters", i,
                                   (int)ABX_ARGV_WORD_MAX);
    }
    v->endpoint = (struct abx_str){0};
    return true;
}

bool abx_policy_has_command_rule(const struct abx_policy_rule *rule)
{
    return rule->params[ABX_PARAM_ALLOW_COMMANDS].words.count > 0 ||
           rule->params[ABX_PARAM_DENY_COMMANDS].words.count > 0;
}

static bool not_allowed(const struct match *m, const char *why, struct abx_policy_verdict *v)
{
    struct abx_str argv0 = m->command->argv.items[0];
    v->endpoint = m->rule->id;
    return abx_policy_deny(v, ABX_POLICY_COMMAND_NOT_ALLOWED, "the policy %s \"%.*s\"", why,
                           (int)(argv0.len < 80 ? argv0.len : 80), argv0.len ? argv0.ptr : "");
}

/* What a shell makes of its line can not be told from its words, so no deny list can be held. */
static bool is_out_of_sight(const struct match *m)
{
    return m->command->is_shell_line && m->rule->params[ABX_PARAM_DENY_COMMANDS].words.count > 0;
}

static bool check_lists(struct match *m, struct abx_str *argv, struct abx_policy_verdict *v)
{
    struct abx_str_list deny_list = m->rule->params[ABX_PARAM_DENY_COMMANDS].words,
                        allow_list = m->rule->params[ABX_PARAM_ALLOW_COMMANDS].words;
    struct abx_str_list *deny, *allow;
    if (!read_patterns(m, deny_list, &deny, v) || !read_patterns(m, allow_list, &allow, v))
        return false;
    if (is_out_of_sight(m))
        return not_allowed(m, "denies commands, and can not look into a line for", v);
    for (size_t i = 0; i < deny_list.count; i++)
        if (matches(m, &deny[i], false))
            return not_allowed(m, "denies", v);
    for (size_t i = 0; i < allow_list.count; i++)
        if (matches(m, &allow[i], true))
            return use_paths(m, &allow[i], argv, v);
    return allow_list.count == 0 || not_allowed(m, "does not list", v);
}

bool abx_policy_command_check(const struct abx_policy_rule *rule,
                              const struct abx_policy_command *command, struct abx_arena *a,
                              struct abx_str_list *ret_argv, struct abx_policy_verdict *v)
{
    struct match m = {.rule = rule, .command = command, .a = a};
    *ret_argv = command->argv;
    if (!check_words(rule, command->argv, v))
        return false;
    if (!abx_policy_has_command_rule(rule) || command->argv.count == 0)
        return true;
    struct abx_str *argv = abx_arena_array(a, command->argv.count, sizeof(*argv));
    if (argv == NULL || !flatten(command->argv, a, &m.flat))
        return abx_policy_deny(v, ABX_POLICY_COMMAND_INVALID, "the command is too long");
    memcpy(argv, command->argv.items, command->argv.count * sizeof(*argv));
    m.chosen = abx_arena_array(a, m.flat.count + 1, sizeof(*m.chosen));
    if (m.chosen == NULL)
        return abx_policy_deny(v, ABX_POLICY_COMMAND_INVALID, "the command is too long");
    if (!check_lists(&m, argv, v))
        return false;
    *ret_argv = (struct abx_str_list){argv, command->argv.count};
    return true;
}
