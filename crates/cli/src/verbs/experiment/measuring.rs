//! Measuring on several threads: each takes the next run until none is left. What is measured does not
//! depend on who measured it when.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long a pipe waits at least for the next line about the progress.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Measures so many runs, and gives what was measured in their order.
pub(super) fn measure_all<T: Send>(
    count: usize,
    threads: usize,
    measure: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let progress = Progress::new(count);
    let work = || {
        let mut measured = Vec::new();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if count <= run {
                return measured;
            }
            measured.push((run, measure(run)));
            progress.one_more();
        }
    };
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    progress.finish();
    all.sort_unstable_by_key(|(run, _)| *run);
    all.into_iter().map(|(_, measured)| measured).collect()
}

/// What people see meanwhile, on stderr: a bar on a terminal, a line now and then in a pipe.
struct Progress {
    bar: ProgressBar,
    count: usize,
    done: AtomicUsize,
    /// The next line that a pipe gets, counted from the start.
    lines: AtomicUsize,
    start: Instant,
}

impl Progress {
    fn new(count: usize) -> Self {
        let template = "{bar:40} {pos} of {len} executions, {eta} to go";
        let bar = if std::io::stderr().is_terminal() {
            let style =
                ProgressStyle::with_template(template).expect("the template is well-formed");
            ProgressBar::new(count as u64).with_style(style)
        } else {
            ProgressBar::hidden()
        };
        let (done, lines) = (AtomicUsize::new(0), AtomicUsize::new(1));
        Self { bar, count, done, lines, start: Instant::now() }
    }

    fn one_more(&self) {
        self.bar.inc(1);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let line = self.lines.load(Ordering::Relaxed);
        let due = LINE_EVERY * u32::try_from(line).unwrap_or(u32::MAX) <= self.start.elapsed();
        let next = line + 1;
        let is_mine = due
            && self
                .lines
                .compare_exchange(line, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine && self.bar.is_hidden() {
            tell!("{done} of {} executions", self.count);
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
        tell!("{} executions in {:.1} s", self.count, self.start.elapsed().as_secs_f64());
    }
}
