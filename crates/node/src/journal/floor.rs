//! The floor: how fast this machine can do the bare writes, without an engine.
//!
//! A number of threads each append sequential records to one group-commit log and wait for every
//! one of them: a mutex and a condition, one writer thread that swaps the buffer, one write and one
//! fdatasync on a preallocated file, and all are woken. Nothing that stores every step can be
//! faster on the same disk, so this is what the engine is measured against.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::segment::fill_with_zeros;

/// Bytes of the log; written round and round.
const LOG_BYTES: u64 = 64 * 1024 * 1024;

/// What the bare log reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FloorReport {
    /// Threads that appended.
    pub concurrency: usize,
    /// Sequential records that make one workflow.
    pub steps: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Workflows that were finished.
    pub workflows: u64,
    /// Records that were stored, per second.
    pub steps_per_second: f64,
    /// Syncs per second.
    pub syncs_per_second: f64,
    /// Half of the workflows took at most this long, in milliseconds.
    pub p50_ms: f64,
    /// All but one in a hundred took at most this long, in milliseconds.
    pub p99_ms: f64,
}

/// Measures the floor in a directory, in a file that is removed afterwards.
pub fn bench_floor(
    directory: &Path,
    concurrency: usize,
    steps: usize,
    record_bytes: usize,
    duration: Duration,
) -> io::Result<FloorReport> {
    let path = directory.join("floor.tmp");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
    let measured = fill_with_zeros(&file, 0, LOG_BYTES).and_then(|()| {
        let log = Log::default();
        let started = Instant::now();
        let mut latencies = run(&log, &file, concurrency, steps, record_bytes, duration)?;
        let seconds = started.elapsed().as_secs_f64();
        latencies.sort_unstable();
        let syncs = log.lock().syncs;
        let workflows = latencies.len() as u64;
        Ok(FloorReport {
            concurrency,
            steps,
            record_bytes,
            seconds,
            workflows,
            steps_per_second: (workflows * steps as u64) as f64 / seconds,
            syncs_per_second: syncs as f64 / seconds,
            p50_ms: quantile(&latencies, 0.50),
            p99_ms: quantile(&latencies, 0.99),
        })
    });
    fs::remove_file(&path)?;
    measured
}

/// Runs the writer and the workflows, and gives how long each workflow took.
fn run(
    log: &Log,
    file: &File,
    concurrency: usize,
    steps: usize,
    record_bytes: usize,
    duration: Duration,
) -> io::Result<Vec<Duration>> {
    let record = vec![0x5a; record_bytes];
    let until = Instant::now() + duration;
    thread::scope(|scope| {
        let writer = scope.spawn(|| log.write_until_closed(file));
        let workflows: Vec<_> = (0..concurrency)
            .map(|_| scope.spawn(|| run_workflows(log, &record, steps, until)))
            .collect();
        let latencies = workflows
            .into_iter()
            .flat_map(|thread| thread.join().expect("a workflow does not panic"))
            .collect();
        log.lock().closing = true;
        log.filled.notify_one();
        writer.join().expect("the writer does not panic")?;
        Ok(latencies)
    })
}

fn run_workflows(log: &Log, record: &[u8], steps: usize, until: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let started = Instant::now();
        if (0..steps).any(|_| !log.append_and_wait(record)) {
            break;
        }
        latencies.push(started.elapsed());
    }
    latencies
}

/// The bare log.
#[derive(Default)]
struct Log {
    state: Mutex<LogState>,
    filled: Condvar,
    synced: Condvar,
}

#[derive(Default)]
struct LogState {
    pending: Vec<u8>,
    appended: u64,
    durable: u64,
    syncs: u64,
    closing: bool,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the record was stored.
    fn append_and_wait(&self, record: &[u8]) -> bool {
        let mut state = self.lock();
        state.pending.extend_from_slice(record);
        state.appended += 1;
        let mine = state.appended;
        self.filled.notify_one();
        while state.durable < mine && !state.closing {
            state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        mine <= state.durable
    }

    fn write_until_closed(&self, file: &File) -> io::Result<()> {
        let (mut buffer, mut offset) = (Vec::new(), 0);
        loop {
            let mut state = self.lock();
            while state.pending.is_empty() && !state.closing {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.pending.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut state.pending, &mut buffer);
            let appended = state.appended;
            drop(state);
            if LOG_BYTES < offset + buffer.len() as u64 {
                offset = 0;
            }
            let outcome = file.write_all_at(&buffer, offset).and_then(|()| file.sync_data());
            offset += buffer.len() as u64;
            buffer.clear();
            let mut state = self.lock();
            match outcome {
                Ok(()) => (state.durable, state.syncs) = (appended, state.syncs + 1),
                Err(_) => state.closing = true,
            }
            self.synced.notify_all();
            drop(state);
            outcome?;
        }
    }
}

fn quantile(sorted: &[Duration], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_what_it_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let report = bench_floor(directory.path(), 4, 10, 256, Duration::from_millis(100)).unwrap();
        assert!(0 < report.workflows);
        assert!(0.0 < report.p50_ms && report.p50_ms <= report.p99_ms);
        assert!(report.syncs_per_second <= report.steps_per_second);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
