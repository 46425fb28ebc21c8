//! The page of an experiment: figures inside, light and dark, wide and narrow, nothing from elsewhere.

use serde_json::json;

use super::{CHROMIUM, NO_BROWSER, chrome, common, tiny};

#[test]
fn the_page_of_an_experiment_fits_any_width_and_both_lights() {
    let Some(program) = chrome::find() else {
        dahl_test_support::skip!(NO_BROWSER, CHROMIUM);
    };
    let here = tiny::folder("page");
    let (file, out) = (tiny::file(&here, 2), here.join("session"));
    let text = out.display().to_string();
    common::dahl_with(
        &[
            "experiment",
            "run",
            &file,
            "-o",
            &text,
            "--allow-dirty",
            "--noisy",
        ],
        "",
    );
    let page = out.join("report.html");
    let source = std::fs::read_to_string(&page).expect("a page");
    assert!(
        !source.contains("<script") && !source.contains(" src=") && !source.contains("<link"),
        "one file"
    );
    let profile = here.join("browser");
    std::fs::create_dir_all(&profile).expect("a folder");
    let mut chrome = chrome::Chrome::start(&program, profile, (1280, 900));
    chrome.load(&page);
    for width in [1280, 480] {
        chrome.resize(width, 900);
        let wide = chrome
            .number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert!(wide <= 0.0, "{wide} px stick out at {width}");
        // Panels stand below each other where the page is narrow: all words are in sight, and stay readable.
        let words = "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect()).filter(r => r.width > 0)";
        let count = chrome.number(&format!("{words}.length"));
        assert!(count > 10.0, "{count} words at {width}");
        let least = chrome.number(&format!(
            "Math.min(...{words}.map(r => Math.max(r.height, r.width)))"
        ));
        assert!(least > 6.0, "words of {least} px at {width}");
        let shown = chrome.number(&format!("Math.max(...{words}.map(r => r.right))"));
        assert!(shown <= f64::from(width), "a word ends at {shown}");
    }
    let figures = chrome.number("document.querySelectorAll('figure svg').length");
    assert!(figures >= 2.0, "{figures}");
    let colours = "JSON.stringify([getComputedStyle(document.body).backgroundColor, \
                   getComputedStyle(document.querySelector('figure svg rect')).fill])";
    let mut seen = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        chrome.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
        seen.push(chrome.eval(colours));
    }
    assert_eq!(
        seen[0],
        json!("[\"rgb(254, 254, 254)\",\"rgb(254, 254, 254)\"]")
    );
    assert_eq!(seen[1], json!("[\"rgb(22, 24, 29)\",\"rgb(22, 24, 29)\"]"));
}
