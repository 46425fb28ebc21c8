//! What harness and peers say to each other: one JSON object a line, on the peer's standard streams.
//!
//! | harness | peer |
//! |---|---|
//! | `{"load": {"model": "lenet5", …}}`: the levels of a cell | `{"ready": {"engine": "name and version"}}` |
//! | `{"run": {"seconds": 3.0}}` | `{"began": {}}`, and when about that time has passed `{"ended": {"steps": 9, "images": 288, "loss": 2.3, "measures": {}}}` |
//! | `{"stop": {}}` | ends |
//!
//! Instead of any answer a peer may say `{"error": "why, and what to do"}` and end. What it prints on standard error is
//! for people. A peer measures nothing: the harness has the clock and the meter, the same for every engine.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::design::Cell;

/// From the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Request {
    Load(Cell),
    Run { seconds: f64 },
    Stop {},
}

/// From the peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reply {
    Ready(Ready),
    Began {},
    Ended(Ended),
    Error(String),
}

/// A peer that can run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Name and version of what computes.
    #[serde(default)]
    pub engine: String,
}

/// What was done in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// Steps.
    #[serde(default)]
    pub steps: u64,
    /// Images.
    #[serde(default)]
    pub images: u64,
    /// The last loss.
    #[serde(default)]
    pub loss: Option<f64>,
    /// Whatever else is worth a column; what is no number is left out.
    #[serde(default)]
    pub measures: BTreeMap<String, Option<f64>>,
}

/// What a peer written in Rust runs.
pub trait Steps {
    /// What computes, with its version.
    fn engine(&self) -> String;
    /// Runs so many steps to their end.
    fn steps(&mut self, n: u64) -> Result<(), String>;
    /// Images of a step.
    fn images(&self) -> u64;
    /// The last loss, and other measures, after a window.
    fn after(&mut self) -> (Option<f64>, BTreeMap<String, f64>);
}

/// Serves the protocol until the other side stops or goes away. `load` makes what a cell asks for.
///
/// # Errors
/// If the streams fail. What `load` or a step cannot do is told to the other side.
pub fn serve(
    input: impl BufRead,
    mut output: impl Write,
    load: impl Fn(&Cell) -> Result<Box<dyn Steps>, String>,
) -> io::Result<()> {
    let mut say = |reply: &Reply| -> io::Result<()> {
        let line = serde_json::to_string(reply).map_err(io::Error::other)?;
        writeln!(output, "{line}").and_then(|()| output.flush())
    };
    let mut loaded = None;
    for line in input.lines() {
        let request = serde_json::from_str::<Request>(&line?);
        match request {
            Ok(Request::Load(cell)) => match load(&cell) {
                Ok(steps) => {
                    let engine = steps.engine();
                    loaded = Some(steps);
                    say(&Reply::Ready(Ready { engine }))?;
                }
                Err(why) => return say(&Reply::Error(why)),
            },
            Ok(Request::Run { seconds }) => {
                let Some(steps) = &mut loaded else {
                    return say(&Reply::Error("run before load".into()));
                };
                say(&Reply::Began {})?;
                match window(steps.as_mut(), seconds) {
                    Ok(ended) => say(&Reply::Ended(ended))?,
                    Err(why) => return say(&Reply::Error(why)),
                }
            }
            Ok(Request::Stop {}) => return Ok(()),
            Err(e) => return say(&Reply::Error(format!("not a request: {e}"))),
        }
    }
    Ok(())
}

/// Runs steps for about so long, in pieces of about a twelfth of it, without anything in between.
fn window(steps: &mut dyn Steps, seconds: f64) -> Result<Ended, String> {
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0));
    let (mut done, mut piece) = (0u64, 1u64);
    loop {
        steps.steps(piece)?;
        done += piece;
        let now = Instant::now();
        if now >= end {
            break;
        }
        let each = (now - start).as_secs_f64() / done as f64;
        let left = (end - now).as_secs_f64();
        piece = ((left.min(seconds / 12.0) / each.max(1e-9)) as u64).clamp(1, 1_000_000);
    }
    let took = ("seconds".to_owned(), start.elapsed().as_secs_f64());
    let (loss, measures) = steps.after();
    let measures = measures.into_iter().chain([took]);
    Ok(Ended {
        steps: done,
        images: done * steps.images(),
        loss: loss.filter(|l| l.is_finite()),
        measures: measures.map(|(k, v)| (k, Some(v))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u64);

    impl Steps for Counting {
        fn engine(&self) -> String {
            "counting 1".into()
        }
        fn steps(&mut self, n: u64) -> Result<(), String> {
            self.0 += n;
            (self.0 < 1 << 40).then_some(()).ok_or("too many".into())
        }
        fn images(&self) -> u64 {
            3
        }
        fn after(&mut self) -> (Option<f64>, BTreeMap<String, f64>) {
            (
                Some(f64::NAN),
                BTreeMap::from([("total".into(), self.0 as f64)]),
            )
        }
    }

    fn talk(input: &str) -> Vec<Reply> {
        let mut out = Vec::new();
        let load = |cell: &Cell| -> Result<Box<dyn Steps>, String> {
            match cell.get("model") {
                Some(_) => Ok(Box::new(Counting(0))),
                None => Err("no model".into()),
            }
        };
        serve(input.as_bytes(), &mut out, load).expect("streams in memory");
        let text = String::from_utf8(out).expect("text");
        text.lines()
            .map(|l| serde_json::from_str(l).expect("a reply"))
            .collect()
    }

    #[test]
    fn a_peer_answers_in_order() {
        let said = talk(
            "{\"load\":{\"model\":\"m\"}}\n{\"run\":{\"seconds\":0}}\n{\"stop\":{}}\n{\"run\":{\"seconds\":0}}\n",
        );
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(
            said[0],
            Reply::Ready(Ready {
                engine: "counting 1".into()
            })
        );
        let Reply::Ended(ended) = &said[2] else {
            panic!("{said:?}");
        };
        assert_eq!((ended.steps, ended.images, ended.loss), (1, 3, None));
        assert_eq!(ended.measures["total"], Some(1.0));
    }

    #[test]
    fn mistakes_are_told_and_end_the_peer() {
        for (input, says) in [
            ("{\"load\":{}}\n", "no model"),
            ("{\"run\":{\"seconds\":1}}\n", "run before load"),
            ("hello\n{\"stop\":{}}\n", "not a request"),
        ] {
            match &talk(input)[..] {
                [Reply::Error(why)] => assert!(why.contains(says), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
