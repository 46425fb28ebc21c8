/* StarPU as plain functions.
 *
 * Its structures (configuration, codelets, tasks, performance models) change from version to version. Here, and nowhere
 * else, they are known, by the headers of the version that is linked. What the other side sees is opaque pointers and
 * numbers. Nothing is decided here.
 */
#include <stdio.h>
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
    made->codelet.nbuffers = STARPU_VARIABLE_NBUFFERS; /* tasks say how many */
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

/* A piece of data as StarPU sees it: so many bytes of the main memory. Where they lie is not said, since CPU workers all
 * work in that memory and nothing is ever copied; kernels get their operands from the other side. */
struct cell {
    size_t bytes;
};

static struct cell *cell_of(starpu_data_handle_t handle, unsigned node) {
    return starpu_data_get_interface_on_node(handle, node);
}

/* How a memory is named to an interface. */
#if STARPU_MAJOR_VERSION == 1 && STARPU_MINOR_VERSION < 4
typedef unsigned home_node;
#else
typedef int home_node;
#endif

static void cell_register(starpu_data_handle_t handle, home_node home, void *given) {
    (void)home;
    for (unsigned node = 0; node < STARPU_MAXNODES; node++)
        *cell_of(handle, node) = *(struct cell *)given;
}

static size_t cell_size(starpu_data_handle_t handle) {
    return cell_of(handle, STARPU_MAIN_RAM)->bytes;
}

static uint32_t cell_footprint(starpu_data_handle_t handle) {
    return (uint32_t)cell_size(handle);
}

static int cell_compare(void *one, void *other) {
    return ((struct cell *)one)->bytes == ((struct cell *)other)->bytes;
}

static void cell_display(starpu_data_handle_t handle, FILE *out) {
    fprintf(out, "%zu\t", cell_size(handle));
}

static starpu_ssize_t cell_describe(void *cell, char *text, size_t room) {
    return snprintf(text, room, "cell of %zu bytes", ((struct cell *)cell)->bytes);
}

/* There is no second memory to copy to. */
static const struct starpu_data_copy_methods no_copies;

static struct starpu_data_interface_ops cells = {
    .register_data_handle = cell_register,
    .copy_methods = &no_copies,
    .get_size = cell_size,
    .footprint = cell_footprint,
    .compare = cell_compare,
    .display = cell_display,
    .describe = cell_describe,
    .interfaceid = STARPU_UNKNOWN_INTERFACE_ID,
    .interface_size = sizeof(struct cell),
    .name = "dahl_cell",
};

/* A handle for so many bytes, which are where they belong. One thread at a time calls this. */
starpu_data_handle_t dahl_starpu_data(size_t bytes) {
    struct cell cell = {bytes};
    starpu_data_handle_t handle;
    if (cells.interfaceid == STARPU_UNKNOWN_INTERFACE_ID)
        cells.interfaceid = starpu_data_interface_get_next_id();
    starpu_data_register(&handle, STARPU_MAIN_RAM, &cell, &cells);
    return handle;
}

/* Waits until no task has it, and forgets it. */
void dahl_starpu_forget(starpu_data_handle_t handle) {
    starpu_data_unregister_no_coherency(handle);
}

/* A task, which StarPU destroys when it has run, with its data: each handle once, and whether it is read (1), written (2) or
 * both (3). Edges alone say who waits for whom: data that StarPU sees order nothing. */
struct starpu_task *dahl_starpu_task(struct dahl_codelet *codelet, void *slot, int priority, uint32_t number,
                                     unsigned count, starpu_data_handle_t const *data, uint8_t const *modes) {
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet->codelet;
    task->cl_arg = slot;
    task->cl_arg_size = 0;
    task->priority = priority;
    task->callback_arg = (void *)(uintptr_t)number;
    task->sequential_consistency = 0;
    task->nbuffers = (int)count;
    if (count) {
        /* Both are freed with the task. */
        task->dyn_handles = malloc(count * sizeof *task->dyn_handles);
        task->dyn_modes = malloc(count * sizeof *task->dyn_modes);
        if (!task->dyn_handles || !task->dyn_modes)
            abort(); /* as StarPU does where it has no memory for a task */
        for (unsigned i = 0; i < count; i++) {
            task->dyn_handles[i] = data[i];
            task->dyn_modes[i] = modes[i] == 1 ? STARPU_R : modes[i] == 2 ? STARPU_W : STARPU_RW;
        }
    }
    return task;
}

/* A task that is not submitted waits for others that are not. */
void dahl_starpu_after(struct starpu_task *task, unsigned count, struct starpu_task *before[]) {
    starpu_task_declare_deps_array(task, count, before);
}

int dahl_starpu_submit(struct starpu_task *task) {
    return starpu_task_submit(task);
}
