//! Wheel, pointer, keys and buttons: that each does what the help says.

use dahl_test_support::skip;
use serde_json::{Value, json};

use super::chrome::Chrome;
use super::{CHROMIUM, NO_BROWSER, Scene, open, picture};

/// The window in time, once it stands still.
fn window(chrome: &mut Chrome) -> (f64, f64) {
    chrome.settle();
    (chrome.number("dahl.from"), chrome.number("dahl.to"))
}

#[test]
fn wheel_drag_and_keys_move_the_window() {
    let Some(Scene { mut chrome, .. }) = open("moving") else {
        skip!(NO_BROWSER, CHROMIUM);
    };
    let size = |w: (f64, f64)| w.1 - w.0;
    let whole = window(&mut chrome);
    assert!(whole.0 <= chrome.number("dahl.begin") && whole.1 >= chrome.number("dahl.end"));

    // The moment under the pointer stays there.
    let (x, y) = (600.0, 200.0);
    chrome.point(x, y);
    let moment = |c: &mut Chrome| c.number("dahl.pointed");
    let before = moment(&mut chrome);
    for _ in 0..10 {
        chrome.wheel(x, y, -100.0);
    }
    let near = window(&mut chrome);
    assert!(size(near) < size(whole) / 4.0, "{near:?}");
    chrome.point(x, y);
    assert!((moment(&mut chrome) - before).abs() < size(near) / 500.0);

    // Dragging to the left shows what is later.
    chrome.drag((x, y), (x - 120.0, y));
    let later = window(&mut chrome);
    assert!(later.0 > near.0 && (size(later) - size(near)).abs() < 1e-3 * size(near));
    assert_eq!(
        chrome.eval("dahl.selected"),
        Value::Null,
        "a drag is no click"
    );

    let mut last = later;
    for (key, earlier) in [
        ("ArrowLeft", true),
        ("a", true),
        ("ArrowRight", false),
        ("d", false),
    ] {
        chrome.key(key);
        let now = window(&mut chrome);
        assert_eq!(now.0 < last.0, earlier, "{key}: {last:?} {now:?}");
        last = now;
    }
    for (key, closer) in [("+", true), ("w", true), ("-", false), ("s", false)] {
        chrome.key(key);
        let now = window(&mut chrome);
        let factor = size(now) / size(last);
        assert!(
            (factor - if closer { 0.5 } else { 2.0 }).abs() < 0.01,
            "{key}: {factor}"
        );
        last = now;
    }
    chrome.key("0");
    let again = window(&mut chrome);
    let off = (again.0 - whole.0).abs() + (again.1 - whole.1).abs();
    assert!(off < 1e-6 * size(whole), "{again:?} {whole:?}");
    chrome.key("?");
    assert_eq!(
        chrome.eval("document.getElementById('help').open"),
        json!(true)
    );
    chrome.key("Escape");
    assert_eq!(
        chrome.eval("document.getElementById('help').open"),
        json!(false)
    );
    assert_eq!(chrome.complaints, Vec::<String>::new());
}

#[test]
fn toggles_change_what_is_seen() {
    let Some(Scene {
        mut chrome, page, ..
    }) = open("toggles")
    else {
        skip!(NO_BROWSER, CHROMIUM);
    };
    let first = picture(&mut chrome);
    for (key, property, before, after) in [
        ("c", "critical", json!(false), json!(true)),
        ("t", "theme", json!("light"), json!("dark")),
        ("l", "colourBy", json!("codelet"), json!("layer")),
    ] {
        assert_eq!(chrome.eval(&format!("dahl.{property}")), before);
        chrome.key(key);
        assert_eq!(chrome.eval(&format!("dahl.{property}")), after);
        assert_ne!(picture(&mut chrome), first, "{key}");
        chrome.key(key);
        assert_eq!(picture(&mut chrome), first, "{key} twice");
    }
    // A reader who prefers dark pages gets one; and one whose browser does not inflate, the same data.
    let times = chrome.eval("dahl.times");
    let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
    chrome.call("Emulation.setEmulatedMedia", dark);
    let old =
        json!({ "source": "delete window.DecompressionStream; delete Uint8Array.fromBase64" });
    chrome.call("Page.addScriptToEvaluateOnNewDocument", old);
    chrome.open(&page);
    assert_eq!(chrome.eval("dahl.theme"), json!("dark"));
    assert_eq!(
        chrome.eval("typeof DecompressionStream"),
        json!("undefined")
    );
    assert_eq!(chrome.eval("dahl.times"), times);
    // A small window still has its chart and its table.
    chrome.resize(600, 700);
    chrome.settle();
    assert!(chrome.number("document.getElementById('chart').clientHeight") > 100.0);
    assert!(chrome.number("document.getElementById('side').clientHeight") > 100.0);
    assert_eq!(chrome.complaints, Vec::<String>::new());
}
