//! The page of `dahl trace view` in a real browser: opened, zoomed, pointed at, searched, and read back; and that of
//! `dahl experiment`, in light and dark, wide and narrow.
//!
//! Skipped where there is no Chromium.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/tiny.rs"]
mod tiny;

mod chrome;
mod experiment;
mod figures;
mod hands;
mod large;
mod tasks;

use std::path::PathBuf;

use dahl::core::trace::Trace;
use serde_json::Value;

use chrome::Chrome;

/// Why these tests are skipped, and what to do about it.
const NO_BROWSER: &str = "no Chromium here";
const CHROMIUM: &str = "apt install chromium";

/// A trace with its page, and a browser to open it in. The files go when the browser does.
struct Scene {
    chrome: Chrome,
    trace: Trace,
    file: PathBuf,
    page: PathBuf,
}

/// Makes the page of a made-up trace with `dahl trace view`; nothing without a browser.
fn scene(name: &str, tasks: usize, units: u16) -> Option<Scene> {
    let program = chrome::find()?;
    let folder = std::env::temp_dir().join(format!("dahl-browser-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let trace = dahl::trace::synthetic(tasks, units, 1);
    let file = folder.join("run.trace");
    dahl::trace::save(&trace, &file).expect("the trace can be written");
    let said = common::dahl(&["trace", "view", &file.to_string_lossy()]);
    let page = folder.join("run.html");
    assert!(said.contains("run.html"), "{said}");
    Some(Scene {
        chrome: Chrome::start(&program, folder, (1440, 860)),
        trace,
        file,
        page,
    })
}

/// Opens the page of a small trace.
fn open(name: &str) -> Option<Scene> {
    let mut scene = scene(name, 3000, 4)?;
    scene.chrome.open(&scene.page);
    Some(scene)
}

/// What the chart looks like, once it stands still.
fn picture(chrome: &mut Chrome) -> Value {
    chrome.settle();
    chrome.eval("document.getElementById('chart').toDataURL()")
}
