/* bench/spawn.c: the floor: posix_spawn and waitpid of a program, N times, C at once.
 * Usage: spawn N C PROGRAM [ARG...]. Prints the microseconds of each, then "rate PER_SECOND". */
#include "lib/base/parse.h"
#include "lib/base/str.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

static struct {
    char **argv;
    double *samples;
    uint32_t count;
    _Atomic uint32_t next;
    _Atomic int failed;
} job;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void *run(void *unused)
{
    (void)unused;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    uint32_t i;
    while (!job.failed && (i = job.next++) < job.count) {
        double began = now_us();
        pid_t pid;
        int status = 0;
        if (posix_spawnp(&pid, job.argv[0], &actions, NULL, job.argv, environ) != 0 ||
            waitpid(pid, &status, 0) != pid || status != 0)
            job.failed = 1;
        job.samples[i] = now_us() - began;
    }
    posix_spawn_file_actions_destroy(&actions);
    return NULL;
}

int main(int argc, char **argv)
{
    uint32_t at_once;
    pthread_t threads[64];
    if (argc < 4 || abx_parse_u32(abx_str(argv[1]), &job.count) < 0 ||
        abx_parse_u32(abx_str(argv[2]), &at_once) < 0 || at_once == 0 || at_once > 64 ||
        job.count == 0 || job.count > 1000000)
        return 2;
    job.argv = argv + 3;
    job.samples = calloc(job.count, sizeof(*job.samples));
    if (job.samples == NULL)
        return 1;
    double began = now_us();
    for (uint32_t i = 0; i < at_once; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            return 1;
    for (uint32_t i = 0; i < at_once; i++)
        pthread_join(threads[i], NULL);
    double took = now_us() - began;
    for (uint32_t i = 0; i < job.count; i++)
        printf("%.1f\n", job.samples[i]);
    printf("rate %.1f\n", job.count / took * 1e6);
    free(job.samples);
    return job.failed;
}
