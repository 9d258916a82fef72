/* tests/attacks/attacks.h: what is tried from inside a sandbox; one function per attack. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct attack {
    const char *name;
    void (*run)(FILE *out, const char *arg); /* prints what it got, "errno N" for a refusal */
};
void note_descriptors(void);          /* of PID 1, first of all */
extern const struct attack attacks[]; /* ends with a NULL name */
