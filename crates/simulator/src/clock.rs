//! A node's clock: it may be off, jump and stand still, but what the node reads never goes back.
//!
//! A production driver reads the wall clock once and counts on from there, so it sees jumps only when
//! it starts. Here those forward are seen at once, which is harsher and needs no restart; those back
//! are seen when the node starts again, and no earlier time is shown than before.

use std::time::Duration;

use outlast_lineage::Time;

/// A node's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// How far it is ahead of the world, in microseconds; behind, if less than nothing.
    offset: i64,
    /// By how much it was set back since the node started.
    set_back: i64,
    /// Since when it stands still, if it does.
    stalled: Option<Time>,
    /// The latest time that was read.
    read: Time,
}

impl Clock {
    /// A clock that is off by so many microseconds.
    pub(crate) const fn off_by(offset: i64) -> Self {
        Self { offset, set_back: 0, stalled: None, read: Time::from_micros(0) }
    }

    /// What the node reads at a time of the world.
    pub(crate) fn read(&mut self, now: Time) -> Time {
        let shown = shift(self.stalled.unwrap_or(now), self.offset);
        self.read = self.read.max(shown);
        self.read
    }

    /// When, in the world, the node reads a time; too early if the clock changes or stands still.
    pub(crate) fn when(&self, now: Time, shown: Time) -> Time {
        let at = shift(shown, -self.offset);
        match self.stalled {
            // It may go on at any time; looking again every so often is enough.
            Some(_) => now.after(Duration::from_millis(10)),
            None => at.max(now),
        }
    }

    /// Jumps by so many microseconds.
    pub(crate) const fn jump(&mut self, by: i64) {
        if by < 0 {
            self.set_back = self.set_back.saturating_add(by);
        } else {
            self.offset = self.offset.saturating_add(by);
        }
    }

    /// The node starts at a time of the world: it goes by the clock as it was set, but for what it
    /// has recorded.
    pub(crate) fn start(&mut self, now: Time) {
        self.offset = self.offset.saturating_add(std::mem::take(&mut self.set_back));
        let shown = shift(self.stalled.unwrap_or(now), self.offset);
        let ahead = i64::try_from(self.read.since(shown).as_micros()).unwrap_or(i64::MAX);
        self.offset = self.offset.saturating_add(ahead);
    }

    /// Stands still from now on.
    pub(crate) fn stall(&mut self, now: Time) {
        self.stalled.get_or_insert(now);
    }

    /// Goes on from where it stood still.
    pub(crate) fn go_on(&mut self, now: Time) {
        if let Some(since) = self.stalled.take() {
            let stood = i64::try_from(now.since(since).as_micros()).unwrap_or(i64::MAX);
            self.offset = self.offset.saturating_sub(stood);
        }
    }
}

const fn shift(time: Time, by: i64) -> Time {
    Time::from_micros(time.as_micros().saturating_add_signed(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn never_goes_back() {
        let mut clock = Clock::off_by(5);
        assert_eq!(clock.read(at(100)), at(105));
        clock.jump(-50);
        assert_eq!(clock.read(at(110)), at(115));
        clock.start(at(120));
        assert_eq!(clock.read(at(120)), at(115));
        assert_eq!(clock.read(at(130)), at(125));
        assert_eq!(clock.when(at(130), at(135)), at(140));
    }

    #[test]
    fn shows_that_it_was_set_back_when_the_node_starts_later() {
        let mut clock = Clock::off_by(5);
        assert_eq!(clock.read(at(100)), at(105));
        clock.jump(-50);
        clock.start(at(200));
        assert_eq!(clock.read(at(200)), at(155));
    }

    #[test]
    fn goes_on_from_where_it_stood_still() {
        let mut clock = Clock::default();
        clock.stall(at(100));
        assert_eq!(clock.read(at(500)), at(100));
        clock.go_on(at(500));
        assert_eq!(clock.read(at(510)), at(110));
        assert_eq!(clock.when(at(510), at(120)), at(520));
    }
}
