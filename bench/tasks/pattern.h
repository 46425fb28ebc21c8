/* The task patterns of the empty-task benchmark, identical for every engine.
 *
 * A task reads at most one array and read-writes at most one other. This header only says which;
 * turning accesses into dependencies is the engine's work (StarPU, OpenMP) or that of the
 * program that uses it (oneTBB). Valid C and C++.
 */
#ifndef DAHL_BENCH_PATTERN_H
#define DAHL_BENCH_PATTERN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ARRAYS = 64 };

enum pattern { PAIRS, INDEPENDENT, CHAIN };

/* Array indices; -1 stands for no access. */
struct access {
    int read;
    int write;
};

struct generator {
    enum pattern pattern;
    uint64_t state;
};

struct options {
    enum pattern pattern;
    const char *pattern_name;
    int tasks;
    int threads;
};

static inline uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline struct generator generator_new(enum pattern pattern) {
    struct generator g;
    g.pattern = pattern;
    g.state = 42;
    return g;
}

static inline struct access generator_next(struct generator *g) {
    struct access a;
    a.read = -1;
    a.write = -1;
    if (g->pattern == CHAIN) {
        a.write = 0;
    } else if (g->pattern == PAIRS) {
        a.read = (int)(splitmix64(&g->state) % ARRAYS);
        a.write = (int)(splitmix64(&g->state) % (ARRAYS - 1));
        if (a.write >= a.read)
            a.write += 1;
    }
    return a;
}

static inline double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* `PROGRAM PATTERN TASKS THREADS`; anything else ends the program with the usage. */
static inline struct options options_parse(int argc, char **argv) {
    static const char *names[] = {"pairs", "independent", "chain"};
    struct options o;
    o.pattern_name = NULL;
    if (argc == 4) {
        for (int i = 0; i < 3; i++) {
            if (strcmp(argv[1], names[i]) == 0) {
                o.pattern = (enum pattern)i;
                o.pattern_name = names[i];
            }
        }
        o.tasks = atoi(argv[2]);
        o.threads = atoi(argv[3]);
    }
    if (o.pattern_name == NULL || o.tasks < 1 || o.threads < 1) {
        fprintf(stderr, "usage: %s pairs|independent|chain TASKS THREADS\n", argv[0]);
        exit(2);
    }
    return o;
}

/* One JSON line; all figures are nanoseconds per task. A figure that an engine does not have is
 * negative here and absent from the line. */
static inline void report(const char *engine, const char *variant, struct options o, double build,
                          double run, double replay, double total) {
    printf("{\"engine\":\"%s\",\"variant\":\"%s\",\"pattern\":\"%s\",\"tasks\":%d,\"threads\":%d", engine,
           variant, o.pattern_name, o.tasks, o.threads);
    if (build >= 0)
        printf(",\"build_ns\":%.1f", build / o.tasks);
    if (run >= 0)
        printf(",\"run_ns\":%.1f", run / o.tasks);
    if (replay >= 0)
        printf(",\"replay_ns\":%.1f", replay / o.tasks);
    printf(",\"total_ns\":%.1f}\n", total / o.tasks);
}

#endif
