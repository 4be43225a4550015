/* What the fake libraries share: a number, or how to misbehave, from an environment variable. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

static int start(const char *name) {
    const char *value = getenv(name);
    if (!value) return 0;
    if (!strcmp(value, "hang")) for (;;) pause();
    if (!strcmp(value, "fork")) { /* a helper of the driver's that outlives it and holds its output */
        if (!fork()) for (;;) pause();
        for (;;) pause();
    }
    if (!strcmp(value, "crash")) raise(SIGSEGV);
    if (!strcmp(value, "exit")) _exit(0);
    if (!strcmp(value, "print")) {
        puts("{\"init\": 999}\n\x01\xff garbage");
        fflush(stdout);
        return write(1, "{\"init\": 998}\nend\n", 18) < 0;
    }
    return atoi(value);
}
