/* host/image/dockerfile_test.c: what a Dockerfile means, what is refused and where. */
#include "host/image/dockerfile.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All steps as "TYPE a|b|c" lines, after "FROM image". */
static const char *plan_text(const char *text, const struct abx_df_options *o)
{
    static char out[8192];
    struct abx_arena a;
    struct abx_dockerfile df;
    struct abx_df_plan plan;
    struct abx_df_fault f;
    abx_arena_init(&a, ABX_DF_MEMORY_MAX);
    char *copy = abx_str_dup(abx_str(text)); /* not terminated where it counts */
    if (abx_dockerfile_parse(abx_str_n(copy, strlen(text)), &a, &df, &f) < 0 ||
        abx_dockerfile_plan(&df, o, &a, &plan, &f) < 0) {
        snprintf(out, sizeof(out), "%u:%u+%u: %s", f.at.line, f.at.column, f.at.width, f.text);
    } else {
        int n = snprintf(out, sizeof(out), "FROM %.*s\n", ABX_STR_FMT(plan.image));
        for (size_t i = 0; i < plan.count; i++) {
            n += snprintf(out + n, sizeof(out) - (size_t)n, "%s", plan.steps[i].type);
            for (size_t k = 0; k < plan.steps[i].arg_count; k++)
                n += snprintf(out + n, sizeof(out) - (size_t)n, "%c%.*s", k ? '|' : ' ',
                              ABX_STR_FMT(plan.steps[i].args[k]));
            n += snprintf(out + n, sizeof(out) - (size_t)n, "\n");
        }
    }
    free(copy);
    abx_arena_done(&a);
    return out;
}

static const char *plan(const char *text)
{
    return plan_text(text, &(struct abx_df_options){0});
}

#define HEAD "USER root\nWORKDIR /\n"
#define TAIL "USER user\nWORKDIR /home/user\n"

TEST(instructions_become_steps)
{
    static const struct {
        const char *text, *steps;
    } rows[] = {
        {"FROM a", "FROM a\n" HEAD TAIL},
        {"# syntax=x\n# a comment\n\nfrom a as b\n", "FROM a\n" HEAD TAIL},
        {"FROM a\nRUN echo hi", "FROM a\n" HEAD "RUN echo hi\n" TAIL},
        {"FROM a\nRUN a \\\n  # between\n\n  && b\n", "FROM a\n" HEAD "RUN a   && b\n" TAIL},
        {"FROM a\r\nRUN a \\\r\n b\r\n", "FROM a\n" HEAD "RUN a  b\n" TAIL},
        {"# escape=`\nFROM a\nRUN a `\n b\\", "FROM a\n" HEAD "RUN a  b\\\n" TAIL},
        {"FROM a\nRUN [\"a b\", \"it's\", \"\\u00e9\\n\"]",
         "FROM a\n" HEAD "RUN exec 'a b' 'it'\\''s' '\xC3\xA9\n'\n" TAIL},
        {"FROM a\nRUN [ -f x ]", "FROM a\n" HEAD "RUN [ -f x ]\n" TAIL},
        {"FROM a\nSHELL [\"/bin/sh\", \"-ec\"]\nRUN a 'b'",
         "FROM a\n" HEAD "RUN exec '/bin/sh' '-ec' 'a '\\''b'\\'''\n" TAIL},
        {"FROM a\nRUN <<EOF\none\n  two\nEOF\nUSER u",
         "FROM a\n" HEAD "RUN one\n  two\nUSER u\nWORKDIR /home/user\n"},
        {"FROM a\nRUN <<-EOF\n\tone\n\tEOF\nWORKDIR w",
         "FROM a\n" HEAD "RUN one\nWORKDIR w\nUSER user\n"},
        {"FROM a\nRUN cat <<'A' <<B >f\n# 1\nA\n2\nB\nRUN x",
         "FROM a\n" HEAD "RUN cat <<'A' <<B >f\n# 1\nA\n2\nB\n\nRUN x\n" TAIL},
        {"FROM a\nENV A=1 B=\"x y\" C='$q' D=$A", "2:1+0: "},
        {"FROM a\nENV A=1 B=\"x y\" D=$A P=$PATH:/b\nENV E=$A/${B:-no}\nENV F some words",
         "FROM a\n" HEAD "ENV A|1|B|x y|D|${A}|P|${PATH}:/b\nENV E|1/x y\nENV F|some words\n" TAIL},
        {"ARG T=1\nFROM a:${T}-x\nARG T\nARG U=u$T\nRUN x\nCOPY $U /d",
         "FROM a:1-x\n" HEAD "RUN export T='1'; export U='u1'; x\nCOPY u1|/d|root:root|\n" TAIL},
        {"FROM a\nCOPY --chown=u:g --chmod=755 a b/ c/",
         "FROM a\n" HEAD "COPY a|c/|u:g|0755\nCOPY b/|c/|u:g|0755\n" TAIL},
        {"FROM a\nCOPY [\"a b\", \"/c\"]\nADD x.txt \"/y z\"",
         "FROM a\n" HEAD "COPY a b|/c|root:root|\nCOPY x.txt|/y z|root:root|\n" TAIL},
        {"FROM a\nARG N\nARG M\nWORKDIR /${N:-d}/${M:+no}x\nEXPOSE 80\nLABEL a=b\nCMD "
         "x\nENTRYPOINT y",
         "FROM a\n" HEAD "WORKDIR /d/x\nUSER user\n"},
        {"FROM a\nHEALTHCHECK --interval=5s CMD x\nUSER root",
         "FROM a\n" HEAD "USER root\nWORKDIR /home/user\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = plan(rows[i].text);
        if (strncmp(rows[i].steps, "2:1", 3) == 0)
            assert_non_null(strstr(got, "a literal $"));
        else
            assert_string_equal(got, rows[i].steps);
    }
}

TEST(what_is_not_supported_is_refused_by_name_and_place)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"", "1:1+1: no FROM"},
        {"RUN x", "1:1+3: RUN before FROM"},
        {"FROM a\n\n  RNU x", "3:3+3: no instruction 'RNU'; did you mean "},
        {"FROM a\nVOLUME /x", "2:1+6: VOLUME is not supported"},
        {"FROM a\nONBUILD RUN x", "2:1+7: ONBUILD is not supported"},
        {"FROM a\nFROM b", "2:1+4: a second FROM"},
        {"FROM a\nCOPY --from=x a b", "2:6+8: COPY --from"},
        {"FROM a\nCOPY --link=x a b", "2:6+8: COPY --link is not supported"},
        {"FROM a\nRUN --mount=type=cache x", "2:5+18: RUN --mount is not supported"},
        {"FROM a\nRUN --network=host x", "2:5+14: RUN --network is not supported"},
        {"FROM a\nCOPY a", "2:1+4: COPY needs a source"},
        {"FROM a\nCOPY a b c", "2:10+1: several sources need a folder"},
        {"FROM a\nCOPY --chmod=u+x a b", "2:6+11: --chmod is three or four"},
        {"FROM a\nADD https://x/y /z", "2:5+11: ADD takes local files only"},
        {"FROM a\nADD x.tar.gz /z", "2:5+8: ADD would unpack"},
        {"FROM a\nCOPY <<EOF /x\nEOF", "2:6+5: COPY of a here-document"},
        {"FROM a\nRUN <<EOF\nx", "2:5+5: the here-document has no line 'EOF'"},
        {"FROM a\nRUN <<EOF\n#!/bin/x\nEOF", "2:5+5: a here-document with #!"},
        {"FROM a\nUSER a:b", "2:6+3: USER with a group"},
        {"FROM a\nUSER a b", "2:8+1: USER takes one name"},
        {"FROM a\nSHELL /bin/sh", "2:1+5: SHELL is written"},
        {"FROM a\nCOPY $NO /x", "2:6+3: variable NO is set by no ARG"},
        {"FROM a\nRUN x \\\n y\nCOPY a\\\n $NO b/", "5:2+3: variable NO"},
        {"FROM a\nENV 1x=2", "2:5+4: '1x' is no variable name"},
        {"FROM a\nENV A", "2:5+1: ENV A has no value"},
        {"FROM a\nENV A=\"x", "2:5+4: a quote is not closed"},
        {"FROM a\nARG A=1\nENV B=${A#x}", "3:5+8: ${A#x}: only"},
        {"# escape=x\nFROM a", "1:1+10: escape is"},
        {"FROM $X", "1:6+2: variable X"},
        {"FROM a b", "1:1+4: FROM IMAGE, or"},
        {"FROM a\nWORKDIR", "2:1+7: WORKDIR needs an argument"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = plan(rows[i].text);
        if (strncmp(got, rows[i].fault, strlen(rows[i].fault)) != 0)
            fail_msg("row %zu: %s\n is not %s", i, got, rows[i].fault);
    }
}

TEST(build_args_replace_defaults)
{
    const struct abx_df_variable args[] = {{ABX_STR("R"), ABX_STR("there")}};
    const struct abx_df_options o = {args, 1, "/home/user"};
    assert_string_equal(plan_text("ARG R=here\nFROM x.$R\nARG R\nWORKDIR $R", &o),
                        "FROM x.there\nUSER root\nWORKDIR /home/user\nWORKDIR there\nUSER user\n");
}

TEST(env_is_in_force_over_arg)
{
    assert_string_equal(plan("FROM a\nARG V=1\nENV V=2\nARG V=3\nWORKDIR /$V\nRUN x"),
                        "FROM a\n" HEAD "ENV V|2\nWORKDIR /2\nRUN x\nUSER user\n");
}

TEST(limits_are_faults)
{
    struct abx_arena a;
    struct abx_dockerfile df;
    struct abx_df_fault f;
    size_t n = ABX_DF_TEXT_MAX + 1;
    char *big = calloc(1, n);
    memset(big, '\n', n);
    abx_arena_init(&a, ABX_DF_MEMORY_MAX);
    assert_int_equal(abx_dockerfile_parse(abx_str_n(big, n), &a, &df, &f), -1);
    n = (size_t)snprintf(big, n, "FROM a\n");
    for (int i = 0; i < ABX_DF_INSTRUCTIONS_MAX; i++)
        n += (size_t)snprintf(big + n, 16, "RUN %d\n", i);
    assert_int_equal(abx_dockerfile_parse(abx_str_n(big, n), &a, &df, &f), -1);
    assert_int_equal(f.at.line, ABX_DF_INSTRUCTIONS_MAX + 1);
    free(big);
    abx_arena_done(&a);
}
