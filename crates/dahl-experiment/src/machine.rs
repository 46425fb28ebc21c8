//! The machine as a world: peers are child processes, the meter is one for all of them.
//!
//! A peer that is silent for too long is ended, and so is every peer when its run is over or somebody asks to stop.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dahl_core::{Seconds, Stop};
use dahl_energy::{Options, Sampler, WattsModel};

use crate::ExperimentError;
use crate::design::Cell;
use crate::file::{Engine, Experiment, Scope};
use crate::level::Level;
use crate::protocol::{Ended, Ready, Reply, Request};
use crate::quiet;
use crate::resident::{self, Curve};
use crate::world::{Look, World};

/// How long a peer may take to load, or longer than asked to run.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often waiting looks around.
const TICK: Duration = Duration::from_millis(20);

/// This machine.
pub struct Machine {
    sampler: Sampler,
    model: WattsModel,
    start: Instant,
    engines: BTreeMap<String, Engine>,
    prepare: Vec<Vec<String>>,
    folder: PathBuf,
    program: PathBuf,
    peer: Option<Peer>,
    /// Memory of what runs, or ran last.
    resident: Curve,
    allowed: Duration,
    stop: Stop,
}

struct Peer {
    child: Child,
    name: String,
    /// What it hears; dropped, it hears that nobody speaks any more.
    input: Option<Input>,
    lines: Receiver<String>,
}

/// A socket where there are some: writing to a peer that has gone then is an error, and never a signal that ends this
/// process.
#[cfg(unix)]
type Input = std::os::unix::net::UnixStream;
#[cfg(not(unix))]
type Input = std::process::ChildStdin;

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Machine {
    /// This machine with its meters. `folder` is where paths of the experiment's commands are looked for first, `program`
    /// is what `{dahl}` stands for.
    pub fn new(
        experiment: &Experiment,
        folder: &Path,
        program: &Path,
        meter: &Options,
        stop: Stop,
    ) -> Machine {
        let options = Options {
            // Modelled joules are computed from the peer's CPU time, not from this process's.
            model: None,
            ..meter.clone()
        };
        Machine {
            sampler: options.start(),
            model: WattsModel::of_this_machine(),
            start: Instant::now(),
            engines: experiment.engines.clone(),
            prepare: experiment.prepare.clone(),
            folder: folder.to_owned(),
            program: program.to_owned(),
            peer: None,
            resident: Curve::new(),
            allowed: PATIENCE,
            stop,
        }
    }

    /// What can be measured here: names of domains; none if nothing can.
    pub fn domains(&self) -> Vec<String> {
        let counted = self.sampler.domains().0.into_iter().filter(|d| d.counted);
        counted
            .map(|d| format!("{}: {}", d.meter, d.domain))
            .collect()
    }

    /// Runs the experiment's preparations, with what they print on standard error.
    pub fn prepare(&self) -> Result<(), ExperimentError> {
        for words in &self.prepare {
            let words = self.resolve(words, &Cell::new());
            let (name, rest) = words.split_first().map_or(("", &[][..]), |(n, r)| (n, r));
            let failed = |why: String| {
                ExperimentError::refused(format!("cannot prepare: {}: {why}", words.join(" ")))
            };
            let output = Command::new(name)
                .args(rest)
                .stdin(Stdio::null())
                .stdout(std::io::stderr())
                .status();
            let status = output.map_err(|e| failed(e.to_string()))?;
            if self.stop.is_requested() {
                return Err(ExperimentError::Stopped);
            }
            if !status.success() {
                return Err(failed(status.to_string()));
            }
        }
        Ok(())
    }

    /// Whether an engine loads a cell: what it says of itself, or why not.
    pub fn probe(&mut self, cell: &Cell) -> Result<String, ExperimentError> {
        if self.is_job(cell) {
            let (words, _) = self.words(cell)?;
            return Ok(words.join(" "));
        }
        let ready = self.start(cell);
        self.stop();
        Ok(ready?.engine)
    }

    fn engine(&self, cell: &Cell) -> (String, Option<&Engine>) {
        let name = cell
            .get("engine")
            .map_or_else(|| "dahl".into(), Level::to_string);
        let engine = self.engines.get(&name);
        (name, engine)
    }

    /// The command of a cell, and its variables.
    fn words(
        &self,
        cell: &Cell,
    ) -> Result<(Vec<String>, BTreeMap<String, String>), ExperimentError> {
        let (name, engine) = self.engine(cell);
        let Some(engine) = engine else {
            // Engines of this program need no table.
            let words = ["{dahl}", "bench", "peer"].map(String::from);
            return match name.as_str() {
                "dahl" | "starpu" | "starpu-data" => {
                    Ok((self.resolve(&words, cell), BTreeMap::new()))
                }
                _ => Err(ExperimentError::Peer(format!(
                    "engine {name:?} has no command: add [engine.{name}] with command = [\"program\", …] to the experiment"
                ))),
            };
        };
        let words = if engine.job.is_empty() {
            &engine.command
        } else {
            &engine.job
        };
        Ok((self.resolve(words, cell), engine.env.clone()))
    }

    fn resolve(&self, words: &[String], cell: &Cell) -> Vec<String> {
        let resolve = |word: &String| {
            let mut word = word.replace("{dahl}", &self.program.display().to_string());
            for (factor, level) in cell {
                word = word.replace(&format!("{{{factor}}}"), &level.to_string());
            }
            let found = |folder: &Path| Some(folder.join(&word)).filter(|p| p.exists());
            match word.contains('/') && !word.starts_with('/') {
                true => self
                    .folder
                    .ancestors()
                    .find_map(found)
                    .map_or(word.clone(), |p| p.display().to_string()),
                false => word,
            }
        };
        words.iter().map(resolve).collect()
    }

    fn spawn(
        &self,
        cell: &Cell,
        input: Stdio,
        errors: Stdio,
    ) -> Result<(Child, String), ExperimentError> {
        let (words, env) = self.words(cell)?;
        let name = words.first().cloned().unwrap_or_default();
        let child = Command::new(&name)
            .args(words.get(1..).unwrap_or_default())
            .envs(env)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn();
        let looked_for = match name.contains('/') && !Path::new(&name).exists() {
            true => {
                "; it is looked for in the folder of the experiment and in those above it: go to its repository"
            }
            false => "",
        };
        let child = child
            .map_err(|e| ExperimentError::Peer(format!("cannot start {name}: {e}{looked_for}")))?;
        Ok((child, name))
    }

    fn say(&mut self, request: &Request) -> Result<(), ExperimentError> {
        let Some(peer) = &mut self.peer else {
            return Err(ExperimentError::Peer("no peer runs".into()));
        };
        let mut line = serde_json::to_string(request).unwrap_or_default();
        line.push('\n');
        // A peer that has gone has said why: its last line is read next.
        if let Some(input) = &mut peer.input {
            let _ = input
                .write_all(line.as_bytes())
                .and_then(|()| input.flush());
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<Reply, ExperimentError> {
        let limit = Instant::now() + self.allowed;
        let Some(peer) = &mut self.peer else {
            return Err(ExperimentError::Peer("no peer runs".into()));
        };
        loop {
            if self.stop.is_requested() {
                return Err(ExperimentError::Stopped);
            }
            let name = &peer.name;
            self.resident.look(peer.child.id());
            match peer.lines.recv_timeout(resident::EVERY) {
                Ok(line) => {
                    let reply = serde_json::from_str(&line);
                    return match reply {
                        Ok(Reply::Error(why)) => Err(ExperimentError::Peer(why)),
                        Ok(reply) => Ok(reply),
                        Err(_) => {
                            let start: String = line.chars().take(200).collect();
                            Err(ExperimentError::Peer(format!(
                                "{name} said {start:?}, which is no answer of the protocol"
                            )))
                        }
                    };
                }
                Err(RecvTimeoutError::Disconnected) => {
                    // A signal from a terminal reaches the peer, too, perhaps before it reaches us.
                    std::thread::sleep(TICK * 5);
                    if self.stop.is_requested() {
                        return Err(ExperimentError::Stopped);
                    }
                    let ended = peer.child.wait().map_or("ended".into(), |s| s.to_string());
                    return Err(ExperimentError::Peer(format!(
                        "{name} ended without an answer ({ended})"
                    )));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > limit => {
                    let waited = self.allowed.as_secs();
                    return Err(ExperimentError::Peer(format!(
                        "{name} said nothing for {waited} s"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn unexpected(reply: &Reply) -> ExperimentError {
    ExperimentError::Peer(format!("an answer out of turn: {reply:?}"))
}

impl World for Machine {
    fn look(&mut self) -> Look {
        let (domains, readings) = self.sampler.domains();
        let counted = domains.into_iter().filter(|d| d.counted);
        let joules =
            counted.filter_map(|d| Some((format!("{}: {}", d.meter, d.domain), d.joules?.0)));
        Look {
            joules: joules.collect(),
            at: self.start.elapsed().as_secs_f64(),
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |d| d.as_secs_f64()),
            readings,
            counters: quiet::counters(),
            peers: quiet::descendants(),
            megahertz: quiet::megahertz(),
            celsius: quiet::celsius(),
        }
    }

    fn wait(&mut self, time: Duration) -> Result<(), ExperimentError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.stop.is_requested() {
                return Err(ExperimentError::Stopped);
            }
            std::thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    fn start(&mut self, cell: &Cell) -> Result<Ready, ExperimentError> {
        self.stop();
        #[cfg(unix)]
        let (input, theirs) = {
            let (ours, theirs) = Input::pair()
                .map_err(|e| ExperimentError::Peer(format!("no socket for a peer: {e}")))?;
            (Some(ours), Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        };
        #[cfg(not(unix))]
        let theirs = Stdio::piped();
        let (mut child, name) = self.spawn(cell, theirs, Stdio::inherit())?;
        #[cfg(not(unix))]
        let input = child.stdin.take();
        let (send, lines) = channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        self.peer = Some(Peer {
            child,
            name,
            input,
            lines,
        });
        self.resident = Curve::new();
        self.allowed = PATIENCE;
        self.say(&Request::Load(cell.clone()))?;
        let heard = self.hear();
        match heard {
            Ok(Reply::Ready(ready)) => Ok(ready),
            Ok(other) => {
                self.stop();
                Err(unexpected(&other))
            }
            Err(e) => {
                self.stop();
                Err(e)
            }
        }
    }

    fn begin(&mut self, seconds: f64) -> Result<(), ExperimentError> {
        self.allowed = PATIENCE + Duration::from_secs_f64(seconds);
        self.say(&Request::Run { seconds })?;
        match self.hear()? {
            Reply::Began {} => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn end(&mut self) -> Result<Ended, ExperimentError> {
        match self.hear()? {
            Reply::Ended(ended) => Ok(ended),
            other => Err(unexpected(&other)),
        }
    }

    fn resident(&self) -> Vec<(f64, u64)> {
        self.resident.points().to_vec()
    }

    fn stop(&mut self) {
        if self.peer.is_none() {
            return;
        }
        let _ = self.say(&Request::Stop {});
        if let Some(mut peer) = self.peer.take() {
            // It has a moment to end by itself.
            drop(peer.input.take());
            for _ in 0..100 {
                if matches!(peer.child.try_wait(), Ok(Some(_))) {
                    break;
                }
                std::thread::sleep(TICK);
            }
        }
    }

    fn is_job(&self, cell: &Cell) -> bool {
        self.engine(cell).1.is_some_and(|e| !e.job.is_empty())
    }

    fn is_whole(&self, cell: &Cell) -> bool {
        self.engine(cell).1.is_some_and(|e| e.scope == Scope::Job)
    }

    fn job(&mut self, cell: &Cell) -> Result<(Look, Look, Ended), ExperimentError> {
        let images = self.engine(cell).1.map_or(0, |e| e.images);
        let before = self.look();
        let (mut child, name) = self.spawn(cell, Stdio::null(), Stdio::piped())?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let out = std::thread::spawn(move || out.map(std::io::read_to_string));
        let err = std::thread::spawn(move || err.map(std::io::read_to_string));
        let mut peak = 0;
        self.resident = Curve::new();
        let status = loop {
            self.resident.look(child.id());
            peak = peak.max(quiet::descendants().peak_bytes);
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if self.stop.is_requested() => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(ExperimentError::Stopped);
                }
                Ok(None) => std::thread::sleep(TICK),
                Err(e) => {
                    return Err(ExperimentError::Peer(format!(
                        "cannot wait for {name}: {e}"
                    )));
                }
            }
        };
        let mut after = self.look();
        after.peers.peak_bytes = peak;
        let (out, err) = (whole(out), whole(err));
        if !status.success() {
            let why = last_line(&err);
            return Err(ExperimentError::Peer(match why.is_empty() {
                true => format!("{name}: {status}"),
                false => format!("{name}: {status}: {why}"),
            }));
        }
        Ok((before, after, numbers(&out, images)))
    }

    fn model(&self, cpu: f64, seconds: f64) -> (f64, String) {
        let joules = self.model.pooled(Seconds(cpu), Seconds(seconds)).0;
        (joules, format!("modelled ({})", self.model))
    }
}

/// What a thread has read until the end.
fn whole(reader: std::thread::JoinHandle<Option<std::io::Result<String>>>) -> String {
    let read = reader.join().ok().flatten();
    read.and_then(Result::ok).unwrap_or_default()
}

/// The last line that says something.
fn last_line(text: &str) -> &str {
    let mut lines = text.lines().rev();
    lines.find(|l| !l.trim().is_empty()).unwrap_or_default()
}

/// The numbers of the last line of a program's output, where that is a JSON object.
fn numbers(text: &str, images: u64) -> Ended {
    let object: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(last_line(text)).unwrap_or_default();
    let measures = object
        .into_iter()
        .filter_map(|(k, v)| Some((k, Some(v.as_f64()?))));
    Ended {
        steps: 1,
        images,
        loss: None,
        measures: measures.collect(),
    }
}
