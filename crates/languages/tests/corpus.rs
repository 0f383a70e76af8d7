//! Documents that must be accepted: our examples, those of the specification, those of its
//! conformance kit.

use std::fs;
use std::path::{Path, PathBuf};

use outlast_languages::{Severity, openworkflow};

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

/// The folder named by `OUTLAST_CONFORMANCE`, or the usual one beside the repository.
fn conformance() -> Option<PathBuf> {
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance/open-workflow");
    let folder =
        std::env::var_os("OUTLAST_CONFORMANCE").map_or_else(|| usual.into(), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    let mut note = std::io::stderr().lock();
    std::io::Write::write_all(
        &mut note,
        format!("not run: {} is not there (set OUTLAST_CONFORMANCE)\n", folder.display())
            .as_bytes(),
    )
    .unwrap();
    None
}

fn rejections(documents: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let mut rejected = Vec::new();
    for (name, text) in documents {
        let report = openworkflow::check(&name, &text);
        if report.count(Severity::Error) > 0 {
            rejected.push(report.render(&text, false));
        }
    }
    rejected
}

fn read(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    (name, fs::read_to_string(path).unwrap())
}

#[test]
fn accepts_every_example_of_ours() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = yaml_files(&folder);
    assert!(4 <= files.len());
    let rejected = rejections(files.iter().map(|path| read(path)));
    assert!(rejected.is_empty(), "{}", rejected.join("\n"));
}

#[test]
fn accepts_every_example_of_the_specification() {
    let Some(folder) = conformance() else { return };
    // Upstream keeps one example that is still an empty file.
    let documents: Vec<_> = yaml_files(&folder.join("examples"))
        .iter()
        .map(|path| read(path))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    assert!(60 < documents.len());
    let rejected = rejections(documents);
    assert!(rejected.is_empty(), "{}", rejected.join("\n"));
}

#[test]
fn accepts_every_definition_of_the_conformance_kit() {
    let Some(folder) = conformance() else { return };
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder.join("ctk")).unwrap() {
        let path = entry.unwrap().path();
        let (name, text) = read(&path);
        for (index, definition) in definitions(&text).into_iter().enumerate() {
            documents.push((format!("{name}-{index}"), definition));
        }
    }
    assert_eq!(documents.len(), 21);
    let rejected = rejections(documents);
    assert!(rejected.is_empty(), "{}", rejected.join("\n"));
}

/// The definitions in a feature file: doc strings after "a workflow with definition".
fn definitions(feature: &str) -> Vec<String> {
    let feature = gherkin::Feature::parse(feature, gherkin::GherkinEnv::default()).unwrap();
    let steps = feature.scenarios.iter().flat_map(|scenario| &scenario.steps);
    steps
        .filter(|step| step.value.contains("workflow with definition"))
        .filter_map(|step| step.docstring.as_ref())
        // The parser keeps the media type as the first line.
        .map(|text| text.trim_start().strip_prefix("yaml\n").unwrap_or(text).to_owned())
        .collect()
}
