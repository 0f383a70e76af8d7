//! The pool: who evaluates what, for how long, and what became of it.
//!
//! There are two lanes. What has not ended after a moment is stopped and begins again, with all of its
//! time, beside others like it: so expressions that never end hold up each other, and nobody else for
//! long. An evaluation has no effects, and may be made as often as one likes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlast_expressions::Value;
use outlast_expressions::worker::{Budget, Reply, Request, frame_length};
use outlast_workflow::EvaluationRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::verdict::{self, Verdict};

/// How many workers a request is given when they die of something else than the request.
const ATTEMPTS_MAX: usize = 3;

/// How much of a dead worker's last words is read.
const LAST_WORDS_BYTES_MAX: u64 = 4_096;

/// How a pool starts and limits its workers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program that a worker is.
    pub program: PathBuf,
    /// The arguments that make the program a worker.
    pub arguments: Vec<OsString>,
    /// How many workers there are at most in each lane.
    pub workers: usize,
    /// How many evaluations may wait for a worker.
    pub waiting: usize,
    /// How long an evaluation may take.
    pub deadline: Duration,
    /// How much of that it may take in the lane of those that end soon.
    pub soon: Duration,
    /// How much memory a worker may use.
    pub memory_bytes: u64,
}

impl Settings {
    /// Two workers of this very program for each lane, a second and 256 MiB for each evaluation.
    pub fn of_this_program() -> std::io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: vec!["expression-worker".into()],
            workers: 2,
            waiting: 1_024,
            deadline: Duration::from_secs(1),
            soon: Duration::from_millis(100),
            memory_bytes: 256 * 1024 * 1024,
        })
    }
}

/// Why there is no value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvaluationFailure {
    /// The expression has none for this input, or spent its budget.
    #[error("{0}")]
    Expression(String),
    /// The node could not find out.
    #[error("the expression could not be evaluated: {0}")]
    NodeFault(String),
}

/// Evaluates expressions in worker processes. Cheap to clone; clones share the workers.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    settings: Settings,
    /// One permit for each evaluation that is under way or waits.
    admission: Semaphore,
    /// One permit for each worker of those that end soon.
    turns: Semaphore,
    /// One permit for each worker of those that do not.
    long_turns: Semaphore,
    /// Workers that are alive as far as we know and have nothing to do.
    idle: Mutex<Vec<Worker>>,
}

/// What became of a request in one lane.
enum Outcome {
    Ended(Result<Value, EvaluationFailure>),
    /// Its time there was over before.
    Overdue,
}

/// How one attempt ended, if not with a reply.
enum Ended {
    /// The deadline passed and we killed the worker.
    Overdue,
    /// The worker is dead or makes no sense.
    Lost(Verdict),
}

impl Pool {
    /// A pool without workers yet; they are started when they are needed.
    pub fn new(settings: Settings) -> Self {
        let admission = Semaphore::new(settings.workers + settings.waiting);
        let [turns, long_turns] = [(); 2].map(|()| Semaphore::new(settings.workers));
        Self(Arc::new(Inner { settings, admission, turns, long_turns, idle: Mutex::default() }))
    }

    /// Evaluates an expression, in its turn.
    pub async fn evaluate(&self, request: EvaluationRequest) -> Result<Value, EvaluationFailure> {
        let Inner { settings, admission, turns, long_turns, .. } = &*self.0;
        let full = |_| EvaluationFailure::NodeFault("too many evaluations are waiting".to_owned());
        let _admitted = admission.try_acquire().map_err(full)?;
        let EvaluationRequest { source, input, bindings, timeout } = request;
        let deadline = timeout.map_or(settings.deadline, |it| it.min(settings.deadline));
        let frame = Request { source, input, bindings }.to_frame().map_err(|error| {
            EvaluationFailure::Expression(format!("the expression is given too much: {error}"))
        })?;
        let soon = deadline.min(settings.soon);
        let first = self.in_turn(turns, &frame, soon).await;
        let last = match first {
            Outcome::Overdue if soon < deadline => self.in_turn(long_turns, &frame, deadline).await,
            outcome => outcome,
        };
        match last {
            Outcome::Ended(result) => result,
            Outcome::Overdue => {
                let message = format!("the expression took longer than {deadline:?}");
                Err(EvaluationFailure::Expression(message))
            }
        }
    }

    async fn in_turn(&self, lane: &Semaphore, frame: &[u8], deadline: Duration) -> Outcome {
        let _turn = lane.acquire().await.expect("the pool never closes its turns");
        self.attempt(frame, deadline).await
    }

    /// Gives the request to one worker after the other until one dies of it, answers or takes too long,
    /// or enough died of something else.
    async fn attempt(&self, frame: &[u8], deadline: Duration) -> Outcome {
        let mut fault = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let worker = match self.worker().await {
                Ok(worker) => worker,
                Err(error) => {
                    fault = format!("no worker could be started: {error}");
                    continue;
                }
            };
            match self.ask(worker, frame, deadline).await {
                Ok(Reply::Value(value)) => return Outcome::Ended(Ok(value)),
                Err(Ended::Overdue) => return Outcome::Overdue,
                Ok(Reply::Failure(message)) | Err(Ended::Lost(Verdict::Expression(message))) => {
                    return Outcome::Ended(Err(EvaluationFailure::Expression(message)));
                }
                Err(Ended::Lost(Verdict::Node(reason))) => fault = reason,
            }
        }
        tracing::warn!(reason = %fault, "workers keep dying");
        Outcome::Ended(Err(EvaluationFailure::NodeFault(fault)))
    }

    async fn worker(&self) -> std::io::Result<Worker> {
        let idle = self.0.idle.lock().expect("nothing panics while it holds this").pop();
        match idle {
            Some(worker) => Ok(worker),
            None => Worker::start(&self.0.settings).await,
        }
    }

    /// One request to one worker, which returns to the pool if it answers and is gone otherwise.
    async fn ask(
        &self,
        mut worker: Worker,
        frame: &[u8],
        deadline: Duration,
    ) -> Result<Reply, Ended> {
        match timeout(deadline, worker.exchange(frame)).await {
            Err(_) => {
                worker.kill().await;
                Err(Ended::Overdue)
            }
            Ok(Ok(reply)) => {
                self.0.idle.lock().expect("nothing panics while it holds this").push(worker);
                Ok(reply)
            }
            Ok(Err(error)) => Err(Ended::Lost(worker.autopsy(&error, &self.0.settings).await)),
        }
    }
}

/// A worker process and the pipes to it. It dies when this is dropped.
struct Worker {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    last_words: ChildStderr,
}

impl Worker {
    async fn start(settings: &Settings) -> std::io::Result<Self> {
        let mut process = Command::new(&settings.program)
            .args(&settings.arguments)
            // What a worker answers must not depend on where it runs.
            .env_clear()
            // The limit on its memory is one on its address space: the allocator may not reserve more of
            // that than it needs (in KiB).
            .env("MIMALLOC_ARENA_RESERVE", "16384")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // An interrupt from the terminal is for the node, which ends its workers itself.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("a worker without pipes");
        let mut input = process.stdin.take().ok_or_else(missing)?;
        let output = process.stdout.take().ok_or_else(missing)?;
        let last_words = process.stderr.take().ok_or_else(missing)?;
        let processor_seconds = settings.deadline.as_secs() + 1;
        let budget = Budget { memory_bytes: settings.memory_bytes, processor_seconds };
        input.write_all(&budget.to_frame()).await?;
        Ok(Self { process, input, output, last_words })
    }

    async fn exchange(&mut self, frame: &[u8]) -> std::io::Result<Reply> {
        self.input.write_all(frame).await?;
        self.input.flush().await?;
        let mut prefix = [0; 4];
        self.output.read_exact(&mut prefix).await?;
        let mut body = vec![0; frame_length(prefix).map_err(std::io::Error::other)?];
        self.output.read_exact(&mut body).await?;
        Reply::from_frame(&body).map_err(std::io::Error::other)
    }

    async fn kill(&mut self) {
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, "a worker could not be killed");
        }
    }

    /// Finds out what the worker died of. One that is not dead but makes no sense is killed.
    async fn autopsy(mut self, error: &std::io::Error, settings: &Settings) -> Verdict {
        let Ok(Ok(status)) = timeout(settings.deadline, self.process.wait()).await else {
            self.kill().await;
            return Verdict::Node(format!("the worker makes no sense: {error}"));
        };
        let mut last_words = Vec::new();
        let reading = self.last_words.take(LAST_WORDS_BYTES_MAX).read_to_end(&mut last_words).await;
        if let Err(error) = reading {
            tracing::debug!(%error, "a worker's last words were lost");
        }
        verdict::judge(status, &String::from_utf8_lossy(&last_words), settings.memory_bytes)
    }
}
