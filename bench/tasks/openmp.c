/* Empty tasks on OpenMP `depend` clauses: submission overlaps execution, only the total is reported.
 *
 * Each task adds to a counter of the thread that runs it, so that the compiler keeps the task and a
 * lost one is noticed.
 */
#include <omp.h>

#include "pattern.h"

enum { LINE = 64, MAX_THREADS = 1024 };
static struct {
    long done;
    char pad[LINE - sizeof(long)];
} counters[MAX_THREADS];

static void count(void) { counters[omp_get_thread_num()].done++; }

static void submit(struct options o, int tasks) {
    static double arrays[ARRAYS]; /* only their addresses matter */
    (void)arrays;
    struct generator g = generator_new(o.pattern);
    for (int i = 0; i < tasks; i++) {
        struct access a = generator_next(&g);
        if (a.read >= 0) {
#pragma omp task depend(in : arrays[a.read]) depend(inout : arrays[a.write])
            count();
        } else if (a.write >= 0) {
#pragma omp task depend(inout : arrays[a.write])
            count();
        } else {
#pragma omp task
            count();
        }
    }
#pragma omp taskwait
}

int main(int argc, char **argv) {
    struct options o = options_parse(argc, argv);
    if (o.threads > MAX_THREADS) {
        fprintf(stderr, "at most %d threads\n", MAX_THREADS);
        return 2;
    }
    double time = 0;
    int warm = o.tasks / 10;
#pragma omp parallel num_threads(o.threads)
#pragma omp single
    {
        submit(o, warm);
        double start = now_ns();
        submit(o, o.tasks);
        time = now_ns() - start;
    }
    long done = 0;
    for (int i = 0; i < o.threads; i++)
        done += counters[i].done;
    if (done != (long)warm + o.tasks) {
        fprintf(stderr, "%ld tasks ran instead of %d\n", done, warm + o.tasks);
        return 1;
    }
    report("openmp", "depend", o, -1, -1, -1, time);
    return 0;
}
