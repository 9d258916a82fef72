/* guest/caps/git_history.c: commits, references and blamed lines as git prints them (git.h). Pure.
 */
#include "guest/caps/git.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include "lib/base/banned.h"

static struct abx_str without_line_ends(struct abx_str s)
{
    while (s.len && s.ptr[s.len - 1] == '\n')
        s = abx_str_sub(s, 0, s.len - 1);
    return s;
}

bool abx_git_commit_next(struct abx_str *inout_log, struct abx_git_commit *ret)
{
    struct abx_str record;
    *ret = (struct abx_git_commit){{0}};
    struct abx_str *const fields[] = {&ret->hash,           &ret->parents,        &ret->author,
                                      &ret->author_mail,    &ret->author_date,    &ret->committer,
                                      &ret->committer_mail, &ret->committer_date, &ret->subject};
    if (!abx_str_split(inout_log, '\0', &record) || record.len == 0)
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(fields); i++)
        if (!abx_str_split(&record, '\n', fields[i]))
            return false;
    ret->body = without_line_ends(record);
    return true;
}

bool abx_git_ref_next(struct abx_str *inout_refs, struct abx_git_ref *ret)
{
    struct abx_str line, head, name;
    *ret = (struct abx_git_ref){0};
    if (!abx_str_split(inout_refs, '\n', &line) || !abx_str_split(&line, '\0', &head) ||
        !abx_str_split(&line, '\0', &name) || !abx_str_split(&line, '\0', &ret->hash) ||
        !abx_str_split(&line, '\0', &ret->upstream) || !abx_str_split(&line, '\0', &ret->date))
        return false;
    ret->subject = line;
    ret->is_head = abx_str_is(head, "*");
    ret->is_remote = abx_str_starts(name, "refs/remotes/");
    ret->name = abx_str_sub(name, ret->is_remote ? strlen("refs/remotes/") : strlen("refs/heads/"),
                            name.len);
    return true;
}

/* "HASH ORIGINAL FINAL [COUNT]" */
static bool read_head(struct abx_str line, struct abx_git_line *ret)
{
    struct abx_str original, number;
    return abx_str_split(&line, ' ', &ret->hash) && abx_str_split(&line, ' ', &original) &&
           abx_str_split(&line, ' ', &number) && abx_parse_u64(number, &ret->number) == 0;
}

static void read_header(struct abx_str line, struct abx_git_line *ret)
{
    if (abx_str_starts(line, "author "))
        ret->author = abx_str_sub(line, strlen("author "), line.len);
    else if (abx_str_starts(line, "summary "))
        ret->summary = abx_str_sub(line, strlen("summary "), line.len);
    else if (abx_str_starts(line, "author-time "))
        (void)abx_parse_i64(abx_str_sub(line, strlen("author-time "), line.len), &ret->author_time);
}

bool abx_git_line_next(struct abx_str *inout_blame, struct abx_git_line *ret)
{
    struct abx_str line;
    *ret = (struct abx_git_line){0};
    if (!abx_str_split(inout_blame, '\n', &line) || !read_head(line, ret))
        return false;
    while (abx_str_split(inout_blame, '\n', &line)) {
        if (abx_str_starts(line, "\t")) {
            ret->text = abx_str_sub(line, 1, line.len);
            return true;
        }
        read_header(line, ret);
    }
    return false;
}
