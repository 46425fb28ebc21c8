//! The guide as a book: chapters in its contents, links that lead somewhere, on paper as in the repository.

use std::path::Path;
use std::process::Command;

use dahl_test_support::skip;

use super::common::{folder, in_repository};
use super::{chapters, documents};

/// Where links to files outside the book lead: a book has no other files of the repository beside it.
const REPOSITORY: &str = "https://github.com/dahl-project/dahl/";

/// The targets of all links in a text, but those in code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let rests = prose.flat_map(|part| part.split("](").skip(1));
    rests.filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchors of a document's headings, as mdBook and code hosts make them.
fn anchors(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
            _ => None,
        });
        kept.collect()
    };
    headings.map(slug).collect()
}

/// Every chapter is in the contents once, and every entry of the contents is a file.
#[test]
fn the_contents_are_those_of_the_book() {
    let contents = std::fs::read_to_string(in_repository("docs/SUMMARY.md")).expect("contents");
    let entries = links(&contents);
    for chapter in chapters() {
        let is_it = |entry: &&&str| **entry == format!("guide/{chapter}");
        assert_eq!(entries.iter().filter(is_it).count(), 1, "{chapter}");
    }
    for entry in &entries {
        let file = Path::new(&in_repository("docs")).join(entry);
        assert!(file.is_file(), "SUMMARY.md: {entry} is no file");
    }
    assert!(entries.len() > 20, "{} entries", entries.len());
}

/// Links lead to files and to headings in them; those of the guide's chapters stay inside the book.
#[test]
fn links_lead_somewhere() {
    let mut checked = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        let here = path.parent().expect("a folder");
        let in_book = here.ends_with("guide");
        for target in links(&text) {
            let at = format!("{}: {target}", path.display());
            if let Some(rest) = target.strip_prefix(REPOSITORY) {
                let file = rest.split_once("/main/").expect(&at).1;
                let file = file.split('#').next().unwrap_or(file);
                let file = in_repository(file);
                assert!(Path::new(&file).exists(), "{at} is not in the repository");
                checked += 1;
                continue;
            }
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file.is_empty() {
                true => path.clone(),
                false => here.join(file),
            };
            assert!(file.exists(), "{at} leads nowhere");
            let real = file.canonicalize().expect(&at);
            let book = Path::new(&in_repository("docs"))
                .canonicalize()
                .expect("docs");
            assert!(
                !in_book || real.starts_with(book),
                "{at} leaves the book: write {REPOSITORY}blob/main/…"
            );
            if !anchor.is_empty() {
                let there = std::fs::read_to_string(&real).expect(&at);
                assert!(
                    anchors(&there).iter().any(|a| a == anchor),
                    "{at}: no such heading"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked} links");
}

/// Pictures of the guide are small, and every one is shown somewhere.
#[test]
fn pictures_are_small_and_shown() {
    let texts: Vec<String> = documents()
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a document"))
        .collect();
    let listed = std::fs::read_dir(in_repository("docs/guide/images")).expect("a folder");
    for entry in listed.map(|e| e.expect("a file")) {
        let name = entry.file_name().into_string().expect("UTF-8");
        if !name.ends_with(".png") {
            continue;
        }
        let bytes = entry.metadata().expect("a file").len();
        assert!(bytes < 200_000, "{name} has {bytes} bytes");
        let is_shown = texts.iter().any(|t| t.contains(&format!("images/{name})")));
        assert!(is_shown, "{name} is shown nowhere");
    }
}

/// Where mdBook is installed, it makes the book without a complaint.
#[test]
fn mdbook_makes_it() {
    let out = folder("document-book");
    let command = Command::new("mdbook")
        .args(["build", &in_repository("docs/guide"), "--dest-dir"])
        .arg(&out)
        .output();
    let Ok(output) = command else {
        skip!(optional: "no mdBook here", "cargo install mdbook");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    assert!(out.join("index.html").is_file(), "{said}");
}
