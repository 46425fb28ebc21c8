/* Empty tasks on StarPU: submission overlaps execution, so only the total has a meaning.
 *
 * The policy comes from STARPU_SCHED and the number of workers from STARPU_NCPUS, as StarPU users set
 * them; THREADS on the command line must agree and is checked against what StarPU started.
 */
#include <starpu.h>

#include "pattern.h"

static void empty(void *buffers[], void *arg) {
    (void)buffers;
    (void)arg;
}

static struct starpu_codelet two = {
    .cpu_funcs = {empty}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}, .name = "two"};
static struct starpu_codelet one = {
    .cpu_funcs = {empty}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "one"};
static struct starpu_codelet none = {.cpu_funcs = {empty}, .nbuffers = 0, .name = "none"};

static int submit(struct options o, int tasks, starpu_data_handle_t *handles) {
    struct generator g = generator_new(o.pattern);
    int bad = 0;
    for (int i = 0; i < tasks; i++) {
        struct access a = generator_next(&g);
        if (a.read >= 0)
            bad |= starpu_task_insert(&two, STARPU_R, handles[a.read], STARPU_RW, handles[a.write], 0);
        else if (a.write >= 0)
            bad |= starpu_task_insert(&one, STARPU_RW, handles[a.write], 0);
        else
            bad |= starpu_task_insert(&none, 0);
    }
    return bad;
}

int main(int argc, char **argv) {
    struct options o = options_parse(argc, argv);
    static double values[ARRAYS];
    starpu_data_handle_t handles[ARRAYS];
    if (starpu_init(NULL) != 0) {
        fprintf(stderr, "starpu_init failed\n");
        return 1;
    }
    if ((int)starpu_cpu_worker_get_count() != o.threads) {
        fprintf(stderr, "StarPU started %u workers, %d were asked for: set STARPU_NCPUS\n",
                starpu_cpu_worker_get_count(), o.threads);
        starpu_shutdown();
        return 1;
    }
    for (int i = 0; i < ARRAYS; i++)
        starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)&values[i],
                                      sizeof values[i]);

    int bad = submit(o, o.tasks / 10, handles); /* warm-up: threads, allocator, caches */
    starpu_task_wait_for_all();

    double start = now_ns();
    bad |= submit(o, o.tasks, handles);
    starpu_task_wait_for_all();
    double end = now_ns();

    for (int i = 0; i < ARRAYS; i++)
        starpu_data_unregister(handles[i]);
    starpu_shutdown();
    if (bad) {
        fprintf(stderr, "starpu_task_insert failed\n");
        return 1;
    }
    const char *policy = getenv("STARPU_SCHED");
    char variant[64];
    snprintf(variant, sizeof variant, "%s%s", policy ? policy : "default",
             getenv("STARPU_LIMIT_MAX_SUBMITTED_TASKS") ? "+window" : "");
    report("starpu", variant, o, -1, -1, -1, end - start);
    return 0;
}
