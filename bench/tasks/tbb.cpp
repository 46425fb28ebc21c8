// Empty tasks on oneTBB: a prebuilt flow graph of continue_nodes, timed as build, first run, replay.
//
// The dependency rule is the sequential one: the last writer comes before a reader; the last writer
// and the readers since come before a writer. An edge is added once even if two arrays ask for it.
#include <algorithm>
#include <atomic>
#include <deque>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include "pattern.h"

using tbb::flow::continue_msg;
using Node = tbb::flow::continue_node<continue_msg>;

struct Array {
    int writer = -1;
    std::vector<int> readers;
};

// What a task waits for; `before` is scratch that the caller keeps.
static void predecessors(access a, int task, std::vector<Array> &arrays, std::vector<int> &before) {
    before.clear();
    if (a.read >= 0) {
        Array &r = arrays[a.read];
        if (r.writer >= 0)
            before.push_back(r.writer);
        r.readers.push_back(task);
    }
    if (a.write >= 0) {
        Array &w = arrays[a.write];
        if (w.writer >= 0)
            before.push_back(w.writer);
        before.insert(before.end(), w.readers.begin(), w.readers.end());
        w.readers.clear();
        w.writer = task;
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
}

// A graph with the nodes that start it.
struct Dag {
    tbb::flow::graph graph;
    std::deque<Node> nodes;
    std::vector<Node *> roots;
    long edges = 0;

    explicit Dag(options o) {
        std::vector<Array> arrays(ARRAYS);
        std::vector<int> before;
        generator g = generator_new(o.pattern);
        for (int i = 0; i < o.tasks; i++) {
            predecessors(generator_next(&g), i, arrays, before);
            nodes.emplace_back(graph, [](const continue_msg &m) { return m; });
            for (int p : before)
                tbb::flow::make_edge(nodes[p], nodes[i]);
            if (before.empty())
                roots.push_back(&nodes[i]);
            edges += (long)before.size();
        }
    }

    void run() {
        for (Node *root : roots)
            root->try_put(continue_msg());
        graph.wait_for_all();
    }
};

int main(int argc, char **argv) {
    options o = options_parse(argc, argv);
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)o.threads);
    tbb::task_arena arena(o.threads);
    arena.execute([&] {
        options small = o;
        small.tasks = std::max(1, o.tasks / 10);
        Dag(small).run();

        double t0 = now_ns();
        Dag dag(o);
        double t1 = now_ns();
        dag.run();
        double t2 = now_ns();
        dag.run();
        double t3 = now_ns();
        report("tbb", "flow-graph", o, t1 - t0, t2 - t1, t3 - t2, t2 - t0);
        fprintf(stderr, "tbb: %ld edges\n", dag.edges);
    });
    return 0;
}
