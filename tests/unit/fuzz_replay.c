/* tests/unit/fuzz_replay.c: feeds every file of a corpus folder to a fuzz target, as a plain test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return -1;
    static uint8_t data[1 << 20];
    size_t n = fread(data, 1, sizeof(data), f);
    fclose(f);
    uint8_t *copy = malloc(n ? n : 1); /* exact size, so that a sanitizer sees an over-read */
    if (copy == NULL)
        return -1;
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned ran = 0;
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    if (d == NULL) {
        fprintf(stderr, "no corpus folder: %s\n", argc > 1 ? argv[1] : "(none named)");
        return 1;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
        if (replay_file(path) < 0) {
            fprintf(stderr, "can not read %s\n", path);
            return 1;
        }
        ran++;
    }
    closedir(d);
    printf("%u passed, %d failed\n", ran, ran == 0);
    return ran == 0;
}
