//! Reading everything in a data directory and telling of all that is wrong, changing nothing.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{DataError, claim, journal_path, store_path};
use crate::journal::TornTail;
use crate::journal::survey::{Expectation, Survey, survey};
use crate::store::{self, Census};

/// What is in a data directory, and what is wrong with it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The directory.
    pub directory: PathBuf,
    /// The node, in hexadecimal.
    pub node: String,
    /// The incarnation, in hexadecimal.
    pub incarnation: String,
    /// How often it was started.
    pub epoch: u64,
    /// What is in the journal.
    pub journal: JournalReport,
    /// What is in the store; nothing if it could not be read.
    pub store: Option<Census>,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
}

/// What is in a journal.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalReport {
    /// Segments that could be read.
    pub segments: usize,
    /// Records in them.
    pub records: u64,
    /// The position of the first record.
    pub first: u64,
    /// The position the next record will get.
    pub next: u64,
    /// Whether it was closed in good order.
    pub closed: bool,
    /// The half-written end that the next start will cut off. This is no damage.
    pub torn: Option<TornTail>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The byte in it, where that is known.
    pub offset: Option<u64>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Reads every segment and the whole store of a stopped node.
pub fn check(directory: &Path) -> Result<Report, DataError> {
    let (_lock, meta) = claim(directory)?;
    check_claimed(directory, &meta)
}

/// The same, when the directory is locked already.
pub(super) fn check_claimed(directory: &Path, meta: &super::Meta) -> Result<Report, DataError> {
    let mut problems = Vec::new();
    let store = if meta.ready { check_store(directory, &mut problems) } else { None };
    let expectation = Expectation {
        incarnation: Some(meta.incarnation),
        checkpoint: store.map_or(0, |store| store.mark),
        may_be_new: !meta.ready,
    };
    let journal = check_journal(directory, &expectation, &mut problems);
    Ok(Report {
        directory: directory.to_owned(),
        node: format!("{:016x}", meta.node.0),
        incarnation: format!("{:016x}", meta.incarnation),
        epoch: meta.epoch.0,
        journal,
        store,
        problems,
    })
}

fn check_store(directory: &Path, problems: &mut Vec<Problem>) -> Option<Census> {
    let file = store_path(directory);
    match store::check(&file) {
        Ok(census) => Some(census),
        Err(error) => {
            problems.push(Problem { file, offset: None, message: error.to_string() });
            None
        }
    }
}

fn check_journal(
    directory: &Path,
    expectation: &Expectation,
    problems: &mut Vec<Problem>,
) -> JournalReport {
    let file = journal_path(directory);
    if !file.exists() && expectation.may_be_new {
        return JournalReport::default();
    }
    match survey(&file, expectation) {
        Ok(survey) => {
            problems.extend(survey.damage.iter().map(|damage| Problem {
                file: damage.file.clone(),
                offset: Some(damage.offset),
                message: damage.to_string(),
            }));
            report_of(survey)
        }
        Err(error) => {
            let message = format!("cannot read {}: {error}", file.display());
            problems.push(Problem { file, offset: None, message });
            JournalReport::default()
        }
    }
}

fn report_of(survey: Survey) -> JournalReport {
    JournalReport {
        segments: survey.segments.len(),
        records: survey.records,
        first: survey.segments.first().map_or(0, |segment| segment.header.first),
        next: survey.segments.last().map_or(0, |segment| segment.next),
        closed: survey.segments.last().is_some_and(|segment| segment.closed),
        torn: survey.torn,
    }
}
