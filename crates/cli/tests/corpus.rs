//! What fuzzing found stays fixed: every input that is kept in `fuzz/corpus` still holds to what its
//! target claims. See `docs/fuzzing.md`.

use std::fs;
use std::path::PathBuf;

#[path = "../../../fuzz/claims/documents.rs"]
mod documents;
#[path = "../../../fuzz/claims/expressions.rs"]
mod expressions;
#[path = "../../../fuzz/claims/journal.rs"]
mod journal;
#[path = "../../../fuzz/claims/records.rs"]
mod records;
#[path = "../../../fuzz/claims/requests.rs"]
mod requests;

/// Tries every kept input of a target. An input that fails is named by the last line of the output.
fn hold(target: &str, claim: fn(&[u8])) {
    let folder = [env!("CARGO_MANIFEST_DIR"), "../../fuzz/corpus", target];
    let entries = fs::read_dir(folder.iter().collect::<PathBuf>()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "there is no corpus of {target}");
    for file in files {
        let input = fs::read(&file).unwrap();
        let held = std::panic::catch_unwind(|| claim(&input));
        assert!(held.is_ok(), "{} breaks a claim; see above", file.display());
    }
}

#[test]
fn any_document_is_judged_and_what_is_accepted_is_sound() {
    hold("documents", documents::hold);
}

#[test]
fn any_bounded_expression_is_evaluated_within_bounds() {
    hold("expressions", expressions::hold);
}

#[test]
fn any_bytes_are_refused_as_a_record_or_survive_being_written() {
    hold("records", records::hold);
}

#[test]
fn any_request_can_be_sent_and_no_answer_shows_a_secret() {
    hold("requests", requests::hold);
}

#[test]
fn a_damaged_journal_never_gives_another_record() {
    hold("journal", journal::hold);
}
