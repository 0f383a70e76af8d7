//! One life of a process: from its start to its end, or to its death.
//!
//! What it says is gathered while it runs. Nothing here sleeps: whoever waits, waits for the next
//! line of the process with a time limit, and looks again.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::flows::End;

/// How often a condition is looked at while nothing is said.
const LOOK: Duration = Duration::from_millis(1);
/// How long the last words of an ended process may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A running process.
pub(crate) struct Life {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    said: Receiver<()>,
}

/// What became of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; nothing if a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Everything it wrote to stdout.
    pub(crate) stdout: String,
    /// Everything it wrote to stderr.
    pub(crate) stderr: String,
}

/// Why waiting came to an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// The condition holds.
    Holds,
    /// The process ended first.
    Ended,
    /// The time is over.
    TimeOver,
}

impl Life {
    /// Starts a process.
    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (speaker, said) = channel();
        let stdout = gather(child.stdout.take().unwrap(), speaker.clone());
        let stderr = gather(child.stderr.take().unwrap(), speaker);
        Self { child, stdout, stderr, said }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// What it wrote to stdout so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// What it writes to stdout, as it grows.
    pub(crate) fn stdout_so_far(&self) -> Arc<Mutex<String>> {
        Arc::clone(&self.stdout)
    }

    /// Waits until something holds, the process ends or the time is over.
    pub(crate) fn until(&mut self, time: Duration, mut holds: impl FnMut() -> bool) -> Waited {
        let begin = Instant::now();
        loop {
            if holds() {
                return Waited::Holds;
            }
            if self.child.try_wait().unwrap().is_some() {
                return Waited::Ended;
            }
            if time <= begin.elapsed() {
                return Waited::TimeOver;
            }
            self.pause(LOOK);
        }
    }

    /// Waits until its stderr contains a text.
    pub(crate) fn until_says(&mut self, time: Duration, text: &str) -> Waited {
        let stderr = Arc::clone(&self.stderr);
        self.until(time, || stderr.lock().unwrap().contains(text))
    }

    /// Lets it live on for a while.
    pub(crate) fn lasts(&mut self, time: Duration) -> Waited {
        self.until(time, || false)
    }

    fn pause(&self, time: Duration) {
        // Both pipes are closed only when the process is about to end, so this does not spin long.
        if self.said.recv_timeout(time) == Err(RecvTimeoutError::Disconnected) {
            thread::yield_now();
        }
    }

    /// Kills it with -9. Whether it was still alive is told by `signal`.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        self.hear_out();
        self.ended(status)
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.id().to_string()]).status();
        assert!(sent.unwrap().success(), "kill {name}");
    }

    /// Waits for its end.
    pub(crate) fn end(mut self, patience: Duration) -> Ended {
        let waited = self.until(patience, || false);
        if waited != Waited::Ended {
            let ended = self.kill();
            panic!("not at its end after {patience:?}:\n{}", ended.story());
        }
        let status = self.child.wait().unwrap();
        self.hear_out();
        self.ended(status)
    }

    /// The last words may still be in the pipes; the readers hang up when they have them all.
    fn hear_out(&self) {
        while self.said.recv_timeout(LAST_WORDS).is_ok() {}
    }

    fn ended(&self, status: ExitStatus) -> Ended {
        Ended {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }
}

/// A test that is done leaves nothing running.
impl Drop for Life {
    fn drop(&mut self) {
        // It has usually ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Whether it died by kill -9.
    pub(crate) fn was_killed(&self) -> bool {
        self.signal == Some(9)
    }

    /// Whether it told how the execution ended, even if it did not come to its own end.
    pub(crate) fn told(&self, end: End) -> bool {
        match end {
            End::Completed => serde_json::from_str::<serde_json::Value>(&self.stdout).is_ok(),
            End::Compensated => self.stderr.contains("compensated: what had been done is undone"),
        }
    }

    /// All of it, for a failed test.
    pub(crate) fn story(&self) -> String {
        let Self { code, signal, stdout, stderr } = self;
        format!("exit {code:?}, signal {signal:?}\nstdout:\n{stdout}stderr:\n{stderr}")
    }
}

fn gather(pipe: impl Read + Send + 'static, speaker: Sender<()>) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let gathered = Arc::clone(&text);
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            gathered.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
            // Who started the process may not listen any more.
            let _ = speaker.send(());
        }
    });
    text
}
