//! How long a node may be silent: one that is stopped or hangs keeps its connections, and the operating system
//! takes new ones for it, so whoever waits for its answer would wait for ever.
//!
//! How long an answer takes says nothing. An end may be a year away, and a copy of much data takes an hour. So
//! whoever has no answer yet asks beside it for something that a node answers at once, again and again.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// How long nodes may be silent.
pub(crate) const PATIENCE: Patience =
    Patience { quiet: Duration::from_secs(3), silence: Duration::from_secs(7) };
/// How long to wait before a node that could not be asked for a sign of life is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a node may be silent.
pub(crate) struct Patience {
    /// After how long without an answer it is asked whether it is there, and how often.
    pub(crate) quiet: Duration,
    /// How long it may take to answer that.
    pub(crate) silence: Duration,
}

/// The node answers nothing.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Silent;

impl Patience {
    /// Waits for an answer, as long as the node shows that it is there when it is asked.
    pub(crate) async fn wait_for<T>(
        &self,
        answer: impl Future<Output = T>,
        shows_life: impl AsyncFn() -> bool,
    ) -> Result<T, Silent> {
        tokio::select! {
            biased;
            answered = answer => Ok(answered),
            () = self.until_silent(shows_life) => Err(Silent),
        }
    }

    async fn until_silent(&self, shows_life: impl AsyncFn() -> bool) {
        loop {
            sleep(self.quiet).await;
            let sign = async {
                while !shows_life().await {
                    sleep(PAUSE).await;
                }
            };
            if timeout(self.silence, sign).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn};
    use std::task::Poll;

    use super::*;

    const SHORT: Patience =
        Patience { quiet: Duration::from_millis(1), silence: Duration::from_millis(20) };

    fn run<T>(waiting: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(waiting)
    }

    #[test]
    fn an_answer_may_take_as_long_as_it_likes_while_there_are_signs_of_life() {
        let signs = Cell::new(0);
        let after_many = poll_fn(|context| match signs.get() {
            20.. => Poll::Ready("the end"),
            _ => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        });
        let shows_life = async || {
            signs.set(signs.get() + 1);
            true
        };
        assert_eq!(run(SHORT.wait_for(after_many, shows_life)), Ok("the end"));
    }

    #[test]
    fn who_shows_no_life_is_not_waited_for() {
        let waited = run(SHORT.wait_for(pending::<()>(), async || pending().await));
        assert_eq!(waited, Err(Silent), "it does not answer");
        let waited = run(SHORT.wait_for(pending::<()>(), async || false));
        assert_eq!(waited, Err(Silent), "it cannot be asked");
    }
}
