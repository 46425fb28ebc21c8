//! Empty tasks on rayon: successor lists, one atomic counter per task, a spawn when it reaches zero.
//!
//! This is what is left of a task runtime when nothing but ordering remains: no data, no policy, no
//! trace. It is written the natural way (every released successor is spawned, none is run inline), so
//! it bounds what a general engine on rayon could reach, not what a tuned one could.
//!
//! The dependency rule is the one of `tbb.cpp`: the last writer comes before a reader; the last writer
//! and the readers since come before a writer; double edges are kept once.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rayon::Scope;

const ARRAYS: usize = 64;

#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    Pairs,
    Independent,
    Chain,
}

/// Which array a task reads and which it read-writes.
#[derive(Default)]
struct Access {
    read: Option<usize>,
    write: Option<usize>,
}

struct Generator {
    pattern: Pattern,
    state: u64,
}

impl Generator {
    fn splitmix64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn next(&mut self) -> Access {
        match self.pattern {
            Pattern::Independent => Access::default(),
            Pattern::Chain => Access {
                read: None,
                write: Some(0),
            },
            Pattern::Pairs => {
                let r = (self.splitmix64() % ARRAYS as u64) as usize;
                let w = (self.splitmix64() % (ARRAYS as u64 - 1)) as usize;
                Access {
                    read: Some(r),
                    write: Some(if w >= r { w + 1 } else { w }),
                }
            }
        }
    }
}

/// Task `i` releases `successors[first[i]..first[i + 1]]` and waits for `waits[i]` others.
struct Dag {
    first: Vec<u32>,
    successors: Vec<u32>,
    waits: Vec<u32>,
    counters: Vec<AtomicU32>,
    roots: Vec<u32>,
}

impl Dag {
    fn build(pattern: Pattern, tasks: usize) -> Dag {
        let mut generator = Generator { pattern, state: 42 };
        let mut writer: [Option<u32>; ARRAYS] = [None; ARRAYS];
        let mut readers: [Vec<u32>; ARRAYS] = std::array::from_fn(|_| Vec::new());
        let mut edges: Vec<(u32, u32)> = Vec::with_capacity(4 * tasks);
        let mut waits = Vec::with_capacity(tasks);
        let mut first = vec![0u32; tasks + 1];
        let mut before: Vec<u32> = Vec::new();
        for task in 0..tasks as u32 {
            let access = generator.next();
            before.clear();
            if let Some(r) = access.read {
                before.extend(writer[r]);
                readers[r].push(task);
            }
            if let Some(w) = access.write {
                before.extend(writer[w]);
                before.append(&mut readers[w]);
                writer[w] = Some(task);
            }
            before.sort_unstable();
            before.dedup();
            for &p in &before {
                edges.push((p, task));
                first[p as usize + 1] += 1;
            }
            waits.push(before.len() as u32);
        }
        for i in 0..tasks {
            first[i + 1] += first[i];
        }
        let mut cursor = first.clone();
        let mut successors = vec![0; edges.len()];
        for (p, s) in edges {
            successors[cursor[p as usize] as usize] = s;
            cursor[p as usize] += 1;
        }
        let counters = waits.iter().map(|&w| AtomicU32::new(w)).collect();
        let roots = (0..tasks as u32)
            .filter(|&t| waits[t as usize] == 0)
            .collect();
        Dag {
            first,
            successors,
            waits,
            counters,
            roots,
        }
    }

    fn reset(&self) {
        for (counter, &waits) in self.counters.iter().zip(&self.waits) {
            counter.store(waits, Ordering::Relaxed);
        }
    }

    fn run(&self) {
        rayon::scope(|s| {
            for &root in &self.roots {
                s.spawn(move |s| self.finish(s, root));
            }
        });
    }

    /// The task itself is empty: finishing it is all there is to do.
    fn finish<'scope>(&'scope self, s: &Scope<'scope>, task: u32) {
        let range = self.first[task as usize] as usize..self.first[task as usize + 1] as usize;
        for &next in &self.successors[range] {
            // Release what this task wrote, acquire what the other predecessors wrote: the last one
            // to arrive must see them all before the successor starts.
            if self.counters[next as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
                s.spawn(move |s| self.finish(s, next));
            }
        }
    }

    /// Whether every counter came down to zero, which only happens if every predecessor ran.
    fn complete(&self) -> bool {
        self.counters.iter().all(|c| c.load(Ordering::Relaxed) == 0)
    }
}

fn parse(args: &[String]) -> Option<(Pattern, usize, usize)> {
    let [_, pattern, tasks, threads] = args else {
        return None;
    };
    let pattern = match pattern.as_str() {
        "pairs" => Pattern::Pairs,
        "independent" => Pattern::Independent,
        "chain" => Pattern::Chain,
        _ => return None,
    };
    let tasks = tasks.parse::<u32>().ok().filter(|&t| t > 0)? as usize;
    let threads = threads.parse::<usize>().ok().filter(|&t| t > 0)?;
    Some((pattern, tasks, threads))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let Some((pattern, tasks, threads)) = parse(&args) else {
        eprintln!("usage: bench-tasks-rayon pairs|independent|chain TASKS THREADS");
        return ExitCode::from(2);
    };
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool,
        Err(e) => {
            eprintln!("no thread pool: {e}");
            return ExitCode::FAILURE;
        }
    };
    let (times, dag) = pool.install(|| {
        Dag::build(pattern, tasks.div_ceil(10)).run();

        let start = Instant::now();
        let dag = Dag::build(pattern, tasks);
        let build = start.elapsed();
        let mut runs = [std::time::Duration::ZERO; 2];
        for run in &mut runs {
            dag.reset();
            let start = Instant::now();
            dag.run();
            *run = start.elapsed();
        }
        ([build, runs[0], runs[1]], dag)
    });
    if !dag.complete() {
        eprintln!("some tasks did not run");
        return ExitCode::FAILURE;
    }
    eprintln!("rayon: {} edges", dag.successors.len());
    let [build, run, replay] = times.map(|t| t.as_nanos() as f64 / tasks as f64);
    println!(
        "{{\"engine\":\"rayon\",\"variant\":\"counter-dag\",\"pattern\":\"{}\",\"tasks\":{tasks},\
         \"threads\":{threads},\"build_ns\":{build:.1},\"run_ns\":{run:.1},\
         \"replay_ns\":{replay:.1},\"total_ns\":{:.1}}}",
        args[1],
        build + run
    );
    ExitCode::SUCCESS
}
