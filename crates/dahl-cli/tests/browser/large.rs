//! A million tasks: how large the page is, that it opens, and that a frame draws no more than can be seen.
//!
//! No times: how soon it opens and how smoothly it zooms is a question for a quiet machine.

use dahl_test_support::skip;
use serde_json::json;

use super::{CHROMIUM, NO_BROWSER, scene};

const TASKS: usize = 1_000_000;

/// Most tasks and bars that a frame may draw one by one, whatever the number of tasks.
const DRAWN: f64 = 20_000.0;

/// Zooms in by forty turns of the wheel and out again, one a frame: the most that a frame has drawn.
const ZOOM: &str = "new Promise((done) => {
    const chart = document.getElementById('chart'), box = chart.getBoundingClientRect();
    let turns = 0, most = 0;
    const turn = () => {
        most = Math.max(most, dahl.drawn);
        if (turns === 80) return done(most);
        const deltaY = turns++ < 40 ? -60 : 60;
        const at = { clientX: box.left + box.width * 0.6, clientY: box.top + 200, cancelable: true };
        chart.dispatchEvent(new WheelEvent('wheel', { deltaY, ...at }));
        requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
})";

#[test]
fn a_million_tasks_open_and_zoom() {
    let Some(mut scene) = scene("large", TASKS, 8) else {
        skip!(NO_BROWSER, CHROMIUM);
    };
    let size = std::fs::metadata(&scene.page).expect("a page").len();
    assert!(size < 40 << 20, "{size} bytes");

    let chrome = &mut scene.chrome;
    chrome.call("Page.navigate", json!({ "url": "about:blank" }));
    chrome.wait("!window.dahl");
    chrome.open(&scene.page);
    assert_eq!(chrome.number("dahl.tasks"), TASKS as f64);

    chrome.key("0");
    chrome.settle();
    let frames = chrome.number("dahl.frames");
    let most = chrome.number(ZOOM);
    assert!(most > 0.0 && most < DRAWN, "{most} drawn in a frame");
    assert!(chrome.number("dahl.frames") > frames, "zooming draws");

    chrome.key("0");
    chrome.settle();
    assert!(chrome.number("dahl.drawn") < DRAWN);
    let run = scene.trace.tasks[TASKS / 2];
    let step = scene.trace.launches[run.id.launch as usize].step;
    chrome.key("/");
    chrome.write(&format!("#{} step:{step}", run.id.task));
    chrome.key("Enter");
    chrome.wait("dahl.selected");
    assert_eq!(chrome.number("dahl.matches"), 1.0);
    assert_eq!(chrome.number("dahl.selected.start"), run.start as f64);
    assert_eq!(chrome.complaints, Vec::<String>::new());
}
