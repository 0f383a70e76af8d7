//! The one clock of a node: the wall clock read once, then the monotonic clock.
//!
//! See `docs/decisions/2026-11-15-one-clock-that-never-goes-back.md`: within one life of a node time
//! neither jumps nor goes back, and over a restart it goes on from the wall clock, or from the newest
//! time that was recorded if the wall clock was set back meanwhile.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outlast_lineage::Time;

/// How far the wall clock may part from this clock before someone should know.
const APART_MAX: Duration = Duration::from_secs(60);

/// Tells a node's time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Time,
    started: Instant,
}

impl Clock {
    /// A clock that begins at the wall's time, or at the floor if that is later.
    pub fn start(floor: Time) -> Self {
        Self { origin: wall_time().max(floor), started: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.origin.after(self.started.elapsed())
    }

    /// How far the wall clock has parted from this one, if that is more than can be overlooked.
    pub fn parted(&self) -> Option<Duration> {
        let (wall, own) = (wall_time(), self.now());
        let apart = wall.since(own).max(own.since(wall));
        (APART_MAX < apart).then_some(apart)
    }
}

fn wall_time() -> Time {
    // A wall clock before 1970 is one that was never set; the floor then does the rest.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_from_a_floor_that_the_wall_clock_has_not_reached() {
        let floor = wall_time().after(Duration::from_secs(3600));
        let clock = Clock::start(floor);
        let first = clock.now();
        assert!(floor <= first && first.since(floor) < APART_MAX);
        while clock.now() <= first {}
        assert!(clock.parted().is_some_and(|apart| Duration::from_secs(3000) < apart));
    }

    #[test]
    fn shows_the_wall_clocks_time_and_never_an_earlier_one() {
        let clock = Clock::start(Time::default());
        let first = clock.now();
        assert!(wall_time().since(first) < APART_MAX);
        assert!(first <= clock.now());
        assert_eq!(clock.parted(), None);
    }
}
