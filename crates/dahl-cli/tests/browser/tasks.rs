//! Finding a task, pointing at it, and what the page then says of it, against the trace itself.

use std::collections::BTreeSet;

use dahl::core::trace::{NOBODY, TaskId, TaskRun, Trace};
use dahl_test_support::skip;
use serde_json::json;

use super::chrome::Chrome;
use super::{CHROMIUM, NO_BROWSER, Scene, open, picture};

fn names(chrome: &mut Chrome, list: &str) -> BTreeSet<(u32, u32)> {
    let value = chrome.eval(&format!("dahl.{list}.map((t) => [t.launch, t.task])"));
    serde_json::from_value(value).expect("pairs")
}

/// The tasks before and after a run, as the trace has them.
fn neighbours(trace: &Trace, run: &TaskRun) -> [BTreeSet<(u32, u32)>; 2] {
    let graph = trace.graph_of(run.id.launch);
    let ran: BTreeSet<TaskId> = trace.tasks.iter().map(|t| t.id).collect();
    let pair = |id: &TaskId| (id.launch, id.task);
    let inside = |task: u32| TaskId {
        launch: run.id.launch,
        task,
    };
    let tasks = 0..graph.tasks.len() as u32;
    let before = tasks
        .filter(|&t| graph.successors_of(t).contains(&run.id.task))
        .map(inside);
    let after = graph.successors_of(run.id.task).iter().map(|&t| inside(t));
    let later = trace
        .tasks
        .iter()
        .filter(|t| t.released_by == run.id)
        .map(|t| t.id);
    let released = (run.released_by.task != NOBODY).then_some(run.released_by);
    let known = |id: &TaskId| ran.contains(id);
    [
        before
            .chain(released)
            .filter(known)
            .map(|id| pair(&id))
            .collect(),
        after
            .chain(later)
            .filter(known)
            .map(|id| pair(&id))
            .collect(),
    ]
}

#[test]
fn a_task_is_found_pointed_at_and_explained() {
    let Some(Scene {
        mut chrome, trace, ..
    }) = open("task")
    else {
        skip!(NO_BROWSER, CHROMIUM);
    };
    // One that another launch released, one in the middle, the last.
    let crossing = trace
        .tasks
        .iter()
        .position(|t| t.released_by.task != NOBODY && t.released_by.launch != t.id.launch);
    for at in [crossing.expect("launches depend on each other"), 1500, 2999] {
        let run = trace.tasks[at];
        let step = trace.launches[run.id.launch as usize].step;
        chrome.key("/");
        chrome.eval("document.getElementById('search').select()");
        chrome.write(&format!("#{} step:{step}", run.id.task));
        chrome.key("Enter");
        let selected = format!("dahl.selected?.start === {}", run.start);
        chrome.wait(&selected);
        assert_eq!(chrome.eval("dahl.matches"), json!(1));
        chrome.settle();

        let place = chrome.eval(&format!("dahl.locate({}, {})", run.id.launch, run.id.task));
        let (x, y) = (place["x"].as_f64().unwrap(), place["y"].as_f64().unwrap());
        // Let go of it, so that the click has something to do.
        chrome.key("Escape");
        chrome.wait("!dahl.selected");
        chrome.point(x, y);
        let class = trace.class_of(run.id);
        for what in ["hovered", "selected"] {
            if what == "selected" {
                chrome.click(x, y);
                chrome.wait("dahl.selected && !document.getElementById('details').hidden");
            }
            let seen = chrome.eval(&format!("dahl.{what}"));
            let truth = json!({
                "launch": run.id.launch, "task": run.id.task, "step": step, "unit": run.unit,
                "codelet": class.codelet, "implementation": trace.implementation_of(&run),
                "layer": trace.section_of(run.id), "shapes": class.shapes,
                "ready": run.ready, "taken": run.taken, "start": run.start, "end": run.end,
            });
            for (field, value) in truth.as_object().unwrap() {
                assert_eq!(&seen[field], value, "{what}: {field}");
            }
        }
        let tip = chrome.eval("document.getElementById('tip').textContent");
        assert!(tip.as_str().unwrap().contains(&class.codelet), "{tip}");
        let details = chrome.eval("document.getElementById('details').innerText");
        let details = details.as_str().unwrap();
        let graph = trace.graph_of(run.id.launch);
        for access in graph.accesses_of(run.id.task) {
            assert!(details.contains(&access.region.to_string()), "{details}");
            assert!(
                details.contains(&graph.storages[access.storage as usize].name),
                "{details}"
            );
        }
        assert!(details.contains(&class.shapes) && details.contains(trace.section_of(run.id)));
        let [before, after] = neighbours(&trace, &run);
        assert_eq!(names(&mut chrome, "predecessors"), before);
        assert_eq!(names(&mut chrome, "successors"), after);
        chrome.key("Escape");
    }
    assert_eq!(chrome.complaints, Vec::<String>::new());
}

#[test]
fn searching_counts_and_goes_from_match_to_match() {
    let Some(Scene {
        mut chrome, trace, ..
    }) = open("search")
    else {
        skip!(NO_BROWSER, CHROMIUM);
    };
    let codelet = trace.class_of(trace.tasks[0].id).codelet.clone();
    let matching = |t: &&TaskRun| {
        let id = t.id;
        trace.class_of(id).codelet.contains(&codelet) || trace.section_of(id).contains(&codelet)
    };
    let starts: Vec<u64> = trace
        .tasks
        .iter()
        .filter(matching)
        .map(|t| t.start)
        .collect();
    assert!(starts.len() > 2 && starts.len() < trace.tasks.len());
    let plain = picture(&mut chrome);
    chrome.key("/");
    chrome.write(&codelet);
    chrome.wait(&format!("dahl.matches === {}", starts.len()));
    assert_ne!(picture(&mut chrome), plain, "matches stand out");
    for start in starts.iter().take(3) {
        chrome.key("Enter");
        chrome.wait(&format!("dahl.selected?.start === {start}"));
    }
    chrome.key("Escape");
    chrome.key("Escape");
    chrome.wait("dahl.matches === null");
    assert_eq!(
        chrome.eval("document.getElementById('search').value"),
        json!("")
    );
    assert_eq!(chrome.complaints, Vec::<String>::new());
}
