//! Documents with problems, and what is said about them: `broken/NAME.yaml` beside `NAME.snap`.
//!
//! Every message must say what is wrong, where, and what to do. After a change run
//! `INSTA_UPDATE=always cargo test -p outlast-languages` and read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use outlast_languages::openworkflow;

fn documents() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_problem_is_told_with_its_place_and_a_way_out() {
    let documents = documents();
    assert!(60 <= documents.len());
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path("broken");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for path in documents {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let report = openworkflow::check(&format!("{name}.yaml"), &text);
        assert!(!report.diagnostics.is_empty(), "{name} has no problem");
        settings.bind(|| insta::assert_snapshot!(name, report.render(&text, false)));
    }
}

#[test]
fn problems_as_data_say_the_same() {
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let report = openworkflow::check("flow.yaml", &text);
        let json = report.to_json();
        let listed = json["diagnostics"].as_array().unwrap();
        assert_eq!(listed.len(), report.diagnostics.len());
        for (data, found) in listed.iter().zip(&report.diagnostics) {
            assert_eq!(data["code"], found.code);
            assert_eq!(data["place"]["line"], found.place.span.line);
            assert_eq!(data["place"]["pointer"], found.place.pointer);
        }
    }
}

#[test]
fn every_code_is_in_the_documentation() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let page = fs::read_to_string(page).unwrap();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for found in openworkflow::check("flow.yaml", &text).diagnostics {
            assert!(page.contains(&format!("`{}`", found.code)), "{}", found.code);
        }
    }
}
