/* cli/template_yaml_fuzz.c: any text is a template, or findings with places inside of it. */
#include "cli/template_yaml.h"
#include "lib/base/fd.h"

#include <assert.h>
#include <jansson.h>

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cli_findings f;
    struct abx_arena a;
    struct cli_template t;
    unsigned lines = 1;
    ABX_AUTO_FREE char *text =
        abx_str_dup(abx_str_n((const char *)data, size < 8192 ? size : 8192));
    struct cli_source source = {"template.yaml", abx_str_n(text, size < 8192 ? size : 8192)};
    abx_arena_init(&a, 32 << 20);
    cli_findings_init(&f);
    for (size_t i = 0; i < source.text.len; i++)
        lines += source.text.ptr[i] == '\n';
    int r = cli_template_read(&source, &a, &f, &t);
    assert((r < 0) == (f.by_level[CLI_ERROR] > 0));
    for (size_t i = 0; i < f.count; i++)
        assert(f.items[i].line <= lines + 1 && f.items[i].text[0] != '\0');
    if (r == 0 && t.policy_json) {
        json_t *doc = json_loads(t.policy_json, JSON_REJECT_DUPLICATES, NULL);
        assert(doc != NULL);
        json_decref(doc);
    }
    cli_findings_done(&f);
    abx_arena_done(&a);
    return 0;
}
