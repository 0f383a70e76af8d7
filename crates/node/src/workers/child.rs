//! The worker process itself: what `outlast expression-worker` does.

use std::io::{self, Read, Write};
use std::thread;

use outlast_expressions::worker::{Budget, Evaluator, Request, frame_length};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The stack that expressions recurse on; a recursion that needs more is refused by dying.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// Answers requests from standard input until it ends. Returns an error if something is not as the
/// pool sends it, or if the limits cannot be set: a worker without limits must not work.
pub fn serve_stdin() -> io::Result<()> {
    // A panic is answered as a failure of the expression; its message would only fill the pipe that
    // tells the pool what the worker died of.
    std::panic::set_hook(Box::new(|_| {}));
    let budget =
        Budget::from_frame(&read_frame()?.unwrap_or_default()).map_err(io::Error::other)?;
    limit(Resource::As, budget.memory_bytes)?;
    limit(Resource::Core, 0)?;
    let serving = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || serve(budget))?;
    serving.join().map_err(|_| io::Error::other("the worker panicked"))?
}

fn serve(budget: Budget) -> io::Result<()> {
    let mut evaluator = Evaluator::default();
    while let Some(body) = read_frame()? {
        let request = Request::from_frame(&body).map_err(io::Error::other)?;
        drop(body);
        limit_processor_time(budget.processor_seconds)?;
        let reply = evaluator.answer(&request).to_frame();
        let mut output = io::stdout().lock();
        output.write_all(&reply)?;
        output.flush()?;
    }
    Ok(())
}

/// One frame, or nothing when the pool has closed the pipe.
fn read_frame() -> io::Result<Option<Vec<u8>>> {
    let mut input = io::stdin().lock();
    let mut prefix = [0; 4];
    match input.read_exact(&mut prefix) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; frame_length(prefix).map_err(io::Error::other)?];
    input.read_exact(&mut body)?;
    Ok(Some(body))
}

fn limit(resource: Resource, amount: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(amount), maximum: Some(amount) };
    Ok(setrlimit(resource, limit)?)
}

/// Gives the process this much more time than it has used. The pool kills a worker much earlier; this
/// ends one whose pool has died.
fn limit_processor_time(seconds: u64) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    let limit = Rlimit { current: Some(used + seconds + 1), maximum: None };
    Ok(setrlimit(Resource::Cpu, limit)?)
}
