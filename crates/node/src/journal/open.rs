//! Opening a journal: lock, survey, cut, sync, and the writer's thread.

use std::fs::{File, OpenOptions};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use super::error::JournalError;
use super::queue::Queue;
use super::records::{Records, Recovered};
use super::segment::{self, HEADER_BYTES, Header, Prepared};
use super::survey::{self, Expectation, Extent, Survey};
use super::writer::Writer;
use super::{Event, Journal, Options};
use crate::data::Lock;

/// See [`Journal::open`].
pub(super) fn open(
    directory: &Path,
    options: Options,
    on_event: Box<dyn FnMut(Event) + Send>,
) -> Result<(Journal, Recovered), JournalError> {
    if options.may_be_new {
        segment::create_directory(directory).map_err(JournalError::io("create", directory))?;
    }
    let lock = Lock::acquire(directory)?;
    segment::remove_prepared(directory).map_err(JournalError::io("tidy", directory))?;
    let mut survey = read(directory, &options)?;
    if survey.segments.is_empty() {
        survey.segments.push(first_segment(directory, &options)?);
    }
    let last = survey.segments.last().expect("there is at least one segment").clone();
    let file = make_whole(&last, survey.torn.is_some())?;
    let queue = Arc::new(Queue::new(last.header.salt, options.queue_bytes_max, last.next));
    let segments = survey.segments.iter().map(|extent| (extent.header.number, extent.header.first));
    let segments = Arc::new(Mutex::new(segments.collect()));
    let writer = Writer {
        directory: directory.to_owned(),
        options,
        queue: queue.clone(),
        segments: Arc::clone(&segments),
        on_event,
        file,
        header: last.header,
        offset: last.end,
        closed: last.closed || last.end == HEADER_BYTES,
        preparing: None,
    };
    let recovered = Recovered {
        count: survey.records,
        torn: survey.torn,
        closed: last.closed,
        records: Records::new(survey.segments),
    };
    let writer = Some(start(writer, directory)?);
    let directory = directory.to_owned();
    let truncation = Mutex::new(());
    Ok((Journal { directory, queue, segments, truncation, writer, _lock: lock }, recovered))
}

/// Surveys the journal and refuses it if anything is damaged.
fn read(directory: &Path, options: &Options) -> Result<Survey, JournalError> {
    let expectation = Expectation {
        incarnation: Some(options.incarnation),
        checkpoint: options.checkpoint,
        may_be_new: options.may_be_new,
    };
    let survey = survey::survey(directory, &expectation)
        .map_err(JournalError::io("read the journal in", directory))?;
    match survey.damage.first() {
        Some(damage) => Err(damage.clone().into()),
        None => Ok(survey),
    }
}

fn first_segment(directory: &Path, options: &Options) -> Result<Extent, JournalError> {
    let header = Header {
        number: 1,
        first: 1,
        incarnation: options.incarnation,
        capacity: options.segment_bytes_min.max(2 * HEADER_BYTES),
        salt: crc32fast::hash(&options.incarnation.to_le_bytes()),
    };
    let file = segment::path(directory, header.number);
    Prepared::make(directory, header.capacity)
        .and_then(|prepared| prepared.name(directory, &header))
        .map_err(JournalError::io("create", &file))?;
    let (end, next, length) = (HEADER_BYTES, header.first, header.capacity);
    Ok(Extent { file, header, end, next, length, closed: false })
}

/// Makes the last segment fit to be written on: zeros behind its records, and all of it on disk.
///
/// A process that was killed may have left records that are in the page cache only. Once they are
/// handed out they count as durable, so they are synced here.
fn make_whole(last: &Extent, torn: bool) -> Result<File, JournalError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&last.file)
        .map_err(JournalError::io("open", &last.file))?;
    if torn || last.length < last.header.capacity {
        segment::fill_with_zeros(&file, last.end, last.header.capacity)
            .map_err(JournalError::io("cut the torn tail of", &last.file))?;
    }
    file.sync_data().map_err(JournalError::io("sync", &last.file))?;
    Ok(file)
}

fn start(writer: Writer, directory: &Path) -> Result<thread::JoinHandle<()>, JournalError> {
    let queue = writer.queue.clone();
    thread::Builder::new()
        .name("journal".into())
        .spawn(move || {
            // Whatever ends the writer, those who wait for it must learn of it.
            if panic::catch_unwind(AssertUnwindSafe(|| writer.run())).is_err() {
                queue.poison("the writer panicked".into());
            }
        })
        .map_err(JournalError::io("start a thread for", directory))
}
