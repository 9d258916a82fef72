/* guest/caps/git_output.c: what git's machine formats say (git.h). Pure. */
#include "guest/caps/git.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include "lib/base/banned.h"

struct abx_str abx_git_branch(struct abx_str *inout_status)
{
    struct abx_str line;
    if (!abx_str_starts(*inout_status, "## ") || !abx_str_split(inout_status, '\n', &line))
        return ABX_STR("");
    line = abx_str_sub(line, 3, line.len);
    ptrdiff_t dots = abx_str_find(line, ABX_STR("..."));
    return abx_str_sub(line, 0, dots < 0 ? line.len : (size_t)dots);
}

static const struct {
    char letter;
    const char *name;
} states[] = {{'M', "modified"},  {'A', "added"},  {'D', "deleted"}, {'R', "renamed"},
              {'?', "untracked"}, {'C', "copied"}, {'U', "unmerged"}};

static void name_status(char letter, char out[12])
{
    for (size_t i = 0; i < ABX_COUNTOF(states); i++)
        if (states[i].letter == letter) {
            abx_str_to_c(abx_str(states[i].name), out, 12);
            return;
        }
    out[0] = letter;
    out[1] = '\0';
}

static bool is_code(char letter)
{
    return letter >= ' ' && letter < 0x7f;
}

bool abx_git_status_next(struct abx_str *inout_status, struct abx_git_entry *ret)
{
    struct abx_str line;
    while (abx_str_split(inout_status, '\n', &line)) {
        if (line.len < 4 || line.ptr[2] != ' ' || !is_code(line.ptr[0]) || !is_code(line.ptr[1]))
            continue;
        ret->path = abx_str_sub(line, 3, line.len);
        name_status(line.ptr[0] != ' ' ? line.ptr[0] : line.ptr[1], ret->status);
        return true;
    }
    return false;
}

/* "-" stands for a binary file. */
static bool add_count(struct abx_str text, uint64_t *sum)
{
    uint64_t n;
    if (abx_str_is(text, "-"))
        return true;
    if (abx_parse_u64(text, &n) < 0 || __builtin_add_overflow(*sum, n, sum))
        return false;
    return true;
}

/* One record: "1\t2\tname\0", or "1\t2\t\0from\0to\0". False: @text does not begin with one. */
static bool take_record(struct abx_str *text, struct abx_git_stats *stats, struct abx_str names[2])
{
    struct abx_str rest = *text, added, deleted;
    struct abx_git_stats next = *stats;
    names[1] = (struct abx_str){0};
    if (!abx_str_split(&rest, '\t', &added) || !abx_str_split(&rest, '\t', &deleted) ||
        !add_count(added, &next.insertions) || !add_count(deleted, &next.deletions) ||
        abx_str_chr(rest, '\0') < 0 || !abx_str_split(&rest, '\0', &names[0]))
        return false;
    if (names[0].len == 0 &&
        (abx_str_chr(rest, '\0') < 0 || !abx_str_split(&rest, '\0', &names[0]) ||
         abx_str_chr(rest, '\0') < 0 || !abx_str_split(&rest, '\0', &names[1])))
        return false;
    *stats = next;
    *text = rest;
    return true;
}

bool abx_git_numstat(struct abx_str *inout_text, struct abx_git_stats *ret,
                     bool (*on_path)(void *ctx, struct abx_str path), void *ctx)
{
    struct abx_str names[2], last = {0};
    *ret = (struct abx_git_stats){0};
    while (take_record(inout_text, ret, names)) {
        /* An unmerged file has a record for the conflict and one for its text. */
        ret->files += last.ptr == NULL || !abx_str_eq(last, names[0]);
        last = names[0];
        for (size_t i = 0; on_path && i < 2; i++)
            if (names[i].ptr && !on_path(ctx, names[i]))
                return false;
    }
    return true;
}
