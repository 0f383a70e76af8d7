//! A condition that costs nothing while nobody waits for it.
//!
//! Ringing a bare condition is a system call even if nobody waits, and whoever is woken while the
//! lock is still held goes straight to sleep again. So sleepers are counted, and the lock is given up
//! before they are woken: one step of a workflow alone is then two calls for each hand-over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes those who wait for a change of what one lock guards. What it guards must be whole between
/// any two statements: a panic elsewhere is not looked at.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    condition: Condvar,
    /// Changed only by who holds the lock.
    sleepers: AtomicUsize,
}

impl Bell {
    /// Gives the lock up until the bell rings.
    pub(crate) fn wait<'a, T>(&self, state: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let state = self.condition.wait(state).unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Gives the lock up as long as something holds, but at most for a time.
    pub(crate) fn wait_while<'a, T>(
        &self,
        state: MutexGuard<'a, T>,
        time: Option<Duration>,
        mut holds: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let state = match time {
            Some(time) => {
                let waited = self.condition.wait_timeout_while(state, time, &mut holds);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.condition.wait_while(state, &mut holds);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Gives the lock up, and wakes all who wait.
    pub(crate) fn ring<T>(&self, state: MutexGuard<'_, T>) {
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        drop(state);
        if 0 < sleepers {
            self.condition.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn wakes_everyone_who_waits() {
        let (bell, state) = (Bell::default(), Mutex::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut open = state.lock().unwrap();
                    while !*open {
                        open = bell.wait(open);
                    }
                });
            }
            while bell.sleepers.load(Ordering::Relaxed) < 4 {
                thread::yield_now();
            }
            let mut open = state.lock().unwrap();
            *open = true;
            bell.ring(open);
        });
        assert_eq!(bell.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn waits_no_longer_than_it_is_told() {
        let (bell, state) = (Bell::default(), Mutex::new(()));
        let guard = state.lock().unwrap();
        drop(bell.wait_while(guard, Some(Duration::from_millis(1)), |()| true));
        assert_eq!(bell.sleepers.load(Ordering::Relaxed), 0);
    }
}
