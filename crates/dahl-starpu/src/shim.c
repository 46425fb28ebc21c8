/* StarPU as plain functions.
 *
 * Its structures (configuration, codelets, tasks, performance models) change from version to version. Here, and nowhere
 * else, they are known, by the headers of the version that is linked. What the other side sees is opaque pointers and
 * numbers. Nothing is decided here.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <starpu.h>

/* On the other side: executes a task for a worker. */
extern void dahl_starpu_run(int worker, void *slot);

static void run(void *buffers[], void *slot) {
    (void)buffers;
    dahl_starpu_run(starpu_worker_get_id(), slot);
}

/* Durations are kept by what the task is, which is no matter of data here: a number that travels with it. */
static uint32_t footprint(struct starpu_task *task) {
    return (uint32_t)(uintptr_t)task->callback_arg;
}

struct dahl_codelet {
    struct starpu_codelet codelet;
    struct starpu_perfmodel model;
    char name[];
};

void dahl_starpu_version(int version[3]) {
    starpu_get_version(&version[0], &version[1], &version[2]);
}

int dahl_starpu_max_workers(void) {
    return STARPU_MAXCPUS;
}

/* The name of a policy, or NULL beyond the last. */
const char *dahl_starpu_policy(unsigned place) {
    struct starpu_sched_policy **all = starpu_sched_get_predefined_policies();
    for (unsigned i = 0; all[i]; i++)
        if (i == place)
            return all[i]->policy_name;
    return NULL;
}

/* Starts CPU workers under a policy. What is not set here is as StarPU's environment variables say. */
int dahl_starpu_start(int workers, const char *policy) {
    struct starpu_conf conf;
    int code = starpu_conf_init(&conf);
    if (code != 0)
        return code;
    conf.precedence_over_environment_variables = 1;
    conf.sched_policy_name = policy;
    conf.ncpus = workers;
    conf.ncuda = 0;
    conf.nopencl = 0;
    conf.catch_signals = 0; /* they are the program's */
    if (!getenv("STARPU_CALIBRATE"))
        conf.calibrate = 1; /* durations are learnt while running, as with other policies */
    return starpu_init(&conf);
}

unsigned dahl_starpu_workers(void) {
    return starpu_cpu_worker_get_count();
}

void dahl_starpu_stop(void) {
    starpu_task_wait_for_all();
    starpu_shutdown();
}

/* A kind of task; `model` names the file of its durations, or is NULL. NULL if there is no memory. */
struct dahl_codelet *dahl_starpu_codelet(const char *name, const char *model) {
    size_t length = strlen(name) + 1, more = model ? strlen(model) + 1 : 0;
    struct dahl_codelet *made = calloc(1, sizeof *made + length + more);
    if (!made)
        return NULL;
    memcpy(made->name, name, length);
    starpu_codelet_init(&made->codelet);
    made->codelet.where = STARPU_CPU;
    made->codelet.cpu_funcs[0] = run;
    made->codelet.nbuffers = 0;
    made->codelet.name = made->name;
    if (model) {
        memcpy(made->name + length, model, more);
        made->model.type = STARPU_HISTORY_BASED;
        made->model.symbol = made->name + length;
        made->model.footprint = footprint;
        made->codelet.model = &made->model;
    }
    return made;
}

/* After StarPU has ended. */
void dahl_starpu_free(struct dahl_codelet *codelet) {
    free(codelet);
}

/* A task, which StarPU destroys when it has run. */
struct starpu_task *dahl_starpu_task(struct dahl_codelet *codelet, void *slot, int priority, uint32_t number) {
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet->codelet;
    task->cl_arg = slot;
    task->cl_arg_size = 0;
    task->priority = priority;
    task->callback_arg = (void *)(uintptr_t)number;
    return task;
}

/* A task that is not submitted waits for others that are not. */
void dahl_starpu_after(struct starpu_task *task, unsigned count, struct starpu_task *before[]) {
    starpu_task_declare_deps_array(task, count, before);
}

int dahl_starpu_submit(struct starpu_task *task) {
    return starpu_task_submit(task);
}
