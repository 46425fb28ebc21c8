# Reads the benchmark's JSON lines and prints the median of each figure with its spread, then ratios.
# Flat objects only, written by the programs beside this file.

function number(key,    text) {
    if (!match($0, "\"" key "\":[-+.eE0-9]+")) return ""
    text = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*:/, "", text)
    return text + 0
}

function string(key,    text) {
    if (!match($0, "\"" key "\":\"[^\"]*\"")) return ""
    text = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*:"/, "", text)
    sub(/"$/, "", text)
    return text
}

# Sorts the samples of one figure into `sorted` and returns how many there are.
function samples(row, figure,    n, i, j, v) {
    n = split(values[row, figure], sorted, " ")
    for (i = 2; i <= n; i++) {
        v = sorted[i] + 0
        for (j = i - 1; j >= 1 && sorted[j] + 0 > v; j--) sorted[j + 1] = sorted[j]
        sorted[j + 1] = v
    }
    return n
}

function median(row, figure,    n) {
    n = samples(row, figure)
    if (n == 0) return ""
    return n % 2 ? sorted[(n + 1) / 2] + 0 : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

# `median (smallest-largest)`, or a dash for a figure that this engine does not have.
function cell(row, figure,    m, n) {
    m = median(row, figure)
    if (m == "") return "-"
    n = samples(row, figure)
    return sprintf("%.0f (%.0f-%.0f)", m, sorted[1], sorted[n])
}

function ratio(what, above, below,    text) {
    if (above == "" || below == "" || below == 0) text = "-"
    else text = sprintf("%.2f", above / below)
    printf "  %-52s %s\n", what, text
}

# The variant of an engine with the smallest median of a figure.
function best(engine, threads, figure,    i, row, m, found, least) {
    found = ""
    for (i = 1; i <= rows; i++) {
        row = order[i]
        if (engine_of[row] != engine || threads_of[row] != threads) continue
        m = median(row, figure)
        if (m != "" && (found == "" || m < least)) { found = row; least = m }
    }
    return found
}

BEGIN { figures = split("build_ns run_ns replay_ns total_ns", figure_names, " ") }

/^\{/ {
    row = string("engine") SUBSEP string("variant") SUBSEP number("threads")
    if (!(row in engine_of)) {
        order[++rows] = row
        engine_of[row] = string("engine")
        variant_of[row] = string("variant")
        tasks_of[row] = number("tasks")
        threads_of[row] = number("threads")
        if (!(threads_of[row] in seen)) { seen[threads_of[row]] = 1; counts[++thread_counts] = threads_of[row] }
    }
    for (f = 1; f <= figures; f++) {
        v = number(figure_names[f])
        if (v != "") values[row, figure_names[f]] = values[row, figure_names[f]] " " v
    }
}

END {
    printf "Empty tasks, pattern `%s`: nanoseconds per task, median (smallest-largest)\n\n", pattern
    format = "%-15s %-12s %7s %8s  %-17s %-17s %-17s %s\n"
    for (c = 1; c <= thread_counts; c++) {
        t = counts[c]
        printf format, "engine", "variant", "threads", "tasks", "build/submit", "first run", "replay", "build + first run"
        for (i = 1; i <= rows; i++) {
            row = order[i]
            if (threads_of[row] != t) continue
            printf format, engine_of[row], variant_of[row], t, tasks_of[row], cell(row, "build_ns"), \
                cell(row, "run_ns"), cell(row, "replay_ns"), cell(row, "total_ns")
        }
        print ""
        dahl = best("dahl", t, "replay_ns")
        starpu = best("starpu", t, "total_ns")
        tbb = best("tbb", t, "replay_ns")
        rayon = best("rayon", t, "replay_ns")
        ratio("StarPU (" variant_of[starpu] ") / dahl, submit + execute", median(starpu, "total_ns"), median(dahl, "total_ns"))
        on_starpu = best("dahl-on-starpu", t, "replay_ns")
        ratio("dahl on StarPU (" variant_of[on_starpu] ") / dahl, replay", median(on_starpu, "replay_ns"), median(dahl, "replay_ns"))
        ratio("TBB / dahl, replay", median(tbb, "replay_ns"), median(dahl, "replay_ns"))
        ratio("dahl / rayon, replay", median(dahl, "replay_ns"), median(rayon, "replay_ns"))
        print ""
    }
}
