//! Runs every house rule on this workspace.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use outlast_tidy::{Finding, Source, code, documents, packages, tree};

fn workspace() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is two folders up")
}

fn assert_none(mut findings: Vec<Finding>) {
    findings.sort();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}\n", lines.len(), lines.join("\n"));
}

#[test]
fn code_follows_the_house_rules() {
    let files = tree::read(&workspace()).expect("the workspace can be read");
    let sources: Vec<Source> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .map(|file| Source::new(&file.path, &file.text))
        .collect();
    assert!(30 < sources.len(), "found only {} Rust files: look at `tree`", sources.len());
    assert_none(sources.iter().flat_map(code::check).collect());
}

#[test]
fn documents_follow_the_house_rules() {
    let files = tree::read(&workspace()).expect("the workspace can be read");
    assert_none(documents::check(&files));
}

#[test]
fn packages_follow_the_arrows_of_the_design() {
    let cargo = env::var_os("CARGO").expect("cargo runs this test and says where it is");
    let answer = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(workspace())
        .output()
        .expect("cargo can be run");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let metadata = serde_json::from_slice(&answer.stdout).expect("cargo answers with JSON");
    let workspace = workspace();
    let packages = packages::read(&metadata, &workspace.to_string_lossy());
    assert!(8 < packages.len(), "cargo knows only {} packages", packages.len());
    assert_none(packages::check(&packages));
}
